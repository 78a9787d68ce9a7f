"""The core: dtypes, devices, the mutable cell, the op registry and dispatch, tensors, random numbers."""
