"""Which function of images, masks and boxes is called for what is given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functorch_port._tensor.tensor import Tensor
from functorch_port.vision._pillow import Image as Pillow
from functorch_port.vision.tv_tensors import BoundingBoxes, Image, Mask, TVTensor, plain, wrap

__all__ = ["any_kind", "is_pure_tensor", "register_kernel"]


def is_pure_tensor(inpt: Any) -> bool:
    """Whether it is a tensor that does not say what it is."""
    return isinstance(inpt, Tensor) and not isinstance(inpt, TVTensor)


def any_kind(
    image: Callable[..., Any],
    mask: Callable[..., Any] | None = None,
    boxes: Callable[..., Any] | None = None,
    colors: bool = False,
    name: str | None = None,
) -> Callable[..., Any]:
    """A function of Pillow images, tensors, and what `tv_tensors` has.

    Args:
        image: the function of Pillow images and ordinary tensors.
        mask: that of an ordinary tensor (N, H, W) of masks.
        boxes: that of `BoundingBoxes`, which returns some.
        colors: whether masks and boxes stay as they are, as transforms ask for.
        name: of the function. Default: that of ``image``.
    """
    name = name or image.__name__
    kernels: dict[type, Callable[..., Any]] = {}
    if mask is not None:
        kernels[Mask] = _of_masks(mask)
    if boxes is not None:
        kernels[BoundingBoxes] = boxes

    @functools.wraps(image)
    def call(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        kind = type(inpt)
        if kind is Tensor or isinstance(inpt, Pillow.Image):
            return image(inpt, *args, **kwargs)
        own = next((kernels[k] for k in kind.__mro__ if k in kernels), None)
        if own is not None:
            return own(inpt, *args, **kwargs)
        if isinstance(inpt, Image):
            return _wrapped(image(plain(inpt), *args, **kwargs), inpt)
        if is_pure_tensor(inpt):  # of a class of the user's
            return image(inpt, *args, **kwargs)
        what = f"Functional F.{name} supports inputs of type Image, Tensor, PIL.Image.Image"
        what += "".join(f", {k.__name__}" for k in kernels)
        if isinstance(inpt, TVTensor) and not colors:
            raise NotImplementedError(
                f"{what}, but got {kind.__name__} instead. Transform the image without it"
            )
        raise TypeError(f"{what}, but got {kind} instead.")

    call.__name__ = call.__qualname__ = name
    call.kernels = kernels  # type: ignore[attr-defined]
    call.colors = colors  # type: ignore[attr-defined]
    return call


def _of_masks(fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(inpt: Mask, *args: Any, **kwargs: Any) -> Any:
        masks = plain(inpt)
        if masks.ndim == 2:
            return wrap(fn(masks.unsqueeze(0), *args, **kwargs).squeeze(0), like=inpt)
        return _wrapped(fn(masks, *args, **kwargs), inpt)

    return call


def _wrapped(out: Any, like: TVTensor) -> Any:
    if isinstance(out, tuple):
        return tuple(wrap(part, like=like) for part in out)
    return wrap(out, like=like)


def register_kernel(functional: Any, tv_tensor_cls: type) -> Callable[[Any], Any]:
    """Have a function of `v2.functional` call another one for a class of tensors of your own.

    Args:
        functional: the function, or its name.
        tv_tensor_cls: a subclass of `TVTensor`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.functional.register_kernel.html
    """
    if isinstance(functional, str):
        from functorch_port.vision.transforms.v2 import functional as module

        functional = getattr(module, functional)
    if not hasattr(functional, "kernels"):
        raise ValueError(f"{functional} is no function of v2.functional that takes several kinds of inputs")
    if not issubclass(tv_tensor_cls, TVTensor):
        raise ValueError(
            f"Kernels can only be registered for subclasses of TVTensor, but got {tv_tensor_cls}."
        )

    def register(kernel: Any) -> Any:
        functional.kernels[tv_tensor_cls] = kernel
        return kernel

    return register
