"""Run the programs of the libraries, all or those named (``transformers``, ``timm/models``), and write the results.

``python tests/ecosystem/publish.py`` writes their rows in docs/ecosystem.md; those of other programs stay. The exit
status is 1 if a program stops or differs. ``--install`` makes the environments first. ``--left`` goes on where an
earlier run ended: it leaves out what has run since the package and the program were last changed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

from running import FOLDER, HERE, ROOT, TABLE, Program, Result, Stopped, compared, programs

PAGE = ROOT / "docs" / "ecosystem.md"
_HEAD = """\
# Libraries

Libraries over PyTorch that run unmodified under `functorch-port run`, where `import torch` is this package.

For each there are small programs in `tests/ecosystem/`, such as its own guide would show: seeded, on a CPU, without a
download. Each runs by PyTorch and here, and prints numbers. The table has the largest difference, in parts of the
largest number beside it. The bound is 1e-4 in float32, and 1e-6 where a program computes in float64 and says so.
`make ecosystem` makes the environments, runs all and writes this page; with `ARGS=--left` it goes on where it stopped.

What a program of yours needs that is not here, `functorch-port check` tells without running it: [running](running.md).

| program | version | what it does | difference |
|---|---|---|---|
"""


def install() -> None:
    """Make the environments: PyTorch and what the tests have from this interpreter, and the libraries in each."""
    for name, pins in TABLE.items():
        python = _environment(FOLDER / name)
        wanted = [f"{library}=={version}" for library, version in pins.items()]
        if not _installs(python, *wanted):  # all but those that cannot be
            failed = [pin for pin in wanted if not _installs(python, pin)]
            print("not installed:", *failed, flush=True)


def _environment(folder: Path) -> Path:
    """The interpreter of an environment, which is made if it is not there or was left half made."""
    python, made = folder / "bin" / "python", folder / "made"
    if not made.exists():
        venv.create(folder, with_pip=True, clear=True)
        ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site = subprocess.check_output([python, "-c", ask], text=True).strip()
        Path(site, "base.pth").write_text(sysconfig.get_path("purelib") + "\n")
        made.touch()
    return python


def _installs(python: Path, *pins: str) -> bool:
    return subprocess.run([python, "-m", "pip", "install", "--quiet", *pins]).returncode == 0


def _mark(program: Program) -> Path:
    """A file whose time is that of the program's last run."""
    return FOLDER / "ran" / program.library / program.name


def _is_left(program: Program) -> bool:
    mark = _mark(program)
    files = [*(ROOT / "functorch_port").rglob("*.py"), *(HERE / "shared").glob("*.py"), program.path]
    return not mark.exists() or mark.stat().st_mtime < max(file.stat().st_mtime for file in files)


def _outcome(program: Program) -> Result | Stopped:
    try:
        return compared(program)
    except Stopped as stop:
        return stop


def _said(outcome: Result | Stopped) -> str:
    if isinstance(outcome, Stopped):
        return f"stops: `{str(outcome).splitlines()[-1][:160]}`"
    text = f"{outcome.difference:.0e}"
    return text if outcome.matches else f"**{text}**, in {outcome.worst}"


def _rows() -> dict[str, str]:
    """The rows of the page, by program."""
    lines = PAGE.read_text().split("\n") if PAGE.exists() else []
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}


def write(said: dict[str, str]) -> None:
    """Write what is said of programs into the page; rows of others stay, unless the library has another version."""
    rows, lines = _rows(), []
    for program in programs():
        start = f"| `{program}` | {program.version} | {program.what} |"
        kept = rows.get(str(program), "")
        if str(program) in said:
            lines.append(f"{start} {said[str(program)]} |")
        else:
            lines.append(kept if kept.startswith(start) else f"{start} not run |")
    PAGE.write_text(_HEAD + "\n".join(lines) + "\n")


def main(names: list[str], left: bool) -> int:
    """Run the programs; returns the exit status."""
    chosen = [p for p in programs() if not names or p.library in names or str(p) in names]
    failed = 0
    for program in chosen:
        if left and not _is_left(program):
            continue
        start = time.time()
        outcome = _outcome(program)
        failed += isinstance(outcome, Stopped) or not outcome.matches
        print(f"{program!s:40} {_said(outcome)}", flush=True)
        write({str(program): _said(outcome)})
        _mark(program).parent.mkdir(parents=True, exist_ok=True)
        _mark(program).touch()
        os.utime(_mark(program), (start, start))
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="LIBRARY", help="a library, or LIBRARY/PROGRAM; by default all"
    )
    parser.add_argument("--install", action="store_true", help="make the environments first")
    parser.add_argument("--left", action="store_true", help="only what has not run since the last change")
    options = parser.parse_args()
    if options.install:
        install()
    sys.exit(main(options.names, options.left))
