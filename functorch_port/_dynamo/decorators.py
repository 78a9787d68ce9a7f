"""``torch._dynamo.decorators``."""

from . import allow_in_graph as allow_in_graph
from . import disable as disable
from . import disallow_in_graph as disallow_in_graph
from . import graph_break as graph_break
from . import mark_dynamic as mark_dynamic
from . import mark_static as mark_static
from . import mark_static_address as mark_static_address
from . import maybe_mark_dynamic as maybe_mark_dynamic
