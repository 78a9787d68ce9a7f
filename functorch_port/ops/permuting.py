"""Orders of dimensions (`transpose`, `permute`, `movedim`), and of the elements along them (`flip`, `roll`, ...)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from .._base.layout import common_format_order, first_order
from .._run import bind
from .._run.registry import TensorOnly, composite, op
from .._tensor.tensor import Tensor
from ._common import wrap_dim, wrap_dims

# dimensions


@op("transpose", "swapdims", view=True)
def transpose(input: TensorOnly, dim0: int, dim1: int):
    """Swap two dimensions."""
    a, b = wrap_dim(dim0, input.ndim), wrap_dim(dim1, input.ndim)
    return jnp.swapaxes(input, a, b) if input.ndim else input


@composite()
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """`transpose` with numpy's names of the parameters."""
    return bind.function("transpose")(input, axis0, axis1)


@op(view=True)
def t(input: TensorOnly):
    """Transpose a matrix; a tensor with fewer dimensions is unchanged."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return input.T


@op(view=True, varargs="dims")
def permute(input: TensorOnly, dims: tuple[int, ...]):
    """Reorder the dimensions: dimension ``dims[i]`` becomes dimension ``i``."""
    if len(dims) != input.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(dims)}"
        )
    order = tuple(wrap_dim(d, input.ndim) for d in dims)
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return lax.transpose(input, order)


def _moved(dim: int | tuple[int, ...], ndim: int, name: str) -> tuple[int, ...]:
    given = (dim,) if isinstance(dim, int) else dim
    dims = tuple(wrap_dim(d, ndim) for d in given)
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    return dims


@op("movedim", "moveaxis", view=True, node="PermuteBackward0")
def movedim(input: TensorOnly, source: int | tuple[int, ...], destination: int | tuple[int, ...]):
    """Move the dimensions ``source`` to the positions ``destination``; the others keep their order."""
    listed = [[x] if isinstance(x, int) else list(x) for x in (source, destination)]
    if len(listed[0]) != len(listed[1]):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({listed[0]} dims) should contain the same number of "
            f"dims as destination ({listed[1]} dims)"
        )
    if input.ndim == 0:
        return input
    return jnp.moveaxis(
        input, _moved(source, input.ndim, "source"), _moved(destination, input.ndim, "destination")
    )


def _matrix_transpose(name: str) -> Any:
    def get(self: Tensor) -> Tensor:
        if self.ndim == 1:
            raise RuntimeError(
                f"tensor.{name} is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor."
            )
        flipped: Any = bind.function("transpose")(self, -2, -1) if self.ndim else self
        return flipped.conj() if name == "mH" and self.is_complex() else flipped

    return property(get, doc="The last two dimensions swapped" + (", conjugated." if name == "mH" else "."))


def _reverse_dims(self: Tensor) -> Tensor:
    """The dimensions in reverse order."""
    return bind.function("permute")(self, tuple(range(self.ndim))[::-1])


def _hermitian(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    if self.ndim not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
    return self.mH if self.ndim else self  # type: ignore[attr-defined]


Tensor.T = property(_reverse_dims)  # type: ignore[attr-defined]
Tensor.H = property(_hermitian)  # type: ignore[attr-defined]
Tensor.mT = _matrix_transpose("mT")  # type: ignore[attr-defined]
Tensor.mH = _matrix_transpose("mH")  # type: ignore[attr-defined]


@composite()
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of the last two dimensions."""
    return input.mH  # type: ignore[attr-defined]


# elements


@op(varargs="dims", order=first_order)
def flip(input: TensorOnly, dims: tuple[int, ...]):
    """Reverse the order of the elements along ``dims``."""
    return jnp.flip(input, wrap_dims(dims, input.ndim)) if dims != () else input


@op(node="FlipBackward0", order=first_order)
def fliplr(input: TensorOnly):
    """Reverse the columns (dimension 1)."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return jnp.flip(input, 1)


@op(node="FlipBackward0", order=first_order)
def flipud(input: TensorOnly):
    """Reverse the rows (dimension 0)."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return jnp.flip(input, 0)


@op(order=common_format_order)
def roll(input: TensorOnly, shifts: int | tuple[int, ...], dims: int | tuple[int, ...] | None = None):
    """Shift the elements cyclically along ``dims``, by default in the flattened tensor."""
    amounts = (shifts,) if isinstance(shifts, int) else shifts
    axes = () if dims is None else (dims,) if isinstance(dims, int) else dims
    if not amounts:
        raise RuntimeError("`shifts` required")
    if not axes and len(amounts) == 1:
        return jnp.roll(input.reshape(-1), amounts[0]).reshape(input.shape)
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {axes[0]} but tensor has no dimensions")
    if len(amounts) != len(axes):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(amounts)}, dims:{len(axes)}")
    return jnp.roll(input, amounts, tuple(wrap_dim(d, input.ndim) for d in axes))


@op()
def rot90(input: TensorOnly, k: int = 1, dims: tuple[int, ...] = (0, 1)):
    """Rotate ``k`` times by 90 degrees, from the first of ``dims`` towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == input.ndim:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    return jnp.rot90(input, k, (wrap_dim(dims[0], input.ndim), wrap_dim(dims[1], input.ndim)))
