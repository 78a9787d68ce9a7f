"""Transposed convolution, resizing, sampling, sliding blocks, shuffles and their normalizations, against torch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from compare import _fresh, case, check_case, check_second, resolve, same, sample, to_ours
from twins import same_outcome

import functorch_port as ft

f32, f64, f16, bf16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
T = torch.tensor


def F(name, *args, **kwargs):
    return case(f"torch.nn.functional.{name}", *args, **kwargs)


# ---------------------------------------------------------------- transposed convolution

IMG, KER = sample(2, 4, 5, 6), sample(4, 3, 3, 2)
SEQ, VOL = sample(2, 4, 7), sample(1, 2, 3, 4, 3)


def up(*args, n=2, **kwargs):
    return F(f"conv_transpose{n}d", *args, **kwargs)


transposed = [
    *(
        up(IMG, sample(4, 3, *k), sample(3), stride=s, padding=p, output_padding=o)
        for k, s, p, o in [
            ((3, 2), 1, 0, 0),
            ((3, 2), 2, 1, 1),
            ((4, 4), 2, 1, 0),
            ((2, 2), 2, 0, 0),
            ((2, 1), 3, 0, 2),
            ((5, 3), (2, 3), (2, 1), (1, 2)),
            ((1, 1), 2, 0, 1),
        ]
    ),
    up(IMG, KER, dilation=2),
    up(IMG, KER, stride=2, dilation=(2, 3), padding=1, output_padding=2),
    up(IMG, sample(4, 2, 3, 3), sample(4), stride=2, groups=2, padding=1),
    up(IMG, sample(4, 1, 4, 4), stride=2, groups=4),
    up(IMG[0], KER, sample(3), stride=2),
    up(IMG.mT, KER, stride=(2, 1), padding=(1, 0)),
    up(IMG, KER, padding=2),
    up(SEQ, sample(4, 2, 4), sample(2), n=1, stride=3, padding=2, output_padding=1),
    up(SEQ[0], sample(4, 2, 3), n=1),
    up(VOL, sample(2, 3, 2, 3, 2), sample(3), n=3, stride=(2, 2, 1), padding=(0, 1, 0)),
    up(IMG.float(), KER.float(), stride=2, _tol=1e-5),
    *(up(IMG.to(d), KER.to(d), stride=s, _grad=False, _tol=2e-2) for d in (f16, bf16) for s in (1, 2)),
    up(sample(2, 4, 3, 3, dtype=torch.complex128), sample(4, 2, 2, 2, dtype=torch.complex128), stride=2),
    up(IMG.long(), KER.long(), stride=2),
    up(IMG[:0], KER, stride=2),
    up(IMG, KER, sample(2)),
    up(IMG, KER, stride=2, output_padding=2),
    up(VOL, sample(2, 3, 2, 2, 2), n=3, stride=2, output_padding=2),
    up(IMG, KER, padding=-1),
    up(IMG, KER, output_padding=-1),
    up(IMG, KER, stride=0),
    up(IMG, KER, groups=0),
    up(IMG, KER, groups=3),
    up(IMG[:, :3], KER),
    up(IMG[0, 0], KER),
    up(IMG, KER, stride=(1, 2, 3)),
    up(IMG, KER, padding=(1, 2, 3)),
    up(IMG, KER, padding="same"),
    up(IMG, KER.float()),
    up(IMG[:, :, :0], KER),
    up(IMG.bool(), KER.bool()),
]

# ---------------------------------------------------------------- resizing

SIZES = ((3, 9), (10, 12), (5, 6), (1, 1), (2, 3), (20, 18))
resized = [
    *(F("interpolate", IMG, s, mode=m) for m in ("nearest", "nearest-exact", "area") for s in SIZES),
    *(
        F("interpolate", IMG, s, mode=m, align_corners=a)
        for m in ("bilinear", "bicubic")
        for s in SIZES
        for a in (False, True)
    ),
    *(
        F("interpolate", sample(1, 2, 16, 13), s, mode=m, antialias=True, align_corners=a, _tol=1e-6)
        for m in ("bilinear", "bicubic", "lanczos")
        for s in ((5, 4), (20, 30))
        for a in (False, True)
        if not (a and m == "lanczos")  # its weights are rounded to float32 in torch
    ),
    *(
        F("interpolate", x, scale_factor=f, mode=m, recompute_scale_factor=r)
        for x, m in (
            (SEQ, "linear"),
            (IMG, "bicubic"),
            (IMG, "nearest"),
            (IMG, "nearest-exact"),
            (VOL, "trilinear"),
        )
        for f in (0.7, 1.3, 2, 3)
        for r in (None, True)
    ),
    F("interpolate", VOL, (4, 3, 7), mode="trilinear", align_corners=True),
    F("interpolate", VOL, scale_factor=(1.5, 2, 0.6)),
    F("interpolate", sample(2, 3, 33), 77, mode="linear"),
    F("interpolate", IMG.float(), (7, 11), mode="bilinear"),
    F("interpolate", IMG.float(), scale_factor=4, mode="bicubic", _tol=1e-5),
    *(
        F("interpolate", IMG.to(d), (7, 11), mode=m, _grad=False)
        for d in (f16, bf16)
        for m in ("nearest", "bilinear")
    ),
    F("interpolate", (IMG * 50 + 120).to(torch.uint8), (3, 12)),
    F("interpolate", IMG[:0], 3),
    F("interpolate", IMG, 3, 2),
    F("interpolate", IMG, scale_factor=1e20, mode="bilinear"),
    F("interpolate", IMG, scale_factor=math.nan),
    F("interpolate", IMG),
    F("interpolate", IMG, (1, 2, 3)),
    F("interpolate", IMG, (1.5, 2)),
    F("interpolate", IMG, scale_factor=(1, 2, 3)),
    F("interpolate", IMG, 3, align_corners=True),
    F("interpolate", IMG, 3, recompute_scale_factor=True),
    F("interpolate", SEQ, 3, mode="bilinear"),
    F("interpolate", SEQ, 3, mode="bicubic"),
    F("interpolate", IMG, 3, mode="foo"),
    F("interpolate", IMG, 3, mode="lanczos"),
    F("interpolate", IMG, 3, antialias=True),
    F("interpolate", IMG, 0),
    F("interpolate", IMG, scale_factor=0.1, mode="bilinear"),
    F("interpolate", IMG[:, :0], 3),
    F("interpolate", IMG.long(), 3),
    F("upsample", IMG, 3),
    F("upsample_nearest", IMG, scale_factor=2),
    F("upsample_bilinear", IMG, scale_factor=2),
]

# ---------------------------------------------------------------- sampling

PLACES = sample(2, 3, 4, 2, low=-1.7, high=1.7)
PLACES3 = sample(1, 2, 3, 2, 3, low=-1.7, high=1.7)
MODES = [
    (m, p, a)
    for m in ("bilinear", "nearest")
    for p in ("zeros", "border", "reflection")
    for a in (False, True)
]
EDGES = T([[[[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0], [-3.0, 9.0], [0.2, -1.0], [5.0, -0.6]]]], dtype=f64)
THETA, THETA3 = sample(2, 2, 3), sample(2, 3, 4)

sampled = [
    *(F("grid_sample", IMG, PLACES, m, p, a) for m, p, a in MODES),
    *(F("grid_sample", VOL, PLACES3, m, p, a) for m, p, a in MODES[::3]),
    *(F("grid_sample", IMG, PLACES, "bicubic", p, a) for _, p, a in (MODES[0], MODES[3], MODES[4])),
    *(F("grid_sample", IMG[:1], EDGES, "bilinear", p, a, _grad=p == "zeros") for _, p, a in MODES[:6]),
    F("grid_sample", IMG.float(), PLACES.float(), align_corners=False, _tol=1e-5),
    F("grid_sample", IMG.half(), PLACES.half(), align_corners=False, _grad=False, _tol=3e-3),
    F("grid_sample", IMG[:, :, :1, :1], PLACES, padding_mode="reflection", align_corners=True),
    F("grid_sample", IMG[:0], PLACES[:0]),
    F("grid_sample", IMG, PLACES[:, :0]),
    F("grid_sample", IMG, PLACES3),
    F("grid_sample", IMG, PLACES[:1]),
    F("grid_sample", IMG, PLACES[..., :1]),
    F("grid_sample", IMG[:, :, :0], PLACES),
    F("grid_sample", IMG, PLACES.float()),
    F("grid_sample", IMG, PLACES, "cubic"),
    F("grid_sample", IMG, PLACES, padding_mode="ones"),
    F("grid_sample", VOL, PLACES3, "bicubic"),
    F("grid_sample", IMG.long(), PLACES.long()),
    case("torch.grid_sampler", IMG, PLACES, 0, 1, True),
    *(F("affine_grid", THETA, (2, 3, 4, 5), a) for a in (None, False, True)),
    *(F("affine_grid", THETA3, (2, 3, 4, 1, 5), a) for a in (False, True)),
    F("affine_grid", THETA.float(), [2, 1, 3, 3]),
    F("affine_grid", THETA3, (2, 3, 4, 5)),
    F("affine_grid", THETA, (2, 3, 4)),
    F("affine_grid", THETA, (2, 3, 0, 4)),
    F("affine_grid", THETA, (3, 3, 4, 4)),
    F("affine_grid", THETA.long(), (2, 3, 4, 4)),
]

# ---------------------------------------------------------------- blocks, shuffles, normalization

BLOCKS = sample(2, 12, 12)
rearranged = [
    F("unfold", IMG, 3),
    F("unfold", IMG, (2, 3), dilation=2, padding=1, stride=2),
    F("unfold", IMG[0], [2, 1], stride=(1, 3)),
    F("unfold", IMG > 0, 2),
    F("unfold", IMG, 30),
    F("unfold", IMG, 3, dilation=0),
    F("unfold", IMG, 3, padding=-1),
    F("unfold", IMG, 3, stride=0),
    F("unfold", IMG, 0),
    F("unfold", IMG, (1, 2, 3)),
    F("unfold", IMG[:0], 2),
    F("unfold", IMG[:, :0], 2),
    F("unfold", IMG.long(), 2),
    F("fold", BLOCKS, (4, 5), 2),
    F("fold", BLOCKS[..., :6], (5, 5), (2, 3), dilation=(2, 1), padding=(1, 0), stride=(2, 2)),
    F("fold", BLOCKS[0], [4, 5], [2, 2]),
    F("fold", BLOCKS[:0], (4, 5), 2),
    F("fold", BLOCKS, (4, 6), 2),
    F("fold", BLOCKS, (4, 5), (5, 2)),
    F("fold", BLOCKS[0, 0], (4, 5), 2),
    F("fold", BLOCKS, (4, 5), 2, stride=0),
    F("fold", BLOCKS, (4, 5, 6), 2),
    F("fold", BLOCKS.long(), (4, 5), 2),
    *(F(n, IMG, 2) for n in ("pixel_shuffle", "channel_shuffle")),
    F("pixel_unshuffle", IMG[:, :, :4], 2),
    F("pixel_shuffle", sample(9, 2, 2), 3),
    F("pixel_unshuffle", sample(2, 3, 1, 4, 8), 4),
    *(F(n, IMG, k) for n in ("pixel_shuffle", "channel_shuffle", "pixel_unshuffle") for k in (3, 0)),
    *(F(n, IMG[0, 0], 2) for n in ("pixel_shuffle", "channel_shuffle", "pixel_unshuffle")),
    F("instance_norm", IMG),
    F("instance_norm", IMG, None, None, sample(4), sample(4, seed=1)),
    F(
        "instance_norm",
        SEQ,
        torch.zeros(4, dtype=f64),
        torch.ones(4, dtype=f64),
        use_input_stats=False,
        _first=True,
    ),
    F("instance_norm", IMG.half(), None, None, sample(4).half(), _grad=False, _tol=2e-3),
    F("instance_norm", IMG[:, :, :1, :1]),
    F("instance_norm", IMG, torch.zeros(3), torch.ones(3)),
    F("instance_norm", IMG, None, None, sample(4), sample(3)),
    F("instance_norm", IMG, torch.zeros(4, dtype=f64), _grad=False),
    F("instance_norm", IMG, use_input_stats=False),
    F("instance_norm", IMG.long()),
    *(F("local_response_norm", x, s, 0.3, 0.6, 1.5) for x in (SEQ, IMG, VOL) for s in (1, 2, 3, 5)),
    F("local_response_norm", sample(1, 30, 2), 25, 0.3),
    F("local_response_norm", IMG[0, 0], 2),
    F("local_response_norm", IMG, 0),
]

CASES = [*transposed, *resized, *sampled, *rearranged]


@pytest.mark.parametrize("c", CASES, ids=str)
def test_against_torch(c):
    check_case(c)


TWICE = [
    up(IMG[:1, :, :3, :3], KER, stride=2),
    F("interpolate", IMG[:1], (7, 9), mode="bicubic"),
    F("grid_sample", IMG[:1, :1], PLACES[:1], "bilinear", "zeros", False),
    F("unfold", IMG[:1], 2),
    F("fold", BLOCKS[:1], (4, 5), 2),
    F("instance_norm", IMG[:1], None, None, sample(4), sample(4, seed=1)),
    F("local_response_norm", IMG[:1], 3, 0.3),
]


@pytest.mark.parametrize("c", TWICE, ids=str)
def test_second_derivatives(c):
    check_second(c)


NODES = [
    up(IMG, KER),
    *(F("interpolate", IMG, 7, mode=m) for m in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")),
    *(F("interpolate", IMG, 7, mode=m, antialias=True) for m in ("bilinear", "bicubic", "lanczos")),
    F("interpolate", SEQ, 3, mode="linear"),
    F("interpolate", VOL, 3, mode="trilinear"),
    F("grid_sample", IMG, PLACES, align_corners=True),
    F("grid_sample", VOL, PLACES3, align_corners=True),
    F("affine_grid", THETA, (2, 3, 4, 5), True),
    F("unfold", IMG, 2),
    F("fold", BLOCKS, (4, 5), 2),
    F("pixel_shuffle", IMG, 2),
    F("channel_shuffle", IMG, 2),
    F("instance_norm", IMG),
    F("local_response_norm", IMG, 2),
]


@pytest.mark.parametrize("c", NODES, ids=str)
def test_nodes(c):
    args, kwargs = _fresh(c.args, True), _fresh(c.kwargs, True)
    node = resolve(torch, c.name)(*args, **kwargs).grad_fn
    ours = resolve(ft, c.name)(*to_ours(args), **to_ours(kwargs)).grad_fn
    assert type(ours).__name__ == type(node).__name__


def test_instance_norm_keeps_statistics():
    def program(lib, x, mean, var):
        y = lib.nn.functional.instance_norm(x, mean, var, momentum=0.3)
        return y, mean, var

    theirs = program(torch, IMG, torch.zeros(4, dtype=f64), torch.ones(4, dtype=f64))
    ours = program(ft, to_ours(IMG), ft.zeros(4, dtype=ft.float64), ft.ones(4, dtype=ft.float64))
    same(theirs, ours)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_bytes_are_resized_in_whole_numbers(mode, antialias):
    """PyTorch's weights for bytes have a power of two as denominator, and each dimension is rounded."""
    numbers = np.random.default_rng(0)
    for shape, how in (
        ((2, 3, 7, 9), {"size": (14, 18)}), ((2, 3, 33, 40), {"size": (5, 4)}), ((1, 4, 8, 8), {"size": (8, 3)}),
        ((1, 5, 16, 16), {"scale_factor": (1.3, 0.4)}), ((1, 1, 9, 9), {"size": (33, 7), "align_corners": True}),
    ):  # fmt: skip
        bytes_ = numbers.integers(0, 256, shape).astype(np.uint8)
        how = {"mode": mode, "antialias": antialias, **how}
        theirs = torch.nn.functional.interpolate(torch.from_numpy(bytes_), **how)
        ours = ft.nn.functional.interpolate(ft.from_numpy(bytes_), **how)
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_a_grid_of_one_row_is_warned_of():
    def program(T):
        return [
            T.nn.functional.affine_grid(T.eye(2, 3)[None], (1, 1, 1, 2), a).tolist() for a in (False, True)
        ]

    same_outcome(program)
