"""The library's environment variables: what each may be. The only place that reads them.

A value that is not allowed is an error when the library is imported.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["PLAIN", "VARIABLES", "Variable", "environment", "facts", "get"]

_PREFIX = "FUNCTORCH_PORT_"
_SWITCH = {
    **dict.fromkeys(("0", "false", "off", "no"), False),
    **dict.fromkeys(("1", "true", "on", "yes"), True),
}


class Variable(NamedTuple):
    """An environment variable.

    Attributes:
        default: the value where it is not set, or empty.
        parse: from the text to the value; raises ValueError or KeyError for what is not allowed.
        allowed: what may be given, for the error.
        meaning: what it does, in a few words.
    """

    default: Any
    parse: Callable[[str], Any]
    allowed: str
    meaning: str


def _switch(text: str) -> bool:
    return _SWITCH[text.lower()]


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def _one_of(*words: str) -> Callable[[str], str]:
    return lambda text: words[words.index(text.lower())]


_A_SWITCH, _A_COUNT = "0 (or false, off, no) or 1 (or true, on, yes)", "a whole number that is not negative"

#: by their names without the prefix
VARIABLES = {
    "AGREE": Variable(
        "programs",
        _one_of("first", "programs", "always"),
        "first, programs or always",
        "what processes compare before a later call: nothing, programs, all",
    ),
    "BACKEND": Variable(
        "auto",
        _one_of("auto", "jax"),
        "auto or jax",
        "jax: all is left to JAX, as on a TPU, on a CPU too",
    ),
    "CACHE": Variable(
        True,
        lambda text: _SWITCH.get(text.lower(), text),
        f"{_A_SWITCH}, or the path of a folder",
        "compiled programs and traces are kept on disk, and where",
    ),
    "CHECKS": Variable(
        None, _switch, _A_SWITCH, "compiled functions raise errors that depend on values (default: on a CPU)"
    ),
    "HOST_ELEMENTS": Variable(4096, _count, _A_COUNT, "tensors up to this size may run in numpy on a CPU"),
    "KEEP_MEMORY": Variable(True, _switch, _A_SWITCH, "the process keeps freed memory"),
    "KERNELS": Variable(True, _switch, _A_SWITCH, "llvmlite and oneDNN are used on a CPU, where installed"),
    "KEYS": Variable(
        "auto",
        _one_of("auto", "threefry2x32", "rbg"),
        "auto, threefry2x32 or rbg",
        "JAX's generator in compiled functions; auto: rbg on a TPU, else threefry2x32",
    ),
    "REPLAY_AFTER": Variable(
        2, _count, _A_COUNT, "eager operations become a program after so many times; 0: never"
    ),
    "RNG": Variable(
        "jax",
        _one_of("jax", "torch"),
        "jax or torch",
        "random numbers in compiled functions: from a JAX key, or PyTorch's stream",
    ),
    "TIER": Variable(
        "auto",
        _one_of("auto", "numpy", "compiled"),
        "auto, numpy or compiled",
        "what is new on a CPU runs by numpy until it is compiled, always, or never",
    ),
    "VISION": Variable(
        "ours",
        _one_of("ours", "installed"),
        "ours or installed",
        "import torchvision in launched scripts: functorch_port.vision or the library",
    ),
    "X64": Variable(True, _switch, _A_SWITCH, "float64 and int64 are real; 0 stores 32 bits"),
}


def get(name: str) -> Any:
    """The value of a variable, by its name without ``FUNCTORCH_PORT_``, as the environment says now.

    Raises:
        ValueError: for a value that is not allowed.

    Example:
        >>> from functorch_port._base import settings
        >>> settings.get("HOST_ELEMENTS")
        4096
    """
    variable = VARIABLES[name]
    text = os.environ.get(_PREFIX + name, "").strip()
    if not text:
        return variable.default
    try:
        return variable.parse(text)
    except (ValueError, KeyError):
        raise ValueError(
            f"environment variable {_PREFIX}{name}: got {text!r}, allowed is {variable.allowed}"
        ) from None


def environment(**values: str) -> dict[str, str]:
    """The environment of another process, in which these variables have these values."""
    return {**os.environ, **{f"{_PREFIX}{name}": value for name, value in values.items()}}


def _look() -> None:
    for name in VARIABLES:
        get(name)
    for name in os.environ:
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in VARIABLES:
            known = [_PREFIX + n for n in VARIABLES]
            close = difflib.get_close_matches(name, known, n=1) or known
            warnings.warn(f"environment variable {name} is none of functorch_port's: {', '.join(close)}")


_look()

#: what a platform tells of its own ways for `functorch-port info`: what they are called, and a function that says it
facts: dict[str, Callable[[], Any]] = {}

#: Whether everything is left to JAX: no backend is installed.
PLAIN: bool = get("BACKEND") == "jax"
