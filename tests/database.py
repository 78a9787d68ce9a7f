"""PyTorch's operator database as calls of public names, for the tests and for the table in docs/operators.md."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from compare import Case, resolve
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db

# It looks for a unittest.TestCase up the stack, reading source files, for every list of samples; here there is none.
common_utils.extract_test_fn = lambda: None

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

#: what ordinary training and inference code calls, by the entries' names
CORE = frozenset(
    """
    arange linspace eye full full_like ones ones_like zeros zeros_like empty empty_like new_zeros new_ones
    new_full randn randn_like rand_like randint uniform normal bernoulli multinomial meshgrid clone
    contiguous item to float double half bfloat16 long int bool fill zero_ __getitem__ __radd__ __rmul__
    __rsub__ __rdiv__ __rpow__ __rmatmul__ abs add sub mul div floor_divide remainder neg reciprocal pow
    square sqrt rsqrt exp expm1 log log2 log1p sin cos atan atan2 tanh sigmoid erf erfinv lgamma sign
    floor ceil round clamp clamp_min maximum minimum lerp addcmul addcdiv logaddexp nan_to_num eq ne lt le
    gt ge equal allclose isnan isinf isfinite isin logical_and logical_or logical_not bitwise_and
    bitwise_not where sum mean prod std var var_mean max min amax amin argmax argmin all any median
    quantile norm logsumexp cumsum cumprod count_nonzero trace sort argsort topk unique bincount
    searchsorted reshape view view_as expand expand_as permute transpose t T mT squeeze unsqueeze flatten
    unflatten flip roll repeat repeat_interleave tile cat stack hstack vstack split chunk unbind narrow
    select broadcast_to diagonal diag tril triu unfold gather scatter scatter_add scatter_reduce
    index_select index_add index_copy index_put masked_fill masked_select take_along_dim nonzero matmul mm
    bmm mv dot addmm baddbmm outer einsum tensordot cross cdist linalg.norm linalg.vector_norm linalg.inv
    linalg.solve linalg.solve_triangular linalg.slogdet linalg.cholesky linalg.qr linalg.svd linalg.eigh
    linalg.pinv linalg.lstsq real imag view_as_real view_as_complex fft.fft fft.ifft fft.rfft fft.irfft
    fft.fft2 fft.rfft2 fft.irfft2 fft.fftshift stft nn.functional.linear nn.functional.conv1d
    nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
    nn.functional.conv_transpose2d nn.functional.embedding nn.functional.embedding_bag
    nn.functional.one_hot nn.functional.dropout nn.functional.dropout2d nn.functional.batch_norm
    nn.functional.layer_norm nn.functional.group_norm nn.functional.instance_norm nn.functional.rms_norm
    nn.functional.normalize nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.max_pool1d
    nn.functional.max_pool2d nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
    nn.functional.adaptive_max_pool2d nn.functional.interpolate nn.functional.pad nn.functional.unfold
    nn.functional.pixel_shuffle nn.functional.grid_sample nn.functional.cosine_similarity
    nn.functional.scaled_dot_product_attention nn.functional.multi_head_attention_forward
    nn.functional.relu nn.functional.relu6 nn.functional.leaky_relu nn.functional.prelu nn.functional.elu
    nn.functional.selu nn.functional.gelu nn.functional.silu nn.functional.mish nn.functional.softplus
    nn.functional.hardtanh nn.functional.hardswish nn.functional.hardsigmoid nn.functional.glu
    nn.functional.logsigmoid softmax log_softmax nn.functional.cross_entropy nn.functional.nll_loss
    nn.functional.mse_loss nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.huber_loss
    nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.kl_div
    nn.functional.ctc_loss nn.functional.triplet_margin_loss
    """.split()
)

#: entries that are not compared so, and why
DIFFERENT = {
    "as_strided_scatter": "PyTorch's gradient is that of the elements written over, in error; here it is right",
    "chalf": "refused: JAX has no complex32",
    "linalg.eig": "eigenvectors up to a phase; in tests/ops/test_factorizations.py",
    "linalg.eigh": "eigenvectors up to sign; in tests/ops/test_factorizations.py",
    "pca_lowrank": "singular vectors up to sign; in tests/ops/test_factorizations.py",
    "svd_lowrank": "singular vectors up to sign; in tests/ops/test_factorizations.py",
}
#: entries whose gradients are not compared, and why
CANCELLING = {"corrcoef": "zero in exact arithmetic, and rounding otherwise"}
COMPLEX_GRADIENTS = {
    **dict.fromkeys(("svd", "linalg.svd"), "PyTorch refuses it where the loss depends on the vectors' phase"),
    **dict.fromkeys(
        ("cholesky", "linalg.cholesky", "linalg.cholesky_ex"),
        "PyTorch's has an anti-Hermitian part, which no change of a Hermitian matrix sees",
    ),
}


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


def left_out(info: Any) -> str:
    """Why an entry is none that users can call; empty if it is."""
    if any(p.startswith("_") and not p.startswith("__") for p in info.name.split(".")):
        return "internal names"
    if "sparse" in info.name:
        return "operators of sparse tensors"
    if info.name.startswith("jiterator"):
        return "kernels compiled for CUDA"
    if info.variant_test_name in ("triton_optimized", "without_cudnn", "partial_views"):
        return "the same operators again, for one kernel on a GPU"
    if info.name.startswith("torch.") or not has(torch, public_name(info)):
        return "names that the public modules do not have"
    return "" if main_dtype(info) is not None else "no type on the CPU"


def main_dtype(info: Any) -> torch.dtype | None:
    have = info.supported_dtypes("cpu")
    return next((d for d in (torch.float32, torch.int64, torch.bool, torch.complex64) if d in have), None)


def entries() -> list[Any]:
    return [info for info in op_db if not left_out(info)]


def core_entries() -> list[Any]:
    """The entries of the operators that most programs use."""
    return [info for info in entries() if info.name in CORE]


def has_gradient(info: Any, dtype: torch.dtype) -> bool:
    return dtype in info.supported_backward_dtypes("cpu")


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
