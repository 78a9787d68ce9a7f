"""`gradcheck` and `gradgradcheck`: compare backward with finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import creation
from ..core.tensor import Tensor
from . import grad_mode

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """What `gradcheck` raises when the gradients do not agree."""


def _inexact(t: Any) -> bool:
    return isinstance(t, Tensor) and (t.is_floating_point() or t.is_complex())


def _outputs(func: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    result = func(*inputs)
    return [o for o in (result if isinstance(result, tuple | list) else (result,)) if _inexact(o)]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of ``func`` with finite differences.

    Args:
        func: takes Tensors, returns a Tensor or a tuple of them.
        inputs: a Tensor or a tuple; those that require grad (in double precision) are checked.
        eps: step of the differences.
        atol: absolute tolerance.
        rtol: relative tolerance.
        raise_exception: raise a `GradcheckError` instead of returning False.
        nondet_tol: by how much two backward runs may differ.
        check_grad_dtypes: also check that gradients have their inputs' dtypes.
        check_forward_ad: also compare forward mode (`func.jvp`).
        fast_mode: accepted; everything is always compared.
        check_undefined_grad, check_batched_grad, check_batched_forward_grad, check_backward_ad, masked: accepted.

    Returns:
        True if all gradients agree.

    Raises:
        GradcheckError: if they do not.
        ValueError: if no input requires grad.

    Example:
        >>> import functorch_port as torch
        >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradcheck(torch.sin, (x,))
        True

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        _check_inputs(given, eps)
        with grad_mode.enable_grad():
            _compare(func, given, eps, atol, rtol, nondet_tol, check_grad_dtypes)
            if check_forward_ad:
                _compare_forward(func, given, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_inputs(inputs: Sequence[Any], eps: float) -> None:
    checked = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for i, t in enumerate(inputs):
        if isinstance(t, Tensor) and t.requires_grad and t.dtype.name not in ("float64", "complex128"):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This "
                "check will likely fail if all the inputs are not of double precision floating point or "
                "complex. ",
                stacklevel=4,
            )


def _numeric_columns(
    func: Callable[..., Any], inputs: Sequence[Any], index: int, eps: float
) -> list[np.ndarray]:
    """For every output, the derivatives with respect to each element of one input: real, and imaginary if complex."""
    x = inputs[index]
    start = x.detach().numpy().copy()
    steps = [eps, 1j * eps] if x.is_complex() else [eps]
    columns: list[list[Any]] = []

    def at(values: np.ndarray) -> list[np.ndarray]:
        args = list(inputs)
        args[index] = creation.from_numpy(values).requires_grad_(x.requires_grad)
        return [o.detach().numpy().astype(np.complex128) for o in _outputs(func, args)]

    for step in steps:
        for k in range(start.size):
            above, below = start.copy(), start.copy()
            above.reshape(-1)[k] += step
            below.reshape(-1)[k] -= step
            columns.append([(a - b) / (2 * eps) for a, b in zip(at(above), at(below))])
    per_output = list(zip(*columns))
    return [
        np.stack([c.reshape(-1) for c in column]).reshape(len(steps), start.size, -1) for column in per_output
    ]


def _analytic(
    output: Tensor, inputs: Sequence[Tensor], check_dtypes: bool, index: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Gradients of every element of an output (of its real part, and of its imaginary part) to every input."""
    from .engine import grad  # not with this module, which an import of the package loads

    parts = [1.0, 1j] if output.is_complex() else [1.0]
    found: list[list[list[np.ndarray]]] = [[] for _ in inputs]
    for part in parts:
        rows: list[list[np.ndarray]] = [[] for _ in inputs]
        for k in range(output.numel()):
            unit = np.zeros(output.shape, np.complex128 if output.is_complex() else np.float64)
            unit.reshape(-1)[k] = part
            vector = creation.from_numpy(unit).to(output.dtype)  # type: ignore[attr-defined]
            grads = grad(output, inputs, vector, retain_graph=True, allow_unused=True)
            for row, g, x in zip(rows, grads, inputs):
                if g is not None and (g.shape != x.shape or (check_dtypes and g.dtype is not x.dtype)):
                    raise GradcheckError(f"Gradient of output {index} has the wrong shape or dtype")
                row.append(
                    np.zeros(x.shape, np.complex128)
                    if g is None
                    else g.detach().numpy().astype(np.complex128)
                )
        for collected, row in zip(found, rows):
            collected.append([np.stack([r.reshape(-1) for r in row])] if row else [np.zeros((0, 1))])
    return [c[0][0] for c in found], [c[-1][0] for c in found]


def _compare(
    func: Callable[..., Any],
    inputs: Sequence[Any],
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
    check_dtypes: bool,
) -> None:
    checked = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    outputs = _outputs(func, inputs)
    numeric = {i: _numeric_columns(func, inputs, i, eps) for i in checked}
    for o, output in enumerate(outputs):
        tensors = [inputs[i] for i in checked]
        if output.requires_grad:
            real, imaginary = _analytic(output, tensors, check_dtypes, o)
            again, _ = _analytic(output, tensors, False, o)
            if any(not np.allclose(a, b, 0.0, nondet_tol) for a, b in zip(real, again)):
                raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and "
                                     "grad_output multiple times gives different values, although analytical "
                                     "gradient matches numerical gradient.")  # fmt: skip
        else:
            real = imaginary = [np.zeros((output.numel(), t.numel()), np.complex128) for t in tensors]
        for i, mine, other in zip(checked, real, imaginary):
            _match(numeric[i][o], mine, other, output, inputs[i], o, i, atol, rtol)


def _match(
    numeric: np.ndarray,
    real: np.ndarray,
    imaginary: np.ndarray,
    output: Tensor,
    x: Tensor,
    o: int,
    i: int,
    atol: float,
    rtol: float,
) -> None:
    """Finite differences ``d(out)/d(re x) + 1j d(out)/d(im x)`` against the gradient, for both parts of the output."""
    pairs = [(numeric.real, real)]
    if output.is_complex():
        pairs.append((numeric.imag, imaginary))
    for differences, mine in pairs:
        expected = (differences[0] + (1j * differences[1] if x.is_complex() else 0)).T
        if not np.allclose(mine, expected, rtol, atol, equal_nan=True):
            a, n = (m if x.is_complex() else m.real for m in (mine.T, expected.T))
            raise GradcheckError(
                f"Jacobian mismatch for output {o} with respect to input {i},\n"
                f"numerical:{creation.from_numpy(np.ascontiguousarray(n))}\n"
                f"analytical:{creation.from_numpy(np.ascontiguousarray(a))}\n"
            )


def _compare_forward(
    func: Callable[..., Any], inputs: Sequence[Any], eps: float, atol: float, rtol: float
) -> None:
    """Forward mode against finite differences, one input element at a time."""
    from ..func import jvp

    for i, x in enumerate(inputs):
        if not (isinstance(x, Tensor) and x.requires_grad and x.is_floating_point()):
            continue
        numeric = _numeric_columns(func, inputs, i, eps)

        def alone(value: Tensor, i: int = i) -> tuple[Tensor, ...]:
            args = [t.detach() if isinstance(t, Tensor) else t for t in inputs]
            args[i] = value
            return tuple(_outputs(func, args))

        for k in range(x.numel()):
            unit = np.zeros(x.shape)
            unit.reshape(-1)[k] = 1
            _, tangents = jvp(alone, (x.detach(),), (creation.from_numpy(unit).to(x.dtype),))  # type: ignore[attr-defined]
            for o, tangent in enumerate(tangents):
                if not np.allclose(tangent.numpy().reshape(-1), numeric[o][0][k], rtol, atol):
                    raise GradcheckError(
                        f"Jacobian computed with forward mode mismatch for output {o} with respect to input {i}"
                    )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradients of ``func``: compares second derivatives.

    Args: as for `gradcheck`; ``grad_outputs`` are the outputs' gradients (random ones by default).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradgradcheck.html
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    count = len(given)
    if grad_outputs is None:
        with grad_mode.enable_grad():
            outputs = _outputs(func, given)
        vectors = tuple(_random_like(o) for o in outputs)
    else:
        vectors = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)

    def first(*args: Any) -> tuple[Tensor, ...]:
        from .engine import grad

        arguments = args[:count]
        tensors = [t for t in arguments if isinstance(t, Tensor) and t.requires_grad]
        outs = _outputs(func, arguments)
        return grad(outs, tensors, args[count:], create_graph=True, allow_unused=True, materialize_grads=True)

    return gradcheck(
        first,
        given + vectors,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_grad_dtypes=check_grad_dtypes,
    )


def _random_like(tensor: Tensor) -> Tensor:
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, tensor.shape)
    if tensor.is_complex():
        values = values + 1j * rng.uniform(-1, 1, tensor.shape)
    return creation.from_numpy(np.asarray(values)).to(tensor.dtype).requires_grad_()  # type: ignore[attr-defined]
