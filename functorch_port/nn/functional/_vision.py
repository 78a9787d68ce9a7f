"""Image functions: resizing, grid sampling, sliding blocks and pixel shuffles."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..._run.bind import function
from ..._tensor.tensor import Tensor
from ...ops.resize import output_sizes
from ._common import require_tensor
from ._pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

__all__ = [
    "affine_grid",
    "channel_shuffle",
    "fold",
    "grid_sample",
    "interpolate",
    "native_channel_shuffle",
    "pixel_shuffle",
    "pixel_unshuffle",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

pixel_shuffle, pixel_unshuffle = function("pixel_shuffle"), function("pixel_unshuffle")
channel_shuffle = native_channel_shuffle = function("channel_shuffle")
_im2col, _col2im = function("_im2col"), function("_col2im")
_grid_sampler, _affine_grid = function("grid_sampler"), function("affine_grid_generator")

_AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}
_RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}


# ---------------------------------------------------------------- resizing


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return hasattr(value, "__index__") and not (isinstance(value, Tensor) and value.is_floating_point())


def _wanted(input: Tensor, size: Any, scale_factor: Any) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """The output sizes, and the scale factors if they were given."""
    dim = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    spatial = f"spatial dimensions of {list(input.shape[2:])}"
    if size is not None:
        if not isinstance(size, (list, tuple)):
            return (int(size),) * dim, None
        if len(size) != dim:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input with "
                f"{spatial} and output size of {size}. Please provide input tensor in (N, C, d1, d2, ...,dK) format "
                "and output size in (o1, o2, ...,oK) format."
            )
        if not all(_is_whole(s) for s in size):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size "
                f"with types {[type(s) for s in size]}"
            )
        return tuple(int(s) for s in size), None
    if isinstance(scale_factor, (list, tuple)):
        if len(scale_factor) != dim:
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got input with "
                f"{spatial} and scale_factor of shape {scale_factor}. Please provide input tensor in "
                "(N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."
            )
        scales = tuple(float(s) for s in scale_factor)
    else:
        scales = (float(scale_factor),) * dim
    if not all(abs(s * n) < 1 << 63 for s, n in zip(scales, input.shape[2:], strict=True)):
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    return output_sizes(tuple(input.shape[2:]), scales), scales


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize ``input`` by interpolation.

    Args:
        input: (N, C, W), (N, C, H, W) or (N, C, D, H, W).
        size: the output size, a number or one per spatial dimension.
        scale_factor: factor of the input size, in place of ``size``.
        mode: "nearest", "nearest-exact", "linear" (3D), "bilinear", "bicubic", "lanczos" (4D), "trilinear" (5D) or
            "area".
        align_corners: for the linear and cubic modes: True aligns the centers of the corner elements, False (the
            default) their outer edges.
        recompute_scale_factor: use the ratio of the sizes where rounding makes it differ from ``scale_factor``.
        antialias: average over the inputs that an output covers ("bilinear", "bicubic" and "lanczos" only).

    Raises:
        ValueError: unless exactly one of ``size`` and ``scale_factor`` is given, with one entry per spatial dimension.
        NotImplementedError: if the mode does not support the input's number of dimensions.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.functional.interpolate(torch.tensor([[[1., 3.]]]), scale_factor=2, mode="linear")
        tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.interpolate.html
    """
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    sizes, scales = _wanted(input, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if recompute_scale_factor:
        scales = None
    rank = input.dim()
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and rank == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if rank in (3, 4, 5):
        if mode == "area":
            return _AREA[rank - 2](input, sizes)
        if (
            mode in ("nearest", "nearest-exact")
            or _RANKS.get(mode) == rank
            or (mode == "lanczos" and rank == 4)
        ):
            if mode == "lanczos" and align_corners:
                raise ValueError("Lanczos mode does not support align_corners=True")
            if mode == "lanczos" and not antialias:
                raise ValueError("Lanczos mode requires antialias=True")
            resize = function(f"_upsample_{mode}{rank - 2}d{'_aa' * antialias}")
            return resize(input, sizes, bool(align_corners), scales)
        if mode in ("linear", "bilinear", "trilinear"):
            raise NotImplementedError(f"Got {rank}D input, but {mode} mode needs {_RANKS[mode]}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank}D) for the modes: nearest | linear | "
        f"bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
    )


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Deprecated name of `interpolate`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.upsample.html
    """
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated name of `interpolate` with mode "nearest".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.upsample_nearest.html
    """
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated name of `interpolate` with mode "bilinear" and aligned corners.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.upsample_bilinear.html
    """
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# ---------------------------------------------------------------- sampling at given places

_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def _warn_corners(name: str, align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn(
            f"Default {name} and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
            f"align_corners=True if the old behavior is desired. See the documentation of {name} for details.",
            stacklevel=3,
        )
    return bool(align_corners)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Sample ``input`` at the locations in ``grid``.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: (N, H', W', 2) or (N, D', H', W', 3): locations (x, y) or (x, y, z), where x runs along W; -1 and 1
            are the ends of the input.
        mode: "bilinear", "nearest" or "bicubic" (4D only).
        padding_mode: values outside the input: "zeros", "border" (the nearest element) or "reflection".
        align_corners: True puts -1 and 1 at the centers of the corner elements, False (the default) at their outer
            edges.

    Shape:
        (N, C, H', W') or (N, C, D', H', W').

    Raises:
        ValueError: for an unknown mode.
        RuntimeError: if shapes do not match.

    Example:
        >>> import functorch_port as torch
        >>> image = torch.tensor([[[[1., 2.], [3., 4.]]]])
        >>> torch.nn.functional.grid_sample(image, torch.zeros(1, 1, 1, 2), align_corners=False)
        tensor([[[[2.5000]]]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grid_sample.html
    """
    if mode not in _MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    aligned = _warn_corners("grid_sample", align_corners)
    return _grid_sampler(input, grid, _MODES[mode], _PADDINGS[padding_mode], aligned)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The sampling grid of a batch of affine maps, for `grid_sample`.

    Args:
        theta: (N, 2, 3) or (N, 3, 4).
        size: the output size, (N, C, H, W) or (N, C, D, H, W).
        align_corners: as for `grid_sample`.

    Shape:
        (N, H, W, 2) or (N, D, H, W, 3).

    Raises:
        ValueError: if ``theta`` does not match ``size``.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.functional.affine_grid(torch.eye(2, 3)[None], (1, 1, 1, 2), align_corners=True)
        tensor([[[[-1.,  0.],
                  [ 1.,  0.]]]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.affine_grid.html
    """
    aligned = _warn_corners("affine_grid", align_corners) if align_corners is None else align_corners
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = {4: 2, 5: 3}.get(len(size))
    if n is None:
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    if theta.dim() != 3 or theta.shape[-2:] != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. Got {theta.shape}."
        )
    if aligned and min(size[-n:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. "
            "This is not an intended use case of affine_grid. See the documentation of affine_grid for details.",
            stacklevel=2,
        )
    if min(size[-n:]) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return _affine_grid(theta, tuple(size), aligned)


# ---------------------------------------------------------------- sliding blocks


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Extract the sliding blocks of an image as columns (im2col).

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: size of the blocks, a number or (height, width).
        dilation: distance between the elements of a block.
        padding: zero padding around the image.
        stride: stride of the blocks.

    Shape:
        (N, C * kernel elements, blocks), or without N.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.functional.unfold(torch.arange(6.).view(1, 1, 2, 3), 2)
        tensor([[[0., 1.],
                 [1., 2.],
                 [3., 4.],
                 [4., 5.]]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.unfold.html
    """
    require_tensor("im2col", "input", 1, input)
    return _im2col(input, *map(_hashable, (kernel_size, dilation, padding, stride)))


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Sum sliding blocks, given as columns, into an image (col2im): the transpose of `unfold`.

    Args:
        input: (N, C * kernel elements, blocks), or without N.
        output_size: size of the image, a number or (height, width).
        kernel_size, dilation, padding, stride: as for `unfold`.

    Shape:
        (N, C, H, W), or without N.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.functional.fold(torch.ones(1, 4, 2), (2, 3), 2)
        tensor([[[[1., 2., 1.],
                  [1., 2., 1.]]]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.fold.html
    """
    require_tensor("col2im", "input", 1, input)
    return _col2im(input, *map(_hashable, (output_size, kernel_size, dilation, padding, stride)))


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
