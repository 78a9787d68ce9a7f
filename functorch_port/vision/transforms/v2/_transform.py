"""`Transform`, the base of the transforms of v2: what of the inputs they change, and with which parameters."""

from __future__ import annotations

import enum
import numbers
from collections.abc import Callable, Sequence
from typing import Any

from functorch_port._tensor.tensor import Tensor
from functorch_port.nn import Module
from functorch_port.utils._pytree import tree_flatten, tree_unflatten
from functorch_port.vision._pillow import Image as Pillow
from functorch_port.vision.transforms._draws import chance
from functorch_port.vision.transforms._geometric import pair_of_sizes
from functorch_port.vision.tv_tensors import BoundingBoxes, Image, Mask, TVTensor

from . import functional as F

__all__ = [
    "RandomApplyTransform", "Transform", "check_type", "checked_fill", "fill_for", "has_all", "has_any",
    "no_masks_or_boxes", "query_chw", "query_size", "two_sizes",
]  # fmt: skip

Kinds = tuple[Any, ...]


def check_type(obj: Any, types_or_checks: Kinds) -> bool:
    """Whether a value is of one of the types, or passes one of the checks."""
    return any(isinstance(obj, t) if isinstance(t, type) else t(obj) for t in types_or_checks)


def has_all(flat_inputs: Sequence[Any], *types_or_checks: Any) -> bool:
    """Whether for each of the types and checks there is a value of it."""
    return all(has_any(flat_inputs, wanted) for wanted in types_or_checks)


def has_any(flat_inputs: Sequence[Any], *types_or_checks: Any) -> bool:
    """Whether one of the values is of one of the types, or passes one of the checks."""
    return any(check_type(inpt, types_or_checks) for inpt in flat_inputs)


#: what has a height and a width
SIZED: Kinds = (Tensor, Pillow.Image)
IMAGES: Kinds = (F.is_pure_tensor, Image, Pillow.Image)


def query_size(flat_inputs: Sequence[Any]) -> tuple[int, int]:
    """The height and the width of the images, masks and boxes.

    Raises:
        TypeError: there is none.
        ValueError: they differ.
    """
    sizes = {tuple(F.get_size(inpt)) for inpt in flat_inputs if check_type(inpt, SIZED)}
    if not sizes:
        raise TypeError("No image, video, mask, bounding box of keypoint was found in the sample")
    return _the_only(sizes, "HxW")


def query_chw(flat_inputs: Sequence[Any]) -> tuple[int, int, int]:
    """The channels, the height and the width of the images.

    Raises:
        TypeError: there is none.
        ValueError: they differ.
    """
    sizes = {tuple(F.get_dimensions(inpt)) for inpt in flat_inputs if check_type(inpt, IMAGES)}
    if not sizes:
        raise TypeError("No image or video was found in the sample")
    return _the_only(sizes, "CxHxW")


def _the_only(sizes: set[Any], what: str) -> Any:
    if len(sizes) > 1:
        listed = ", ".join(f"'{size}'" for size in sorted(sizes))
        raise ValueError(f"Found multiple {what} dimensions in the sample: {listed}")
    return sizes.pop()


class Transform(Module):
    """The base of transforms, of one input or several, also in dicts, lists and tuples.

    Images, masks, boxes and Pillow images are changed together. An ordinary tensor is an image if it is the first one,
    and there is no `tv_tensors.Image` or Pillow image; all else stays as it is. Subclasses define ``transform(inpt,
    params)`` and, to draw parameters for all inputs, ``make_params(flat_inputs)``.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.Transform.html
    """

    _transformed_types: Kinds = SIZED

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Raise an error for inputs that are not supported."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the parameters, which are the same for all inputs."""
        return {}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        raise NotImplementedError

    def forward(self, *inputs: Any) -> Any:
        """Change the inputs."""
        flat, spec = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        self.check_inputs(flat)
        return self._changed(flat, spec)

    def _changed(self, flat: list[Any], spec: Any) -> Any:
        chosen = self._chosen(flat)
        params = self.make_params([inpt for inpt, is_chosen in zip(flat, chosen) if is_chosen])
        changed = [
            self.transform(inpt, params) if is_chosen else inpt for inpt, is_chosen in zip(flat, chosen)
        ]
        return tree_unflatten(changed, spec)

    def _chosen(self, flat_inputs: list[Any]) -> list[bool]:
        """Which inputs are changed: of the ordinary tensors at most the first one."""
        pure = not has_any(flat_inputs, Image, Pillow.Image)
        chosen = []
        for inpt in flat_inputs:
            is_chosen = check_type(inpt, self._transformed_types)
            if is_chosen and F.is_pure_tensor(inpt):
                is_chosen, pure = pure, False
            chosen.append(is_chosen)
        return chosen

    def _call(self, functional: Callable[..., Any], inpt: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function of `v2.functional`; masks and boxes stay as they are where it changes colors alone."""
        of_colors = isinstance(inpt, TVTensor) and not isinstance(inpt, Image)
        if of_colors and functional.colors and type(inpt) not in functional.kernels:  # type: ignore[attr-defined]
            return inpt
        return functional(inpt, *args, **kwargs)

    def extra_repr(self) -> str:
        """The public attributes that are numbers, strings, sequences or choices."""
        shown = bool | int | float | str | tuple | list | enum.Enum
        return ", ".join(
            f"{name}={value}"
            for name, value in vars(self).items()
            if not name.startswith("_") and name != "training" and isinstance(value, shown)
        )


class RandomApplyTransform(Transform):
    """A transform that is applied with a probability."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        """Change the inputs, or return them."""
        whole = inputs if len(inputs) > 1 else inputs[0]
        flat, spec = tree_flatten(whole)
        self.check_inputs(flat)
        if not chance(self.p):
            return whole
        return self._changed(flat, spec)


def fill_for(fill: Any, inpt: Any) -> Any:
    """The color of new pixels for an input: one for all kinds, or a dict by kind, with "others"; None is black."""
    return fill.get(type(inpt), fill.get("others")) if isinstance(fill, dict) else fill


def checked_fill(fill: Any) -> Any:
    """Refuse what is no color."""
    for value in fill.values() if isinstance(fill, dict) else [fill]:
        if value is not None and not isinstance(value, numbers.Number | tuple | list):
            raise TypeError("Got inappropriate fill arg, only Numbers, tuples, lists and dicts are allowed.")
    return fill


def two_sizes(size: Any) -> tuple[int, int]:
    """Height and width, given as one number or two."""
    if not isinstance(size, int | Sequence):
        raise TypeError("Please provide only two dimensions (h, w) for size.")
    return pair_of_sizes(size)


def no_masks_or_boxes(flat_inputs: Sequence[Any], name: str) -> None:
    """Refuse what a transform of images alone cannot change with them."""
    for inpt in flat_inputs:
        if isinstance(inpt, Mask | BoundingBoxes):
            raise TypeError(f"Inputs of type {type(inpt).__name__} are not supported by {name}()")
