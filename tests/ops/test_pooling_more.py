"""Unpooling, fractional and power pooling, bags of embeddings, CTC, pairwise distances, against torch."""

from __future__ import annotations

import math

import pytest
import torch
from compare import case, check_case, check_second, same, sample, to_ours

import functorch_port as ft

f32, f64, i32, i64 = torch.float32, torch.float64, torch.int32, torch.int64
T = torch.tensor
inf = math.inf


def F(name, *args, **kwargs):
    return case(f"torch.nn.functional.{name}", *args, **kwargs)


IMG, SEQ, VOL = sample(2, 3, 8, 9), sample(2, 3, 9), sample(1, 2, 6, 7, 8)


# ---------------------------------------------------------------- pooling


def unpool(x, n, kernel, *rest, index=0, **kwargs):
    pooled, where = getattr(torch.nn.functional, f"max_pool{n}d")(x, kernel, return_indices=True)
    return F(f"max_unpool{n}d", pooled, where + index, kernel, *rest, _first=True, **kwargs)


ZEROS = torch.zeros(1, 2, 4, 4, dtype=f64)
pooled = [
    F("lp_pool2d", IMG, 2, 3),
    F("lp_pool2d", IMG.abs(), 2.5, (2, 3), 1, True),
    F("lp_pool2d", IMG, 3.0, 2, _grad=False),
    F("lp_pool2d", ZEROS, 2, 2),
    F("lp_pool1d", SEQ, 2, 3, [2]),
    F("lp_pool1d", SEQ, inf, 3),
    F("lp_pool2d", IMG, -inf, 3),
    F("lp_pool3d", VOL, 2, (2, 3, 2), 2),
    F("lp_pool2d", IMG.long(), 2, 3),
    F("lp_pool2d", IMG.half(), 2, 3, _grad=False),
    F("lp_pool1d", IMG, 2, 3),
    F("lp_pool2d", IMG, 0, 3),
    unpool(SEQ, 1, 2, output_size=(9,)),
    unpool(SEQ[0], 1, 2, 2, 0, (9,)),
    unpool(IMG, 2, (2, 3), output_size=(8, 9)),
    unpool(IMG, 2, (2, 3), output_size=(2, 3, 8, 9)),
    unpool(IMG[0], 2, (2, 3), [2, 3]),
    unpool(VOL, 3, 2, output_size=(6, 7, 8)),
    unpool(IMG[:, :, :, :8], 2, 2, index=500, _text="any"),  # torch names one of the bad indices
    unpool(IMG, 2, 2, output_size=(8,)),
    unpool(IMG, 2, 2, output_size=(12, 9)),
    unpool(VOL, 3, 2, 0),
    F("max_unpool3d", VOL, torch.zeros(VOL.shape, dtype=i64), [1, 1]),
    F("max_unpool2d", IMG, torch.zeros(IMG.shape, dtype=i64), [1]),
    F("max_unpool2d", IMG, torch.zeros(2, 3, 8, 9, dtype=i32), 2),
    F("max_unpool2d", IMG, torch.zeros(1, 3, 8, 9, dtype=i64), 2),
    F("max_unpool2d", IMG[0, 0], torch.zeros(8, 9, dtype=i64), 2),
    F("max_unpool2d", IMG.long(), torch.zeros(2, 3, 8, 9, dtype=i64), 2),
    F("adaptive_max_pool2d_with_indices", IMG, 3),
    *(
        F(f"fractional_max_pool{n}d", x, k, s, None, i, r, _first=True)
        for n, x, k, s, r in (
            (2, IMG, 3, (4, 5), sample(2, 3, 2, low=0, high=1)),
            (2, IMG[0], (2, 3), 6, sample(1, 3, 2, low=0, high=1)),
            (2, IMG, 2, (1, 8), sample(2, 3, 2, low=0, high=1)),
            (3, VOL, 2, (3, 4, 5), sample(1, 2, 3, low=0, high=1)),
        )
        for i in (False, True)
    ),
    F(
        "fractional_max_pool2d",
        IMG.round(),
        3,
        None,
        (0.5, 0.6),
        False,
        IMG[:, :, 0, :2].abs() / 2,
        _first=True,
    ),
    F("fractional_max_pool2d", IMG, 3),
    F("fractional_max_pool3d", VOL, 3),
    F("fractional_max_pool2d", IMG, 20, 3),
    F("fractional_max_pool2d", IMG, 2, 8),
    F("fractional_max_pool3d", VOL, 7, 3),
    F("fractional_max_pool2d", IMG[:, :0], 2, 3),
    F("fractional_max_pool2d", IMG, 2, 3, None, False, sample(1, 3, 2, low=0, high=1), _first=True),
    F("fractional_max_pool2d", IMG, (1, 2, 3), 3),
    F("fractional_max_pool2d", IMG, (2,), 3),
    F("fractional_max_pool3d", VOL, 2, (3,)),
    F("fractional_max_pool2d", IMG, 2, (-1, 3)),
    F("fractional_max_pool2d", IMG, 2, (0, 2), None, True, _first=True),
    F("fractional_max_pool3d", VOL, 2, (2, 1, 0), None, True, _first=True),
]

# ---------------------------------------------------------------- pairwise distances

ROWS = sample(5, 3)
TWINS = T([[1.0, 2.0], [1.0, 2.0], [3.0, -2.0], [0.0, 2.0]], dtype=f64)
distances = [
    *(F("pdist", ROWS, p) for p in (0, 1, 1.5, 2, 3, inf)),
    *(F("pdist", TWINS, p) for p in (1, 2, 3, inf)),
    F("pdist", T([[inf, 1.0], [inf, 2.0], [math.nan, 1.0], [3.0, 1.0]]), 0, _grad=False),
    case("torch.pdist", ROWS.float()),
    F("pdist", ROWS[:1]),
    F("pdist", ROWS[:, :0]),
    F("pdist", ROWS[0]),
    F("pdist", ROWS, -1.0),
    F("pdist", ROWS.long()),
    F("pdist", ROWS.half()),
]

# ---------------------------------------------------------------- bags

INDEX, STARTS = T([1, 2, 4, 5, 4, 3, 2, 9]), T([0, 4, 4, 6])
TABLE = sample(10, 3)
TIES = T([[1.0, 0.0], [1.0, 2.0], [0.0, 2.0], [-1.0, -1.0]], dtype=f64)


def bag(*args, **kwargs):
    return F("embedding_bag", *args, **kwargs)


bags = [
    *(
        bag(INDEX, TABLE, STARTS, mode=m, padding_idx=p)
        for m in ("sum", "mean", "max")
        for p in (None, 2, -5)
    ),
    *(bag(INDEX.view(2, 4), TABLE, mode=m, padding_idx=p) for m in ("sum", "mean", "max") for p in (None, 4)),
    *(bag(INDEX, TABLE, T([0, 3, 3, 8]), mode=m, include_last_offset=True) for m in ("sum", "max")),
    *(bag(INDEX, TABLE, T([0, 3, 5]), mode=m, include_last_offset=True) for m in ("sum", "mean", "max")),
    bag(INDEX, TABLE.float(), T([0, 3, 5]), mode="sum", include_last_offset=True, padding_idx=4),
    bag(INDEX, TABLE.float(), T([0, 3, 5]), mode="sum", include_last_offset=True, _grad=False),
    *(bag(i, TIES, mode="max") for i in (T([[0, 1, 2], [3, 3, 1]]), T([[2, 1, 0]]))),
    bag(T([0, 1, 2, 3, 3]), TIES, T([0, 3]), mode="max"),
    bag(INDEX, TABLE, STARTS, mode="sum", per_sample_weights=sample(8)),
    bag(INDEX.view(2, 4), TABLE, mode="sum", per_sample_weights=sample(2, 4), padding_idx=4),
    F("embedding", INDEX, TABLE, scale_grad_by_freq=True),
    bag(INDEX.int(), TABLE.float(), STARTS.int(), max_norm=0.5, _grad=False),
    bag(INDEX[:0], TABLE, T([0, 0])),
    bag(INDEX, TABLE.half(), STARTS, _grad=False),
    bag(TABLE, INDEX, STARTS, _grad=False),
    bag(INDEX, TABLE),
    bag(INDEX.view(2, 4), TABLE, STARTS, _text="start"),  # it has the name of the type
    bag(INDEX, TABLE, STARTS.view(2, 2)),
    bag(INDEX.view(2, 2, 2), TABLE),
    bag(INDEX, TABLE, STARTS, mode="x"),
    bag(INDEX, TABLE, STARTS, per_sample_weights=sample(8)),
    bag(INDEX, TABLE, STARTS, mode="sum", per_sample_weights=sample(7)),
    bag(INDEX, TABLE, STARTS, mode="sum", per_sample_weights=sample(8).float()),
    bag(INDEX, TABLE, T([1, 4]), _text="start"),  # torch prints a type below
    bag(INDEX, TABLE, T([0, 14])),
    bag(INDEX.float(), TABLE, STARTS),
    bag(INDEX + 9, TABLE, STARTS),
    bag(INDEX + 9, TABLE.float(), STARTS, mode="sum"),
    bag(INDEX + 9, TABLE.float(), STARTS, mode="sum", padding_idx=0),
    bag(INDEX + 9, TABLE.float(), STARTS, mode="max"),
    bag(INDEX, TABLE, STARTS, padding_idx=20),
    bag(INDEX, TABLE, STARTS, mode="max", scale_grad_by_freq=True),
    bag(INDEX, TABLE, STARTS, mode="max", sparse=True),
    bag(INDEX, TABLE[0], STARTS),
    bag(INDEX, TABLE.long(), STARTS),
    bag(INDEX, TABLE, STARTS[:0], include_last_offset=True),
]

# ---------------------------------------------------------------- CTC

FRAMES = sample(7, 3, 5).log_softmax(2)
LABELS = T([[1, 2, 2, 4], [3, 3, 1, 1], [2, 1, 4, 0]])


def ctc(*args, **kwargs):
    return F("ctc_loss", *args, _first=True, **kwargs)


alignments = [
    *(ctc(FRAMES, LABELS, [7, 6, 5], [3, 2, 1], reduction=r) for r in ("none", "mean", "sum")),
    ctc(FRAMES, LABELS, T([7, 6, 5]), T([4, 0, 3]), zero_infinity=True),
    ctc(FRAMES, LABELS, (7, 3, 0), (4, 4, 1), reduction="none", zero_infinity=True),
    ctc(FRAMES, LABELS, (7, 3, 0), (4, 4, 0), reduction="none"),
    ctc(FRAMES, LABELS.view(-1)[:7], [7, 6, 5], [3, 2, 2], reduction="sum"),
    ctc(FRAMES, LABELS.view(-1)[:7], T([7, 6, 5], dtype=i32), T([3, 2, 2], dtype=i32)),
    ctc(FRAMES, LABELS - 1, [7, 7, 7], [2, 2, 3], blank=4),
    ctc(FRAMES.float(), LABELS.int(), [7, 7, 7], [2, 2, 3], _tol=1e-5),
    ctc(FRAMES[:, 0], LABELS[0, :3], T(7), T(3)),
    ctc(FRAMES[:, 0], LABELS[0], T(7), T(3)),
    ctc(FRAMES, LABELS[:, :0], [7, 7, 7], [0, 0, 0]),
    ctc(FRAMES, LABELS, [7, 7], [2, 2, 3]),
    ctc(FRAMES, LABELS, [7, 7, 7], [2, 2]),
    ctc(FRAMES, LABELS, [8, 7, 7], [2, 2, 3]),
    ctc(FRAMES, LABELS, [7, 7, 7], [5, 2, 3]),
    ctc(FRAMES, LABELS, [7, 7, -1], [1, 2, 3]),
    ctc(FRAMES, LABELS, [7, 7, 7], [1, -2, 3]),
    ctc(FRAMES, LABELS.view(-1), [7, 7, 7], [2, 2, 3]),
    ctc(FRAMES, LABELS[:1], [7, 7, 7], [2, 2, 3]),
    ctc(FRAMES, LABELS, [7, 7, 7], [2, 2, 3], blank=5),
    ctc(FRAMES, LABELS, [7, 7, 7], [2, 2, 3], reduction="x"),
    ctc(FRAMES, LABELS, T([7.0, 7, 7]), T([2, 2, 3])),
    ctc(FRAMES, LABELS, T([7, 7, 7]), [2, 2, 3], _text="start"),
    ctc(FRAMES.half(), LABELS, [7, 7, 7], [2, 2, 3]),
    ctc(FRAMES[:0], LABELS, [0, 0, 0], [2, 2, 3]),
]

# ---------------------------------------------------------------- cross entropy of a linear layer

X, HEAD, BIAS, CLASSES = sample(6, 4), sample(5, 4, seed=1), sample(5, seed=2), T([0, 4, 2, 2, 1, 3])


def head(*args, **kwargs):
    return F("linear_cross_entropy", *args, **kwargs)


heads = [
    *(head(X, HEAD, CLASSES, linear_bias=BIAS, reduction=r, ignore_index=2) for r in ("none", "mean", "sum")),
    head(X[0], HEAD, CLASSES[0]),
    head(X, sample(5, 2, 4), CLASSES.view(6, 1).expand(6, 2), linear_bias=sample(5, 2)),
    head(X, HEAD, sample(6, 5).softmax(1), label_smoothing=0.1),
    head(X, HEAD, CLASSES, weight=BIAS.abs(), _first=True),
    head(X[None], HEAD, CLASSES),
    head(X, BIAS, CLASSES),
    head(X, HEAD.mT, CLASSES),
    head(X, HEAD, CLASSES, linear_bias=sample(4)),
    head(X[0], sample(5, 2, 4), CLASSES),
    head(X, HEAD, sample(6, 5), ignore_index=2),
]

CASES = [*pooled, *distances, *bags, *alignments, *heads]


@pytest.mark.parametrize("c", CASES, ids=str)
def test_against_torch(c):
    check_case(c)


def test_second_derivatives():
    check_second(F("lp_pool2d", IMG[:1, :1], 2, 3))  # PyTorch has none of bags of embeddings


@pytest.mark.parametrize("options", [{"batch_chunk_size": 4}, {"batch_chunk_size": 2}, {}], ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_chunks_change_nothing(options, reduction):
    def program(lib, x, w, b, t, c):
        leaves = [v.detach().requires_grad_() for v in (x, w, b)]
        how = lib.nn.LinearCrossEntropyOptions(**options)
        loss = lib.nn.functional.linear_cross_entropy(
            leaves[0],
            leaves[1],
            t,
            linear_bias=leaves[2],
            weight=c,
            ignore_index=2,
            reduction=reduction,
            options=how,
        )
        loss.sum().backward()
        return [loss, *(v.grad for v in leaves)]

    inputs = X, HEAD, BIAS, CLASSES, BIAS.abs()
    same(program(torch, *inputs), program(ft, *map(to_ours, inputs)), 1e-10)


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pooling_draws_as_torch(n):
    def program(lib, x):
        lib.manual_seed(3)
        pool = getattr(lib.nn.functional, f"fractional_max_pool{n}d")
        return [*pool(x, 2, 3, return_indices=True), pool(x[0], 2, output_ratio=(0.5,) * n), lib.rand(2)]

    x = IMG if n == 2 else VOL
    same(program(torch, x), program(ft, to_ours(x)))


def test_a_bag_has_a_sparse_gradient():
    def program(lib, index, starts, table):
        table = table.detach().requires_grad_()
        lib.nn.functional.embedding_bag(index, table, starts, mode="sum", sparse=True).sum().backward()
        assert table.grad.is_sparse
        return table.grad.to_dense()

    inputs = INDEX, STARTS, TABLE
    same(program(torch, *inputs), program(ft, *map(to_ours, inputs)))


@pytest.mark.parametrize("rows", [0, 5])
def test_a_sparse_gradient_without_columns(rows):
    def program(lib):
        table = lib.nn.Embedding(rows, 0, sparse=True)
        table(lib.arange(rows)).sum().backward()
        grad = table.weight.grad
        return tuple(grad.shape), tuple(grad.to_dense().shape)

    assert program(ft) == program(torch)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(
    ("starts", "told"), [([0, 4, 2], r"offsets\[2\] is 2 after 4"), ([0, -1], "is -1 after 0")]
)
def test_falling_offsets_are_refused(mode, starts, told):
    """PyTorch reads memory beside the indices there, or says that its own check failed."""
    with pytest.raises(RuntimeError, match=told):
        ft.nn.functional.embedding_bag(ft.tensor([1, 2, 4, 5]), ft.ones(6, 3), ft.tensor(starts), mode=mode)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("starts", "told"), [([1, 2], "has to be 0"), ([0, 9], "than input's length 4 but got")]
)
def test_offsets_outside_the_indices(starts, told, sparse):
    for lib in (torch, ft):
        bag = lib.nn.EmbeddingBag(6, 3, mode="sum", sparse=sparse)
        with pytest.raises(RuntimeError, match=told):
            bag(lib.tensor([1, 2, 4, 5]), lib.tensor(starts))
