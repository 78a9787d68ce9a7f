"""``torch.nn.modules.channelshuffle``."""

from .pixelshuffle import ChannelShuffle as ChannelShuffle

__all__ = ["ChannelShuffle"]
