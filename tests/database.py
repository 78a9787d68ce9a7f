"""PyTorch's operator database as calls of public names, for the tests and for the table in docs/operators.md."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from compare import Case, resolve
from torch.testing._internal.common_methods_invocations import op_db

Call = tuple[str, tuple[Any, ...], dict[str, Any]]

#: entries that are methods or attributes of a tensor
METHODS = (
    "item contiguous sum_to_size expand expand_as reshape_as view view_as to unfold repeat byte char bfloat16 bool "
    "double float half int long short chalf cdouble cfloat new_zeros new_ones new_full new_empty new_empty_strided"
).split()
PROPERTIES = ("T", "H", "mT", "mH")
#: entries of tensors that are filled or changed
CHANGES = (
    *("cauchy", "exponential", "geometric", "log_normal", "uniform", "normal.in_place"),
    *("resize_", "resize_as_", "zero_"),
)
#: results with memory that nobody wrote
UNINITIALISED = (
    *("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
    *("resize_", "resize_as_"),
)
#: entries whose samples the database turns into the arguments of the public function
ARGUMENTS: dict[str, Callable[..., Call]] = {
    "normal.number_mean": lambda std, mean, *a, **k: ("normal", (mean, std, *a), k),
    "einsum": lambda tensors, equation: ("einsum", (equation, tensors), {}),
    "where": lambda x, condition, other, **k: ("where", (condition, x, other), k),
    "polygamma": lambda x, n, **k: ("polygamma", (n, x), k),
    "special.polygamma": lambda x, n, **k: ("special.polygamma", (n, x), k),
    "svd_lowrank": lambda a, b, **k: ("svd_lowrank", (product(a, b),), k),
    "pca_lowrank": lambda a, b, **k: ("pca_lowrank", (product(a, b),), k),
    "linalg.pinv.singular": lambda a, b: ("linalg.pinv", (product(a, b),), {}),
    "linalg.lstsq.grad_oriented": lambda a, b, driver: ("linalg.lstsq", (a, b), {"driver": driver}),
    "nn.functional.embedding": lambda w, i, **k: ("nn.functional.embedding", (i, w), k),
    "nn.functional.embedding_bag": lambda w, i, **k: ("nn.functional.embedding_bag", (i, w), k),
}
#: entries that PyTorch differentiates through a symmetric matrix only
SYMMETRIC = ("cholesky", "linalg.cholesky", "linalg.cholesky_ex", "linalg.eigh", "linalg.eigvalsh")


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.detach() @ b.detach().mT).requires_grad_(a.requires_grad)


def symmetric(a: torch.Tensor) -> torch.Tensor:
    return (a.detach() + a.detach().mH).requires_grad_(a.requires_grad)


def key(info: Any) -> str:
    """Name and variant: "add", "std.unbiased"."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def has(library: Any, name: str) -> bool:
    try:
        resolve(library, name)
    except (AttributeError, NotImplementedError):
        return False
    return True


def public_name(info: Any) -> str:
    """Where a user finds the operator: "add", "linalg.norm", "Tensor.expand"."""
    name = info.name
    if name in PROPERTIES:
        return f"Tensor.{name}"
    if key(info) in CHANGES:
        return f"Tensor.{name.rstrip('_')}_"
    if name in METHODS or not has(torch, name):
        return f"Tensor.{name}"
    return name


def is_public(info: Any) -> bool:
    """Whether users can call it: no internal names, no references, nothing for a GPU's kernels alone."""
    inner = any(p.startswith("_") and not p.startswith("__") for p in info.name.split("."))
    other = info.name.startswith(("torch.", "sparse.", "jiterator")) or "sparse" in info.name
    other |= info.variant_test_name in ("triton_optimized", "without_cudnn", "partial_views")
    return not inner and not other and has(torch, public_name(info)) and main_dtype(info) is not None


def main_dtype(info: Any) -> torch.dtype | None:
    have = info.supported_dtypes("cpu")
    return next((d for d in (torch.float32, torch.int64, torch.bool, torch.complex64) if d in have), None)


def entries() -> list[Any]:
    return [info for info in op_db if is_public(info)]


def has_gradient(info: Any, dtype: torch.dtype) -> bool:
    return info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)


def usable(value: Any) -> bool:
    """Whether a sample can be handed to another library."""
    if isinstance(value, torch.Tensor):
        return value.layout == torch.strided and not value.is_quantized and value.dtype != torch.complex32
    if isinstance(value, dict):
        return all(map(usable, value.values()))
    if isinstance(value, list | tuple):
        return all(map(usable, value))
    return not isinstance(value, torch.Generator)


def calls(info: Any, dtype: torch.dtype, most: int = 60) -> Iterator[Call]:
    """The database's samples as calls of the public function."""
    name = public_name(info)
    for sample in itertools.islice(
        info.sample_inputs("cpu", dtype, requires_grad=has_gradient(info, dtype)), most
    ):
        args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
        if not usable([args, kwargs]):
            continue
        if (rule := ARGUMENTS.get(key(info)) or ARGUMENTS.get(info.name)) is not None:
            yield rule(*args, **kwargs)
        elif info.name in PROPERTIES:
            yield f"{name}.__get__", args, kwargs
        elif key(info) in SYMMETRIC:
            yield name, (symmetric(args[0]), *args[1:]), kwargs
        else:
            yield name, args, kwargs


def weight(call: Call) -> int:
    """How telling a sample is: one with elements, dimensions and arguments before a number or nothing."""
    first = call[1][0] if call[1] else None
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if not isinstance(first, torch.Tensor):
        return 1
    return 0 if first.numel() == 0 else 1 + (first.ndim > 0) + (len(call[1]) + len(call[2]) > 1)


def cases(info: Any, dtype: torch.dtype, count: int = 1, tol: float | None = None) -> list[Case]:
    """``count`` of the entry's samples, those that say most."""
    torch.manual_seed(0)
    best = sorted(calls(info, dtype), key=weight, reverse=True)[:count]
    values = info.name not in UNINITIALISED
    grad = has_gradient(info, dtype) and values
    return [Case(n, a, k, grad=grad, tol=tol, values=values, marked=True) for n, a, k in best]
