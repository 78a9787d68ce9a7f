"""The numbers that say when something pays."""

from __future__ import annotations

import doctest

import pytest

from functorch_port._base import tuning as module
from functorch_port._base.tuning import Tuning, tuning


def test_other_numbers_for_a_while():
    mine = Tuning(replay_after=5)
    with mine.having(replay_after=3, product_part=1):
        assert (mine.replay_after, mine.product_part) == (3, 1)
        with mine.having(replay_after=7):
            assert mine.replay_after == 7
        assert mine.replay_after == 3
    assert mine == Tuning(replay_after=5)


def test_an_error_inside_puts_them_back():
    mine = Tuning()
    with pytest.raises(KeyError), mine.having(replay_after=3):
        raise KeyError
    assert mine == Tuning()


def test_unknown_names_are_refused():
    mine = Tuning()
    with pytest.raises(
        TypeError, match=r"^tuning has no number 'replay_aftr'; did you mean 'replay_after'\?$"
    ):
        mine.having(product_part=1, replay_aftr=3).__enter__()
    with pytest.raises(TypeError, match="^tuning has no number 'zzz'$"):
        mine.having(zzz=3).__enter__()
    assert mine == Tuning()


@pytest.mark.parametrize("name", ["first", "second"])
def test_the_fixture_ends_with_its_test(name, tuned):
    assert tuning.product_part == Tuning().product_part
    tuned(product_part=1)
    tuned(product_part=2, row_least=3)
    assert (tuning.product_part, tuning.row_least) == (2, 3)


def test_examples():
    assert doctest.testmod(module).attempted > 1 and doctest.testmod(module).failed == 0
