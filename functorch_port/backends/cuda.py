"""``torch.backends.cuda``. ``matmul.allow_tf32`` sets how precisely float32 matrix products are computed."""

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
    """Whether JAX has its CUDA backend."""
    return bool(jax_devices("cuda"))


class _Matmul:
    """Switches for matrix products."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 products may use TF32; the same switch as ``set_float32_matmul_precision``."""
        return config.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        config.set_float32_matmul_precision("high" if value else "highest")


matmul = _Matmul()

# Which attention kernel runs is XLA's choice; the switches only remember.
_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` was told."""
    return _sdp["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Accepted and kept; XLA chooses how attention is computed."""
    _sdp["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` was told."""
    return _sdp["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Accepted and kept; XLA chooses how attention is computed."""
    _sdp["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` was told."""
    return _sdp["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Accepted and kept; XLA chooses how attention is computed."""
    _sdp["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` was told."""
    return _sdp["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Accepted and kept; XLA chooses how attention is computed."""
    _sdp["cudnn"] = enabled


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Set the attention switches inside a block."""
    before = dict(_sdp)
    _sdp.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        _sdp.update(before)
