"""The real torchvision, to compare with: `from real_torchvision import torchvision`.

Its wheel has C++ operators for PyTorch with CUDA, which PyTorch for a CPU cannot load; then the import fails where it
describes these operators. Declared before, they exist without a kernel, and all that is Python works.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

_BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def _declare() -> None:
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None and spec.origin is not None
    try:
        torch.ops.load_library(Path(spec.origin).with_name("_C.so"))
    except OSError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", _BOXES)


_declare()

import torchvision  # noqa: E402

__all__ = ["torchvision"]
