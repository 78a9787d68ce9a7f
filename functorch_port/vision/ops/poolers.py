"""Regions of a feature pyramid."""

from __future__ import annotations

import math
from typing import Any

from ..._run.bind import function
from ..._tensor.creation import zeros
from ..._tensor.tensor import Tensor
from ...nn import Module
from ...nn.modules.utils import _pair
from ._utils import convert_boxes_to_roi_format
from .boxes import box_area
from .roi_align import roi_align

__all__ = ["MultiScaleRoIAlign"]


class MultiScaleRoIAlign(Module):
    """`roi_align` of each box in the level of a pyramid that fits its size.

    Args:
        featmap_names: the levels that are used.
        output_size: the number of bins in both directions, or height and width.
        sampling_ratio: as in `roi_align`.
        canonical_scale: the side of a box that belongs to ``canonical_level``. Default: 224.
        canonical_level: default 4, of which the features have a 16th of the size.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import MultiScaleRoIAlign
        >>> levels = {"0": torch.rand(1, 5, 64, 64), "1": torch.rand(1, 5, 32, 32)}
        >>> boxes = [torch.tensor([[0.0, 0, 60, 50], [10, 10, 20, 20]])]
        >>> MultiScaleRoIAlign(["0", "1"], 3, 2)(levels, boxes, [(256, 256)]).shape
        torch.Size([2, 5, 3, 3])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.MultiScaleRoIAlign.html
    """

    def __init__(
        self,
        featmap_names: list[str],
        output_size: int | tuple[int, int] | list[int],
        sampling_ratio: int,
        *,
        canonical_scale: int = 224,
        canonical_level: int = 4,
    ) -> None:
        super().__init__()
        self.featmap_names = featmap_names
        self.output_size = _pair(output_size)
        self.sampling_ratio = sampling_ratio
        self.canonical_scale = canonical_scale
        self.canonical_level = canonical_level

    def forward(
        self, x: dict[str, Tensor], boxes: list[Tensor], image_shapes: list[tuple[int, int]]
    ) -> Tensor:
        levels = [value for name, value in x.items() if name in self.featmap_names]
        if not image_shapes:
            raise ValueError("images list should not be empty")
        size = [max(sides) for sides in zip(*image_shapes, strict=True)]
        scales = [_scale(level, size) for level in levels]
        rois = convert_boxes_to_roi_format(boxes)
        if len(levels) == 1:
            return roi_align(levels[0], rois, self.output_size, scales[0], self.sampling_ratio)
        chosen = self._levels(rois, scales)
        result = zeros(
            (rois.shape[0], levels[0].shape[1], *self.output_size), dtype=levels[0].dtype, device=rois.device
        )
        for i, (level, scale) in enumerate(zip(levels, scales, strict=True)):
            rows = function("where")(chosen == i)[0]
            found = roi_align(level, rois[rows], self.output_size, scale, self.sampling_ratio)
            result[rows] = found.to(result.dtype)
        return result

    def _levels(self, rois: Tensor, scales: list[float]) -> Tensor:
        """The number of each box's level."""
        lowest, highest = -math.log2(scales[0]), -math.log2(scales[-1])
        side = box_area(rois[:, 1:]).sqrt()
        level = (self.canonical_level + (side / self.canonical_scale).log2() + 1e-6).floor()
        return level.clamp(min=lowest, max=highest).long() - int(lowest)

    def __repr__(self) -> str:
        names = ("featmap_names", "output_size", "sampling_ratio")
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)}' for n in names)})"


def _scale(level: Any, size: list[int]) -> float:
    """By which a level is smaller than the images: a power of two."""
    height, width = (
        2.0 ** round(math.log2(side / whole)) for side, whole in zip(level.shape[-2:], size, strict=True)
    )
    if height != width:
        raise ValueError(
            f"MultiScaleRoIAlign: features of {tuple(level.shape[-2:])} are no part of images of {size}"
        )
    return height
