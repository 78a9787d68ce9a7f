"""The handle on a Storage (`tensor.Tensor`): views, strides, histories, creation, printing."""

from . import attributes, copying, gradients, interop, subclass, typed, untyped  # methods of Tensor
