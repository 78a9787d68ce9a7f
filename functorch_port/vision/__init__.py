"""torchvision's names over this package: models, operators, images, transforms and data sets.

``functorch-port run`` has ``import torchvision`` import it. Parts are imported when they are first used, and Pillow
by what opens images.

Example:
    >>> import functorch_port as torch
    >>> from functorch_port import vision
    >>> vision.models.resnet18(num_classes=10)(torch.rand(1, 3, 64, 64)).shape
    torch.Size([1, 10])

Reference: https://docs.pytorch.org/vision/stable/index.html
"""

from __future__ import annotations

import importlib as _importlib
import pkgutil as _pkgutil
from typing import Any as _Any

from .version import __version__ as __version__

#: what there is in this folder
_PARTS = frozenset(
    _found.name for _found in _pkgutil.iter_modules(__path__) if not _found.name.startswith("_")
)


def set_image_backend(backend: str) -> None:
    """Choose what opens images. Pillow alone is supported.

    Args:
        backend: ``"PIL"``.

    Raises:
        ValueError: it is neither ``"PIL"`` nor ``"accimage"``.
        NotImplementedError: it is ``"accimage"``.

    Reference: https://docs.pytorch.org/vision/stable/index.html#torchvision.set_image_backend
    """
    if backend not in ("PIL", "accimage"):
        raise ValueError(f"Invalid backend '{backend}'. Options are 'PIL' and 'accimage'")
    if backend == "accimage":
        raise NotImplementedError("set_image_backend: accimage is not supported; Pillow ('PIL') opens images")


def get_image_backend() -> str:
    """What opens images: ``"PIL"``.

    Reference: https://docs.pytorch.org/vision/stable/index.html#torchvision.get_image_backend
    """
    return "PIL"


def set_video_backend(backend: str) -> None:
    """Not supported: nothing here decodes videos.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"set_video_backend({backend!r}): videos are not decoded here; PyAV reads their frames"
    )


def get_video_backend() -> str:
    """Not supported: nothing here decodes videos.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("get_video_backend: videos are not decoded here; PyAV reads their frames")


def disable_beta_transforms_warning() -> None:
    """Does nothing: there is no such warning."""


def __getattr__(name: str) -> _Any:
    if name in _PARTS:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS})
