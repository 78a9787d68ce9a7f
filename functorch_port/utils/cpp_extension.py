"""``torch.utils.cpp_extension``: the names by which extensions for PyTorch are compiled, which is refused."""

from __future__ import annotations

import shutil

from .._base.refused import refused

__all__ = ["CUDA_HOME", "is_ninja_available"]

_WHY = (
    "what is compiled for PyTorch needs PyTorch. An operation in Python, by torch.library.custom_op, or one of JAX "
    "(jax.ffi, Pallas) does not"
)
CUDA_HOME: str | None = None
globals().update(
    refused(
        "torch.utils.cpp_extension",
        _WHY,
        ("CUDAExtension", "CppExtension", "include_paths", "library_paths", "load", "load_inline"),
        ("BuildExtension",),
    )
)


def is_ninja_available() -> bool:
    """Whether the program ninja is installed."""
    return shutil.which("ninja") is not None
