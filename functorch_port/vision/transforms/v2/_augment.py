"""Augmentation of batches (`CutMix`, `MixUp`), and `RandomErasing`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import functorch_port as torch
from functorch_port._tensor.tensor import Tensor
from functorch_port.utils._pytree import tree_flatten, tree_unflatten
from functorch_port.vision._pillow import Image as Pillow
from functorch_port.vision.transforms import _photometric
from functorch_port.vision.transforms._draws import integer
from functorch_port.vision.transforms._tensor_geometry import paste_rolled
from functorch_port.vision.tv_tensors import BoundingBoxes, Image, Mask, plain, wrap

from . import functional as F
from ._transform import RandomApplyTransform, Transform, has_any, query_chw, query_size

__all__ = ["CutMix", "MixUp", "RandomErasing"]


class RandomErasing(RandomApplyTransform):
    """Overwrite a random rectangle of a tensor, with a probability. Masks and boxes stay as they are.

    Args:
        p: the probability.
        scale: the least and the largest part of the area.
        ratio: the least and the largest height, in widths.
        value: what to write: a number, one for each channel, or "random" for normal noise.
        inplace: whether to write to the tensor itself.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.RandomErasing.html
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Any = (0.02, 0.33),
        ratio: Any = (0.3, 3.3),
        value: Any = 0.0,
        inplace: bool = False,
    ) -> None:
        super().__init__(p=p)
        _photometric.RandomErasing(p, scale, ratio, value, inplace)  # checks them
        self.scale = scale
        self.ratio = ratio
        self.value = (
            [float(value)]
            if isinstance(value, int | float)
            else None
            if value == "random"
            else [*map(float, value)]
        )
        self.inplace = inplace

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the rectangle and what to write."""
        channels, rows, columns = query_chw(flat_inputs)
        values = _photometric.erasing_values(self.value, channels)
        drawn = _photometric.drawn_erasure(channels, rows, columns, self.scale, self.ratio, values)
        return {"drawn": drawn}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        drawn = params["drawn"]
        return inpt if drawn is None else self._call(F.erase, inpt, *drawn, self.inplace)


class _OfBatches(Transform):
    """What `CutMix` and `MixUp` have: a share of another sample, for images and labels."""

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        num_classes: int | None = None,
        labels_getter: Callable[[Any], Any] | str | None = "default",
    ) -> None:
        super().__init__()
        self.alpha = float(alpha)
        self.num_classes = num_classes
        self._labels_getter = _getter(labels_getter)

    def forward(self, *inputs: Any) -> Any:
        """Mix each sample of a batch with that before it; labels become shares of classes."""
        whole = inputs if len(inputs) > 1 else inputs[0]
        flat, spec = tree_flatten(whole)
        if has_any(flat, Pillow.Image, BoundingBoxes, Mask):
            raise ValueError(
                f"{type(self).__name__}() does not support PIL images, bounding boxes, keypoints and masks."
            )
        labels = self._labels_getter(whole)
        if not isinstance(labels, Tensor):
            raise ValueError(f"The labels must be a tensor, but got {type(labels)} instead.")
        if labels.ndim not in (1, 2):
            raise ValueError(
                "labels should be index based with shape (batch_size,) or probability based with shape (batch_size, "
                f"num_classes), but got a tensor of shape {labels.shape} instead."
            )
        if labels.ndim == 2 and self.num_classes is not None and labels.shape[-1] != self.num_classes:
            raise ValueError(
                f"When passing 2D labels, the number of elements in last dimension must match num_classes: "
                f"{labels.shape[-1]} != {self.num_classes}. You can Leave num_classes to None."
            )
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError("num_classes must be passed if the labels are index-based (1D)")
        chosen = [
            is_chosen and inpt is not labels and isinstance(inpt, Tensor)
            for inpt, is_chosen in zip(flat, self._chosen(flat))
        ]
        images = [inpt for inpt, is_chosen in zip(flat, chosen) if is_chosen]
        for img in images:
            _check_batch(img, labels)
        params = self.make_params(images)
        changed = []
        for inpt, is_chosen in zip(flat, chosen):
            if inpt is labels:
                inpt = self._mixed_labels(plain(labels), params["share"])
            elif is_chosen:
                out = self.transform(plain(inpt), params)
                inpt = wrap(out, like=inpt) if isinstance(inpt, Image) else out
            changed.append(inpt)
        return tree_unflatten(changed, spec)

    def _drawn(self) -> float:
        """The share, from the distribution Beta(alpha, alpha): a Dirichlet distribution of two."""
        return torch._sample_dirichlet(torch.full((1, 2), self.alpha))[0, 0].item()

    def _mixed_labels(self, labels: Tensor, share: float) -> Tensor:
        if labels.ndim == 1:
            labels = torch.nn.functional.one_hot(labels, num_classes=self.num_classes)  # type: ignore[arg-type]
        return _mixed(labels if labels.dtype.is_floating_point else labels.float(), share)


def _mixed(x: Tensor, share: float) -> Tensor:
    """A share of each sample, and of the one before it the rest."""
    return x.roll(1, 0) * (1.0 - share) + x * share


def _check_batch(img: Tensor, labels: Tensor) -> None:
    if img.ndim != 4:
        raise ValueError(f"Expected a batched input with 4 dims, but got {img.ndim} dimensions instead.")
    if img.shape[0] != labels.shape[0]:
        raise ValueError(
            "The batch size of the image or video does not match the batch size of the labels: "
            f"{img.shape[0]} != {labels.shape[0]}."
        )


def _getter(given: Any) -> Callable[[Any], Any]:
    """The function that finds the labels in the inputs."""
    if given == "default":
        return _default_labels
    if isinstance(given, str):
        return lambda inputs: inputs[given]
    if callable(given):
        return given
    if given is None:
        return lambda inputs: None
    raise ValueError(
        f"labels_getter should either be 'default', a string, None or a callable, but got {given}."
    )


def _default_labels(inputs: Any) -> Any:
    """The second of several inputs, or what a dict calls labels."""
    if isinstance(inputs, tuple | list):
        inputs = inputs[1]
    if F.is_pure_tensor(inputs):
        return inputs
    if not isinstance(inputs, Mapping):
        raise ValueError(
            f"When using the default labels_getter, the input passed to forward must be a dictionary or a two-tuple "
            f"whose second item is a dictionary or a tensor, but got {inputs} instead."
        )
    for matches in (lambda key: key.lower() == "labels", lambda key: "label" in key.lower()):
        for key in inputs:
            if isinstance(key, str) and matches(key):
                return inputs[key]
    raise ValueError(
        "Could not infer where the labels are in the sample. Try passing a callable as the labels_getter parameter?"
    )


class MixUp(_OfBatches):
    """Mix images of a batch, and their labels: https://arxiv.org/abs/1710.09412.

    Args:
        alpha: of the Beta distribution of the share.
        num_classes: the number of classes, if labels are their numbers.
        labels_getter: a function that finds the labels in the inputs, or a key. Default: the second input, or what a
            dict has under "labels" or a name like it.

    Raises:
        ValueError: the input is no batch, or there are no labels.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.MixUp.html
    """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the share."""
        return {"share": self._drawn()}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return _mixed(inpt, params["share"])


class CutMix(_OfBatches):
    """Put a rectangle of another image into each image of a batch, and mix their labels:
    https://arxiv.org/abs/1905.04899.

    Args:
        alpha, num_classes, labels_getter: as in `MixUp`.

    Raises:
        ValueError: the input is no batch, or there are no labels.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.CutMix.html
    """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the rectangle."""
        share = self._drawn()
        height, width = query_size(flat_inputs)
        x, y = integer(0, width), integer(0, height)
        radius = 0.5 * math.sqrt(1.0 - share)
        across, down = int(radius * width), int(radius * height)
        left, top = max(x - across, 0), max(y - down, 0)
        right, bottom = min(x + across, width), min(y + down, height)
        share = float(1.0 - (right - left) * (bottom - top) / (width * height))
        return {"box": (top, left, bottom - top, right - left), "share": share}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Change one input."""
        return paste_rolled(inpt, *params["box"])
