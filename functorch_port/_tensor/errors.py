"""What an error of JAX says is said in PyTorch's words, and none ends with JAX's notice about frames of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._array import fits
from .._base import dtypes

__all__ = ["C_NAMES", "not_a_tensor", "told"]

#: what C++ calls the types, where an error text says so
C_NAMES = {
    "float64": "double", "float32": "float", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int64": "long int",
    "int32": "int", "int16": "short int", "int8": "signed char", "uint8": "unsigned char", "complex64":
    "c10::complex<float>",
    "complex128": "c10::complex<double>",
}  # fmt: skip
_NOTICE = "JAX has removed its internal frames"
_DTYPE = re.compile(r"does not accept dtype (\w+)|not well defined for (?:dtype )?(complex\w+)")
_SHAPES = re.compile(r"ncompatible shapes for broadcasting: (?:shapes=\[)?\((.*?)\), \((.*?)\)")
#: how texts of JAX begin whose frames are gone
_THEIRS = re.compile(
    r"\w+ (does not accept dtype|got incompatible shapes|requires arguments)|(lax|jax)\.|Incompatible shapes for|"
    r"(cannot reshape|dot_general|broadcast_in_dim|reshape new_sizes|concatenate|conv_general_dilated)\b"
)


def told(
    error: BaseException,
    name: str,
    tensor: type,
    args: Any = (),
    kwargs: Any = None,
    values: Sequence[Any] = (),
) -> BaseException:
    """The error to raise for ``error``, which came out of the operation ``name``: itself, unless it is JAX's own, or
    Python's about an argument that is no tensor. ``values`` are the Tensors and numbers among the arguments.
    """
    notes = getattr(error, "__notes__", None)
    if notes:
        error.__notes__ = [note for note in notes if _NOTICE not in note]
    if isinstance(error, AttributeError):
        return not_a_tensor(error, name.lstrip("_"), args, kwargs or {}, tensor) or error
    if isinstance(error, TypeError | ValueError | OverflowError):
        for value in values:
            if type(value) is int:
                fits.fits(value, dtypes.int64.np)
        if "Received incompatible devices" in str(error):
            places = list(dict.fromkeys(str(v.device) for v in values if isinstance(v, tensor)))
            return RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{places[0]} and {places[-1]}!"
            )
    if type(error) not in (TypeError, ValueError) or not _is_theirs(error):
        return error
    text, name = str(error), name.lstrip("_")
    dtype, shapes = _DTYPE.search(text), _SHAPES.search(text)
    if dtype is not None:
        kind = dtypes.from_np(np.dtype(dtype[1] or dtype[2])).scalar_name
        return NotImplementedError(f"\"{name}_cpu\" not implemented for '{kind}'")
    if shapes is not None:
        a, b = (tuple(int(n) for n in shape.split(",") if n.strip()) for shape in shapes.groups())
        for i in range(-1, -min(len(a), len(b)) - 1, -1):
            if a[i] != b[i] and 1 not in (a[i], b[i]):
                return RuntimeError(
                    f"The size of tensor a ({a[i]}) must match the size of tensor b ({b[i]}) at non-singleton "
                    f"dimension {max(len(a), len(b)) + i}"
                )
    return RuntimeError(f"{name}(): {text}")


def _is_theirs(error: BaseException) -> bool:
    if _THEIRS.match(str(error)):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("jax.")


def not_a_tensor(error: AttributeError, name: str, args: Any, kwargs: Any, tensor: type) -> TypeError | None:
    """PyTorch's error, if ``error`` says that an argument of the function ``name`` has not what a tensor has."""
    owner = error.obj
    if hasattr(owner, "shape") or not hasattr(tensor, error.name or ""):
        return None
    kind = type(owner).__name__
    for position, given in enumerate((*args, *kwargs.values()), 1):
        if given is owner:
            return TypeError(f"{name}(): argument (position {position}) must be Tensor, not {kind}")
        for i, part in enumerate(given if isinstance(given, list | tuple) else ()):
            if part is owner:
                return TypeError(f"expected Tensor as element {i} in argument {position - 1}, but got {kind}")
    return None
