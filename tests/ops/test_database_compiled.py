"""The core operators of PyTorch's database inside a compiled function: values and gradients as in eager mode.

By default one in sixteen of them, as each is a program of its own; with WHOLE_DATABASE=1 all.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch.testing._internal.common_methods_invocations")

from compare import Case, _fresh, _leaves, resolve, to_numpy, to_ours
from database import cases, core_entries, key, main_dtype

import functorch_port as ft

WHOLE = os.environ.get("WHOLE_DATABASE") == "1"
#: entries whose result has a shape that depends on values, and what the error says to use instead
REFUSED = {
    "bincount": "scatter_add",
    "masked_select": "torch.where",
    "nn.functional.one_hot": "num_classes",
    "nonzero": "nonzero_static",
    "unique": "sort",
}
#: entries whose result is a Python value, which a compiled function does not know
VALUES = {"allclose", "item"}


def run(case: Case, args: Any, kwargs: Any) -> tuple[Any, list[Any]]:
    """The operator's result, and the gradients of the tensors among its arguments that require one."""
    out = resolve(ft, case.name)(*args, **kwargs)
    if not case.grad:
        return out, []
    outs = [o for o in _leaves(out, ft.Tensor) if o.requires_grad]
    named = [kwargs[name] for name in sorted(kwargs)]
    inputs = [x for x in _leaves([args, named], ft.Tensor) if x.requires_grad]
    weights = [ft.linspace(0.5, 1.5, o.numel(), dtype=o.dtype).reshape(o.shape) for o in outs]
    grads = ft.autograd.grad(outs, inputs, weights, allow_unused=True) if outs else ()
    return out, list(grads)


def _close(eager: np.ndarray, compiled: np.ndarray, tol: float, where: str) -> None:
    """Fused and unfused programs round in another order: within ``tol`` of the largest element, or of one."""
    if eager.dtype.kind in "fc":
        largest = np.abs(eager[np.isfinite(eager)]).max(initial=1.0)
        np.testing.assert_allclose(compiled, eager, rtol=tol, atol=tol * largest, err_msg=where)
    else:
        np.testing.assert_array_equal(compiled, eager, err_msg=where)


def same(eager: Any, compiled: Any, tol: float, values: bool, where: str) -> None:
    if isinstance(eager, ft.Tensor):
        assert type(compiled) is type(eager) and compiled.shape == eager.shape, where
        assert compiled.dtype is eager.dtype, f"{where}: {eager.dtype} != {compiled.dtype}"
        if values:
            _close(to_numpy(eager), to_numpy(compiled), tol, where)
    elif isinstance(eager, list | tuple):
        assert type(eager) is type(compiled) and len(eager) == len(compiled), where
        for i, (a, b) in enumerate(zip(eager, compiled)):
            same(a, b, tol, values, f"{where}[{i}]")
    else:
        assert type(eager) is type(compiled) and eager == compiled, f"{where}: {eager} != {compiled}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", core_entries()[:: 1 if WHOLE else 16], ids=key)
def test_as_eager(info: Any) -> None:
    (case,) = cases(info, main_dtype(info))
    case.grad &= not case.name.endswith("_")  # a leaf that requires grad cannot be changed in place

    def fresh() -> Any:
        return to_ours(_fresh(case.args, case.grad, True)), to_ours(_fresh(case.kwargs, case.grad, True))

    compiled = ft.compile(lambda args, kwargs: run(case, args, kwargs), rng="torch")
    if info.name in REFUSED:
        with pytest.raises(RuntimeError, match=f"shape depends on values.* use .*{REFUSED[info.name]}"):
            compiled(*fresh())
        return
    if info.name in VALUES:
        with pytest.raises(RuntimeError, match="not known while the function is being compiled"):
            compiled(*fresh())
        return
    ft.manual_seed(0)
    expected = run(case, *fresh())
    for _ in range(2):
        ft.manual_seed(0)
        same(expected, compiled(*fresh()), 1e-5, case.values, str(case))
    assert compiled.traces == 1, compiled.reasons
