"""``torch.fx.interpreter``: the names of interpreters of graphs, which are not here."""

from . import Interpreter as Interpreter
from . import Transformer as Transformer
