"""The real torchvision, to compare with: `from real_torchvision import torchvision`.

Its wheel has C++ operators for PyTorch with CUDA. PyTorch for a CPU lacks functions that they refer to, though none of
them is called for tensors on a CPU; so where there is a C compiler, functions that do nothing stand in for them, and
`compiled` is True. Elsewhere the operators are declared without a kernel, and all that is Python works.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

_BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_LIBRARIES = ("_C.so", "image.so")


def _folder() -> Path:
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _stand_in(folder: Path, scratch: Path) -> None:
    """Load libraries with the names of PyTorch's for CUDA, with all that torchvision's refer to."""
    listed = subprocess.run(
        ["nm", "-D", "--undefined-only", *(folder / name for name in _LIBRARIES)],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines() if re.search("c104cuda|2at4cuda", line)}
    # each is a function, or for what is data zeros enough
    source = "".join(
        f"void *{name}[64];\n" if name.endswith("allocatorE") else f"void *{name}(void) {{ return 0; }}\n"
        for name in sorted(names)
    )
    for name, text in (("libc10_cuda.so", source), ("libtorch_cuda.so", "")):
        command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", scratch / name, f"-Wl,-soname,{name}"]
        subprocess.run(command, input=text, text=True, check=True, capture_output=True)
        ctypes.CDLL(str(scratch / name), mode=ctypes.RTLD_GLOBAL)


def _load() -> bool:
    """Whether the C++ operators are there."""
    folder = _folder()
    try:
        torch.ops.load_library(folder / "_C.so")
        return True
    except OSError:
        if not (shutil.which("cc") and shutil.which("nm")):
            return False
    try:
        with tempfile.TemporaryDirectory() as scratch:
            _stand_in(folder, Path(scratch))
            for name in _LIBRARIES:
                ctypes.CDLL(
                    str(folder / name), mode=1
                )  # RTLD_LAZY: functions are looked up when they are called
        return True
    except (OSError, subprocess.CalledProcessError):
        return False


compiled = _load()
if not compiled:
    for operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{operator}", _BOXES)

import torchvision  # noqa: E402

__all__ = ["compiled", "torchvision"]
