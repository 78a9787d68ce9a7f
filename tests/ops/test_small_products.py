"""Products of a size for which no library is called: PyTorch's values, gradients, and gradients of these."""

from __future__ import annotations

import pytest
import torch
from by_onednn import agree, draw, run

import functorch_port as ft

CASES = {
    "mm": (lambda T, a, b: T.mm(a, b), (12, 30), (30, 18)),
    "mm of a transpose": (lambda T, a, b: T.mm(a.t(), b), (30, 12), (30, 18)),
    "matmul by a matrix": (lambda T, a, b: a @ b, (2, 8, 30), (30, 18)),
    "addmm": (lambda T, c, a, b: T.addmm(c, a, b, beta=0.5, alpha=2), (18,), (12, 30), (30, 18)),
    "linear": (lambda T, x, w, b: T.nn.functional.linear(x, w, b).relu(), (2, 8, 30), (18, 30), (18,)),
    "linear without bias": (lambda T, x, w: T.nn.functional.linear(x, w), (16, 30), (18, 30)),
}


@pytest.mark.parametrize("case", CASES)
def test_as_pytorch(case):
    fn, *shapes = CASES[case]
    arrays = [draw(shape, k) for k, shape in enumerate(shapes)]
    agree(*(run(T, fn, *arrays) for T in (ft, torch)))
