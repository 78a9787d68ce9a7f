"""The handle on a Storage (`tensor.Tensor`): views, strides, histories, creation, printing."""

from . import copying, gradients, interop, typed  # methods of Tensor
