"""Handlers of XLA's foreign function interface, compiled by llvmlite while the program runs.

llvmlite is optional (``pip install 'functorch-port[cpu]'``); `available` says whether it is there and of use.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from ..._base import cache, settings
from ..._base.tuning import tuning

__all__ = [
    "are_enough", "available", "compiles", "cores", "function", "kept", "lanes", "register", "serving",
]  # fmt: skip

_lock = threading.Lock()
_registered: set[str] = set()


@functools.cache
def available() -> bool:
    """Whether programs run on one CPU alone (XLA cannot cut what it does not know), and llvmlite works."""
    return jax.default_backend() == "cpu" and jax.device_count() == 1 and compiles()


@functools.cache
def compiles() -> bool:
    """Whether llvmlite is there, works and may be used, for what is called from Python."""
    if os.name != "posix" or settings.PLAIN or not settings.get("KERNELS"):
        return False
    try:
        import llvmlite.binding
    except (ImportError, OSError):  # absent, or its library does not load
        return False
    llvmlite.binding.initialize_native_target()
    llvmlite.binding.initialize_native_asmprinter()
    return True


def cores() -> int:
    """Of those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def lanes() -> int:
    """How many floats the processor's widest vectors have."""
    import llvmlite.binding as llvm

    return 16 if llvm.get_host_cpu_features().get("avx512f") else 8


def are_enough() -> bool:
    """Whether no more handlers are to be made for single shapes: what is made stays, as XLA's threads may run it."""
    return len(_registered) >= tuning.handlers


def register(name: str, runtime: str, data: int, text: str = "") -> None:
    """Tell XLA a handler and its name, once. Handlers may differ by their data alone: nothing is compiled for most.

    Args:
        name: the same name means the same handler.
        runtime: the file beside this one with what the handler needs, besides ``ffi.ll`` and ``pool.ll``.
        data: an address, of what stays where it is; 0 for a handler that all calls tell what to do.
        text: definitions in LLVM's language that complete it.
    """
    with _lock:
        if name not in _registered:
            if not _free.get((runtime, text)):
                _free[runtime, text] = _handlers(runtime, text, _AT_ONCE)
            handler = _free[runtime, text].pop()
            ctypes.c_int64.from_address(handler.data).value = data
            _tell(name, handler)


def kept(words: Sequence[int], by: list[Any] | None = None) -> int:
    """Where the words stay: as long as the list ``by``, or for ever, as XLA's threads run until the process ends."""
    held = (ctypes.c_int64 * len(words))(*words)
    if by is None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))
    else:
        by.append(held)
    return ctypes.addressof(held)


def serving(runtime: str, text: str = "") -> int:
    """The address of what all handlers of this runtime and text run, compiled once: ``(frame, data) -> error``."""
    with _lock:
        if (runtime, text) not in _serving:
            _handlers(runtime, text, 1)
        return _serving[runtime, text]


class _Handler(NamedTuple):
    """Addresses: of a handler, and of the place of its data."""

    code: int
    data: int


#: by runtime and text, handlers that have no data yet
_free: dict[tuple[str, str], list[_Handler]] = {}
#: by runtime and text, the address of what handlers run
_serving: dict[tuple[str, str], int] = {}
#: to compile one takes 50 ms, to compile this many not much longer
_AT_ONCE = 64

_HANDLER = """
define ptr @handler.{n}(ptr %frame) {{
  %place = getelementptr ptr, ptr @data, i64 {n}
  %data = load ptr, ptr %place
  %error = call ptr @serve(ptr %frame, ptr %data)
  ret ptr %error
}}
"""


def _tell(name: str, handler: _Handler) -> None:
    jax.ffi.register_ffi_target(name, _capsule(handler.code), platform="cpu")
    _registered.add(name)


def _handlers(runtime: str, text: str, count: int) -> list[_Handler]:
    """New handlers, compiled together."""
    sources = [(Path(__file__).parent / file).read_text() for file in ("ffi.ll", "pool.ll", runtime)]
    table = f"@data = global [{count} x ptr] zeroinitializer"
    handlers = [_HANDLER.format(n=n) for n in range(count)]
    # what only prepares calls is as fast without LLVM's passes, which take 60 to 100 ms; kernels are in ``text``
    code = _compiled("\n".join([*sources, text, table, *handlers]), level=3 if text else 0)
    data = code.get_global_value_address("data")
    made = [_Handler(code.get_function_address(f"handler.{n}"), data + 8 * n) for n in range(count)]
    _serving.setdefault((runtime, text), code.get_function_address("serve"))
    code.detach()  # XLA's threads may run it until the process ends
    return made


def function(name: str, text: str, level: int = 3) -> int:
    """Compile a module; returns the address of the function of that name, which stays."""
    with _lock:
        code = _compiled(text, level)
        address: int = code.get_function_address(name)
        code.detach()
        return address


def _compiled(text: str, level: int) -> Any:
    """A module's machine code, from the cache if a process before has made it. At level 0 LLVM only translates."""
    import llvmlite
    import llvmlite.binding as llvm

    machine = _machine(level)
    key = "\n".join(
        [text, str(level), *map(str, _target()), llvmlite.__version__, str(llvm.llvm_version_info)]
    )
    compiled = cache.kept("kernel", key, lambda: _object(text, machine, level))
    code = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    code.add_object_file(llvm.ObjectFileRef.from_data(compiled))
    code.finalize_object()
    return code


@functools.cache
def _target() -> tuple[Any, str, str]:
    """The triple and name of this processor, and what it can do."""
    import llvmlite.binding as llvm

    return llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _machine(level: int) -> Any:
    import llvmlite.binding as llvm

    triple, name, features = _target()
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(cpu=name, features=features, opt=level, jit=True)


def _object(text: str, machine: Any, level: int) -> bytes:
    """A module as an object file: 50 ms and more of work."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.loop_interleaving = level > 0
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    made: bytes = machine.emit_object(module)
    return made


def _capsule(address: int) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, None, None)
