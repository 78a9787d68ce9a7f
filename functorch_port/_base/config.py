"""Numeric settings: how precisely float32 matrix products are computed, and JAX's own that are not for us."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax import lax

__all__ = [
    "by_our_rules",
    "get_float32_matmul_precision",
    "kernels",
    "key",
    "matmul_precision",
    "precise",
    "set_float32_matmul_precision",
]

_PRECISIONS = {"highest": lax.Precision.HIGHEST, "high": lax.Precision.HIGH, "medium": lax.Precision.DEFAULT}

#: The settings that are built into compiled operations; a part of every operation's signature.
key = "highest"
#: names of the attention kernels that may be used: "flash" on a TPU, "cudnn" on a GPU (see `ops._fused_attention`)
kernels = frozenset({"flash", "cudnn"})
#: what was remembered under the present settings, to be forgotten when they change
remembered: list[dict[Any, Any]] = []


def forget() -> None:
    """A setting changes on which operations depend."""
    for known in remembered:
        known.clear()


def get_float32_matmul_precision() -> str:
    """How precisely float32 matrix products are computed: ``"highest"``, ``"high"`` or ``"medium"``.

    Example:
        >>> import functorch_port as torch
        >>> torch.get_float32_matmul_precision()
        'highest'

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.get_float32_matmul_precision.html
    """
    return key


def set_float32_matmul_precision(precision: str) -> None:
    """Choose between exact and faster float32 matrix products (it matters on TPU and GPU, not on CPU).

    Args:
        precision: ``"highest"`` computes in float32, ``"high"`` in three bfloat16 passes or TF32, ``"medium"`` in
            the fastest way the device has.

    Raises:
        RuntimeError: for any other word.

    Example:
        >>> import functorch_port as torch
        >>> torch.set_float32_matmul_precision("highest")

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html
    """
    global key
    if not isinstance(precision, str):
        raise TypeError(
            f"set_float32_matmul_precision(): argument 'precision' must be str, not {type(precision).__name__}"
        )
    if precision not in _PRECISIONS:
        raise RuntimeError(
            f"float32 matmul precision must be 'highest', 'high' or 'medium', got '{precision}'"
        )
    key = precision
    forget()


def matmul_precision() -> lax.Precision:
    """The `lax.Precision` for matrix products and convolutions."""
    return _PRECISIONS[key]


def precise() -> Any:
    """The context in which JAX's own functions, and the derivatives of what is jitted, have `matmul_precision` too."""
    return jax.default_matmul_precision(matmul_precision().name.lower())


def by_our_rules(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A pure function of arrays, for which JAX promotes ranks and dtypes even where the user forbids it. Its matrix
    products, those inside of JAX's own functions too, are as precise as `set_float32_matmul_precision` says.

    The function runs when it is traced, so a program that is there does not ask.
    """

    @functools.wraps(fn)
    def traced(*args: Any, **kwargs: Any) -> Any:
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"), precise():
            return fn(*args, **kwargs)

    return traced
