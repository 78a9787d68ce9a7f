"""Conversion of modules and weights from and to flax.

`from_nnx` and `from_linen` wrap a flax module as an `nn.Module`: its variables become parameters and buffers, and its
random numbers come from this package's generator. `as_nnx` and `as_linen` wrap an `nn.Module` as a flax module.
`to_variables` and `load_variables` convert the weights of layers that both sides have. flax is an optional dependency,
imported on first use.

Reference: https://flax.readthedocs.io
"""

from ._ours import as_linen as as_linen
from ._ours import as_nnx as as_nnx
from ._theirs import FlaxModule as FlaxModule
from ._theirs import from_linen as from_linen
from ._theirs import from_nnx as from_nnx
from ._weights import load_variables as load_variables
from ._weights import to_variables as to_variables

__all__ = ["FlaxModule", "as_linen", "as_nnx", "from_linen", "from_nnx", "load_variables", "to_variables"]
