"""Between Pillow images, numpy arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.vision._pillow import Image

from ._kernel import fresh
from ._tensor_color import is_float

__all__ = ["pil_to_tensor", "to_pil_image", "to_tensor"]

#: what the modes of more than 8 bits are in numpy; all others are bytes
_WIDE = {"I": np.int32, "I;16": np.int16, "F": np.float32}


def to_tensor(pic: Any) -> Tensor:
    """Convert a Pillow image or a numpy array (H, W, C) to a tensor (C, H, W); bytes become floats from 0 to 1.

    Raises:
        TypeError: it is neither of the two.
        ValueError: the array has not 2 or 3 dimensions.

    Example:
        >>> import numpy as np
        >>> from functorch_port.vision.transforms.functional import to_tensor
        >>> to_tensor(np.array([[0, 51]], np.uint8))
        tensor([[[0.0000, 0.2000]]])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.functional.to_tensor.html
    """
    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        array = pic[:, :, None] if pic.ndim == 2 else pic
    elif isinstance(pic, Image.Image):
        array = _pixels(pic, _WIDE.get(pic.mode, np.uint8))
        if pic.mode == "1":
            array = np.uint8(255) * array
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    planes = array.transpose(2, 0, 1)
    if planes.dtype != np.uint8:
        return fresh(planes.copy("C"))
    real = torch.get_default_dtype().np
    return fresh(np.divide(planes, real.type(255), dtype=real, order="C"))


def _pixels(pic: Any, dtype: Any = None) -> np.ndarray:
    """Those of a Pillow image (H, W, C)."""
    array = np.array(pic, dtype)
    return array[:, :, None] if array.ndim == 2 else array


def pil_to_tensor(pic: Any) -> Tensor:
    """Convert a Pillow image to a tensor (C, H, W) of the same numbers.

    Raises:
        TypeError: it is no Pillow image.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.functional.pil_to_tensor.html
    """
    if not isinstance(pic, Image.Image):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    return fresh(_pixels(pic).transpose(2, 0, 1).copy("C"))


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """Convert a tensor (C, H, W) or (H, W), or a numpy array (H, W, C) or (H, W), to a Pillow image.

    Args:
        pic: floats from 0 to 1 become bytes.
        mode: Pillow's mode. Default: by the number of channels, L, LA, RGB or RGBA, and by the dtype.

    Raises:
        TypeError: it is neither of the two, or there is no such image.
        ValueError: it has not 2 or 3 dimensions, or more than 4 channels, or the mode does not fit.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.functional.to_pil_image.html
    """
    if not isinstance(pic, Tensor | np.ndarray):
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    if pic.ndim not in (2, 3):
        raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
    array = pic if isinstance(pic, np.ndarray) else np.asarray(pic.detach().cpu())
    if is_float(array.dtype) and mode != "F":
        array = (array * array.dtype.type(255)).astype(np.int32).astype(np.uint8)
    if array.ndim == 2:
        array = array[:, :, None]
    elif isinstance(pic, Tensor):
        array = array.transpose(1, 2, 0)
    return _image_of(array, mode)


#: for one channel the mode of each dtype; for several of bytes the modes that are allowed, the default first
_SINGLE = {"uint8": "L", "int16": "I;16", "int32": "I", "float32": "F"}
_SEVERAL = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}


def _image_of(array: np.ndarray, mode: str | None) -> Any:
    channels = array.shape[2]
    if channels > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {channels} channels.")
    if channels == 1:
        expected = _SINGLE.get(str(array.dtype))
        if mode is not None and mode != expected:
            raise ValueError(
                f"Incorrect mode ({mode}) supplied for input type {array.dtype.type}. Should be {expected}"
            )
        array = array[:, :, 0]
        modes: tuple[str, ...] = () if expected is None else (expected,)
    else:
        modes = _SEVERAL[channels]
        if mode is not None and mode not in modes:
            raise ValueError(f"Only modes {[*modes]} are supported for {channels} channel inputs")
        if array.dtype != np.uint8:
            modes = ()
    if not modes:
        raise TypeError(f"Input type {array.dtype} is not supported")
    mode = mode or modes[0]
    array = np.ascontiguousarray(array)
    if array.ndim == 2:
        return Image.fromarray(array.astype(np.uint16) if mode == "I;16" else array)
    size = (array.shape[1], array.shape[0])
    return Image.frombuffer(mode, size, array.tobytes(), "raw", mode, 0, 1)
