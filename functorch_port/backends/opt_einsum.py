"""``torch.backends.opt_einsum``: JAX's einsum always chooses its path with opt_einsum."""

from __future__ import annotations

__all__ = ["enabled", "is_available", "strategy"]

enabled = True
strategy: str | None = "auto"


def is_available() -> bool:
    """Return True."""
    return True
