"""`torch.testing`: the same verdicts, error types and texts as PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from nn_programs import same, tries
from twins import plain

import functorch_port as ft

nan, inf = float("nan"), float("inf")

PAIRS = {
    "numbers": [(1, 1), (1, 2), (1.0, 1.0 + 1e-8), (1.0, 1.1), (0.5, 0.0), (1j, 1j + 1), (1, 1.0), (nan, nan),
                (inf, inf)],
    "others": [(None, None), (None, 1), (True, True), (True, False), ("a", "a"), ("a", 1),
               (np.float32(1), 1.5)],
    "containers": [
        ([1, 2], (1, 3)), ([1], [1, 2]), ({"a": [1.0]}, {"a": [2.0]}), ({"a": 1, "b": 2}, {"b": 2, "c": 1}),
        ([[]], [[]]),
        ([1, {"k": (0, True)}], [1, {"k": (0, False)}]), ({1: 1, 2: 2}, {1: 1, 2: 3}), ([None], [0]),
    ],
    "arrays": [(np.ones(2), np.ones(2)), (np.ones(2), np.array([1.0, 2.0])), (np.ones(2), [1, 1]),
               (np.ones(2), np.ones(3))],
}  # fmt: skip


@pytest.mark.parametrize("kind", PAIRS)
def test_values(kind):
    def program(T):
        return [
            tries(lambda a=a, b=b: T.testing.assert_close(a, b, **options))
            for a, b in PAIRS[kind]
            for options in ({}, {"check_dtype": False}, {"rtol": 0.2, "atol": 0.1, "equal_nan": True})
        ]

    same(program)


def test_tensors():
    def program(T):
        t, close = T.tensor, T.testing.assert_close
        kinds = [T.float16, T.bfloat16, T.float32, T.float64, T.complex64, T.int32, T.uint8, T.bool]
        out = []
        for kind in kinds:
            a = T.ones(2, 3).to(kind)
            b = a.clone()
            b[1, 2] = 0
            out += tries(
                lambda: close(a, b), lambda: close(a, a.clone()), lambda: close(b, a, rtol=0, atol=0)
            )
        for shift in (5e-8, 5e-7, 5e-6, 5e-5, 5e-4):
            for kind in kinds[:4]:
                x = T.ones(3, dtype=kind)
                out += tries(lambda: close(x, x + shift))
        return out + tries(
            lambda: close(t(1.0), t(1.5)),
            lambda: close(t([1.0]), t(1.0)),
            lambda: close(t([1.0]), t([1.0], dtype=T.float64)),
            lambda: close(t([1.0]), t([1.0], dtype=T.float64), check_dtype=False),
            lambda: close(t([1]), t([2], dtype=T.uint8), check_dtype=False),
            lambda: close(T.ones(2, 3), T.ones(3, 2).T, check_stride=True),
            lambda: close(T.ones(2, 3), T.ones(3, 2).T),
            lambda: close(t([nan, 1.0]), t([nan, 1.0])),
            lambda: close(t([nan, 1.0]), t([nan, 1.0]), equal_nan=True),
            lambda: close(t([inf, 1.0]), t([-inf, 1.0])),
            lambda: close(t([1.0]), t([2.0]), rtol=1.0),
            lambda: close(t([1.0]), t([2.0]), atol=1.0),
            lambda: close(t([1.0]), t([2.0]), rtol=0.0, atol=1.0),
            lambda: close(t([1.0]), t([2.0]), msg="mine"),
            lambda: close(t([1.0]), t([2.0]), msg=lambda text: f"<{text}>"),
            lambda: close(t([1.0]), T.nn.Parameter(t([1.0]))),
            lambda: close(t([0, 1, 2]), t([0, 1, 5])),
            lambda: close(T.empty(2, device="meta"), T.empty(2, device="meta")),
            lambda: close([T.zeros(2), T.zeros(2)], [T.zeros(2), T.ones(2)]),
        )

    same(program)


def test_subclasses():
    for T in (torch, ft):
        with pytest.raises(TypeError, match="No comparison pair was able to handle inputs"):
            T.testing.assert_close(T.ones(1), T.nn.Parameter(T.ones(1)), allow_subclasses=False)


@pytest.mark.parametrize(("pair", "kind"), [((True, 1), RuntimeError), ((ft.ones(1), [1.0]), TypeError)])
def test_what_cannot_be_compared(pair, kind):
    with pytest.raises(kind):
        ft.testing.assert_close(*pair, msg="mine")
    theirs = [torch.ones(1) if isinstance(v, ft.Tensor) else v for v in pair]
    with pytest.raises(kind):
        torch.testing.assert_close(*theirs, msg="mine")


def test_sparse():
    def program(T):
        def make(indices, values):
            return T.sparse_coo_tensor(T.tensor(indices), T.tensor(values), (3,), check_invariants=False)

        a = make([[0, 2]], [1.0, 2.0])
        close = T.testing.assert_close
        return tries(
            lambda: close(a, make([[0, 2]], [1.0, 2.0])),
            lambda: close(a, make([[0, 2]], [1.0, 3.0])),
            lambda: close(a, make([[0, 1]], [1.0, 2.0])),
            lambda: close(a, make([[0]], [1.0])),
            lambda: close(a, a.to_dense()),
            lambda: close(a, a.to_dense(), check_layout=False),
        )

    same(program)


def test_assert_allclose():
    def program(T):
        t, close = T.tensor, T.testing.assert_allclose
        return tries(
            lambda: close(t([1.0]), [1.00009]),
            lambda: close(t([1.0]), [1.001]),
            lambda: close([nan], t([nan])),
            lambda: close(t([1.0]), t([1.0], dtype=T.float64)),
            lambda: close(t([1.0]), t([3.0]), 0.0, 0.1, msg="mine"),
        )

    same(program)


def test_make_tensor():
    def program(T):
        def make(*shape, **options):
            T.manual_seed(0)
            x = T.testing.make_tensor(*shape, device="cpu", **options)
            return plain(x), list(x.stride()), x.requires_grad

        out = []
        for name in "float16 bfloat16 float32 float64 complex64 int8 uint8 int64 bool".split():
            kind = getattr(T, name)
            out += tries(
                lambda: make((2, 3), dtype=kind),
                lambda: make(2, 2, dtype=kind, low=0, high=2),
                lambda: make((4,), dtype=kind, low=-1, high=1, exclude_zero=True),
                lambda: make((2, 3), dtype=kind, noncontiguous=True),
                lambda: make((), dtype=kind, requires_grad=True),
                lambda: make((2,), dtype=kind, low=3, high=1),
                lambda: make((2,), dtype=kind, low=nan),
                lambda: make((2,), dtype=kind, low=1e39, high=1e40),
            )
        return out + tries(
            lambda: make((2,), dtype=T.float32, low=-1e38, high=inf),
            lambda: make((2,), dtype=T.float32, noncontiguous=True, memory_format=T.contiguous_format),
            lambda: make((1, 2, 2, 2), dtype=T.float32, memory_format=T.channels_last)[0],
            lambda: make((2,), dtype=T.float32, low=1, high=1),
        )

    same(program)


def test_all_names_are_here():
    public = [n for n in dir(torch.testing) if not n.startswith("_") and n != "FileCheck"]
    assert set(public) <= set(dir(ft.testing))
