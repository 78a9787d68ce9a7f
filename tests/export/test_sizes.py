"""A program for any number of rows gives what eager mode gives, for one row too, or is not made."""

from __future__ import annotations

import numpy as np
import pytest

import functorch_port as ft
from functorch_port import nn
from functorch_port._dynamo.exc import UserError
from functorch_port.export import Dim, export

F = nn.functional


class Call(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return self.fn(x)


def written(x):
    y = x.clone()
    y[0] = 1.0
    y[:, 1] = 2.0
    return y


def indexed(x):
    rows = ft.arange(x.shape[0])
    return x[rows * 0], x[rows, 0], x.gather(1, x.argsort(1)), x.index_select(0, rows)


def mask(x):
    return x @ x.mT + ft.ones(x.shape[1], x.shape[1]).tril()


#: what to do with an array of rows, and the shape of a row
CASES = {
    "convolution": (nn.Conv2d(3, 4, 3, stride=2, padding=1), (3, 8, 8)),
    "transposed convolution": (nn.ConvTranspose2d(3, 4, 3, stride=2), (3, 5, 5)),
    "pooling": (nn.MaxPool2d(2, ceil_mode=True, return_indices=True), (3, 5, 5)),
    "adaptive pooling": (nn.AdaptiveAvgPool2d((3, 2)), (3, 8, 7)),
    "normalization": (nn.Sequential(nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4)), (4, 5, 5)),
    "GRU": (nn.GRU(4, 5, batch_first=True, bidirectional=True), (3, 4)),
    "interpolation": (nn.Upsample(scale_factor=2, mode="bilinear"), (3, 4, 4)),
    "padding": (nn.ReflectionPad2d(1), (3, 4, 4)),
    "over rows": (lambda x: (x.mean(0), x.std(0, correction=0), x.cumsum(0), x.flip(0), x.roll(1, 0), x.sort(0)), (4,)),
    "slices": (lambda x: (x[0], x[-1], x[::2], x[-1:], x[: (x.shape[0] + 1) // 2]), (4,)),
    "joining": (lambda x: (ft.cat([x, x[:1]]), ft.stack([x, x]), x.repeat(2, 3), x[:, None].expand(-1, 5, -1)), (4,)),
    "views": (lambda x: (x.view(-1, 2), x.view(x.size(0), -1), x.transpose(0, 1).reshape(4, -1)), (4, 3)),
    "products": (lambda x: (x.T @ x, ft.einsum("bi,ci->bc", x, x), ft.cdist(x, x + 1)), (4,)),
    "made": (lambda x: (ft.arange(x.shape[0]), ft.zeros(x.shape[0], 2), ft.eye(x.shape[0]) @ x, x / x.shape[0]), (4,)),
    "indices": (indexed, (4,)),
    "writes": (written, (4,)),
    "masks": (mask, (3, 4)),
    "losses": (lambda x: (F.cross_entropy(x, x.argmax(1)), F.mse_loss(x, x + 1)), (4,)),
    "matrices": (lambda x: ft.linalg.solve(x @ x.mT + ft.eye(3), x), (3, 3)),
    "squeeze": (lambda x: (x[:, None].squeeze(1), x.squeeze(-1)), (4,)),
}  # fmt: skip


def arrays(result):
    return [np.asarray(leaf) for leaf in ft.utils._pytree.tree_leaves(result)]


@pytest.mark.parametrize("name", CASES)
def test_any_number_of_rows(name):
    fn, row = CASES[name]
    ft.manual_seed(0)
    module = (fn if isinstance(fn, nn.Module) else Call(fn)).eval()
    program = export(
        module, (ft.randn(2, *row),), dynamic_shapes=({0: Dim("rows")},), platforms=("cpu", "tpu")
    )
    assert program.range_constraints["rows"].lower == 1
    for rows in (1, 5):
        x = ft.randn(rows, *row)
        with ft.no_grad():
            want, got = arrays(module(x)), arrays(program.module()(x))
        assert [(a.shape, a.dtype) for a in got] == [(a.shape, a.dtype) for a in want]
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: F.avg_pool1d(x.mT, 2),
        lambda x: F.avg_pool1d(x.mT, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 1, 1, divisor_override=2),
        lambda x: x.unflatten(1, (-1, 1)),
    ],
)
def test_any_length(fn):
    program = export(Call(fn), (ft.randn(1, 6, 4),), dynamic_shapes=({-2: Dim("length", min=3)},))
    assert program.inputs[0].shape == (1, (1, "length", 0), 4)
    program = export(Call(fn), (ft.randn(1, 6, 4),), dynamic_shapes=({1: Dim("length", min=3)},)).module()
    for length in (3, 6, 9, 14):
        x = ft.randn(1, length, 4)
        np.testing.assert_allclose(program(x).numpy(), fn(x).numpy(), rtol=1e-5, atol=1e-6)


def test_views_of_two_unknown_sizes():
    """Of which one may be 1, so that the places of elements say little."""
    shapes = ({0: Dim("rows"), 1: Dim("length")},)
    fn = lambda x: x.unflatten(-1, (2, 2)).flatten(-2).view(-1, 2, 2).flatten(1)
    program = export(Call(fn), (ft.randn(2, 3, 4),), dynamic_shapes=shapes)
    assert [r.lower for r in program.range_constraints.values()] == [1, 1]
    for size in ((1, 1), (1, 5), (4, 1), (3, 2)):
        x = ft.randn(*size, 4)
        np.testing.assert_array_equal(program.module()(x).numpy(), x.reshape(-1, 4).numpy())


@pytest.mark.parametrize("fn", [lambda x: x.squeeze(0), lambda x: x.squeeze(), lambda x: x[1:]])
def test_what_is_different_for_one_row_is_for_two_and_more(fn):
    shapes = ({0: Dim("rows")},)
    program = export(Call(fn), (ft.randn(2, 4),), dynamic_shapes=shapes)
    assert program.range_constraints["rows"].lower == 2
    x = ft.randn(3, 4)
    np.testing.assert_array_equal(program.module()(x).numpy(), fn(x).numpy())
    with pytest.raises(UserError, match="does not hold for all sizes"):
        export(Call(fn), (ft.randn(2, 4),), dynamic_shapes=({0: Dim("rows", min=1)},))


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (lambda x: x.nonzero(), "depends on values"),
        (lambda x: ft.linspace(0, 1, x.shape[0]), "as a plain number"),
        (lambda x: x.chunk(2), "as a plain number"),
        (lambda x: x.argmin(0), "'rows' > '16777216' is inconclusive"),
        (lambda x: ft.fft.rfft(x.t()), "does not hold .* an operation needs a size as a plain number"),
        (lambda x: F.adaptive_avg_pool1d(x.t(), 3), "does not hold .* an operation needs a size as a plain"),
        (lambda x: x[:, 0].diag().fill_diagonal_(1), "does not hold .* an operation needs a size as a plain"),
    ],
)
def test_what_no_program_does_for_any_size(fn, text):
    with pytest.raises(RuntimeError, match=text):
        export(Call(fn), (ft.randn(2, 4),), dynamic_shapes=({0: Dim("rows")},))
    export(Call(lambda x: x.argmin(0)), (ft.randn(2, 4),), dynamic_shapes=({0: Dim("rows", max=999)},))
