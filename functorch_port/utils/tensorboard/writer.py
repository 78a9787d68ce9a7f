"""``torch.utils.tensorboard.writer``."""

from . import FileWriter as FileWriter
from . import SummaryWriter as SummaryWriter
