"""Transforms between kinds of images."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from functorch_port._tensor.tensor import Tensor
from functorch_port.vision._pillow import Image as Pillow
from functorch_port.vision.tv_tensors import Image, TVTensor, plain

from . import functional as F
from ._transform import Transform

__all__ = ["PILToTensor", "ToImage", "ToPILImage", "ToPureTensor", "ToTensor"]


class PILToTensor(Transform):
    """Convert a Pillow image to a tensor (C, H, W) of the same numbers.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.PILToTensor.html
    """

    _transformed_types = (Pillow.Image,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Tensor:
        """Change one input."""
        return F.pil_to_tensor(inpt)


class ToImage(Transform):
    """Convert a Pillow image, a numpy array (H, W, C) or a tensor to a `tv_tensors.Image`; the numbers stay.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.ToImage.html
    """

    _transformed_types = (F.is_pure_tensor, Pillow.Image, np.ndarray)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Image:
        """Change one input."""
        return F.to_image(inpt)


class ToPILImage(Transform):
    """Convert a tensor (C, H, W) or a numpy array (H, W, C) to a Pillow image.

    Args:
        mode: Pillow's mode. Default: by the number of channels and the dtype.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.ToPILImage.html
    """

    _transformed_types = (F.is_pure_tensor, Image, np.ndarray)

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return F.to_pil_image(inpt, self.mode)


class ToPureTensor(Transform):
    """Convert what `tv_tensors` has to ordinary tensors.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.ToPureTensor.html
    """

    _transformed_types = (TVTensor,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Tensor:
        """Change one input."""
        return plain(inpt)


class ToTensor(Transform):
    """Convert a Pillow image or a numpy array (H, W, C) to a tensor of floats from 0 to 1. Deprecated.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.ToTensor.html
    """

    _transformed_types = (Pillow.Image, np.ndarray)

    def __init__(self) -> None:
        super().__init__()
        warnings.warn(
            "The transform `ToTensor()` is deprecated and will be removed in a future release. Instead, please use "
            "`v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])`.",
            stacklevel=2,
        )

    def transform(self, inpt: Any, params: dict[str, Any]) -> Tensor:
        """Change one input."""
        return F.to_tensor(inpt)
