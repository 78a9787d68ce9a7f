"""RoIPool: the largest pixels of regions of an image."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._base.division import divide
from ..._run.registry import TensorOnly
from ..._tensor.tensor import Tensor
from ...nn import Module
from ...nn.modules.utils import _pair
from ._utils import check_dtypes, check_images, rois_of, vision_op

__all__ = ["RoIPool", "roi_pool"]


def _bins(first: Any, last: Any, scale: float, bins: int, pixels: int) -> tuple[Any, Any]:
    """The first pixel of each bin of each region, and the one after the last."""
    start, end = (lax.round(a * scale).astype(np.int32) for a in (first, last))  # halves away from zero
    size = divide(jnp.maximum(end - start + 1, 1).astype(first.dtype), bins)[:, None]
    at = jnp.arange(bins, dtype=first.dtype)
    low, high = jnp.floor(at * size), jnp.ceil((at + 1) * size)
    return tuple(jnp.clip(a.astype(np.int32) + start[:, None], 0, pixels) for a in (low, high))  # type: ignore[return-value]


def _largest(images: Any, image: Any, rows: Any, columns: Any) -> tuple[Any, Any]:
    """The row and the column of the first of the largest pixels of each bin; -1 if there is none."""
    (top, bottom), (left, right) = rows, columns
    tall, across = (jnp.max(high - low, initial=0) for low, high in (rows, columns))
    shape = (*top.shape, left.shape[1], images.shape[-1])
    lowest = jnp.full(shape, np.finfo(np.float32).min, images.dtype)
    none = jnp.full(shape, -1, np.int32)

    def one(i: Any, found: Any) -> Any:
        largest, at_y, at_x = found
        y, x = (top + i // across)[:, :, None], (left + i % across)[:, None, :]
        inside = (y < bottom[:, :, None]) & (x < right[:, None, :])
        value = images[image[:, None, None], jnp.where(inside, y, 0), jnp.where(inside, x, 0)]
        more = inside[..., None] & (value > largest)
        return (
            jnp.where(more, value, largest),
            jnp.where(more, y[..., None], at_y),
            jnp.where(more, x[..., None], at_x),
        )

    return lax.fori_loop(0, tall * across, one, (lowest, none, none))[1:]


def _check_images(input: Any, rois: Any, *_: Any, **__: Any) -> None:
    check_images(input, rois, "roi_pool")


@vision_op(check=_check_images)
def _roi_pool(
    input: TensorOnly, rois: TensorOnly, spatial_scale: float, pooled_height: int, pooled_width: int
):
    """The largest pixel of each bin of each region."""
    image, x1, y1, x2, y2 = jnp.moveaxis(rois, 1, 0)
    image = image.astype(np.int32)
    rows = _bins(y1, y2, spatial_scale, pooled_height, input.shape[2])
    columns = _bins(x1, x2, spatial_scale, pooled_width, input.shape[3])
    images = jnp.transpose(input, (0, 2, 3, 1))
    y, x = _largest(lax.stop_gradient(images), image, rows, columns)
    channels = jnp.arange(images.shape[-1])
    value = images[image[:, None, None, None], y, x, channels]
    empty = (rows[1] <= rows[0])[:, :, None] | (columns[1] <= columns[0])[:, None, :]
    nothing = jnp.where(empty[..., None], 0, np.finfo(np.float32).min).astype(input.dtype)
    return jnp.transpose(jnp.where(y < 0, nothing, value), (0, 3, 1, 2))


def roi_pool(
    input: Tensor,
    boxes: Tensor | list[Tensor],
    output_size: int | tuple[int, int],
    spatial_scale: float = 1.0,
) -> Tensor:
    """Regions of images at one size: the largest pixels of bins.

    Args:
        input: images ``[N, C, H, W]``, float32 or float64.
        boxes: ``[K, 5]``, the number of an image and a box ``(x1, y1, x2, y2)`` each; or ``[L, 4]`` for each image.
        output_size: the number of bins in both directions, or height and width.
        spatial_scale: the boxes are multiplied by it. Default: 1.0.

    Returns:
        ``[K, C, height, width]``. The gradient goes to ``input`` alone, as in torchvision.

    Raises:
        RuntimeError: the dtypes differ.
        AssertionError: ``boxes`` has another shape.
        IndexError: there is no such image.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import roi_pool
        >>> image = torch.arange(16.0).reshape(1, 1, 4, 4)
        >>> roi_pool(image, [torch.tensor([[0.0, 0, 3, 3]])], 2)
        tensor([[[[ 5.,  7.],
                  [13., 15.]]]])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.roi_pool.html
    """
    rois = rois_of(boxes)
    check_dtypes(input, rois)
    return _roi_pool(input, rois, float(spatial_scale), *_pair(output_size))


class RoIPool(Module):
    """`roi_pool` as a module.

    Args:
        output_size, spatial_scale: as in `roi_pool`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.RoIPool.html
    """

    def __init__(self, output_size: int | tuple[int, int], spatial_scale: float) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale

    def forward(self, input: Tensor, rois: Tensor | list[Tensor]) -> Tensor:
        return roi_pool(input, rois, self.output_size, self.spatial_scale)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(output_size={self.output_size}, spatial_scale={self.spatial_scale})"
