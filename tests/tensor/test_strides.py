"""Results lie in memory as PyTorch's: strides, what may be seen of them, and random numbers in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import functorch_port as fp


def _both(case: Callable[[Any], Any]) -> tuple[Any, Any]:
    return case(torch), case(fp)


def _x(lib: Any) -> Any:
    return lib.arange(24.0).reshape(2, 3, 4)


#: of x with sizes (2, 3, 4), and y with those of its transpose
EXPRESSIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "unary": lambda lib, x, y: lib.exp(x.transpose(1, 2)),
    "binary": lambda lib, x, y: x.transpose(1, 2) + y,
    "binary, in order first": lambda lib, x, y: y * x.transpose(1, 2),
    "number": lambda lib, x, y: 2 / (1 + x.permute(2, 0, 1)),
    "stretched first": lambda lib, x, y: y[:, :1] - x.transpose(1, 2),
    "fewer dimensions first": lambda lib, x, y: x[0].t()[0] - x.transpose(1, 2),
    "two orders": lambda lib, x, y: x.permute(2, 0, 1) + y.permute(1, 0, 2),
    "ternary": lambda lib, x, y: lib.addcmul(x.transpose(1, 2), y, y),
    "where": lambda lib, x, y: lib.where(x.transpose(1, 2) > 3, x.transpose(1, 2), 0.0),
    "activation": lambda lib, x, y: lib.nn.functional.gelu(x.transpose(0, 2)),
    "compared": lambda lib, x, y: x.t_() > 3 if x.ndim == 2 else x.transpose(0, 1) > 3,
    "a part": lambda lib, x, y: x.transpose(1, 2)[:, 1:3] * 2,
    "steps": lambda lib, x, y: x.transpose(1, 2)[:, ::2] * 2,
    "expanded": lambda lib, x, y: x[:, :1].expand(2, 3, 4) + 1,
    "size 1": lambda lib, x, y: x[:, :1].transpose(0, 2) + 1,
    "twice": lambda lib, x, y: (x.transpose(1, 2) + y).relu() * y,
    "a view of it": lambda lib, x, y: (x.transpose(1, 2) + y)[1:].transpose(0, 1),
    "as_strided": lambda lib, x, y: (x.transpose(1, 2) + y).as_strided((24,), (1,)),
    "cast": lambda lib, x, y: x.transpose(1, 2).to(lib.float64),
    "cast and asked for": lambda lib, x, y: x.transpose(1, 2).int(memory_format=lib.contiguous_format),
    "cast, asked for its own": lambda lib, x, y: x.transpose(1, 2).int(memory_format=lib.preserve_format),
    "asked for its own": lambda lib, x, y: x.transpose(1, 2).to(
        lib.float32, memory_format=lib.preserve_format
    ),
    "rand_like": lambda lib, x, y: lib.manual_seed(1) and lib.rand_like(x.transpose(1, 2), dtype=lib.float64),
    "channels_last": lambda lib, x, y: lib.tanh(x[None].to(memory_format=lib.channels_last)),
    "flip": lambda lib, x, y: x.transpose(1, 2).flip(0),
    "sort": lambda lib, x, y: x.transpose(1, 2).sort(1)[0],
    "positions": lambda lib, x, y: x.transpose(1, 2).argsort(1),
    "roll": lambda lib, x, y: x.transpose(1, 2).roll(1, 1),
    "index_fill": lambda lib, x, y: x.transpose(1, 2).index_fill(1, lib.tensor([0]), 5.0),
    "nonzero": lambda lib, x, y: (x % 2).nonzero(),
    "nonzero, one by one": lambda lib, x, y: (x % 2).nonzero(as_tuple=True)[1],
    "argwhere": lambda lib, x, y: lib.argwhere(x > 3),
    "out of no size": lambda lib, x, y: lib.mul(x.transpose(1, 2), y, out=lib.empty(0)),
    "out of no size, in order": lambda lib, x, y: lib.cumsum(x.transpose(1, 2), 0, out=lib.empty(0)),
    "out of its size": lambda lib, x, y: lib.mul(x.transpose(1, 2), y, out=lib.empty(2, 4, 3)),
    "nonzero, out of no size": lambda lib, x, y: lib.nonzero(x, out=lib.empty(0, dtype=lib.int64)),
    "slice_scatter": lambda lib, x, y: x.transpose(1, 2).slice_scatter(y[:, :1], 1, 0, 1),
    "loss": lambda lib, x, y: lib.nn.functional.mse_loss(x.transpose(1, 2), y, reduction="none"),
    "lines": lambda lib, x, y: lib.nn.functional.avg_pool1d(x.transpose(1, 2), 2),
    "lines, maxima": lambda lib, x, y: lib.nn.functional.max_pool1d(x.transpose(1, 2), 2),
}

#: of an image with sizes (2, 4, 6, 5) and convolution weights with sizes (3, 4, 3, 3)
OF_IMAGES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "conv2d": lambda lib, x, w: lib.nn.functional.conv2d(x, w),
    "conv2d of one": lambda lib, x, w: lib.nn.functional.conv2d(x[0], w),
    "conv_transpose2d": lambda lib, x, w: lib.nn.functional.conv_transpose2d(x[:, :3], w),
    "max_pool2d": lambda lib, x, w: lib.nn.functional.max_pool2d(x, 2),
    "max_pool2d, positions": lambda lib, x, w: lib.nn.functional.max_pool2d(x, 2, return_indices=True)[1],
    "avg_pool2d": lambda lib, x, w: lib.nn.functional.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda lib, x, w: lib.nn.functional.adaptive_avg_pool2d(x, 2),
    "batch_norm": lambda lib, x, w: lib.nn.functional.batch_norm(x, None, None, training=True),
    "group_norm": lambda lib, x, w: lib.nn.functional.group_norm(x, 2),
    "instance_norm": lambda lib, x, w: lib.nn.functional.instance_norm(x),
    "local_response_norm": lambda lib, x, w: lib.nn.functional.local_response_norm(x, 2),
    "interpolate": lambda lib, x, w: lib.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear"),
    "pad": lambda lib, x, w: lib.nn.functional.pad(x, (1, 1, 1, 1)),
    "pad, reflect": lambda lib, x, w: lib.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    "pad, circular": lambda lib, x, w: lib.nn.functional.pad(x, (1, 1, 1, 1), mode="circular"),
    "pixel_shuffle": lambda lib, x, w: lib.nn.functional.pixel_shuffle(x, 2),
    "cat": lambda lib, x, w: lib.cat([x, x], 1),
    "cat of two formats": lambda lib, x, w: lib.cat([x, x.contiguous()], 1),
    "a part": lambda lib, x, w: lib.nn.functional.max_pool2d(x[:, 1:3, 1:], 2),
    "one channel": lambda lib, x, w: lib.nn.functional.max_pool2d(x[:, :1], 2),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_strides_and_values(name: str) -> None:
    def case(lib: Any) -> Any:
        out = EXPRESSIONS[name](lib, _x(lib), lib.arange(24.0).reshape(2, 4, 3) + 1)
        wide = [s for s, n in zip(out.stride(), out.shape, strict=True) if n != 1]
        return wide, out.is_contiguous(), out.double().tolist()

    (strides, in_order, values), mine = _both(case)
    assert mine[:2] == (strides, in_order)
    torch.testing.assert_close(torch.tensor(mine[2]), torch.tensor(values))


@pytest.mark.parametrize("which", ["input", "weight", "neither"])
@pytest.mark.parametrize("name", OF_IMAGES)
def test_channels_last_goes_through_networks(name: str, which: str) -> None:
    def case(lib: Any) -> Any:
        x = (lib.arange(240.0) % 7).reshape(2, 4, 6, 5)
        w = (lib.arange(108.0) % 5 - 2).reshape(3, 4, 3, 3)
        if which == "input":
            x = x.to(memory_format=lib.channels_last)
        if which == "weight":
            w = w.to(memory_format=lib.channels_last)
        out = OF_IMAGES[name](lib, x, w)
        wide = [s for s, n in zip(out.stride(), out.shape, strict=True) if n != 1]
        return wide, out.is_contiguous(), out.is_contiguous(memory_format=lib.channels_last), out.tolist()

    (strides, in_order, last, values), mine = _both(case)
    assert mine[:3] == (strides, in_order, last)
    torch.testing.assert_close(torch.tensor(mine[3]), torch.tensor(values))


def test_the_mean_of_an_image_keeps_its_format() -> None:
    def case(lib: Any) -> Any:
        x = lib.ones(2, 3, 4, 4)
        images = x, x.to(memory_format=lib.channels_last), x[0]
        return [lib.nn.functional.adaptive_avg_pool2d(i, 1).stride() for i in images]

    theirs, mine = _both(case)
    assert mine == theirs


@pytest.mark.parametrize("shape", [(8, 1, 3, 3), (2, 3, 1, 1), (1, 1, 1, 1), (2, 3, 4, 6)])
def test_a_format_that_is_asked_for_shows_in_the_strides(shape: tuple[int, ...]) -> None:
    def case(lib: Any) -> Any:
        found = []
        last = lib.zeros(shape).to(memory_format=lib.channels_last)
        for x in (lib.zeros(shape), last, last[..., ::2], lib.zeros(shape).permute(3, 0, 2, 1)):
            for format in (lib.channels_last, lib.contiguous_format, lib.preserve_format):
                y = x.to(memory_format=format)
                found.append((y is x, y.stride()))
        return found

    theirs, mine = _both(case)
    assert mine == theirs


def test_a_module_in_channels_last() -> None:
    """Its weights, its results, and so the masks of dropout; it trains as it did."""

    def case(lib: Any) -> Any:
        lib.manual_seed(3)
        net = lib.nn.Sequential(lib.nn.Conv2d(2, 3, 3), lib.nn.BatchNorm2d(3), lib.nn.Dropout(0.5))
        assert net.to(memory_format=lib.channels_last) is net
        optimizer = lib.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            out = net(lib.ones(2, 2, 5, 4).cumsum(3))
            loss = (out * out).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.tolist())
        return net[0].weight.stride(), out.stride(), losses, net[0].weight.tolist()

    (weight, out, *numbers), mine = _both(case)
    assert mine[:2] == (weight, out)
    for found, expected in zip(mine[2:], numbers, strict=True):
        torch.testing.assert_close(torch.tensor(found), torch.tensor(expected))


def test_a_module_is_not_put_into_a_format_of_other_tensors() -> None:
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        fp.nn.Conv3d(1, 1, 1).to(memory_format=fp.channels_last)
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        torch.nn.Conv3d(1, 1, 1).to(memory_format=torch.channels_last)


def test_large_ones_which_are_no_numpy_arrays() -> None:
    def case(lib: Any) -> Any:
        out = lib.arange(60_000.0).reshape(200, 300).t() + 1
        return out.stride(), out.as_strided((5,), (1,)).tolist(), out[:3, 0].tolist()

    expected, found = _both(case)
    assert found == expected


@pytest.mark.parametrize("size", [3, 90])
def test_masks_of_dropout_are_in_their_order(size: int) -> None:
    def case(lib: Any) -> Any:
        lib.manual_seed(5)
        out = lib.relu(lib.ones(2, size, size + 1).transpose(1, 2))
        return [lib.nn.functional.dropout(out).tolist(), lib.rand_like(out).tolist()]

    expected, found = _both(case)
    assert found == expected


def test_gradients_and_writes() -> None:
    def case(lib: Any) -> Any:
        w = (lib.arange(12.0).reshape(3, 4) / 4).requires_grad_()
        out = (w.t() * 2).exp()
        (out * out).sum().backward()
        z = w.detach().t() * 2
        part = z[1:]
        part.mul_(3)
        z.add_(1)
        return w.grad.tolist(), [z.tolist(), z.stride(), part.tolist(), z.as_strided((12,), (1,)).tolist()]

    (grad, written), mine = _both(case)
    torch.testing.assert_close(torch.tensor(mine[0]), torch.tensor(grad))
    assert mine[1] == written


def test_a_saved_result_that_was_written_to_is_still_refused() -> None:
    def case(lib: Any) -> Any:
        w = lib.ones(3, 4, requires_grad=True)
        out = w.t().exp()
        out.detach().add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()

    _both(case)


def test_results_of_a_compiled_function() -> None:
    @fp.compile
    def step(x: Any, y: Any) -> Any:
        out = x.transpose(0, 1) * y
        return out, fp.nn.functional.dropout(out + 1)

    x, y = fp.rand(3, 4), fp.rand(4, 3)
    for _ in range(3):
        first, second = step(x, y)
        assert (first.stride(), second.stride()) == ((1, 4), (1, 4))
        assert fp.equal(first, x.t() * y)
