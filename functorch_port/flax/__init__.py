"""flax both ways: its modules as ours, ours as its, and the weights of common layers between them.

`from_nnx` and `from_linen` make an `nn.Module` of a flax module: its variables are parameters and buffers, and its
random numbers come from our generator. `as_nnx` and `as_linen` do the reverse. `to_variables` and `load_variables`
carry the weights of layers that both sides have. flax is an optional dependency, loaded when one of these is used.

Reference: https://flax.readthedocs.io
"""

from .ours import as_linen as as_linen
from .ours import as_nnx as as_nnx
from .theirs import FlaxModule as FlaxModule
from .theirs import from_linen as from_linen
from .theirs import from_nnx as from_nnx
from .weights import load_variables as load_variables
from .weights import to_variables as to_variables

__all__ = ["FlaxModule", "as_linen", "as_nnx", "from_linen", "from_nnx", "load_variables", "to_variables"]
