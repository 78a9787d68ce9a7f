"""Augmentation by operations that are chosen at random: AutoAugment, RandAugment, TrivialAugment and AugMix."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.nn import Module

from . import functional as F
from ._draws import integer
from ._modes import InterpolationMode
from ._policies import POLICIES
from ._spaces import AUTO, COLORS, MIX, RAND, SIGNED, WIDE, apply, drawn, magnitudes
from ._tensor_color import add_scaled
from ._warping import fill_of

__all__ = ["AugMix", "AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide"]


class AutoAugmentPolicy(Enum):
    """The data set whose policy `AutoAugment` has."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


class _Augment(Module):
    """What all have: how images are sampled, and the color of what was outside."""

    def __init__(self, interpolation: Any, fill: Any) -> None:
        super().__init__()
        self.interpolation = interpolation
        self.fill = fill

    def _applied(self, img: Any, name: str, magnitude: float) -> Any:
        return apply(img, name, magnitude, self.interpolation, fill_of(self.fill, img))

    def _random(self, img: Any, space: Any, bins: int, index: int | None, below: int | None = None) -> Any:
        """An image after one operation: which one, and what is not given, is drawn. See `_spaces.drawn`."""
        _, height, width = F.get_dimensions(img)
        name, magnitude = drawn(space, bins, (height, width), index, below, lambda: integer(0, 2) == 1)
        return self._applied(img, name, magnitude)


class AutoAugment(_Augment):
    """Two operations of a policy that was learned: https://arxiv.org/abs/1805.09501.

    Args:
        policy: an `AutoAugmentPolicy`.
        interpolation: an `InterpolationMode`; tensors allow nearest and bilinear.
        fill: the color of what was outside, a number or one for each channel.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.AutoAugment.html
    """

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.policy = policy
        self.policies = policies_of(policy)

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, Tensor, Tensor]:
        """Draw which pair of operations, how probable each is, and their signs."""
        return integer(0, transform_num), torch.rand((2,)), torch.randint(2, (2,))

    def forward(self, img: Any) -> Any:
        which, chances, signs = self.get_params(len(self.policies))
        for (name, p, step), chance, sign in zip(self.policies[which], chances.tolist(), signs.tolist()):
            if chance > p:
                continue
            _, height, width = F.get_dimensions(img)
            steps = magnitudes(AUTO, name, 10, (height, width))
            magnitude = 0.0 if step is None or steps is None else steps[step]
            img = self._applied(img, name, -magnitude if name in SIGNED and sign == 0 else magnitude)
        return img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(policy={self.policy}, fill={self.fill})"


def policies_of(policy: Any) -> list[Any]:
    """The pairs of operations of a policy.

    Raises:
        ValueError: there is no such policy.
    """
    if not isinstance(policy, AutoAugmentPolicy):
        raise ValueError(f"The provided policy {policy} is not recognized.")
    return POLICIES[policy.value]


class RandAugment(_Augment):
    """Some operations of equal magnitude, chosen at random: https://arxiv.org/abs/1909.13719.

    Args:
        num_ops: how many.
        magnitude: the number of the magnitude.
        num_magnitude_bins: how many magnitudes there are.
        interpolation, fill: as in `AutoAugment`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.RandAugment.html
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_ops = num_ops
        self.magnitude = magnitude
        self.num_magnitude_bins = num_magnitude_bins

    def forward(self, img: Any) -> Any:
        for _ in range(self.num_ops):
            img = self._random(img, RAND, self.num_magnitude_bins, self.magnitude)
        return img

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_ops={self.num_ops}, magnitude={self.magnitude}, "
            f"num_magnitude_bins={self.num_magnitude_bins}, interpolation={self.interpolation}, fill={self.fill})"
        )


class TrivialAugmentWide(_Augment):
    """One operation of a magnitude, both chosen at random: https://arxiv.org/abs/2103.10158.

    Args:
        num_magnitude_bins: how many magnitudes there are.
        interpolation, fill: as in `AutoAugment`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.TrivialAugmentWide.html
    """

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def forward(self, img: Any) -> Any:
        return self._random(img, WIDE, self.num_magnitude_bins, None)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_magnitude_bins={self.num_magnitude_bins}, "
            f"interpolation={self.interpolation}, fill={self.fill})"
        )


class AugMix(_Augment):
    """A random mixture of chains of operations: https://arxiv.org/abs/1912.02781.

    Args:
        severity: the largest magnitude, from 1 to 10.
        mixture_width: the number of chains.
        chain_depth: the operations of a chain; 0 or less for 1 to 3.
        alpha: of the Dirichlet distribution of the weights.
        all_ops: whether brightness, color, contrast and sharpness are among the operations.
        interpolation, fill: as in `AutoAugment`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.AugMix.html
    """

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Any = InterpolationMode.BILINEAR,
        fill: Any = None,
    ) -> None:
        super().__init__(interpolation, fill)
        check_severity(severity)
        self.severity = severity
        self.mixture_width = mixture_width
        self.chain_depth = chain_depth
        self.alpha = alpha
        self.all_ops = all_ops

    def forward(self, orig_img: Any) -> Any:
        if not isinstance(orig_img, Tensor):
            return F.to_pil_image(self._mixed(F.pil_to_tensor(orig_img)))
        return self._mixed(orig_img)

    def _mixed(self, img: Tensor) -> Tensor:
        return mixture(
            self, img, MIX, lambda chain, space: self._random(chain, space, 10, None, self.severity)
        )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(severity={self.severity}, mixture_width={self.mixture_width}, "
            f"chain_depth={self.chain_depth}, alpha={self.alpha}, all_ops={self.all_ops}, "
            f"interpolation={self.interpolation}, fill={self.fill})"
        )


def check_severity(severity: int) -> None:
    """Refuse what is not from 1 to 10."""
    if not 1 <= severity <= 10:
        raise ValueError(f"The severity must be between [1, 10]. Got {severity} instead.")


def mixture(augmix: Any, img: Tensor, space: Any, changed: Callable[[Tensor, Any], Tensor]) -> Tensor:
    """A random mixture of an image and of chains of operations, for `AugMix`.

    Args:
        augmix: says how many chains, how long they are, and what is mixed.
        img: the image, or a batch.
        space: the operations.
        changed: an image after an operation of a space.
    """
    if not augmix.all_ops:
        space = {name: most for name, most in space.items() if name not in COLORS}
    batch = img.reshape(*(1,) * max(4 - img.ndim, 0), *img.shape)
    of_image, weights = _dirichlet_weights(augmix.alpha, augmix.mixture_width, batch.shape[0])
    mixed = add_scaled(torch.zeros((), dtype=of_image.dtype), batch, of_image)
    for i in range(augmix.mixture_width):
        chain = batch
        for _ in range(augmix.chain_depth if augmix.chain_depth > 0 else integer(1, 4)):
            chain = changed(chain, space)
        mixed = add_scaled(mixed, chain, weights[:, i])
    return mixed.view(img.shape).to(img.dtype)


def _dirichlet_weights(alpha: float, width: int, batch: int) -> tuple[Tensor, Tensor]:
    """Draw the weight of each image (batch,), and those of its chains (batch, width), which sum to the rest."""
    share = torch._sample_dirichlet(torch.full((batch, 2), float(alpha)))
    chains = torch._sample_dirichlet(torch.full((batch, width), float(alpha)))
    return share[:, 0], chains * share[:, 1:]
