"""``torch.utils.flop_counter``: the FLOPs of a program, by module."""

from __future__ import annotations

import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from .._array import tracing
from .._base import watch
from .._tensor.tensor import Tensor
from ..autograd import profiler
from ..nn._place import Place

__all__ = ["FlopCounterMode"]

_WHOLE = "Global"


class FlopCounterMode(profiler.profile):
    """A context that counts the operations of products of matrices and convolutions, forward and backward.

    A multiplication and an addition are two. The numbers come from the jaxprs of the eager operations, so attention and
    recurrent layers are counted too. Compiled functions are not seen; `functorch_port.viz.program` shows theirs.

    Args:
        mods: of no effect: modules are found as they are called.
        depth: how deep the table shows modules.
        display: print the table at the end.
        custom_mapping: refused: an operation's own jaxpr is counted.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.utils.flop_counter import FlopCounterMode
        >>> model = torch.nn.Linear(4, 3)
        >>> with FlopCounterMode(display=False) as counter:
        ...     y = model(torch.ones(5, 4))
        >>> counter.get_total_flops()
        120

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.utils.flop_counter.FlopCounterMode.html
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None
    ) -> None:
        super().__init__(with_flops=True)
        if custom_mapping is not None:
            raise NotImplementedError(
                "FlopCounterMode(custom_mapping=...): the operations' jaxprs are counted"
            )
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.depth, self.display = depth, display
        self._module = Place(lambda module: type(module).__name__, ".")
        self._where: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._places: list[str] = []
        self._place = ""

    def __enter__(self) -> FlopCounterMode:
        super().__enter__()  # refuses another profile, before there are hooks
        self._noted, self._places = [], []
        self._module.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._module.stop()
        super().__exit__(*exc)
        if self.display and exc[0] is None:
            print(self.get_table())

    def run_compiled(self, compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._place = self._module.now
        return super().run_compiled(compiled, args, kwargs)

    def note(self, name: str, start: float, **more: Any) -> Any:
        self._places.append(self._place)
        return super().note(name, start, **more)

    def run_op(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._place = self._module.now
        out = super().run_op(op, args, kwargs)
        for tensor in out if isinstance(out, list | tuple) else (out,):
            if not tracing.overlay and isinstance(tensor, Tensor) and tensor._grad_fn is not None:
                self._where[tensor._grad_fn] = self._place
        return out

    def at_node(self, node: Any, run: Callable[..., Any]) -> Callable[..., Any]:
        noted = super().at_node(node, run)

        def placed(*args: Any) -> Any:
            self._place = self._where.get(node, "")
            return noted(*args)

        return placed

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """By module, those of its children among them, the operations' numbers by their names."""
        found: dict[str, Counter[str]] = {}
        if watch.state.profile is self:  # so far
            self._apart(self._count)
        for event, place in zip(self._noted, self._places):
            if event.flops:
                parts = place.split(".") if place else []
                for name in (_WHOLE, *(".".join(parts[: i + 1]) for i in range(len(parts)))):
                    found.setdefault(name, Counter())[event.name] += event.flops
        return {name: dict(counts) for name, counts in found.items()}

    def get_total_flops(self) -> int:
        """The sum of all."""
        return sum(self.get_flop_counts().get(_WHOLE, {}).values())

    def get_table(self, depth: int | None = None) -> str:
        """The numbers as text, to a depth of modules."""
        depth = self.depth if depth is None else depth
        whole = self.get_total_flops()
        rows = [("Module", "FLOPs", "% Total")]
        for name, counts in self.get_flop_counts().items():
            level = 0 if name == _WHOLE else name.count(".") + 1
            if level <= depth:
                for title, number in (
                    (name, sum(counts.values())),
                    *((f" - {k}", n) for k, n in counts.items()),
                ):
                    share = f"{100 * number / whole:.2f}%" if whole else "0%"
                    rows.append((" " * level + title, f"{number:,}", share))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"{a.ljust(widths[0])}  {b.rjust(widths[1])}  {c.rjust(widths[2])}" for a, b, c in rows]
        return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
