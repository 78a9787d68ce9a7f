"""Prodigy, which branches on values, so it runs eagerly."""

from compiled_steps import report_optimizers
from prodigyopt import Prodigy

report_optimizers({"Prodigy": Prodigy}, eager={"Prodigy"})
