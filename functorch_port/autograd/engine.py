"""The engine: `backward` and `grad`. `_roots` checks what they are given, `_walk` leads to the leaves, and
`_accumulation` adds up what arrives there.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jax

from .._array import tracing
from .._base import inside
from .._run import bind
from .._tensor.tensor import Tensor, wrap
from ._accumulation import tensor_of
from ._roots import Place, as_tuple, root_gradients, root_places, target_place
from ._walk import leading_to, reach, run

__all__ = ["backward", "grad"]


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
    outputs = as_tuple(tensors)
    gradients = (None,) * len(outputs) if grad_tensors is None else as_tuple(grad_tensors)
    values = root_gradients(outputs, gradients)
    wanted = None if inputs is None else as_tuple(inputs)
    if create_graph:
        _warn_cycle()
    places = root_places(outputs)
    targets = None
    if wanted is not None:
        targets = [target_place(t) for t in wanted]
        for tensor in wanted:
            if isinstance(tensor, Tensor) and not (tensor._requires_grad and tensor.is_leaf):
                tensor.retain_grad()
    if tracing.in_jax():
        _refuse_leaves_outside(outputs, places, targets)
    run(
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
    if tracing.overlay and tracing.overlay.transforms:
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
    outs, ins = as_tuple(outputs), as_tuple(inputs)
    gradients = (None,) * len(outs) if grad_outputs is None else as_tuple(grad_outputs)
    values = root_gradients(outs, gradients, is_grads_batched)
    if not ins:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    places = root_places(outs)
    targets: list[Any] = []
    for tensor in ins:
        targets.append(
            target_place(tensor) if not isinstance(tensor, Tensor) or tensor.requires_grad else None
        )
    if None in targets:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    retain = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        rows = [_rows(values, k, places, create_graph, targets) for k in range(len(values[0]))]
        found = [None if r[0] is None else _stack([tensor_of(v) for v in r]) for r in zip(*rows)]
        if not retain:
            for node in reach(places)[0]:
                node.release()
    else:
        found = run(places, values, retain, create_graph, targets)
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
    return run(places, [v[k] for v in values], True, create_graph, targets)


def _stack(tensors: list[Tensor]) -> Tensor:
    return bind.function("stack")(tensors)


def _result(tensor: Any, value: Any, index: int, lenient: bool, materialize: bool) -> Tensor | None:
    if value is not None:
        return tensor_of(value)
    if not lenient:
        raise RuntimeError(
            f"The differentiated Tensor at index {index} appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )
    if not materialize:
        return None
    with tracing.x64():
        return wrap(jax.numpy.zeros(tensor.shape, tensor._aval().dtype))
