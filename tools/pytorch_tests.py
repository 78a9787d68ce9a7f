"""Write docs/pytorch_tests.md from what PyTorch's own test files gave, and why tests fail here.

``python tools/pytorch_tests.py FOLDER`` takes in results first: for a file NAME of PyTorch's, ``NAME.real.jsonl`` has
what each of its tests gave on PyTorch, and ``NAME.fp.jsonl`` what it gave with this package, one JSON object a line::

    {"id": "TestAutograd.test_select", "s": "pass", "e": null}

``s`` is ``pass``, ``skip``, or how it failed, and ``e`` a list of lines that begins with the error. Of a test that is
there twice the last line counts. Files that the folder does not have stay as they were. What is known is kept in
``tests/pytorch_tests.json``, and ``tests/pytorch_tests.toml`` has the causes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "tests" / "pytorch_tests.json"
CAUSES = ROOT / "tests" / "pytorch_tests.toml"
PAGE = ROOT / "docs" / "pytorch_tests.md"
_HEAD = """\
# PyTorch's own tests

PyTorch's test files are a measure of how much of it is here. They are no part of this project: they were fetched from
public repositories (PyTorch's `test/` at 2.1; the files of 2026 for `test_nn`, schedulers and SWA from two backends of
PyTorch), and run under the launcher, with `torch.testing._internal` from PyTorch's wheel on top of this package. A test
counts if it passes on PyTorch 2.13 on the CPU. Left out on both sides is what has no meaning here: CUDA, inductor,
`torch.jit`, quantization kernels, named and nested tensors, private backends. `ran` is smaller than what passes on
PyTorch where time did not do. `tools/pytorch_tests.py` writes this page.

## What passes

| file | passes on PyTorch | ran | passed | |
|---|---|---|---|---|
"""


def outcomes(path: Path) -> dict[str, dict[str, Any]]:
    """The last outcome of each test of a file. A run that was killed leaves a part of a line."""
    found = {}
    for text in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            line = json.loads(text)
            if "id" in line:
                found[line["id"]] = line
    return found


def measured(folder: Path, name: str) -> dict[str, Any]:
    """What a file gave: the numbers, and each test that did not pass with its error."""
    theirs, ours = outcomes(folder / f"{name}.real.jsonl"), outcomes(folder / f"{name}.fp.jsonl")
    counted = {test for test, line in theirs.items() if line["s"] == "pass"}
    ran = {test: line for test, line in ours.items() if test in counted}
    failed = {test: line for test, line in sorted(ran.items()) if line["s"] != "pass"}
    return {
        "on PyTorch": len(counted),
        "ran": len(ran),
        "failed": {test: f"{line['s']}: {_first(line['e'])}" for test, line in failed.items()},
    }


def _first(error: list[str] | None) -> str:
    text = (error or [""])[0].strip().partition("\n")[0]
    return re.sub(r"0x[0-9a-f]+", "0x", re.sub(r"(/[\w.+-]+){2,}", "PATH", text))[:160]


def page(results: dict[str, Any], causes: list[dict[str, str]]) -> str:
    """The text of the page."""
    text = _HEAD
    for name, of in results.items():
        passed = of["ran"] - len(of["failed"])
        share = f"{100 * passed / of['ran']:.1f} %" if of["ran"] else ""
        text += f"| `{_path(name)}` | {of['on PyTorch']} | {of['ran']} | {passed} | {share} |\n"
    left = [
        (f"{name}::{test}", error) for name, of in results.items() for test, error in of["failed"].items()
    ]
    text += "\n## What is left, and why\n\n| cause | tests | reason |\n|---|---|---|\n"
    for cause in causes:
        found = [pair for pair in left if re.search(cause["match"], ": ".join(pair))]
        left = [pair for pair in left if pair not in found]
        if found:
            text += f"| {cause['name']} | {_counts(found)} | {cause['reason']} |\n"
    if left:
        text += "\n## Others\n\n| test | what it gave |\n|---|---|\n"
        for test, error in left:
            text += f"| `{test}` | {error.replace('|', chr(92) + '|')} |\n"
    return text


def _counts(found: list[tuple[str, str]]) -> str:
    files = [test.partition("::")[0] for test, _ in found]
    return ", ".join(f"{files.count(name)} of `{_path(name)}`" for name in dict.fromkeys(files))


def _path(name: str) -> str:
    """Where a file is among PyTorch's tests: ``nn/test_pooling`` for ``nn_pooling``."""
    folder, _, rest = name.partition("_")
    return f"{folder}/test_{rest}" if folder in ("autograd", "functorch", "nn", "optim") else name


def main(arguments: list[str] | None = None) -> None:
    """Take in the results of a folder, if one is given, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="where the results are")
    folder = parser.parse_args(arguments).folder
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if folder is not None:
        names = sorted(path.name.removesuffix(".fp.jsonl") for path in folder.glob("*.fp.jsonl"))
        if not names:
            parser.error(f"{folder} has no file NAME.fp.jsonl")
        results = dict(sorted((results | {name: measured(folder, name) for name in names}).items()))
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(page(results, tomllib.loads(CAUSES.read_text())["cause"]))


if __name__ == "__main__":
    main()
