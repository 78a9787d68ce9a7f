"""``torch._dynamo._trace_wrapped_higher_order_op``: a context that libraries put around `vmap`."""

from __future__ import annotations

import contextlib

__all__ = ["TransformGetItemToIndex"]

#: does nothing: indexing with tensors works under `vmap`
TransformGetItemToIndex = contextlib.nullcontext
