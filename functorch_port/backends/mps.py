"""``torch.backends.mps``: there is no backend for Apple's GPUs under this name."""

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """Return False: use JAX's backend for Apple GPUs as the default device instead."""
    return False


def is_built() -> bool:
    """Return False."""
    return False
