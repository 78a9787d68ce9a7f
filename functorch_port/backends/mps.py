"""``torch.backends.mps``: there is no backend for Apple's GPUs under this name."""

__all__ = ["is_available", "is_built", "is_macos_or_newer"]


def is_available() -> bool:
    """Return False: use JAX's backend for Apple GPUs as the default device instead."""
    return False


def is_built() -> bool:
    """Return False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Raise RuntimeError: there is no such backend to ask."""
    raise RuntimeError("Cannot execute isOnMacOSorNewer() without MPS backend.")
