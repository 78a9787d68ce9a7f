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
from database import CANCELLING, COMPLEX_GRADIENTS, DIFFERENT, cases, core_entries, entries, key, main_dtype

import functorch_port as ft

STRIDE = 1 if os.environ.get("WHOLE_DATABASE") == "1" else 8
#: entries whose float64 is not compared
COARSE = {"special.bessel_j1": "PyTorch's is 7e-8 away from SciPy's; ours is SciPy's to rounding"}
#: entries whose bfloat16 is not compared
ROUGH = {
    "nn.functional.grid_sample": "PyTorch's positions are rounded to bfloat16: ours is 10 times closer to float64's",
    "nn.functional.multi_head_attention_forward": "the sample's softmax is 1 in one place: both gradients are rounding",
}
#: bfloat16 has steps of 4e-3; float32 and the rest: 1e-4 of the largest element, 4e-4 for gradients
TOLERANCE = {torch.float64: 1e-9, torch.bfloat16: 1e-2}


def check(info: Any, dtype: torch.dtype) -> None:
    if key(info) in DIFFERENT:
        pytest.skip(DIFFERENT[key(info)])
    found = cases(info, dtype, tol=TOLERANCE.get(dtype, 1e-4))
    assert found, "no sample"
    for case in found:
        case.grad &= key(info) not in (COMPLEX_GRADIENTS if dtype.is_complex else CANCELLING)
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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "info", [i for i in entries() if torch.complex64 in i.supported_dtypes("cpu")][:: 5 * STRIDE], ids=key
)
def test_like_torch_in_complex64(info: Any) -> None:
    check(info, torch.complex64)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "info", [i for i in core_entries() if torch.bfloat16 in i.supported_dtypes("cpu")][:: 5 * STRIDE], ids=key
)
def test_core_operators_like_torch_in_bfloat16(info: Any) -> None:
    if key(info) in ROUGH:
        pytest.skip(ROUGH[key(info)])
    check(info, torch.bfloat16)


def test_differences_are_entries() -> None:
    named = (DIFFERENT, CANCELLING, COMPLEX_GRADIENTS, COARSE, ROUGH)
    assert set().union(*named) <= {key(info) for info in entries()}
