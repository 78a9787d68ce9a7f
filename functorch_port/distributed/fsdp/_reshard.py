"""Whole parameters that are let go of after the forward pass, and gathered again in the backward pass.

The nodes that a unit has recorded keep what they need of the parameters. After the forward pass a mark takes its place,
and the first of the nodes that runs backward has the parameters gathered again. In a program that depends on the
gradient by an optimization barrier, as in `utils.checkpoint`: so XLA does not keep the first gather instead.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax

from ..._array import offloaded
from ..._run.opnode import OpNode
from ..._tensor import grad_mode
from ..._tensor.pullback import Pullback
from ..._tensor.tensor import Tensor, wrap
from ..._trace.stages import ProgramNode
from ...utils.checkpoint import _recorded

__all__ = ["Regathered"]


class _Mark:
    """Stands for a parameter's whole value."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Regathered:
    """The whole parameters of one call of a unit.

    Args:
        gathered: them, each with the function that gathers it and the parameter's value.
    """

    def __init__(self, gathered: Sequence[tuple[Tensor, tuple[Callable[[Tensor], Tensor], Any]]]) -> None:
        self.again = [how for _, how in gathered]
        self.marks = {id(whole._value): _Mark(i) for i, (whole, _) in enumerate(gathered)}
        self.nodes: list[weakref.ref[Any]] = []

    def begin(self, out: Any, since: int) -> None:
        """Let go of them in all nodes since then that lead to the result."""
        for node in _recorded(out, since):
            if not isinstance(node, OpNode | ProgramNode):
                continue
            if self._replace(node, lambda value: self.marks.get(id(value), value)):
                node.remake_by(self.before)
                self.nodes.append(weakref.ref(node))
        self.marks = {}

    def before(self, gradients: Sequence[Any]) -> None:
        """Gather them before the first node runs; do nothing for the others."""
        nodes, self.nodes = self.nodes, []
        if not nodes:
            return
        ways, parts = zip(*self.again)
        waited = [g._value for g in gradients if g is not None]
        if any(isinstance(value, jax.core.Tracer) for value in (*parts, *waited)):
            parts = jax.lax.optimization_barrier((*parts, *waited))[: len(ways)]
        with grad_mode.no_grad():
            parts = offloaded.to_devices(parts)
            values = [way(wrap(part))._value for way, part in zip(ways, parts, strict=True)]
        self.again = []
        for ref in nodes:
            node = ref()
            if node is not None:
                self._replace(node, lambda v: values[v.number] if v.__class__ is _Mark else v)

    @staticmethod
    def _replace(node: Any, change: Callable[[Any], Any]) -> bool:
        """Change what a node keeps; whether there was something to change."""
        found = False

        def changed(value: Any) -> Any:
            nonlocal found
            new = change(value)
            found = found or new is not value
            return new

        is_mark = lambda value: value.__class__ is _Mark
        if node.values is not None:
            node.values = tuple([changed(value) for value in node.values])
        if isinstance(node, ProgramNode):
            if node.residuals is not None:
                node.residuals = [changed(value) for value in node.residuals]
            return found
        if node.kept.__class__ is tuple:
            plan, values = node.kept
            node.kept = (plan, [changed(value) for value in values])
        if node.pull is not None:
            old = node.pull
            leaves, shape = jax.tree.flatten(old.pull, is_leaf=is_mark)
            node.pull = Pullback(
                jax.tree.unflatten(shape, [changed(leaf) for leaf in leaves]), old.outs, old.many
            )
        return found
