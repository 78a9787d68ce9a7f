"""``torch.export``: refused by name; `jax.export` exports what `functionalize` gives."""

from __future__ import annotations

from typing import Any

__all__ = ["Dim", "ExportedProgram", "export", "load", "register_dataclass", "save"]


def export(*args: Any, **kwargs: Any) -> Any:
    """Refused.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "torch.export: jax.export.export(jax.jit(functorch_port.functionalize(fn))) gives a portable program"
    )


load = save = export


class ExportedProgram:
    """The type of PyTorch's exported programs; nothing is one here."""


class Dim:
    """A name for a dimension of any size; only `export` would use it.

    Args:
        name: the name.
        min, max: bounds of the size.
    """

    AUTO, STATIC, DYNAMIC = "AUTO", "STATIC", "DYNAMIC"

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.name, self.min, self.max = name, min, max


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """`torch.utils._pytree.register_dataclass`."""
    from .utils._pytree import register_dataclass as register

    register(cls)
