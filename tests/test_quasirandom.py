"""`SobolEngine` gives PyTorch's points to the last bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import functorch_port as ft

KINDS: list[dict[str, Any]] = [{}, {"scramble": True, "seed": 7}, {"scramble": True}]


def _both(dimension: int, **options: Any) -> list[Any]:
    made = []
    for library in (torch, ft):
        library.manual_seed(3)
        made.append(library.quasirandom.SobolEngine(dimension, **options))
    return made


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("dimension", [1, 2, 40, 1111])
def test_points(dimension: int, options: dict[str, Any]) -> None:
    def drawn(engine: Any) -> list[Any]:
        library = torch if isinstance(engine, torch.quasirandom.SobolEngine) else ft
        points = [engine.draw(), engine.draw(3), engine.draw_base2(2)]
        points += [
            engine.fast_forward(5).draw(2, dtype=library.float64),
            engine.reset().fast_forward(9).draw(2),
        ]
        points += [engine.reset().fast_forward(1).draw(), engine.fast_forward(0).draw(40)]
        return [p.tolist() for p in points] + [
            engine.num_generated,
            engine.quasi.tolist(),
            engine.shift.tolist(),
        ]

    theirs, ours = _both(dimension, **options)
    assert drawn(ours) == drawn(theirs)
    assert ours.sobolstate.tolist() == theirs.sobolstate.tolist()
    assert ft.rand(1).item() == torch.rand(1).item()  # as much was drawn from the default generator
    assert repr(ours) == repr(theirs)


def test_the_largest_dimension() -> None:
    theirs, ours = _both(21201)
    assert ours.draw(9)[:, -50:].tolist() == theirs.draw(9)[:, -50:].tolist()


def test_into_a_tensor() -> None:
    theirs, ours = _both(3)
    outs = torch.empty(0), ft.empty(0)
    assert ours.draw(2, out=outs[1]) is outs[1]
    assert outs[1].tolist() == theirs.draw(2, out=outs[0]).tolist()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t: t.quasirandom.SobolEngine(0),
        lambda t: t.quasirandom.SobolEngine(21202),
        lambda t: t.quasirandom.SobolEngine(2).draw(2, dtype=t.int64),
        lambda t: t.quasirandom.SobolEngine(2).fast_forward(1).draw_base2(2),
    ],
)
def test_errors(wrong: Any) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        wrong(torch)
    with pytest.raises(theirs.type) as ours:
        wrong(ft)
    assert str(ours.value) == str(theirs.value)
