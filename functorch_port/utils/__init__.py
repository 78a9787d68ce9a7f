"""``torch.utils``: data loading, activation checkpointing, pytrees."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from functorch_port._tensor.tensor import Tensor
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


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange what two tensors are: values, history and attributes. Whoever has the one sees the other then.

    Args:
        t1, t2: two tensors of one class.

    Raises:
        RuntimeError: a graph that is still there leads to one of them.
        NotImplementedError: they are of different classes.
    """
    if type(t1) is not type(t2):
        raise NotImplementedError(
            f"swap_tensors: {type(t1).__name__} and {type(t2).__name__} are different classes"
        )
    for tensor in (t1, t2):
        if tensor._accumulator is not None and tensor._accumulator() is not None:
            raise RuntimeError("swap_tensors: a graph that is still there leads to the tensor")
        tensor._accumulator = None
    for name in ("_base", "_grad_fn", "_kept_grad", "_output_nr", "_requires_grad", "_storage", "_view"):
        first, second = getattr(t1, name), getattr(t2, name)
        setattr(t1, name, second)
        setattr(t2, name, first)
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__


if not TYPE_CHECKING:  # where every name is imported

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
