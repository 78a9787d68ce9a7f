"""Operations of `nn.functional` against torch: values, types, gradients at ties, second derivatives, errors."""

from __future__ import annotations

import math

import pytest
import torch
from compare import _fresh, case, check_case, check_second, resolve, same, sample, to_ours

import functorch_port as ft

f32, f64, f16, bf16, i64, i32 = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
)
T = torch.tensor
nan, inf = math.nan, math.inf


# torch refuses gradients for class weights and for some targets
ONLY_INPUT = ("nll_loss", "soft_margin_loss", "multi_margin_loss")


def F(name, *args, **kwargs):
    weighted = any(kwargs.get(k) is not None for k in ("weight", "pos_weight")) or len(args) > 2
    first = name in ONLY_INPUT or (weighted and name.startswith(("cross_entropy", "binary_cross_entropy")))
    return case(f"torch.nn.functional.{name}", *args, _first=first, **kwargs)


EDGE = T([-4.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 4.0, 6.0, 7.0, 20.0, 25.0, -40.0], dtype=f64)
X = sample(3, 4, low=-3, high=3)

# ---------------------------------------------------------------- activations

PLAIN = (
    "relu relu6 leaky_relu elu selu celu gelu silu mish sigmoid tanh softplus softsign hardtanh hardswish hardsigmoid "
    "logsigmoid tanhshrink hardshrink softshrink"
).split()
# torch's hardsigmoid (and so its gradient) has 1/6 rounded to float32 in every type
TOL = {"hardsigmoid": 1e-7}

activations = [
    *(F(n, x, _tol=TOL.get(n)) for n in PLAIN for x in (X, EDGE)),
    *(
        F(n, sample(40, dtype=f32, low=-6, high=6), _tol=4e-6) for n in PLAIN
    ),  # erf and tanh differ in the last bits
    *(
        F(n, sample(40, dtype=d, low=-6, high=6), _grad=False, _tol=t)
        for n in PLAIN
        for d, t in ((bf16, 8e-3), (f16, 1e-3))
    ),
    *(F(n, torch.ones(2, dtype=d), _grad=False) for n in PLAIN for d in (i64, torch.bool, torch.uint8)),
    *(F(n, T([nan, inf, -inf])) for n in "relu relu6 hardtanh leaky_relu hardshrink softshrink".split()),
    F("leaky_relu", EDGE, 0.2),
    F("leaky_relu", EDGE, -0.5),
    F("elu", EDGE, 2.0),
    F("celu", EDGE, 2.0),
    F("celu", EDGE, 0.0),
    F("hardtanh", EDGE, -2.0, 3.0),
    F("hardtanh", EDGE, 2.0, -3.0),
    F("hardtanh", T([1, -5, 9])),
    F("relu", T([1, -5, 9])),
    F("gelu", X, approximate="tanh"),
    F("gelu", X, approximate="x"),
    F("softplus", EDGE, 2.0, 5.0),
    F("hardshrink", EDGE, 3.0),
    F("softshrink", EDGE, 3.0),
    F("softshrink", EDGE, -1.0),
    F("threshold", EDGE, 0.5, -3.0),
    F("threshold", T([1, 2, 3]), 2, 7),
    F("prelu", X, T([0.25], dtype=f64)),
    F("prelu", X, T([0.1, 0.2, 0.3, 0.4], dtype=f64)),
    F("prelu", sample(2, 3, 4, 5), T([0.1, 0.2, 0.3], dtype=f64)),
    F("prelu", EDGE, T([0.25], dtype=f64)),
    F("prelu", X, T([0.1, 0.2], dtype=f64)),
    F("prelu", X, torch.ones(1, 4, dtype=f64)),
    F("prelu", T(1.0), torch.ones(3)),
    F("prelu", X, torch.ones(4)),
    F("glu", X),
    F("glu", sample(4, 3), 0),
    F("glu", sample(3)),
    F("glu", T(1.0)),
    F("glu", X, 5),
    F("rrelu", EDGE),
    F("rrelu", X, 0.5, 0.1),
    F("rrelu", X, math.inf, 0.1),
    F("rrelu", X, 0.1, math.nan, True),
    *(
        F(n, X, inplace=True, _grad=False)
        for n in "relu relu6 leaky_relu elu selu celu silu mish hardtanh hardswish".split()
    ),
    F("hardsigmoid", X, inplace=True, _grad=False, _tol=1e-7),
    F("relu", [1.0]),
    *(
        F(n, x, d)
        for n in ("softmax", "log_softmax", "softmin")
        for x in (X, sample(2, 3, 4, 5))
        for d in (0, 1, -1)
    ),
    *(
        F(n, T(v), 0)
        for n in ("softmax", "log_softmax")
        for v in ([-inf, -inf], [inf, 1.0], [-inf, 1.0], [1e4, -1e4])
    ),
    *(F(n, X, 2) for n in ("softmax", "log_softmax")),
    *(F(n, T(3.0), 0) for n in ("softmax", "log_softmax")),
    *(F(n, torch.zeros(0, 2), 0) for n in ("softmax", "log_softmax")),
    *(F(n, T([1, 2]), 0) for n in ("softmax", "log_softmax")),
    *(F(n, sample(3, 4, dtype=f32), 1, dtype=f64, _tol=2e-7) for n in ("softmax", "log_softmax")),
    *(F(n, sample(3, 40, dtype=d), 1, _grad=False) for n in ("softmax", "log_softmax") for d in (bf16, f16)),
    case("torch.softmax", X, 0),
    case("Tensor.log_softmax", X, 1),
    case("torch.sigmoid", T([1, 2, 3])),
    case("torch.tanh", sample(4, dtype=torch.complex128)),
    case("Tensor.relu_", X),
    case("torch.selu", X),
    F("normalize", X),
    F("normalize", X, p=1, dim=0),
    F("normalize", X, p=3.0, dim=(0, 1)),
    F("normalize", torch.zeros(2, 3, dtype=f64), _grad=False),
]

# ---------------------------------------------------------------- dense layers and convolution

W, B = sample(5, 4, seed=1), sample(5, seed=2)


def conv(n, x, w, *args, **kwargs):
    return F(f"conv{n}d", x, w, *args, **kwargs)


dense = [
    F("linear", X, W, B),
    F("linear", X, W),
    F("linear", sample(2, 3, 4), W, B),
    F("linear", sample(2, 3, 4), W),
    F("linear", sample(4), W, B),
    F("linear", sample(4), W),
    F("linear", sample(0, 4), W, B),
    F("linear", X, sample(4, seed=3)),
    F("linear", sample(4), sample(4, seed=3)),
    F("linear", X, W, sample(1)),
    F("linear", X, W, sample(3, 5)),
    F(
        "linear",
        sample(64, 300, dtype=f32),
        sample(20, 300, dtype=f32, seed=1),
        sample(20, dtype=f32),
        _tol=1e-5,
    ),  # sums of 300
    F("linear", sample(2, 3), W),
    F("linear", sample(2, 3), W, B),
    F("linear", sample(2, 2, 3), W, B),
    F("linear", X, W, sample(4)),
    F("linear", X, W.float()),
    F("linear", X, W, B.float()),
    F("linear", sample(2, 3, 4), W, B.float()),
    F("linear", X, sample(5, 4, 4)),
    F("linear", T(1.0), sample(5, 4)),
    F("linear", X, sample(3)),
    F("linear", X, sample(4), B),
    F("linear", [1.0], W),
    F("bilinear", sample(2, 3), sample(2, 4), sample(5, 3, 4), B),
    F("bilinear", sample(2, 2, 3), sample(2, 2, 4), sample(5, 3, 4)),
    F("bilinear", sample(3), sample(4), sample(5, 3, 4)),
    F("bilinear", sample(2, 3), sample(2, 4), sample(5, 3, 3)),
    F("bilinear", sample(2, 3), sample(1, 4), sample(5, 3, 4)),
    F("bilinear", sample(2, 3), sample(2, 4), sample(5, 3, 4), sample(4)),
    F("bilinear", sample(2, 3), sample(2, 4, 4), sample(5, 3, 4)),
]


def test_a_bias_of_its_own_dtype_is_added_to_what_is_not_contiguous():
    def program(lib, x, weight, bias):
        return lib.nn.functional.linear(x.transpose(0, 1), weight, bias)

    inputs = sample(2, 3, 4), W, B.float()
    same(program(torch, *inputs), program(ft, *map(to_ours, inputs)))


IMG, KER = sample(2, 3, 7, 6), sample(4, 3, 3, 2, seed=1)
convolutions = [
    *(
        conv(2, IMG, KER, b, s, p, d)
        for b in (None, sample(4))
        for s, p, d in ((1, 0, 1), (2, 1, 1), ((1, 2), (2, 0), (2, 1)))
    ),
    conv(2, IMG, KER, None, 1, "same"),
    conv(2, IMG, sample(4, 3, 3, 3), None, 1, "same", 2),
    conv(2, IMG, KER, None, 1, "valid"),
    conv(2, IMG, KER, None, 2, "same"),
    conv(2, IMG, KER, None, 1, "foo"),
    conv(2, sample(2, 4, 5, 5), sample(6, 2, 3, 3), None, 1, 1, 1, 2),
    conv(2, sample(2, 4, 5, 5), sample(4, 1, 3, 3), sample(4), 1, 1, 1, 4),
    conv(2, IMG[0], KER, sample(4)),
    conv(2, sample(0, 3, 5, 5), KER),
    conv(2, sample(2, 8, 9, 9, dtype=f32), sample(16, 8, 3, 3, dtype=f32), sample(16, dtype=f32), _tol=1e-5),
    conv(2, sample(2, 8, 9, 9, dtype=f32), sample(16, 8, 3, 3, dtype=f32), _tol=1e-5),
    conv(2, sample(2, 8, 9, 9, dtype=f32), sample(16, 8, 5, 1, dtype=f32), _tol=1e-5),
    conv(2, sample(2, 64, 3, 3, dtype=f32), sample(2, 64, 3, 3, dtype=f32), _tol=1e-5),
    conv(2, IMG, KER, None, [2], (1,)),
    conv(1, sample(2, 3, 9), sample(4, 3, 3), sample(4), 2, 1),
    conv(1, sample(3, 9), sample(4, 3, 3)),
    conv(1, sample(2, 3, 9), sample(4, 3, 3), None, 1, "same"),
    conv(3, sample(2, 2, 4, 5, 6), sample(3, 2, 2, 3, 2), sample(3), 1, (1, 0, 1)),
    conv(3, sample(2, 4, 5, 6), sample(3, 2, 2, 3, 2), None, (1, 2, 1)),
    # errors
    conv(2, IMG, sample(4, 2, 3, 3)),
    conv(2, sample(1, 3, 4, 4), sample(2, 3, 5, 5)),
    conv(2, sample(3, 4), KER),
    conv(2, IMG, sample(2, 3, 3)),
    conv(2, IMG, KER, sample(3)),
    conv(2, IMG, KER, sample(4, 1)),
    conv(2, IMG, KER, None, 0),
    conv(2, IMG, KER, None, 1, -1),
    conv(2, IMG, KER, None, 1, 0, 0),
    conv(2, IMG, KER, None, 1, 0, 1, 2),
    conv(2, IMG, KER, None, 1, 0, 1, 0),
    conv(2, sample(1, 4, 4, 4), sample(3, 2, 3, 3), None, 1, 0, 1, 2),
    conv(2, IMG, KER, None, (1, 2, 3)),
    conv(2, IMG, KER.float()),
    conv(2, IMG, KER, sample(4, dtype=f32)),
    conv(1, sample(1, 1, 3, 4), sample(2, 3, 2)),
    conv(1, sample(1, 3, 1), sample(2, 3, 2)),
]

padding = [
    F("pad", X, (1, 2)),
    F("pad", X, (1, 2, 0, 3), value=1.5),
    F("pad", X, (-1, -1, 1, 0)),
    F("pad", T([1, 2]), (1, 1), value=7),
    *(F("pad", sample(2, 3, 4), (2, 1), mode) for mode in ("reflect", "replicate", "circular")),
    *(F("pad", sample(3, 4), (2, 1), mode) for mode in ("reflect", "replicate", "circular")),
    *(F("pad", IMG, (1, 2, 2, 0), mode) for mode in ("reflect", "replicate", "circular")),
    *(
        F("pad", sample(2, 2, 3, 4, 5), (1, 2, 2, 0, 1, 1), mode)
        for mode in ("reflect", "replicate", "circular")
    ),
    *(F("pad", sample(2, 3, 4), (-1, 2), mode) for mode in ("replicate", "circular")),
    F("pad", sample(2), (1,)),
    F("pad", sample(2), (1, 1, 1, 1)),
    F("pad", sample(2), (1, 1), "reflect"),
    F("pad", X, (1, 1), "foo"),
    F("pad", X, (4, 1), "reflect"),
    F("pad", X, (1, 1), "reflect", 3),
    F("pad", X, (5, 5), "circular"),
    F("pad", IMG, (1, 1), "reflect"),
]

# ---------------------------------------------------------------- pooling

TIES = T([[[[1.0, 1, 2, 2, 0], [1, 1, 2, 2, 0], [3, 3, -1, -1, 5], [3, 3, -1, -1, 5]]]], dtype=f64)
SPOTS = T([[[[1.0, nan, 2, 2], [1, 1, nan, nan], [-inf, -inf, -1, -1], [-inf, -inf, -1, -1]]]], dtype=f64)
POOLS = [
    dict(kernel_size=2),
    dict(kernel_size=3, stride=2, padding=1),
    dict(kernel_size=(3, 2), stride=(1, 2), padding=(1, 0)),
    dict(kernel_size=2, stride=3, ceil_mode=True),
    dict(kernel_size=3, stride=2, padding=1, ceil_mode=True),
]
pooling = [
    *(F("max_pool2d", x, **kw) for x in (IMG, TIES) for kw in POOLS),
    *(F("max_pool2d", x, return_indices=True, **kw) for x in (IMG, TIES) for kw in POOLS),
    F("max_pool2d", IMG, 2, dilation=2),
    F("max_pool2d", IMG, 2, 1, 0, 2, return_indices=True),
    F("max_pool2d", SPOTS, 2, return_indices=True, _grad=False),
    F("max_pool2d", torch.full((1, 1, 4, 4), -inf), 3, 2, 1, return_indices=True, _grad=False),
    F("max_pool2d", IMG[0], [2, 2]),
    F("max_pool2d", sample(2, 3, 8, 8, dtype=f32), 2),
    F("max_pool2d", sample(2, 3, 8, 8, dtype=bf16), 2, _grad=False),
    F("max_pool2d", sample(1, 3, 4, 4, dtype=i64), 2),
    F("max_pool2d", sample(0, 3, 4, 4), 2),
    F("max_pool2d", sample(1, 2, 14, 14), 11, 1, 3),  # so many taps that XLA's windowed maximum takes over
    F("max_pool1d", sample(2, 3, 9), 3, 2, 1),
    F("max_pool1d", sample(3, 9), 2, return_indices=True),
    F("max_pool1d", sample(2, 3, 9), 3, ceil_mode=True, dilation=2),
    F("max_pool3d", sample(2, 2, 4, 5, 6), 2),
    F("max_pool3d", sample(2, 4, 5, 6), (2, 1, 3), return_indices=True),
    *(F("avg_pool2d", IMG, **kw) for kw in POOLS),
    *(F("avg_pool2d", IMG, count_include_pad=False, **kw) for kw in POOLS),
    *(F("avg_pool2d", IMG, divisor_override=3, **kw) for kw in POOLS),
    F("avg_pool2d", IMG[0], 2),
    F("avg_pool2d", sample(2, 3, 8, 8, dtype=f32), 3, 1, 1),
    F("avg_pool2d", sample(1, 3, 4, 4, dtype=i64), 2),
    F("avg_pool1d", sample(2, 3, 9), 3, 2, 1),
    F("avg_pool1d", sample(3, 9), 2, ceil_mode=True, count_include_pad=False),
    F("avg_pool3d", sample(2, 2, 4, 5, 6), 2, 1),
    F("avg_pool3d", sample(2, 4, 5, 6), (2, 1, 3), padding=(1, 0, 1), count_include_pad=False),
    *(F("adaptive_avg_pool2d", IMG, s) for s in (1, 2, (3, 4), (None, 2), (7, 6), (10, 9), (1, 1))),
    F("adaptive_avg_pool2d", IMG, 0, _grad=False),
    F("adaptive_avg_pool2d", IMG[0], 3),
    F("adaptive_avg_pool1d", sample(2, 3, 7), 3),
    F("adaptive_avg_pool3d", sample(2, 2, 4, 5, 6), (2, 3, 1)),
    *(
        F("adaptive_max_pool2d", x, s, r)
        for x in (IMG, TIES)
        for s in (1, 2, (3, 4), (7, 6))
        for r in (False, True)
    ),
    F("adaptive_max_pool1d", sample(2, 3, 7), 3, True),
    F("adaptive_max_pool3d", sample(2, 4, 5, 6), (2, None, 1), True),
    # errors
    F("max_pool2d", sample(1, 3, 4, 4), 5),
    F("max_pool2d", sample(4, 4), 2),
    F("max_pool2d", sample(1, 3, 4, 4), 2, padding=2),
    F("max_pool2d", sample(1, 3, 4, 4), 2, padding=-1),
    F("max_pool2d", sample(1, 3, 4, 4), 2, 0),
    F("max_pool2d", sample(1, 3, 4, 4), 2, dilation=0),
    F("max_pool2d", sample(1, 3, 4, 4), (2, 2, 2)),
    F("max_pool2d", sample(1, 0, 4, 4), 2),
    F("avg_pool2d", sample(1, 3, 4, 4), 5),
    F("avg_pool2d", sample(1, 3, 4, 4), 2, padding=2),
    F("avg_pool2d", sample(1, 3, 4, 4), 2, divisor_override=0),
    F("max_pool1d", sample(4), 2),
    F("max_pool1d", sample(2, 3, 4), 5, _grad=False),
    F("max_pool1d", sample(2, 3, 4), 2, padding=2, _grad=False),
    F("max_pool1d", sample(2, 3, 4), 0, _grad=False),
    F("avg_pool1d", sample(4), 2),
    F("max_pool3d", sample(4, 4, 4), 2),
    F("max_pool3d", sample(1, 1, 4, 4, 4), 2, padding=2),
    F("adaptive_avg_pool2d", sample(4, 4), 2),
    F("adaptive_avg_pool2d", IMG, (2,)),
    F("adaptive_avg_pool2d", IMG, -1),
    F("adaptive_max_pool1d", sample(2, 3, 7), 1 << 61),
    F("adaptive_avg_pool2d", sample(1, 3, 4, 4, dtype=i64), 2),
    F("adaptive_max_pool2d", sample(4, 4), 2),
    F("adaptive_avg_pool1d", sample(4), 2),
    F("adaptive_avg_pool3d", sample(3, 4, 4), 2),
]

# ---------------------------------------------------------------- normalization

V3 = sample(3, low=0.5)
norms = [
    F("batch_norm", IMG, None, None, training=True),
    F("batch_norm", IMG, None, None, V3, sample(3, seed=4), training=True),
    F("batch_norm", IMG, None, None, V3, None, True, 0.1, 1e-2),
    F("batch_norm", IMG, sample(3).float().double(), V3.abs(), V3, sample(3, seed=4), _grad=False),
    F("batch_norm", sample(4, 3, dtype=f32), None, None, training=True),
    F("batch_norm", sample(4, 3, 5, dtype=bf16), None, None, training=True, _grad=False),
    F(
        "batch_norm",
        sample(4, 3, 5, dtype=f16),
        torch.zeros(3),
        torch.ones(3),
        torch.ones(3),
        torch.zeros(3),
        _grad=False,
    ),
    F("layer_norm", X, (4,)),
    F("layer_norm", sample(2, 3, 4), [3, 4], sample(3, 4, seed=1), sample(3, 4, seed=2), 1e-3),
    F("layer_norm", sample(2, 3, 4), (4,), sample(4, seed=1)),
    F("layer_norm", sample(3, 40, dtype=f32), (40,)),
    F("layer_norm", sample(3, 40, dtype=bf16), (40,), _grad=False),
    F("group_norm", sample(2, 6, 4), 3),
    F("group_norm", sample(2, 6, 4, 2), 2, sample(6, seed=1), sample(6, seed=2), 1e-3),
    F("group_norm", sample(2, 6), 3),
    F("rms_norm", X, (4,)),
    F("rms_norm", sample(2, 3, 4), (3, 4), sample(3, 4, seed=1), 1e-3),
    F("rms_norm", sample(3, 40, dtype=f32), (40,)),
    # errors
    F("batch_norm", sample(1, 3), None, None, training=True),
    F("batch_norm", X, None, None),
    F("batch_norm", sample(2, 3), torch.ones(2), torch.ones(2), _text="any"),
    F("batch_norm", sample(2, 3, dtype=f32), torch.ones(2), torch.ones(2), training=True, _grad=False),
    F("batch_norm", sample(2, 3, dtype=f32), torch.ones(3), torch.ones(2), training=True, _grad=False),
    F("batch_norm", sample(2, 3, dtype=f32), torch.ones(3), torch.ones(3), torch.ones(2), _grad=False),
    F(
        "batch_norm",
        sample(2, 3, dtype=f32),
        torch.ones(3),
        torch.ones(3),
        torch.ones(3),
        torch.ones(2),
        _grad=False,
    ),
    F("batch_norm", sample(2, 3, dtype=i64), torch.ones(3), torch.ones(3), _grad=False),
    F(
        "batch_norm",
        sample(2, 3, dtype=f32),
        torch.ones(3),
        torch.ones(3),
        torch.ones(3, dtype=f64),
        _grad=False,
    ),
    F("layer_norm", sample(2, 3), (2,)),
    F("layer_norm", sample(2, 3), (3,), sample(2)),
    F("layer_norm", sample(2, 3), (3,), sample(3), sample(2)),
    F("layer_norm", sample(2, 3), ()),
    F("layer_norm", sample(2, 3), 3),
    F("layer_norm", sample(2, 3, dtype=i64), (3,)),
    F("layer_norm", sample(2, 3), (3,), sample(3).float()),
    F("group_norm", sample(2, 3), 2),
    F("group_norm", sample(2, 3), 0),
    F("group_norm", sample(1, 3), 3),
    F("group_norm", sample(3), 3),
    F("group_norm", sample(2, 3, 4), 3, sample(2)),
    F(
        "group_norm", sample(2, 3, 4), 3, sample(3), sample(2), _text="start"
    ),  # torch's text shows the weight's shape
    F("rms_norm", sample(2, 3), (2,)),
    F("rms_norm", sample(2, 3), (3,), sample(2)),
]

# ---------------------------------------------------------------- tables and distances

tables = [
    F("embedding", T([[1, 0], [2, 1]]), sample(3, 4)),
    F("embedding", T([1, 2, 1]), sample(3, 4), padding_idx=1),
    F("embedding", T([1, 2, 1]), sample(3, 4), padding_idx=-1),
    F("embedding", T(1), sample(3, 4)),
    F("embedding", T([1], dtype=i32), sample(3, 4)),
    F("embedding", T([], dtype=i64), sample(3, 4)),
    F("embedding", T([3]), sample(3, 4)),
    F("embedding", T([-1]), sample(3, 4)),
    F("embedding", T([1.0]), sample(3, 4)),
    F("embedding", T([True]), sample(3, 4)),
    F("embedding", T([1], dtype=torch.int16), sample(3, 4)),
    F("embedding", T([1]), sample(3)),
    F("embedding", T([1]), sample(3, 4), padding_idx=3),
    F("embedding", [1], sample(3, 4)),
    F("one_hot", T([[0, 2], [1, 1]])),
    F("one_hot", T([0, 2]), 5),
    F("one_hot", T([1, -1])),
    F("one_hot", T([1, 3]), 2),
    F("one_hot", T([1.0])),
    F("one_hot", T([], dtype=i64)),
    F("cosine_similarity", X, sample(3, 4, seed=1)),
    F("cosine_similarity", sample(2, 1, 4), sample(3, 4, seed=1), dim=-1),
    F("cosine_similarity", X * 0, X, _grad=False),
    F("cosine_similarity", sample(2, 3), sample(2, 4)),
    F("cosine_similarity", T([[1, 2]]), T([[1, 2]])),
    *(F("pairwise_distance", X, sample(3, 4, seed=1), p) for p in (2.0, 1.0, 3.0, inf)),
    F("pairwise_distance", X, sample(4, seed=1), keepdim=True),
    F("pairwise_distance", X, X),
]

# ---------------------------------------------------------------- losses

SCORES, CLASSES = sample(5, 4, seed=7), T([0, 3, 1, 3, 2])
WEIGHT = T([0.5, 1.0, 2.0, 0.25], dtype=f64)
MAPS, LABELS = sample(2, 4, 3, seed=8), T([[0, 3, 1], [2, 2, 0]])
REDUCTIONS = ("none", "mean", "sum")
A, Z = sample(3, 4), sample(3, 4, seed=1)
P, Q = sample(3, 4, low=0.05, high=0.95), sample(3, 4, low=0, high=1, seed=1)
SIGNS = T([1.0, -1.0, 1.0], dtype=f64)

classification = [
    *(
        F(n, SCORES, CLASSES, w, ignore_index=i, reduction=r)
        for n in ("nll_loss", "cross_entropy")
        for w in (None, WEIGHT)
        for i in (-100, 3)
        for r in REDUCTIONS
    ),
    *(F(n, MAPS, LABELS, WEIGHT, reduction=r) for n in ("nll_loss", "cross_entropy") for r in REDUCTIONS),
    *(F(n, sample(2, 4, 3, 2), torch.ones(2, 3, 2, dtype=i64)) for n in ("nll_loss", "cross_entropy")),
    *(F(n, sample(2, 4, 1, 3, 2), torch.ones(2, 1, 3, 2, dtype=i64)) for n in ("nll_loss", "cross_entropy")),
    *(F(n, sample(4), T(2), reduction=r) for n in ("nll_loss", "cross_entropy") for r in REDUCTIONS),
    *(F(n, SCORES, T([-100] * 5), reduction=r) for n in ("nll_loss", "cross_entropy") for r in REDUCTIONS),
    *(F(n, sample(0, 4), T([], dtype=i64)) for n in ("nll_loss", "cross_entropy")),
    *(F(n, SCORES, CLASSES.to(torch.uint8)) for n in ("nll_loss", "cross_entropy")),
    *(F("nll_loss", sample(4), T([1]), reduction=r, _grad=False) for r in REDUCTIONS),
    *(
        F("cross_entropy", SCORES, CLASSES, w, ignore_index=i, label_smoothing=0.1, reduction=r)
        for w in (None, WEIGHT)
        for i in (-100, 3)
        for r in REDUCTIONS
    ),
    *(F("cross_entropy", MAPS, LABELS, WEIGHT, label_smoothing=0.1, reduction=r) for r in REDUCTIONS),
    *(
        F("cross_entropy", A, Q, w, label_smoothing=s, reduction=r)
        for w in (None, WEIGHT)
        for s in (0.0, 0.2)
        for r in REDUCTIONS
    ),
    F("cross_entropy", MAPS, sample(2, 4, 3, low=0, high=1), WEIGHT),
    F("cross_entropy", sample(4), sample(4, low=0, high=1)),
    F("cross_entropy", A.float(), Q, _tol=1e-6),
    F("cross_entropy", sample(40, 50, dtype=f32), torch.arange(40), _tol=3e-6),
    F("cross_entropy", sample(40, 50, dtype=bf16), torch.arange(40), _grad=False),
    # errors
    *(
        F(n, sample(2, 3), T(t))
        for n in ("nll_loss", "cross_entropy")
        for t in ([0, 3], [0, -1], [0], [0.0, 1.0])
    ),
    *(F(n, sample(2, 3), T([0, 1]), sample(2)) for n in ("nll_loss", "cross_entropy")),
    *(F(n, sample(2, 3), T([0, 1]), reduction="foo") for n in ("nll_loss", "cross_entropy")),
    *(F(n, sample(2, 3), T([0, 1], dtype=i32)) for n in ("nll_loss", "cross_entropy")),
    *(F(n, sample(2, 3, 4), torch.ones(2, 5, dtype=i64)) for n in ("nll_loss", "cross_entropy")),
    *(F(n, sample(2, 3, 4), torch.ones(3, 4, dtype=i64)) for n in ("nll_loss", "cross_entropy")),
    *(F(n, sample(2, 3, 4, 4), 9 * torch.ones(2, 4, 4, dtype=i64)) for n in ("nll_loss", "cross_entropy")),
    *(F(n, sample(2, 3), T([[0], [1]])) for n in ("nll_loss", "cross_entropy")),
    *(F(n, T(1.0), T(0)) for n in ("nll_loss", "cross_entropy")),
    *(F(n, sample(3), T(5)) for n in ("nll_loss", "cross_entropy")),
    *(F(n, T([[1, 2]]), T([0])) for n in ("nll_loss", "cross_entropy")),
    F("nll_loss", sample(2, 3), T([0, 1]), torch.ones(3)),
    F("nll_loss", sample(2, 3, 4, 4), torch.ones(2, 4, dtype=i64)),
    F("nll_loss", sample(2, 3, 4, 4), torch.ones(2, 5, 4, dtype=i64)),
    F("cross_entropy", sample(2, 3), torch.ones(2, 3, dtype=i64)),
    F("cross_entropy", sample(2, 3), torch.ones(2, 3), ignore_index=0),
    F("cross_entropy", sample(2, 3), T([0, 1]), label_smoothing=1.1),
    F("cross_entropy", sample(2, 3), sample(2, 3), sample(2)),
    F("cross_entropy", sample(2, 3), T([0, 3]), label_smoothing=0.1),
    F("cross_entropy", sample(2, 3), 3),
]

PAIRS = "mse_loss l1_loss smooth_l1_loss huber_loss soft_margin_loss poisson_nll_loss".split()
losses = [
    *(F(n, A, Z, reduction=r) for n in PAIRS for r in REDUCTIONS),
    *(
        F(n, T([1.0, 2.0, 0.0]), T([1.0, 3.0, 0.5])) for n in PAIRS
    ),  # equal values and errors of 1 and 0.5: edges
    *(F(n, sample(100, dtype=f32), sample(100, dtype=f32, seed=1), _tol=3e-6) for n in PAIRS),
    *(F(n, A, sample(4)) for n in PAIRS[:4]),
    *(F(n, A.float(), Z, _grad=False) for n in PAIRS[:3]),
    *(F(n, A, T([[1, 2, 3, 4]])) for n in PAIRS[:2]),
    *(F(n, sample(2, 3), sample(2)) for n in PAIRS[:4]),
    *(F(n, A, Z, reduction="x") for n in PAIRS),
    *(
        F(n, A, Z, weight=Q, reduction=r)
        for n in ("mse_loss", "l1_loss", "huber_loss")
        for r in (*REDUCTIONS, "x")
    ),
    *(F(n, A, Z, weight=WEIGHT) for n in ("mse_loss", "l1_loss", "huber_loss")),
    F("mse_loss", T([1, 2]), T([3, 4])),
    F("l1_loss", T([1, 2]), T([3, 4])),
    F("l1_loss", T([1, 2]), T([3, 4]), reduction="sum"),
    F("mse_loss", A, 3.0),
    F("mse_loss", sample(0), sample(0)),
    F("smooth_l1_loss", A, Z, beta=0.5),
    F("smooth_l1_loss", A, Z, beta=0.0),
    F("smooth_l1_loss", A, Z, beta=-1.0),
    F("huber_loss", A, Z, delta=0.5),
    F("huber_loss", A, Z, delta=0.0),
    F("poisson_nll_loss", P, Q * 5, log_input=False),
    F("poisson_nll_loss", A, Q * 5, full=True),
    F("gaussian_nll_loss", A, Z, P),
    F("gaussian_nll_loss", A, Z, sample(3, low=0.1), full=True),
    F("gaussian_nll_loss", A, Z, sample(3, 1, low=0.1), reduction="sum"),
    F("gaussian_nll_loss", A, Z, P * 0, _grad=False),
    F("gaussian_nll_loss", A, Z, -P),
    F("gaussian_nll_loss", A, Z, sample(4, low=0.1)),
    F("gaussian_nll_loss", A, Z, -1.0),
    *(
        F("binary_cross_entropy", P, Q, w, reduction=r)
        for w in (None, P, sample(4, low=0.1))
        for r in REDUCTIONS
    ),
    F("binary_cross_entropy", T([0.0, 1.0, 0.0, 1.0]), T([0.0, 1.0, 1.0, 0.0]), _grad=False),
    F("binary_cross_entropy", A, Q),
    F("binary_cross_entropy", P, Z),
    F("binary_cross_entropy", P, sample(3)),
    F("binary_cross_entropy", P, Q.float()),
    *(F("binary_cross_entropy_with_logits", A, Q, w, reduction=r) for w in (None, P) for r in REDUCTIONS),
    F("binary_cross_entropy_with_logits", A, Q, pos_weight=WEIGHT),
    F("binary_cross_entropy_with_logits", A * 100, Q, pos_weight=WEIGHT),
    F("binary_cross_entropy_with_logits", A.float(), Q, _grad=False, _tol=1e-6),
    F("binary_cross_entropy_with_logits", A, sample(3)),
    F("binary_cross_entropy_with_logits", sample(2), T([1, 0])),
    F("binary_cross_entropy_with_logits", A, Q, pos_weight=sample(2)),
    *(F("kl_div", P.log(), Q, reduction=r) for r in (*REDUCTIONS, "batchmean", "foo")),
    *(F("kl_div", P.log(), P.log(), reduction=r, log_target=True) for r in (*REDUCTIONS, "batchmean")),
    F("kl_div", A, Q * 0, reduction="sum", _grad=False),
    *(F("hinge_embedding_loss", sample(3), SIGNS, reduction=r) for r in REDUCTIONS),
    F("hinge_embedding_loss", T([1.0, 1.0]), T([-1.0, 1.0])),
    *(F("cosine_embedding_loss", A, Z, T([1, -1, -1]), 0.1, reduction=r) for r in REDUCTIONS),
    F("cosine_embedding_loss", sample(4), sample(4, seed=1), T(1)),
    F("cosine_embedding_loss", A, sample(4), T([1, 1, 1])),
    F("cosine_embedding_loss", A, Z, T([[1], [1], [1]])),
    *(F("margin_ranking_loss", sample(3), sample(3, seed=1), SIGNS, 0.3, reduction=r) for r in REDUCTIONS),
    F("margin_ranking_loss", T([1.0]), T([1.0]), T([1.0])),
    F("margin_ranking_loss", sample(2), sample(2), sample(2, 1)),
    *(F("triplet_margin_loss", A, Z, sample(3, 4, seed=2), reduction=r) for r in REDUCTIONS),
    F("triplet_margin_loss", A, Z, sample(3, 4, seed=2), p=1, swap=True),
    F("triplet_margin_loss", A, Z, sample(4)),
    F("triplet_margin_loss", A, Z, Z, margin=-1),
    F("triplet_margin_with_distance_loss", A, Z, sample(3, 4, seed=2), swap=True),
    *(
        F("multi_margin_loss", SCORES, CLASSES, p, weight=w, reduction=r)
        for p in (1, 2)
        for w in (None, WEIGHT)
        for r in REDUCTIONS
    ),
    F("multi_margin_loss", sample(4), T(2)),
    F("multi_margin_loss", sample(2, 3), T([0, 4])),
    F("multi_margin_loss", sample(2, 3), T([0, 1]), p=3),
    *(
        F("multilabel_margin_loss", A, T([[3, 0, -1, 1], [-1, 0, 0, 0], [0, 1, 2, 3]]), reduction=r)
        for r in REDUCTIONS
    ),
    F("multilabel_margin_loss", sample(4), T([3, 0, -1, 1])),
    *(
        F("multilabel_soft_margin_loss", A, Q.round(), w, reduction=r)
        for w in (None, WEIGHT)
        for r in REDUCTIONS
    ),
]

TABLES = {
    "activations": activations,
    "dense": dense,
    "convolutions": convolutions,
    "padding": padding,
    "pooling": pooling,
    "norms": norms,
    "tables": tables,
    "classification": classification,
    "losses": losses,
}


@pytest.mark.parametrize(
    "c", [pytest.param(c, id=f"{t}-{i}-{c}") for t, cs in TABLES.items() for i, c in enumerate(cs)]
)
def test_matches_torch(c):
    check_case(c)


# ---------------------------------------------------------------- second derivatives

TWICE = [
    *(F(n, X + 0.01) for n in PLAIN if n != "hardsigmoid"),
    F("prelu", X, T([0.25], dtype=f64)),
    F("glu", X),
    F("softmax", X, 1),
    F("log_softmax", X, 1),
    F("linear", X, W, B),
    F("linear", sample(2, 3, 4), W),
    F("bilinear", sample(2, 3), sample(2, 4), sample(5, 3, 4), B),
    conv(2, IMG, KER, sample(4), 2, 1),
    conv(2, sample(2, 4, 5, 5), sample(6, 2, 3, 3), None, 1, 1, 1, 2),
    F("max_pool2d", IMG, 2),
    F("max_pool2d", IMG, 3, 2, 1),
    F("avg_pool2d", IMG, 2),
    F("adaptive_avg_pool2d", IMG, 4),
    F("pad", IMG, (1, 1, 1, 1), "reflect"),
    F("batch_norm", IMG, None, None, V3, sample(3, seed=4), training=True),
    F("layer_norm", sample(2, 3, 4), (3, 4), sample(3, 4, seed=1), sample(3, 4, seed=2)),
    F("group_norm", sample(2, 6, 4), 3, sample(6, seed=1), sample(6, seed=2)),
    F("rms_norm", X, (4,), sample(4)),
    F("embedding", T([1, 2, 1]), sample(3, 4)),
    F("cross_entropy", SCORES, CLASSES, label_smoothing=0.1),
    F("cross_entropy", A, Q),
    F("mse_loss", A, Z),
    F("smooth_l1_loss", A, Z),
    F("huber_loss", A, Z),
    F("binary_cross_entropy", P, Q),
    F("binary_cross_entropy_with_logits", A, Q),
    F("kl_div", P.log(), Q, reduction="batchmean"),
    F("cosine_embedding_loss", A, Z, T([1, -1, -1])),
    F("triplet_margin_loss", A, Z, sample(3, 4, seed=2)),
    F("cosine_similarity", A, Z),
    F("normalize", X),
]


@pytest.mark.parametrize("c", TWICE, ids=str)
def test_second_derivatives(c):
    check_second(c)


# ---------------------------------------------------------------- the tape shows PyTorch's structure

NODES = [
    F("linear", X, W, B),
    F("linear", X, W),
    F("linear", X, sample(4)),
    *(F(n, X) for n in PLAIN if n not in ("softsign", "tanhshrink")),  # composites there, one op here
    F("prelu", X, T([0.25], dtype=f64)),
    F("softmax", X, 1),
    F("log_softmax", X, 1),
    conv(2, IMG, KER, sample(4)),
    F("max_pool2d", IMG, 2),
    F("avg_pool2d", IMG, 2),
    F("adaptive_avg_pool2d", IMG, 2),
    F("adaptive_avg_pool2d", IMG, 1),
    F("layer_norm", X, (4,), sample(4), sample(4)),
    F("group_norm", sample(2, 6, 4), 3, sample(6, seed=1), sample(6, seed=2)),
    F("batch_norm", IMG, None, None, V3, sample(3), training=True),
    F("embedding", T([1]), sample(3, 4)),
    F("cross_entropy", SCORES, CLASSES),
    F("nll_loss", MAPS[:, :, None], LABELS[:, None]),
    F("mse_loss", A, Z),
    F("binary_cross_entropy_with_logits", A, Q),
]


@pytest.mark.parametrize("c", NODES, ids=str)
def test_nodes(c):
    args, kwargs = _fresh(c.args, True), _fresh(c.kwargs, True)
    node = resolve(torch, c.name)(*args, **kwargs).grad_fn
    ours = resolve(ft, c.name)(*to_ours(args), **to_ours(kwargs)).grad_fn
    assert type(ours).__name__ == type(node).__name__

    def children(n):
        names = [type(f).__name__ for f, _ in n.next_functions if f is not None]
        return [
            "AccumulateGrad" if name in ("ViewBackward0", "UnsqueezeBackward0") else name for name in names
        ]

    assert children(ours) == children(node)
