"""Second derivatives of the core operators of PyTorch's database, in float64: the numbers of PyTorch's double backward.

By default one in sixteen of them, as each compiles three programs; with WHOLE_DATABASE=1 all.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torch.testing._internal.common_methods_invocations")

from compare import Case, _fresh, _leaves, resolve, same, to_numpy, to_ours
from database import CHANGES, CORE, cases, entries, key
from random_programs import Rounding, is_rounding

import functorch_port as ft

#: entries that are not compared so, and why
DIFFERENT = {
    "linalg.eigh": "eigenvectors up to sign; in tests/ops/test_second_order.py",
    "linalg.norm.subgradients_at_zero": "nan in PyTorch, 0 here: there is no second derivative",
    "nn.functional.ctc_loss": "PyTorch has no second derivative",
}
STRIDE = 1 if os.environ.get("WHOLE_DATABASE") == "1" else 16


def core() -> list[Any]:
    return [
        info
        for info in entries()
        if info.name in CORE
        and info.supports_gradgrad
        and key(info) not in CHANGES
        and torch.float64 in info.supported_dtypes("cpu")
    ]


def second(library: Any, case: Case, args: Any, kwargs: Any) -> list[Any]:
    """Of the first gradients, weighted: the gradients of the inputs and of the first weights; [] if there are none."""
    kind = torch.Tensor if library is torch else ft.Tensor
    torch.manual_seed(0)
    ft.manual_seed(0)
    outs = [o for o in _leaves(resolve(library, case.name)(*args, **kwargs), kind) if o.requires_grad]
    named = [kwargs[name] for name in sorted(kwargs)]
    inputs = [x for x in _leaves([args, named], kind) if x.requires_grad]
    weights = [_weights(library, o, 1).requires_grad_() for o in outs]
    first = library.autograd.grad(outs, inputs, weights, create_graph=True, allow_unused=True)
    used = [g for g in first if g is not None and g.requires_grad]
    if not used:
        return []
    weights_of_first = [_weights(library, g, 2) for g in used]
    return list(library.autograd.grad(used, [*inputs, *weights], weights_of_first, allow_unused=True))


def _weights(library: Any, x: Any, seed: int) -> Any:
    rng = np.random.default_rng([seed, *x.shape])
    values = rng.uniform(0.5, 1.5, tuple(x.shape))
    if x.is_complex():
        values = values + 1j * rng.uniform(-1, 1, tuple(x.shape))
    return library.tensor(values, dtype=x.dtype)


def shaken(case: Case) -> list[list[Any]]:
    """PyTorch's, rounded in other ways."""
    found = []
    for seed in range(4):
        with Rounding(seed):
            found.append(second(torch, case, _fresh(case.args, True, True), _fresh(case.kwargs, True, True)))
    return found


def check(case: Case) -> None:
    args, kwargs = _fresh(case.args, True, True), _fresh(case.kwargs, True, True)
    mine = to_ours(args), to_ours(kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = second(torch, case, args, kwargs)
        ours = second(ft, case, *mine)
    if not theirs or not ours:  # a gradient that PyTorch leaves out may be zero here, and the other way round
        assert all(g is None or not to_numpy(g).any() for g in (*theirs, *ours)), f"{case}: one has none"
        return
    assert len(theirs) == len(ours), f"{case}: {len(theirs)} gradients, ours {len(ours)}"
    for i, (a, b) in enumerate(zip(theirs, ours)):
        if a is None or b is None:
            present = a if a is not None else b
            assert present is None or not to_numpy(present).any(), f"{case}: {i}: {a} != {b}"
        else:
            try:
                same(a, b, 1e-8, where=f"{case}: second gradient {i}")
            except AssertionError:
                if not is_rounding(a, b, [other[i] for other in shaken(case)]):
                    raise


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", core()[::STRIDE], ids=key)
def test_like_torch(info: Any) -> None:
    if key(info) in DIFFERENT:
        pytest.skip(DIFFERENT[key(info)])
    (case,) = cases(info, torch.float64)
    check(case)


def test_differences_are_entries() -> None:
    assert DIFFERENT.keys() <= {key(info) for info in core()}
