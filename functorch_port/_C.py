"""``torch._C``: the names of PyTorch's C++ module that libraries read, with the values of eager mode."""

from __future__ import annotations

import contextlib
import enum
import importlib
import weakref
from collections.abc import Iterator
from typing import Any

from . import library
from ._array import tracing
from ._base.device import device, get_default_device
from ._base.dtypes import dtype as dtype
from ._base.layout import layout as layout
from ._base.layout import memory_format as memory_format
from ._base.size import Size as Size
from ._run.packing import SavedTensor
from ._tensor import saved
from ._tensor.grad_mode import is_grad_enabled as is_grad_enabled
from ._tensor.overriding import Without as DisableTorchFunctionSubclass
from ._tensor.overriding import WithoutAll as DisableTorchFunction
from ._tensor.overriding import disabled as _disabled_torch_function_impl  # noqa: F401
from ._tensor.overriding import no_dispatch as _disabled_torch_dispatch_impl  # noqa: F401
from ._tensor.overriding import state as _overriding
from ._tensor.tensor import Tensor as _TensorBase  # noqa: F401
from .accelerator import current_accelerator
from .autograd import _functions as _functions
from .autograd._task import _current_graph_task_execution_order as _current_graph_task_execution_order
from .autograd._task import _current_graph_task_id as _current_graph_task_id
from .autograd._task import _will_engine_execute_node as _will_engine_execute_node
from .autograd.forward_ad import _is_fwd_grad_enabled as _is_fwd_grad_enabled
from .autograd.forward_ad import _set_fwd_grad_enabled as _switch_tangents
from .fx import Graph as Graph
from .fx import Node as Node
from .nn._conversion import parse_to

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet", "Graph", "TensorType",
    "Value",
]  # fmt: skip


#: there are no files in it, but those of `_MODULES` are imported as parts of it
__path__: list[str] = []

_MODULES = {"_VariableFunctions": "_VF", "_distributed_c10d": "distributed.distributed_c10d"}

#: the other homes of what PyTorch has here, too
_LAZY = {
    "Event": "_streams",
    "Future": "futures",
    "Generator": "_random.generator",
    "PyTorchFileReader": "serialization._files",
    "ScriptFunction": "jit",
    "ScriptModule": "jit",
    "Stream": "_streams",
}

#: the metaclass of `Tensor`; `isinstance` is faster with Python's own
_TensorMeta = type


class Value:
    """The type of values in TorchScript's graphs; it has no instances here."""


class TensorType:
    """The type of tensors in TorchScript's graphs; it has no instances here."""


class DispatchKey(enum.Enum):
    """The names of PyTorch's dispatch keys, without effect."""

    CPU, CUDA, Meta, Autograd, AutogradCPU, AutogradCUDA, CompositeImplicitAutograd = range(7)
    AutocastCPU, AutocastCUDA, AutocastXPU, Python, FuncTorchBatched = range(7, 12)


class DispatchKeySet:
    """A set of dispatch keys."""

    def __init__(self, key: Any) -> None:
        self.keys = frozenset(key) if isinstance(key, (set, frozenset)) else frozenset([key])

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self.keys | other.keys)


class _WeakTensorRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Any) -> None:
        self._ref = weakref.ref(tensor)

    def expired(self) -> bool:
        return self._ref() is None


class _autograd:
    """``torch._C._autograd``."""

    SavedTensor = SavedTensor

    @staticmethod
    def _saved_tensors_hooks_is_enabled() -> bool:
        return saved.state.refused is None


def _set_fwd_grad_enabled(mode: bool) -> None:
    _switch_tangents(mode)


@contextlib.contextmanager
def _ExcludeDispatchKeyGuard(keys: Any) -> Iterator[None]:
    yield


def _is_torch_function_enabled() -> bool:
    return _overriding.enabled and _overriding.subclasses


def _is_torch_function_all_disabled() -> bool:
    return not _overriding.enabled


def _is_torch_function_mode_enabled() -> bool:
    return _overriding.enabled and bool(_overriding.modes)


def _len_torch_function_stack() -> int:
    return len(_overriding.modes)


def _get_tracing_state() -> None:
    return None


def _log_api_usage_once(event: str) -> None:
    return None


def _get_accelerator(check: bool | None = None) -> device:
    return current_accelerator() or device("cpu")


def _get_privateuse1_backend_name() -> str:
    return "privateuseone"


def _get_default_device() -> str:
    return str(get_default_device())


def _are_functorch_transforms_active() -> bool:
    return tracing.in_jax()


class _Functions:
    """``torch._C._nn``: operators of layers."""

    @staticmethod
    def _parse_to(*args: Any, **kwargs: Any) -> Any:
        return parse_to(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(library.OpNamespace("aten"), name)


_nn = _Functions()


class _functorch:
    """``torch._C._functorch``."""

    @staticmethod
    def is_legacy_batchedtensor(tensor: Any) -> bool:
        return False


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __package__), name)
    if name in _MODULES:
        return importlib.import_module(f".{_MODULES[name]}", __package__)
    if name.startswith(("_jit_set_", "_jit_override_", "_jit_can_fuse_")):
        return lambda *args, **kwargs: False  # settings of TorchScript
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
