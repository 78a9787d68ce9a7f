"""Transforms made of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import functorch_port as torch
from functorch_port.nn import ModuleList
from functorch_port.vision.transforms._draws import chance

from ._transform import Transform

__all__ = ["Compose", "RandomApply", "RandomChoice", "RandomOrder"]


class _Container(Transform):
    def __init__(self, transforms: Any) -> None:
        super().__init__()
        if not isinstance(transforms, Sequence | ModuleList):
            raise TypeError("Argument transforms should be a sequence of callables")
        self.transforms = transforms

    def _one_after_the_other(self, transforms: Any, inputs: tuple[Any, ...]) -> Any:
        several = len(inputs) > 1
        for transform in transforms:
            out = transform(*inputs)
            inputs = out if several else (out,)
        return inputs if several else inputs[0]


class Compose(_Container):
    """Transforms, one after the other.

    Args:
        transforms: functions of the inputs.

    Raises:
        ValueError: there is none.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.transforms import v2
        >>> prepare = v2.Compose([v2.CenterCrop(4), v2.ToDtype(torch.float32, scale=True)])
        >>> prepare(torch.full((1, 6, 6), 255, dtype=torch.uint8)).sum()
        tensor(16.)

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.Compose.html
    """

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        super().__init__(transforms)
        if not len(transforms):
            raise ValueError("Pass at least one transform")

    def forward(self, *inputs: Any) -> Any:
        """Change the inputs."""
        return self._one_after_the_other(self.transforms, inputs)

    def extra_repr(self) -> str:
        """The transforms."""
        return _lines(self.transforms)


def _lines(transforms: Any) -> str:
    return "\n".join(f"    {t}" for t in transforms)


class RandomApply(_Container):
    """Apply transforms, one after the other, with a probability of ``p``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomApply.html
    """

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__(transforms)
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        """Change the inputs, or return them."""
        if not chance(self.p):
            return inputs if len(inputs) > 1 else inputs[0]
        return self._one_after_the_other(self.transforms, inputs)

    def extra_repr(self) -> str:
        """The transforms."""
        return _lines(self.transforms)


class RandomChoice(_Container):
    """Apply one of several transforms, chosen at random.

    Args:
        transforms: the transforms.
        p: the weight of each. Default: they are equal.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomChoice.html
    """

    def __init__(self, transforms: Any, p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        weights = [1] * len(transforms) if p is None else p
        if len(weights) != len(transforms):
            raise ValueError(
                f"Length of p doesn't match the number of transforms: {len(weights)} != {len(transforms)}"
            )
        total = sum(weights)
        self.p = [weight / total for weight in weights]

    def forward(self, *inputs: Any) -> Any:
        """Change the inputs."""
        return self.transforms[int(torch.multinomial(torch.tensor(self.p), 1))](*inputs)


class RandomOrder(_Container):
    """Apply all transforms in a random order.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomOrder.html
    """

    def forward(self, *inputs: Any) -> Any:
        """Change the inputs."""
        order = torch.randperm(len(self.transforms)).tolist()
        return self._one_after_the_other([self.transforms[i] for i in order], inputs)
