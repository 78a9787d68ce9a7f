"""``torch.backends.openmp``: XLA has its own kernels and threads."""

__all__ = ["is_available"]


def is_available() -> bool:
    """False: it is not used here."""
    return False
