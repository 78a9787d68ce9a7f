"""What ``compile(mode=, options=)`` may say: options of XLA, and those of PyTorch's that mean something here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["read"]

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
#: options of PyTorch's compiler that only say how it makes programs fast, which XLA decides here
_OF_SPEED = frozenset({"epilogue_fusion", "max_autotune", "shape_padding", "triton.cudagraphs"})
#: what asks for PyTorch's random numbers
_STREAM = "fallback_random"


def read(mode: Any, options: Any) -> tuple[dict[str, Any] | None, str | None]:
    """``(options of XLA or None, the random numbers asked for or None)``.

    Raises:
        RuntimeError: for an unknown mode or option, or for both at once, as in PyTorch.
        TypeError: if the options are no dict.
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if options is None:
        return None, None
    if not isinstance(options, Mapping):
        raise TypeError(f"compile: options must be a dict, got {type(options).__name__}")
    for name, value in options.items():
        if not str(name).startswith("xla_") and name not in _OF_SPEED and name != _STREAM:
            known = ", ".join(sorted({*_OF_SPEED, _STREAM}))
            raise RuntimeError(
                f"Unexpected optimization option {name}: programs are compiled by XLA, so options are XLA's, whose "
                f"names start with xla_. Of PyTorch's, {known} are known"
            )
        if not isinstance(value, bool | int | float | str):
            raise RuntimeError(f"Unexpected type of attr {name}, got {type(value).__name__}")
    xla = {name: value for name, value in options.items() if name.startswith("xla_")}
    return xla or None, "torch" if options.get(_STREAM) else None
