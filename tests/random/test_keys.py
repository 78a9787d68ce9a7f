"""Which of JAX's generators compiled functions draw from."""

from __future__ import annotations

import pytest

import functorch_port as ft


@pytest.mark.parametrize(("kind", "words"), [("threefry2x32", 2), ("rbg", 4), ("auto", 2)])
def test_the_setting(monkeypatch, kind, words):
    """A seed gives the same numbers again, and other ones with the other generator."""
    monkeypatch.setenv("FUNCTORCH_PORT_KEYS", kind)
    drawn = []
    for _ in range(2):
        generator = ft.Generator().manual_seed(3)
        run = ft.compile(lambda generator=generator: ft.rand(1000, generator=generator))
        drawn.append([run(), run()])
        assert generator.key_storage.value.shape == (words,)
    (a, b), (c, d) = drawn
    assert a.tolist() == c.tolist() and b.tolist() == d.tolist() and a.tolist() != b.tolist()
    assert 0.45 < a.mean().item() < 0.55 and 0 <= a.min().item() and a.max().item() < 1
    monkeypatch.setenv("FUNCTORCH_PORT_KEYS", "rbg" if kind == "threefry2x32" else "threefry2x32")
    other = ft.Generator().manual_seed(3)
    same = ft.compile(lambda: ft.rand(1000, generator=other))().tolist() == a.tolist()
    assert same == (kind == "auto")
