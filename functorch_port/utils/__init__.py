"""``torch.utils``: data loading, activation checkpointing, pytrees."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from functorch_port._tensor.swapping import swap_tensors as swap_tensors
from functorch_port.utils import checkpoint as checkpoint
from functorch_port.utils import data as data

__all__ = ["checkpoint", "data", "swap_tensors"]

if TYPE_CHECKING:
    from . import _foreach_utils as _foreach_utils
    from . import _python_dispatch as _python_dispatch
    from . import _pytree as _pytree
    from . import benchmark as benchmark
    from . import cpp_extension as cpp_extension
    from . import dlpack as dlpack
    from . import flop_counter as flop_counter
    from . import hooks as hooks
    from . import model_zoo as model_zoo
    from . import resume as resume
    from . import tensorboard as tensorboard

_LATER = (
    "_foreach_utils", "_python_dispatch", "_pytree", "benchmark", "cpp_extension", "dlpack", "flop_counter", "hooks",
    "model_zoo", "resume", "tensorboard",
)  # fmt: skip


if not TYPE_CHECKING:  # where every name is imported

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
