"""RoIAlign: regions of an image, sampled on grids."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._base.division import divide
from ..._run.registry import TensorOnly
from ..._tensor.tensor import Tensor
from ...nn import Module
from ...nn.modules.utils import _pair
from ...ops._common import rounded_once
from ._utils import check_dtypes, check_images, rois_of, vision_op

__all__ = ["RoIAlign", "roi_align"]


class _Axis(NamedTuple):
    """Where samples lie along one dimension of the image, for each region.

    Attributes:
        start: of the region.
        bin: the size of a bin.
        count: samples in a bin.
    """

    start: Any
    bin: Any
    count: Any

    def sample(self, i: Any, bins: int, pixels: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """The two pixels beside sample ``i`` of each bin, with their weights, which are 0 outside."""
        dtype = self.start.dtype
        start, size, count = (a[:, None] for a in self)
        at = (
            start
            + jnp.arange(bins, dtype=dtype) * size
            + (i.astype(dtype) + 0.5) * size / count.astype(dtype)
        )
        inside = (at >= -1) & (at <= pixels) & (i < count)
        at = jnp.where(inside, jnp.maximum(at, 0), 0)
        low = jnp.minimum(at.astype(np.int32), pixels - 1)
        above = jnp.where(low == pixels - 1, 0, at - low)
        high = jnp.minimum(low + 1, pixels - 1)
        return (low, jnp.where(inside, 1 - above, 0)), (high, jnp.where(inside, above, 0))


def _axis(first: Any, last: Any, scale: float, bins: int, ratio: int, aligned: bool) -> _Axis:
    shift = 0.5 if aligned else 0.0
    start = first * scale - shift
    length = last * scale - shift - start
    if not aligned:
        length = jnp.maximum(length, 1)
    size = divide(length, bins)
    count = jnp.full(first.shape, ratio) if ratio > 0 else jnp.ceil(size)
    return _Axis(start, size, count.astype(np.int32))


#: the image of each region, and the dimensions, rows first
_Grid = tuple[Any, _Axis, _Axis]
_Shapes = tuple[tuple[int, ...], tuple[int, ...]]


def _over(grid: _Grid, shapes: _Shapes, step: Callable[..., Any], start: Any) -> Any:
    """``step(total, places, weights)`` for the four pixels of each sample, from ``start`` on."""
    image, rows, columns = grid
    (_, height, width, _), (_, bins_y, bins_x, _) = shapes
    across = jnp.max(columns.count, initial=0)

    def one(i: Any, total: Any) -> Any:
        for y, of_y in rows.sample(i // across, bins_y, height):
            for x, of_x in columns.sample(i % across, bins_x, width):
                places = image[:, None, None], y[:, :, None], x[:, None, :]
                total = step(total, places, (of_y[:, :, None] * of_x[:, None, :])[..., None])
        return total

    return lax.fori_loop(0, jnp.max(rows.count, initial=0) * across, one, start)


# Both are linear, and each is the other's transpose; JAX does not transpose a loop whose length depends on values.
# Images are [N, H, W, C] and bins [K, PH, PW, C]: a pixel is a row in memory. `shapes` has both shapes.


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _gather(images: Any, grid: _Grid, shapes: _Shapes) -> Any:
    """The weighted pixels of each bin, added up."""
    start = jnp.zeros(shapes[1], images.dtype)
    return _over(grid, shapes, lambda total, places, weights: total + weights * images[places], start)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _scatter(bins: Any, grid: _Grid, shapes: _Shapes) -> Any:
    """Each bin's value, weighted, at the pixels of its samples."""
    start = jnp.zeros(shapes[0], bins.dtype)
    return _over(grid, shapes, lambda total, places, weights: total.at[places].add(weights * bins), start)


_gather.defvjp(
    lambda images, grid, shapes: (_gather(images, grid, shapes), grid),
    lambda shapes, grid, g: (_scatter(g, grid, shapes), None),
)
_scatter.defvjp(
    lambda bins, grid, shapes: (_scatter(bins, grid, shapes), grid),
    lambda shapes, grid, g: (_gather(g, grid, shapes), None),
)


def _check_images(input: Any, rois: Any, *_: Any, **__: Any) -> None:
    check_images(input, rois, "roi_align")


@vision_op(check=_check_images)
@rounded_once
def _roi_align(
    input: TensorOnly,
    rois: TensorOnly,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
):
    """The means of samples of each bin of each region."""
    image, *corners = jnp.moveaxis(rois, 1, 0)
    x1, y1, x2, y2 = corners
    rows = _axis(y1, y2, spatial_scale, pooled_height, sampling_ratio, aligned)
    columns = _axis(x1, x2, spatial_scale, pooled_width, sampling_ratio, aligned)
    images = jnp.transpose(input, (0, 2, 3, 1))
    shapes = images.shape, (len(rois), pooled_height, pooled_width, images.shape[-1])
    sums = _gather(images, (image.astype(np.int32), rows, columns), shapes)
    samples = jnp.maximum(rows.count * columns.count, 1).astype(input.dtype)
    return jnp.transpose(sums / samples[:, None, None, None], (0, 3, 1, 2))


def roi_align(
    input: Tensor,
    boxes: Tensor | list[Tensor],
    output_size: int | tuple[int, int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Regions of images at one size: means of samples, which are interpolated between pixels.

    Args:
        input: images ``[N, C, H, W]``.
        boxes: ``[K, 5]``, the number of an image and a box ``(x1, y1, x2, y2)`` each; or ``[L, 4]`` for each image.
        output_size: the number of bins in both directions, or height and width.
        spatial_scale: the boxes are multiplied by it. Default: 1.0.
        sampling_ratio: samples of a bin in each direction; -1 for as many as its pixels, rounded up. Default: -1.
        aligned: whether coordinates are shifted by half a pixel, so that pixels are points. Default: False.

    Returns:
        ``[K, C, height, width]``. The gradient goes to ``input`` alone, as in torchvision.

    Raises:
        RuntimeError: the dtypes differ.
        AssertionError: ``boxes`` has another shape.
        IndexError: there is no such image.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import roi_align
        >>> image = torch.arange(16.0).reshape(1, 1, 4, 4)
        >>> roi_align(image, [torch.tensor([[0.0, 0, 4, 4]])], 2, sampling_ratio=2, aligned=True)
        tensor([[[[ 2.5000,  4.5000],
                  [10.5000, 12.5000]]]])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.roi_align.html
    """
    rois = rois_of(boxes)
    check_dtypes(input, rois)
    return _roi_align(input, rois, float(spatial_scale), *_pair(output_size), sampling_ratio, aligned)


class RoIAlign(Module):
    """`roi_align` as a module.

    Args:
        output_size, spatial_scale, sampling_ratio, aligned: as in `roi_align`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.RoIAlign.html
    """

    def __init__(
        self,
        output_size: int | tuple[int, int],
        spatial_scale: float,
        sampling_ratio: int,
        aligned: bool = False,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.spatial_scale = spatial_scale
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned

    def forward(self, input: Tensor, rois: Tensor | list[Tensor]) -> Tensor:
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)

    def __repr__(self) -> str:
        names = ("output_size", "spatial_scale", "sampling_ratio", "aligned")
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)}' for n in names)})"
