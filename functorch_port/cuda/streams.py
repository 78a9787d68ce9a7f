"""``torch.cuda.streams``."""

from . import Event as Event
from . import Stream as Stream
