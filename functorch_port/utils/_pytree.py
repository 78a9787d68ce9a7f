"""``torch.utils._pytree``: flatten nested lists, tuples, dicts and registered classes to leaves and a structure.

None is a leaf, unlike in `_tensor.tree`, which holds the table of containers. A class registered here is registered
with JAX too.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax

from .._tensor.tree import NODES, NodeDef

__all__ = [
    "Context", "GetAttrKey", "KeyPath", "LeafSpec", "MappingKey", "PyTree", "PyTreeSpec", "SequenceKey", "TreeSpec",
    "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance", "keystr", "register_dataclass",
    "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only", "tree_flatten",
    "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves", "tree_leaves_with_path", "tree_map",
    "tree_map_", "tree_map_only", "tree_map_only_", "tree_map_with_path", "tree_structure", "tree_unflatten",
]  # fmt: skip

PyTree = Any
Context = Any
Leafy = Callable[[Any], bool] | None


# ---------------------------------------------------------------- kinds of nodes


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A path entry for a sequence: the index."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A path entry for a dict: the key."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """A path entry for an attribute: its name."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


KeyPath = tuple[Any, ...]


_NAMEDTUPLE: Any = namedtuple
_NAMED = NodeDef(_NAMEDTUPLE, lambda x: (list(x), type(x)), lambda v, c: c(*v))
SUPPORTED_NODES = NODES
NODES[_NAMEDTUPLE] = _NAMED  # no object has this type
STANDARD_DICT_TYPES = frozenset((dict, OrderedDict, defaultdict))
BUILTIN_TYPES = frozenset((tuple, list, deque)) | STANDARD_DICT_TYPES


def _keys(kind: Any, context: Any, count: int) -> list[Any]:
    """The path entries from a node to its children."""
    if kind in STANDARD_DICT_TYPES:
        return [MappingKey(k) for k in _dict_keys(kind, context)]
    if kind == _NAMEDTUPLE:
        return [GetAttrKey(f) for f in context._fields]
    return [SequenceKey(i) for i in range(count)]


def _dict_keys(kind: Any, context: Any) -> list[Any]:
    return context[1] if kind is defaultdict else context


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Context]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Context]:
    return [(MappingKey(k), v) for k, v in d.items()], list(d)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def is_namedtuple_class(cls: Any) -> bool:
    """Whether a class is a named tuple class."""
    fields = getattr(cls, "_fields", None)
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(fields, tuple)


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Whether an object is a named tuple, or a class is a named tuple class."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def _node_of(tree: Any) -> NodeDef | None:
    if tree is None:
        return None
    found = SUPPORTED_NODES.get(type(tree))
    return _NAMED if found is None and is_namedtuple_instance(tree) else found


def _get_node_type(tree: Any) -> Any:
    return namedtuple if is_namedtuple_instance(tree) else type(tree)


class _Aux:
    """A context that JAX can compare and hash."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _Aux) and self.context == other.context

    def __hash__(self) -> int:
        return hash(repr(self.context))


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Any = None,
    from_dumpable_context: Any = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Register a class as a pytree node: how to flatten and unflatten its objects.

    Args:
        cls: the class.
        flatten_fn: object -> (children, context).
        unflatten_fn: (children, context) -> object.
        serialized_type_name, to_dumpable_context, from_dumpable_context: accepted and ignored.
        flatten_with_keys_fn: object -> ((key, child) pairs, context).

    Raises:
        ValueError: if the class is already registered.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")

    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        _KEYED[cls] = flatten_with_keys_fn

    def flatten(x: Any) -> tuple[list[Any], _Aux]:
        children, context = SUPPORTED_NODES[cls].flatten_fn(x)  # of the last registration
        return list(children), _Aux(context)

    def unflatten(aux: _Aux, children: Any) -> Any:
        return SUPPORTED_NODES[cls].unflatten_fn(list(children), aux.context)

    try:
        jax.tree_util.register_pytree_node(cls, flatten, unflatten)
    except ValueError:  # already registered with JAX
        pass


_KEYED: dict[Any, Callable[[Any], tuple[list[tuple[Any, Any]], Any]]] = {}


def _register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, *args: Any, **kwargs: Any) -> None:
    """`register_pytree_node` that does nothing if the class is already registered."""
    if cls not in SUPPORTED_NODES:
        kwargs = {k: v for k, v in kwargs.items() if k == "flatten_with_keys_fn"}
        register_pytree_node(cls, flatten_fn, unflatten_fn, **kwargs)


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Register a dataclass as a pytree node, with its fields as children. A registration that it had is replaced.

    Args:
        cls: the dataclass, or another class if ``field_names`` are given.
        field_names: the fields that become children; default: all.
        drop_field_names: fields to drop; unflattening sets them to their defaults.
        serialized_type_name: accepted and ignored.

    Raises:
        ValueError: the class is no dataclass, or ``field_names`` are not those that make one of its objects.
    """
    names = _fields(cls, field_names, set(drop_field_names or ()))
    if cls in SUPPORTED_NODES:
        warnings.warn(
            f"{cls} is already registered as pytree node. Overwriting the previous registration.",
            stacklevel=2,
        )
        del SUPPORTED_NODES[cls]
    register_pytree_node(
        cls,
        lambda x: ([getattr(x, n) for n in names], list(names)),
        lambda v, c: cls(**dict(zip(c, v, strict=True))),
        flatten_with_keys_fn=lambda x: ([(GetAttrKey(n), getattr(x, n)) for n in names], list(names)),
    )


def _fields(cls: type, names: list[str] | None, dropped: set[str]) -> list[str]:
    """The fields that become children; an error if objects could not be made of them."""
    if not dataclasses.is_dataclass(cls):
        if names is None:
            raise ValueError(
                f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a "
                "dataclass."
            )
        return names
    found = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in dropped]
    missing, more = set(found) - set(names or found), set(names or ()) - set(found)
    if missing or more:
        which, does = (missing, "Missing") if missing else (more, "Unexpected")
        raise ValueError(
            f"field_names does not include all dataclass fields.\n{does} fields in `field_names`: {which}. Give all "
            "fields of __init__, or name those to leave out in `drop_field_names`."
        )
    return names or found


# ---------------------------------------------------------------- structures


class TreeSpec:
    """The structure of a tree.

    Attributes:
        type: type of the node; None for a leaf.
        context: the context from flattening the node.
        num_leaves, num_nodes, num_children: numbers of leaves, nodes and children.
    """

    def __init__(self, type: Any, context: Any, children: list[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self._children = children
        self.num_children = len(children)
        self.num_nodes = 1 + sum(c.num_nodes for c in children)
        self.num_leaves = 1 if type is None else sum(c.num_leaves for c in children)

    def children(self) -> list[TreeSpec]:
        """The structures of the children."""
        return list(self._children)

    @property
    def children_specs(self) -> list[TreeSpec]:
        return self._children

    def child(self, index: int) -> TreeSpec:
        """The structure of one child."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Whether this is the structure of a leaf."""
        return self.type is None

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self.context, self._children) == (other.type, other.context, other._children)

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self._children)))

    def __repr__(self, indent: int = 0) -> str:
        if self.is_leaf():
            return "*"
        shown = [c.__repr__(indent + 2) for c in self._children]
        inner = (",\n" + " " * (indent + 2)).join(shown)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inner}])"

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Build the tree with this structure and the given leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self.is_leaf():
            return next(leaves)
        return SUPPORTED_NODES[self.type].unflatten_fn(
            [c._build(leaves) for c in self._children], self.context
        )

    def _is_custom(self) -> bool:
        return self.type not in (*BUILTIN_TYPES, _NAMEDTUPLE)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of ``tree`` at the leaves of this structure, which must be a prefix of the tree's."""
        if self.is_leaf():
            return [tree]
        node = _node_of(tree)
        dicts = self.type in STANDARD_DICT_TYPES and type(tree) in STANDARD_DICT_TYPES
        if node is None or (node.type != self.type and not dicts):
            what = "Type" if self._is_custom() else "Node type"
            raise ValueError(f"{what} mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = node.flatten_fn(tree)
        children = list(children)
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        if dicts:
            keys = _dict_keys(self.type, self.context)
            if set(tree) != set(keys):
                missing, extra = set(keys) - set(tree), set(tree) - set(keys)
                text = f"; missing key(s): {missing}" if missing else ""
                text += f"; extra key(s): {extra}" if extra else ""
                raise ValueError(f"Node keys mismatch{text}.")
            children = [tree[key] for key in keys]
        elif context != self.context and self.type is not deque:
            if self._is_custom():
                raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
            text = f"expected {self.context!r}, but got {context!r}."
            raise ValueError(f"Node context mismatch for node type {self.type!r}; {text}")
        return [
            leaf
            for spec, child in zip(self._children, children, strict=True)
            for leaf in spec.flatten_up_to(child)
        ]


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


# ---------------------------------------------------------------- functions


def tree_is_leaf(tree: Any, is_leaf: Leafy = None) -> bool:
    """Whether the tree is a single leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _node_of(tree) is None


def _walk(tree: Any, is_leaf: Leafy, path: KeyPath, out: list[tuple[KeyPath, Any]]) -> TreeSpec:
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        out.append((path, tree))
        return LeafSpec()
    if node.type in _KEYED:
        pairs, context = _KEYED[node.type](tree)
        keys, children = [k for k, _ in pairs], [c for _, c in pairs]
    else:
        parts, context = node.flatten_fn(tree)
        children = list(parts)
        keys = _keys(node.type, context, len(children))
    specs = [_walk(child, is_leaf, (*path, key), out) for key, child in zip(keys, children, strict=True)]
    return TreeSpec(node.type, context, specs)


def tree_flatten_with_path(tree: Any, is_leaf: Leafy = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Flatten a tree to a list of (path, leaf) and its structure."""
    pairs: list[tuple[KeyPath, Any]] = []
    spec = _walk(tree, is_leaf, (), pairs)
    return pairs, spec


def tree_flatten(tree: Any, is_leaf: Leafy = None) -> tuple[list[Any], TreeSpec]:
    """Flatten a tree to a list of leaves and its structure.

    Args:
        tree: any object.
        is_leaf: predicate; objects for which it is True are leaves.

    Example:
        >>> from functorch_port.utils import _pytree
        >>> _pytree.tree_flatten({"a": [1, None]})[0]
        [1, None]
    """
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    return [leaf for _, leaf in pairs], spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Build the tree with the given structure and leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of PyTreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Leafy = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: Leafy = None) -> Iterator[Any]:
    """Iterate over the leaves."""
    yield from tree_leaves(tree, is_leaf)


def tree_structure(tree: Any, is_leaf: Leafy = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_leaves_with_path(tree: Any, is_leaf: Leafy = None) -> list[tuple[KeyPath, Any]]:
    """The list of (path, leaf)."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leafy = None) -> Any:
    """Apply ``func`` to each leaf and the matching subtrees of ``rests``; return the tree of results."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(r) for r in rests)]
    return spec.unflatten(func(*row) for row in zip(*columns, strict=True))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leafy = None) -> Any:
    """Call ``func`` like `tree_map`, for its side effects; return the original tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leafy = None) -> Any:
    """Like `tree_map`, with the path as first argument of ``func``."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [[p for p, _ in pairs], [leaf for _, leaf in pairs], *(spec.flatten_up_to(r) for r in rests)]
    return spec.unflatten(func(*row) for row in zip(*columns, strict=True))


def _test_of(which: Any) -> Callable[[Any], bool]:
    """The predicate for a type, several types, or a function."""
    if isinstance(which, (type, tuple)) or not callable(which):
        return lambda x: isinstance(x, which)
    return which


def tree_map_only(which: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: Leafy = None) -> Any:
    """`tree_map` on the leaves selected by a type, several types or a predicate; others stay unchanged."""
    test = _test_of(which)
    return tree_map(lambda x: func(x) if test(x) else x, tree, is_leaf=is_leaf)


def tree_map_only_(which: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: Leafy = None) -> Any:
    """`tree_map_only` for its side effects; returns the original tree."""
    tree_map_only(which, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Leafy = None) -> bool:
    """Whether ``pred`` holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Leafy = None) -> bool:
    """Whether ``pred`` holds for any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(which: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: Leafy = None) -> bool:
    """Whether ``pred`` holds for all leaves selected as in `tree_map_only`."""
    test = _test_of(which)
    return all(pred(x) for x in tree_iter(tree, is_leaf) if test(x))


def tree_any_only(which: Any, /, pred: Callable[[Any], bool], tree: Any, is_leaf: Leafy = None) -> bool:
    """Whether ``pred`` holds for any leaf selected as in `tree_map_only`."""
    test = _test_of(which)
    return any(pred(x) for x in tree_iter(tree, is_leaf) if test(x))


def keystr(kp: KeyPath) -> str:
    """A path as Python code."""
    return "".join(map(str, kp))
