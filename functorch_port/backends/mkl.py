"""``torch.backends.mkl``: MKL is not used."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False: MKL is not used."""
    return False
