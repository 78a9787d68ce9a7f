"""Twelve optimizers, compiled but for those that branch on values."""

import torch_optimizer as library
from compiled_steps import report_optimizers

NAMES = (
    "AdaBound", "AdaMod", "AggMo", "Apollo", "DiffGrad", "Lamb", "NovoGrad", "QHM", "SWATS", "Shampoo", "Yogi",
)  # fmt: skip
report_optimizers(
    {n: getattr(library, n) for n in NAMES} | {"Lookahead": lambda p: library.Lookahead(library.Yogi(p))},
    eager={"Lamb", "NovoGrad", "SWATS"},
)
