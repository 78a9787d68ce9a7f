"""The calls that PyTorch's own operator database expects to fail: the same error type, and the same text.

Of a text the first line counts, up to where PyTorch lists the signatures that it would have taken.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from compare import resolve, tensor_to_ours
from database import ARGUMENTS, left_out
from torch.testing._internal.common_methods_invocations import op_db

import functorch_port as ft

#: what differs on purpose, by name or by name and number of the call
DIFFERENT = {
    # an unbound method called with a number in the tensor's place: Python's own error, in other words
    **dict.fromkeys(
        ["__radd__", "__rmul__", "__rand__", "__ror__", "__rxor__", "__rdiv__"],
        "a number in the place of self is taken",
    ),
    "narrow_copy 1": "PyTorch's is an internal assertion",
    "cat 7": "the database's tensor cannot be resized for reasons of its own",
}
#: the database's names of methods that fill a tensor
FILLED = {"cauchy", "exponential", "geometric", "log_normal", "uniform"}


def entries() -> list[Any]:
    named = [info for info in op_db if info.error_inputs_func is not None and not left_out(info)]
    return [info for info in named if info.variant_test_name in ("", "in_place")]


class Copies:
    """Torch tensors as ours; those that share memory share it again."""

    def __init__(self) -> None:
        self.storages: dict[tuple[int, Any], Any] = {}
        self.kept: list[Any] = []

    def __call__(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, torch.dtype):
            return getattr(ft, str(value).removeprefix("torch."))
        if isinstance(value, list | tuple):
            return type(value)(self(v) for v in value)
        return value

    def tensor(self, value: torch.Tensor) -> Any:
        size, stride = tuple(value.shape), value.stride()
        if value.is_meta:
            return ft.empty(size, dtype=self(value.dtype), device="meta")
        key = (value.untyped_storage().data_ptr(), value.dtype)
        if key not in self.storages or not key[0]:
            count = value.untyped_storage().nbytes() // value.element_size()
            self.storages[key] = tensor_to_ours(value.detach().as_strided((count,), (1,), 0))
            self.kept.append(value)
        flat = self.storages[key]
        if size == tuple(flat.shape) and value.is_contiguous():
            return flat
        if value.is_contiguous() and value.numel() == flat.numel():
            return flat.view(size)
        return ft.as_strided(flat, size, stride, value.storage_offset())


def error_of(call: Any) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            return error
    return None


def fact(error: Exception) -> str:
    return str(error).split("\n")[0].split(", but expected one of")[0].strip()


def function(info: Any) -> Any:
    if info.variant_test_name == "in_place" or info.name in FILLED:
        return resolve(ft, f"Tensor.{info.name}_")
    if hasattr(ft.Tensor, info.name) and not hasattr(ft, info.name.split(".")[0]):
        return resolve(ft, f"Tensor.{info.name}")
    return resolve(ft, info.name)


@pytest.mark.parametrize("info", entries(), ids=lambda info: info.formatted_name)
def test_refused_like_torch(info: Any) -> None:
    call, wrong = function(info), []
    for number, sample in enumerate(info.error_inputs("cpu")):
        given = sample.sample_input
        first = given.input
        if info.name in DIFFERENT or f"{info.name} {number}" in DIFFERENT or getattr(first, "ndim", 0) > 32:
            continue
        theirs = error_of(lambda given=given: info(given.input, *given.args, **given.kwargs))
        ours = Copies()
        args, kwargs = [first, *given.args], given.kwargs
        if (rule := ARGUMENTS.get(info.name)) is not None:
            _, args, kwargs = rule(*args, **kwargs)
        args, kwargs = ours(list(args)), {k: ours(v) for k, v in kwargs.items()}
        mine = error_of(lambda args=args, kwargs=kwargs: call(*args, **kwargs))
        if theirs is None:
            continue
        if mine is None:
            wrong.append(f"{number}: torch raised {theirs!r}"[:300])
        elif type(theirs).__name__.lstrip("_") != type(mine).__name__ or fact(theirs) != fact(mine):
            wrong.append(
                f"{number}: {type(theirs).__name__}({fact(theirs)})\n     {type(mine).__name__}({fact(mine)})"
            )
    assert not wrong, "\n" + "\n".join(wrong)
