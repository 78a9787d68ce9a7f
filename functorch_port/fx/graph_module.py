"""``torch.fx.graph_module``: the names of modules made of graphs, which are not here."""

from . import GraphModule as GraphModule
