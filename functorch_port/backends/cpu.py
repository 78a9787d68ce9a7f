"""``torch.backends.cpu``."""

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """Return "DEFAULT": XLA chooses the instruction set."""
    return "DEFAULT"
