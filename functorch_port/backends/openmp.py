"""``torch.backends.openmp``: OpenMP is not used; XLA has its own threads."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False: OpenMP is not used."""
    return False
