"""Fake tensors, of which there are none here: tensors on the meta device have shapes and dtypes without values."""

from typing import Any

from .._base.refused import refused_class
from .._tensor.tensor import Tensor

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]

_WHY = "there are no fake tensors here: make tensors on the meta device, or use jax.eval_shape"
FakeTensor = refused_class("torch._subclasses.fake_tensor.FakeTensor", _WHY, Tensor)
FakeTensorMode = refused_class("torch._subclasses.fake_tensor.FakeTensorMode", _WHY)


def is_fake(x: Any) -> bool:
    """False: no tensor here is one."""
    return False
