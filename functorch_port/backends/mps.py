"""``torch.backends.mps``: Apple's GPUs; there is no such backend here."""

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """False: use JAX's own backend for Apple GPUs as the default device instead."""
    return False


def is_built() -> bool:
    """False."""
    return False
