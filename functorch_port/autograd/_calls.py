"""`backward` and `grad`, as users call them: they check the arguments (see `_roots`), and have the `engine` walk."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jax

from .._array import tracing
from .._base import inside
from .._tensor.registered import function
from .._tensor.tensor import Tensor, wrap
from ._accumulation import tensor_of
from ._engine import leading_to, reach, run
from ._roots import Place, as_tuple, root_gradients, root_places, target_place

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
    values = root_gradients(outputs, grad_tensors)
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
    retain = create_graph if retain_graph is None else retain_graph
    run(places, values, retain, create_graph, targets, catch=False)
    if tracing.overlay:
        tracing.overlay.note_backward()


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
    values = root_gradients(outs, grad_outputs, is_grads_batched)
    if not ins:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    places = root_places(outs)
    if not all(t.requires_grad for t in ins if isinstance(t, Tensor)):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    targets = [target_place(t) for t in ins]
    retain = create_graph if retain_graph is None else retain_graph
    if not is_grads_batched:
        found = run(places, values, retain, create_graph, targets)
    else:  # the walk is repeated for each row: a tape cannot be batched, and its programs come from the cache
        rows = [
            run(places, [v[k] for v in values], True, create_graph, targets) for k in range(len(values[0]))
        ]
        stack = function("stack")
        found = [None if r[0] is None else stack([tensor_of(v) for v in r]) for r in zip(*rows)]
        if not retain:
            for node in reach(places)[0]:
                node.release()
    made: list[Tensor | None] = []
    for index, (tensor, value) in enumerate(zip(ins, found)):
        if value is None and not lenient:
            raise RuntimeError(
                f"The differentiated Tensor at index {index} appears to not have been used in the graph. Set "
                "allow_unused=True if this is the desired behavior."
            )
        if value is None and materialize_grads:
            with tracing.x64():
                zeros = wrap(jax.numpy.zeros(tensor.shape, tensor._aval().dtype))
            zeros._requires_grad = create_graph
            made.append(zeros)
        else:
            made.append(None if value is None else _like(tensor, tensor_of(value)))
    return tuple(made)


def _like(x: Any, gradient: Tensor) -> Tensor:
    """A gradient of ``x``: what is caught for a sparse tensor that is no leaf is the gradient of its values."""
    if isinstance(x, Tensor) and x._sparse and not x.is_leaf:
        return x._with(gradient)  # type: ignore[no-any-return]
    return gradient
