"""One comparator for operations: live torch and this package on the same samples.

`check("torch.add", x, y, alpha=2)` runs both and compares structure, value, shape, dtype, `requires_grad` and the
gradient of every floating input; where torch raises, ours must raise the same type with the same text.
"""

from __future__ import annotations

import dataclasses
import operator
import re
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import functorch_port as ft
from functorch_port._cpu import numpy_programs as host

# relative tolerances by the number of bits of the mantissa: a few rounding steps
RTOL = {torch.float64: 1e-11, torch.complex128: 1e-11, torch.float32: 3e-6, torch.complex64: 3e-6}
RTOL |= {torch.bfloat16: 8e-3, torch.float16: 1e-3}


@dataclass
class Case:
    """One call: the public name, its arguments (torch tensors among them) and how closely it must agree.

    Attributes:
        name: "torch.add", "Tensor.add_", "torch.linalg.norm", "torch.nn.functional.relu", or "operator.add".
        grad: whether to compare gradients of the floating tensors among the arguments.
        tol: relative (and absolute) tolerance, where the default for the dtype does not do; say why beside it.
        text: how error texts are compared: "same", "start" (the first 40 characters) or "any".
        values: False where only shapes and dtypes are determined.
        first: only the first argument gets a gradient.
        marked: only tensors that require a gradient already get one.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    grad: bool = True
    tol: float | None = None
    text: str = "same"
    values: bool = True
    first: bool = False
    marked: bool = False

    def __str__(self) -> str:
        parts = [_label(a) for a in self.args] + [f"{k}={_label(v)}" for k, v in self.kwargs.items()]
        return f"{self.name.removeprefix('torch.')}({', '.join(parts)})"


def case(name: str, *args: Any, **kwargs: Any) -> Case:
    """A `Case` with its arguments as one would write the call; options of the case start with an underscore."""
    options = {k[1:]: kwargs.pop(k) for k in list(kwargs) if k.startswith("_")}
    return Case(name, args, kwargs, **options)


def _label(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_label, value)) + "]"
    return str(value)


def resolve(library: Any, name: str) -> Any:
    """The function called ``name`` in torch or in this package."""
    if name.startswith("operator."):
        return getattr(operator, name.split(".")[1])
    found = library
    for part in name.removeprefix("torch.").split("."):
        found = getattr(found, part)
    return found


def to_ours(value: Any) -> Any:
    """Torch tensors, dtypes and containers of them as ours; everything else as it is."""
    if isinstance(value, torch.Tensor):
        return tensor_to_ours(value)
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return getattr(ft, str(value).removeprefix("torch."))
    if isinstance(value, dict):
        return {k: to_ours(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and type(value).__module__.startswith("torch."):
        fields = {f.name: to_ours(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return getattr(ft.nn, type(value).__name__)(**fields)
    if isinstance(value, torch.nn.PairwiseDistance):
        return ft.nn.PairwiseDistance(value.norm, value.eps, value.keepdim)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(to_ours(v) for v in value)
    return tuple(value) if isinstance(value, torch.Size) else value


def tensor_to_ours(x: torch.Tensor) -> Any:
    """The same values, dtype and `requires_grad`."""
    plain = x.detach()
    if x.dtype in (torch.bfloat16, torch.float16):
        made = ft.tensor(plain.float().numpy()).to(getattr(ft, str(x.dtype).removeprefix("torch.")))
    else:
        made = ft.tensor(plain.resolve_conj().numpy())
    return made.requires_grad_(x.requires_grad)


def to_numpy(x: Any) -> np.ndarray:
    """The values of a tensor of either library."""
    if isinstance(x, torch.Tensor):
        x = x.detach().resolve_conj().resolve_neg()
        return (x.float() if x.dtype is torch.bfloat16 else x).numpy(force=True)
    x = x.detach().resolve_conj().resolve_neg()
    return np.array(
        x.float() if x.dtype is ft.bfloat16 else x
    )  # a copy that may be written to, as PyTorch wants it


def same(
    theirs: Any, ours: Any, tol: float | None = None, values: bool = True, where: str = "result"
) -> None:
    """Assert that two results agree in structure, type, shape, dtype and value."""
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, ft.Tensor), f"{where}: torch gave a Tensor, we gave {type(ours).__name__}"
        assert tuple(theirs.shape) == tuple(ours.shape), (
            f"{where}: shape {tuple(theirs.shape)} != {tuple(ours.shape)}"
        )
        assert str(theirs.dtype) == str(ours.dtype), f"{where}: dtype {theirs.dtype} != {ours.dtype}"
        if values:
            close(to_numpy(theirs), to_numpy(ours), RTOL.get(theirs.dtype, 0) if tol is None else tol, where)
    elif isinstance(theirs, (list, tuple)) and not isinstance(theirs, torch.Size):
        assert isinstance(ours, (list, tuple)) and len(theirs) == len(ours), f"{where}: {theirs} != {ours}"
        if hasattr(theirs, "n_fields"):
            fields = type(theirs).__match_args__
            assert getattr(ours, "_fields", None) == fields, f"{where}: fields {fields} != {ours}"
        for i, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            same(a, b, tol, values, f"{where}[{i}]")
    elif isinstance(theirs, float):
        assert isinstance(ours, float), f"{where}: {type(ours)}"
        close(np.float64(theirs), np.float64(ours), 1e-6 if tol is None else tol, where)
    else:
        assert type(theirs).__name__ == type(ours).__name__ and str(theirs) == str(ours), (
            f"{where}: {theirs} != {ours}"
        )


def close(theirs: np.ndarray, ours: np.ndarray, tol: float, where: str) -> None:
    """Values within ``tol``, relative to the value or (for sums that cancel) to the largest finite value."""
    if theirs.dtype.kind in "fc" and theirs.size:
        finite = np.abs(theirs[np.isfinite(theirs)])
        scale = float(finite.max()) if finite.size else 1.0
        np.testing.assert_allclose(ours, theirs, rtol=tol, atol=tol * max(scale, 1e-30), err_msg=where)
    else:
        np.testing.assert_array_equal(ours, theirs, err_msg=where)


def _leaves(value: Any, kind: type) -> list[Any]:
    if isinstance(value, kind):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in _leaves(v, kind)]
    return []


def _fresh(value: Any, grad: bool, marked: bool = False) -> Any:
    """Copies of the samples, so that in-place calls leave them alone; floating ones as leaves when gradients count."""
    if isinstance(value, torch.Tensor):
        copy = value.detach().clone()
        wanted = value.requires_grad if marked else copy.is_floating_point() or copy.is_complex()
        return copy.requires_grad_(grad and wanted)
    if isinstance(value, dict):
        return {k: _fresh(v, grad, marked) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(_fresh(v, grad, marked) for v in value)
    return value


def _run(library: Any, case: Case, args: Any, kwargs: Any) -> tuple[Any, Exception | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return resolve(library, case.name)(*args, **kwargs), None
        except Exception as error:
            return None, error


def same_error(theirs: Exception, ours: Exception | None, text: str = "same", where: str = "") -> None:
    """Assert that ours is an error of the same kind, with the same text."""
    assert ours is not None, f"{where}: torch raised {type(theirs).__name__}: {theirs}; we did not"
    names = {type(theirs).__name__.lstrip("_")} | {
        b.__name__ for b in type(theirs).__bases__ if b is not Exception
    }
    ok = type(ours).__name__ in names or type(ours) is type(theirs)
    assert ok, f"{where}: {type(theirs).__name__}({theirs}) != {type(ours).__name__}({ours})"
    if text != "any":
        a, b = _clean(str(theirs)), _clean(str(ours))
        if text == "start":
            a, b = a[:40], b[:40]
        assert a == b, f"{where}: {a!r} != {b!r}"


def _clean(text: str) -> str:
    return re.sub(r"\s*\(?Triggered internally.*", "", text.split("\nException raised from")[0]).strip()


def _is_inplace(case: Case) -> bool:
    return case.name.endswith("_") and not case.name.endswith("__") and not case.name.startswith("operator.")


def check_case(case: Case) -> None:
    """Run one case on both libraries and compare."""
    grad = case.grad and not _is_inplace(case)
    rest = grad and not case.first
    args = *_fresh(case.args[:1], grad, case.marked), *_fresh(case.args[1:], rest, case.marked)
    kwargs = _fresh(case.kwargs, rest, case.marked)
    my_args, my_kwargs = to_ours(args), to_ours(kwargs)
    random = torch.get_rng_state(), ft.get_rng_state()
    theirs, error = _run(torch, case, args, kwargs)
    ours, my_error = _run(ft, case, my_args, my_kwargs)
    if error is not None:
        same_error(error, my_error, case.text, str(case))
        return
    if my_error is not None:
        raise my_error
    same(theirs, ours, case.tol, case.values, str(case))
    if _is_inplace(case):
        assert ours is my_args[0], f"{case}: an in-place call returns its tensor"
    elif host.enabled():
        _again(case, *random)
    if grad:
        _same_grads(case, theirs, ours, (args, kwargs), (my_args, my_kwargs))


def _again(case: Case, their_random: Any, random: Any) -> None:
    """Later calls on small tensors that need no gradient go a shorter way than the first one (see `_run.call`)."""
    torch.set_rng_state(their_random)
    with torch.no_grad():
        theirs, _ = _run(torch, case, _fresh(case.args, False), _fresh(case.kwargs, False))
    for _ in range(2):
        ft.set_rng_state(random)
        with ft.no_grad():
            args, kwargs = to_ours(_fresh(case.args, False)), to_ours(_fresh(case.kwargs, False))
            ours, error = _run(ft, case, args, kwargs)
        assert error is None, f"{case}, once more: {error}"
        same(theirs, ours, case.tol, case.values, f"{case}, once more")


def _same_grads(case: Case, theirs: Any, ours: Any, inputs: Any, my_inputs: Any) -> None:
    outs = [o for o in _leaves(theirs, torch.Tensor) if o.requires_grad]
    if any(type(o.grad_fn).__name__ == "NotImplemented" for o in outs):  # floor_divide and the like
        return
    my_outs = [o for o in _leaves(ours, ft.Tensor) if o.requires_grad]
    assert len(outs) == len(my_outs), f"{case}: {len(outs)} outputs require grad, ours {len(my_outs)}"
    if not outs:
        return
    rng = np.random.default_rng(0)
    weights = [torch.from_numpy(np.asarray(rng.uniform(0.5, 1.5, tuple(o.shape)))).to(o.dtype) for o in outs]
    _backward(torch, outs, weights)
    _backward(ft, my_outs, [to_ours(w) for w in weights])
    for i, (x, mine) in enumerate(
        zip(_leaves(inputs, torch.Tensor), _leaves(my_inputs, ft.Tensor), strict=True)
    ):
        where = f"{case}: gradient of tensor {i}"
        if x.grad is None or mine.grad is None:
            # a gradient that torch leaves out may be zero here, and the other way round
            present = x.grad if x.grad is not None else mine.grad
            assert present is None or not np.any(to_numpy(present)), f"{where}: {x.grad} != {mine.grad}"
        else:
            same(x.grad, mine.grad, None if case.tol is None else 4 * case.tol, case.values, where)


def _backward(library: Any, outs: list[Any], weights: list[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.autograd.backward(outs, weights)


def _second(library: Any, case: Case, args: Any, kwargs: Any, weight: Any) -> Any:
    """Gradients of the squared norm of the gradients of a nonlinear function of the output."""
    tensor = torch.Tensor if library is torch else ft.Tensor
    inputs = [x for x in _leaves([*args, *kwargs.values()], tensor) if x.requires_grad]
    out = resolve(library, case.name)(*args, **kwargs)
    first = library.autograd.grad(
        (out.sin() * weight(out)).sum(), inputs, create_graph=True, allow_unused=True
    )
    total = sum((g * g).sum() for g in first if g is not None)
    return library.autograd.grad(total, inputs, allow_unused=True)


def check_second(case: Case, tol: float = 1e-9) -> None:
    """Second derivatives on both libraries."""
    args, kwargs = _fresh(case.args, True), _fresh(case.kwargs, True)
    mine = to_ours(args), to_ours(kwargs)
    fixed = {}

    def weight(out: torch.Tensor) -> torch.Tensor:
        fixed["w"] = sample(*out.shape, seed=9)
        return fixed["w"]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = _second(torch, case, args, kwargs, weight)
        ours = _second(ft, case, *mine, lambda out: to_ours(fixed["w"]))
    for a, b in zip(theirs, ours, strict=True):
        if a is None or b is None:
            present = a if a is not None else b
            assert present is None or not np.any(present.detach().numpy())
        else:
            same(a, b, tol)


def check(name: str, *args: Any, **kwargs: Any) -> None:
    """`check_case` of a call written out: ``check("torch.sum", x, dim=0)``."""
    check_case(case(name, *args, **kwargs))


def sample(
    *shape: int, dtype: torch.dtype = torch.float64, low: float = -2.0, high: float = 2.0, seed: int = 0
) -> torch.Tensor:
    """Reproducible values between ``low`` and ``high``; integers and bools come out as such."""
    values = np.random.default_rng([seed, *shape]).uniform(low, high, shape)
    x = torch.from_numpy(np.asarray(values))
    if dtype is torch.bool:
        return x > (low + high) / 2
    if dtype.is_complex:
        other = np.random.default_rng([seed + 1, *shape]).uniform(low, high, shape)
        return torch.complex(x, torch.from_numpy(np.asarray(other))).to(dtype)
    return x.to(dtype) if dtype.is_floating_point else x.round().to(dtype)
