"""The handle on a Storage (`tensor.Tensor`): views, strides, histories, creation, printing."""
