"""Augmentation by operations that are chosen at random, of the one image among the inputs."""

from __future__ import annotations

from typing import Any

from functorch_port._tensor.tensor import Tensor
from functorch_port.utils._pytree import tree_flatten, tree_unflatten
from functorch_port.vision.transforms import _spaces
from functorch_port.vision.transforms import functional as _F
from functorch_port.vision.transforms._draws import integer, uniform
from functorch_port.vision.transforms._spaces import SIGNED, apply, drawn, magnitudes
from functorch_port.vision.transforms.autoaugment import (
    AutoAugmentPolicy,
    check_severity,
    mixture,
    policies_of,
)
from functorch_port.vision.tv_tensors import Image, plain, wrap

from . import functional as F
from ._transform import IMAGES, Transform, check_type, checked_fill, fill_for, no_masks_or_boxes

__all__ = ["AugMix", "AutoAugment", "RandAugment", "TrivialAugmentWide"]

#: solarize takes a part of the range of the image
AUTO, MIX, RAND, WIDE = (
    {**space, "Solarize": 1.0} for space in (_spaces.AUTO, _spaces.MIX, _spaces.RAND, _spaces.WIDE)
)


class _Augment(Transform):
    def __init__(self, interpolation: Any, fill: Any) -> None:
        super().__init__()
        self.interpolation = interpolation
        self.fill = checked_fill(fill)

    def forward(self, *inputs: Any) -> Any:
        """Change the image among the inputs.

        Raises:
            TypeError: there is not exactly one, or there are masks or boxes.
        """
        flat, spec = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        no_masks_or_boxes(flat, type(self).__name__)
        chosen = [i for i, is_chosen in enumerate(self._chosen(flat)) if is_chosen]
        images = [i for i in chosen if check_type(flat[i], IMAGES)]
        if len(images) != 1:
            raise TypeError(
                "Auto augment transformations are only properly defined for a single image or video, but found "
                f"{len(images)}."
            )
        img = flat[images[0]]
        out = self._augmented(plain(img), fill_for(self.fill, img))
        flat[images[0]] = wrap(out, like=img) if isinstance(img, Image) else out
        return tree_unflatten(flat, spec)

    def _augmented(self, img: Any, fill: Any) -> Any:
        raise NotImplementedError

    def _applied(self, img: Any, name: str, magnitude: float, fill: Any) -> Any:
        if name == "Solarize" and not (isinstance(img, Tensor) and img.is_floating_point()):
            magnitude *= 255
        return apply(img, name, magnitude, self.interpolation, fill, F)

    def _random(
        self, img: Any, fill: Any, space: Any, bins: int, index: int | None, below: int | None = None
    ) -> Any:
        """An image after one operation: which one, and what is not given, is drawn. See `_spaces.drawn`."""
        height, width = F.get_size(img)
        name, magnitude = drawn(space, bins, (height, width), index, below, _is_negative)
        return self._applied(img, name, magnitude, fill)


def _is_negative() -> bool:
    return uniform(0, 1) <= 0.5


class AutoAugment(_Augment):
    """Two operations of a policy that was learned: https://arxiv.org/abs/1805.09501.

    Args:
        policy: an `AutoAugmentPolicy`.
        interpolation: an `InterpolationMode` or its name; tensors allow nearest and bilinear.
        fill: the color of what was outside; or a dict by kind, with the key "others".

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.AutoAugment.html
    """

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: Any = "nearest",
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.policy = policy
        self._policies = policies_of(policy)

    def _augmented(self, img: Any, fill: Any) -> Any:
        for name, p, step in self._policies[integer(0, len(self._policies))]:
            if uniform(0, 1) > p:
                continue
            height, width = F.get_size(img)
            steps = magnitudes(AUTO, name, 10, (height, width))
            magnitude = 0.0
            if steps is not None and step is not None:
                magnitude = -steps[step] if name in SIGNED and _is_negative() else steps[step]
            img = self._applied(img, name, magnitude, fill)
        return img


class RandAugment(_Augment):
    """Some operations of equal magnitude, chosen at random: https://arxiv.org/abs/1909.13719.

    Args:
        num_ops: how many.
        magnitude: the number of the magnitude.
        num_magnitude_bins: how many magnitudes there are.
        interpolation, fill: as in `AutoAugment`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandAugment.html
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Any = "nearest",
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_ops = num_ops
        self.magnitude = magnitude
        self.num_magnitude_bins = num_magnitude_bins

    def _augmented(self, img: Any, fill: Any) -> Any:
        for _ in range(self.num_ops):
            img = self._random(img, fill, RAND, self.num_magnitude_bins, self.magnitude)
        return img


class TrivialAugmentWide(_Augment):
    """One operation of a magnitude, both chosen at random: https://arxiv.org/abs/2103.10158.

    Args:
        num_magnitude_bins: how many magnitudes there are.
        interpolation, fill: as in `AutoAugment`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.TrivialAugmentWide.html
    """

    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: Any = "nearest", fill: Any = None
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def _augmented(self, img: Any, fill: Any) -> Any:
        return self._random(img, fill, WIDE, self.num_magnitude_bins, None)


class AugMix(_Augment):
    """A random mixture of chains of operations: https://arxiv.org/abs/1912.02781.

    Args:
        severity: the largest magnitude, from 1 to 10.
        mixture_width: the number of chains.
        chain_depth: the operations of a chain; 0 or less for 1 to 3.
        alpha: of the Dirichlet distribution of the weights.
        all_ops: whether brightness, color, contrast and sharpness are among the operations.
        interpolation, fill: as in `AutoAugment`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.AugMix.html
    """

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Any = "bilinear",
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        check_severity(severity)
        self.severity = severity
        self.mixture_width = mixture_width
        self.chain_depth = chain_depth
        self.alpha = alpha
        self.all_ops = all_ops

    def _augmented(self, img: Any, fill: Any) -> Any:
        if isinstance(img, Tensor):
            return self._mixed(img, fill)
        return _F.to_pil_image(self._mixed(_F.pil_to_tensor(img), fill))

    def _mixed(self, img: Tensor, fill: Any) -> Tensor:
        return mixture(
            self, img, MIX, lambda chain, space: self._random(chain, fill, space, 10, None, self.severity)
        )
