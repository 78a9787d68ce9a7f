"""``torch.backends.cudnn``: switches without effect. XLA decides when to call cuDNN, and tunes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..accelerator import jax_devices

__all__ = [
    "allow_tf32", "benchmark", "benchmark_limit", "deterministic", "enabled", "flags", "is_available",
    "version",
]  # fmt: skip

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Whether JAX has a GPU, on which XLA may call cuDNN."""
    return bool(jax_devices("cuda"))


def version() -> int | None:
    """Return None: the version of cuDNN is not known."""
    return None


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """Set the switches within a ``with`` block."""
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
    before = {name: globals()[name] for name in names}
    globals().update(
        zip(names, (enabled, benchmark, benchmark_limit, deterministic, allow_tf32), strict=True)
    )
    try:
        yield
    finally:
        globals().update(before)
