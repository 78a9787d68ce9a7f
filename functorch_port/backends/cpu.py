"""``torch.backends.cpu``."""

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """XLA picks the instruction set itself."""
    return "DEFAULT"
