"""An array of numpy's beside a tensor, as PyTorch has it: the expression is numpy's, and so is its dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import functorch_port as ft

OPERATORS = [
    "x + a",
    "x - a",
    "x * a",
    "x / a",
    "x // a",
    "x % a",
    "x ** a",
    "x == a",
    "x @ a",
    "x & a",
    "x << a",
]
KINDS = ["int8", "uint8", "int32", "int64", "float16", "float32", "float64", "bool"]


def outcome(library: Any, code: str, kind: str, array: Any) -> Any:
    x = library.tensor([1, 2]).to(getattr(library, kind))
    try:
        made = eval(code, {"x": x, "a": array})
    except (TypeError, RuntimeError, ValueError):
        return "refused"
    return str(made.dtype), made.tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("array", ["int8", "int64", "float16", "float32", "float64", "bool"])
@pytest.mark.parametrize("code", OPERATORS)
def test_the_dtype_is_numpys(code: str, array: str) -> None:
    for kind in KINDS:
        for shape in ((2,), ()):
            given = np.ones(shape, array)
            theirs = outcome(torch, code, kind, given)
            ours = outcome(ft, code, kind, given)
            if theirs != "refused" and (kind, array) != ("bool", "bool"):  # of which PyTorch makes uint8
                assert ours == theirs, (kind, shape)


def test_numbers_of_numpy_are_numbers() -> None:
    for T in (torch, ft):
        x = T.tensor([1, 2])
        assert (
            str((x * np.float32(2)).dtype) == "torch.float32"
            and str((np.int64(2) * x).dtype) == "torch.int64"
        )


@pytest.mark.filterwarnings("ignore")
def test_bfloat16_has_no_array() -> None:
    for T in (torch, ft):
        with pytest.raises(TypeError, match="BFloat16"):
            T.ones(2, dtype=T.bfloat16) * np.ones(2)
