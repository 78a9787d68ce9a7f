"""``torch.storage``: the memory of tensors, as bytes or as elements of a dtype."""

from typing import Any

from ._tensor.typed import CLASSES
from ._tensor.typed import TypedStorage as TypedStorage
from ._tensor.typed import _LegacyStorage as _LegacyStorage
from ._tensor.untyped import UntypedStorage as UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]

Storage: Any = CLASSES["FloatStorage"]


def __getattr__(name: str) -> Any:
    try:
        return CLASSES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
