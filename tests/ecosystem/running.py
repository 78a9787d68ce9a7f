"""Programs that use libraries over PyTorch: run by PyTorch and by the launcher, unmodified, and what they print.

A program is ``LIBRARY/NAME.py``. It prints a JSON object of numbers, texts and lists of them as its last line.
``libraries.toml`` has the versions, by environment; `python` is the interpreter of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: where the environments are
FOLDER = Path(os.environ.get("ECOSYSTEM", ROOT / ".venv-ecosystem"))
TABLE = tomllib.loads((HERE / "libraries.toml").read_text())
#: the most that a number may differ by, in parts of the largest of its list; a program may print another "tolerance"
TOLERANCE = 1e-4
#: seconds
LIMIT = 900


class Program(NamedTuple):
    library: str
    name: str

    def __str__(self) -> str:
        return f"{self.library}/{self.name}"

    @property
    def path(self) -> Path:
        return HERE / self.library / f"{self.name}.py"

    @property
    def what(self) -> str:
        """What it does: the first line of its docstring."""
        return self.path.read_text().split('"""')[1].split("\n")[0]

    @property
    def environment(self) -> str:
        return next(name for name, pins in TABLE.items() if self.library in pins)

    @property
    def version(self) -> str:
        return TABLE[self.environment][self.library]

    @property
    def python(self) -> Path:
        return FOLDER / self.environment / "bin" / "python"


class Stopped(Exception):
    """A program ended with an error, or printed no result; the text is the end of what it wrote."""


def programs() -> list[Program]:
    """All programs, in the order of the libraries in the table; ``both_ways.py`` is a part of a test."""
    libraries = [library for pins in TABLE.values() for library in pins]
    return [
        Program(library, path.stem)
        for library in libraries
        for path in sorted((HERE / library).glob("*.py"))
        if path.stem != "both_ways"
    ]


def printed(program: Program, here: bool, *arguments: str) -> tuple[Any, float]:
    """What a program prints, and its seconds: under the launcher (`here`), or on PyTorch."""
    way = ["-m", "functorch_port", "run"] if here else [str(HERE / "on_torch.py")]
    paths = os.pathsep.join([str(ROOT), str(HERE / "shared")])
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
    settings |= {"CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg"}
    if program.library == "torchvision":  # the library itself, not this package's own
        settings["FUNCTORCH_PORT_VISION"] = "installed"
    command = [str(program.python), *way, str(program.path), *arguments]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=settings, cwd=folder, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            raise Stopped(f"it takes longer than {LIMIT} s") from None
        except FileNotFoundError:
            raise Stopped(f"the environment {program.environment} is not there") from None
    if done.returncode:
        raise Stopped(done.stderr[-6000:].strip() or f"exit status {done.returncode}")
    last = done.stdout.strip().rpartition("\n")[2]
    try:
        return json.loads(last), time.perf_counter() - start
    except json.JSONDecodeError:
        raise Stopped(f"its last line is no JSON: {last!r}") from None


def _by_pytorch(program: Program) -> tuple[Any, float]:
    """What a program prints on PyTorch, and its seconds; kept until the program or the library's version changes."""
    files = [program.path, *sorted((HERE / "shared").glob("*.py"))]
    key = hashlib.sha256(
        "\0".join([program.version, *(file.read_text() for file in files)]).encode()
    ).hexdigest()
    kept = FOLDER / "by_pytorch" / program.library / f"{program.name}-{key[:16]}.json"
    if not kept.exists():
        found = printed(program, here=False)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(found))
    return tuple(json.loads(kept.read_text()))


def difference(want: Any, got: Any) -> float:
    """The largest difference of numbers, in parts of the largest one; infinite for anything else that differs."""
    if isinstance(want, dict):
        if not isinstance(got, dict) or list(want) != list(got):
            return np.inf
        return max((difference(want[name], got[name]) for name in want), default=0.0)
    if isinstance(want, bool | str | None) or isinstance(got, bool | str | None):
        return 0.0 if want == got and type(want) is type(got) else np.inf
    expected, found = _array(want), _array(got)
    if expected is None and isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        return max((difference(*pair) for pair in zip(want, got)), default=0.0)
    if expected is None or found is None or expected.shape != found.shape:
        return np.inf
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)) or not np.array_equal(
        expected[~finite], found[~finite], equal_nan=True
    ):
        return np.inf
    largest = np.abs(expected[finite]).max(initial=0.0)
    apart = np.abs(found[finite] - expected[finite]).max(initial=0.0)
    return float(apart / largest) if largest else float(apart)


def _array(value: Any) -> np.ndarray | None:
    """Numbers, or lists of them of one length, as an array; None for anything else."""
    if not _is_numbers([value]):
        return None
    try:
        return np.asarray(value, np.float64)
    except ValueError:  # lists of several lengths
        return None


def _is_numbers(values: list[Any]) -> bool:
    return all(
        _is_numbers(v) if isinstance(v, list) else isinstance(v, int | float) and not isinstance(v, bool)
        for v in values
    )


class Result(NamedTuple):
    program: Program
    #: infinite if what is no number differs
    difference: float
    tolerance: float
    worst: str
    seconds: tuple[float, float]

    @property
    def matches(self) -> bool:
        return self.difference <= self.tolerance


def compared(program: Program) -> Result:
    """Run a program both ways.

    Raises:
        Stopped: it ends with an error.
    """
    want, slow = _by_pytorch(program)
    got, fast = printed(program, here=True)
    tolerance = want.get("tolerance", TOLERANCE)
    apart = {name: difference(want[name], got[name]) if name in got else np.inf for name in want}
    worst = max(apart, key=lambda name: apart[name])
    return Result(program, apart[worst], tolerance, worst, (slow, fast))
