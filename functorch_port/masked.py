"""Reductions and normalizations of the elements where a mask is True: PyTorch's `torch.masked`.

All of them take ``mask=``, a bool tensor that broadcasts to the input (None masks out nothing), and ``dtype=``, the
dtype of the result. Reductions take one or several dimensions (None for all) and ``keepdim``. Elements where the mask
is False are masked out: they are ignored and get no gradient.

Reference: https://docs.pytorch.org/docs/stable/masked.html
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

from ._array import tracing
from ._base import dtypes
from ._base.dtypes import dtype as DType
from ._run.bind import namespaces as _namespaces
from ._tensor.creation import full_like, ones_like, tensor
from ._tensor.tensor import Tensor

__all__ = [
    "MaskedTensor",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "as_masked_tensor",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "masked_tensor",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

Dims = int | tuple[int, ...] | list[int] | None

_torch, _F, _linalg = _namespaces["torch"], _namespaces["F"], _namespaces["linalg"]


# ---------------------------------------------------------------- masks and dimensions


def _dims(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The dimensions as non-negative numbers, sorted."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    size, found = max(ndim, 1), []
    for d in (dim,) if isinstance(dim, int) else dim:
        if d in found:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        if not -size <= d < size:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {d})"
            )
        found.append(d % size)
    return tuple(sorted(found))


def _expanded(mask: Tensor, input: Tensor) -> Tensor:
    """The mask, expanded to the shape of the input."""
    if mask.shape != input.shape:
        if mask.ndim > input.ndim:
            raise IndexError(
                "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)"
            )
        mask = mask.broadcast_to(input.shape)
    return mask.to(dtypes.bool_)


def _filled(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """The input with ``value`` in place of the elements that are masked out."""
    if mask is None:
        return input
    mask = _expanded(mask, input)
    return _torch["where"](mask, input, tensor(value, dtype=input.dtype, device=input.device))


def _extreme(name: str, input: Tensor, mask: Tensor | None, sign: int) -> Any:
    """The lowest value of the dtype (``sign`` -1) or the highest."""
    d = input.dtype
    if d.is_floating_point or mask is None:
        return sign * math.inf
    if d.is_complex and name == "logsumexp":
        return complex(-math.inf, 0)
    if d.is_complex or d is dtypes.bool_:
        raise NotImplementedError(f"identity of {name} on {d} input")
    limits = dtypes.iinfo(d)
    return limits.min if sign < 0 else limits.max


def _summed(input: Tensor) -> DType:
    """The dtype of a sum or product."""
    whole = not (input.dtype.is_floating_point or input.dtype.is_complex)
    return dtypes.int64 if whole else input.dtype


# ---------------------------------------------------------------- reductions


def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum; 0 if all elements are masked out.

    Example:
        >>> import functorch_port as torch
        >>> x, mask = torch.tensor([[1, 2], [3, 4]]), torch.tensor([[True, False], [False, False]])
        >>> torch.masked.sum(x, 1, mask=mask)
        tensor([1, 0])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.sum.html
    """
    chosen = dtype or _summed(input)
    return _torch["sum"](_filled(input, mask, 0), _dims(dim, input.ndim), bool(keepdim), dtype=chosen)


def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product; 1 if all elements are masked out.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.prod(torch.tensor([2, 3, 5]), mask=torch.tensor([True, False, True]))
        tensor(10)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.prod.html
    """
    out = _filled(input, mask, 1).to(dtype or _summed(input))
    for d in reversed(_dims(dim, input.ndim)):
        out = out.prod(d, bool(keepdim))
    return out


def amax(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The maximum; the lowest value of the dtype if all elements are masked out.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.amax(torch.tensor([1., 3., 2.]), mask=torch.tensor([True, False, True]))
        tensor(2.)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.amax.html
    """
    values = _filled(input, mask, _extreme("amax", input, mask, -1))
    return _torch["amax"](values, _dims(dim, input.ndim), bool(keepdim)).to(dtype or input.dtype)


def amin(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The minimum; the highest value of the dtype if all elements are masked out.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.amin(torch.tensor([2., 1., 3.]), mask=torch.tensor([True, False, True]))
        tensor(2.)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.amin.html
    """
    values = _filled(input, mask, _extreme("amin", input, mask, 1))
    return _torch["amin"](values, _dims(dim, input.ndim), bool(keepdim)).to(dtype or input.dtype)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the maximum. As in PyTorch, the default ``dtype`` is that of the input.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.argmax(torch.tensor([1, 3, 2]), mask=torch.tensor([True, False, True]))
        tensor(2)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.argmax.html
    """
    values = _filled(input, mask, _extreme("argmax", input, mask, -1))
    return _torch["argmax"](values, dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the minimum. As in PyTorch, the default ``dtype`` is that of the input.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.argmin(torch.tensor([3, 1, 2]), mask=torch.tensor([True, False, True]))
        tensor(2)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.argmin.html
    """
    values = _filled(input, mask, _extreme("argmin", input, mask, 1))
    return _torch["argmin"](values, dim, bool(keepdim)).to(dtype or input.dtype)


def _count(input: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> Tensor:
    """The number of elements that are not masked out."""
    counted = ones_like(input, dtype=dtypes.int64) if mask is None else _expanded(mask, input)
    return _torch["sum"](counted, _dims(dim, input.ndim), keepdim, dtype=dtypes.int64)


def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean; nan if all elements are masked out.

    Raises:
        ValueError: the input has integers and ``dtype`` is None.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.mean(torch.tensor([1., 5., 3.]), mask=torch.tensor([True, False, True]))
        tensor(2.)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.mean.html
    """
    chosen = dtype or input.dtype
    if not (chosen.is_floating_point or chosen.is_complex):
        source = "Input" if dtype is None else "Optional"
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype. "
            f"Got: {chosen}"
        )
    return sum(input, dim, keepdim=keepdim, dtype=chosen, mask=mask) / _count(input, dim, bool(keepdim), mask)


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The median (the lower of two) along ``dim``; nan if all elements are masked out.

    Raises:
        ValueError: all elements of a row of integers are masked out (not checked in a compiled function).

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.median(torch.tensor([1., 5., 3.]), mask=torch.tensor([True, False, True]))
        tensor(1.)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.median.html
    """
    (axis, *_) = _dims(dim, input.ndim)
    exact = input.dtype.is_floating_point
    values = _filled(input if exact else input.to(dtypes.float32), mask, math.nan)
    out = _torch["nanmedian"](values, axis, keepdim).values
    if exact:
        return out
    if not tracing.overlay and out.isnan().any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return out.to(dtype or input.dtype)


def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of exponentials; -inf if all elements are masked out.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.logsumexp(torch.tensor([0., 5., 0.]), mask=torch.tensor([True, False, True]))
        tensor(0.6931)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.logsumexp.html
    """
    values = _filled(input, mask, _extreme("logsumexp", input, mask, -1))
    return _torch["logsumexp"](values, _dims(dim, input.ndim), keepdim).to(dtype or input.dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of exponentials of two tensors, each with a mask of its own.

    Example:
        >>> import functorch_port as torch
        >>> x = torch.tensor([1., 2.])
        >>> torch.masked.logaddexp(x, x, other_mask=torch.tensor([True, False]))
        tensor([1.6931, 2.0000])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.logaddexp.html
    """
    first = _filled(input, input_mask, _extreme("logaddexp", input, input_mask, -1))
    second = _filled(other, other_mask, _extreme("logaddexp", other, other_mask, -1))
    return _torch["logaddexp"](first, second).to(dtype or input.dtype)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of order ``ord``; 0 (inf for the order -inf) if all elements are masked out.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.norm(torch.tensor([3., 9., 4.]), mask=torch.tensor([True, False, True]))
        tensor(5.)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.norm.html
    """
    lowest = ord == -math.inf
    if lowest and mask is not None and not input.dtype.is_floating_point:
        raise AssertionError(f"input must be floating point, got {input.dtype}")
    values = _filled(input, mask, math.inf if lowest else 0)
    dims = _dims(dim, input.ndim)
    return _linalg["vector_norm"](values, ord, dims, bool(keepdim), dtype=dtype or input.dtype)


def _variance(
    input: Tensor,
    dim: Dims,
    unbiased: bool | None,
    correction: float | None,
    keepdim: bool | None,
    dtype: DType | None,
    mask: Tensor | None,
) -> Tensor:
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    less = float(correction) if correction is not None else 0.0 if unbiased is False else 1.0

    def floating(d: DType) -> DType:
        return d if d.is_floating_point or d.is_complex else dtypes.float32

    chosen = dtype or floating(input.dtype)
    wide = floating(chosen)
    mask = None if mask is None else _expanded(mask, input)
    count = _count(input, dim, True, mask)
    rest = input - sum(input, dim, keepdim=True, dtype=chosen, mask=mask) / count
    total = sum(rest * rest.conj(), dim, keepdim=keepdim, dtype=wide, mask=mask)
    count = count.reshape(total.shape)
    if less:
        count = (count.to(wide.to_real() if wide.is_complex else wide) - less).clamp_min(0)
    return (total / count).to(chosen)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance: the sum of squared deviations from the mean over their number minus ``correction`` (1).

    Raises:
        AssertionError: both ``unbiased`` and ``correction`` are passed.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.var(torch.tensor([1., 9., 3.]), mask=torch.tensor([True, False, True]))
        tensor(2.)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.var.html
    """
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: int | None = None,
    keepdim: bool | None = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation, the square root of `var`.

    Raises:
        AssertionError: both ``unbiased`` and ``correction`` are passed.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.std(torch.tensor([1., 9., 3.]), False, mask=torch.tensor([True, False, True]))
        tensor(1.4142)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.std.html
    """
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


# ---------------------------------------------------------------- normalizations


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The cumulative sum along ``dim``.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.cumsum(torch.tensor([1, 5, 3]), 0, mask=torch.tensor([True, False, True]))
        tensor([1, 1, 4])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.cumsum.html
    """
    chosen, (axis, *_) = dtype or input.dtype, _dims(dim, input.ndim)
    return _torch["cumsum"](_filled(input, mask, 0), axis, dtype=chosen)


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The cumulative product along ``dim``.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.cumprod(torch.tensor([2, 5, 3]), 0, mask=torch.tensor([True, False, True]))
        tensor([2, 2, 6])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.cumprod.html
    """
    chosen, (axis, *_) = dtype or input.dtype, _dims(dim, input.ndim)
    return _torch["cumprod"](_filled(input, mask, 1), axis, dtype=chosen)


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The softmax along ``dim``; 0 for masked-out elements, nan if all are masked out.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.softmax(torch.tensor([1., 9., 1.]), 0, mask=torch.tensor([True, False, True]))
        tensor([0.5000, 0.0000, 0.5000])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.softmax.html
    """
    (axis, *_) = _dims(dim, input.ndim)
    values = _filled(input, mask, _extreme("amax", input, mask, -1))
    return _F["softmax"](values, axis, dtype=dtype or input.dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `softmax`.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.log_softmax(torch.tensor([1., 9., 1.]), 0, mask=torch.tensor([True, False, True]))
        tensor([-0.6931,    -inf, -0.6931])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.log_softmax.html
    """
    (axis, *_) = _dims(dim, input.ndim)
    values = _filled(input, mask, _extreme("amax", input, mask, -1))
    return _F["log_softmax"](values, axis, dtype=dtype or input.dtype)


def softmin(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The softmax of the negative input along ``dim``.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.softmin(torch.tensor([1., -9., 1.]), 0, mask=torch.tensor([True, False, True]))
        tensor([0.5000, 0.0000, 0.5000])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.softmin.html
    """
    (axis, *_) = _dims(dim, input.ndim)
    values = _filled(input, mask, _extreme("amin", input, mask, 1))
    return _F["softmax"](-values, axis, dtype=dtype or input.dtype)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The input divided by the larger of ``eps`` and its norm along ``dim``.

    Example:
        >>> import functorch_port as torch
        >>> torch.masked.normalize(torch.tensor([3., 9., 4.]), 2., 0, mask=torch.tensor([True, False, True]))
        tensor([0.6000, 0.0000, 0.8000])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.masked.normalize.html
    """
    values = _filled(input, mask, 0)
    size = norm(input, ord, dim, keepdim=True, dtype=dtype or input.dtype, mask=mask)
    return values / _torch["maximum"](size, full_like(size, eps))


# ---------------------------------------------------------------- masked tensors


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"torch.masked.{name} is not supported: keep the tensor and its mask separate, and pass the mask to the "
        "functions of torch.masked as mask="
    )


class MaskedTensor:
    """Not supported: a tensor with a mask. The functions of this module take the mask as ``mask=``.

    Raises:
        NotImplementedError: always.

    Reference: https://docs.pytorch.org/docs/stable/masked.html
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> MaskedTensor:
        _refuse("MaskedTensor")


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """Not supported: see `MaskedTensor`."""
    _refuse("masked_tensor")


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """Not supported: see `MaskedTensor`."""
    _refuse("as_masked_tensor")


def is_masked_tensor(obj: Any) -> bool:
    """Return False: there is no `MaskedTensor`."""
    return isinstance(obj, MaskedTensor)
