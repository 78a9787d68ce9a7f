"""``torch._dynamo.exc``: errors that users of `torch.export` catch."""

__all__ = ["UserError"]


class UserError(RuntimeError):
    """The arguments of `torch.export.export` contradict each other, or the module."""
