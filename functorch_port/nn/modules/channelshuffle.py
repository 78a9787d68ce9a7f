"""Channel shuffle."""

from __future__ import annotations

from ..._tensor.tensor import Tensor
from .. import functional as F
from .._module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Interleave the channels of the groups; the shape (N, C, ...) stays.

    Args:
        groups: number of groups of channels.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.ChannelShuffle.html
    """

    __constants__ = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
