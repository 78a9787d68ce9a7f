"""Run the programs of the libraries, all or those named (``transformers``, ``timm/models``), and write the results.

``python tests/ecosystem/publish.py`` writes their rows in docs/ecosystem.md; those of other programs stay. The exit
status is 1 if a program stops or differs. ``--install`` makes the environments first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
import venv

from running import FOLDER, ROOT, TABLE, Program, Result, Stopped, compared, programs

PAGE = ROOT / "docs" / "ecosystem.md"
_HEAD = """\
# Libraries

Libraries over PyTorch that run unmodified under `functorch-port run`, where `import torch` is this package.

For each there are small programs in `tests/ecosystem/`, such as its own guide would show: seeded, on a CPU, without a
download. Each runs by PyTorch and here, and prints numbers. The table has the largest difference, in parts of the
largest number beside it. The bound is 1e-4 in float32, and 1e-6 where a program computes in float64 and says so.
`make ecosystem` makes the environments, runs all and writes this page.

What a program of yours needs that is not here, `functorch-port check` tells without running it: [running](running.md).

| program | version | what it does | difference |
|---|---|---|---|
"""


def install() -> None:
    """Make the environments: PyTorch and what the tests have from this interpreter, and the libraries in each."""
    for name, pins in TABLE.items():
        folder = FOLDER / name
        python = folder / "bin" / "python"
        if not python.exists():
            venv.create(folder, with_pip=True)
            site = subprocess.check_output(
                [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
            ).strip()
            with open(f"{site}/base.pth", "w") as file:
                file.write(sysconfig.get_path("purelib") + "\n")
        wanted = [f"{library}=={version}" for library, version in pins.items()]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)


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


def main(names: list[str]) -> int:
    """Run the programs; returns the exit status."""
    chosen = [p for p in programs() if not names or p.library in names or str(p) in names]
    failed = 0
    for program in chosen:
        outcome = _outcome(program)
        failed += isinstance(outcome, Stopped) or not outcome.matches
        print(f"{program!s:40} {_said(outcome)}", flush=True)
        write({str(program): _said(outcome)})
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="LIBRARY", help="a library, or LIBRARY/PROGRAM; by default all"
    )
    parser.add_argument("--install", action="store_true", help="make the environments first")
    options = parser.parse_args()
    if options.install:
        install()
    sys.exit(main(options.names))
