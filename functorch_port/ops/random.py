"""Random tensors: `rand`, `randn`, `randint`, `randperm`, those like another tensor, and the mask of dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functorch_port._base import dtypes
from functorch_port._base.dtypes import dtype as DType
from functorch_port._base.layout import memory_order
from functorch_port._random.generator import Generator
from functorch_port._run.registry import composite
from functorch_port._tensor import creation
from functorch_port._tensor.creation.arguments import _dtype_of
from functorch_port._tensor.tensor import Tensor, wrap
from functorch_port._tensor.view import laid
from functorch_port.ops._drawing import (
    _beside,
    _in_order,
    _integer,
    _is_meta,
    _meta_like,
    _out_of_place,
    _placed,
    _refuse_unless_inexact,
    _require,
    _unsupported,
)
from functorch_port.ops._ranges import _digits, _range


def dropout_mask(shape: Sequence[int], p: float, dtype: DType, order: Sequence[int] | None = None) -> Any:
    """Draw zeros with probability ``p``, else ones, as PyTorch's dropout does.

    ``order`` is the memory order of the dropout's input (`memory_order`).
    """
    return _in_order(order, None, "bernoulli", tuple(shape), dtype, p=1 - p)


_Size = Any


def _factory(
    name: str,
    kernel: str,
    kind: str,
    size: Any,
    generator: Any,
    out: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    d = _dtype_of(name, dtype, out, dtypes.get_default_dtype())
    _refuse_unless_inexact(kernel, d)
    shape = creation._shape(size, name)
    made = _placed(_out_of_place(kind, shape, d, generator, _meta_like(device)), device, requires_grad)
    return made if out is None else creation._into(out, made)


def _sizes(name: str, size: tuple[Any, ...], named: Any) -> Any:
    if size and named is not None:
        raise TypeError(f"{name}() got multiple values for argument 'size'")
    if not size and named is None:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    return size if named is None else (named,)


@composite("rand", where="torch")
def rand(
    *size_: int,
    size: _Size = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Draw uniform numbers in [0, 1).

    Args:
        size: the shape, as integers or one sequence.
        generator: the random number generator; None for the default one.
        out: a tensor to write to.
        dtype: a floating point or complex dtype. Default: the default dtype.
        device: the device of the result. Default: the default device.
        requires_grad: whether autograd records operations on the result.

    Example:
        >>> import functorch_port as torch
        >>> _ = torch.manual_seed(0)
        >>> torch.rand(3)
        tensor([0.4963, 0.7682, 0.0885])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.rand.html
    """
    shape = _sizes("rand", size_, size)
    return _factory(
        "rand", "check_uniform_bounds", "uniform", shape, generator, out, dtype, device, requires_grad
    )


@composite("randn", where="torch")
def randn(
    *size_: int,
    size: _Size = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Draw standard normal numbers; the arguments are those of `rand`.

    Example:
        >>> import functorch_port as torch
        >>> _ = torch.manual_seed(0)
        >>> torch.randn(3)
        tensor([ 1.5410, -0.2934, -2.1788])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.randn.html
    """
    shape = _sizes("randn", size_, size)
    return _factory(
        "randn", "normal_kernel_cpu", "normal", shape, generator, out, dtype, device, requires_grad
    )


@composite("randint", where="torch")
def randint(
    *args: Any,
    low: Any = None,
    high: Any = None,
    size: _Size = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Draw integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``.

    Args:
        low: the smallest integer. Default: 0.
        high: one more than the largest integer.
        size: the shape, a sequence.
        generator, out, device, requires_grad: as for `rand`.
        dtype: default: int64.

    Raises:
        RuntimeError: the range is empty or does not fit the dtype.

    Example:
        >>> import functorch_port as torch
        >>> _ = torch.manual_seed(0)
        >>> torch.randint(10, (4,))
        tensor([4, 9, 3, 0])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.randint.html
    """
    given = list(args)
    if size is None and given and isinstance(given[-1], list | tuple):
        size = given.pop()
    if high is None and given:
        high = given.pop()
    if low is None and given:
        low = given.pop()
    if size is None or high is None or given or not isinstance(size, list | tuple):
        names = ", ".join(type(a).__name__ for a in args)
        raise TypeError(
            f"randint() received an invalid combination of arguments - got ({names}), but expected "
            "(int high, tuple of ints size) or (int low, int high, tuple of ints size)"
        )
    d = _dtype_of("randint", dtype, out, dtypes.int64)
    first, end = _range(
        "randint", d, _integer("randint", 0 if low is None else low), _integer("randint", high)
    )
    shape = creation._shape((size,), "randint")
    value = _out_of_place("integers", shape, d, generator, _meta_like(device), low=first, high=end)
    if requires_grad and not (d.is_floating_point or d.is_complex):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    made = _placed(value, device, requires_grad)
    return made if out is None else creation._into(out, made)


@composite("randperm", where="torch")
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The integers from 0 to ``n - 1`` in random order.

    Args:
        n: the number of integers.
        generator, out, device, requires_grad: as for `rand`.
        dtype: default: int64.

    Example:
        >>> import functorch_port as torch
        >>> _ = torch.manual_seed(0)
        >>> torch.randperm(4)
        tensor([0, 1, 3, 2])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.randperm.html
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer):
        raise TypeError(f"randperm(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    d = _dtype_of("randperm", dtype, out, dtypes.int64)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    _check_holds(int(n), d)
    value = _out_of_place("permutation", (int(n),), d, generator, _meta_like(device))
    made = _placed(value, device, requires_grad)
    return made if out is None else creation._into(out, made)


def _check_holds(n: int, d: DType) -> None:
    """Refuse a dtype that cannot hold the integers below ``n``."""
    if d is dtypes.bool_ or d.is_complex:
        raise _unsupported("randperm", d)
    if d.is_floating_point:
        digits = _digits(d)
        if d is not dtypes.bfloat16 and n > (1 << digits) + 1:
            limit = (1 << digits) + 1 if d is dtypes.float16 else f"2^{digits}+1"
            raise RuntimeError(f"n cannot be greater than {limit} for {d.scalar_name} type.")
    elif n > dtypes.iinfo(d).max:
        c_type = "int" if d is dtypes.int32 else f"{d.name}_t"
        raise RuntimeError(f"value cannot be converted to type {c_type} without overflow")


#: function -> (PyTorch's name of its kernel, what it draws)
_LIKE = {"rand_like": ("check_uniform_bounds", "uniform"), "randn_like": ("normal_kernel_cpu", "normal")}


def _like(
    name: str,
    input: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    generator: Any,
    memory_format: Any,
) -> Tensor:
    kernel, kind = _LIKE[name]
    own = _require(name, input)._aval()
    d = _dtype_of(name, dtype, None, dtypes.from_np(own.dtype))
    _refuse_unless_inexact(kernel, d)
    order = memory_order(input, memory_format)
    value = _out_of_place(kind, own.shape, d, generator, _meta_of(own, device), order)
    return _like_made(input, value, device, requires_grad, order)


def _meta_of(own: Any, device: Any) -> Any:
    return own if device is None and _is_meta(own) else _meta_like(device)


def _like_made(
    input: Tensor, value: Any, device: Any, requires_grad: bool, order: Sequence[int] | None
) -> Tensor:
    if device is None and not _is_meta(value):
        value = _beside(input._look(), value)
    tensor = wrap(value) if device is None or _is_meta(value) else creation.finish(value, device, False)
    tensor = laid(tensor, order)
    return tensor.requires_grad_(True) if requires_grad else tensor


@composite("rand_like", where="torch")
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """`rand` with the shape, dtype and device of ``input``."""
    return _like("rand_like", input, dtype, device, requires_grad, generator, memory_format)


@composite("randn_like", where="torch")
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """`randn` with the shape, dtype and device of ``input``."""
    return _like("randn_like", input, dtype, device, requires_grad, generator, memory_format)


@composite("randint_like", where="torch")
def randint_like(
    input: Tensor,
    *args: Any,
    low: Any = None,
    high: Any = None,
    generator: Generator | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """`randint` with the shape, dtype and device of ``input``; called as ``(input, [low,] high)``."""
    own = _require("randint_like", input)._aval()
    given = list(args)
    if high is None and given:
        high = given.pop()
    if low is None and given:
        low = given.pop()
    if high is None or given:
        raise TypeError(
            "randint_like() expects (Tensor input, int high) or (Tensor input, int low, int high)"
        )
    d = _dtype_of("randint_like", dtype, None, dtypes.from_np(own.dtype))
    bottom = 0 if low is None else low
    first, end = _range("randint_like", d, _integer("randint_like", bottom), _integer("randint_like", high))
    order, like = memory_order(input, memory_format), _meta_of(own, device)
    value = _out_of_place("integers", own.shape, d, generator, like, order, low=first, high=end)
    return _like_made(input, value, device, requires_grad, order)
