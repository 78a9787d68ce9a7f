"""``torch.cuda.graphs``."""

from . import CUDAGraph as CUDAGraph
from . import graph as graph
from . import is_current_stream_capturing as is_current_stream_capturing
