"""Nested containers as a list of leaves and a structure. Dicts keep the order of their keys, which JAX's trees sort.

What takes apart something that a user gave, or puts together what a user gets, does it here. Containers are those in
`NODES`, named tuples, and objects of classes registered with JAX. Tensors are leaves, and None is an empty container.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import jax
import numpy as np

from .._array.symbolic import SymNumber
from .tensor import Tensor

__all__ = [
    "LEAF", "NODES", "NodeDef", "Structure", "broadcast", "builder", "flatten", "flatten_call", "flatten_up_to", "keys",
    "leaves", "map", "tensors", "unflatten",
]  # fmt: skip

_map = map
Leafy = Callable[[Any], bool] | None
#: (type, context, nodes of the children...) of a container, None for a leaf
Node = tuple[Any, ...] | None


class NodeDef(NamedTuple):
    """How objects of a type are taken apart into children and a context, and put together again."""

    type: Any
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten_fn: Callable[[Any, Any], Any]


class _Keys(list[Any]):
    """Keys of a dict that are not all strings: 1 and True are two, and Tensors are compared one by one."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and _map_all(_same_key, self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def _same_key(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and not isinstance(a, Tensor) and a == b)


def _map_all(test: Callable[[Any, Any], bool], ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    return len(ours) == len(theirs) and all(_map(test, ours, theirs))


def _keys(table: Iterable[Any]) -> list[Any]:
    for key in table:
        if type(key) is not str:
            return _Keys(table)
    return [*table]


#: the types of containers, whether JAX knows them or not
NODES: dict[Any, NodeDef] = {
    definition.type: definition
    for definition in (
        NodeDef(tuple, lambda x: (x, None), lambda v, c: tuple(v)),
        NodeDef(list, lambda x: (x, None), lambda v, c: list(v)),
        NodeDef(dict, lambda x: (x.values(), _keys(x)), lambda v, c: dict(zip(c, v, strict=True))),
        NodeDef(
            OrderedDict,
            lambda x: (x.values(), _keys(x)),
            lambda v, c: OrderedDict(zip(c, v, strict=True)),
        ),
        NodeDef(
            defaultdict,
            lambda x: (x.values(), [x.default_factory, _keys(x)]),
            lambda v, c: defaultdict(c[0], zip(c[1], v, strict=True)),
        ),
        NodeDef(deque, lambda x: (x, x.maxlen), lambda v, c: deque(v, maxlen=c)),
        NodeDef(type(None), lambda x: ((), None), lambda v, c: None),
    )
}

#: the types of most leaves: no need to look further
_PLAIN = {Tensor, SymNumber, int, float, bool, complex, str, bytes, np.ndarray}


class Structure:
    """The structure of a tree. Two are equal if the containers are, with the same keys in the same order.

    Attributes:
        node: the root's.
        num_leaves: how many leaves there are.
    """

    __slots__ = ("node", "num_leaves")

    def __init__(self, node: Node, num_leaves: int) -> None:
        self.node, self.num_leaves = node, num_leaves

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and self.node == other.node

    def __hash__(self) -> int:  # what tells containers apart need not be hashable
        return self.num_leaves

    def __repr__(self) -> str:
        return str(unflatten(self, ["*"] * self.num_leaves)).replace("'*'", "*")


#: the structure of a tree that is one leaf
LEAF = Structure(None, 1)


# ------------------------------------------------------------------ taking apart


def flatten(tree: Any, is_leaf: Leafy = None) -> tuple[list[Any], Structure]:
    """The leaves in order, and the structure.

    Args:
        tree: any object.
        is_leaf: says of an object that it is not taken apart, either.

    Example:
        >>> from functorch_port._tensor import tree
        >>> tree.flatten({"b": [1, 2], "a": 3})
        ([1, 2, 3], {'b': [*, *], 'a': *})
    """
    found: list[Any] = []
    node = _node(tree, found, is_leaf)
    return found, Structure(node, len(found))


def flatten_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Structure]:
    """`flatten` of ``(args, kwargs)``, in less time."""
    found: list[Any] = []
    positional = (tuple, None, *_nodes(args, found, None))
    named = _node(kwargs, found, None) if kwargs else _NO_NAMES
    return found, Structure((tuple, None, positional, named), len(found))


_NO_NAMES: Node = (dict, [])


def _node(x: Any, found: list[Any], is_leaf: Leafy) -> Node:
    if isinstance(x, Tensor) or (is_leaf is not None and is_leaf(x)):
        found.append(x)
        return None
    kind = type(x)
    definition = NODES.get(kind)
    if definition is not None:
        children, context = definition.flatten_fn(x)
    elif jax.tree_util.all_leaves((x,)):
        found.append(x)
        return None
    else:  # a named tuple, or registered with JAX
        children, context = jax.tree_util.tree_flatten(x, is_leaf=lambda y: y is not x)
    return (kind, context, *_nodes(children, found, is_leaf))


def _nodes(children: Iterable[Any], found: list[Any], is_leaf: Leafy) -> list[Node]:
    nodes: list[Node] = []
    for child in children:
        if type(child) in _PLAIN:
            found.append(child)
            nodes.append(None)
        else:
            nodes.append(_node(child, found, is_leaf))
    return nodes


def leaves(tree: Any, is_leaf: Leafy = None) -> list[Any]:
    """The leaves in order."""
    return flatten(tree, is_leaf)[0]


def tensors(tree: Any) -> list[Tensor]:
    """The Tensors among the leaves."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Tensor)]


# --------------------------------------------------------------- putting together


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The tree of that structure with these leaves."""
    return _build(structure.node, iter(leaves))


def _build(node: Node, leaves: Iterator[Any]) -> Any:
    if node is None:
        return next(leaves)
    kind, context, *nodes = node
    children = [next(leaves) if n is None else _build(n, leaves) for n in nodes]
    return _made(kind, context, children)


def _made(kind: Any, context: Any, children: list[Any]) -> Any:
    definition = NODES.get(kind)
    return context.unflatten(children) if definition is None else definition.unflatten_fn(children, context)


def builder(structure: Structure) -> Callable[[Sequence[Any]], Any]:
    """`unflatten` for one structure, as a function of the leaves: slow to make, and five times as fast."""
    names: dict[str, Any] = {"made": _made}
    try:
        return eval(f"lambda x: {_source(structure.node, count(), names)}", names)
    except (SyntaxError, MemoryError, RecursionError):  # nested too deeply for Python's parser
        return partial(unflatten, structure)


def _source(node: Node, places: Iterator[int], names: dict[str, Any]) -> str:
    if node is None:
        return f"x[{next(places)}]"
    kind, context, *nodes = node
    parts = [_source(n, places, names) for n in nodes]
    inner = "".join(f"{part}, " for part in parts)
    if kind is tuple or kind is list:
        return f"({inner})" if kind is tuple else f"[{inner}]"
    name = f"n{len(names)}"
    if kind is dict:
        keys = [repr(key) if type(key) is str else f"{name}[{i}]" for i, key in enumerate(context)]
        names[name] = context
        return "{" + ", ".join(f"{key}: {part}" for key, part in zip(keys, parts, strict=True)) + "}"
    names[name] = (kind, context)
    return f"made(*{name}, [{inner}])"


def map(fn: Callable[[Any], Any], tree: Any, is_leaf: Leafy = None) -> Any:
    """The tree with ``fn`` of every leaf."""
    found, structure = flatten(tree, is_leaf)
    return unflatten(structure, _map(fn, found))


# ------------------------------------------------------------- along a structure


def keys(structure: Structure) -> list[list[Any]]:
    """The keys of each dict."""
    found: list[list[Any]] = []
    _add_keys(structure.node, found)
    return found


def _add_keys(node: Node, found: list[list[Any]]) -> None:
    if node is not None:
        kind, context, *nodes = node
        if kind in (dict, OrderedDict, defaultdict):
            found.append(context[1] if kind is defaultdict else context)
        for n in nodes:
            _add_keys(n, found)


def flatten_up_to(structure: Structure, tree: Any) -> list[Any] | None:
    """The parts of ``tree`` at the leaves of a structure, dicts by their keys in any order; None if it has another."""
    found: list[Any] = []
    return found if _parts(structure.node, tree, found) else None


def _parts(node: Node, tree: Any, found: list[Any]) -> bool:
    if node is None:
        found.append(tree)
        return True
    kind, context, *nodes = node
    if type(tree) is not kind:
        return False
    if kind is dict and tree.keys() == set(context):
        return all(_parts(n, tree[key], found) for n, key in zip(nodes, context, strict=True))
    children: list[Any] = []
    one_level = _node(tree, children, lambda y: y is not tree)
    if one_level != (kind, context, *[None] * len(nodes)):
        return False
    return all(_parts(n, child, found) for n, child in zip(nodes, children, strict=True))


def broadcast(prefix: Any, structure: Structure, is_leaf: Leafy = None) -> list[Any] | None:
    """One value for each leaf of a structure, from a tree whose leaves may stand for whole subtrees of it.

    None if the structures differ.
    """
    values, shape = flatten(prefix, is_leaf)
    found: list[Any] = []
    return found if _spread(shape.node, structure.node, iter(values), found) else None


def _spread(prefix: Node, node: Node, values: Iterator[Any], found: list[Any]) -> bool:
    if prefix is None:
        found += [next(values)] * _size(node)
        return True
    if node is None or prefix[:2] != node[:2] or len(prefix) != len(node):
        return False
    return all(_spread(p, n, values, found) for p, n in zip(prefix[2:], node[2:], strict=True))


def _size(node: Node) -> int:
    return 1 if node is None else sum(_map(_size, node[2:]))
