"""``torch.utils.tensorboard``: files for TensorBoard (``pip install 'functorch_port[tensorboard]'``)."""

from __future__ import annotations

from ._writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
