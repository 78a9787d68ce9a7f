"""Files of numpy (``.npz``) and orbax, and `convert` between these, PyTorch's and safetensors.

A module's or optimizer's state is a *tree*: dicts, lists and tuples of tensors, numbers and strings. `to_pytree`
returns it with JAX's arrays in place of tensors. A file of arrays has one array for each tensor, named by its dotted
path in the tree (``optimizer.state.0.exp_avg``; a state dict's are its keys). What such a file cannot hold (numbers,
strings, tuples, keys that are not strings) is stored beside the arrays as JSON, so that the tree is restored exactly.
Files of other programs have no such JSON and load as dicts of tensors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "convert", "format_of", "from_pytree", "inspect", "load_npz", "load_orbax", "read", "save_npz", "save_orbax",
    "to_pytree", "write",
]  # fmt: skip

if TYPE_CHECKING:
    from ._formats import convert as convert
    from ._formats import format_of as format_of
    from ._formats import inspect as inspect
    from ._formats import read as read
    from ._formats import write as write
    from ._npz import load_npz as load_npz
    from ._npz import save_npz as save_npz
    from ._orbax import load_orbax as load_orbax
    from ._orbax import save_orbax as save_orbax
    from ._tree import from_pytree as from_pytree
    from ._tree import to_pytree as to_pytree

#: imported on first use, so that the command line starts without them
_HOMES = {
    **dict.fromkeys(("convert", "format_of", "inspect", "read", "write"), "_formats"),
    **dict.fromkeys(("load_npz", "save_npz"), "_npz"),
    **dict.fromkeys(("load_orbax", "save_orbax"), "_orbax"),
    **dict.fromkeys(("from_pytree", "to_pytree"), "_tree"),
}


if not TYPE_CHECKING:  # where every name is imported

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
