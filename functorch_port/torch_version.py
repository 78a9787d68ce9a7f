"""``torch.torch_version``: a version string that compares as a version."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .version import torch_version as _text

__all__ = ["TorchVersion"]

#: the order of pre-releases, the release and post-releases
_STAGES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1, "post": 1}


def _key(version: Any) -> tuple[Any, ...]:
    """The sort key of a version: numbers without trailing zeros, then the stage; ignores a local part ("+cpu")."""
    if isinstance(version, (tuple, list)):
        version = ".".join(map(str, version))
    if not isinstance(version, str):
        raise ValueError(f"Can't convert {version} to Version")
    match = re.match(r"v?(\d+(?:\.\d+)*)[._-]?(?:([a-z]+)[._-]?(\d*))?", version.strip().lower())
    if match is None:
        raise ValueError(f"Can't convert {version} to Version")
    numbers = [int(n) for n in match.group(1).split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), _STAGES.get(match.group(2) or "", 0), int(match.group(3) or 0)


class TorchVersion(str):
    """A string that comparison operators treat as a version, against strings, tuples and other versions.

    Example:
        >>> from functorch_port.torch_version import TorchVersion
        >>> TorchVersion("2.13.0+cpu") >= "2.9", TorchVersion("1.10.0a") > (1, 9)
        (True, True)
    """

    def _compare(self, other: Any, test: Callable[[Any, Any], bool], fallback: str) -> Any:
        try:
            return test(_key(str(self)), _key(other))
        except ValueError:  # not a version: compared as a string
            return getattr(str, fallback)(self, other)

    def __lt__(self, other: Any) -> bool:
        return self._compare(other, lambda a, b: a < b, "__lt__")

    def __le__(self, other: Any) -> bool:
        return self._compare(other, lambda a, b: a <= b, "__le__")

    def __gt__(self, other: Any) -> bool:
        return self._compare(other, lambda a, b: a > b, "__gt__")

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, lambda a, b: a >= b, "__ge__")

    def __eq__(self, other: Any) -> bool:
        return self._compare(other, lambda a, b: a == b, "__eq__")

    def __hash__(self) -> int:
        return str.__hash__(self)


__version__ = TorchVersion(_text)
