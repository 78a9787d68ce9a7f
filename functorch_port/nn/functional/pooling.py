"""Pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.bind import function
from ...core.tensor import Tensor

avg_pool1d, avg_pool2d, avg_pool3d = function("avg_pool1d"), function("avg_pool2d"), function("avg_pool3d")


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _max_pool(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    name = f"max_pool{n}d"
    values, both = function(name), function(f"{name}_with_indices")

    def with_indices(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Maximum over windows, and where in the input (its spatial dimensions flattened) every maximum was."""
        return both(
            input,
            _hashable(kernel_size),
            _hashable(stride),
            _hashable(padding),
            _hashable(dilation),
            ceil_mode,
        )

    def pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        chosen = both if return_indices else values
        return chosen(
            input,
            _hashable(kernel_size),
            _hashable(stride),
            _hashable(padding),
            _hashable(dilation),
            ceil_mode,
        )

    pool.__doc__ = f"""Maximum over windows of {n} spatial dimension{"s" * (n > 1)}.

    Args:
        input: (N, C, ...) or (C, ...).
        kernel_size: size of the windows.
        stride: distance between windows; default ``kernel_size``.
        padding: (implicit) minus infinity on both sides, at most half of the window.
        dilation: distance between the elements of a window.
        ceil_mode: let the last window hang over the end.
        return_indices: also return where the maxima were.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.{name}.html
    """
    pool.__name__, with_indices.__name__ = name, f"{name}_with_indices"
    pool.__qualname__, with_indices.__qualname__ = pool.__name__, with_indices.__name__
    return pool, with_indices


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


def _adaptive_avg_pool(n: int) -> Callable[..., Tensor]:
    name = f"adaptive_avg_pool{n}d"
    average, mean = function(name), function("mean")

    def pool(input: Tensor, output_size: Any) -> Tensor:
        sizes = _hashable(output_size)
        if n > 1 and sizes in (1, (1,) * n) and input.ndim in (n + 1, n + 2):
            return mean(input, tuple(range(-n, 0)), True)  # PyTorch's graph has a mean here too
        return average(input, sizes)

    pool.__doc__ = f"""Averages over windows chosen so that the output has the size asked for.

    Args:
        input: (N, C, ...) or (C, ...).
        output_size: a number or one per spatial dimension; None keeps the input's size.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.{name}.html
    """
    pool.__name__ = pool.__qualname__ = name
    return pool


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive_avg_pool(n) for n in (1, 2, 3))


def _adaptive_max_pool(n: int) -> Callable[..., Any]:
    name = f"adaptive_max_pool{n}d"
    both = function(f"{name}_with_indices")

    def pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        out = both(input, _hashable(output_size))
        return out if return_indices else out[0]

    pool.__doc__ = f"""Maxima over windows chosen so that the output has the size asked for.

    Args:
        input: (N, C, ...) or (C, ...).
        output_size: a number or one per spatial dimension; None keeps the input's size.
        return_indices: also return where the maxima were.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.{name}.html
    """
    pool.__name__ = pool.__qualname__ = name
    return pool


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive_max_pool(n) for n in (1, 2, 3))
