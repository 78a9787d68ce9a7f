"""Activation checkpointing: drop the saved values of a part of forward and recompute them in backward.

The function runs and is recorded as usual; then its nodes drop their saved values. When the backward pass reaches the
first of these nodes, the function runs again and the new nodes pass their values to the old ones. Inside `compile` the
recomputation depends on the gradient through an optimization barrier, so that XLA neither merges it with the first
run nor starts it early.

Reference: https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from functorch_port import random
from functorch_port._array import tracing
from functorch_port._base import contexts, scopes
from functorch_port._base.modes import OfThread
from functorch_port._run import autocast
from functorch_port._run.opnode import OpNode, edge_of
from functorch_port._run.packing import with_history
from functorch_port._tensor import grad_mode, saved, tree
from functorch_port._tensor.node import AccumulateGrad, Edge, Node
from functorch_port._tensor.tensor import Tensor, wrap

__all__ = [
    "CheckpointError",
    "checkpoint",
    "checkpoint_sequential",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class _State(OfThread):
    """
    Attributes:
        within: whether a checkpoint runs, whose nodes keep nothing.
        waits: arrays without which it is not to start, in a trace.
    """

    within = False
    waits: tuple[Any, ...] = ()

    @contextlib.contextmanager
    def having(self, **attributes: Any) -> Iterator[None]:
        """Set some of these for a block."""
        before = {name: getattr(self, name) for name in attributes}
        vars(self).update(attributes)
        try:
            yield
        finally:
            vars(self).update(before)


state = _State()

_SAVED = ("values", "pull", "call", "kept", "_saved")  # the attributes of nodes with saved values
_CHECKS = ("default", "none")


class CheckpointError(RuntimeError):
    """Raised if the recomputation differs from the first run."""


def noop_context_fn() -> tuple[Any, Any]:
    """The default ``context_fn``: two context managers that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Run ``function(*args, **kwargs)`` without keeping its activations; the backward pass computes them again.

    It works eagerly and in `compile`. Side effects of the function happen twice: BatchNorm updates its running
    statistics twice, as in PyTorch.

    Args:
        function: the function to run; the same inputs must give the same operations.
        args: its arguments.
        use_reentrant: both values use the same implementation; True accepts no keyword arguments and, as in PyTorch,
            returns outputs without gradients if no tensor argument requires one, and otherwise outputs that all
            require one.
        context_fn: returns two context managers, for the first run and for the recomputation.
        determinism_check: ``"default"`` compares the operations of both runs by name, shapes and dtypes; ``"none"``
            compares only their number.
        debug: accepted and ignored; an error always names the first operation that differs.
        early_stop: accepted and ignored; the recomputation always runs the whole function.
        preserve_rng_state: (keyword, default True) the recomputation draws the same random numbers.
        kwargs: keyword arguments of the function.

    Raises:
        ValueError: ``use_reentrant`` is True and there are keyword arguments, a ``context_fn`` or ``debug``.
        RuntimeError: in the backward pass, ``use_reentrant`` is True and nothing in the function required a gradient.
        CheckpointError: in the backward pass, if the recomputation differs from the first run.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.utils.checkpoint import checkpoint
        >>> x = torch.tensor([1., 2.], requires_grad=True)
        >>> checkpoint(lambda t: t.square().sin(), x, use_reentrant=False).sum().backward()
        >>> x.grad
        tensor([ 1.0806, -2.6146])

    Reference: https://docs.pytorch.org/docs/stable/checkpoint.html#torch.utils.checkpoint.checkpoint
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in "
            "PyTorch 2.9, calling checkpoint without use_reentrant will raise an exception. "
            "use_reentrant=False is recommended, but if you need to preserve the current default behavior, "
            "you can pass use_reentrant=True. "
            "Refer to docs for more details on the differences between the two variants.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if determinism_check not in _CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_CHECKS)}, but got {determinism_check}")
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if grad_mode.is_grad_enabled() and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
            with grad_mode.no_grad():
                return function(*args)
    if tracing.overlay and tracing.overlay.transforms:  # JAX differentiates: no tape, nothing to save
        return function(*args, **kwargs)
    first, second = context_fn()
    frame = _Frame(function, args, kwargs, preserve, second, determinism_check != "none")
    with first:
        result = frame.run()
    return _all_recorded(result, args) if use_reentrant and grad_mode.is_grad_enabled() else result


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a sequence of functions in ``segments`` segments, and checkpoint all but the last.

    Args:
        functions: a ``Sequential`` or a list of functions.
        segments: number of segments.
        input: the input of the first function.
        use_reentrant: see `checkpoint`.
        preserve_rng_state: see `checkpoint`.

    Reference: https://docs.pytorch.org/docs/stable/checkpoint.html#torch.utils.checkpoint.checkpoint_sequential
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(chain) // segments

    def part(start: int, end: int | None) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for link in chain[start:end]:
                value = link(value)
            return value

        return run

    last = size * (segments - 1)
    for start in range(0, last, size or 1):
        options = {"use_reentrant": use_reentrant, "preserve_rng_state": preserve}
        input = checkpoint(part(start, start + size), input, **options)
    return part(last, None)(input)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The accelerators that hold tensors in the arguments, and the states of their random generators.

    Returns:
        Two lists, empty if all tensors are on the CPU. `set_device_states` takes them.

    Reference: https://docs.pytorch.org/docs/stable/checkpoint.html
    """
    found = {
        leaf.get_device()  # type: ignore[attr-defined]
        for leaf in tree.leaves(args)
        if isinstance(leaf, Tensor) and leaf.device.type not in ("cpu", "meta")
    }
    devices = sorted(found)
    return devices, [random.get_rng_state() for _ in devices]


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    """Set the states of accelerators' random generators to those that `get_device_states` gave.

    Args:
        device_type: accepted, as a process has accelerators of one kind.
    """
    for one in states[:1]:  # one generator serves all devices
        random.set_rng_state(one)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Accepted and ignored: the recomputation always runs the whole function."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Accepted and ignored; see ``debug`` of `checkpoint`."""
    yield


class _Frame:
    """One checkpointed call: how to recompute it, and the nodes that need the recomputed values."""

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: Any, preserve: bool, context: Any, check: bool
    ) -> None:
        self.function = function
        self.call = (args, kwargs)
        self.context = context
        self.check = check
        now = contexts.state
        self.contexts = {
            name: getattr(now, name) for name in ("parts", "split", "joined", "around", "platform")
        }
        self.random = _Random() if preserve else None
        self.autocast = {kind: tuple(setting) for kind, setting in autocast.state.settings.items()}
        self.scope = scopes.state.path, scopes.state.module
        self.nodes: list[Any] = []
        self.metadata: list[Any] = []

    def run(self) -> Any:
        """The first run."""
        args, kwargs = self.call
        if not grad_mode.is_grad_enabled():
            return self.function(*args, **kwargs)
        self.call = _mapped(_frozen, self.call)  # later writes to them have no effect
        since = Node(()).seq
        with saved.without_hooks(), state.having(within=True):  # no hooks for values that are dropped
            result = self.function(*args, **kwargs)
        if self.random is not None:
            self.random.first_run_ended()
        nodes = _recorded(result, since)
        for pending in [node.pending for node in nodes if isinstance(node, OpNode)]:
            if pending is not None:
                pending.compute()
        self.metadata = [_metadata(node) for node in nodes]
        self.nodes = [weakref.ref(node) for node in nodes]
        for node in nodes:
            node.remake_by(self.before)
            node.looking = self.looked_at
            _drop(node)
        return result

    def before(self, gradients: Sequence[Any]) -> None:
        """Recompute before the first of the nodes runs backward; do nothing for the others."""
        if self.nodes:
            nodes, self.nodes = self.nodes, []
            call, self.call = self.call, ((), {})
            for ref, new in zip(nodes, self.run_again(call, gradients)):
                node = ref()
                if node is not None:
                    _hand_over(new, node)

    @contextlib.contextmanager
    def looked_at(self, node: Node) -> Iterator[None]:
        """Recompute for one node, which somebody looks at, and has its values so long."""
        if not self.nodes:  # it has them, or a backward pass has used them up
            yield
            return
        fresh = self.run_again(_mapped(_frozen, self.call), ())
        new = next(new for ref, new in zip(self.nodes, fresh) if ref() is node)
        with new.looked_at():  # it may be one of a checkpoint inside this one
            _hand_over(new, node)
        try:
            yield
        finally:
            _drop(node)

    def run_again(self, call: Any, gradients: Sequence[Any]) -> list[Node]:
        """Recompute; return the new nodes."""
        args, kwargs = call
        waits = tuple([g._value for g in gradients if g is not None]) if tracing.overlay else ()
        if waits:
            args, kwargs = _behind_barrier((args, kwargs), waits)
        with contextlib.ExitStack() as stack:
            if tracing.overlay:
                stack.enter_context(scopes.again(*self.scope))
            if tracing.overlay and not tracing.overlay.transforms:
                stack.enter_context(tracing.overlay.apart())
            if self.random is not None:
                stack.enter_context(self.random.again())
            stack.enter_context(_autocast(self.autocast))
            stack.enter_context(self.context)
            stack.enter_context(grad_mode.enable_grad())
            stack.enter_context(saved.without_hooks())
            stack.enter_context(state.having(within=True, waits=waits))
            stack.enter_context(contexts.state.having(**self.contexts))
            if contexts.state.around is not None:
                stack.enter_context(contexts.state.around())
            since = Node(()).seq
            result = self.function(*args, **kwargs)
        fresh = _recorded(result, since)
        self.compare(fresh)
        return fresh

    def compare(self, fresh: list[Node]) -> None:
        """Raise if the recomputation recorded other operations."""
        if len(fresh) != len(self.metadata):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original "
                f"forward and recomputation.\nNumber of tensors saved during forward: {len(self.metadata)}\n"
                f"Number of tensors saved during recomputation: {len(fresh)}"
            )
        if not self.check:
            return
        for number, (old, node) in enumerate(zip(self.metadata, fresh)):
            new = _metadata(node)
            if old != new:
                raise CheckpointError(
                    "torch.utils.checkpoint: Recomputed values for the following tensors have different "
                    f"metadata than during the forward pass.\noperation {number}:\nsaved metadata: {old}\n"
                    f"recomputed metadata: {new}"
                )


def _mapped(fn: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Apply ``fn`` to the tensors in nested containers."""
    return tree.map(lambda leaf: fn(leaf) if isinstance(leaf, Tensor) else leaf, value)


def _frozen(tensor: Tensor) -> Tensor:
    """The tensor's current value in a new Storage, with the same autograd history."""
    copy = wrap(tensor._value)
    copy._requires_grad = tensor.requires_grad
    copy._grad_fn, copy._output_nr = tensor.grad_fn, tensor._output_nr
    return copy


def _behind_barrier(call: Any, waits: Sequence[Any]) -> Any:
    """The arguments behind an optimization barrier, so that XLA computes them only after the gradients."""
    tensors: list[Tensor] = []
    _mapped(lambda tensor: tensors.append(tensor) or tensor, call)  # type: ignore[func-returns-value]
    values = iter(jax.lax.optimization_barrier((*[t._value for t in tensors], *waits)))

    def renewed(tensor: Tensor) -> Tensor:
        tensor._storage.value = next(values)
        return tensor

    return _mapped(renewed, call)


def _recorded(result: Any, since: int) -> list[Node]:
    """The nodes recorded after ``since`` that lead to the tensors in ``result``, in the order of recording."""
    found: dict[Node, None] = {}
    stack = [leaf.grad_fn for leaf in tree.leaves(result) if isinstance(leaf, Tensor)]
    while stack:
        node = stack.pop()
        if node is None or node in found or node.seq < since or isinstance(node, AccumulateGrad):
            continue
        found[node] = None
        stack.extend(edge[0] for edge in node.edges if edge is not None)
    return sorted(found, key=lambda node: node.seq)


class CheckpointFunctionBackward(Node):
    """The history of an output of a reentrant checkpoint that no gradient can go through."""

    __slots__ = ("_needed",)

    def __init__(self, edges: Sequence[Edge], needed: bool) -> None:
        super().__init__(edges)
        self._needed = needed

    def apply(self, grads: Sequence[Any]) -> Sequence[Any]:
        if not self._needed:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        return [None] * len(self.edges)

    apply_recorded = apply


def _all_recorded(result: Any, args: Sequence[Any]) -> Any:
    """The outputs, of which PyTorch has all require a gradient."""
    needed = any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in tree.leaves(result))
    edges = [edge_of(a) for a in args if isinstance(a, Tensor)]

    def recorded(tensor: Tensor) -> Tensor:
        if tensor.requires_grad or not tensor._is_differentiable():
            return tensor
        node = CheckpointFunctionBackward(edges, needed)
        return with_history(tensor, (node, 0))

    return _mapped(recorded, result)


def _metadata(node: Node) -> Any:
    values = getattr(node, "values", None) or ()
    return node.name(), [(tuple(v.shape), str(v.dtype)) for v in values if hasattr(v, "shape")]


def _drop(node: Node) -> None:
    """Have a node let go of what it saved."""
    for name in _SAVED:
        if hasattr(node, name):
            setattr(node, name, None)


def _hand_over(new: Node, old: Node) -> None:
    for name in _SAVED:  # a checkpoint inside this one may have restored some already
        if getattr(old, name, 0) is None:
            setattr(old, name, getattr(new, name))


@contextlib.contextmanager
def _autocast(settings: dict[str, tuple[bool, Any]]) -> Iterator[None]:
    """Restore the autocast settings of the first run."""
    before = {kind: tuple(setting) for kind, setting in autocast.state.settings.items()}
    try:
        for kind, (on, dtype) in settings.items():
            autocast.switch(kind, on, dtype)
        yield
    finally:
        for kind, (on, dtype) in before.items():
            autocast.switch(kind, on, dtype)


class _Random:
    """The state of the default generator before the first run, so that the recomputation draws the same numbers.

    In a trace with PyTorch's stream each draw is an input of the program; there the draws of the first run are reused.
    """

    def __init__(self) -> None:
        overlay = tracing.current()
        self.overlay = overlay if getattr(overlay, "rng", None) == "torch" else None
        self.state = None if self.overlay is not None else random.get_rng_state()
        self.start = len(self.overlay.draws) if self.overlay is not None else 0
        self.draws: list[Any] = []

    def first_run_ended(self) -> None:
        if self.overlay is not None:
            self.draws = [array for _, array in self.overlay.draws[self.start :]]

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Repeat the draws of the first run, and leave the generator unchanged."""
        if self.overlay is None:
            with random.fork_rng():
                random.set_rng_state(self.state)  # type: ignore[arg-type]
                yield
            return
        draws = iter(self.draws)
        self.overlay.host_draw = lambda draw: next(draws)
        try:
            yield
        finally:
            del self.overlay.host_draw
