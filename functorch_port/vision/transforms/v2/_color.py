"""Transforms of colors."""

from __future__ import annotations

from typing import Any

import functorch_port as torch
from functorch_port.vision.transforms import _photometric

from . import functional as F
from ._transform import IMAGES, RandomApplyTransform, Transform, query_chw

__all__ = [
    "ColorJitter", "Grayscale", "RGB", "RandomAdjustSharpness", "RandomAutocontrast", "RandomChannelPermutation",
    "RandomEqualize", "RandomGrayscale", "RandomInvert", "RandomPosterize", "RandomSolarize",
]  # fmt: skip


class Grayscale(Transform):
    """Shades of gray, in one channel or in three that are equal.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.Grayscale.html
    """

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.rgb_to_grayscale, inpt, num_output_channels=self.num_output_channels)


class RandomGrayscale(RandomApplyTransform):
    """Shades of gray with a probability of ``p``; the number of channels stays.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomGrayscale.html
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p=p)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """The number of channels."""
        return {"num_output_channels": query_chw(flat_inputs)[0]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.rgb_to_grayscale, inpt, **params)


class RGB(Transform):
    """Three equal channels, of images that have one.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RGB.html
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.grayscale_to_rgb, inpt)


class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue by random amounts, in a random order.

    Args:
        brightness, contrast, saturation: the range of the factor, or ``x`` for the range from ``max(0, 1 - x)`` to
            ``1 + x``; None for no change.
        hue: the range of the turn, from -0.5 to 0.5, or ``x`` for the range from ``-x`` to ``x``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.ColorJitter.html
    """

    def __init__(
        self, brightness: Any = None, contrast: Any = None, saturation: Any = None, hue: Any = None
    ) -> None:
        super().__init__()
        checked = _photometric.ColorJitter(
            *(0 if value is None else value for value in (brightness, contrast, saturation, hue))
        )
        self.brightness = checked.brightness
        self.contrast = checked.contrast
        self.saturation = checked.saturation
        self.hue = checked.hue

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the order, and the four factors."""
        order, *amounts = _photometric.ColorJitter.get_params(
            self.brightness, self.contrast, self.saturation, self.hue
        )
        return {"order": order.tolist(), "amounts": amounts}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        steps = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for i in params["order"]:
            if params["amounts"][i] is not None:
                inpt = self._call(steps[i], inpt, params["amounts"][i])
        return inpt


class RandomChannelPermutation(Transform):
    """The channels of images in a random order.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomChannelPermutation.html
    """

    _transformed_types = IMAGES

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the order."""
        return {"permutation": torch.randperm(query_chw(flat_inputs)[0]).tolist()}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.permute_channels, inpt, **params)


class RandomEqualize(RandomApplyTransform):
    """Make all shades of a channel equally frequent, with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomEqualize.html
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.equalize, inpt)


class RandomInvert(RandomApplyTransform):
    """The negative with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomInvert.html
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.invert, inpt)


class RandomAutocontrast(RandomApplyTransform):
    """Stretch each channel to the whole range, with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomAutocontrast.html
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.autocontrast, inpt)


class RandomPosterize(RandomApplyTransform):
    """Keep the first ``bits`` of each byte, with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomPosterize.html
    """

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p=p)
        self.bits = bits

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.posterize, inpt, bits=self.bits)


class RandomSolarize(RandomApplyTransform):
    """Invert what is not darker than a threshold, with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomSolarize.html
    """

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p=p)
        self.threshold = threshold

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.solarize, inpt, threshold=self.threshold)


class RandomAdjustSharpness(RandomApplyTransform):
    """Make images sharper or blur them, with a probability of ``p``.

    Args:
        sharpness_factor: 0 gives a blurred image, 1 the image, 2 a sharper one.
        p: the probability.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomAdjustSharpness.html
    """

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p=p)
        self.sharpness_factor = sharpness_factor

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return self._call(F.adjust_sharpness, inpt, sharpness_factor=self.sharpness_factor)
