"""How the arguments and results of a program are nested, as JSON: the same in a process without the user's classes.

A structure is ``"*"`` for a leaf, or a list ``[kind, context, children]``. The kinds are tuple, list, dict,
OrderedDict, namedtuple (the context has its name and its fields) and dataclass (the name it was registered under, and
its fields).
"""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..utils import _pytree
from ..utils._pytree import LeafSpec, TreeSpec

__all__ = [
    "LEAF",
    "Structure",
    "flattened",
    "ordered",
    "register_dataclass",
    "shown",
    "unflattened",
    "unknown_input",
]

LEAF = "*"
Structure = Any

#: by the names that files have, classes that `register_dataclass` was given
_classes: dict[str, type] = {}
#: by class the name that it has in a file
_names: dict[type, str] = {}
_PLAIN: dict[str, Any] = {kind.__name__: kind for kind in (tuple, list, dict, OrderedDict)}


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let arguments and results of exported programs be objects of a dataclass.

    A process that loads the program from a file has to register the class under the same name. A class that is
    registered again, or a name that another class had, gives a warning; the last registration counts.

    Args:
        cls: the dataclass.
        serialized_type_name: its name in files. Default: its module and qualified name.

    Raises:
        ValueError: ``cls`` is no dataclass.

    Example:
        >>> import dataclasses, functorch_port as torch
        >>> @dataclasses.dataclass
        ... class Output:
        ...     logits: torch.Tensor
        >>> torch.export.register_dataclass(Output, serialized_type_name="my.Output")

    Reference: https://docs.pytorch.org/docs/stable/export.html#torch.export.register_dataclass
    """
    _pytree.register_dataclass(cls)
    path = f"{cls.__module__}.{cls.__qualname__}"
    name = serialized_type_name or path
    before = _classes.get(name, cls)
    if path != f"{before.__module__}.{before.__qualname__}":  # else it is the same one, defined again
        warnings.warn(
            f"torch.export.register_dataclass: {name!r} was the name of {before}, and is now that of {cls}: programs "
            "with this name are loaded with the new class",
            stacklevel=2,
        )
    _classes[name], _names[cls] = cls, name


def flattened(tree: Any, refuse: Callable[[Any], Exception]) -> tuple[list[tuple[str, Any]], Structure]:
    """The leaves of a tree, each with its path as names joined by ``_``, and the structure.

    Args:
        refuse: the error for a container that files cannot hold.
    """
    pairs, spec = _pytree.tree_flatten_with_path(tree)
    return [("_".join(map(_key, path)), leaf) for path, leaf in pairs], _described(spec, refuse)


def ordered(tree: Any, structure: Structure) -> Any:
    """The tree, its dicts with their keys in the order that they have in a structure."""
    if structure == LEAF:
        return tree
    kind, context, nodes = structure
    if kind == "dict" and type(tree) is dict and set(tree) == set(context):
        return {key: ordered(tree[key], node) for key, node in zip(context, nodes, strict=True)}
    if kind in ("tuple", "list") and type(tree) in (tuple, list) and len(tree) == len(nodes):
        return type(tree)([ordered(child, node) for child, node in zip(tree, nodes, strict=True)])
    return tree


def unknown_input(kind: Any) -> Exception:
    """The error for an argument that a program cannot be given."""
    return ValueError(
        f"Unsupported input type {kind}. Export only supports pytree containers of basic types (Tensor, int, float, "
        "...) as input. To register a custom dataclass, use torch.export.register_dataclass"
    )


def _key(entry: Any) -> str:
    return str(next(iter(vars(entry).values())))


def _described(spec: Any, refuse: Callable[[Any], Exception]) -> Structure:
    if spec.is_leaf():
        return LEAF
    children = [_described(child, refuse) for child in spec.children()]
    if spec.type in (dict, OrderedDict):
        if not all(type(key) in (str, int) for key in spec.context):
            raise refuse("a dict with keys that are neither str nor int")
        return [spec.type.__name__, list(spec.context), children]
    if spec.type in (tuple, list):
        return [spec.type.__name__, None, children]
    if spec.type is namedtuple:
        return ["namedtuple", [spec.context.__name__, *spec.context._fields], children]
    if spec.type not in _names:
        raise refuse(spec.type)
    return ["dataclass", [_names[spec.type], *spec.context], children]


def unflattened(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree of this structure."""
    return _spec(structure).unflatten(leaves)


def _spec(structure: Structure) -> TreeSpec:
    """What `_described` was given."""
    if structure == LEAF:
        return LeafSpec()
    kind, context, nodes = structure
    children = list(map(_spec, nodes))
    if kind in _PLAIN:
        return TreeSpec(_PLAIN[kind], context, children)
    name, *fields = context
    if kind == "namedtuple":
        return TreeSpec(namedtuple, _named_tuple(name, *fields), children)
    if name not in _classes:
        raise RuntimeError(
            f"the program has objects of the dataclass {name!r}: register it with "
            f"torch.export.register_dataclass(cls, serialized_type_name={name!r})"
        )
    return TreeSpec(_classes[name], fields, children)


@cache
def _named_tuple(name: str, *fields: str) -> Any:
    return namedtuple(name, fields)


def shown(structure: Structure) -> str:
    """The structure as a Python expression with ``*`` for each leaf."""
    if structure == LEAF:
        return LEAF
    kind, context, nodes = structure
    children = list(map(shown, nodes))
    if kind == "list":
        return f"[{', '.join(children)}]"
    if kind == "tuple":
        return f"({', '.join(children)}{',' * (len(children) == 1)})"
    if kind in ("dict", "OrderedDict"):
        return "{" + ", ".join(f"{k!r}: {c}" for k, c in zip(context, children, strict=True)) + "}"
    name, *fields = context
    return f"{name}({', '.join(f'{f}={c}' for f, c in zip(fields, children, strict=True))})"
