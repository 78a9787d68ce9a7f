"""`torch.autograd.functional`: Jacobians, Hessians and their vector products, computed with autograd.

Reference: https://docs.pytorch.org/docs/stable/autograd.html#functional-higher-level-api
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._run import bind
from .._tensor import creation, grad_mode
from .._tensor.tensor import Tensor
from ..func import hessian as hessian_of
from ..func import jacfwd, jacrev
from ._calls import grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]
_RETURNED = "outputs of the user-provided function"


def _as_tuple(x: Any, argument: str, name: str) -> tuple[bool, tuple[Tensor, ...]]:
    """Whether ``x`` is a tuple, and ``x`` as a tuple of Tensors; raises for other types."""
    if argument == _RETURNED:
        subject, thing = f"The {_RETURNED} given to {name}", f"the given {_RETURNED}"
    else:
        subject, thing = f"The {argument} given to {name}", f"the given {argument}"
    is_tuple = isinstance(x, tuple)
    if not is_tuple:
        x = (x,)
        if not isinstance(x[0], Tensor):
            raise TypeError(
                f"{subject} must be either a Tensor or a tuple of Tensors but {thing} has type {type(x[0])}."
            )
    for i, item in enumerate(x):
        if not isinstance(item, Tensor):
            raise TypeError(
                f"{subject} must be either a Tensor or a tuple of Tensors but the value at index {i} has "
                f"type {type(item)}."
            )
    return is_tuple, x


def _fresh(inputs: Sequence[Tensor], create_graph: bool) -> tuple[Tensor, ...]:
    """The inputs to differentiate: part of the caller's graph with ``create_graph``, else new leaves."""
    if create_graph:
        return tuple(t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in inputs)
    return tuple(t.detach().requires_grad_() for t in inputs)


def _call(func: Function, inputs: Any, create_graph: bool, name: str) -> Any:
    """Call ``func``; return (inputs are a tuple, fresh inputs, outputs are a tuple, outputs)."""
    is_tuple, given = _as_tuple(inputs, "inputs", name)
    fresh = _fresh(given, create_graph)
    out_tuple, outputs = _as_tuple(func(*fresh), _RETURNED, name)
    return is_tuple, fresh, out_tuple, outputs


def _check_strict(tensors: Sequence[Tensor | None], strict: bool, text: str) -> None:
    for i, tensor in enumerate(tensors):
        if strict and tensor is None:
            raise RuntimeError(_INDEPENDENT.format(i))
        if strict and tensor is not None and not tensor.requires_grad:
            raise RuntimeError(text.format(i))


def _check_vector(
    v: Any, like: Sequence[Tensor], was_tuple: bool, name: str, text: str, create_graph: bool
) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(text)
        return (creation.ones_like(like[0]),)
    _, vectors = _as_tuple(v, "v", name)
    vectors = tuple(t.view_as(t) if create_graph else t.detach() for t in vectors)
    if len(vectors) != len(like):
        if not was_tuple:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}.")
    for i, (mine, other) in enumerate(zip(vectors, like)):
        if mine.shape != other.shape:
            where = f"Entry {i} in v" if was_tuple else "v"
            raise RuntimeError(f"{where} has invalid size: should be {other.shape} but got {mine.shape}.")
    return vectors


def _gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], vectors: Any, create_graph: bool
) -> tuple[Tensor | None, ...]:
    """`grad` without the outputs that require no gradient."""
    pairs = [(o, v) for o, v in zip(outputs, vectors or [None] * len(outputs)) if o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    outs, given = zip(*pairs)
    return grad(
        outs,
        inputs,
        given if vectors else None,
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
    )


def _filled(
    grads: Sequence[Tensor | None],
    like: Sequence[Tensor],
    strict: bool,
    texts: tuple[str, str],
    create_graph: bool,
) -> tuple[Tensor, ...]:
    """Replace missing gradients by zeros; ``strict`` raises ``texts[0]`` for missing, ``texts[1]`` for constants."""
    out = []
    for i, (g, t) in enumerate(zip(grads, like)):
        if strict and g is None:
            raise RuntimeError(texts[0].format(i))
        if strict and create_graph and not g.requires_grad:  # type: ignore[union-attr]
            raise RuntimeError(texts[1].format(i))
        out.append(creation.zeros_like(t) if g is None else g)
    return tuple(out)


def _result(values: Sequence[Tensor], was_tuple: bool, create_graph: bool) -> Any:
    done = tuple(values) if create_graph else tuple(v.detach() for v in values)
    return done if was_tuple else done[0]


_NOT_STRICT = "of the user-provided function is independent of input {}. This is not allowed in strict mode"
_INDEPENDENT = f"The output {_NOT_STRICT}."
_FIRST = _INDEPENDENT, f"The jacobian {_NOT_STRICT} when create_graph=True."
_SECOND = f"The jacobian {_NOT_STRICT}.", f"The hessian {_NOT_STRICT} when create_graph=True."
_NO_GRADIENT = (
    "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode."
)
_LINEAR = (
    "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is "
    "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
    "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
    "example)."
)


def vjp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Vector-Jacobian product: the outputs of ``func`` and the product of ``v`` with the Jacobian at ``inputs``.

    Args:
        func: a function from Tensors to a Tensor or a tuple of Tensors.
        inputs: a Tensor or a tuple of Tensors.
        v: the vector, with the shapes of the outputs; optional for a single one-element output.
        create_graph: make the result differentiable.
        strict: raise, instead of returning zeros, if the outputs do not depend on an input.
    """
    with grad_mode.enable_grad():
        is_tuple, fresh, out_tuple, outputs = _call(func, inputs, create_graph, "vjp")
        _check_strict(outputs, strict, _NO_GRADIENT)
        text = (
            "The vector v can only be None if the user-provided function returns a "
            "single Tensor with a single element."
        )
        vectors = _check_vector(v, outputs, out_tuple, "vjp", text, create_graph)
        found = _gradients(outputs, fresh, vectors, create_graph)
        found = _filled(found, fresh, strict, _FIRST, create_graph)
    return _result(outputs, out_tuple, create_graph), _result(found, is_tuple, create_graph)


def jvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Jacobian-vector product: the outputs of ``func`` and the product of the Jacobian at ``inputs`` with ``v``.

    It differentiates twice in reverse mode; `func.jvp` is cheaper.

    Args: as for `vjp`; ``v`` has the shapes of the inputs.
    """
    with grad_mode.enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", "jvp")
        text = (
            "The vector v can only be None if the input to the user-provided "
            "function is a single Tensor with a single element."
        )
        vectors = _check_vector(v, given, is_tuple, "jvp", text, create_graph)
        _, fresh, out_tuple, outputs = _call(func, inputs, create_graph, "jvp")
        _check_strict(outputs, strict, _NO_GRADIENT)
        # the product with a vector of zeros is linear in that vector: its derivative is the wanted product
        zeros = tuple(creation.zeros_like(o).requires_grad_() for o in outputs)
        linear = _gradients(outputs, fresh, zeros, True)
        linear = _filled(linear, fresh, strict, _FIRST, False)
        found = _gradients(linear, zeros, vectors, create_graph)
        found = _filled(found, outputs, strict, _FIRST, create_graph)
    return _result(outputs, out_tuple, create_graph), _result(found, out_tuple, create_graph)


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of ``func`` at ``inputs``.

    Args:
        func: a function from Tensors to a Tensor or a tuple of Tensors.
        inputs: a Tensor or a tuple of Tensors.
        create_graph: make the result differentiable.
        strict: raise, instead of returning zeros, if an output does not depend on an input.
        vectorize: compute all rows at once, with `func.jacrev`.
        strategy: ``"reverse-mode"``, or with ``vectorize`` ``"forward-mode"``, which computes columns.

    Returns:
        A Tensor of shape ``output.shape + input.shape``; tuples over outputs and inputs if there are several.

    Example:
        >>> import functorch_port as torch
        >>> torch.autograd.functional.jacobian(lambda x: x ** 2, torch.tensor([1., 2.]))
        tensor([[2., 0.],
                [0., 4.]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.jacobian.html
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has '
            'more outputs than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use '
            '"reverse-mode".'
        )
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not '
            'supported together (yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
        )
    is_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
    _check_strategy(strict, vectorize, strategy)
    if vectorize:
        return _vectorized(func, given, is_tuple, create_graph, strategy)
    with grad_mode.enable_grad():
        is_tuple, fresh, out_tuple, outputs = _call(func, inputs, create_graph, "jacobian")
        _check_strict(outputs, strict, _NO_GRADIENT)
        rows = [_rows(output, i, fresh, create_graph, strict) for i, output in enumerate(outputs)]
    shaped = [_result(row, is_tuple, create_graph) for row in rows]
    return tuple(shaped) if out_tuple else shaped[0]


def _check_strategy(strict: bool, vectorize: bool, strategy: str) -> None:
    if vectorize and strict:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
            "Please either set `strict=False` or `vectorize=False`."
        )
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for "
            "`vectorize=True`."
        )


def _rows(
    output: Tensor, index: int, inputs: Sequence[Tensor], create_graph: bool, strict: bool
) -> list[Tensor]:
    """The Jacobians of one output with respect to all inputs."""
    flat = output.reshape(-1)  # type: ignore[attr-defined]
    collected: list[list[Tensor]] = [[] for _ in inputs]
    texts = f"Output {index} {_NOT_STRICT}.", _FIRST[1]
    for k in range(output.numel()):
        found = _gradients([flat[k]], inputs, None, create_graph)
        for column, g in zip(collected, _filled(found, inputs, strict, texts, create_graph)):
            column.append(g)
    stack = bind.function("stack")
    return [
        stack(column).view((*output.shape, *t.shape))
        if column
        else creation.zeros((*output.shape, *t.shape), dtype=t.dtype)
        for column, t in zip(collected, inputs)
    ]


def _vectorized(
    func: Function, inputs: tuple[Tensor, ...], is_tuple: bool, create_graph: bool, strategy: str
) -> Any:
    def checked(*args: Any) -> Any:
        result = func(*args)
        _as_tuple(result, _RETURNED, "jacobian")
        return result

    transform = jacrev if strategy == "reverse-mode" else jacfwd
    argnums = tuple(range(len(inputs))) if is_tuple else 0
    with grad_mode.set_grad_enabled(create_graph):
        return transform(checked, argnums)(*inputs)


def _scalar(func: Function, name: str, strict: bool = False) -> Function:
    """``func`` with a check that it returns a single element."""

    def checked(*args: Any) -> Tensor:
        was_tuple, outputs = _as_tuple(func(*args), _RETURNED, name)
        _check_strict(outputs, strict, _NO_GRADIENT)
        if was_tuple:
            raise RuntimeError(f"The function given to {name} should return a single Tensor")
        if outputs[0].numel() != 1:
            raise RuntimeError(
                f"The Tensor returned by the function given to {name} should contain a single element"
            )
        return outputs[0].squeeze()  # type: ignore[attr-defined]

    return checked


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian at ``inputs`` of ``func``, which returns a single element.

    Args: as for `jacobian`; ``outer_jacobian_strategy`` is the strategy of the outer derivative.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.hessian.html
    """
    is_tuple, given = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    _check_strategy(strict, vectorize, outer_jacobian_strategy)
    single = _scalar(func, "hessian", strict)
    if vectorize:
        argnums = tuple(range(len(given))) if is_tuple else 0
        with grad_mode.set_grad_enabled(create_graph):
            if outer_jacobian_strategy == "forward-mode":
                return hessian_of(single, argnums)(*given)
            return jacrev(jacrev(single, argnums), argnums)(*given)

    def first(*args: Tensor) -> tuple[Tensor, ...]:
        rows = jacobian(single, args, create_graph=True)
        _check_strict(rows, strict, _LINEAR)
        return rows

    found = jacobian(first, given, create_graph=create_graph, strict=strict)
    return found if is_tuple else found[0][0]


def vhp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Vector-Hessian product: the value of ``func`` and the product of ``v`` with the Hessian at ``inputs``.

    Args: as for `vjp`; ``func`` returns a single element, ``v`` has the shapes of the inputs.
    """
    return _hessian_product("vhp", func, inputs, v, create_graph, strict)


def hvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """Hessian-vector product: the value of ``func`` and the product with ``v``; equal to `vhp` by symmetry."""
    return _hessian_product("hvp", func, inputs, v, create_graph, strict)


def _hessian_product(name: str, func: Function, inputs: Any, v: Any, create_graph: bool, strict: bool) -> Any:
    single = _scalar(func, name, strict)
    with grad_mode.enable_grad():
        is_tuple, given = _as_tuple(inputs, "inputs", name)
        text = (
            "The vector v can only be None if the input to the user-provided "
            "function is a single Tensor with a single element."
        )
        vectors = _check_vector(v, given, is_tuple, name, text, create_graph)
        _, fresh, _, outputs = _call(single, inputs, create_graph, name)
        first = _gradients(outputs, fresh, None, True)
        _check_strict(first, strict, _LINEAR)
        first = _filled(first, fresh, False, _FIRST, False)
        found = _filled(_gradients(first, fresh, vectors, create_graph), fresh, strict, _SECOND, create_graph)
    return _result(outputs, False, create_graph), _result(found, is_tuple, create_graph)
