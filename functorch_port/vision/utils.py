"""``torchvision.utils``: pictures of batches, and of what a model finds in an image."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import functorch_port as torch
from functorch_port._base.atomic import atomic
from functorch_port._tensor.tensor import Tensor

from ._pillow import Image, ImageColor, ImageDraw, ImageFont
from ._refused import refusing as _refusing

__all__ = ["draw_bounding_boxes", "draw_segmentation_masks", "make_grid", "save_image"]


def _array(tensor: Any) -> np.ndarray:
    """The values, without the history: pictures have no gradients."""
    return np.asarray(tensor.detach().cpu())


def make_grid(
    tensor: Tensor | Sequence[Tensor],
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Put images side by side into one.

    Args:
        tensor: a batch (N, C, H, W), one image, or images of the same size.
        nrow: the number of images in a row.
        padding: pixels around each image.
        normalize: whether to move the values to the range from 0 to 1.
        value_range: what becomes 0 and 1. Default: the least and the largest value.
        scale_each: whether to do so for each image by itself.
        pad_value: the value of the pixels between images.

    Returns:
        The image (3, H, W), or (C, H, W) if there are not 1 or 3 channels.

    Raises:
        TypeError: it is no tensor, and no list of tensors.
        RuntimeError: images of integers are to be normalized.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.utils import make_grid
        >>> make_grid(torch.rand(6, 1, 28, 28), nrow=3).shape
        torch.Size([3, 62, 92])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.utils.make_grid.html
    """
    images = _batch(tensor)
    if normalize:
        if value_range is not None and not isinstance(value_range, tuple):
            raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")
        if images.dtype.kind in "biu":
            raise RuntimeError(
                f"make_grid(normalize=True) takes images of floats, not of {images.dtype}, which hold nothing "
                "between 0 and 1: call .float() on them"
            )
        parts = images if scale_each else [images]
        images = np.stack([_to_unit(part, value_range) for part in parts])
        images = images if scale_each else images[0]
    if len(images) == 1:
        return torch.from_numpy(images[0].copy())
    columns = min(nrow, len(images))
    rows = math.ceil(len(images) / columns)
    count, channels, height, width = images.shape
    height, width = height + padding, width + padding
    grid = np.full((channels, height * rows + padding, width * columns + padding), pad_value, images.dtype)
    for k in range(count):
        top, left = (k // columns) * height + padding, (k % columns) * width + padding
        grid[:, top : top + height - padding, left : left + width - padding] = images[k]
    return torch.from_numpy(grid)


def _batch(tensor: Any) -> np.ndarray:
    """The images (N, C, H, W); those of one channel get three."""
    if isinstance(tensor, Tensor):
        images = _array(tensor)
    elif isinstance(tensor, list | tuple):
        for part in tensor:
            if not isinstance(part, Tensor):
                raise TypeError(f"tensor or list of tensors expected, got a list containing {type(part)}")
        images = np.stack([_array(part) for part in tensor])
    else:
        raise TypeError(f"tensor or list of tensors expected, got {type(tensor)}")
    if images.ndim == 2:
        images = images[None]
    if images.ndim == 3:
        images = images[None]
    if images.ndim != 4:
        raise ValueError(
            f"expected a batch (N, C, H, W), one image or a list of images, got {images.ndim} dimensions"
        )
    return np.repeat(images, 3, 1) if images.shape[1] == 1 else images


def _to_unit(x: np.ndarray, value_range: tuple[float, float] | None) -> np.ndarray:
    low, high = (float(x.min()), float(x.max())) if value_range is None else value_range
    real = x.dtype.type
    return (np.clip(x, real(low), real(high)) - real(low)) / real(max(high - low, 1e-5))


def save_image(
    tensor: Tensor | Sequence[Tensor], fp: str | Path | Any, format: str | None = None, **kwargs: Any
) -> None:
    """Write an image, or a grid of several, to a file. Values from 0 to 1 become bytes.

    Args:
        tensor: a batch (N, C, H, W), one image, or images of the same size.
        fp: the path of the file, which is replaced only when the new one is complete; or an open file.
        format: Pillow's name of the format. Default: by the path.
        kwargs: of `make_grid`.

    Raises:
        ValueError: the path tells no format that Pillow can write.
        FileNotFoundError: there is no such folder.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.utils.save_image.html
    """
    grid = _array(make_grid(tensor, **kwargs))
    pixels = np.clip(grid * grid.dtype.type(255) + grid.dtype.type(0.5), 0, 255).astype(np.uint8)
    image = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    if not isinstance(fp, str | os.PathLike):
        image.save(fp, format=format)
        return
    path = os.path.abspath(fp)
    if format is None:
        extension = os.path.splitext(path)[1].lower()
        format = Image.registered_extensions().get(extension)
        if format is None:
            raise ValueError(f"unknown file extension: {extension}")
    if not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(f"[Errno 2] No such file or directory: {os.fspath(fp)!r}")
    with atomic(path) as file:
        image.save(file, format=format)


def _palette(count: int) -> list[tuple[int, ...]]:
    """Colors that differ."""
    steps = (2**25 - 1, 2**15 - 1, 2**21 - 1)
    return [tuple(i * step % 255 for step in steps) for i in range(count)]


def _colors(colors: Any, count: int) -> list[Any]:
    """A color for each of ``count`` objects, as tuples of bytes."""
    if colors is None:
        return _palette(count)
    if isinstance(colors, list):
        if len(colors) < count:
            raise ValueError(
                f"Number of colors must be equal or larger than the number of objects, but got {len(colors)} < {count}."
            )
        listed = colors[:count]
    elif isinstance(colors, tuple | str):
        listed = [colors] * count
    else:
        raise ValueError("`colors` must be a tuple or a string, or a list thereof")
    return [ImageColor.getrgb(color) if isinstance(color, str) else color for color in listed]


def _check_image(image: Any) -> None:
    if not isinstance(image, Tensor):
        raise TypeError(f"Tensor expected, got {type(image)}")
    if not (image.dtype == torch.uint8 or image.is_floating_point()):
        raise ValueError(f"The image dtype must be uint8 or float, got {image.dtype}")
    if image.dim() != 3:
        raise ValueError("Pass individual images, not batches")


def draw_bounding_boxes(
    image: Tensor,
    boxes: Tensor,
    labels: list[str | None] | None = None,
    colors: Any = None,
    fill: bool | None = False,
    width: int = 1,
    font: str | None = None,
    font_size: int | None = None,
    label_colors: Any = None,
    label_background_colors: Any = None,
    fill_labels: bool = False,
) -> Tensor:
    """Draw boxes into a copy of an image.

    Args:
        image: (1, H, W) or (3, H, W), bytes or floats from 0 to 1.
        boxes: (N, 4): left, top, right and bottom in pixels.
        labels: a text for each box, or None for none.
        colors: one color or a list of them: names, or (r, g, b). Default: they differ.
        fill: whether to fill boxes with a color that is transparent.
        width: of the lines.
        font, font_size: the file of a TrueType font, and its size. Default: Pillow's own font.
        label_colors: as ``colors``, of the texts. Default: those of the boxes.
        label_background_colors, fill_labels: not supported.

    Raises:
        ValueError: the shapes do not fit, a box has a corner on the wrong side, or there are too few labels or colors.
        NotImplementedError: the texts are to get a background.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.utils.draw_bounding_boxes.html
    """
    _check_image(image)
    if label_background_colors is not None or fill_labels:
        raise NotImplementedError("draw_bounding_boxes draws texts without a background: leave out "
                                  "label_background_colors and fill_labels")  # fmt: skip
    if image.shape[0] not in (1, 3):
        raise ValueError("Only grayscale and RGB images are supported")
    corners = _array(boxes)
    if len(corners) == 0:
        warnings.warn("boxes doesn't contain any box. No box was drawn", stacklevel=2)
        return image
    if corners.ndim != 2 or corners.shape[1] != 4:
        raise ValueError(f"boxes need the shape (N, 4), got {tuple(corners.shape)}")
    if (corners[:, 0] > corners[:, 2]).any() or (corners[:, 1] > corners[:, 3]).any():
        raise ValueError(
            "Boxes need to be in (xmin, ymin, xmax, ymax) format. Use torchvision.ops.box_convert to convert them"
        )
    if labels is not None and len(labels) != len(corners):
        raise ValueError(
            f"Number of boxes ({len(corners)}) and labels ({len(labels)}) mismatch. Please specify labels for each box."
        )
    lines = _colors(colors, len(corners))
    texts = lines if label_colors is None else _colors(label_colors, len(corners))
    picture = Image.fromarray(_bytes(image).transpose(1, 2, 0))
    draw = ImageDraw.Draw(picture, "RGBA" if fill else None)
    letters = _font(font, font_size)
    for box, label, line, text in zip(
        corners.astype(np.int64).tolist(), labels or [None] * len(lines), lines, texts
    ):
        draw.rectangle(box, width=width, outline=line, fill=(*line, 100) if fill else None)
        if label is not None:
            draw.text((box[0] + width + 1, box[1] + width + 1), label, fill=text, font=letters)
    drawn = torch.from_numpy(np.ascontiguousarray(np.array(picture).transpose(2, 0, 1)))
    return drawn.to(image.dtype) * (1 / 255) if image.is_floating_point() else drawn


def _font(font: str | None, size: int | None) -> Any:
    if font is None:
        if size is not None:
            warnings.warn("Argument 'font_size' will be ignored since 'font' is not set.", stacklevel=3)
        return ImageFont.load_default()
    return ImageFont.truetype(font=font, size=size or 10)


def _bytes(image: Tensor) -> np.ndarray:
    """An image in RGB, as bytes."""
    array = _array(image)
    if array.dtype != np.uint8:
        array = (np.clip(array, 0, 1) * array.dtype.type(256 - 1e-3)).astype(np.uint8)
    return np.repeat(array, 3, 0) if array.shape[0] == 1 else array


def draw_segmentation_masks(image: Tensor, masks: Tensor, alpha: float = 0.8, colors: Any = None) -> Tensor:
    """Color what masks cover, in a copy of an image. Where masks overlap it gets black.

    Args:
        image: (3, H, W), bytes or floats from 0 to 1.
        masks: booleans (N, H, W) or (H, W).
        alpha: 1 hides the image, 0 the masks.
        colors: one color or a list of them: names, or (r, g, b). Default: they differ.

    Raises:
        ValueError: the shapes or the dtype do not fit, or there are too few colors.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.utils.draw_segmentation_masks.html
    """
    _check_image(image)
    if image.shape[0] != 3:
        raise ValueError("Pass an RGB image. Other Image formats are not supported")
    shapes = _array(masks)
    shapes = shapes[None] if shapes.ndim == 2 else shapes
    if shapes.ndim != 3:
        raise ValueError("masks must be of shape (H, W) or (batch_size, H, W)")
    if shapes.dtype != np.bool_:
        raise ValueError(f"The masks must be of dtype bool. Got {masks.dtype}")
    if shapes.shape[-2:] != tuple(image.shape[-2:]):
        raise ValueError("The image and the masks must have the same height and width")
    if len(shapes) == 0:
        warnings.warn("masks doesn't contain any mask. No mask was drawn", stacklevel=2)
        return image
    array = _array(image)
    real = np.float32 if array.dtype == np.uint8 else array.dtype.type
    painted = array.copy()
    for mask, color in zip(shapes, _colors(colors, len(shapes))):
        value = np.array(color, np.uint8)
        painted[:, mask] = (value if array.dtype == np.uint8 else value.astype(real) / real(255))[:, None]
    painted[:, shapes.sum(0) > 1] = 0  # as in torchvision, where masks overlap
    mixed = array.astype(real) * real(1 - alpha) + painted.astype(real) * real(alpha)
    return torch.from_numpy(mixed.astype(array.dtype))


__getattr__ = _refusing(
    __name__,
    ("draw_keypoints", "flow_to_image"),
    "matplotlib, or Pillow's ImageDraw on transforms.ToPILImage()(image)",
)
