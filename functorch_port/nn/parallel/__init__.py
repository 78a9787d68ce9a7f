"""``torch.nn.parallel``: modules that PyTorch spreads over devices, as they are on one."""

from .data_parallel import DataParallel as DataParallel
from .data_parallel import data_parallel as data_parallel
from .distributed import DistributedDataParallel as DistributedDataParallel
