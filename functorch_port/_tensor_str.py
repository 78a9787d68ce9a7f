"""``torch._tensor_str``: tensors as text."""

from __future__ import annotations

from ._tensor.printing import get_printoptions as get_printoptions
from ._tensor.printing import printoptions as printoptions
from ._tensor.printing import set_printoptions as set_printoptions

__all__: list[str] = []
