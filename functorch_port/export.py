"""``torch.export``: not supported; `jax.export` exports the result of `functionalize`."""

from __future__ import annotations

from typing import Any

from .utils import _pytree

__all__ = ["Dim", "ExportedProgram", "export", "load", "register_dataclass", "save"]


def export(*args: Any, **kwargs: Any) -> Any:
    """Not supported: use `jax.export`.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "torch.export: jax.export.export(jax.jit(functorch_port.functionalize(fn))) gives a portable program"
    )


load = save = export


class ExportedProgram:
    """The type of PyTorch's exported programs; it has no instances here."""


class Dim:
    """A name for a dimension of variable size, for `export`; without effect.

    Args:
        name: the name.
        min, max: the bounds of the size.
    """

    AUTO, STATIC, DYNAMIC = "AUTO", "STATIC", "DYNAMIC"

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.name, self.min, self.max = name, min, max


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """`torch.utils._pytree.register_dataclass`."""
    _pytree.register_dataclass(cls)
