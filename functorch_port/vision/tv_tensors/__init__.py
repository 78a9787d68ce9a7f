"""``torchvision.tv_tensors``: tensors that say what they are, for the transforms of v2.

What an operation returns is an ordinary tensor, except for ``clone``, ``detach``, ``to`` and ``requires_grad_``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import functorch_port as torch
from functorch_port._C import DisableTorchFunctionSubclass
from functorch_port._tensor.tensor import Tensor
from functorch_port.vision._refused import refusing as _refusing

__all__ = ["BoundingBoxFormat", "BoundingBoxes", "Image", "Mask", "TVTensor", "wrap"]

_KEEP = frozenset({"clone", "detach", "requires_grad_", "to"})


class TVTensor(Tensor):
    """The base of tensors that say what they are."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with DisableTorchFunctionSubclass():
            out = plain(func(*args, **(kwargs or {})))
        if getattr(func, "__name__", "") in _KEEP and isinstance(args[0], cls) and isinstance(out, Tensor):
            return wrap(out, like=args[0])
        return out

    def _meta(self) -> dict[str, Any]:
        """What the tensor knows besides its values: the keyword arguments of its class."""
        return {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return wrap(plain(self).detach().clone().requires_grad_(self.requires_grad), like=self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _of, (type(self), plain(self), self._meta())

    def __repr__(self, **kwargs: Any) -> str:
        if isinstance(self, Mask):
            return super().__repr__()
        more = ", ".join(f"{name}={value}" for name, value in self._meta().items())
        return f"{super().__repr__().removesuffix(')')}, {more})"


def plain(x: Any) -> Any:
    """A tensor as an ordinary one, without a copy; other values as they are."""
    if isinstance(x, TVTensor):
        return x.as_subclass(Tensor)
    if type(x) in (tuple, list):
        return type(x)(map(plain, x))
    return x


def _of(cls: Any, tensor: Tensor, meta: Mapping[str, Any]) -> Any:
    made = tensor.as_subclass(cls)
    for name, value in meta.items():
        setattr(made, name, value)
    return made


def _pixels(data: Any) -> Any:
    """A Pillow image as a tensor; other data as they are."""
    if not hasattr(data, "getbands"):
        return data
    from functorch_port.vision.transforms.functional import pil_to_tensor

    return pil_to_tensor(data)


def _tensor(data: Any, dtype: Any, device: Any, requires_grad: bool | None) -> Tensor:
    if requires_grad is None:
        requires_grad = isinstance(data, Tensor) and data.requires_grad
    made = torch.as_tensor(plain(data), dtype=dtype, device=device)
    return made if made.requires_grad == requires_grad else made.detach().requires_grad_(requires_grad)


class Image(TVTensor):
    """An image (..., C, H, W).

    Args:
        data: a tensor, a Pillow image, or what `torch.as_tensor` takes.
        dtype, device, requires_grad: of the tensor. Default: those of the data.

    Raises:
        ValueError: it has fewer than two dimensions.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision import tv_tensors
        >>> tv_tensors.Image(torch.zeros(2, 2)).shape
        torch.Size([1, 2, 2])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.tv_tensors.Image.html
    """

    def __new__(
        cls, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool | None = None
    ) -> Any:
        tensor = _tensor(_pixels(data), dtype, device, requires_grad)
        if tensor.ndim < 2:
            raise ValueError(f"Tensor must be 2D or higher, got {tensor.ndim}D tensor.")
        return (tensor.unsqueeze(0) if tensor.ndim == 2 else tensor).as_subclass(cls)


class Mask(TVTensor):
    """Masks (..., H, W): a class for each pixel, or one mask for each object.

    Args:
        data, dtype, device, requires_grad: as in `Image`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.tv_tensors.Mask.html
    """

    def __new__(
        cls, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool | None = None
    ) -> Any:
        return _tensor(_pixels(data), dtype, device, requires_grad).as_subclass(cls)


class BoundingBoxFormat(Enum):
    """The four numbers of a box: two corners, a corner and the sides, or the middle and the sides."""

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"


def format_of(format: Any) -> BoundingBoxFormat:
    """A format that is given as itself or by its name.

    Raises:
        NotImplementedError: it is one of rotated boxes.
        ValueError: there is no such format.
    """
    name = format.value if isinstance(format, BoundingBoxFormat) else str(format).upper()
    if name in ("XYWHR", "CXCYWHR", "XYXYXYXY"):
        raise NotImplementedError(f"rotated boxes ({name}) are not supported; give XYXY, XYWH or CXCYWH")
    if name not in BoundingBoxFormat.__members__:
        raise ValueError(f"format {format!r} is none of {', '.join(BoundingBoxFormat.__members__)}")
    return BoundingBoxFormat[name]


class BoundingBoxes(TVTensor):
    """Boxes (N, 4) in an image.

    Args:
        data: as in `Image`; one box may be given without the first dimension.
        format: a `BoundingBoxFormat`, or its name.
        canvas_size: height and width of the image.
        clamping_mode: "soft" and "hard" cut boxes at the border of the image after a transform; None leaves them.
        dtype, device, requires_grad: as in `Image`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.tv_tensors.BoundingBoxes.html
    """

    format: BoundingBoxFormat
    canvas_size: tuple[int, int]
    clamping_mode: str | None

    def __new__(
        cls,
        data: Any,
        *,
        format: Any,
        canvas_size: tuple[int, int],
        clamping_mode: str | None = "soft",
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> Any:
        if clamping_mode not in ("soft", "hard", None):
            raise ValueError(f"clamping_mode must be soft, hard or None, got {clamping_mode!r}")
        tensor = _tensor(data, dtype, device, requires_grad)
        if tensor.ndim == 1:
            tensor = tensor.unsqueeze(0)
        if tensor.ndim != 2:
            raise ValueError(f"Expected a 1D or 2D tensor, got {tensor.ndim}D")
        if tensor.shape[-1] != 4:
            raise ValueError(
                f"Expected four numbers for each box, got {tensor.shape[-1]}; without a box, give torch.empty(0, 4)"
            )
        height, width = canvas_size
        meta = {"format": format_of(format), "canvas_size": (height, width), "clamping_mode": clamping_mode}
        return _of(cls, tensor, meta)

    def _meta(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("format", "canvas_size", "clamping_mode")}


def wrap(wrappee: Tensor, *, like: Tensor, **kwargs: Any) -> Any:
    """A tensor as one of the same kind as another.

    Args:
        wrappee: the tensor.
        like: gives the kind, and for boxes the format, the size of the image and how they are cut. With an ordinary
            tensor, the result is one.
        kwargs: of the latter, those that differ.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.tv_tensors.wrap.html
    """
    if not isinstance(like, TVTensor):
        return plain(wrappee)
    if "format" in kwargs:
        kwargs["format"] = format_of(kwargs["format"])
    return _of(type(like), plain(wrappee), {**like._meta(), **kwargs})


__getattr__ = _refusing(
    __name__,
    ("KeyPoints", "Video", "is_rotated_bounding_format", "set_return_type"),
    "tv_tensors.Image of a batch of frames, or the tensors themselves; Tensor.as_subclass(torch.Tensor) unwraps",
)
