"""What a trace has found so far; `assemble` makes a `Program` of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._array.joint import Joint
from .._array.storage import Storage
from .._tensor.tensor import Tensor
from .._tensor.tree import LEAF, Structure
from .._tensor.view import View
from .effects import GradWrites, Target
from .handles import Made
from .places import Places
from .results import Changed, Left, Output
from .stages import Stage
from .stateful import Stepping
from .value_guards import ValueGuards

if TYPE_CHECKING:
    from . import checking

__all__ = ["Draft"]


@dataclass
class Draft:
    """The parts of a program before they are sorted; see `Results`, `Effects`, `Recording`, `Guards` and `FirstCall`.

    Outputs have the numbers that they were noted under until `assemble` sorts them, which also tells ``args`` from
    ``cells``.

    Attributes:
        made: what is made anew at every call.
        joints: those that the program takes as one array, and how often it writes to their members.
        number_places: places of the Python numbers that are inputs (see `Numbers`).
        before, within: the checks of values that are made before a call, and those that the program makes.
    """

    made: Made = field(init=False)
    values: ValueGuards = field(init=False)
    places: Places | None = None
    old_grads: list[Target] = field(default_factory=list)

    outputs: list[Output] = field(default_factory=list)
    tree: Structure = LEAF

    cells: list[tuple[Storage, int, int]] = field(default_factory=list)
    joints: list[tuple[Joint, int]] = field(default_factory=list)
    args: list[tuple[int, int, int]] = field(default_factory=list)
    uncounted: list[tuple[Target, int]] = field(default_factory=list)
    grads: GradWrites = field(default_factory=GradWrites.none)
    number_writes: list[tuple[dict[Any, Any], Any, Callable[[dict[Any, Any]], Any]]] = field(
        default_factory=list
    )
    flags: list[tuple[Target, bool]] = field(default_factory=list)
    detached: list[Target] = field(default_factory=list)
    modes: list[tuple[Any, bool]] = field(default_factory=list)
    hooks: list[tuple[Target, str, Any]] = field(default_factory=list)

    boundary: list[tuple[str, Any]] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    histories: list[Left] = field(default_factory=list)

    number_places: dict[Any, tuple[Any, Any, Any, Any]] = field(default_factory=dict)
    grad_guards: list[tuple[Any, bool]] = field(default_factory=list)
    tensor_guards: list[tuple[Tensor, bool | None, tuple[Storage, View | None] | None]] = field(
        default_factory=list
    )
    table_guards: list[tuple[Any, Any, dict[str, dict[Any, Any]]]] = field(default_factory=list)
    hook_guards: list[tuple[Tensor, tuple[Any, ...]]] = field(default_factory=list)
    argument_hooks: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    optimizers: list[tuple[Stepping, Any, Any]] = field(default_factory=list)

    before: list[checking.Before] = field(default_factory=list)
    within: checking.Within | None = None

    fill: list[tuple[Storage, int]] = field(default_factory=list)
    kept: list[Storage] = field(default_factory=list)
    why_once: str = ""
    changes_containers: bool = False
