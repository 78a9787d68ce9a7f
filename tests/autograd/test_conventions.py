# ruff: noqa: E501 (tables, a line per subject)
"""Gradients where a function has none, or more than one: PyTorch's choice, first and second order."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import compare
import numpy as np
import pytest
import torch

import functorch_port as ft

INF, NAN = float("inf"), float("nan")
TIES = [[1.0, 3.0, 3.0, -1.0], [2.0, 2.0, 2.0, 2.0], [-1.0, -1.0, 0.0, 0.0]]
ZEROS = [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.5, 2.0, 3.0], [0.0, 0.0, 0.0]]
EDGE = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]
SPECIAL = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN]

#: values of x, and functions of it
CASES: dict[str, list[Any]] = {
    "abs sign sgn relu": [SPECIAL, "x.abs()", "x.sign() * x", "x.sgn() * x", "x.relu()", "torch.relu(x) * x"],
    "kinks": [
        *[EDGE, "x.clamp(-1, 1)", "x.clamp(min=0)", "x.clamp(max=0.5)", "x.clamp(1, -1)", "x.clip(0, 0)"],
        *["torch.nn.functional.relu6(x * 6)", "torch.nn.functional.hardtanh(x)", "torch.nn.functional.hardswish(3 * x)"],
        *["torch.nn.functional.hardsigmoid(3 * x)", "torch.nn.functional.leaky_relu(x, 0.1)"],
        *["torch.nn.functional.elu(x)", "torch.nn.functional.selu(x)", "torch.nn.functional.celu(x, 0.5)"],
        *["torch.nn.functional.softshrink(x)", "torch.nn.functional.hardshrink(x)", "torch.nn.functional.threshold(x, 0.5, 3)"],
        *["torch.nn.functional.prelu(x, torch.full((1,), 0.25, dtype=torch.float64))", "torch.nn.functional.rrelu(x, 0.1, 0.1)"],
        *["torch.clamp_min(x, 0)", "torch.clamp_max(x, 0)", "x.clamp(torch.zeros_like(x), torch.ones_like(x))"],
        *["torch.maximum(x, x.detach())", "torch.minimum(x, -x)", "torch.maximum(x, 2 * x)", "torch.fmax(x, x.detach())"],
        *["torch.fmin(x, -x)", "x.floor() * x", "x.round() * x", "x.frac()", "x.trunc() * x", "x.remainder(1)", "x.fmod(0.5)"],
        *["torch.copysign(x, -x)", "torch.nan_to_num(x)", "torch.dist(x, x)", "x.sinc()"],
        *["torch.nn.functional.smooth_l1_loss(x, torch.zeros_like(x))", "torch.nn.functional.huber_loss(x, torch.zeros_like(x))"],
        *["torch.nn.functional.l1_loss(x, torch.zeros_like(x))", "torch.nn.functional.hinge_embedding_loss(x, x.sign())"],
        *["torch.nn.functional.margin_ranking_loss(x, -x, torch.ones_like(x))", "torch.xlogy(x * x, x * x)"],
        *["x.pow(2)", "x.pow(0)", "x.abs().pow(0.5)", "torch.pow(x, x.abs())", "torch.pow(0, x.abs())", "x.abs().sqrt()"],
        *["torch.atan2(x, x)", "torch.atan2(x, 0 * x)", "torch.hypot(x, 0 * x)", "torch.float_power(x, 1)", "x.square().rsqrt()"],
        *["torch.logaddexp(x, x)", "torch.nn.functional.softplus(x, 1, 1)", "x.logit(0.25)", "torch.special.xlog1py(x, x * x)"],
    ],
    "ties": [
        *[TIES, "x.max()", "x.min()", "x.max(1)[0]", "x.min(1)[0]", "x.amax(1)", "x.amin(1)", "x.amax()", "x.amin((0, 1))"],
        *["x.aminmax(dim=1)[0]", "x.aminmax()[1]", "x.median()", "x.median(1)[0]", "x.nanmedian(1)[0]", "x.mode(1)[0]"],
        *["x.sort(1)[0]", "x.sort(1, descending=True)[0]", "x.msort()", "x.topk(1)[0]", "x.topk(4, sorted=True)[0]"],
        *["x.kthvalue(2)[0]", "x.cummax(1)[0]", "x.cummin(1)[0]", "x.quantile(0.5, 1)", "x.nanquantile(0.5, 1)"],
        *["x.logcumsumexp(1)", "x.norm(float('inf'))", "x.norm(float('inf'), 1)", "x.norm(float('-inf'), 1)"],
        *["torch.linalg.vector_norm(x, float('inf'), 1)", "torch.linalg.norm(x, 1)", "torch.linalg.norm(x, float('inf'))"],
        *["torch.linalg.norm(x, -1)", "torch.nn.functional.max_pool1d(x, 2)", "torch.nn.functional.adaptive_max_pool1d(x, 2)"],
        *["torch.nn.functional.max_pool1d(x, 3, 1, 1)", "torch.nn.functional.max_pool2d(x[None, None], 2, 1)", "x.logsumexp(1)"],
        *["torch.cdist(x, x)", "torch.cdist(x, x, 1)", "torch.cdist(x, x, float('inf'))", "torch.pdist(x, 1)"],
        *["torch.nn.functional.pairwise_distance(x, x)", "torch.nn.functional.cosine_similarity(x, x)", "torch.renorm(x, 2, 0, 2)"],
        *["x.scatter_reduce(1, torch.zeros(3, 4, dtype=torch.int64), x, 'amax')"],
        *["x.index_reduce(1, torch.tensor([0, 0, 1, 1]), x, 'amin')", "x.softmax(1)", "x.nansum()"],
    ],
    "zeros": [
        *[ZEROS, "x.prod()", "x.prod(1)", "x.prod(0)", "x.cumprod(1)", "x.cumprod(0)", "x[2].prod()", "x.norm()", "x.norm(2, 1)"],
        *["x.norm(1)", "x.norm(1, 1)", "x.norm(0, 1)", "x.norm(3, 1)", "x.norm(0.5, 1)", "torch.linalg.vector_norm(x, 2, 1)"],
        *["torch.linalg.vector_norm(x, 1.5, 1)", "torch.linalg.norm(x)", "torch.linalg.matrix_norm(x)", "x.std(1)", "x.var(1)"],
        *["x.std(1, correction=0)", "torch.std_mean(x, 1)[0]", "x.var(correction=0)", "torch.nn.functional.normalize(x, dim=1)"],
        *["x.logsumexp(1)", "x.log_softmax(1)", "torch.linalg.det(x[:3])", "torch.nn.functional.gelu(x)", "x.cumsum(1)"],
        *["torch.linalg.norm(x, ord=2, dim=1)", "torch.nn.functional.rms_norm(x, (3,))", "torch.nn.functional.layer_norm(x, (3,))"],
        *["x.scatter_reduce(1, torch.zeros(4, 3, dtype=torch.int64), x, 'prod')", "torch.dist(x, 0 * x, 1)", "x.logcumsumexp(1)"],
        *["torch.cross(x, x, dim=1)", "torch.sqrt(x)", "x.log()", "x.reciprocal()", "x.xlogy(x)", "torch.special.entr(x)"],
    ],
    "one element": [[2.0], "x.std()", "x.var()", "x.std(0)", "x.std(correction=0)", "x.std(0, correction=0)", "x.var(0, keepdim=True)"],
    "masked": [
        *[[-1.0, 0.0, 2.0], "torch.where(x > 0, x.log(), x)", "torch.where(x > 0, x.sqrt(), 0.)", "x.sqrt().nan_to_num()"],
        *["torch.where(x > 0, x, x.sqrt())", "x.log().masked_fill(x <= 0, 0)", "x.sqrt()[x > 0]", "x.sqrt().nansum()"],
        *["torch.where(x > 5, x / 0, x)", "(x / x).nan_to_num()", "x.sqrt().nanmean()", "x.log().clamp(min=-1)"],
    ],
    "with infinities": [
        *[[[-INF, 1.0, -INF], [-INF, -INF, -INF], [INF, 1.0, 2.0]], "x.logsumexp(1)", "x.softmax(1)", "x.log_softmax(1)"],
        *["torch.logcumsumexp(x, 1)", "torch.logaddexp(x[0], x[1])", "x.sigmoid()", "x.tanh()", "x.exp()", "x.max(1)[0]", "x.amax(1)"],
    ],
}  # fmt: skip
#: what is not compared, and why
UNORDERED = "PyTorch's choice among equal values is that of an unstable algorithm"
KINK = "the second derivative at the kink itself, which has none"
DIFFERENT = {
    **dict.fromkeys(["x.topk(1)[0]", "x.topk(4, sorted=True)[0]", "x.kthvalue(2)[0]"], UNORDERED),
    "torch.nn.functional.hardsigmoid(3 * x)": "PyTorch's slope is a sixth in float32",
    "torch.logcumsumexp(x, 1)": "PyTorch's gradient is nan where a sum so far is infinite",
    "torch.nn.functional.elu(x)": KINK,
    "torch.nn.functional.selu(x)": KINK,
    "torch.nn.functional.celu(x, 0.5)": KINK,
    "torch.nn.functional.softplus(x, 1, 1)": KINK,
}


def derivatives(lib: Any, code: str, values: Any, second: bool) -> list[Any]:
    """The result, its gradient, and the gradient of that gradient's weighted sum."""
    x = lib.tensor(values, dtype=lib.float64, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = eval(code, {"torch": lib, "x": x})
        if not out.requires_grad:
            return [out]
        weights = lib.linspace(1, 2, out.numel(), dtype=out.dtype).reshape(out.shape)
        (first,) = lib.autograd.grad(out, x, weights, create_graph=second, allow_unused=True)
        if not second or first is None or not first.requires_grad:
            return [out, first]
        slopes = lib.linspace(-1, 1.5, first.numel(), dtype=first.dtype).reshape(first.shape)
        try:
            (again,) = lib.autograd.grad(first, x, slopes, allow_unused=True)
        except (RuntimeError, NotImplementedError):
            if lib is torch:  # it has no second derivative
                return [out, first]
            raise
    return [out, first, again]


def pairs() -> list[tuple[str, Any]]:
    return [(code, values) for values, *codes in CASES.values() for code in codes]


def close(theirs: Any, ours: Any, order: str) -> None:
    """Within rounding. Second derivatives count where PyTorch has them: at a singular point it may have 0 / 0."""
    if theirs is None or ours is None:
        present = theirs if theirs is not None else ours
        assert present is None or not (present != 0).any(), f"{order}: {theirs} != {ours}"
        return
    a, b = compare.to_numpy(theirs), compare.to_numpy(ours)
    if order == "second":
        a, b = a[np.isfinite(a)], b[np.isfinite(a)]
    np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12, err_msg=order)


@pytest.mark.parametrize("code, values", pairs(), ids=[f"{i}-{c}" for i, (c, _) in enumerate(pairs())])
def test_like_torch(code: str, values: Any) -> None:
    if code in DIFFERENT:
        pytest.skip(DIFFERENT[code])
    theirs = derivatives(torch, code, values, True)
    ours = derivatives(ft, code, values, len(theirs) == 3)
    for order, a, b in itertools.zip_longest(("result", "gradient", "second"), theirs, ours):
        close(a, b, order)
