"""``torch.utils.dlpack``: tensors from and to other libraries that know DLPack."""

from __future__ import annotations

import enum
from typing import Any

from .._tensor.creation import from_dlpack as from_dlpack
from .._tensor.tensor import Tensor

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """The numbers that DLPack has for kinds of devices."""

    kDLCPU, kDLCUDA, kDLCUDAHost = 1, 2, 3
    kDLOpenCL, kDLVulkan, kDLMetal, kDLVPI, kDLROCM, kDLROCMHost, kDLExtDev = 4, 7, 8, 9, 10, 11, 12
    kDLCUDAManaged, kDLOneAPI, kDLWebGPU, kDLHexagon, kDLMAIA = 13, 14, 15, 16, 17


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule for another library's ``from_dlpack``; better give it the tensor itself.

    Args:
        tensor: the tensor, without a gradient to be kept.

    Reference: https://docs.pytorch.org/docs/stable/dlpack.html
    """
    return tensor.__dlpack__()
