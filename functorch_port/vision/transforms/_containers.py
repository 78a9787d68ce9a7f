"""Transforms made of others, and between kinds of images."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.nn import Module

from . import functional as F
from ._draws import refuse_in_trace, uniform

__all__ = [
    "Compose", "ConvertImageDtype", "Lambda", "LinearTransformation", "Normalize", "PILToTensor", "RandomApply",
    "RandomChoice", "RandomOrder", "ToPILImage", "ToTensor",
]  # fmt: skip


class Compose:
    """Transforms, one after the other.

    Args:
        transforms: functions of an image.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision import transforms
        >>> crop = transforms.Compose([transforms.CenterCrop(4), transforms.Normalize((0.5,), (0.5,))])
        >>> crop(torch.ones(1, 6, 6)).shape
        torch.Size([1, 4, 4])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Compose.html
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _listed(self, self.transforms)


def _listed(self: Any, transforms: Any, *more: str) -> str:
    return "\n".join([f"{type(self).__name__}(", *more, *(f"    {t}" for t in transforms), ")"])


class ToTensor:
    """Convert a Pillow image or a numpy array (H, W, C) to a tensor (C, H, W); bytes become floats from 0 to 1.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToTensor.html
    """

    def __call__(self, pic: Any) -> Tensor:
        return F.to_tensor(pic)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class PILToTensor:
    """Convert a Pillow image to a tensor (C, H, W) of the same numbers.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.PILToTensor.html
    """

    def __call__(self, pic: Any) -> Tensor:
        return F.pil_to_tensor(pic)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ConvertImageDtype(Module):
    """Convert a tensor to another dtype, and its values to that dtype's range.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ConvertImageDtype.html
    """

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Tensor) -> Tensor:
        return F.convert_image_dtype(image, self.dtype)


class ToPILImage:
    """Convert a tensor (C, H, W) or a numpy array (H, W, C) to a Pillow image.

    Args:
        mode: Pillow's mode. Default: by the number of channels and the dtype.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToPILImage.html
    """

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.mode is None else f'mode={self.mode}'})"


class Normalize(Module):
    """Subtract a mean from each channel of a float tensor, and divide it by a standard deviation.

    Args:
        mean, std: a number for each channel.
        inplace: whether to write the result to the tensor.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Normalize.html
    """

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        super().__init__()
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def forward(self, tensor: Tensor) -> Tensor:
        return F.normalize(tensor, self.mean, self.std, self.inplace)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mean={self.mean}, std={self.std})"


class Lambda:
    """A function as a transform. To be sent to other processes it must be picklable, which a ``lambda`` is not.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Lambda.html
    """

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class LinearTransformation(Module):
    """Subtract a mean from a flattened tensor, and multiply it with a matrix, as in whitening.

    Args:
        transformation_matrix: (D, D), where D is C * H * W.
        mean_vector: (D,).

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.LinearTransformation.html
    """

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        super().__init__()
        rows, columns = transformation_matrix.shape
        if rows != columns:
            raise ValueError(
                "transformation_matrix should be square. Got "
                f"{list(transformation_matrix.shape)} rectangular matrix."
            )
        if mean_vector.shape[0] != rows:
            raise ValueError(
                f"mean_vector should have the same length {mean_vector.shape[0]} as any one of the dimensions of the "
                f"transformation_matrix [{tuple(transformation_matrix.shape)}]"
            )
        self.transformation_matrix = transformation_matrix
        self.mean_vector = mean_vector

    def forward(self, tensor: Tensor) -> Tensor:
        planes, rows, columns = tensor.shape[-3:]
        size = planes * rows * columns
        if size != self.transformation_matrix.shape[0]:
            raise ValueError(
                "Input tensor and transformation matrix have incompatible shape."
                f"[{planes} x {rows} x {columns}] != {self.transformation_matrix.shape[0]}"
            )
        flat = tensor.reshape(-1, size) - self.mean_vector
        return torch.mm(flat, self.transformation_matrix).reshape(tensor.shape)


class _Several(Module):
    """Transforms of which something random is done."""

    def __init__(self, transforms: Any) -> None:
        super().__init__()
        if not isinstance(transforms, Sequence):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms


class RandomApply(Module):
    """Apply transforms, one after the other, with a probability.

    Args:
        transforms: a list, or an `nn.ModuleList`.
        p: the probability.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomApply.html
    """

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img: Any) -> Any:
        if self.p < uniform(0, 1):
            return img
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _listed(self, self.transforms, f"    p={self.p}")


class RandomOrder(_Several):
    """Apply transforms in an order from Python's ``random``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomOrder.html
    """

    def forward(self, img: Any) -> Any:
        refuse_in_trace()
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for i in order:
            img = self.transforms[i](img)
        return img

    def __repr__(self) -> str:
        return _listed(self, self.transforms)


class RandomChoice(_Several):
    """Apply one of several transforms, which Python's ``random`` chooses.

    Args:
        transforms: a list.
        p: the weight of each. Default: they are equal.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomChoice.html
    """

    def __init__(self, transforms: Any, p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        if p is not None and not isinstance(p, Sequence):
            raise TypeError("Argument p should be a sequence")
        self.p = p

    def forward(self, img: Any) -> Any:
        refuse_in_trace()
        return random.choices(self.transforms, weights=self.p)[0](img)

    def __repr__(self) -> str:
        return _listed(self, self.transforms) + f"(p={self.p})"
