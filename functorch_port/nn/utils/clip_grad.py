"""Gradient clipping, by norm or by value."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Iterable
from typing import Any

from ..._array.refusal import refuse
from ..._run.bind import function
from ..._tensor.creation import tensor
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_"]

_total_norm, _scaled, _limited = function("_total_norm"), function("_scaled_to_norm"), function("_limited")


def _gradients(parameters: Any) -> list[Tensor]:
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in parameters if p.grad is not None]


def _replace(tensors: list[Tensor], values: Any) -> None:
    for old, new in zip(tensors, values, strict=True):
        old._set_value(new._peek())


@no_grad()
def _get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all elements of a list of tensors, as if they were one vector.

    Args:
        tensors: the tensors, usually gradients.
        norm_type: exponent of the norm; ``inf`` for the largest absolute value.
        error_if_nonfinite: raise if the norm is NaN or infinite (this reads the value).
        foreach: accepted and ignored; it is always one program.

    Raises:
        RuntimeError: with ``error_if_nonfinite``, if the norm is NaN or infinite.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.get_total_norm.html
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not tensors:
        return tensor(0.0)
    norm = _total_norm(tuple(tensors), float(norm_type))
    if error_if_nonfinite:
        text = (
            f"The total norm of order {float(norm_type)} for gradients from `parameters` is "
            "non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
        refuse(lambda ok: ~ok, lambda ok: RuntimeError(text), norm.isfinite()._look())
    return norm


@no_grad()
def _clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients in place to ``max_norm``, if their given total norm is larger.

    Args:
        parameters: a Tensor or an iterable of Tensors whose ``.grad`` is scaled.
        max_norm: the largest norm allowed.
        total_norm: the norm of the gradients.
        foreach: accepted and ignored; it is always one program.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grads_with_norm_.html
    """
    grads, max_norm = _gradients(parameters), float(max_norm)
    if grads:
        _replace(grads, _scaled(tuple(grads), total_norm, max_norm))


@no_grad()
def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that their total norm is at most ``max_norm``.

    Args:
        parameters: a Tensor or an iterable of Tensors whose ``.grad`` is scaled.
        max_norm: the largest norm allowed.
        norm_type: exponent of the norm; ``inf`` for the largest absolute value.
        error_if_nonfinite: raise if the norm is NaN or infinite (this reads the value).
        foreach: accepted and ignored; it is always one program.

    Returns:
        The norm before clipping; 0 if there are no gradients.

    Raises:
        RuntimeError: with ``error_if_nonfinite``, if the norm is NaN or infinite; for an empty gradient with an
            infinite or negative ``norm_type``.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.tensor([3., 4.], requires_grad=True)
        >>> w.sum().backward()
        >>> w.grad.mul_(w.detach())
        tensor([3., 4.])
        >>> torch.nn.utils.clip_grad_norm_(w, 1.0), w.grad
        (tensor(5.), tensor([0.6000, 0.8000]))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html
    """
    made_on_demand = isinstance(parameters, types.GeneratorType)
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if made_on_demand and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    norm = _get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite)
    _clip_grads_with_norm_(parameters, max_norm, norm)
    return norm


@functools.wraps(clip_grad_norm_)
def clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor:
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(*args, **kwargs)


@no_grad()
def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp every element of the gradients to ``[-clip_value, clip_value]``, in place.

    Args:
        parameters: a Tensor or an iterable of Tensors whose ``.grad`` is clamped. Without any gradient, nothing
            happens (PyTorch fails an internal check).
        clip_value: the largest absolute value allowed.
        foreach: accepted and ignored; it is always one program.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_value_.html
    """
    clip_value, grads = float(clip_value), _gradients(parameters)
    if grads:
        _replace(grads, _limited(tuple(grads), clip_value))
