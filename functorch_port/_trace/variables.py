"""Variables of Python programs: where a traced function reads plain values, and what was in them.

A `Variable` is a place by itself (a global, a cell, an attribute, an item); a `Content` is all of a container. Each
tells whether what is there is still the same, as one expression of Python, so that thousands are compared in one flat
function (see `value_guards`).
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import numpy as np

from .._array.symbolic import SymNumber
from .._base.device import device
from .._base.dtypes import dtype
from .._tensor.tensor import Tensor

__all__ = ["ANY", "MISSING", "PLAIN", "Content", "Variable", "is_plain", "same", "variable"]


class _Mark:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


#: nothing is there
MISSING = _Mark("nothing")
#: whatever is there: something else looks after it
ANY = _Mark("anything")

#: types whose values are compared by `==`, not by identity
PLAIN = (int, float, complex, str, bytes, np.generic, np.dtype, device, dtype, range, slice)
_SINGLE = (bool, type(None), type(Ellipsis), type(NotImplemented))


def is_plain(value: Any) -> bool:
    """Whether a value is a constant: numbers, strings and the like, and tuples of them."""
    if type(value) in (tuple, frozenset):
        return all(map(is_plain, value))
    return isinstance(value, PLAIN) or type(value) in _SINGLE or value is MISSING


def same(a: Any, b: Any) -> bool:
    """Whether two values are one to a program that was traced with one of them."""
    if a is b or b is ANY:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(b, float | complex | np.inexact):
        return repr(a) == repr(b)  # NaN is itself, and 0.0 is not -0.0
    if isinstance(b, PLAIN):
        return bool(a == b)
    if isinstance(b, types.MethodType):
        return a.__self__ is b.__self__ and a.__func__ is b.__func__
    return False


def all_same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two sequences have the same items; tensors are compared by identity."""
    return len(a) == len(b) and all(map(same, a, b))


def shown(value: Any) -> str:
    """A value in a message. Arrays are not looked at, which would wait for them."""
    if isinstance(value, Tensor):
        return f"a {type(value).__name__} of shape {tuple(value.shape)}"
    if is_plain(value):
        return repr(value)
    return f"a {type(value).__name__}"


class Variable:
    """One place and what was in it when the traced function came to it.

    Attributes:
        owner: the dict, list, cell or object.
        key: of the dict or list, or the attribute's name.
        label: how a reader of the source would write it.
        before: the value at first.
        read: whether the function used that value; False for one that it only set.
        after: what the function left there, if something else (see `Reads.finish`); else `ANY`.
        of_module: whether it is an attribute of a `Module`: setting one is noted (`tracing.attributes`).
    """

    __slots__ = ("after", "before", "key", "label", "of_module", "owner", "read", "rule")

    def __init__(self, owner: Any, key: Any, label: str) -> None:
        self.owner, self.key, self.label = owner, key, label
        self.read = True
        self.of_module = False
        self.before = self.get()
        self.after: Any = ANY
        self.rule: Callable[[dict[Any, Any]], Any] | None = None

    def get(self) -> Any:
        """What is there now, or `MISSING`."""
        raise NotImplementedError

    def set(self, value: Any) -> None:
        """Put a value there; `MISSING` takes it away."""
        raise NotImplementedError

    def expression(self, owner: str, key: str) -> str:
        """The source of an expression for the value, given names for the `table` and the key."""
        raise NotImplementedError

    @property
    def table(self) -> Any:
        """What `expression` looks into."""
        return self.owner


class Item(Variable):
    """An item of a dict or list: a global, an attribute in an object's ``__dict__``."""

    __slots__ = ()

    def get(self) -> Any:
        try:
            return self.owner[self.key]
        except LookupError:
            return MISSING

    def set(self, value: Any) -> None:
        if value is MISSING:
            self.owner.pop(self.key, None)
        else:
            self.owner[self.key] = value

    def expression(self, owner: str, key: str) -> str:
        return f"{owner}[{key}]"


class Cell(Variable):
    """A variable of an enclosing function."""

    __slots__ = ()

    def get(self) -> Any:
        try:
            return self.owner.cell_contents
        except ValueError:
            return MISSING

    def set(self, value: Any) -> None:
        if value is MISSING:
            del self.owner.cell_contents
        else:
            self.owner.cell_contents = value

    def expression(self, owner: str, key: str) -> str:
        return f"{owner}.cell_contents"


class Attribute(Variable):
    """An attribute that is not in a ``__dict__``: a slot, a function's defaults."""

    __slots__ = ()

    def get(self) -> Any:
        return getattr(self.owner, self.key, MISSING)

    def set(self, value: Any) -> None:
        if value is MISSING:
            delattr(self.owner, self.key)
        else:
            object.__setattr__(self.owner, self.key, value)

    def expression(self, owner: str, key: str) -> str:
        return f"{owner}.{self.key}"


class ClassAttribute(Variable):
    """What a class itself has under a name: a method, a constant."""

    __slots__ = ()

    def get(self) -> Any:
        return vars(self.owner).get(self.key, MISSING)

    def set(self, value: Any) -> None:
        if value is MISSING:
            delattr(self.owner, self.key)
        else:
            setattr(self.owner, self.key, value)

    def expression(self, owner: str, key: str) -> str:
        return f"{owner}[{key}]"

    @property
    def table(self) -> Any:
        return vars(self.owner)


class Referent(Variable):
    """What a weak reference or a context variable gives."""

    __slots__ = ()

    def get(self) -> Any:
        try:
            return self.owner() if self.key is None else self.owner.get()
        except LookupError:
            return MISSING

    def set(self, value: Any) -> None:
        if self.key is not None and value is not MISSING:
            self.owner.set(value)

    def expression(self, owner: str, key: str) -> str:
        return f"{owner}()" if self.key is None else f"{owner}.get()"


def variable(owner: Any, key: Any, label: str) -> Variable:
    """The variable of the kind that ``owner`` has."""
    if isinstance(owner, types.CellType):
        return Cell(owner, key, label)
    if isinstance(owner, dict | list | deque):
        return Item(owner, key, label)
    return Attribute(owner, key, label)


class Content:
    """What is in a container: the items of a list, a dict in its order, the bytes of a numpy array.

    Attributes:
        before: the items at first; `ANY` for those that something else looks after.
        keys: of a dict, in order.
    """

    __slots__ = ("after", "before", "keys", "label", "owner")

    def __init__(self, owner: Any, label: str) -> None:
        self.owner, self.label = owner, label
        self.keys, self.before = self.now()
        self.after: Any = ANY

    def now(self) -> tuple[tuple[Any, ...], Any]:
        """The keys and items now."""
        owner = self.owner
        if isinstance(owner, np.ndarray):
            return (owner.shape, owner.dtype), owner.tobytes()
        if isinstance(owner, dict | types.MappingProxyType):
            return tuple(owner), tuple(owner.values())
        if isinstance(owner, set):
            return (), frozenset(owner)
        return (), tuple(owner)

    def leave(self, key: Any) -> None:
        """Something else looks after the item."""
        at = self.keys.index(key) if isinstance(self.owner, dict) else key
        self.before = (*self.before[:at], ANY, *self.before[at + 1 :])

    def holds(self) -> bool:
        """Whether the content is the same."""
        owner, before = self.owner, self.before
        if isinstance(owner, dict):
            if len(owner) != len(before):
                return False
            if not all(map(is_, owner, self.keys)) and not all(map(same, owner, self.keys)):
                return False
            found: Any = owner.values()
        elif isinstance(owner, list | deque):
            if len(owner) != len(before):
                return False
            found = owner
        else:
            return bool(self.now() == (self.keys, before))
        return all(map(is_, found, before)) or all(map(same, found, before))

    def put(self, after: Any) -> None:
        """Make ``after``, as `now` gave it, the content."""
        owner, (keys, items) = self.owner, after
        if isinstance(owner, np.ndarray):
            owner[...] = np.frombuffer(items, owner.dtype).reshape(owner.shape)
        elif isinstance(owner, dict):
            kept = [owner[k] if item is ANY else item for k, item in zip(keys, items, strict=True)]
            owner.clear()
            owner.update(zip(keys, kept, strict=True))
        elif isinstance(owner, set):
            owner.clear()
            owner.update(items)
        elif isinstance(owner, list):
            owner[:] = [owner[i] if item is ANY else item for i, item in enumerate(items)]
        elif isinstance(owner, deque):
            kept = [owner[i] if item is ANY else item for i, item in enumerate(items)]
            owner.clear()
            owner.extend(kept)


def plain_number(value: Any) -> bool:
    """Whether a value may become a number input of a program (a bool is a flag)."""
    return type(value) in (int, float)


def without_symbols(value: Any) -> Any:
    """A value without symbolic numbers."""
    if isinstance(value, SymNumber):
        return value.value
    if type(value) is tuple and any(isinstance(v, SymNumber) for v in value):
        return tuple(map(without_symbols, value))
    return value
