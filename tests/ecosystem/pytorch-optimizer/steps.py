"""Eleven optimizers, compiled but for MADGRAD, which branches on values.

Not SOAP: which basis of a null space it takes depends on the last bit, in PyTorch too.
"""

import pytorch_optimizer as library
from compiled_steps import report_optimizers

NAMES = (
    "AdEMAMix", "AdaBelief", "Adan", "CAME", "Grams", "Lamb", "Lion", "MADGRAD", "ScheduleFreeAdamW",
    "StableAdamW", "Tiger",
)  # fmt: skip
report_optimizers({n: lambda p, n=n: getattr(library, n)(p, lr=1e-2) for n in NAMES}, eager={"MADGRAD"})
