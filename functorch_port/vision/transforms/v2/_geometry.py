"""Transforms that change the shape of images, or where their pixels are: masks and boxes with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functorch_port.vision.transforms import _geometric, _warping
from functorch_port.vision.transforms._draws import integer
from functorch_port.vision.transforms.functional import _four

from . import functional as F
from ._transform import (
    RandomApplyTransform,
    Transform,
    checked_fill,
    fill_for,
    no_masks_or_boxes,
    query_size,
    two_sizes,
)

__all__ = [
    "CenterCrop", "ElasticTransform", "FiveCrop", "Pad", "RandomAffine", "RandomCrop", "RandomHorizontalFlip",
    "RandomPerspective", "RandomResize", "RandomResizedCrop", "RandomRotation", "RandomVerticalFlip", "Resize",
    "TenCrop",
]  # fmt: skip


class RandomHorizontalFlip(RandomApplyTransform):
    """Mirror left and right with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomHorizontalFlip.html
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.horizontal_flip, inpt)


class RandomVerticalFlip(RandomApplyTransform):
    """Mirror above and below with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomVerticalFlip.html
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.vertical_flip, inpt)


class Resize(Transform):
    """Resize images, masks and boxes.

    Args:
        size: (height, width), or a number for the shorter side; None with max_size for the longer one.
        interpolation: an `InterpolationMode` or its name; tensors allow nearest, bilinear and bicubic. Masks get the
            nearest pixel.
        max_size: the most that the longer side may get.
        antialias: whether to average a tensor's pixels where it gets smaller. Pillow always does.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.Resize.html
    """

    def __init__(
        self,
        size: Any,
        interpolation: Any = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if size is None:
            if not isinstance(max_size, int):
                raise ValueError(
                    f"max_size must be an integer when size is None, but got {max_size} instead."
                )
        elif isinstance(size, int):
            size = [size]
        elif isinstance(size, Sequence) and len(size) in (1, 2):
            size = list(size)
        else:
            raise ValueError(
                f"size can be an integer, a sequence of one or two integers, or None, but got {size} instead."
            )
        self.size = size
        self.interpolation = interpolation
        self.max_size = max_size
        self.antialias = antialias

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(
            F.resize, inpt, self.size, self.interpolation, max_size=self.max_size, antialias=self.antialias
        )


class CenterCrop(Transform):
    """Cut the middle out; what is smaller gets a black frame.

    Args:
        size: the height and the width, or one number for both.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.CenterCrop.html
    """

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = two_sizes(size)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.center_crop, inpt, output_size=self.size)


class RandomResizedCrop(Transform):
    """Cut out a rectangle of random area, proportions and place, and resize it.

    Args:
        size: the height and the width, or one number for both.
        scale: the least and the largest part of the area.
        ratio: the least and the largest width, in heights.
        interpolation, antialias: as in `Resize`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomResizedCrop.html
    """

    def __init__(
        self,
        size: Any,
        scale: Any = (0.08, 1.0),
        ratio: Any = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = two_sizes(size)
        checked = _geometric.RandomResizedCrop(self.size, scale, ratio)
        self.scale = checked.scale
        self.ratio = checked.ratio
        self.interpolation = interpolation
        self.antialias = antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the rectangle."""
        box = _geometric.drawn_box(*query_size(flat_inputs), self.scale, self.ratio)
        return dict(zip(("top", "left", "height", "width"), box))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(
            F.resized_crop,
            inpt,
            **params,
            size=self.size,
            interpolation=self.interpolation,
            antialias=self.antialias,
        )


class FiveCrop(Transform):
    """Cut out the four corners and the middle of images: a tuple of five.

    Args:
        size: the height and the width, or one number for both.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.FiveCrop.html
    """

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = two_sizes(size)

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Refuse masks and boxes."""
        no_masks_or_boxes(flat_inputs, type(self).__name__)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.five_crop, inpt, self.size)


class TenCrop(FiveCrop):
    """`FiveCrop` of images and of their mirror images: a tuple of ten.

    Args:
        size: the height and the width, or one number for both.
        vertical_flip: whether to mirror above and below.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.TenCrop.html
    """

    def __init__(self, size: Any, vertical_flip: bool = False) -> None:
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.ten_crop, inpt, self.size, vertical_flip=self.vertical_flip)


class Pad(Transform):
    """Put a frame around images, masks and boxes.

    Args:
        padding: one number, two (left and right, above and below), or four (left, above, right, below).
        fill: the color, for the mode "constant"; or a dict by kind, with the key "others".
        padding_mode: "constant", "edge", "reflect" or "symmetric".

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.Pad.html
    """

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        if not isinstance(padding, int | Sequence):
            raise TypeError("Got inappropriate padding arg")
        _four(padding)
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        self.padding = padding if isinstance(padding, int) else list(padding)
        self.fill = checked_fill(fill)
        self.padding_mode = padding_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        fill = fill_for(self.fill, inpt)
        return self._call(F.pad, inpt, padding=self.padding, fill=fill, padding_mode=self.padding_mode)


class RandomRotation(Transform):
    """Turn images, masks and boxes by a random angle. A box becomes the one around its corners.

    Args:
        degrees: the range, or one number for the range from ``-degrees`` to ``degrees``.
        interpolation: an `InterpolationMode` or its name; tensors allow nearest and bilinear.
        expand: whether the result gets so large that nothing is cut off.
        center: x and y of the middle of the rotation, in pixels. Default: the middle of the image.
        fill: the color of what was outside; or a dict by kind, with the key "others".

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomRotation.html
    """

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = "nearest",
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        checked = _warping.RandomRotation(degrees, center=center)
        self.degrees = checked.degrees
        self.interpolation = interpolation
        self.expand = expand
        self.fill = checked_fill(fill)
        self.center = center

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the angle."""
        return {"angle": _warping.RandomRotation.get_params(self.degrees)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(
            F.rotate,
            inpt,
            **params,
            interpolation=self.interpolation,
            expand=self.expand,
            center=self.center,
            fill=fill_for(self.fill, inpt),
        )


class RandomAffine(Transform):
    """Rotate, move, scale and shear images, masks and boxes by random amounts.

    Args:
        degrees: the range of the angle, or one number for the range from ``-degrees`` to ``degrees``.
        translate: the most that it moves along x and y, as parts of the width and the height.
        scale: the range of the factor.
        shear: the range of the angle along x (one number or two), or along x and y (four).
        interpolation, fill, center: as in `RandomRotation`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomAffine.html
    """

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: Any = "nearest",
        fill: Any = 0,
        center: Any = None,
    ) -> None:
        super().__init__()
        checked = _warping.RandomAffine(degrees, translate, scale, shear, center=center)
        self.degrees = checked.degrees
        self.translate = translate
        self.scale = scale
        self.shear = checked.shear
        self.interpolation = interpolation
        self.fill = checked_fill(fill)
        self.center = center

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the angle, the pixels along x and y, the factor, and the angles of the shears."""
        height, width = query_size(flat_inputs)
        drawn = _warping.RandomAffine.get_params(
            self.degrees, self.translate, self.scale, self.shear, [width, height]
        )
        return dict(zip(("angle", "translate", "scale", "shear"), drawn))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        fill = fill_for(self.fill, inpt)
        return self._call(
            F.affine, inpt, **params, interpolation=self.interpolation, fill=fill, center=self.center
        )


class RandomCrop(Transform):
    """Cut a rectangle out at a random place.

    Args:
        size: the height and the width, or one number for both.
        padding: a frame that the inputs get before, as in `Pad`.
        pad_if_needed: whether what is too small gets a frame.
        fill, padding_mode: as in `Pad`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomCrop.html
    """

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = two_sizes(size)
        self.padding = None
        if padding is not None:
            left, top, right, bottom = _four(Pad(padding, padding_mode=padding_mode).padding)
            self.padding = [left, right, top, bottom]  # torchvision's order of this attribute
        self.pad_if_needed = pad_if_needed
        self.fill = checked_fill(fill)
        self.padding_mode = padding_mode

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the place."""
        height, width = query_size(flat_inputs)
        left, right, top, bottom = self.padding or (0, 0, 0, 0)
        rows, columns = height + top + bottom, width + left + right
        wanted_rows, wanted_columns = self.size
        if self.pad_if_needed:
            more, across = max(wanted_rows - rows, 0), max(wanted_columns - columns, 0)
            top, bottom, rows = top + more, bottom + more, rows + 2 * more
            left, right, columns = left + across, right + across, columns + 2 * across
        if rows < wanted_rows or columns < wanted_columns:
            padded = "padded " if any((left, top, right, bottom)) else ""
            raise ValueError(
                f"Required crop size {(wanted_rows, wanted_columns)} is larger than {padded}input image size "
                f"{(rows, columns)}."
            )
        y = _drawn(rows - wanted_rows)
        x = _drawn(columns - wanted_columns)
        return {
            "padding": [left, top, right, bottom],
            "box": (y, x, wanted_rows, wanted_columns),
            "whole": (rows, columns) == (wanted_rows, wanted_columns),
        }

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        if any(params["padding"]):
            fill = fill_for(self.fill, inpt)
            inpt = self._call(
                F.pad, inpt, padding=params["padding"], fill=fill, padding_mode=self.padding_mode
            )
        return inpt if params["whole"] else self._call(F.crop, inpt, *params["box"])


def _drawn(most: int) -> int:
    """Draw an integer from 0 to ``most``; nothing is drawn where there is no choice."""
    return integer(0, most + 1) if most > 0 else 0


class RandomPerspective(RandomApplyTransform):
    """Look at images, masks and boxes from a random side, with a probability.

    Args:
        distortion_scale: how far corners may move, from 0 to 1.
        p: the probability.
        interpolation, fill: as in `RandomRotation`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomPerspective.html
    """

    def __init__(
        self,
        distortion_scale: float = 0.5,
        p: float = 0.5,
        interpolation: Any = "bilinear",
        fill: Any = 0,
    ) -> None:
        super().__init__(p=p)
        if not 0 <= distortion_scale <= 1:
            raise ValueError("Argument distortion_scale value should be between 0 and 1")
        self.distortion_scale = distortion_scale
        self.interpolation = interpolation
        self.fill = checked_fill(fill)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw where the corners go to."""
        height, width = query_size(flat_inputs)
        points = _warping.RandomPerspective.get_params(width, height, self.distortion_scale)
        return dict(zip(("startpoints", "endpoints"), points))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        fill = fill_for(self.fill, inpt)
        return self._call(F.perspective, inpt, **params, interpolation=self.interpolation, fill=fill)


class ElasticTransform(Transform):
    """Move pixels of images, masks and boxes by random displacements that are blurred.

    Args:
        alpha: how far, along x and y or one number for both.
        sigma: how smooth, likewise.
        interpolation, fill: as in `RandomRotation`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.ElasticTransform.html
    """

    def __init__(
        self, alpha: Any = 50.0, sigma: Any = 5.0, interpolation: Any = "bilinear", fill: Any = 0
    ) -> None:
        super().__init__()
        checked = _warping.ElasticTransform(alpha, sigma)
        self.alpha = checked.alpha
        self.sigma = checked.sigma
        self.interpolation = interpolation
        self.fill = checked_fill(fill)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the displacements."""
        size = query_size(flat_inputs)
        return {"displacement": _warping.ElasticTransform.get_params(self.alpha, self.sigma, size)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        fill = fill_for(self.fill, inpt)
        return self._call(F.elastic, inpt, **params, interpolation=self.interpolation, fill=fill)


class RandomResize(Transform):
    """Resize images, masks and boxes to a random length of the shorter side.

    Args:
        min_size: the least length.
        max_size: the largest length is one less.
        interpolation, antialias: as in `Resize`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomResize.html
    """

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.min_size = min_size
        self.max_size = max_size
        self.interpolation = interpolation
        self.antialias = antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the length."""
        return {"size": [integer(self.min_size, self.max_size)]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(
            F.resize, inpt, params["size"], interpolation=self.interpolation, antialias=self.antialias
        )
