"""Pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._base.layout import format_order
from ..._run.bind import function
from ..._tensor.tensor import Tensor
from ..._tensor.view import laid
from .._conversion import ntuple

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
        """Max-pooling that also returns the index of each maximum in the flattened spatial dimensions."""
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

    pool.__doc__ = f"""Max-pooling over {n} spatial dimension{"s" * (n > 1)}.

    Args:
        input: (N, C, ...) or (C, ...).
        kernel_size: size of the window.
        stride: stride of the window; default ``kernel_size``.
        padding: implicit minus-infinity padding on both sides, at most half the window.
        dilation: distance between the elements of a window.
        ceil_mode: round the output size up, so that the last window may extend past the end.
        return_indices: also return the indices of the maxima.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.{name}.html
    """
    pool.__name__, with_indices.__name__ = name, f"{name}_with_indices"
    pool.__qualname__, with_indices.__qualname__ = pool.__name__, with_indices.__name__
    return pool, with_indices


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


def _asked_for(input: Tensor, output_size: Any, n: int) -> Any:
    """The output size, with the input's size in place of None."""
    if n == 1 or isinstance(output_size, int):
        return _hashable(output_size)
    if input.ndim <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    given = input.shape[input.ndim - len(output_size) :]
    return tuple(have if want is None else want for have, want in zip(given, output_size, strict=True))


def _adaptive_avg_pool(n: int) -> Callable[..., Tensor]:
    name = f"adaptive_avg_pool{n}d"
    average, mean = function(name), function("mean")

    def pool(input: Tensor, output_size: Any) -> Tensor:
        sizes = _asked_for(input, output_size, n)
        if n > 1 and sizes in (1, (1,) * n):
            out = mean(input, tuple(range(-n, 0)), True)  # PyTorch's graph has a mean here too
            return laid(out, format_order(out.shape, [input])) if n == 2 else out
        return average(input, sizes)

    pool.__doc__ = f"""Adaptive average-pooling: the windows are chosen to give the requested output size.

    Args:
        input: (N, C, ...) or (C, ...).
        output_size: a number or one per spatial dimension; None keeps the input's size.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.{name}.html
    """
    pool.__name__ = pool.__qualname__ = name
    return pool


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive_avg_pool(n) for n in (1, 2, 3))


def _adaptive_max_pool(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    name = f"adaptive_max_pool{n}d"
    both = function(f"{name}_with_indices")

    def pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        out = both(input, _asked_for(input, output_size, n))
        return out if return_indices else out[0]

    def with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple[Tensor, Tensor]:
        """The maxima, and their indices in the flattened spatial dimensions."""
        return both(input, _asked_for(input, output_size, n))

    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    pool.__doc__ = f"""Adaptive max-pooling: the windows are chosen to give the requested output size.

    Args:
        input: (N, C, ...) or (C, ...).
        output_size: a number or one per spatial dimension; None keeps the input's size.
        return_indices: also return where the maxima were.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.{name}.html
    """
    pool.__name__ = pool.__qualname__ = name
    return pool, with_indices


adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pool(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pool(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive_max_pool(3)


def _lp_pool(n: int, max_pool: Callable[..., Any]) -> Callable[..., Tensor]:
    name = f"lp_pool{n}d"
    norm = function(f"_{name}")

    def pool(
        input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Tensor:
        if norm_type == float("inf"):
            return max_pool(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        if norm_type == -float("inf"):
            return -max_pool(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        return norm(input, norm_type, _hashable(kernel_size), _hashable(stride), ceil_mode)

    pool.__doc__ = f"""Power-average pooling over {n} spatial dimension{"s" * (n > 1)}: ``(sum of x ** p) ** (1 / p)``.

    Args:
        input: (N, C, ...) or (C, ...).
        norm_type: p; infinity gives the largest absolute value.
        kernel_size: size of the window.
        stride: stride of the window; default ``kernel_size``.
        ceil_mode: round the output size up, so that the last window may extend past the end.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.{name}.html
    """
    pool.__name__ = pool.__qualname__ = name
    return pool


lp_pool1d, lp_pool2d, lp_pool3d = (
    _lp_pool(n, each) for n, each in ((1, max_pool1d), (2, max_pool2d), (3, max_pool3d))
)


def _fractional_size(name: str, input: Tensor, n: int, output_size: Any, output_ratio: Any) -> Any:
    """The output size, from a size or a ratio."""
    if output_size is not None:
        return _hashable(output_size)
    if output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if n == 2 and len(output_ratio) > 2:
        raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
    ratios = ntuple(output_ratio, n)
    return tuple(int(size * ratio) for size, ratio in zip(input.shape[-n:], ratios, strict=True))


def _fractional_max_pool(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    name = f"fractional_max_pool{n}d"
    both, draw = function(f"_{name}"), function("rand")

    def with_indices(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The maxima, and their indices in the flattened spatial dimensions."""
        size = _fractional_size(name, input, n, output_size, output_ratio)
        if _random_samples is None:
            batch = 1 if input.dim() == n + 1 else input.size(0)
            _random_samples = draw(batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device)
        return both(input, _hashable(kernel_size), size, _random_samples)

    def pool(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        out = with_indices(input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
        return out if return_indices else out[0]

    pool.__doc__ = f"""Fractional max-pooling over {n} spatial dimensions: max-pooling with random strides.

    Args:
        input: (N, C, ...) or (C, ...).
        kernel_size: size of the window.
        output_size: a number or one per spatial dimension.
        output_ratio: ratio of the output size to the input size, in place of ``output_size``.
        return_indices: also return the indices of the maxima.

    Raises:
        ValueError: if neither an output size nor a ratio is given.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.{name}.html
    """
    pool.__name__, with_indices.__name__ = name, f"{name}_with_indices"
    pool.__qualname__, with_indices.__qualname__ = pool.__name__, with_indices.__name__
    return pool, with_indices


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional_max_pool(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional_max_pool(3)


def _unpooled_size(
    input: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], wanted: Any
) -> tuple[int, ...]:
    """The size before pooling: `wanted`, if pooling it gives the size of the input."""
    n = len(kernel)
    usual = tuple(
        (size - 1) * s + k - 2 * p
        for size, k, s, p in zip(input.shape[-n:], kernel, stride, padding, strict=True)
    )
    if wanted is None:
        return usual
    sizes = tuple(wanted)[2:] if len(wanted) == n + 2 else tuple(wanted)
    if len(sizes) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of "
            f"'{len(sizes)}'"
        )
    for dim, (size, middle, s) in enumerate(zip(sizes, usual, stride, strict=True)):
        if not middle - s < size < middle + s:
            raise ValueError(
                f'invalid output_size "{wanted if len(wanted) == n else wanted[2:]}" (dim {dim} must be between '
                f"{middle - s} and {middle + s})"
            )
    return sizes


_ELEMENTS = {2: "two elements (height, width)", 3: "three elements (depth, height, width)"}


def _max_unpool(n: int) -> Callable[..., Tensor]:
    name = f"max_unpool{n}d"
    write = function(f"_{name}")

    def unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:
        kernel, paddings = ntuple(kernel_size, n), ntuple(padding, n)
        strides = kernel if stride is None else ntuple(stride, n)
        if n > 1 and len(kernel) != n:
            raise RuntimeError(
                f"There should be exactly {_ELEMENTS[n]} in output_size, but got {len(kernel)} elements."
            )
        size = _unpooled_size(input, kernel, strides, paddings, output_size)
        if n == 3 and min(strides) <= 0:
            raise RuntimeError(f"strides should be greater than zero, but got stride: {list(strides)}")
        return write(input, indices, size)

    unpool.__doc__ = f"""Partial inverse of `max_pool{n}d`: put the maxima back at their indices, zeros elsewhere.

    Args:
        input: (N, C, ...) or (C, ...).
        indices: the indices that the pooling returned.
        kernel_size, stride, padding: those of the pooling.
        output_size: the size before pooling, to choose among several possible ones.

    Raises:
        ValueError: if pooling ``output_size`` does not give the input's size.
        RuntimeError: if an index is outside the output.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.{name}.html
    """
    unpool.__name__ = unpool.__qualname__ = name
    return unpool


max_unpool1d, max_unpool2d, max_unpool3d = (_max_unpool(n) for n in (1, 2, 3))
