"""Transforms of values: dtypes, normalization, blur, noise, boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.vision._pillow import Image as Pillow
from functorch_port.vision.transforms import _containers, _photometric
from functorch_port.vision.transforms._draws import uniform
from functorch_port.vision.tv_tensors import BoundingBoxes, Image, format_of, plain, wrap

from . import functional as F
from ._transform import Transform, has_any

__all__ = [
    "ClampBoundingBoxes", "ConvertBoundingBoxFormat", "ConvertImageDtype", "GaussianBlur", "GaussianNoise", "Identity",
    "Lambda", "LinearTransformation", "Normalize", "ToDtype",
]  # fmt: skip


class Identity(Transform):
    """Return the inputs.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.Identity.html
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Return the input."""
        return inpt


class Lambda(Transform):
    """A function as a transform.

    Args:
        lambd: a function of one input. To be sent to other processes it must be picklable, which a ``lambda`` is not.
        types: of the inputs that it changes. Default: all.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.Lambda.html
    """

    def __init__(self, lambd: Callable[[Any], Any], *types: type) -> None:
        super().__init__()
        self.lambd = lambd
        self.types = types or (object,)
        self._transformed_types = self.types

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self.lambd(inpt)

    def extra_repr(self) -> str:
        """The function and the types."""
        name = getattr(self.lambd, "__name__", "")
        parts = ([name] if name else []) + [f"types={[t.__name__ for t in self.types]}"]
        return ", ".join(parts)


class LinearTransformation(Transform):
    """Subtract a mean from a flattened tensor, and multiply it with a matrix, as in whitening.

    Args:
        transformation_matrix: (D, D), where D is C * H * W.
        mean_vector: (D,).

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.LinearTransformation.html
    """

    _transformed_types = (F.is_pure_tensor, Image)

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        super().__init__()
        self._linear = _containers.LinearTransformation(transformation_matrix, mean_vector).forward

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Refuse Pillow images."""
        if has_any(flat_inputs, Pillow.Image):
            raise TypeError(f"{type(self).__name__}() does not support PIL images.")

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        out = self._linear(plain(inpt))
        return wrap(out, like=inpt) if isinstance(inpt, Image) else out


class Normalize(Transform):
    """Subtract a mean from each channel of a float tensor, and divide it by a standard deviation.

    Args:
        mean, std: a number for each channel.
        inplace: whether to write the result to the tensor.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.Normalize.html
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean = list(mean)
        self.std = list(std)
        self.inplace = inplace

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Refuse Pillow images."""
        if has_any(flat_inputs, Pillow.Image):
            raise TypeError(f"{type(self).__name__}() does not support PIL images.")

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.normalize, inpt, self.mean, self.std, self.inplace)


class GaussianBlur(Transform):
    """Blur images by a random amount.

    Args:
        kernel_size: the width and the height of the average, odd numbers, or one for both.
        sigma: the range of the standard deviation, or one number.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.GaussianBlur.html
    """

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        checked = _photometric.GaussianBlur(kernel_size, sigma)
        self.kernel_size = checked.kernel_size
        self.sigma = [float(s) for s in checked.sigma]

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the standard deviation."""
        sigma = uniform(*self.sigma)
        return {"sigma": [sigma, sigma]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.gaussian_blur, inpt, self.kernel_size, **params)


class GaussianNoise(Transform):
    """Add normal noise to images of floats.

    Args:
        mean, sigma: of the noise.
        clip: whether to cut the result to 0 to 1.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.GaussianNoise.html
    """

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        super().__init__()
        self.mean = mean
        self.sigma = sigma
        self.clip = clip

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.gaussian_noise, inpt, mean=self.mean, sigma=self.sigma, clip=self.clip)


class ToDtype(Transform):
    """Convert inputs to another dtype.

    Args:
        dtype: that of images; or a dict from kinds of inputs to dtypes, None to leave one as it is, with the key
            "others" for the kinds that it does not name.
        scale: whether to convert the values of images to the range of the dtype (a float's is 0 to 1).

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.ToDtype.html
    """

    _transformed_types = (Tensor,)

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        super().__init__()
        if not isinstance(dtype, dict | torch.dtype):
            raise ValueError(f"dtype must be a dict or a torch.dtype, got {type(dtype)} instead")
        self.dtype = dtype
        self.scale = scale

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        of_image = F.is_pure_tensor(inpt) or isinstance(inpt, Image)
        if not isinstance(self.dtype, dict):
            dtype = self.dtype if of_image else None
        elif type(inpt) in self.dtype:
            dtype = self.dtype[type(inpt)]
        elif "others" in self.dtype:
            dtype = self.dtype["others"]
        elif of_image and self.scale:
            raise ValueError(
                f"No dtype was specified for type {type(inpt)}. If you only need to convert the dtype of images or "
                "videos, you can just pass e.g. dtype=torch.float32. If you're passing a dict as dtype, you can use "
                '"others" as a catch-all key e.g. dtype={tv_tensors.Mask: torch.int64, "others": None} to '
                "pass-through the rest of the inputs."
            )
        else:
            dtype = None
        return inpt if dtype is None else F.to_dtype(inpt, dtype=dtype, scale=self.scale)


class ConvertImageDtype(Transform):
    """Convert images to another dtype, and their values to its range; the numbers of masks and boxes stay.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.ConvertImageDtype.html
    """

    _transformed_types = (Tensor,)

    def __init__(self, dtype: Any = torch.float32) -> None:
        super().__init__()
        self.dtype = dtype

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return F.to_dtype(inpt, dtype=self.dtype, scale=True)


class ConvertBoundingBoxFormat(Transform):
    """Convert boxes to another format.

    Args:
        format: a `BoundingBoxFormat`, or its name.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.ConvertBoundingBoxFormat.html
    """

    _transformed_types = (BoundingBoxes,)

    def __init__(self, format: Any) -> None:
        super().__init__()
        format_of(format)  # checks it
        self.format = format

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return F.convert_bounding_box_format(inpt, new_format=self.format)


class ClampBoundingBoxes(Transform):
    """Cut boxes at the border of their image.

    Args:
        clamping_mode: "soft" and "hard" cut, None does not; "auto" does what the boxes say.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.ClampBoundingBoxes.html
    """

    _transformed_types = (BoundingBoxes,)

    def __init__(self, clamping_mode: str | None = "auto") -> None:
        super().__init__()
        self.clamping_mode = clamping_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return F.clamp_bounding_boxes(inpt, clamping_mode=self.clamping_mode)
