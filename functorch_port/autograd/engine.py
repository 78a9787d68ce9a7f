"""The engine: walks the tape from the outputs to the leaves, the latest operation first, without recursion.

An operation is younger than those its inputs came from, so the nodes sorted by age are in a right order; no counting of
dependencies is needed but for the leaves, which receive their gradient as soon as it is complete (as in PyTorch).
An executor may compute the gradients of a graph in another way (`_array.executor.Executor.backward`).
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jax
import numpy as np

from .._array import executor, storage
from .._array.limits import tidy
from .._base import inside, modes
from .._base.tuning import tuning
from .._tensor import anomaly, grad_mode
from .._tensor.node import AccumulateGrad, Node, accumulator
from .._tensor.tensor import Tensor, wrap

__all__ = ["backward", "grad"]

#: (node, output number): where a gradient enters the walk, or is caught
Place = tuple[Node, int]

_age = operator.attrgetter("seq")


@jax.jit
def _add(a: Any, b: Any) -> Any:
    return a + b


def summed(a: Any, b: Any) -> Any:
    """Add two gradients: arrays, or Tensors when the backward is recorded."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        a, b = _tensor(a), _tensor(b)
        return b + a if a.is_sparse else a + b
    if storage.overlay:
        return a + b
    if isinstance(a, jax.ShapeDtypeStruct):
        return a
    if a.__class__ in storage.HOST and b.__class__ in storage.HOST:
        with np.errstate(all="ignore"):
            return a + b
    with storage.x64():
        return _add(a, b)


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else wrap(value)


def _array(value: Any) -> Any:
    return value._look() if isinstance(value, Tensor) else value


# ------------------------------------------------------------------ arguments


def _place(tensor: Tensor) -> Place:
    node = tensor.grad_fn
    return (accumulator(tensor), 0) if node is None else (node, tensor._output_nr)


def _as_tuple(x: Any) -> tuple[Any, ...]:
    single = isinstance(x, Tensor) or (isinstance(x, tuple) and x and isinstance(x[0], Node))
    return (x,) if single else tuple(x)


def _target_place(x: Any) -> Place:
    """Where to catch the gradient of an ``inputs=`` element: a Tensor or a `GradientEdge`."""
    if isinstance(x, Tensor):
        return _place(x)
    if isinstance(x, tuple) and len(x) > 1 and isinstance(x[0], Node):
        return (x[0], x[1])
    raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(x).__name__}")


def _root_gradients(outputs: Sequence[Any], gradients: Sequence[Any], batched: bool = False) -> list[Any]:
    """Check the gradients given for the outputs, and make the implicit ones of scalars."""
    checked = []
    for index, (output, gradient) in enumerate(zip(outputs, gradients)):
        if gradient is None:
            checked.append(_implicit(output) if isinstance(output, Tensor) and output.requires_grad else None)
        elif not isinstance(gradient, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
        else:
            checked.append(
                _fitting(gradient, output, index, batched) if isinstance(output, Tensor) else gradient
            )
    if len(checked) < len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(checked)} gradients")
    return checked


def _implicit(output: Tensor) -> Any:
    value = output._aval()
    if math.prod(value.shape) != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if not output.is_floating_point():
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {output.dtype}"
        )
    if value.__class__ in storage.HOST:
        return _host_ones(value.shape, value.dtype)
    if value.__class__ in storage.LAZY:
        return _ones[value.shape, value.dtype, None]
    if storage.overlay or not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
        with storage.x64():
            return jax.numpy.ones(value.shape, value.dtype)
    # an array put somewhere on purpose is committed, and what is computed with it, which compiled programs notice
    return _ones[value.shape, value.dtype, value.sharding if value.committed else None]


class _Ones(dict):
    """Arrays of ones by shape, dtype and place; arrays are immutable, so one of each is enough."""

    def __missing__(self, key: Any) -> Any:
        shape, dtype, sharding = key
        one = self[key] = storage.put(np.ones(shape, dtype), sharding)
        return one


_ones = _Ones()


@functools.lru_cache(tuning.cached_arrays)
def _host_ones(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.ones(shape, dtype)


def _fitting(gradient: Tensor, output: Tensor, index: int, batched: bool) -> Tensor:
    given, made = gradient._look(), output._aval()
    if given.shape == made.shape and given.dtype == made.dtype and not batched:
        return gradient
    shape = gradient.shape[1:] if batched else gradient.shape
    if shape != output.shape:
        found = (
            f"grad_output[{index}] has a shape of {shape} and output[{index}] has a shape of {output.shape}."
        )
        if batched:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
                "batch dimension. The sizes of the remaining dimensions are expected to match the shape of "
                f"corresponding output, but a mismatch was detected: {found} If you only want some tensors "
                "in `grad_output` to be considered batched, consider using vmap."
            )
        raise RuntimeError(f"Mismatch in shape: {found}")
    if gradient.is_complex() != output.is_complex():
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch "
            f"in dtype: grad_output[{index}] has a dtype of {gradient.dtype} and output[{index}] has a dtype "
            f"of {output.dtype}."
        )
    return gradient if gradient.dtype is output.dtype else gradient.to(output.dtype)


def _roots(outputs: Sequence[Any]) -> list[Place]:
    places = []
    for index, output in enumerate(outputs):
        if isinstance(output, Tensor) and not output.requires_grad:
            raise RuntimeError(
                f"element {index} of tensors does not require grad and does not have a grad_fn"
            )
        places.append(_target_place(output))
    return places


# ---------------------------------------------------------------- entry points


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Sum the gradients of ``tensors`` into the ``.grad`` of the graph's leaves.

    Args:
        tensors: a Tensor or a sequence of them.
        grad_tensors: their gradients; None for scalars.
        retain_graph: keep the graph for another backward. Default: ``create_graph``.
        create_graph: record the backward, for higher derivatives.
        grad_variables: the old name of ``grad_tensors``.
        inputs: accumulate into these only.

    Raises:
        RuntimeError: if an output does not require grad, is not a scalar and has no gradient, or the graph was freed.

    Example:
        >>> import functorch_port as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> torch.autograd.backward([x.sum(), x * 2], [None, torch.tensor([1., 10.])])
        >>> x.grad
        tensor([ 3., 21.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.backward.html
    """
    _refuse_in_transform()
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                "Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if inputs is not None and not isinstance(inputs, Tensor) and len(inputs) == 0:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    outputs = _as_tuple(tensors)
    gradients = (None,) * len(outputs) if grad_tensors is None else _as_tuple(grad_tensors)
    values = _root_gradients(outputs, gradients)
    wanted = None if inputs is None else _as_tuple(inputs)
    if create_graph:
        _warn_cycle()
    places = _roots(outputs)
    targets = None
    if wanted is not None:
        targets = [_target_place(t) for t in wanted]
        for tensor in wanted:
            if isinstance(tensor, Tensor) and not (tensor._requires_grad and tensor.is_leaf):
                tensor.retain_grad()
    if storage.in_jax():
        _refuse_leaves_outside(outputs, places, targets)
    _run(
        places,
        values,
        create_graph if retain_graph is None else retain_graph,
        create_graph,
        targets,
        catch=False,
    )


def _refuse_leaves_outside(
    outputs: Sequence[Any], roots: Sequence[Place], targets: Sequence[Place] | None
) -> None:
    """Refuse to accumulate into tensors that were made outside of the transform of JAX that is running."""
    order, leaves = reach(roots)
    needed = set(leaves) if targets is None else leading_to(order, {node for node, _ in targets})
    variables = [node.variable for node in leaves if node in needed]
    inside.may_accumulate([t for t in outputs if isinstance(t, Tensor)], variables)


def _refuse_in_transform() -> None:
    if storage.overlay and storage.overlay.transforms:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch transforms."
        )


_warned_cycle = False


def _warn_cycle() -> None:
    global _warned_cycle
    if not _warned_cycle:
        _warned_cycle = True
        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and "
            "its gradient which can cause a memory leak. We recommend using autograd.grad when creating the "
            "graph to avoid this. If you have to use this function, make sure to reset the .grad fields of "
            "your parameters to None after use to break the cycle and avoid the leak.",
            UserWarning,
            stacklevel=4,
        )


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``; no ``.grad`` is touched.

    Args:
        outputs: a Tensor or a sequence of them.
        inputs: the same.
        grad_outputs: gradients of the outputs; None for scalars.
        retain_graph: keep the graph for another backward. Default: ``create_graph``.
        create_graph: record the backward, for higher derivatives.
        allow_unused: return None for an input that the outputs do not depend on, instead of an error.
        is_grads_batched: the gradients of the outputs have a leading dimension, over which the result is stacked.
        materialize_grads: return zeros instead of None.

    Returns:
        A tuple with one gradient per input.

    Example:
        >>> import functorch_port as torch
        >>> x = torch.tensor(3., requires_grad=True)
        >>> (g,) = torch.autograd.grad(x ** 3, x, create_graph=True)
        >>> torch.autograd.grad(g, x)
        (tensor(18.),)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html
    """
    _refuse_in_transform()
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    lenient = materialize_grads if allow_unused is None else allow_unused
    outs, ins = _as_tuple(outputs), _as_tuple(inputs)
    gradients = (None,) * len(outs) if grad_outputs is None else _as_tuple(grad_outputs)
    values = _root_gradients(outs, gradients, is_grads_batched)
    if not ins:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    places = _roots(outs)
    targets: list[Any] = []
    for tensor in ins:
        targets.append(
            _target_place(tensor) if not isinstance(tensor, Tensor) or tensor.requires_grad else None
        )
    if None in targets:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    retain = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        rows = [_rows(values, k, places, create_graph, targets) for k in range(len(values[0]))]
        found = [None if r[0] is None else _stack([_tensor(v) for v in r]) for r in zip(*rows)]
        if not retain:
            for node in reach(places)[0]:
                node.release()
    else:
        found = _run(places, values, retain, create_graph, targets)
    made = [_result(t, v, i, lenient, materialize_grads) for i, (t, v) in enumerate(zip(ins, found))]
    if create_graph and materialize_grads:
        for tensor, value in zip(made, found):
            if value is None:
                tensor._requires_grad = True  # type: ignore[union-attr]
    return tuple(made)


def _rows(
    values: Sequence[Any], k: int, places: Sequence[Place], create_graph: bool, targets: Sequence[Place]
) -> list[Any]:
    """One row of a batch of gradients. The walk is repeated: a tape cannot be batched, its pieces come from
    the cache.
    """
    return _run(places, [v[k] for v in values], True, create_graph, targets)


def _stack(tensors: list[Tensor]) -> Tensor:
    from .._run import bind

    return bind.function("stack")(tensors)


def _result(tensor: Any, value: Any, index: int, lenient: bool, materialize: bool) -> Tensor | None:
    if value is not None:
        return _tensor(value)
    if not lenient:
        raise RuntimeError(
            f"The differentiated Tensor at index {index} appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )
    if not materialize:
        return None
    with storage.x64():
        return wrap(jax.numpy.zeros(tensor.shape, tensor._aval().dtype))


# -------------------------------------------------------------------- the walk


class _Edges(dict):
    """Places where a gradient is caught as it arrives, before hooks, and where the walk ends."""


def at_edges(roots: Sequence[Place], gradients: Sequence[Any], places: Sequence[Place]) -> list[Any]:
    """The gradients that flow out of a part of the graph: what arrives at ``places``, None where nothing does.

    Args:
        roots, gradients: where the walk starts, and the arrays it starts with.
        places: where it ends.
    """
    captures: Any = _Edges()
    for node, number in places:
        captures.setdefault(node, {})[number] = None
    order, awaited = reach(roots)
    needed = leading_to(order, set(captures))
    with grad_mode.no_grad():
        _walk(order, awaited, roots, gradients, True, False, needed, captures)
    return [captures[node][number] for node, number in places]


def _run(
    roots: Sequence[Place],
    gradients: Sequence[Any],
    retain: bool,
    create_graph: bool,
    wanted: Sequence[Place] | None,
    catch: bool = True,
) -> list[Any]:
    """Walk the graph. Gradients are summed into the leaves; with ``wanted``, caught at those places (or, without
    ``catch``, summed into those leaves only)."""
    before = modes.now()
    try:
        return _run_through(roots, gradients, retain, create_graph, wanted, catch)
    except BaseException:
        modes.put_back(before)
        raise
    finally:
        tidy()


def _run_through(
    roots: Sequence[Place],
    gradients: Sequence[Any],
    retain: bool,
    create_graph: bool,
    wanted: Sequence[Place] | None,
    catch: bool,
) -> list[Any]:
    values = [(_tensor if create_graph else _array)(g) for g in gradients]
    if not create_graph and not storage.overlay and not anomaly.enabled:
        done = executor.current.backward(roots, values, retain, wanted, catch)
        if done is not None:
            return done
    order, awaited = reach(roots)
    needed = None if wanted is None else leading_to(order, {node for node, _ in wanted})
    captures: dict[Node, dict[int, Any]] = {}
    if wanted is not None and catch:
        for node, number in wanted:
            captures.setdefault(node, {})[number] = None
    with grad_mode.enable_grad() if create_graph else grad_mode.no_grad():
        _walk(order, awaited, roots, values, retain, create_graph, needed, captures)
    return [captures[node][number] for node, number in wanted] if wanted is not None and catch else []


def _walk(
    order: list[Node],
    awaited: dict[Node, int],
    roots: Sequence[Place],
    values: Sequence[Any],
    retain: bool,
    create_graph: bool,
    needed: set[Node] | None,
    captures: dict[Node, dict[int, Any]],
) -> None:
    buffers: dict[Node, list[Any]] = {}
    for (node, number), value in zip(roots, values):
        _deposit(buffers, node, number, value)
    walk = _Walk(order, awaited, needed, bool(captures))
    _walks.stack.append(walk)
    try:
        _go(order, awaited, buffers, retain, create_graph, needed, captures)
        for callback in walk.callbacks:  # which may add others
            callback()
    finally:
        _walks.stack.pop()


class _Walk:
    """A walk in progress: which nodes it will reach.

    Attributes:
        number: how many came before it.
        catches: whether gradients are caught, and not summed into leaves.
        callbacks: what is to be called when it is done.
    """

    _numbers = itertools.count()

    def __init__(
        self, order: list[Node], leaves: dict[Node, int], needed: set[Node] | None, catches: bool
    ) -> None:
        self.nodes = {*order, *leaves}
        if needed is not None:
            self.nodes &= needed
        self.order = order
        self.number = next(_Walk._numbers)
        self.catches = catches
        self.callbacks: list[Callable[[], None]] = []

    def reaches(self, node: Node) -> bool:
        return node in self.nodes

    def in_order(self) -> list[Node]:
        """The nodes in the order in which they run."""
        awaited = Counter(e[0] for node in self.order for e in node.edges if e is not None)
        found: list[Node] = []
        for node in self.order:
            found.append(node)
            for edge in node.edges:
                if edge is not None:
                    awaited[edge[0]] -= 1
                    if type(edge[0]) is AccumulateGrad and not awaited[edge[0]]:
                        found.append(edge[0])
        return [node for node in found if node in self.nodes]


class _Walks(threading.local):
    """The calling thread's walks in progress, the innermost last (a hook or a custom backward may start another)."""

    def __init__(self) -> None:
        self.stack: list[_Walk] = []


_walks = _Walks()


def current_walk() -> _Walk:
    """The walk that is calling hooks right now."""
    return _walks.stack[-1]


def queue_callback(callback: Callable[[], None]) -> None:
    """Call ``callback`` when the backward pass that is running is done.

    Raises:
        RuntimeError: none is running.
    """
    if not _walks.stack:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    current_walk().callbacks.append(callback)


def _current_graph_task_id() -> int:
    return current_walk().number if _walks.stack else -1


def _current_graph_task_execution_order() -> list[Node]:
    if not _walks.stack:
        raise RuntimeError(
            "_current_graph_task_execution_order should only be called during the backward pass"
        )
    if grad_mode.state.multithreading:
        raise RuntimeError(
            "get_current_graph_task_execution_order expects the current backward to be executed with multithreading "
            "disabled, e.g. by running:\n\n>>> with torch.autograd.set_multithreading_enabled(False):\n"
            "...     torch.autograd.grad(...)\n"
        )
    return current_walk().in_order()


def _will_engine_execute_node(node: Node) -> bool:
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    if not _walks.stack:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    walk = current_walk()
    if walk.catches and type(node) is AccumulateGrad:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). This is "
            "currently not supported."
        )
    return walk.reaches(node)


def _go(
    order: list[Node],
    awaited: dict[Node, int],
    buffers: dict[Node, list[Any]],
    retain: bool,
    create_graph: bool,
    needed: set[Node] | None,
    captures: dict[Node, dict[int, Any]],
) -> None:
    for node in [node for node, count in awaited.items() if not count]:
        _arrive(node, buffers, create_graph, needed, captures)
    for node in order:
        grads = buffers.pop(node, None)
        if grads is None and (node.runs_empty or (node.extras is not None and node.extras.watched())):
            grads = [None] * node.outputs
        results: Sequence[Any] = ()
        if grads is not None and (needed is None or node in needed):
            caught = captures.get(node)
            if caught is not None and type(captures) is _Edges:
                caught.update({number: grads[number] for number in caught})
            else:
                results = _visit(node, grads, create_graph, needed, caught)
            if not retain and (node not in captures or _feeds(node, needed)):
                node.release()
        for position, edge in enumerate(node.edges):
            if edge is None:
                continue
            target = edge[0]
            if results and results[position] is not None:
                _deposit(buffers, target, edge[1], results[position])
            if target in awaited:
                awaited[target] -= 1
                if not awaited[target]:
                    _arrive(target, buffers, create_graph, needed, captures)


def _visit(
    node: Node, grads: list[Any], create_graph: bool, needed: set[Node] | None, caught: dict[int, Any] | None
) -> Sequence[Any]:
    """Hooks, catching and execution of one operation. PyTorch catches before the hooks where the walk goes on."""
    goes_on = caught is None or _feeds(node, needed)
    if caught is not None and goes_on:
        caught.update({number: grads[number] for number in caught})
    grads = _tensor_hooks(node, grads)
    if caught is not None and not goes_on:
        caught.update({number: grads[number] for number in caught})
    if not goes_on:
        return ()
    grads = _pre_hooks(node, grads)
    if node.runs_empty or any(g is not None for g in grads) or node.post_hooks:
        return _apply(node, grads, create_graph)
    return ()


def _feeds(node: Node, needed: set[Node] | None) -> bool:
    return needed is None or any(e is not None and e[0] in needed for e in node.edges)


def reach(roots: Sequence[Place]) -> tuple[list[Node], dict[Node, int]]:
    """The operations that can be reached, the latest first; and the leaves, with the number of edges that
    lead there.
    """
    seen = {node for node, _ in roots}
    awaited: dict[Node, int] = {node: 0 for node in seen if type(node) is AccumulateGrad}
    order = [node for node in seen if type(node) is not AccumulateGrad]
    at = 0
    while at < len(order):  # the list grows while it is read
        for edge in order[at].edges:
            if edge is None:
                continue
            target = edge[0]
            if type(target) is AccumulateGrad:
                awaited[target] = awaited.get(target, 0) + 1
            elif target not in seen:
                seen.add(target)
                order.append(target)
        at += 1
    order.sort(key=_age, reverse=True)
    return order, awaited


def leading_to(order: list[Node], targets: set[Node]) -> set[Node]:
    """The targets and the operations from which one can be reached."""
    needed = set(targets)
    for node in reversed(order):
        if node not in needed and any(e is not None and e[0] in needed for e in node.edges):
            needed.add(node)
    return needed


def _deposit(buffers: dict[Node, list[Any]], node: Node, number: int, value: Any) -> None:
    slots = buffers.get(node)
    if slots is None:
        slots = buffers[node] = [None] * node.outputs
    slots[number] = value if slots[number] is None else summed(slots[number], value)


# ----------------------------------------------------------------- at one node


def _arrive(
    node: Any,
    buffers: dict[Node, list[Any]],
    create_graph: bool,
    needed: set[Node] | None,
    captures: dict[Node, Any],
) -> None:
    """A leaf's gradient is complete: catch it, or add it to ``.grad``."""
    grads = buffers.pop(node, None)
    if needed is not None and node not in needed:
        return
    if grads is None:
        if node.extras is None and not node.variable._hooks and not node.variable._post_accumulate_hooks:
            return
        grads = [None]
    if type(captures) is not _Edges:
        grads = _tensor_hooks(node, grads)
    if node in captures:
        captures[node][0] = grads[0]
        return
    grads = _pre_hooks(node, grads)
    hooks = node.variable._post_accumulate_hooks
    # A hook sees the sum with its own gradient. A trace has `storage.turn`, for which others wait in there.
    with hooks.turn if hooks and not storage.overlay else nullcontext():
        if grads[0] is not None:
            accumulate(node.variable, grads[0], create_graph)
        _post_accumulate(node.variable)
    if node.post_hooks:
        for hook in list(node.post_hooks.values()):
            hook((), tuple(None if g is None else _tensor(g) for g in grads))


def _post_accumulate(variable: Tensor) -> None:
    if variable._post_accumulate_hooks:
        for hook in list(variable._post_accumulate_hooks.values()):
            if hook(variable) is not None:
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def accumulate(variable: Tensor, value: Any, create_graph: bool = False) -> None:
    """Add a gradient to ``variable.grad``, in place unless the backward is recorded."""
    with storage.turn:
        if variable._requires_grad:  # still
            _add_to(variable, value, create_graph)


def _add_to(variable: Tensor, value: Any, create_graph: bool) -> None:
    old = variable._get_grad()
    if old is None:
        new = _tensor(value)
        variable._set_grad(new if create_graph else new.detach())
    elif create_graph:
        variable._set_grad(summed(old, value))
    elif old.is_sparse:  # stays the same tensor unless it becomes dense
        total = summed(value, old)
        variable._set_grad(old._take(total) if total.is_sparse and not storage.overlay else total)
    elif isinstance(value, Tensor) and value.is_sparse:
        old._set_value((old.detach() + value)._value)
    else:
        old._set_value(summed(old._look(), _array(value)))


def _tensor_hooks(node: Node, grads: list[Any]) -> list[Any]:
    """Hooks of the tensors that the node made, and `retain_grad`."""
    hooks_by_output = node.tensor_hooks
    if type(node) is AccumulateGrad and node.variable._hooks:
        hooks_by_output = {0: node.variable._hooks}
    if hooks_by_output:
        for number, hooks in list(hooks_by_output.items()):
            for hook in list(hooks.values()):  # without a gradient, too
                result = hook(None if grads[number] is None else _tensor(grads[number]))
                if result is not None:
                    grads[number] = _checked(hook, result, grads[number])
    if node.retained:
        for number, ref in node.retained.items():
            tensor = ref()
            if tensor is not None and grads[number] is not None:
                old = tensor._get_grad()
                tensor._set_grad(_tensor(grads[number]) if old is None else old + _tensor(grads[number]))
    return grads


def _pre_hooks(node: Node, grads: list[Any]) -> list[Any]:
    for hook in list(node.pre_hooks.values()) if node.pre_hooks else ():
        result = hook(tuple(None if g is None else _tensor(g) for g in grads))
        if result is not None:
            grads = _all_checked(hook, result, grads)
    return grads


def _apply(node: Node, grads: list[Any], create_graph: bool) -> Sequence[Any]:
    """Run the node, and the hooks that come after it."""
    try:
        if node.runs_empty or any(g is not None for g in grads):
            results = node.apply_recorded(grads) if create_graph else node.apply(grads)
        else:
            results = [None] * len(node.edges)
    except Exception as error:
        anomaly.annotate(node, error)
        raise
    if anomaly.enabled:
        anomaly.check(node, results)
    if node.post_hooks:
        seen = tuple(None if g is None else _tensor(g) for g in grads)
        for hook in list(node.post_hooks.values()):
            listed = node.to_hook(results)
            changed = hook(tuple(None if r is None else _tensor(r) for r in listed), seen)
            if changed is not None:
                results = node.from_hook(_all_checked(hook, changed, listed), results)
    return results


def _hook_name(hook: Any) -> str:
    return getattr(hook, "__name__", "<unknown>")


def _checked(hook: Any, result: Any, value: Any) -> Any:
    """What a hook made of a gradient, as an array or Tensor like the gradient."""
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if value is None:
        return result
    if tuple(result.shape) != tuple(value.shape):
        raise RuntimeError(f"hook '{_hook_name(hook)}' has changed the size of value")
    was = _tensor(value)
    if result.dtype is not was.dtype:
        raise RuntimeError(
            f"hook '{_hook_name(hook)}' has changed the type of value (was {was.type()} got {result.type()})"
        )
    return result if isinstance(value, Tensor) else result._look()


def _all_checked(hook: Any, result: Any, values: Sequence[Any]) -> list[Any]:
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}'")
    if len(result) != len(values):
        raise RuntimeError(
            f"hook '{_hook_name(hook)}' has returned an incorrect number of values (got {len(result)}, but "
            f"expected {len(values)})"
        )
    return [None if r is None else _checked(hook, r, v) for r, v in zip(result, values)]
