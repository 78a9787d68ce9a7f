"""Libraries over PyTorch run unmodified under the launcher, with PyTorch's results.

``make ecosystem`` makes the environments and writes the table; where there are none, as in ``make test``, all is
skipped.
"""

from __future__ import annotations

import pytest
from ecosystem import running
from ecosystem.running import HERE, Program, compared, difference, printed, programs

NONE = "the environment {} is not there: `make ecosystem` makes it"


def _needs(program: Program) -> None:
    if not program.python.exists():
        pytest.skip(NONE.format(program.environment))


@pytest.mark.parametrize("program", programs(), ids=str)
def test_prints_what_pytorch_prints(program):
    _needs(program)
    result = compared(program)
    assert result.matches, f"{result.worst} differs by {result.difference:.1e}"


def test_pretrained_models_go_both_ways(tmp_path):
    program = Program("transformers", "both_ways")
    _needs(program)
    real, mine = str(tmp_path / "real"), str(tmp_path / "mine")
    want, _ = printed(program, False, real, real)
    got, _ = printed(program, True, mine, real)
    again, _ = printed(program, False, str(tmp_path / "again"), mine)
    assert got == want == again and got[0][1] is got[1][1] is True
    for end in ("", "-shards"):
        files = {path.name: path.read_bytes() for path in (tmp_path / f"real{end}").iterdir()}
        assert files == {path.name: path.read_bytes() for path in (tmp_path / f"mine{end}").iterdir()}
        assert len(files) > (5 if end else 2)


def test_every_library_has_a_program():
    folders = {
        path.name for path in HERE.iterdir() if path.is_dir() and path.name not in ("shared", "__pycache__")
    }
    pinned = {name for pins in running.TABLE.values() for name in pins}
    assert folders == pinned == {program.library for program in programs()}


def test_differences():
    same = {"a": [1.0, 2.0], "b": "x", "c": [1, [True, None]], "d": float("nan")}
    assert difference(same, same) == 0
    assert difference([1.0, 4.0], [1.0, 4.4]) == pytest.approx(0.1) and difference([0.0], [0.5]) == 0.5
    assert difference([8.0, [2.0, 4.0]], [8.0, [2.0, 5.0]]) == 0.25
    for want, got in (
        ({"a": 1}, {"b": 1}), ([1.0], [1.0, 2.0]), ("x", "y"), (True, 1), (1.0, None), ([True], [False]),
        (float("nan"), 1.0), ([float("inf")], [float("-inf")]), ([[1.0], [2.0]], [1.0, 2.0]), ([1.0], [float("nan")]),
    ):  # fmt: skip
        assert difference(want, got) == float("inf"), (want, got)
