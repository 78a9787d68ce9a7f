"""``torchvision.transforms.v2.functional``: functions of images, masks and boxes.

Images are changed by the functions of `transforms.functional`; here are those for the other kinds (`_kinds`, `_boxes`).
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.vision._pillow import Image as _Pillow
from functorch_port.vision._refused import refusing as _refusing
from functorch_port.vision.transforms import _functional_colors, _functional_tensor, _tensor_color
from functorch_port.vision.transforms import functional as _F
from functorch_port.vision.transforms._modes import InterpolationMode
from functorch_port.vision.tv_tensors import BoundingBoxes, Image, Mask, TVTensor, plain

from . import _boxes
from ._boxes import clamp_bounding_boxes, convert_bounding_box_format
from ._kinds import any_kind, is_pure_tensor, register_kernel

_NEAREST = InterpolationMode.NEAREST
pil_to_tensor = _F.pil_to_tensor


def _resize(
    inpt: Any,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    return _F.resize(inpt, size, interpolation, max_size, antialias, _v2=True)


def _resize_mask(
    inpt: Tensor, size: Any, interpolation: Any = None, max_size: int | None = None, antialias: Any = None
) -> Tensor:
    return _F.resize(inpt, size, _NEAREST, max_size, False)


def _resized_crop(
    inpt: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    return _F.resized_crop(inpt, top, left, height, width, size, interpolation, antialias, _v2=True)


def _resized_crop_mask(
    inpt: Tensor, top: int, left: int, height: int, width: int, size: Any, *_: Any, **__: Any
) -> Tensor:
    return _F.resized_crop(inpt, top, left, height, width, size, _NEAREST, False)


def _pad(inpt: Any, padding: Any, fill: Any = None, padding_mode: str = "constant") -> Any:
    return _F.pad(inpt, padding, fill, padding_mode)


def _normalize(inpt: Any, mean: Any, std: Any, inplace: bool = False) -> Any:
    if not isinstance(inpt, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(inpt)}")
    return _functional_tensor.normalize(inpt, mean, std, inplace, v2=True)


def _with_nearest(fn: Any) -> Any:
    """A function of an image as one of masks, whose classes cannot be averaged."""

    signature = inspect.signature(fn)

    def call(inpt: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        bound = signature.bind(inpt, *args, **kwargs)
        bound.arguments["interpolation"] = _NEAREST
        return fn(*bound.args, **bound.kwargs)

    return call


def _of_any_channels(fn: Any) -> Any:
    """A function that changes each channel by itself, which v1 does to 1 or 3, as one of any number of them."""

    @functools.wraps(fn)
    def call(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(inpt, Tensor) or (inpt.ndim > 2 and inpt.shape[-3] in (1, 3)):
            return fn(inpt, *args, **kwargs)
        return fn(inpt.unsqueeze(-3), *args, **kwargs).squeeze(-3)

    return call


resize = any_kind(_resize, _resize_mask, _boxes.resize, name="resize")
resized_crop = any_kind(_resized_crop, _resized_crop_mask, _boxes.resized_crop, name="resized_crop")
pad = any_kind(_pad, _pad, _boxes.pad, name="pad")
crop = any_kind(_F.crop, _F.crop, _boxes.crop)
center_crop = any_kind(_F.center_crop, _F.center_crop, _boxes.center_crop)
horizontal_flip = any_kind(_F.hflip, _F.hflip, _boxes.horizontal_flip, name="horizontal_flip")
vertical_flip = any_kind(_F.vflip, _F.vflip, _boxes.vertical_flip, name="vertical_flip")
hflip, vflip = horizontal_flip, vertical_flip
rotate = any_kind(_F.rotate, _with_nearest(_F.rotate), _boxes.rotate)
affine = any_kind(_F.affine, _with_nearest(_F.affine), _boxes.affine)
perspective = any_kind(_F.perspective, _with_nearest(_F.perspective), _boxes.perspective)
elastic = any_kind(_F.elastic_transform, _with_nearest(_F.elastic_transform), _boxes.elastic, name="elastic")
elastic_transform = elastic
five_crop = any_kind(_F.five_crop)
ten_crop = any_kind(_F.ten_crop)

adjust_brightness = any_kind(_F.adjust_brightness, colors=True)
adjust_hue = any_kind(_F.adjust_hue, colors=True)
adjust_gamma = any_kind(_of_any_channels(_F.adjust_gamma), colors=True)
invert = any_kind(_of_any_channels(_F.invert), colors=True)
solarize = any_kind(_of_any_channels(_F.solarize), colors=True)
gaussian_blur = any_kind(_F.gaussian_blur, colors=True)
permute_channels = any_kind(_functional_colors.permute_channels, colors=True)
normalize = any_kind(_normalize, colors=True, name="normalize")


def _adjust_contrast(inpt: Any, contrast_factor: float) -> Any:
    if isinstance(inpt, Tensor):
        return _functional_tensor.adjust_contrast(inpt, contrast_factor, v2=True)
    return _F.adjust_contrast(inpt, contrast_factor)


def _adjust_saturation(inpt: Any, saturation_factor: float) -> Any:
    if isinstance(inpt, Tensor):
        return _functional_tensor.adjust_saturation(inpt, saturation_factor, v2=True)
    return _F.adjust_saturation(inpt, saturation_factor)


def _adjust_sharpness(inpt: Any, sharpness_factor: float) -> Any:
    if isinstance(inpt, Tensor):
        return _functional_tensor.adjust_sharpness(inpt, sharpness_factor, v2=True)
    return _F.adjust_sharpness(inpt, sharpness_factor)


def _autocontrast(inpt: Any) -> Any:
    if isinstance(inpt, Tensor):
        return _functional_tensor.autocontrast(inpt, v2=True)
    return _F.autocontrast(inpt)


def _rgb_to_grayscale(inpt: Any, num_output_channels: int = 1) -> Any:
    if isinstance(inpt, Tensor) and num_output_channels in (1, 3):
        return _functional_tensor.rgb_to_grayscale(inpt, num_output_channels, v2=True)
    return _F.rgb_to_grayscale(inpt, num_output_channels)


def _erase(inpt: Any, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Any:
    if isinstance(inpt, Tensor):
        return _F.erase(inpt, i, j, h, w, v, inplace)
    return _F.to_pil_image(_F.erase(pil_to_tensor(inpt), i, j, h, w, v), mode=inpt.mode)


@_of_any_channels
def _equalize(inpt: Any) -> Any:
    if isinstance(inpt, Tensor) and inpt.dtype != torch.uint8:
        return _F.convert_image_dtype(_F.equalize(_F.convert_image_dtype(inpt, torch.uint8)), inpt.dtype)
    return _F.equalize(inpt)


def _posterize(inpt: Any, bits: int) -> Any:
    if not isinstance(inpt, Tensor):
        return _F.posterize(inpt, bits)
    if not isinstance(bits, int) or not 0 <= bits <= 8:
        raise TypeError(f"bits must be a positive integer in the range [0, 8], got {bits} instead.")
    of_tensor = _tensor_color.posterize_floats if inpt.is_floating_point() else _tensor_color.posterize
    return of_tensor(inpt, bits)


def _grayscale_to_rgb(inpt: Any) -> Any:
    """Three equal channels, of an image that has one."""
    if not isinstance(inpt, Tensor):
        return inpt.convert("RGB")
    return inpt if _F.get_image_num_channels(inpt) >= 3 else _F.rgb_to_grayscale(inpt, 3)


def _to_dtype(inpt: Tensor, dtype: Any = torch.float32, scale: bool = False) -> Tensor:
    return _functional_tensor.convert_image_dtype(inpt, dtype, v2=True) if scale else inpt.to(dtype)


def _unscaled_to_dtype(inpt: Tensor, dtype: Any = torch.float32, scale: bool = False) -> Tensor:
    return inpt.to(dtype)


def _gaussian_noise(inpt: Tensor, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> Tensor:
    if not isinstance(inpt, Tensor):
        raise ValueError("Gaussian Noise is not implemented for PIL images.")
    if sigma < 0:
        raise ValueError(f"sigma shouldn't be negative. Got {sigma}")
    if not inpt.is_floating_point():
        raise NotImplementedError(
            f"gaussian_noise of {inpt.dtype}: convert to floats before, with to_dtype(scale=True)"
        )
    noisy = inpt + (mean + torch.randn_like(inpt) * sigma)
    return noisy.clamp(0, 1) if clip else noisy


adjust_contrast = any_kind(_adjust_contrast, colors=True, name="adjust_contrast")
adjust_saturation = any_kind(_adjust_saturation, colors=True, name="adjust_saturation")
adjust_sharpness = any_kind(_adjust_sharpness, colors=True, name="adjust_sharpness")
autocontrast = any_kind(_autocontrast, colors=True, name="autocontrast")
rgb_to_grayscale = any_kind(_rgb_to_grayscale, colors=True, name="rgb_to_grayscale")
to_grayscale = rgb_to_grayscale
erase = any_kind(_erase, colors=True, name="erase")
equalize = any_kind(_equalize, colors=True, name="equalize")
posterize = any_kind(_posterize, colors=True, name="posterize")
grayscale_to_rgb = any_kind(_grayscale_to_rgb, colors=True, name="grayscale_to_rgb")
to_dtype = any_kind(_to_dtype, _unscaled_to_dtype, _unscaled_to_dtype, colors=True, name="to_dtype")
gaussian_noise = any_kind(_gaussian_noise, colors=True, name="gaussian_noise")


def convert_image_dtype(image: Tensor, dtype: Any = torch.float32) -> Tensor:
    """`to_dtype` with ``scale=True``."""
    return to_dtype(image, dtype=dtype, scale=True)


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """As `transforms.functional.to_pil_image`."""
    return _F.to_pil_image(plain(pic), mode)


def to_image(inpt: Any) -> Image:
    """Convert a Pillow image, a numpy array (H, W, C) or a tensor (C, H, W) to a `tv_tensors.Image`.

    Raises:
        TypeError: it is none of these.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.functional.to_image.html
    """
    if isinstance(inpt, np.ndarray):
        array = inpt[:, :, None] if inpt.ndim < 3 else inpt
        return Image(torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1))))
    if isinstance(inpt, _Pillow.Image):
        return Image(pil_to_tensor(inpt))
    if isinstance(inpt, Tensor):
        return Image(inpt)
    raise TypeError(
        f"Input can either be a pure Tensor, a numpy array, or a PIL image, but got {type(inpt)} instead."
    )


def to_tensor(inpt: Any) -> Tensor:
    """As `transforms.functional.to_tensor`. torchvision advises `to_image` and `to_dtype` in its place."""
    return _F.to_tensor(inpt)


def get_size(inpt: Any) -> list[int]:
    """The height and the width of an image or masks, or of the image of boxes."""
    if isinstance(inpt, BoundingBoxes):
        return list(inpt.canvas_size)
    return _F.get_dimensions(plain(inpt))[1:]


def get_dimensions(inpt: Any) -> list[int]:
    """The number of channels, the height and the width of an image."""
    return _F.get_dimensions(plain(inpt))


def get_num_channels(inpt: Any) -> int:
    """The number of channels of an image."""
    return get_dimensions(inpt)[0]


get_image_num_channels = get_num_channels


def get_image_size(inpt: Any) -> list[int]:
    """The width and the height of an image."""
    return get_size(inpt)[::-1]


__all__ = [
    "InterpolationMode", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation",
    "adjust_sharpness", "affine", "autocontrast", "center_crop", "clamp_bounding_boxes", "convert_bounding_box_format",
    "convert_image_dtype", "crop", "elastic", "elastic_transform", "equalize", "erase", "five_crop", "gaussian_blur",
    "gaussian_noise", "get_dimensions", "get_image_num_channels", "get_image_size", "get_num_channels", "get_size",
    "grayscale_to_rgb", "hflip", "horizontal_flip", "invert", "is_pure_tensor", "normalize", "pad", "permute_channels",
    "perspective", "pil_to_tensor", "posterize", "register_kernel", "resize", "resized_crop", "rgb_to_grayscale",
    "rotate", "solarize", "ten_crop", "to_dtype", "to_grayscale", "to_image", "to_pil_image", "to_tensor",
    "vertical_flip", "vflip",
]  # fmt: skip

_NOT_HERE = """get_num_frames jpeg sanitize_bounding_boxes sanitize_keypoints uniform_temporal_subsample clamp_keypoints
get_num_frames_video jpeg_image jpeg_video uniform_temporal_subsample_video"""
_REFUSED = [
    f"{name}_{kind}"
    for name in __all__
    for kind in ("bounding_boxes", "image", "keypoints", "mask", "video")
    if f"{name}_{kind}" not in __all__
]
__getattr__ = _refusing(
    __name__,
    [*_REFUSED, *_NOT_HERE.split()],
    "the functions without a kind in their names, such as functional.resize, take images, masks and boxes",
)
