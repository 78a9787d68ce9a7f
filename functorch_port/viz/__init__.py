"""Pictures: of autograd graphs (`make_dot`, as torchviz), compiled programs (`program`), models and training.

The graphs are `graphviz.Digraph` objects. To see one as an image needs Graphviz's program ``dot``
(``apt install graphviz``, ``brew install graphviz``, ``conda install graphviz``); ``.source`` is there without it.
"""

from __future__ import annotations

from . import dot as dot
from ._history import plot_history
from ._landscape import loss_landscape
from ._program import program
from ._summary import Layer, Summary, summary
from .dot import make_dot, make_dot_from_trace

__all__ = [
    "Layer",
    "Summary",
    "dot",
    "loss_landscape",
    "make_dot",
    "make_dot_from_trace",
    "plot_history",
    "program",
    "summary",
]
