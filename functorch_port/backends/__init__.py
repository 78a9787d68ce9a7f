"""Switches of PyTorch's backends (``torch.backends``).

Switches with a counterpart in JAX set it; the others store their value, so that scripts run, and have no effect.
"""

import contextlib

from . import cpu as cpu
from . import cuda as cuda
from . import cudnn as cudnn
from . import mha as mha
from . import mkl as mkl
from . import mkldnn as mkldnn
from . import mps as mps
from . import openmp as openmp
from . import opt_einsum as opt_einsum

#: settings may be changed anywhere here
__allow_nonbracketed_mutation = contextlib.nullcontext
__all__ = ["cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]
