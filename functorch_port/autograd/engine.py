"""The engine: walks the tape from the outputs to the leaves, the latest operation first, without recursion."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import jax

from ..core import storage
from ..core.tensor import Tensor, wrap
from . import anomaly, grad_mode
from .node import AccumulateGrad, Node, accumulator

__all__ = ["backward", "grad"]


@jax.jit
def _add(a: Any, b: Any) -> Any:
    return a + b


def _sum(a: Any, b: Any) -> Any:
    """Add two gradients: arrays, or Tensors when the backward is recorded."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return a + b
    if storage.overlay is not None:
        return a + b
    with storage.x64():
        return _add(a, b)


def _gradient_edge(tensor: Tensor) -> tuple[Node, int]:
    if tensor.grad_fn is None:
        return (accumulator(tensor), 0)
    return (tensor._grad_fn, tensor._output_nr)


def _root_gradient(tensor: Tensor, gradient: Any, index: int, create_graph: bool) -> Any:
    """Check the gradient given for an output, or make the implicit one of a scalar."""
    if not tensor.requires_grad:
        raise RuntimeError(f"element {index} of tensors does not require grad and does not have a grad_fn")
    if gradient is None:
        if tensor.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if not tensor.is_floating_point():
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {tensor.dtype}")
        with storage.x64():
            value = jax.numpy.ones(tensor.shape, tensor._value.dtype)
        return wrap(value) if create_graph else value
    if not isinstance(gradient, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    if gradient.shape != tensor.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {gradient.shape} and output[{index}] has a shape of "
            f"{tensor.shape}."
        )
    if gradient.is_complex() != tensor.is_complex():
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{index}] has a dtype of {gradient.dtype} and output[{index}] has a dtype of {tensor.dtype}."
        )
    if gradient.dtype != tensor.dtype:
        gradient = gradient.to(tensor.dtype)
    return gradient if create_graph else gradient._value


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return (x,) if x is None or isinstance(x, Tensor) else tuple(x)


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
        inputs: accumulate into these only.

    Raises:
        RuntimeError: if an output does not require grad, is not a scalar and has no gradient, or the graph was freed.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.backward.html
    """
    outputs = _as_tuple(tensors)
    gradients = _as_tuple(grad_tensors) if grad_tensors is not None else (None,) * len(outputs)
    if len(gradients) != len(outputs):
        raise RuntimeError("got {} tensors and {} gradients".format(len(outputs), len(gradients)))
    wanted = None
    if inputs is not None:
        wanted = _as_tuple(inputs)
        if not wanted:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    retain = create_graph if retain_graph is None else retain_graph
    roots = [_root_gradient(t, g, i, create_graph) for i, (t, g) in enumerate(zip(outputs, gradients, strict=True))]
    edges = [_gradient_edge(t) for t in outputs]
    captured = _run(edges, roots, retain, create_graph, None if wanted is None else [_gradient_edge(t) for t in wanted])
    for tensor, value in zip(wanted or (), captured, strict=True):
        if value is not None:
            _accumulate(tensor, value, create_graph)


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
        outputs, inputs: a Tensor or a sequence of them.
        grad_outputs: gradients of the outputs; None for scalars.
        retain_graph, create_graph: as in `backward`.
        allow_unused: return None for an input that the outputs do not depend on, instead of an error.
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
    if is_grads_batched:
        raise NotImplementedError("autograd.grad(is_grads_batched=True): use functorch_port.func.vmap over func.vjp")
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    outs, ins = _as_tuple(outputs), _as_tuple(inputs)
    gradients = _as_tuple(grad_outputs) if grad_outputs is not None else (None,) * len(outs)
    for i, tensor in enumerate(ins):
        if not tensor.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        del i
    retain = create_graph if retain_graph is None else retain_graph
    roots = [_root_gradient(t, g, i, create_graph) for i, (t, g) in enumerate(zip(outs, gradients, strict=True))]
    found = _run([_gradient_edge(t) for t in outs], roots, retain, create_graph, [_gradient_edge(t) for t in ins])
    results = []
    for tensor, value in zip(ins, found, strict=True):
        if value is None:
            if not (allow_unused or materialize_grads):
                raise RuntimeError(
                    "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if "
                    "this is the desired behavior."
                )
            results.append(_zeros_like(tensor) if materialize_grads else None)
        else:
            results.append(value if isinstance(value, Tensor) else wrap(value))
    return tuple(results)


def _zeros_like(tensor: Tensor) -> Tensor:
    with storage.x64():
        return wrap(jax.numpy.zeros(tensor.shape, tensor._value.dtype))


def _run(
    roots: Sequence[tuple[Node, int]],
    gradients: Sequence[Any],
    retain: bool,
    create_graph: bool,
    wanted: Sequence[tuple[Node, int]] | None,
) -> list[Any]:
    """Walk the graph. With ``wanted`` return the gradients at those places, else accumulate into the leaves."""
    dependencies = _count(roots)
    needed = None if wanted is None else _leading_to(dependencies, {node for node, _ in wanted})
    captures: dict[tuple[Node, int], Any] = {}
    capture_at: dict[Node, list[int]] = {}
    for node, number in wanted or ():
        capture_at.setdefault(node, []).append(number)
    buffers: dict[Node, list[Any]] = {}
    for (node, number), value in zip(roots, gradients, strict=True):
        _deposit(buffers, node, number, value)
    ready = [(-_priority(node), id(node), node) for node in {node for node, _ in roots} if not dependencies[node]]
    heapq.heapify(ready)
    with grad_mode.enable_grad() if create_graph else grad_mode.no_grad():
        while ready:
            _, _, node = heapq.heappop(ready)
            grads = buffers.pop(node, None)
            results: Sequence[Any] = ()
            if grads is not None and (needed is None or node in needed):
                grads = _before(node, grads, create_graph)
                for number in capture_at.get(node, ()):
                    captures[(node, number)] = grads[number]
                if needed is None or any(e is not None and e[0] in needed for e in node.edges):
                    results = _apply(node, grads, create_graph)
                    if not retain:
                        node.release()
            for position, edge in enumerate(node.edges):
                if edge is None:
                    continue
                target, number = edge
                if results and results[position] is not None:
                    _deposit(buffers, target, number, results[position])
                dependencies[target] -= 1
                if not dependencies[target]:
                    heapq.heappush(ready, (-_priority(target), id(target), target))
    return [captures.get(place) for place in wanted] if wanted is not None else []


def _priority(node: Node) -> float:
    return float("inf") if isinstance(node, AccumulateGrad) else node.seq


def _count(roots: Sequence[tuple[Node, int]]) -> dict[Node, int]:
    """How many edges lead to every node that can be reached."""
    counts: dict[Node, int] = {}
    stack = []
    for node, _ in roots:
        if node not in counts:
            counts[node] = 0
            stack.append(node)
    while stack:
        for edge in stack.pop().edges:
            if edge is None:
                continue
            target = edge[0]
            if target not in counts:
                counts[target] = 0
                stack.append(target)
            counts[target] += 1
    return counts


def _leading_to(reachable: dict[Node, int], targets: set[Node]) -> set[Node]:
    """The reachable nodes from which a target can be reached."""
    needed = {node for node in targets if node in reachable}
    for node in sorted(reachable, key=lambda n: n.seq):  # edges lead to earlier nodes, so one pass is enough
        if any(e is not None and e[0] in needed for e in node.edges):
            needed.add(node)
    # an accumulator may be younger than the node that uses it: repeat until nothing changes
    changed = True
    while changed:
        changed = False
        for node in reachable:
            if node not in needed and any(e is not None and e[0] in needed for e in node.edges):
                needed.add(node)
                changed = True
    return needed


def _deposit(buffers: dict[Node, list[Any]], node: Node, number: int, value: Any) -> None:
    slots = buffers.get(node)
    if slots is None:
        slots = buffers[node] = [None] * max(node.outputs, 1)
    slots[number] = value if slots[number] is None else _sum(slots[number], value)


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else wrap(value)


def _like(value: Tensor, original: Any) -> Any:
    return value if isinstance(original, Tensor) else value._value


def _before(node: Node, grads: list[Any], create_graph: bool) -> list[Any]:
    """Tensor hooks, node pre-hooks, and `retain_grad`."""
    variable = node.variable if isinstance(node, AccumulateGrad) else None
    hooks_by_output = node.tensor_hooks
    if variable is not None and variable._hooks:
        hooks_by_output = {0: variable._hooks}
    if hooks_by_output:
        for number, hooks in hooks_by_output.items():
            for hook in list(hooks.values()):
                if grads[number] is None:
                    break
                result = hook(_tensor(grads[number]))
                if result is not None:
                    grads[number] = _like(_checked(result, grads[number]), grads[number])
    if node.pre_hooks:
        for hook in list(node.pre_hooks.values()):
            result = hook(tuple(None if g is None else _tensor(g) for g in grads))
            if result is not None:
                grads = [r if r is None or create_graph else r._value for r in _as_tuple(result)]
    if node.retained:
        for number, ref in node.retained.items():
            tensor = ref()
            if tensor is not None and grads[number] is not None:
                tensor._set_grad(_tensor(grads[number]))
    return grads


def _checked(result: Any, original: Any) -> Tensor:
    if not isinstance(result, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    if tuple(result.shape) != tuple(original.shape):
        raise RuntimeError("hook '<unknown>' has changed the size of value")
    return result


def _apply(node: Node, grads: list[Any], create_graph: bool) -> Sequence[Any]:
    if isinstance(node, AccumulateGrad):
        if grads[0] is not None:
            _accumulate(node.variable, grads[0], create_graph)
        return ()
    try:
        results = node.apply_recorded(grads) if create_graph else node.apply(grads)
    except Exception as error:
        anomaly.annotate(node, error)
        raise
    if anomaly.enabled:
        anomaly.check(node, results)
    if node.post_hooks:
        for hook in list(node.post_hooks.values()):
            order = tuple(None if r is None else _tensor(r) for r in results)
            changed = hook(order, tuple(None if g is None else _tensor(g) for g in grads))
            if changed is not None:
                results = [r if r is None or create_graph else r._value for r in _as_tuple(changed)]
    return results


def _accumulate(variable: Tensor, value: Any, create_graph: bool) -> None:
    """Add a gradient to ``variable.grad``, in place unless the backward is recorded."""
    old = variable._get_grad()
    if old is None:
        variable._set_grad(_tensor(value))
    elif create_graph:
        variable._set_grad(old + _tensor(value))
    else:
        old._set_value(_sum(old._value, value._value if isinstance(value, Tensor) else value))
    if variable._post_accumulate_hooks:
        for hook in list(variable._post_accumulate_hooks.values()):
            hook(variable)


