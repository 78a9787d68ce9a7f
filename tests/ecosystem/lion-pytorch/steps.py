"""Lion, compiled."""

from compiled_steps import report_optimizers
from lion_pytorch import Lion

report_optimizers({"Lion": lambda p: Lion(p, lr=1e-2, weight_decay=0.1)})
