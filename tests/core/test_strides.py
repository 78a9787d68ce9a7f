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


def test_nothing_is_computed_for_the_order_alone() -> None:
    """The Storage with the other order is made when somebody looks at it."""
    out = fp.arange(60_000.0).reshape(200, 300).t() + 1
    twice = out * 2
    assert out._storage.__class__.__name__ == "DeferredStorage"
    assert float(twice[0, 1]) == 602.0
    assert out.as_strided((2,), (1,)).tolist() == [1.0, 2.0]
