"""The parts of a module that a trace reads and guards (see `_trace.stateful`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._tensor.tensor import Tensor
from .._trace.stateful import Kind, register
from ._hooks import globals_
from ._module import Module

_TABLES = (
    "_parameters",
    "_buffers",
    "_modules",
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
)
_OTHERS = ("training", "_non_persistent_buffers_set", "_is_full_backward_hook")
_HOOKS = ("_hooks", "_hooks_with_kwargs", "_hooks_always_called")


def _guards(name: str) -> bool:
    return name in _TABLES or name in _OTHERS or name.endswith(_HOOKS)


def _tensors(module: Module) -> Iterator[tuple[str, str, Tensor]]:
    yield from (("parameter", name, param) for name, param in module.named_parameters())
    yield from (("buffer", name, buffer) for name, buffer in module.named_buffers())


def _compiled(module: Module, **options: Any) -> Module:
    from ._compiled import OptimizedModule  # the compiler is imported when it is used

    return OptimizedModule(module, **options)


register(Kind(Module, _guards, _tensors, _TABLES, globals_.for_call(), method="forward", compiled=_compiled))
