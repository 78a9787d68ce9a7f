"""``torch.cuda.memory``."""

from . import empty_cache as empty_cache
from . import max_memory_allocated as max_memory_allocated
from . import max_memory_reserved as max_memory_reserved
from . import mem_get_info as mem_get_info
from . import memory_allocated as memory_allocated
from . import memory_reserved as memory_reserved
from . import memory_stats as memory_stats
from . import memory_summary as memory_summary
from . import reset_max_memory_allocated as reset_max_memory_allocated
from . import reset_peak_memory_stats as reset_peak_memory_stats
