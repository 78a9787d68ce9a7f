"""``torch.fx.node``: the names of nodes of graphs, which are not here."""

from . import Node as Node
from . import map_arg as map_arg
