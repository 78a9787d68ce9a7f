"""`gradcheck` and `gradgradcheck`: compare gradients with finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.numpy import finfo

from .._run import bind
from .._tensor import creation, grad_mode
from .._tensor.tensor import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """Raised by `gradcheck` if gradients do not agree."""


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
        func: a function from Tensors to a Tensor or a tuple of Tensors.
        inputs: a Tensor or a tuple; those that require grad are checked, and should be in double precision.
        eps: step of the finite differences.
        atol: absolute tolerance.
        rtol: relative tolerance.
        raise_exception: raise a `GradcheckError` instead of returning False.
        nondet_tol: tolerance between two runs of backward.
        check_grad_dtypes: also check that gradients have the dtypes of their inputs.
        check_backward_ad: check backward (reverse mode).
        check_forward_ad: also check forward mode (dual numbers, see `forward_ad`).
        check_undefined_grad: also check that an undefined output gradient counts as zero.
        masked: for a zero output gradient, allow input gradients that are only close to zero. Of a sparse input the
            entries are checked in any case, and no others.
        check_batched_forward_grad: also check `vmap` over tangents.
        check_batched_grad: refused for sparse inputs, as `vmap` takes none; ignored for others, as Jacobians are
            compared row by row.
        fast_mode: accepted and ignored; full Jacobians are always compared.

    Returns:
        True if all gradients agree.

    Raises:
        GradcheckError: if a gradient does not agree.
        ValueError: if no input requires grad.
        AssertionError: for contradictory options, or if outputs change their shape or dtype with the input.

    Example:
        >>> import functorch_port as torch
        >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradcheck(torch.sin, (x,))
        True

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    _check_inputs(given)
    try:
        with grad_mode.enable_grad():
            numeric = _numeric(func, given, eps)
            if check_backward_ad:
                _compare(func, given, numeric, atol, rtol, nondet_tol, check_grad_dtypes)
                _check_zero(func, given, bool(masked), check_undefined_grad)
                if check_batched_grad and any(given[i]._sparse for i in _checked(given)):
                    raise GradcheckError(
                        "gradcheck or gradgradcheck failed while testing batched gradient computation: vmap does not "
                        "take sparse inputs. Pass check_batched_grad=False"
                    )
            if check_forward_ad:
                _compare_forward(func, given, numeric, atol, rtol)
                if check_undefined_grad:
                    _check_no_tangent(func, given)
            if check_batched_forward_grad:
                _check_batch_of_tangents(func, given)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _checked(inputs: Sequence[Any]) -> list[int]:
    return [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]


def _elements(x: Tensor) -> Tensor:
    """What is checked of an input: of a sparse one its entries."""
    return x._values() if x._sparse else x.data  # type: ignore[no-any-return,attr-defined]


def _check_inputs(inputs: Sequence[Any]) -> None:
    if not _checked(inputs):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for i in _checked(inputs):
        t = inputs[i]
        if t.dtype.name not in ("float64", "complex128"):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This "
                "check will likely fail if all the inputs are not of double precision floating point or "
                "complex. ",
                stacklevel=4,
            )
        if not t._sparse and any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )


def _numeric(func: Callable[..., Any], inputs: Sequence[Any], eps: float) -> dict[int, list[np.ndarray]]:
    """The finite differences by input and output (see `_numeric_columns`)."""
    return {i: _numeric_columns(func, inputs, i, eps) for i in _checked(inputs)}


def _numeric_columns(
    func: Callable[..., Any], inputs: Sequence[Any], index: int, eps: float
) -> list[np.ndarray]:
    """For each output, the derivatives with respect to each element of one input: real, and imaginary if complex.

    The input is perturbed in place, as ``func`` may also capture it.
    """
    x = _elements(inputs[index])
    start = x.numpy().copy()
    steps = [eps, 1j * eps] if x.is_complex() else [eps]
    columns: list[list[Any]] = []

    def at(k: int, step: complex) -> list[np.ndarray]:
        values = start.copy()
        values.reshape(-1)[k] += step
        x.copy_(creation.from_numpy(values))
        return [o.detach().numpy(force=True).copy() for o in _outputs(func, inputs)]

    try:
        for step in steps:
            for k in range(start.size):
                above, below = at(k, step), at(k, -step)
                for a, b in zip(above, below):
                    for what in ("shape", "dtype"):
                        if getattr(a, what) != getattr(b, what):
                            raise AssertionError(
                                f"Expected `func` to return outputs with the same {what} when inputs are perturbed on "
                                f"index {tuple(map(int, np.unravel_index(k, start.shape)))} by {eps}, but got: {what}s "
                                f"{getattr(a, what)} and {getattr(b, what)}."
                            )
                columns.append(
                    [(a.astype(complex) - b.astype(complex)) / (2 * eps) for a, b in zip(above, below)]
                )
    finally:
        x.copy_(creation.from_numpy(start))
    if not columns:
        return [np.zeros((len(steps), 0, o.numel())) for o in _outputs(func, inputs)]
    per_output = list(zip(*columns))
    return [
        np.stack([c.reshape(-1) for c in column]).reshape(len(steps), start.size, -1) for column in per_output
    ]


def _analytic(
    output: Tensor, inputs: Sequence[Tensor], check_dtypes: bool, index: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Gradients of each element of an output (of its real and imaginary part) with respect to each input."""
    from ._calls import grad  # not with this module, which an import of the package loads

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
                    raise GradcheckError(
                        f"A gradient of output {index} does not have the shape or dtype of its input"
                    )
                if g is not None and x._sparse:
                    g = x._gradient_of_values(g)
                row.append(
                    np.zeros(_elements(x).shape, np.complex128)
                    if g is None
                    else g.detach().numpy().astype(np.complex128)
                )
        for collected, row in zip(found, rows):
            collected.append([np.stack([r.reshape(-1) for r in row])] if row else [np.zeros((0, 1))])
    return [c[0][0] for c in found], [c[-1][0] for c in found]


def _compare(
    func: Callable[..., Any],
    inputs: Sequence[Any],
    numeric: dict[int, list[np.ndarray]],
    atol: float,
    rtol: float,
    nondet_tol: float,
    check_dtypes: bool,
) -> None:
    checked = _checked(inputs)
    tensors = [inputs[i] for i in checked]
    outputs = _outputs(func, inputs)
    if not any(o.requires_grad for o in outputs):
        if any(d.any() for differences in numeric.values() for d in differences):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        return
    for o, output in enumerate(outputs):
        if output._sparse:
            raise ValueError(
                "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output "
                "of fn for gradcheck."
            )
        if output.requires_grad:
            real, imaginary = _analytic(output, tensors, check_dtypes, o)
            again, _ = _analytic(output, tensors, False, o)
            if any(
                not np.allclose(a, b, 0.0, nondet_tol + _rounding(output, a)) for a, b in zip(real, again)
            ):
                raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and "
                                     "grad_output multiple times gives different values, although analytical "
                                     "gradient matches numerical gradient.")  # fmt: skip
        else:
            real = imaginary = [
                np.zeros((output.numel(), _elements(t).numel()), np.complex128) for t in tensors
            ]
        for i, mine, other in zip(checked, real, imaginary):
            _match(numeric[i][o], mine, other, output, inputs[i], (o, i), atol, rtol)


def _rounding(output: Tensor, gradients: np.ndarray) -> float:
    """The tolerance between two runs, as the second one is a single program, which rounds differently."""
    return 16 * float(finfo(output.dtype.np).eps) * float(np.abs(gradients).max(initial=0.0))


def _match(
    numeric: np.ndarray,
    real: np.ndarray,
    imaginary: np.ndarray,
    output: Tensor,
    x: Tensor,
    place: tuple[int, int],
    atol: float,
    rtol: float,
) -> None:
    """Compare finite differences ``d(out)/d(re x) + 1j d(out)/d(im x)`` with the gradient, for each part of ``out``."""
    parts = [("real", numeric.real, real)]
    if output.is_complex():
        parts.insert(0, ("imaginary", numeric.imag, imaginary))
    for part, differences, mine in parts:
        expected = (differences[0] + (1j * differences[1] if x.is_complex() else 0)).T
        if not np.allclose(mine, expected, rtol, atol, equal_nan=True):
            where = f"While considering the {part} part of complex outputs only, " if len(parts) == 2 else ""
            a, n = (m if x.is_complex() else m.real for m in (mine.T, expected.T))
            raise GradcheckError(where + _mismatch("", place, n, a))


def _mismatch(mode: str, place: tuple[int, int], numeric: np.ndarray, analytic: np.ndarray) -> str:
    return (
        f"Jacobian {mode}mismatch for output {place[0]} with respect to input {place[1]},\n"
        f"numerical:{creation.from_numpy(np.ascontiguousarray(numeric))}\n"
        f"analytical:{creation.from_numpy(np.ascontiguousarray(analytic))}\n"
    )


def _check_zero(func: Callable[..., Any], inputs: Sequence[Any], masked: bool, undefined: bool) -> None:
    """Check that zero and undefined output gradients give zero input gradients."""
    from ._calls import grad

    tensors = [inputs[i] for i in _checked(inputs)]
    outputs = [o for o in _outputs(func, inputs) if o.requires_grad]
    if not outputs:
        return
    for given, x in zip(
        grad(outputs, tensors, _zeros(outputs), retain_graph=True, allow_unused=True), tensors
    ):
        if given is None:
            continue
        if given._sparse and not x._sparse:
            raise GradcheckError(f"grad is incorrect layout ({given.layout} is not {x.layout})")
        values = given.to_dense() if given._sparse else given  # type: ignore[attr-defined]
        zero = np.allclose(values.numpy(), 0) if masked else not values.numpy().any()
        if not zero:
            raise GradcheckError("backward not multiplied by grad_output")
        for what, same in (("type", given.dtype is x.dtype), ("size", given.shape == x.shape)):
            if not same:
                raise GradcheckError(f"grad is incorrect {what}")
    if undefined:
        _check_undefined(func, inputs, tensors)


def _check_undefined(func: Callable[..., Any], inputs: Sequence[Any], tensors: Sequence[Tensor]) -> None:
    """Check that undefined gradients of all outputs, or of one of them, count as zero."""
    from ._calls import grad
    from ._functions import UndefinedGrad

    count = len([o for o in _outputs(func, inputs) if o.requires_grad])
    for left_out in (range(count), *([i] for i in range(count) if count > 1)):
        outputs = [o for o in _outputs(func, inputs) if o.requires_grad]
        outputs = [UndefinedGrad()(o) if i in left_out else o for i, o in enumerate(outputs)]
        try:
            made = grad(outputs, tensors, _zeros(outputs), allow_unused=True)
        except RuntimeError as error:
            text = f"Expected backward function to handle undefined output grads. {_HINT}"
            _warn_of_undefined()
            raise GradcheckError(text) from error
        if any(g is not None and (g.to_dense() if g._sparse else g).detach().numpy().any() for g in made):
            _warn_of_undefined()
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero. "
                + _HINT
            )


def _warn_of_undefined() -> None:
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may "
        "break existing callers of this function. If this is true for you, you can call this function with "
        '"check_undefined_grad=False" to disable the feature',
        UserWarning,
        stacklevel=2,
    )


_HINT = 'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'


def _zeros(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [creation.zeros_like(t) for t in tensors]


def _tangents(
    func: Callable[..., Any], inputs: Sequence[Any], directions: dict[int, Tensor]
) -> list[Tensor | None]:
    """The tangents of the outputs, given those of some inputs."""
    from . import forward_ad

    with forward_ad.dual_level():
        args = [t.detach() if isinstance(t, Tensor) else t for t in inputs]
        for i, direction in directions.items():
            args[i] = forward_ad.make_dual(args[i], direction)
        return [forward_ad.unpack_dual(o).tangent for o in _outputs(func, args)]


def _compare_forward(
    func: Callable[..., Any],
    inputs: Sequence[Any],
    numeric: dict[int, list[np.ndarray]],
    atol: float,
    rtol: float,
) -> None:
    """Compare forward mode with finite differences, one input element at a time."""
    zero = {i: creation.zeros_like(inputs[i]).detach() for i in _checked(inputs)}
    for i in zero:
        x = inputs[i]
        rows: list[list[list[np.ndarray]]] = []
        for part in (1.0, 1j) if x.is_complex() else (1.0,):
            found = []
            for k in range(x.numel()):
                unit = np.zeros(x.shape, np.complex128 if x.is_complex() else np.float64)
                unit.reshape(-1)[k] = part
                tangents = _tangents(func, inputs, {**zero, i: creation.from_numpy(unit).to(x.dtype)})  # type: ignore[attr-defined]
                found.append(
                    [np.asarray(0.0) if t is None else t.detach().numpy().reshape(-1) for t in tangents]
                )
            rows.append(found)
        for o, expected in enumerate(numeric[i]):
            for part in reversed(range(len(rows))):
                mine = (
                    np.stack([np.broadcast_to(r[o], expected.shape[2:]) for r in rows[part]])
                    if rows[part]
                    else None
                )
                if mine is not None and not np.allclose(mine, expected[part], rtol, atol, equal_nan=True):
                    name = "imaginary" if part else "real"
                    where = (
                        f"While considering the {name} part of complex inputs only, "
                        if x.is_complex()
                        else ""
                    )
                    raise GradcheckError(
                        where + _mismatch("computed with forward mode ", (o, i), expected[part], mine)
                    )


def _check_no_tangent(func: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Check that an input without a tangent counts as one with a zero tangent."""
    checked = _checked(inputs)
    ones = {i: creation.ones_like(inputs[i]).detach() for i in checked}
    for i in checked:
        others = {k: v for k, v in ones.items() if k != i}
        zero = _tangents(func, inputs, {**others, i: creation.zeros_like(inputs[i]).detach()})
        none = _tangents(func, inputs, others) if others else [None] * len(zero)
        for o, (a, b) in enumerate(zip(zero, none)):
            if a is not None and b is not None and not np.allclose(a.detach().numpy(), b.detach().numpy()):
                raise GradcheckError(
                    f"Mismatch in tangent values for output with index: {o} when input {i} has an undefined tangent "
                    f"value. Got: {a} but expected: {b}"
                )


def _check_batch_of_tangents(func: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Check that `vmap` over tangents agrees with a loop."""
    from ..func._vmap import old_vmap

    for i in _checked(inputs):

        def of(direction: Tensor, i: int = i) -> tuple[Tensor, ...]:
            return tuple([t for t in _tangents(func, inputs, {i: direction}) if t is not None])

        batch = [_random_like(inputs[i]).detach() for _ in range(2)]
        one_by_one = list(zip(*map(of, batch)))
        try:
            at_once = old_vmap(of)(_stack(batch))
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\ngradcheck or gradgradcheck failed while testing "
                "batched gradient computation."
            ) from error
        for o, (a, b) in enumerate(zip(at_once, one_by_one)):
            if not np.allclose(a.detach().numpy(), np.stack([t.detach().numpy() for t in b])):
                raise GradcheckError(
                    f"vmap over tangents of input {i} does not agree with a loop for output {o}"
                )


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    return bind.function("stack")(tensors)


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
    """Compare the second derivatives of ``func`` with finite differences: `gradcheck` of its gradients.

    Args: as for `gradcheck`; ``grad_outputs`` are the gradients of the outputs (default: random).

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
        from ._calls import grad

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
