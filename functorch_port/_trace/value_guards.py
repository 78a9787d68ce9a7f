"""Whether what a program read is still the same, as one flat Python function; and what it leaves in the same places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import is_
from types import MethodType
from typing import Any

from .._array import tracing
from .._tensor.tensor import Tensor
from .reads import Reads
from .source import Source
from .variables import ANY, MISSING, Content, Variable, all_same, is_plain, same, shown, variable

__all__ = ["ValueGuards"]


class ValueGuards:
    """What a program depends on besides tensors and its arguments.

    Attributes:
        flags: items of dicts that are compared by value: (table, key, before).
        slots: columns of items of dicts that are tensors.
        holds: whether all of it is the same, but for attributes of modules, which are only compared when one was set.
        may_lift: whether numbers may be symbolic in a next trace.
        epoch: `tracing.attributes` when they were last compared.
        writes: what a call leaves in the places.
    """

    def __init__(
        self,
        reads: Reads,
        excluded: Iterable[tuple[int, Any]],
        optimizers: Iterable[Any],
        is_outside: Callable[[Tensor], bool],
        flags: list[tuple[Any, Any, Any]],
        slots: tuple[list[Any], list[Any], list[Any]],
    ) -> None:
        excluded = set(excluded)
        for content in reads.contents.values():
            for owner, key in excluded:
                if owner == id(content.owner) and content.before:
                    content.leave(key)
        places = [v for at, v in reads.variables.items() if at not in excluded]
        read = [v for v in places if v.read]
        self.variables = [v for v in read if not v.of_module]
        self.of_modules = [v for v in read if v.of_module]
        self.contents = [*reads.contents.values(), *(c for o in optimizers for c in _structure(o))]
        self.flags, self.slots = flags, slots
        self.holds: Callable[[], bool] = self._first_look
        self.modules_hold = _compiled(self.of_modules, [])
        self.epoch = tracing.attributes
        self.may_lift = not reads.asks_types
        changed = [v for v in (*places, *(one.variable for one in reads.lifted)) if _is_left(v, is_outside)]
        self.writes: list[Any] = [*changed, *(c for c in self.contents if c.after is not ANY)]

    def _items(self) -> list[tuple[Any, Any, Any]]:
        return [*self.flags, *zip(*self.slots, strict=True)]

    def _first_look(self) -> bool:
        """Write `holds`: not before the second call, as after the first one `slots.find` looks for who has tensors."""
        self.holds = _compiled(self.variables, self.contents, self._items())
        return self.holds()

    def match(self) -> bool:
        """Whether the program may be run as far as these are concerned."""
        if not self.holds():
            return False
        if self.epoch != tracing.attributes:
            if not self.modules_hold():
                return False
            self.epoch = tracing.attributes
        return True

    def changed(self) -> list[Variable]:
        """The places that are not the same any more."""
        found = [v for v in (*self.variables, *self.of_modules) if not same(v.get(), v.before)]
        for content in self.contents:
            if not content.holds():
                found += _differences(content)
        return found

    def reason(self) -> str:
        """Why the program may not be run."""
        changed = self.changed()
        if not changed:
            for table, key, before in self._items():
                value = table.get(key, MISSING)
                if not _equal(value, before):
                    return f"{key!r} changed from {shown(before)} to {shown(value)}"
            return "a Python value changed"
        place = changed[0]
        if isinstance(place, _Whole):
            return f"{place.label} changed (its items)"
        return f"{place.label} changed from {shown(place.before)} to {shown(place.get())}"

    def write(self, env: dict[Any, Any]) -> None:
        """Leave in the places what the traced call left there."""
        for place in self.writes:
            if isinstance(place, Content):
                place.put(place.after)
            else:
                place.set(place.after if place.rule is None else place.rule(env))
                if place.of_module:
                    tracing.attributes += 1

    def describe(self) -> list[str]:
        """The values that the program is for, by name."""
        named = [v for v in (*self.variables, *self.of_modules) if is_plain(v.before)]
        lines = [
            f"{v.label} = {v.before!r}" for v in named if v.before is not MISSING and v.key != "__defaults__"
        ]
        return lines + [f"{c.label}: {len(c.before)} items" for c in self.contents]


class _Entries(Content):
    """The entries that a dict had; others may come."""

    __slots__ = ()

    def holds(self) -> bool:
        return all(map(is_, map(self.owner.get, self.keys), self.before))


def _structure(optimizer: Any) -> list[Content]:
    """Which groups, parameters and tables of state an optimizer has. State of other parameters may come."""
    name, groups = type(optimizer).__name__, optimizer.param_groups
    lists = [Content(g["params"], f"{name}.param_groups[{i}]['params']") for i, g in enumerate(groups)]
    return [Content(groups, f"{name}.param_groups"), *lists, _Entries(optimizer.state, f"{name}.state")]


def _is_left(place: Variable, is_outside: Callable[[Tensor], bool]) -> bool:
    """Whether a call leaves something there; tensors that it makes are left by `places`."""
    if place.rule is not None:
        return True
    after = place.after
    return after is not ANY and not (isinstance(after, Tensor) and not is_outside(after))


def _differences(content: Content) -> list[Variable]:
    """The items that are not the same, or the container."""
    owner = content.owner
    keys, items = content.now()
    if isinstance(owner, dict | list) and all_same(keys, content.keys) and len(items) == len(content.before):
        found = []
        for key, old, new in zip(keys or range(len(items)), content.before, items, strict=True):
            if not same(new, old):
                place = variable(owner, key, f"{content.label}[{key!r}]")
                place.before = old
                found.append(place)
        return found
    place = Variable.__new__(_Whole)
    place.owner, place.key, place.label, place.before = owner, None, content.label, content.before
    return [place]


class _Whole(Variable):
    """A container as a whole, for a message."""

    __slots__ = ()

    def get(self) -> Any:
        return self.owner


def _equal(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and not isinstance(a, Tensor) and bool(a == b))


def _compiled(
    variables: Sequence[Variable], contents: Sequence[Content], items: Sequence[tuple[Any, Any, Any]] = ()
) -> Callable[[], bool]:
    """One function that compares everything."""
    if not variables and not contents and not items:
        return _always
    source = Source(same=same, equal=_equal, MISSING=MISSING, is_=is_)
    name = source.name
    terms = []
    for v in variables:
        owner, key, before = name(v.table), source.literal(v.key), v.before
        if before is MISSING:
            terms.append(
                f"{key} not in {owner}" if isinstance(v.owner, dict) else f"{name(v)}.get() is MISSING"
            )
        else:
            by_value = is_plain(before) or isinstance(before, tuple | MethodType)
            terms.append(_of_value(v.expression(owner, key), before, name, "same" if by_value else ""))
    terms += [_of_content(c, name) for c in contents]
    for table, key, before in items:
        compare = "" if isinstance(before, Tensor) else "equal"
        terms.append(_of_value(source.item(table, key), before, name, compare))
    tried = ["try:", "    return (" + "\n            and ".join(terms) + ")"]
    return source.function(
        "holds()", [*tried, "except (LookupError, AttributeError, ValueError):", "    return False"]
    )


def _of_value(found: str, before: Any, name: Callable[[Any], str], compare: str) -> str:
    """The comparison of a value, by identity first; ``compare`` is the function for others, or empty."""
    if before is None or type(before) is bool:
        return f"{found} is {before}"
    known = name(before)
    return f"((x := {found}) is {known} or {compare}(x, {known}))" if compare else f"{found} is {known}"


def _of_content(content: Content, name: Callable[[Any], str]) -> str:
    """The comparison of a container by identity, which nearly always does, before that by value."""
    owner, items = content.owner, content.before
    slowly = f"{name(content)}.holds()"
    if type(content) is _Entries:
        return (
            f"all(map(is_, map({name(owner)}.get, {name(content.keys)}), {name(items)}))" if items else "True"
        )
    if not isinstance(owner, dict | list) or any(item is ANY for item in items):
        return slowly
    found = f"{name(owner)}.values()" if isinstance(owner, dict) else name(owner)
    terms = [f"len({name(owner)}) == {len(items)}"]
    if isinstance(owner, dict):
        terms.append(f"all(map(is_, {name(owner)}, {name(content.keys)}))")
    if isinstance(owner, list) and len(items) <= 4:
        terms += [f"{name(owner)}[{i}] is {name(item)}" for i, item in enumerate(items)]
    else:
        terms.append(f"all(map(is_, {found}, {name(items)}))")
    return f"({' and '.join(terms)} or {slowly})"


def _always() -> bool:
    return True
