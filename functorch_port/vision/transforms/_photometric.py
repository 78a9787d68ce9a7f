"""Transforms that change the colors of an image."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.nn import Module

from . import functional as F
from ._draws import chance, integer, uniform
from ._geometric import Perhaps, drawn_sides, pair_of_sizes

__all__ = [
    "ColorJitter", "GaussianBlur", "Grayscale", "RandomAdjustSharpness", "RandomAutocontrast", "RandomEqualize",
    "RandomErasing", "RandomGrayscale", "RandomInvert", "RandomPosterize", "RandomSolarize",
]  # fmt: skip


class ColorJitter(Module):
    """Change brightness, contrast, saturation and hue by random amounts, in a random order.

    Args:
        brightness, contrast, saturation: the range of the factor, or ``x`` for the range from ``max(0, 1 - x)`` to
            ``1 + x``.
        hue: the range of the turn, from -0.5 to 0.5, or ``x`` for the range from ``-x`` to ``x``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ColorJitter.html
    """

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0) -> None:
        super().__init__()
        self.brightness = factors(brightness, "brightness")
        self.contrast = factors(contrast, "contrast")
        self.saturation = factors(saturation, "saturation")
        self.hue = factors(hue, "hue", center=0, bound=(-0.5, 0.5), clip_first_on_zero=False)

    @staticmethod
    def get_params(brightness: Any, contrast: Any, saturation: Any, hue: Any) -> tuple[Any, ...]:
        """Draw the order, and the four factors."""
        order = torch.randperm(4)
        ranges = (brightness, contrast, saturation, hue)
        return order, *(None if r is None else uniform(r[0], r[1]) for r in ranges)

    def forward(self, img: Any) -> Any:
        order, *amounts = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        steps = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for i in order.tolist():
            if amounts[i] is not None:
                img = steps[i](img, amounts[i])
        return img

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(brightness={self.brightness}, contrast={self.contrast}, "
            f"saturation={self.saturation}, hue={self.hue})"
        )


def factors(
    value: Any,
    name: str,
    center: float = 1,
    bound: tuple[float, float] = (0, float("inf")),
    clip_first_on_zero: bool = True,
) -> tuple[float, float] | None:
    """The range of a factor; None if it changes nothing."""
    if isinstance(value, numbers.Number):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        value = [center - float(value), center + float(value)]  # type: ignore[arg-type]
        if clip_first_on_zero:
            value[0] = max(value[0], 0.0)
    elif isinstance(value, tuple | list) and len(value) == 2:
        value = [float(value[0]), float(value[1])]
    else:
        raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
    if not bound[0] <= value[0] <= value[1] <= bound[1]:
        raise ValueError(f"{name} values should be between {bound}, but got {value}.")
    return None if value[0] == value[1] == center else (value[0], value[1])


class Grayscale(Module):
    """Shades of gray, in one channel or in three that are equal.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Grayscale.html
    """

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, self.num_output_channels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_output_channels={self.num_output_channels})"


class RandomGrayscale(Module):
    """Shades of gray with a probability of ``p``; the number of channels stays.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomGrayscale.html
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        channels = F.get_dimensions(img)[0]
        return F.rgb_to_grayscale(img, channels) if chance(self.p) else img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomErasing(Module):
    """Overwrite a random rectangle of a tensor, with a probability.

    Args:
        p: the probability.
        scale: the least and the largest part of the area.
        ratio: the least and the largest height, in widths.
        value: what to write: a number, one for each channel, or "random" for normal noise.
        inplace: whether to write to the tensor itself.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomErasing.html
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Any = (0.02, 0.33),
        ratio: Any = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(value, numbers.Number | str | tuple | list):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if not isinstance(scale, Sequence):
            raise TypeError("Scale should be a sequence")
        if not isinstance(ratio, Sequence):
            raise TypeError("Ratio should be a sequence")
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            raise ValueError(f"scale and ratio should be of kind (min, max), but are {scale} and {ratio}")
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        if p < 0 or p > 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p = p
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    @staticmethod
    def get_params(
        img: Tensor, scale: Any, ratio: Any, value: Any = None
    ) -> tuple[int, int, int, int, Tensor]:
        """Draw the top, the left, the height, the width, and what to write."""
        channels, rows, columns = img.shape[-3], img.shape[-2], img.shape[-1]
        return drawn_erasure(channels, rows, columns, scale, ratio, value) or (0, 0, rows, columns, img)

    def forward(self, img: Tensor) -> Tensor:
        if not chance(self.p):
            return img
        value = erasing_values(self.value, img.shape[-3])
        return F.erase(img, *self.get_params(img, self.scale, self.ratio, value), self.inplace)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(p={self.p}, scale={self.scale}, ratio={self.ratio}, value={self.value}, "
            f"inplace={self.inplace})"
        )


def erasing_values(value: Any, channels: int) -> list[float] | None:
    """What `RandomErasing` writes, a number for each channel or one for all; None for noise."""
    if value is None or value == "random":
        return None
    values = [float(value)] if isinstance(value, int | float) else [float(v) for v in value]
    if len(values) not in (1, channels):
        raise ValueError(
            f"If value is a sequence, it should have either a single value or {channels} (number of input channels)"
        )
    return values


def drawn_erasure(
    channels: int, rows: int, columns: int, scale: Any, ratio: Any, value: list[float] | None
) -> tuple[int, int, int, int, Tensor] | None:
    """Draw the top, the left, the height, the width, and what to write; None if no rectangle fits."""
    for _ in range(10):
        height, width = drawn_sides(rows * columns, scale, ratio)
        if height < rows and width < columns:
            if value is None:
                what = torch.empty(channels, height, width, dtype=torch.float32).normal_()
            else:
                what = torch.tensor(value)[:, None, None]
            return integer(0, rows - height + 1), integer(0, columns - width + 1), height, width, what
    return None


class GaussianBlur(Module):
    """Blur an image by a random amount.

    Args:
        kernel_size: the width and the height of the average, odd numbers, or one for both.
        sigma: the range of the standard deviation, or one number.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.GaussianBlur.html
    """

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = pair_of_sizes(kernel_size, "Kernel size should be a tuple/list of two integers")
        for size in self.kernel_size:
            if size <= 0 or size % 2 == 0:
                raise ValueError("Kernel size value should be an odd and positive number.")
        if isinstance(sigma, numbers.Number):
            if sigma <= 0:
                raise ValueError("If sigma is a single number, it must be positive.")
            self.sigma: Any = (sigma, sigma)
        elif isinstance(sigma, Sequence) and len(sigma) == 2:
            if not 0.0 < sigma[0] <= sigma[1]:
                raise ValueError("sigma values should be positive and of the form (min, max).")
            self.sigma = sigma
        else:
            raise TypeError("sigma should be a single number or a list/tuple with length 2.")

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """Draw the standard deviation."""
        return uniform(sigma_min, sigma_max)

    def forward(self, img: Any) -> Any:
        sigma = self.get_params(self.sigma[0], self.sigma[1])
        return F.gaussian_blur(img, self.kernel_size, [sigma, sigma])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kernel_size={self.kernel_size}, sigma={self.sigma})"


class RandomInvert(Perhaps):
    """The negative with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomInvert.html
    """

    def changed(self, img: Any) -> Any:
        """The image after the function."""
        return F.invert(img)


class RandomAutocontrast(Perhaps):
    """Stretch each channel to the whole range, with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomAutocontrast.html
    """

    def changed(self, img: Any) -> Any:
        """The image after the function."""
        return F.autocontrast(img)


class RandomEqualize(Perhaps):
    """Make all shades of a channel equally frequent, with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomEqualize.html
    """

    def changed(self, img: Any) -> Any:
        """The image after the function."""
        return F.equalize(img)


class RandomPosterize(Perhaps):
    """Keep the first ``bits`` of each byte, with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomPosterize.html
    """

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def changed(self, img: Any) -> Any:
        """The image after the function."""
        return F.posterize(img, self.bits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(bits={self.bits},p={self.p})"


class RandomSolarize(Perhaps):
    """Invert what is not darker than a threshold, with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomSolarize.html
    """

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def changed(self, img: Any) -> Any:
        """The image after the function."""
        return F.solarize(img, self.threshold)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(threshold={self.threshold},p={self.p})"


class RandomAdjustSharpness(Perhaps):
    """Make an image sharper or blur it, with a probability of ``p``.

    Args:
        sharpness_factor: 0 gives a blurred image, 1 the image, 2 a sharper one.
        p: the probability.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandomAdjustSharpness.html
    """

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def changed(self, img: Any) -> Any:
        """The image after the function."""
        return F.adjust_sharpness(img, self.sharpness_factor)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sharpness_factor={self.sharpness_factor},p={self.p})"
