"""``torch._subclasses``: names of tensors without values, which libraries ask about."""

from . import fake_tensor as fake_tensor
from .fake_tensor import FakeTensor as FakeTensor
from .fake_tensor import FakeTensorMode as FakeTensorMode
