"""`torch.autograd.forward_ad`: forward-mode derivatives with dual tensors (see `_run.duals`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._base import watch
from .._run import duals
from .._tensor.grad_mode import SetAtOnce, _Mode
from .._tensor.tensor import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


def __getattr__(name: str) -> Any:
    if name == "_current_level":
        return -1 if watch.state.level is None else 0
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def enter_dual_level() -> int:
    """Open a dual level; `dual_level` also closes it.

    Raises:
        RuntimeError: one is open already.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.forward_ad.enter_dual_level.html
    """
    if watch.state.level is not None:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment. If you have a use case where it is needed, nest "
            "torch.func.jvp"
        )
    watch.begin()
    watch.state.level = duals.Level()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the dual level: its tensors have no tangents any more.

    Raises:
        RuntimeError: none is open, or another one.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.forward_ad.exit_dual_level.html
    """
    opened = watch.state.level
    if opened is None and level is None:
        raise RuntimeError("Dual level must be a positive number.")
    if opened is None or level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    watch.state.level = None
    opened.close()


class dual_level(_Mode):
    """Context in which tensors may have tangents, and operations compute them.

    Example:
        >>> import functorch_port as torch
        >>> import functorch_port.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(torch.tensor(2.), torch.tensor(1.))
        ...     print(fwAD.unpack_dual(x ** 3).tangent)
        tensor(12.)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.forward_ad.dual_level.html
    """

    def __enter__(self) -> int:  # type: ignore[override]
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of ``tensor`` that has ``tangent``, as it is if both lie in memory alike, else a copy of it.

    Raises:
        RuntimeError: no level is open, the shapes differ, or ``tangent`` has a tangent itself.
        ValueError: a dtype has no derivatives.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.forward_ad.make_dual.html
    """
    if watch.state.level is None or (level is not None and level < 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if level not in (None, 0):
        raise RuntimeError("Invalid level given to _make_dual")
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not given._is_differentiable():
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {given.dtype}")
    if duals.tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    if duals.tangent_of(tangent) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level0 is not supported."
        )
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    with duals.paused():
        dual = tensor.view_as(tensor)  # type: ignore[attr-defined]
        if not lie_alike(tensor, tangent):
            tangent = _laid_out_as(tensor, tangent)
    duals.attach(dual, tangent)
    return dual


def lie_alike(tensor: Tensor, tangent: Tensor) -> bool:
    if tensor.dtype is not tangent.dtype or tensor._turned() != tangent._turned():
        return False
    if tensor.numel() == 0:
        return True
    (mine, offset), (theirs, start) = tensor._layout(), tangent._layout()
    steps = [(a, b) for a, b, n in zip(mine, theirs, tensor.shape, strict=True) if n != 1]
    size, other = tensor._storage.nbytes(), tangent._storage.nbytes()
    return offset == start and size == other and all(a == b for a, b in steps)


def _laid_out_as(tensor: Tensor, tangent: Tensor) -> Tensor:
    """A copy of the tangent that lies in memory as the tensor does."""
    strides, offset = tensor._layout()
    whole = tangent.new_zeros(max(tensor._storage.nbytes() // tensor.itemsize, 1), dtype=tensor.dtype)  # type: ignore[attr-defined]
    return whole.as_strided(tuple(tensor.shape), strides, offset).copy_(tangent)


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns."""

    primal: Tensor
    tangent: Tensor | None


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A view of the tensor without a tangent, and its tangent or None.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.forward_ad.unpack_dual.html
    """
    if watch.state.level is None or (level is not None and level < 0):
        return UnpackedDualTensor(tensor, None)
    tangent = duals.tangent_of(tensor)
    with duals.paused():
        primal = tensor.view_as(tensor)  # type: ignore[attr-defined]
    duals.attach(primal, None)
    return UnpackedDualTensor(primal, tangent)


def _is_fwd_grad_enabled() -> bool:
    return duals.state.enabled


class _set_fwd_grad_enabled(SetAtOnce):
    """Turn tangents on or off, at once or as a context manager."""

    of, attribute = duals.state, "enabled"
