"""``torch.backends.cuda``. ``matmul.allow_tf32`` sets the precision of float32 matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .._base import config
from ..accelerator import jax_devices

__all__ = [
    "cudnn_sdp_enabled", "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp",
    "enable_mem_efficient_sdp", "flash_sdp_enabled", "is_built", "math_sdp_enabled", "matmul",
    "mem_efficient_sdp_enabled", "sdp_kernel",
]  # fmt: skip


def is_built() -> bool:
    """Whether JAX has a GPU."""
    return bool(jax_devices("cuda"))


class _Matmul:
    """The switches of matrix products."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 matrix products may use TF32; the same switch as ``set_float32_matmul_precision``."""
        return config.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        config.set_float32_matmul_precision("high" if value else "highest")


matmul = _Matmul()

# "flash" and "cudnn" allow the kernels of a TPU and of a GPU; the others only remember.
_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def _switch(**values: bool) -> None:
    _sdp.update(values)
    config.kernels = frozenset(name for name in ("flash", "cudnn") if _sdp[name])


def flash_sdp_enabled() -> bool:
    """Whether attention may be computed by the flash kernel of a TPU."""
    return _sdp["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Set whether attention may be computed by the flash kernel of a TPU."""
    _switch(flash=enabled)


def mem_efficient_sdp_enabled() -> bool:
    """The value that `enable_mem_efficient_sdp` set, without effect."""
    return _sdp["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Store the switch, without effect: there is no such kernel."""
    _switch(mem_efficient=enabled)


def math_sdp_enabled() -> bool:
    """The value that `enable_math_sdp` set, without effect."""
    return _sdp["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Store the switch, without effect: what no kernel can do is computed by XLA's operations."""
    _switch(math=enabled)


def cudnn_sdp_enabled() -> bool:
    """Whether attention may be computed by cuDNN on a GPU."""
    return _sdp["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Set whether attention may be computed by cuDNN on a GPU."""
    _switch(cudnn=enabled)


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Set the attention switches within a ``with`` block."""
    before = dict(_sdp)
    _switch(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        _switch(**before)
