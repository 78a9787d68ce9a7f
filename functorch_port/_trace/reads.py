"""What a traced function reads besides tensors: found while it runs, so that a later call can compare.

The function's globals, closure cells and defaults are known from its code, and so are those of every function that is
reached. Attributes are noted as they are read: for the time of the trace the classes of the objects that were reached
get a ``__getattribute__`` that notes, and a ``__setattr__`` and ``__delattr__`` that note what was there before.
Containers are noted whole. Only what can be reached from outside counts: what the function makes itself is made anew by
each trace.

Code of this package, of JAX, numpy and of Python's own library is taken to stay as it is, and so are the functions and
classes of installed packages, whose constants and objects are compared.
"""

from __future__ import annotations

import builtins
import functools
import sys
import types
import weakref
from collections import UserDict, UserList, deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from copy import copy
from threading import get_ident
from typing import Any

import jax
import numpy as np

from .._array import tracing
from .._array.storage import Storage
from .._array.symbolic import SymNumber
from .._random.generator import Generator
from .._tensor.overriding import is_overriding
from .._tensor.tensor import Tensor
from .code import Names, is_fixed, is_installed, is_ours, is_users, names_of
from .stateful import Kind, fields_of, kind_of
from .variables import (
    ANY,
    MISSING,
    Attribute,
    ClassAttribute,
    Content,
    Referent,
    Variable,
    all_same,
    is_plain,
    same,
    variable,
    without_symbols,
)

__all__ = ["Lifted", "Reads"]

#: classes of Python's own library whose instances are only attributes, or only hold other objects
_OPEN = frozenset({types.SimpleNamespace, UserDict, UserList})
#: items in one container, beyond which it is not compared
_MOST = 100_000


class Lifted:
    """A number that changes between calls: an input of the program, as an optimizer's numbers are.

    It is read and set as the item ``key`` of this object.
    """

    __slots__ = ("symbol", "variable")

    def __init__(self, place: Variable) -> None:
        self.variable = place
        self.symbol: SymNumber | None = None

    @property
    def id(self) -> tuple[int, Any]:
        return id(self.variable.owner), self.variable.key

    def get(self, key: Any) -> Any:
        return self.variable.get()

    def __getitem__(self, key: Any) -> Any:
        return self.variable.get()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.variable.set(value)
        if self.variable.of_module:
            tracing.attributes += 1


class Reads:
    """What one trace reads.

    Args:
        overlay: of the trace; it is told of modules and optimizers that are reached.
        excluded: places that something else looks after, as ``(id(owner), key)``.
        lifted: the places of numbers that are inputs.
    """

    def __init__(
        self, overlay: Any, excluded: Iterable[tuple[int, Any]] = (), lifted: Iterable[Variable] = ()
    ) -> None:
        self.overlay = overlay
        self.thread = get_ident()
        self.variables: dict[tuple[int, Any], Variable] = {}
        self.contents: dict[int, Content] = {}
        self.lifted = [Lifted(copy(place)) for place in lifted]
        self._excluded = {*excluded, *(one.id for one in self.lifted)}
        self._known: dict[int, Any] = {}
        self._labels: dict[int, str] = {}
        self._seen: set[tuple[int, str]] = set()
        self._patched: dict[type, list[tuple[str, Any]]] = {}
        #: classes and modules, which are read by the names that the code has
        self._named: list[tuple[Any, Callable[[Any, Iterable[str]], None]]] = []
        self._attributes: set[str] = set()
        self.too_large: list[str] = []
        #: whether the function may ask for the type of a number, which a symbolic one cannot hide
        self.asks_types = False

    # ------------------------------------------------------------ in the trace

    def start(self, fn: Callable[..., Any], leaves: Iterable[Any]) -> None:
        """The function is about to run."""
        for i, leaf in enumerate(leaves):
            self.add(leaf, f"argument {i}")
        self.add(fn, getattr(fn, "__qualname__", "function"))

    def stop(self) -> None:
        """The function is over: classes are as they were. To do it twice is to do it once."""
        for kind, methods in self._patched.items():
            for name, original in methods:
                if original is not MISSING:
                    type.__setattr__(kind, name, original)
                elif name in vars(kind):
                    type.__delattr__(kind, name)
        self._patched, self.overlay = {}, None  # no circle, which would keep all Storages for some time

    def add(self, value: Any, label: str) -> None:
        """An object that the function can reach from outside."""
        kind = type(value)
        if isinstance(value, Tensor):
            self.tensor(value)
            return
        if is_plain(value) or isinstance(value, Storage | jax.Array | SymNumber):
            return
        if id(value) in self._known:
            return
        self._known[id(value)] = value
        self._labels[id(value)] = label
        stateful = kind_of(value)
        if stateful is not None:
            self._stateful(stateful, value, label)
            return
        for kinds, handle in _HANDLERS:
            if isinstance(value, kinds):
                getattr(self, handle)(value, label)
                break
        else:
            self._instance(value, label)
        if isinstance(value, dict | list | set | deque) and kind.__module__ not in (
            "builtins",
            "collections",
        ):
            self._instance(value, label)

    def _place(self, place: Variable) -> None:
        at = (id(place.owner), place.key)
        if at not in self._excluded and at not in self.variables and not isinstance(place.before, SymNumber):
            self.variables[at] = place

    def _function(self, fn: types.FunctionType, label: str) -> None:
        module = fn.__globals__.get("__name__")
        if is_fixed(module) or is_ours(module):
            self._wrapped(fn, label)
            return
        names = names_of(fn.__code__)
        ours = not is_installed(module)
        if ours:
            self._place(Attribute(fn, "__defaults__", f"the defaults of {label}"))
        for value in fn.__defaults__ or ():
            self.add(value, f"a default of {label}")
        if fn.__kwdefaults__:
            self.add(fn.__kwdefaults__, f"the keyword defaults of {label}")
        self._attributes |= names.attributes
        self.asks_types |= ours and "type" in names.globals
        space = fn.__globals__
        for name in names.globals:
            self._global(space, name, ours, names)
        for name in names.imports:
            self._follow(sys.modules.get(name), name, [(a,) for a in names.attributes])
        self._cells(fn, label)
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            try:
                self._follow(cell.cell_contents, name, names.paths.get(name, ()))
            except ValueError:
                pass
        for owner, handle in list(self._named):
            handle(owner, names.attributes)
        if "super" in names.globals:
            for kind in list(self._patched):
                self._class_names(kind, names.attributes)

    def _global(self, space: dict[str, Any], name: str, ours: bool, names: Names) -> None:
        if name not in space:
            if name not in vars(builtins):
                self._place(variable(space, name, name))
            return
        value = space[name]
        if isinstance(value, types.ModuleType):
            if ours:
                self._place(variable(space, name, name))
            self._follow(value, name, names.paths.get(name, ()))
        else:
            self._attribute_of(variable(space, name, name), space["__name__"])

    def _wrapped(self, fn: types.FunctionType, label: str) -> None:
        """A decorator's function, which calls another."""
        for cell in fn.__closure__ or ():
            try:
                inner = cell.cell_contents
            except ValueError:
                continue
            if isinstance(inner, types.FunctionType | types.MethodType | functools.partial):
                self.add(inner, label)

    def _cells(self, fn: types.FunctionType, label: str) -> None:
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            place = variable(cell, None, name)
            self._place(place)
            if not isinstance(place.before, types.ModuleType):
                self.add(place.before, name)

    def _follow(self, value: Any, label: str, paths: Iterable[tuple[str, ...]]) -> None:
        """The attributes that the code looks up on a module."""
        if not isinstance(value, types.ModuleType) or is_fixed(value.__name__):
            return
        for path in paths:
            self._known.setdefault(id(value), value)
            name, *rest = path
            if name not in vars(value):
                continue
            item = variable(vars(value), name, f"{label}.{name}")
            if isinstance(item.before, types.ModuleType):
                self._place(item)
                if rest:
                    self._follow(item.before, item.label, [tuple(rest)])
            elif not is_ours(value.__name__):
                self._attribute_of(item, value.__name__)
            else:
                self._place(item)

    def _module(self, module: types.ModuleType, label: str) -> None:
        """A module that is reached otherwise than by its name: by an attribute or an item."""
        if is_fixed(module.__name__) or is_ours(module.__name__):
            return
        self._named.append((module, self._module_names))
        self._module_names(module, self._attributes)

    def _module_names(self, module: Any, names: Iterable[str]) -> None:
        for name in vars(module).keys() & set(names):
            item = variable(vars(module), name, f"{module.__name__}.{name}")
            self._attribute_of(item, module.__name__)

    def _attribute_of(self, place: Variable, module: str) -> None:
        """What a module or class has under a name. In an installed package it stays, but for constants and objects."""
        installed = is_installed(module)
        if not installed or is_plain(place.before):
            self._place(place)
        if not installed or not isinstance(place.before, dict | list | set | deque):
            self.add(place.before, place.label)

    def _class(self, kind: type, label: str) -> None:
        if not is_users(kind):
            return
        self._named.append((kind, self._class_names))
        self._class_names(kind, self._attributes)
        self._dunders(kind)

    def _dunders(self, kind: type) -> None:
        self._class_names(kind, (n for k in kind.__mro__ if is_users(k) for n in vars(k) if n[:2] == "__"))

    def _class_names(self, kind: Any, names: Iterable[str]) -> None:
        wanted = set(names)
        for base in kind.__mro__:
            if is_users(base):
                for name in vars(base).keys() & wanted:
                    self._member(base, name)

    def _member(self, base: type, name: str) -> None:
        """What a class has under a name."""
        if name in _INERT:
            return
        if any(name == hooked for hooked, _ in self._patched.get(base, ())):
            return  # it is ours while the function runs
        place = ClassAttribute(base, name, f"{base.__qualname__}.{name}")
        if isinstance(place.before, types.MemberDescriptorType | types.GetSetDescriptorType):
            return
        self._attribute_of(place, base.__module__)

    def _method(self, method: types.MethodType, label: str) -> None:
        self.add(method.__self__, "self")
        self.add(method.__func__, label)

    def _partial(self, value: Any, label: str) -> None:
        self.add(value.func, label)
        self.add(value.args, label)
        self.add(value.keywords, label)

    def _wrapper(self, value: Any, label: str) -> None:
        self.add(value.__func__, label)

    def _property(self, value: property, label: str) -> None:
        for fn in (value.fget, value.fset, value.fdel):
            self.add(fn, label)

    def _tuple(self, value: Iterable[Any], label: str) -> None:
        for i, item in enumerate(value):
            self.add(item, f"{label}[{i}]")

    def _container(self, value: Any, label: str) -> None:
        if len(value) > _MOST:
            self.too_large.append(label)
            return
        content = self.contents[id(value)] = Content(value, label)
        if isinstance(value, dict):
            for key in content.keys:
                if (id(value), key) in self._excluded or isinstance(value[key], SymNumber):
                    content.leave(key)
        elif isinstance(value, list):
            for i, item in enumerate(value):
                if (id(value), i) in self._excluded or isinstance(item, SymNumber):
                    content.leave(i)
        if isinstance(value, np.ndarray):
            return
        pairs = value.items() if isinstance(value, dict | types.MappingProxyType) else enumerate(value)
        for key, item in list(pairs):
            self.add(item, f"{label}[{key!r}]")

    def _referent(self, value: Any, label: str) -> None:
        key = "get" if isinstance(value, ContextVar) else None
        place = Referent(value, key, f"{label}.get()" if key else f"{label}()")
        self._place(place)
        self.add(place.before, place.label)

    def _stateful(self, kind: Kind, value: Any, label: str) -> None:
        """A module or an optimizer: of one that is ours it is known what a call reads."""
        self.overlay.note_stateful(value)
        cls, method, fields = type(value), kind.method, fields_of(value) or {}
        ours = is_ours(cls.__module__)
        if not ours:
            self._instance(value, label)
        elif method is not None:
            for name in (method, *fields):
                if not kind.guards(name) and name[:1] != "_":
                    self._of_module(value, name, f"{label}.{name}")
            base = next((base for base in cls.__mro__ if method in vars(base)), None)
            if base is not None:
                self._place(ClassAttribute(base, method, f"{base.__qualname__}.{method}"))
        for table in (*(fields.get(name, {}) for name in kind.tables), *kind.shared):
            for name, entry in table.items():
                if (
                    ours or kind_of(entry) is None
                ):  # a hook; parts of a user's module are found as they are read
                    self.add(entry, f"{label}.{name}")

    def part(self, tensor: Tensor, name: str) -> None:
        """An attribute of a tensor was read, or may be: of a sparse one its parts, of which a write gives it others."""
        at = (id(tensor), name)
        if at not in self._seen:
            self._seen.add(at)
            self._place(variable(vars(tensor), name, f"{name} of a tensor of shape {tuple(tensor.shape)}"))

    def tensor(self, tensor: Tensor) -> None:
        """A tensor from outside is used: what programs have put on it, and the hooks that its gradient goes through."""
        if tensor.__class__ is not Tensor and is_overriding(type(tensor)):
            return
        for name, value in tensor._own_attributes().items():  # type: ignore[attr-defined]
            if name[:1] != "_" and name in vars(tensor):
                self.part(tensor, name)
                self.add(value, name)
        node = None if tensor._accumulator is None else tensor._accumulator()
        tables = [tensor._hooks, tensor._post_accumulate_hooks]
        if node is not None and (extras := node.extras) is not None:
            tables += [extras.pre_hooks, extras.post_hooks]
        for table in tables:
            for hook in [*table.values()] if table else ():
                self.add(hook, "a hook")

    def methods(self, kind: type, names: Iterable[str]) -> None:
        """Methods of a class are about to be called."""
        self.add(kind, kind.__qualname__)
        self._class_names(kind, names)

    def keep(self, module: Any) -> None:
        """A module has just become another for good: what it has now is what it had."""
        fields, label = fields_of(module), self._labels.get(id(module), type(module).__name__)
        self.variables = {at: v for at, v in self.variables.items() if at[0] != id(fields)}
        self._known.pop(id(module), None)
        self.add(module, label)

    def _of_module(self, module: Any, name: str, label: str) -> Variable:
        place = variable(fields_of(module), name, label)
        place.of_module = True
        tracing.watched.add(name)
        self._place(place)
        self.add(place.before, label)
        return place

    def _instance(self, value: Any, label: str) -> None:
        kind = type(value)
        if kind in _OPEN or (kind.__module__ == "argparse" and kind.__name__ == "Namespace"):
            self.add(vars(value), f"vars({label})")
        elif "__wrapped__" in (fields_of(value) or ()):
            self.add(fields_of(value)["__wrapped__"], label)
        elif is_fixed(kind.__module__) or isinstance(value, Generator):
            return
        elif not self._patch(kind) and hasattr(value, "__dict__"):
            self.add(value.__dict__, f"vars({label})")

    # ------------------------------------------------------ attributes, as they are read

    def _patch(self, kind: type) -> bool:
        """Note what is read and set on instances of a class; False if the class cannot be changed."""
        if kind in self._patched:
            return True
        if is_users(kind):
            self._dunders(kind)
        hooks = _hooks(self, kind)
        done = self._patched[kind] = []
        for name, hook in hooks.items():
            original = vars(kind).get(name, MISSING)
            try:
                type.__setattr__(kind, name, hook)
            except TypeError:
                del self._patched[kind]
                return False
            done.append((name, original))
        return True

    def knows(self, value: Any) -> bool:
        """Whether an object is one that can be reached from outside, looked at by the thread of the trace."""
        return id(value) in self._known and get_ident() == self.thread

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """An attribute was read."""
        at = (id(owner), name)
        if at in self._seen or (name == "__dict__" and _looks_up_one(sys._getframe(2))):
            return
        self._seen.add(at)
        label = f"{self._labels.get(id(owner), type(owner).__name__)}.{name}"
        fields = fields_of(owner)
        if name == "__dict__":
            self.add(value, f"vars({label[:-9]})")
        if name[:2] == "__" or _is_excluded(owner, name):
            self.add(
                value if name[:2] != "__" and not isinstance(value, dict | list | set | deque) else None,
                label,
            )
            return
        if fields is not None and name in fields:
            self._instance_item(owner, fields, name, label)
            return
        kind = type(owner)
        holders = [base for base in kind.__mro__ if name in vars(base)]
        if not holders:
            self.add(value, label)
            return
        found = vars(holders[0])[name]
        if isinstance(found, types.MemberDescriptorType):
            self._place(Attribute(owner, name, label))
            self.add(value, label)
            return
        if fields is not None and not isinstance(found, property):
            self._instance_item(owner, fields, name, label)
        self._class_names(kind, (name,))
        if not isinstance(found, property | types.FunctionType | staticmethod | classmethod):
            self.add(value, label)

    def missing(self, owner: Any, name: str) -> None:
        """An attribute was asked for that is not there; a module's parts are in its tables."""
        fields = fields_of(owner)
        if fields is None or name[:2] == "__" or (id(owner), name) in self._seen or _is_excluded(owner, name):
            return
        self._seen.add((id(owner), name))
        label = f"{self._labels.get(id(owner), type(owner).__name__)}.{name}"
        kind = kind_of(owner)
        for table in () if kind is None else kind.tables:
            if name in fields.get(table, ()):
                self.add(fields[table][name], label)
                return
        self._instance_item(owner, fields, name, label)

    def assigned(self, owner: Any, name: str) -> None:
        """An attribute is about to be set or deleted."""
        fields = fields_of(owner)
        at = (id(owner if fields is None else fields), name)
        if at in self.variables or name[:2] == "__" or _is_excluded(owner, name):
            return
        label = f"{self._labels.get(id(owner), type(owner).__name__)}.{name}"
        if fields is None:
            place: Variable = Attribute(owner, name, label)
            self._place(place)
        else:
            place = self._instance_item(owner, fields, name, label)
        place.read = (id(owner), name) in self._seen

    def _instance_item(self, owner: Any, fields: dict[str, Any], name: str, label: str) -> Variable:
        kind = kind_of(owner)
        if kind is not None and kind.method is not None:
            return self._of_module(owner, name, label)
        place = variable(fields, name, label)
        self._place(place)
        self.add(place.before, label)
        return place

    # --------------------------------------------------------------- afterwards

    def lift(self, symbols: Iterable[SymNumber]) -> None:
        """Put the inputs in the place of the numbers."""
        for one, symbol in zip(self.lifted, symbols, strict=True):
            one.symbol, one.variable.before = symbol, symbol.value
            one.variable.after, one.variable.rule = ANY, None
            one.variable.set(symbol)

    def finish(self, optimizers: Iterable[Any]) -> str:
        """The function is over: note what it left in the places, with plain numbers for symbolic ones.

        Returns:
            Why the program cannot be run again, if it cannot.
        """
        why = ""
        for one in self.lifted:
            place, now = one.variable, one.variable.get()
            if isinstance(now, SymNumber):
                place.rule = None if now is one.symbol else now.rule
            else:
                place.after = now
                why = why or self._stays(now, place.label)
            place.set(place.before)  # what the program is run with; the call then leaves the new one
        tables = _tables_of(optimizers)
        self.contents = {k: c for k, c in self.contents.items() if k not in tables}
        self.variables = {k: v for k, v in self.variables.items() if k[0] not in tables}
        for content in list(self.contents.values()):
            why = why or self._changed(content)
        for place in self.variables.values():
            now = place.get()
            if isinstance(now, SymNumber):
                place.rule = now.rule
                place.set(now.value)
            elif not place.read or (now is not place.before and not same(now, place.before)):
                # what was only set may be something else before the next call
                place.after = without_symbols(now)
                if place.after is not now:
                    place.set(place.after)
                why = why or self._stays(place.after, place.label)
        self._known, self._labels = {}, {}
        self._named = []
        if self.too_large:
            why = why or f"{self.too_large[0]} has over {_MOST} items, too many to compare before each call"
        return why

    def _changed(self, content: Content) -> str:
        """What the function did to a container."""
        owner = content.owner
        if isinstance(owner, dict | list):
            for key, item in list(owner.items() if isinstance(owner, dict) else enumerate(owner)):
                if isinstance(item, SymNumber) and (id(owner), key) not in self._excluded:
                    owner[key] = item.value
        if content.holds():
            return ""
        keys, items = now = content.now()
        if isinstance(items, tuple):
            if (
                len(items) == len(content.before)
                and all_same(keys, content.keys)
                and isinstance(owner, dict | list)
            ):
                places = keys if isinstance(owner, dict) else range(len(items))
                for key, old, new in zip(places, content.before, items, strict=True):
                    if not same(new, old):
                        place = variable(owner, key, f"{content.label}[{key!r}]")
                        place.before, place.after = old, new
                        self.variables[id(owner), key] = place
                        content.leave(key)
                        why = self._stays(new, place.label)
                        if why:
                            return why
                return ""
            for item in items:
                why = self._stays(item, content.label)
                if why:
                    return why
        content.after = now
        return ""

    def _stays(self, value: Any, label: str) -> str:
        """Whether a later call can leave the same object; tensors are looked after by `slots`."""
        if is_plain(value) or id(value) in self._known or isinstance(value, Tensor):
            return ""
        if isinstance(value, tuple | list) and any(isinstance(v, Tensor) for v in value):
            return ""
        return f"the function leaves a new {type(value).__name__} in {label}"

    def undo(self) -> None:
        """Put everything back."""
        for place in (*(one.variable for one in self.lifted), *self.variables.values()):
            if place.get() is not place.before and place.before is not ANY:
                place.set(place.before)
        for content in self.contents.values():
            if content.owner.__class__ is not types.MappingProxyType and not content.holds():
                content.put((content.keys, content.before))

    def notes(self) -> list[Any]:
        """What refers to tensors only because of the trace."""
        tuples = [c.before for c in self.contents.values()]
        return [self._known, *tuples, *self.variables.values(), *self.contents.values()]


def _tables_of(optimizers: Iterable[Any]) -> set[int]:
    """The containers of optimizers, whose numbers and tensors have guards of their own."""
    found: set[int] = set()
    for optimizer in optimizers:
        groups, state = optimizer.param_groups, optimizer.state
        tables = (groups, state, *groups, *(g["params"] for g in groups), *state.values())
        found.update(map(id, tables))
    return found


def _is_excluded(owner: Any, name: str) -> bool:
    """Attributes of modules and optimizers that other guards look after, and what packages keep for themselves."""
    cls = type(owner)
    if name[:1] == "_" and not (is_users(cls) and not is_installed(cls.__module__)):
        return not (is_ours(cls.__module__) and name in getattr(cls, "_guarded", ()))
    kind = kind_of(owner)
    return kind is not None and kind.guards(name)


def _looks_up_one(frame: types.FrameType) -> bool:
    """Whether this is code of ours that looks into a ``__dict__`` for one attribute, which is noted by itself."""
    code = frame.f_code.co_name
    return code in ("__getattr__", "__setattr__", "__delattr__") and is_ours(frame.f_globals.get("__name__"))


def _hooks(reads: Reads, kind: type) -> dict[str, Callable[..., Any]]:
    """The methods that note, around the class's own."""
    get: Any = kind.__getattribute__
    put: Any = kind.__setattr__
    drop: Any = kind.__delattr__

    def __getattribute__(self: Any, name: str) -> Any:
        try:
            value = get(self, name)
        except AttributeError:
            if reads.knows(self):
                reads.missing(self, name)
            raise
        if reads.knows(self):
            reads.attribute(self, name, value)
        return value

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if reads.knows(self):
            reads.assigned(self, name)
        put(self, name, value)

    def __delattr__(self: Any, name: str) -> None:
        if reads.knows(self):
            reads.assigned(self, name)
        drop(self, name)

    return {"__getattribute__": __getattribute__, "__setattr__": __setattr__, "__delattr__": __delattr__}


#: members of classes that programs do not depend on
_INERT = frozenset(
    ("__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__annotations__", "__slots__",
     "__abstractmethods__", "__parameters__", "__orig_bases__", "__match_args__", "__dataclass_fields__",
     "__dataclass_params__", "_abc_impl", "__hash__", "__firstlineno__", "__static_attributes__")
)  # fmt: skip


#: what looks into objects of Python's own classes
_HANDLERS: tuple[tuple[Any, str], ...] = (
    (types.FunctionType, "_function"),
    (types.MethodType, "_method"),
    (functools.partial | functools.partialmethod, "_partial"),
    (staticmethod | classmethod, "_wrapper"),
    (property, "_property"),
    (type, "_class"),
    (types.ModuleType, "_module"),
    (dict | list | set | deque | np.ndarray | types.MappingProxyType, "_container"),
    (tuple | frozenset, "_tuple"),
    (weakref.ref | ContextVar, "_referent"),
)
