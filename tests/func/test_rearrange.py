"""`torch.func.rearrange` against torch."""

from __future__ import annotations

import programs
import pytest

import functorch_port as ft

PRELUDE = programs.PRELUDE + "r = torch.func.rearrange\na = torch.arange(24.0).reshape(2, 3, 4)\n"

CASES = """
r(a, "a b c -> c b a")
r(a, "a b c -> a (c b)")
r(a, "a b (c d) -> d (a b) c", c=2)
r(a, "(a x) b (c d) -> a b (c x) d", c=2, d=2, x=2)
r(a, "a b c -> a 1 (b c) ()")
r(a[:1], "1 b c -> b c")
r(a, "a (1 b) c -> a b c")
r(a, "a ... -> ... a")
r(a, "a ... -> (... a)")
r(a, "... -> (...)")
r([a, a + 1], "n a b c -> a (n b) c")
r(torch.tensor(1.0), "... -> ...")
r(torch.zeros(0, 3), "(a b) c -> c a b", a=2)
r(w, "a b -> b a").sum(0).prod().backward(); w.grad
torch.func.vmap(lambda x: r(x, "a b -> (b a)"))(a)
r(a, "a b -> a b")
r(a, "a b c d ... -> a b c d ...")
r(a, "a b c")
r(a, "a b c -> a b")
r(a, "a a c -> a c")
r(a, "a b 4 -> a b 4")
r(a, "a b c -> a b c", e=3)
r(a, "a b c -> a b c", a=2.0)
r(a, "a b c -> a ((b c))")
r(a, "a b c -> a (b c")
r(a, "a b c -> a b) c")
r(a, "a b c -> a b . c")
r(a, "a ... ... -> a")
r(a, "a b _c -> a b _c")
r(a, "a b 2c -> a b 2c")
r(a, "a b c -> ... a b c")
r(a, "a (...) -> a ...")
r(a, "a b c -> a b c!")
r([], "a -> a")
"""


@pytest.mark.parametrize("code", programs.cases(CASES))
def test_rearrange(code: str) -> None:
    programs.check(code, PRELUDE)


@pytest.mark.parametrize(
    ("pattern", "lengths", "text"),
    [
        ("a (b c) -> a b c", {}, r"cannot infer the sizes of \['b', 'c'\] from 6"),
        ("a (b c) -> a b c", {"b": 4}, r"a dimension of size 6 cannot be \['b', 'c'\] with {'b': 4}"),
        ("a (b c) -> a b c", {"b": 2, "c": 2}, "a dimension of size 6 cannot be"),
        ("a (b c) -> a b c", {"b": 0}, "a dimension of size 6 cannot be"),
        ("a 1 -> a", {}, r"a dimension of size 6 cannot be \[\]"),
    ],
)
def test_sizes_that_do_not_fit(pattern: str, lengths: dict[str, int], text: str) -> None:
    """PyTorch's error is one of its dimension objects', and of a dimension named 1 it takes the sum."""
    with pytest.raises(ValueError, match=text):
        ft.func.rearrange(ft.zeros(2, 6), pattern, **lengths)
