"""torchvision's operators: its numbers, its order of ties, its gradients and its errors."""

from __future__ import annotations

import importlib
import inspect
import itertools

import numpy as np
import pytest
import torch
from compare import same, to_ours
from real_torchvision import compiled, torchvision

import functorch_port as ft
from functorch_port.vision import ops as ours

theirs = torchvision.ops
COMPILED = pytest.mark.skipif(not compiled, reason="torchvision's C++ operators cannot be loaded")


def boxes(rng, n, whole=False, low=0.0, high=10.0):
    """Boxes, many of them alike if they have whole numbers."""
    corners = rng.integers(int(low), int(high), (n, 2, 2)) if whole else rng.uniform(low, high, (n, 2, 2))
    return np.sort(corners, 1).reshape(n, 4)


def compared(name, *args, grad=True, tol=None, **kwargs):
    """Call both; results, errors and gradients of floating tensors are the same."""
    results = []
    for T, ops in ((torch, theirs), (ft, ours)):
        given = [to_ours(a) if T is ft else a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        tensors = [a for a in given if isinstance(a, T.Tensor) and a.is_floating_point() and grad]
        for a in tensors:
            a.requires_grad_()
        try:
            out = getattr(ops, name)(*given, **kwargs)
        except Exception as error:
            results.append((type(error), str(error)))
            continue
        grads = []
        if tensors and out.requires_grad:
            (out * T.arange(1, out.numel() + 1).reshape(out.shape)).sum().backward()
            grads = [a.grad for a in tensors]
        results.append((out.detach(), grads))
    want, got = results
    if isinstance(want[0], type):
        assert got == want
    else:
        same(want[0], got[0], tol)
        for a, b in zip(want[1], got[1], strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                same(a, b, tol)


# boxes

PAIRS = ("box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.int32, torch.int64, torch.uint8)


@pytest.mark.parametrize("name", PAIRS)
def test_overlaps(name):
    rng = np.random.default_rng(0)
    a, b = torch.tensor(boxes(rng, 5)), torch.tensor(boxes(rng, 7))
    compared(name, a, b)
    whole = torch.tensor(boxes(rng, 6, whole=True)) + torch.tensor([0, 0, 1, 1])
    for dtype in DTYPES if name in PAIRS[::3] else ():
        compared(name, whole.to(dtype), whole.flip(0).to(dtype), grad=False)
    compared(name, whole, whole.float(), grad=False)
    compared(name, a[:0], b)


def test_overlaps_of_batches_and_formats():
    rng = np.random.default_rng(1)
    a, b = torch.tensor(boxes(rng, 8)).reshape(2, 4, 4), torch.tensor(boxes(rng, 6)).reshape(2, 3, 4)
    for fmt in ("xyxy", "xywh", "cxcywh"):
        compared("box_iou", a, b, fmt=fmt)
        compared("box_area", a, fmt)
    for name in PAIRS:
        compared(name, a, b)
    compared("box_iou", a, b, fmt="foo")
    compared("box_area", a, "foo")
    for dtype in DTYPES:
        compared("box_area", torch.tensor([[0, 0, 20, 20]]).to(dtype), grad=False)


@pytest.mark.parametrize(
    "name", ["generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss"]
)
def test_losses_of_boxes(name):
    rng = np.random.default_rng(2)
    a, b = torch.tensor(boxes(rng, 6)), torch.tensor(boxes(rng, 6))
    for reduction in ("none", "mean", "sum", "foo"):
        compared(name, a, b, reduction=reduction)
        compared(name, a[:0], b[:0], reduction=reduction)


def test_formats():
    rng = np.random.default_rng(3)
    a = torch.tensor(boxes(rng, 6)).reshape(2, 3, 4)
    for start, end in itertools.product(("xyxy", "xywh", "cxcywh"), repeat=2):
        compared("box_convert", a, start, end)
        compared("box_convert", a.long(), start, end)
    compared("box_convert", a, "foo", "xyxy")
    with pytest.raises(NotImplementedError, match="rotated boxes are not supported"):
        ours.box_convert(ft.zeros(1, 5), "xywhr", "cxcywhr")


def test_clipping_small_boxes_and_masks():
    rng = np.random.default_rng(4)
    a = torch.tensor(boxes(rng, 12, low=-5, high=15))
    for size in ((5, 6), (7.5, 3)):
        compared("clip_boxes_to_image", a, size)
        compared("clip_boxes_to_image", a.long().reshape(3, 4, 4), size)
    for least in (0, 3, 4.5):
        compared("remove_small_boxes", a, least)
        compared("remove_small_boxes", a.long(), least)
    masks = torch.tensor(rng.uniform(size=(5, 7, 9)) > 0.93)
    masks[2] = False
    for given in (masks, masks.float(), masks.byte(), masks[:0]):
        compared("masks_to_boxes", given, grad=False)


# non-maximum suppression


def brute_force(rows, scores, threshold):
    """The definition, one pair after the other, in the dtype of the boxes."""
    order = sorted(range(len(rows)), key=lambda i: (not np.isnan(scores[i]), -scores[i], i))
    kept = []
    zero = rows.dtype.type(0)
    for j in order:
        x1, y1, x2, y2 = rows[j]
        for i in kept:
            a1, b1, a2, b2 = rows[i]
            common = max(zero, min(x2, a2) - max(x1, a1)) * max(zero, min(y2, b2) - max(y1, b1))
            union = (a2 - a1) * (b2 - b1) + (x2 - x1) * (y2 - y1) - common
            if union != 0 and float(common / union) > threshold:
                break
        else:
            kept.append(j)
    return kept


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nms_keeps_what_torchvision_keeps(dtype):
    rng = np.random.default_rng(5)
    for trial in range(60):
        n = int(rng.integers(0, 40))
        rows = boxes(rng, n, whole=trial % 2 == 0, high=7).astype(dtype)
        scores = (rng.integers(0, 4, n) / 4 if trial % 3 else rng.uniform(size=n)).astype(dtype)
        if n and trial % 10 == 0:
            scores[rng.integers(n)] = np.nan
        threshold = float(rng.choice([0, 0.1, 0.25, 1 / 3, 0.5, 0.7, 1.0]))
        kept = ours.nms(ft.tensor(rows), ft.tensor(scores), threshold)
        assert kept.dtype == ft.int64 and kept.tolist() == brute_force(rows, scores, threshold)
        if compiled:
            assert kept.tolist() == theirs.nms(torch.tensor(rows), torch.tensor(scores), threshold).tolist()


@COMPILED
def test_nms_refuses_what_torchvision_refuses():
    a, s = torch.rand(3, 4), torch.rand(3)
    for args in (
        (a[0], s),
        (a[:, :3], s),
        (a, s[:, None]),
        (a, s[:2]),
        (a, s.double()),
        (a.long(), s.long()),
    ):
        compared("nms", *args, 0.5, grad=False)


def test_batched_nms_within_classes():
    rng = np.random.default_rng(6)
    for n in (0, 30, 1100):  # beyond 1000 boxes one class after the other
        rows = boxes(rng, n, high=20).astype(np.float32)
        scores, classes = rng.permutation(n).astype(np.float32), rng.integers(0, 3, n)
        kept = ours.batched_nms(ft.tensor(rows), ft.tensor(scores), ft.tensor(classes), 0.4).tolist()
        each = [np.flatnonzero(classes == c) for c in range(3)]
        want = [at[i] for at in each for i in brute_force(rows[at], scores[at], 0.4)]
        assert kept == sorted(want, key=lambda i: -scores[i])
        if compiled:
            given = torch.tensor(rows), torch.tensor(scores), torch.tensor(classes)
            assert kept == theirs.batched_nms(*given, 0.4).tolist()


def test_in_compile_nms_says_what_to_do():
    with pytest.raises(RuntimeError, match="nms outside of the compiled function"):
        ft.compile(lambda b, s: ours.nms(b, s, 0.5))(ft.rand(3, 4), ft.rand(3))


# regions


def regions(rng, k, low, high):
    return np.c_[rng.integers(0, 2, k), boxes(rng, k, low=low, high=high)]


@pytest.mark.parametrize("ratio", [2, -1])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align_is_the_python_one_within_images(ratio, aligned):
    reference = inspect.unwrap(importlib.import_module("torchvision.ops.roi_align")._roi_align)
    rng = np.random.default_rng(7)
    x, rois = rng.normal(size=(2, 3, 8, 9)), regions(rng, 5, 0, 8)
    at, bt = torch.tensor(x, requires_grad=True), ft.tensor(x, requires_grad=True)
    want = reference(at, torch.tensor(rois), 0.9, 3, 2, ratio, aligned)
    got = ours.roi_align(bt, ft.tensor(rois), (3, 2), 0.9, ratio, aligned)
    same(want.detach(), got.detach(), 1e-12)
    want.sin().sum().backward(), got.sin().sum().backward()
    same(at.grad, bt.grad, 1e-12)


REGIONS = {
    "roi_align": [
        {"sampling_ratio": ratio, "aligned": aligned} for ratio in (2, -1) for aligned in (False, True)
    ],
    "roi_pool": [{}, {}],
}


@COMPILED
@pytest.mark.parametrize("name", REGIONS)
def test_regions_are_those_of_the_compiled_operators(name):
    rng = np.random.default_rng(8)
    for trial, options in enumerate(REGIONS[name] * 2):
        dtype = torch.float32 if trial % 2 else torch.float64
        rois = regions(rng, 6, -4, 13)
        if trial % 3 == 0:
            rois = np.round(rois)
        rois[0, 1:] = rois[0, [3, 4, 1, 2]]  # of negative size
        x, rois = torch.tensor(rng.normal(size=(2, 2, 8, 9)), dtype=dtype), torch.tensor(rois, dtype=dtype)
        tol = 1e-12 if dtype is torch.float64 else 1e-5
        compared(name, x, rois, (3, 2), [1.0, 0.5, 0.7][trial % 3], tol=tol, **options)


def test_regions_as_lists_modules_and_none():
    rng = np.random.default_rng(9)
    x = ft.tensor(rng.normal(size=(2, 2, 8, 9)))
    lists = [ft.tensor(boxes(rng, 3)), ft.tensor(boxes(rng, 2))]
    rois = ft.cat([ft.cat([ft.full((len(b), 1), i), b], 1) for i, b in enumerate(lists)])
    for fn, module in (
        (ours.roi_align, ours.RoIAlign(3, 0.5, 2)),
        (ours.roi_pool, ours.RoIPool(3, 0.5)),
    ):
        more = (2,) if fn is ours.roi_align else ()
        want = fn(x, rois, 3, 0.5, *more)
        assert want.tolist() == fn(x, lists, (3, 3), 0.5, *more).tolist() == module(x, lists).tolist()
        assert repr(module) == repr(getattr(theirs, type(module).__name__)(3, 0.5, *more))
        assert fn(x, ft.zeros(0, 5, dtype=ft.float64), 2).shape == (0, 2, 2, 2)
        with pytest.raises(IndexError, match="a box is in image 2, but there are 2"):
            fn(x, ft.tensor([[2.0, 0, 0, 1, 1]], dtype=ft.float64), 2)
        with pytest.raises(RuntimeError, match="input should have the same type as rois"):
            fn(x, rois.float(), 2)
        for wrong in ([ft.zeros(1, 5)], ft.zeros(1, 4), "x"):
            with pytest.raises(AssertionError, match="boxes"):
                fn(x, wrong, 2)


@pytest.mark.parametrize("ratio", [2, -1])
def test_gradients_are_those_of_finite_differences(ratio):
    rng = np.random.default_rng(10)
    x = ft.tensor(rng.normal(size=(2, 1, 4, 5)), requires_grad=True)
    rois = ft.tensor(regions(rng, 3, -1, 5))
    align = lambda x: ours.roi_align(x, rois, 2, 1.0, ratio)
    assert ft.autograd.gradcheck(align, (x,)) and ft.autograd.gradgradcheck(align, (x,))
    assert ft.autograd.gradcheck(lambda x: ours.roi_pool(x, rois, 2), (x,))


def test_regions_and_boxes_compiled():
    rng = np.random.default_rng(11)
    x, rois = ft.tensor(rng.normal(size=(2, 2, 8, 9))), ft.tensor(regions(rng, 4, 0, 8))

    def f(x, rois):
        x = x.clone().requires_grad_()
        out = ours.roi_align(x, rois, 2).sum() + ours.roi_pool(x, rois, 2).sum()
        (g,) = ft.autograd.grad(out, x)
        return out, g, ours.generalized_box_iou(rois[:, 1:], rois[:, 1:]), ours.masks_to_boxes(x[:, 0] > 1)

    for a, b in zip(f(x, rois), ft.compile(f)(x, rois), strict=True):
        np.testing.assert_allclose(np.asarray(b.detach()), np.asarray(a.detach()), 1e-12, 1e-12)
    with pytest.raises(IndexError, match="a box is in image [78]"):
        ft.compile(f)(x, rois + 7)
    each = ft.func.vmap(lambda x: ours.roi_align(x[None], rois[:, 1:][None].unbind(0), 2))(x)
    np.testing.assert_allclose(
        np.asarray(each[1]), np.asarray(ours.roi_align(x[1:], [rois[:, 1:]], 2)), 1e-12, 1e-12
    )


# the rest


def test_focal_loss():
    rng = np.random.default_rng(12)
    x, y = torch.tensor(rng.normal(size=(4, 3))), torch.tensor(rng.uniform(size=(4, 3)) > 0.5).double()
    for reduction in ("none", "mean", "sum", "foo"):
        compared("sigmoid_focal_loss", x, y, reduction=reduction)
    for options in ({"alpha": -1}, {"alpha": 2}, {"gamma": 0.5}):
        compared("sigmoid_focal_loss", x, y, **options)


def test_stochastic_depth_draws_as_torchvision():
    x = torch.rand(5, 2, 3)
    for p, mode, training in itertools.product((0.0, 0.3, 1.0), ("row", "batch"), (True, False)):
        torch.manual_seed(1), ft.manual_seed(1)
        want = theirs.stochastic_depth(x, p, mode, training)
        got = ours.stochastic_depth(to_ours(x), p, mode, training)
        same(want, got)
    compared("stochastic_depth", x, 2, "row")
    compared("stochastic_depth", x, 0.5, "foo")
    assert repr(ours.StochasticDepth(0.2, "row")) == repr(theirs.StochasticDepth(0.2, "row"))


MODULES = [
    lambda o, nn: o.Conv2dNormActivation(3, 4, 5, 2, dilation=2),
    lambda o, nn: o.Conv2dNormActivation(3, 4, (3, 5), dilation=(1, 2), norm_layer=None, activation_layer=nn.SiLU),
    lambda o, nn: o.Conv2dNormActivation(3, 4, 3, padding="same", inplace=None, activation_layer=nn.GELU, bias=True),
    lambda o, nn: nn.Sequential(nn.Conv2d(3, 8, 1), o.SqueezeExcitation(8, 2, nn.SiLU, nn.Hardsigmoid)),
    lambda o, nn: o.FrozenBatchNorm2d(3),
    lambda o, nn: o.Permute([0, 2, 3, 1]),
    lambda o, nn: o.MLP(8, [6, 4], norm_layer=nn.LayerNorm, activation_layer=nn.GELU, dropout=0.2),
    lambda o, nn: o.MLP(8, [4], inplace=True, bias=False),
]  # fmt: skip


@pytest.mark.parametrize("i", range(len(MODULES)))
def test_modules(i):
    torch.manual_seed(0), ft.manual_seed(0)
    a, b = MODULES[i](theirs, torch.nn), MODULES[i](ours, ft.nn)
    assert repr(a) == repr(b) and list(a.state_dict()) == list(b.state_dict())
    x = torch.rand(2, 3, 8, 8)
    torch.manual_seed(1), ft.manual_seed(1)
    same(a(x).detach(), b(to_ours(x)).detach(), 1e-5)


def test_frozen_normalization_loads_the_state_of_one_that_was_not():
    norm, frozen = ft.nn.BatchNorm2d(3), ours.FrozenBatchNorm2d(3)
    x = ft.rand(4, 3, 5, 5)
    norm(x)
    assert str(frozen.load_state_dict(norm.state_dict())) == "<All keys matched successfully>"
    np.testing.assert_allclose(np.asarray(frozen(x)), np.asarray(norm.eval()(x).detach()), 1e-5, 1e-6)


def test_what_is_not_here_is_refused():
    with pytest.raises(NotImplementedError, match="grid_sample"):
        ours.deform_conv2d(ft.rand(1, 1, 3, 3), ft.rand(1, 2, 3, 3), ft.rand(1, 1, 1, 1))
    with pytest.raises(NotImplementedError, match="deform_conv2d is not supported"):
        ours.DeformConv2d(1, 1, 1)
    assert {n for n in theirs.__all__ if not hasattr(ours, n)} <= {
        "DropBlock2d", "DropBlock3d", "PSRoIAlign", "PSRoIPool", "drop_block2d", "drop_block3d", "ps_roi_align",
        "ps_roi_pool",
    }  # fmt: skip


def test_they_are_no_names_of_pytorch():
    for name in ("nms", "_nms", "roi_align", "_roi_align", "_roi_pool", "box_iou"):
        assert not hasattr(ft, name) and not hasattr(ft.Tensor, name)
    assert not hasattr(ft.nn.functional, "roi_align")


def pyramid(T, ops, extra):
    """A network, its levels and their boxes, made from one seed."""
    T.manual_seed(0)
    block = {
        None: lambda: None,
        "pool": lambda: ops.feature_pyramid_network.LastLevelMaxPool(),
        "p6p7": lambda: ops.feature_pyramid_network.LastLevelP6P7(6, 6),
        "c6p7": lambda: ops.feature_pyramid_network.LastLevelP6P7(8, 6),
    }[extra]()
    norm = T.nn.BatchNorm2d if extra == "pool" else None
    net = ops.FeaturePyramidNetwork([4, 8], 6, block, norm)
    levels = {"0": T.rand(2, 4, 64, 48, requires_grad=True), "1": T.rand(2, 8, 32, 24, requires_grad=True)}
    return net, levels


@pytest.mark.parametrize("extra", [None, "pool", "p6p7", "c6p7"])
def test_feature_pyramids_and_their_regions(extra):
    rng = np.random.default_rng(13)
    rows = [boxes(rng, 4, low=0, high=190).astype(np.float32) for _ in range(2)]
    found = []
    for T, ops in ((torch, theirs), (ft, ours)):
        net, levels = pyramid(T, ops, extra)
        out = net(levels)
        pool = ops.MultiScaleRoIAlign(["0", "1"], (3, 2), 2, canonical_scale=60)
        parts = []
        if compiled:
            given = [T.tensor(r) for r in rows]
            parts = [
                pool(out, given, [(256, 192)] * 2),
                ops.MultiScaleRoIAlign(["1"], 2, -1)(out, given, [(250, 192)]),
            ]
        total = sum(part.sin().sum() for part in [*out.values(), *parts])
        total.backward()
        grads = [level.grad for level in levels.values()]
        found.append((repr(net), repr(pool), list(net.state_dict()), [*out], [*out.values(), *parts, *grads]))
    want, got = found
    assert got[:4] == want[:4]
    for a, b in zip(want[4], got[4], strict=True):
        same(a.detach(), b.detach(), 1e-4)
