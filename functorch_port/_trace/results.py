"""How the leaves of a call's result are made of what its program returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .._tensor.tensor import Tensor, wrap
from .._tensor.tree import LEAF, Structure, builder

__all__ = ["Argument", "Array", "Changed", "Computed", "Constant", "Left", "Number", "Output", "Results"]


class Output:
    """One leaf of the result, or a tensor that gets a new history.

    Attributes:
        index: of the program's output with its value; -1 if there is none.
        requires_grad: whether it has a history; then gradients arrive at output ``number`` of the node ``stage``.
    """

    __slots__ = ("index", "number", "requires_grad", "stage")

    def __init__(self, index: int = -1, requires_grad: bool = False) -> None:
        self.index, self.requires_grad = index, requires_grad
        self.stage = self.number = 0

    def make(
        self,
        outs: Sequence[Any],
        leaves: Sequence[Any],
        env: dict[Any, Any],
        nodes: Any,
        made: Sequence[Tensor],
    ) -> Any:
        """The leaf of a call.

        Args:
            outs: what the program returned.
            leaves: the arguments.
            env: the Python numbers by name.
            nodes: those of the call on the tape.
            made: the tensors that `Made` made.
        """
        raise NotImplementedError

    def give_history(self, tensor: Tensor, nodes: Sequence[Any]) -> None:
        tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, nodes[self.stage], self.number


class Computed(Output):
    """A fresh tensor.

    Attributes:
        shared: the tensor whose Storage it has, or its number among those made; None if it has its own.
        version: how often its value was written to in the function.
    """

    __slots__ = ("shared", "version")

    def __init__(self, index: int, requires_grad: bool = False, shared: Any = None) -> None:
        super().__init__(index, requires_grad)
        self.shared, self.version = shared, 0

    def make(self, outs: Any, leaves: Any, env: Any, nodes: Any, made: Any) -> Tensor:
        tensor = wrap(outs[self.index])
        if self.version:
            tensor._storage.version = self.version
        if self.requires_grad and nodes is not None:
            self.give_history(tensor, nodes)
        shared = self.shared
        if shared is not None:
            tensor._storage = (made[shared] if shared.__class__ is int else shared)._storage
        return tensor


class Changed(Computed):
    """A tensor that was there before, and goes on from what the program computes.

    Attributes:
        target: the tensor, or the position of an argument.
    """

    __slots__ = ("target",)

    def __init__(self, index: int, target: Any) -> None:
        super().__init__(index, requires_grad=True)
        self.target = target


class Left(Output):
    """One of the tensors that `Made` makes.

    Attributes:
        made: its number.
    """

    __slots__ = ("made",)

    def __init__(self, made: int, requires_grad: bool = False) -> None:
        super().__init__(requires_grad=requires_grad)
        self.made = made

    def make(self, outs: Any, leaves: Any, env: Any, nodes: Any, made: Any) -> Any:
        return made[self.made]


class Argument(Output):
    """An argument as it is."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position

    def make(self, outs: Any, leaves: Any, env: Any, nodes: Any, made: Any) -> Any:
        return leaves[self.position]


class Array(Output):
    """An array of JAX."""

    __slots__ = ()

    def make(self, outs: Any, leaves: Any, env: Any, nodes: Any, made: Any) -> Any:
        return outs[self.index]


class Number(Output):
    """A Python number, by a rule from the numbers that are inputs."""

    __slots__ = ("rule",)

    def __init__(self, rule: Callable[[dict[Any, Any]], Any]) -> None:
        super().__init__()
        self.rule = rule

    def make(self, outs: Any, leaves: Any, env: Any, nodes: Any, made: Any) -> Any:
        return self.rule(env)


class Constant(Output):
    """The same object at every call."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value

    def make(self, outs: Any, leaves: Any, env: Any, nodes: Any, made: Any) -> Any:
        return self.value


@dataclass(frozen=True)
class Results:
    """The leaves and their structure.

    Attributes:
        build: puts the leaves together; None if the result is one leaf.
    """

    outputs: tuple[Output, ...]
    tree: Structure
    build: Callable[[list[Any]], Any] | None

    @classmethod
    def of(cls, outputs: Sequence[Output], tree: Structure) -> Results:
        return cls(tuple(outputs), tree, None if tree == LEAF else builder(tree))
