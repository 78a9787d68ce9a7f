"""``torch._tensor_str``: tensors as text, and how they are printed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._tensor.printing import contents_text, tensor_repr
from ._tensor.printing import get_printoptions as get_printoptions
from ._tensor.printing import printoptions as printoptions
from ._tensor.printing import set_printoptions as set_printoptions
from ._tensor.printing import with_suffixes as _add_suffixes  # noqa: F401
from ._tensor.tensor import Tensor

__all__: list[str] = []


class _Options:
    """The options of `set_printoptions`, as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return get_printoptions()[name]
        except KeyError:
            raise AttributeError(name) from None


PRINT_OPTS = _Options()


def _tensor_str(self: Tensor, indent: int) -> str:
    """The numbers of a tensor, where the lines after the first begin with so many spaces."""
    return contents_text(np.asarray(self.detach()._value), indent)


def _str_intern(inp: Tensor, *, tensor_contents: str | None = None) -> str:
    """A tensor as text, with other contents if they are given."""
    return tensor_repr(inp, tensor_contents)
