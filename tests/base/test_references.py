"""Who else holds an object: the one file that counts references, on the interpreter that runs the tests."""

from __future__ import annotations

import gc
import types
from typing import Any

import functorch_port as ft
from functorch_port._base import references
from functorch_port._base.references import are_alone, counts, instances, others, owners


class Thing:
    pass


class Cell:
    def __init__(self) -> None:
        self.held: Any = Thing()


def test_an_owner_and_the_list_alone() -> None:
    cells = [Cell() for _ in range(3)]
    values = [cell.held for cell in cells]
    assert are_alone(values) and are_alone([])
    assert counts(values) == [1, 1, 1]
    another = cells[1].held
    assert not are_alone(values)
    assert counts(values) == [1, 2, 1]
    del another
    assert are_alone(values)
    cells.clear()
    assert counts(values) == [0, 0, 0]


def test_a_function_that_is_given_the_list_sees_the_same() -> None:
    def asked(values: list[Any]) -> tuple[bool, list[int]]:
        return are_alone(values), counts(values)

    cell = Cell()
    assert asked([cell.held]) == (True, [1])
    held = cell.held
    assert asked([held]) == (False, [2])


def test_others_than_our_containers() -> None:
    values = [Thing(), Thing()]
    ours, theirs = {"a": values[0]}, [values[1], values[1]]
    assert others(values, (values, ours)) == [0, 2]
    assert others(values, (values, ours, theirs, theirs)) == [0, 0]


def test_owners_are_found_and_the_search_is_not() -> None:
    value, other = Thing(), Thing()
    table, listed = {"x": value}, [other, value]
    values = [value, other]
    hidden = {id(values): None}
    hidden[id(hidden)] = None
    found, held = owners(values, hidden)
    assert sorted(type(owner).__name__ for owner in found) == ["dict", "list", "list"]
    assert {id(owner) for owner in found} == {id(table), id(listed)}
    assert not any(isinstance(owner, types.FrameType) for owner in found)
    assert [o for o in found if o is table] and held[[o is table for o in found].index(True)] is value
    assert owners(values, hidden, (dict, list)) == ([], [])
    assert owners([], hidden) == ([], [])


def test_instances_of_just_these_classes() -> None:
    class Special(Thing):
        pass

    thing, special = Thing(), Special()
    gc.collect()
    assert [o for o in instances({Special})] == [special]
    assert thing in instances({Thing}) and special not in instances({Thing})


def test_a_program_is_given_what_nobody_else_holds() -> None:
    p = ft.ones(8192)

    @ft.compile
    def step() -> None:
        p.mul_(2)

    for _ in range(3):
        step()
    held = p.jax()
    step()
    assert held.sum() == 8 * 8192 and p.sum() == 16 * 8192  # copied
    del held
    pointer = p.jax().unsafe_buffer_pointer()
    step()
    assert p.jax().unsafe_buffer_pointer() == pointer  # given, and used for the result


def test_the_counts_are_used_in_one_file() -> None:
    from pathlib import Path

    package = Path(references.__file__).parents[1]
    files = [
        f
        for f in package.rglob("*.py")
        if "getrefcount" in f.read_text() or "gc.get_referrers" in f.read_text()
    ]
    assert {str(f.relative_to(package)) for f in files} == {"_base/references.py"}
