"""AdamW, SGD and RAdam without a schedule, compiled."""

import schedulefree
from compiled_steps import report_optimizers

NAMES = ("AdamWScheduleFree", "SGDScheduleFree", "RAdamScheduleFree")
report_optimizers({n: lambda p, n=n: getattr(schedulefree, n)(p, lr=1e-2) for n in NAMES})
