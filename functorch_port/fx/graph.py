"""``torch.fx.graph``: the names of graphs, which are not here."""

from . import CodeGen as CodeGen
from . import Graph as Graph
