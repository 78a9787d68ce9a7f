"""The handle on a Storage (`tensor.Tensor`): views, strides, histories, creation, printing."""

from . import attributes, copying, gradients, interop, subclass, typed, untyped  # methods of Tensor
from .copying import _rebuild_from_type_v2 as _rebuild_from_type_v2
