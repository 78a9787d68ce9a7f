"""The public operators of PyTorch's own database: value, dtype and gradient of a sample, against live torch.

By default every eighth of them, as each compiles its own programs; with WHOLE_DATABASE=1 all.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

pytest.importorskip("torch.testing._internal.common_methods_invocations")

from compare import check_case
from database import cases, entries, key, main_dtype

import functorch_port as ft

#: entries that are not compared so, and why
DIFFERENT = {
    "as_strided_scatter": "PyTorch gives a gradient to elements that were written over",
    "chalf": "JAX has no complex32; refused",
    "linalg.eig": "eigenvectors up to a phase; in tests/ops/test_factorizations.py",
    "linalg.eigh": "eigenvectors up to sign; in tests/ops/test_factorizations.py",
    "linalg.lstsq": "the residuals require a gradient here also where they are empty",
    "linalg.lstsq.grad_oriented": "as linalg.lstsq",
    "nn.functional.linear_cross_entropy.chunked": "the sample holds an options object of PyTorch's",
    "nn.functional.linear_cross_entropy.chunked_none": "the sample holds an options object of PyTorch's",
    "nn.functional.triplet_margin_with_distance_loss": "the sample holds a function of PyTorch's",
    "pca_lowrank": "singular vectors up to sign",
    "svd_lowrank": "singular vectors up to sign",
}
STRIDE = 1 if os.environ.get("WHOLE_DATABASE") == "1" else 8
#: gradients that are zero in exact arithmetic, and rounding otherwise
CANCELLING = {"corrcoef"}
#: entries whose float64 is not compared
COARSE = {"special.bessel_j1": "PyTorch's is 7e-8 away from SciPy's; ours is SciPy's to rounding"}
TOLERANCE = {torch.float64: 1e-9}  # float32 and the rest: 1e-4 of the largest element, 4e-4 for gradients


def check(info: Any, dtype: torch.dtype) -> None:
    if key(info) in DIFFERENT:
        pytest.skip(DIFFERENT[key(info)])
    found = cases(info, dtype, tol=TOLERANCE.get(dtype, 1e-4))
    assert found, "no sample"
    for case in found:
        case.grad &= key(info) not in CANCELLING
        torch.manual_seed(0)
        ft.manual_seed(0)
        check_case(case)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", entries()[::STRIDE], ids=key)
def test_like_torch(info: Any) -> None:
    check(info, main_dtype(info))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "info", [i for i in entries() if torch.float64 in i.supported_dtypes("cpu")][:: 6 * STRIDE], ids=key
)
def test_like_torch_in_float64(info: Any) -> None:
    if key(info) in COARSE:
        pytest.skip(COARSE[key(info)])
    check(info, torch.float64)


def test_differences_are_entries() -> None:
    assert DIFFERENT.keys() | CANCELLING | COARSE.keys() <= {key(info) for info in entries()}
