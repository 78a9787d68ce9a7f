"""Handlers of XLA's foreign function interface, compiled by llvmlite while the program runs.

llvmlite is optional (``pip install 'functorch-port[cpu]'``); `available` says whether it is there and of use.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from pathlib import Path
from typing import Any

import jax

__all__ = ["available", "register"]

_lock = threading.Lock()
_registered: set[str] = set()


@cache
def available() -> bool:
    """Whether programs run on one CPU alone (XLA cannot cut what it does not know), and llvmlite works."""
    if os.name != "posix" or jax.default_backend() != "cpu" or jax.device_count() != 1:
        return False
    try:
        import llvmlite.binding
    except (ImportError, OSError):  # absent, or its library does not load
        return False
    llvmlite.binding.initialize_native_target()
    llvmlite.binding.initialize_native_asmprinter()
    return True


def register(name: str, runtime: str, text: str) -> None:
    """Compile a handler, once, and tell XLA its name.

    Args:
        name: the same name means the same handler.
        runtime: the file beside this one with what the handler needs, besides ``ffi.ll``.
        text: definitions in LLVM's language that complete it.
    """
    with _lock:
        if name not in _registered:
            folder = Path(__file__).parent
            sources = [(folder / file).read_text() for file in ("ffi.ll", runtime)]
            jax.ffi.register_ffi_target(name, _capsule(_compile("\n".join([*sources, text]))), platform="cpu")
            _registered.add(name)


def _compile(text: str) -> int:
    """The address of ``handler``."""
    import llvmlite.binding as llvm

    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.loop_interleaving = True
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    code = llvm.create_mcjit_compiler(module, machine)
    code.finalize_object()
    address = code.get_function_address("handler")
    code.detach()  # XLA's threads may run it until the process ends
    return address


def _capsule(address: int) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, None, None)
