"""The layers and losses of the namespace ``torch``: `nn.functional`'s, with ``torch``'s order of arguments.

Reference: https://docs.pytorch.org/docs/stable/nn.functional.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._base import dtypes
from ._base.layout import memory_order
from ._run.bind import function
from ._run.bind import publish_functions as _publish
from ._tensor import creation
from ._tensor.creation import arange, ones_like
from ._tensor.tensor import Tensor, wrap
from .nn import functional as F
from .nn.functional._activation import rrelu_values
from .nn.functional._common import require_tensor
from .nn.functional._dropout import drop_channels
from .nn.functional._normalization import batch_norm_values, instance_norm_values
from .ops.random import dropout_mask

__all__ = [
    "_cast_Byte", "_cast_Char", "_cast_Double", "_cast_Float", "_cast_Half", "_cast_Int", "_cast_Long", "_cast_Short",
    "_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo", "_segment_reduce",
    "_shape_as_tensor", "_softmax_backward_data", "adaptive_max_pool1d", "alpha_dropout", "alpha_dropout_",
    "as_strided_", "batch_norm", "binary_cross_entropy_with_logits", "conv_tbc", "convolution",
    "cosine_embedding_loss", "ctc_loss", "dropout", "dropout_", "dsmm", "embedding", "embedding_bag",
    "embedding_renorm_", "feature_alpha_dropout", "feature_alpha_dropout_", "feature_dropout",
    "feature_dropout_", "hinge_embedding_loss", "instance_norm", "kl_div", "margin_ranking_loss",
    "max_pool1d_with_indices", "native_dropout", "poisson_nll_loss", "rrelu", "rrelu_", "spmm",
    "triplet_margin_loss",
]  # fmt: skip

as_strided_ = Tensor.as_strided_  # type: ignore[attr-defined]
dsmm = spmm = function("mm")

_REDUCTIONS = ("none", "mean", "sum")


def _reduction(number: int) -> str:
    if number not in (0, 1, 2):
        raise ValueError(f"reduction must be 0 (none), 1 (mean) or 2 (sum), got {number}")
    return _REDUCTIONS[number]


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")


# ---------------------------------------------------------------------- what libraries call of ATen

_segment_reduce = function("segment_reduce")


def _cast(name: str, method: str) -> Callable[..., Tensor]:
    def cast(self: Tensor, non_blocking: bool = False) -> Tensor:
        return getattr(self, method)()  # type: ignore[no-any-return]

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"``self.{method}()``."
    return cast


_cast_Byte = _cast("_cast_Byte", "byte")
_cast_Char = _cast("_cast_Char", "char")
_cast_Double = _cast("_cast_Double", "double")
_cast_Float = _cast("_cast_Float", "float")
_cast_Half = _cast("_cast_Half", "half")
_cast_Int = _cast("_cast_Int", "int")
_cast_Long = _cast("_cast_Long", "long")
_cast_Short = _cast("_cast_Short", "short")


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The sizes of a tensor, as one."""
    return creation.tensor(self.shape, dtype=dtypes.int64)


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """The gradient of softmax along ``dim``, from its result."""
    weighted = grad_output * output
    return (weighted - output * weighted.sum(dim, keepdim=True)).to(input_dtype)


def _convert_indices_from_coo_to_csr(self: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Where the entries of each row begin, (size + 1), from the sorted rows of the entries, (n)."""
    return function("searchsorted")(
        self, arange(size + 1, dtype=self.dtype, device=self.device), out_int32=out_int32
    )


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """The rows and columns of entries, (2, n), from where each row begins; columns first if ``transpose``."""
    rows = arange(len(crow_indices) - 1, device=crow_indices.device).repeat_interleave(crow_indices.diff())
    pair = (col_indices, rows) if transpose else (rows, col_indices)
    return function("stack")(pair).to(dtypes.int32 if out_int32 else dtypes.int64)


# ---------------------------------------------------------------------- dropout


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.dropout`."""
    _check_probability(p)
    return F.dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of `dropout`."""
    _check_probability(p)
    return F.dropout(input, p, train, inplace=True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout`."""
    _check_probability(p)
    return F.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of `alpha_dropout`."""
    _check_probability(p)
    return F.alpha_dropout(input, p, train, inplace=True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zero whole channels of (N, C, ...) at random, as `nn.functional.dropout2d` does."""
    _check_probability(p)
    return drop_channels(input, p, train, inplace=False)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of `feature_dropout`."""
    _check_probability(p)
    return drop_channels(input, p, train, inplace=True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout`."""
    _check_probability(p)
    return F.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place version of `feature_alpha_dropout`."""
    _check_probability(p)
    return F.feature_alpha_dropout(input, p, train, inplace=True)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """`dropout`, and a bool mask of the elements that were kept."""
    _check_probability(p)
    if train is False or not input.numel():
        return input.clone(), ones_like(input, dtype=dtypes.bool_)
    mask = wrap(dropout_mask(input.shape, p, input.dtype, memory_order(input)))
    return function("_dropped")(input, mask, float(p)), mask.bool()


# ---------------------------------------------------------------------- layers


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """`nn.functional.embedding` with the weight first; a negative ``padding_idx`` means none."""
    padding = None if padding_idx < 0 else padding_idx
    return F.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


_CHECKED = "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
#: dtypes of which PyTorch sums bags without the list of each index's bag
_SUMMED_DIRECTLY = frozenset({dtypes.float32, dtypes.float16, dtypes.bfloat16})


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`nn.functional.embedding_bag` of a vector of indices, with the tensors that its backward pass needs.

    Args:
        mode: 0 for sum, 1 for mean, 2 for max.

    Returns:
        The bags' values (B, D); the bag of every index (empty where PyTorch sums without it); the number of indices
        in every bag (B,); the rows of the maxima (B, D). The last two are zeros unless the mode needs them.
    """
    require_tensor("embedding_bag", "weight", 1, weight)
    require_tensor("embedding_bag", "indices", 2, indices)
    require_tensor("embedding_bag", "offsets", 3, offsets)
    if mode not in (0, 1, 2):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    for name, tensor, ndim in (("weight", weight, 2), ("offsets", offsets, 1), ("indices", indices, 1)):
        if tensor.ndim != ndim:
            raise RuntimeError(
                f"{name} has to be a {ndim}D Tensor, but got Tensor of dimension {tensor.ndim}"
            )
    if per_sample_weights is not None:
        if mode:
            raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
        for what, fits in (
            ("dim() == 1", per_sample_weights.ndim == 1),
            ("numel() == indices.numel()", per_sample_weights.numel() == indices.numel()),
        ):
            if not fits:
                raise RuntimeError(
                    f"Expected per_sample_weights.value().{what} to be true, but got false.  {_CHECKED}"
                )
    name = ("sum", "mean", "max")[mode]
    out = F.embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq and mode != 2,
        mode=name,
        sparse=sparse and mode != 2,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    bag, count, largest = function("_embedding_bag_parts")(
        weight._alias(), indices, offsets, name, include_last_offset, padding, weight.requires_grad
    )
    if (
        (mode, padding_idx) == (0, None)
        and weight.dtype in _SUMMED_DIRECTLY
        and weight.stride(1) == 1
        and (per_sample_weights is None or per_sample_weights.stride(0) == 1)
    ):
        bag = bag[:0]
    return out, bag, count, largest


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the rows ``indices`` whose norm is above ``max_norm`` down to it, in place."""
    input._set_value(function("embedding_renorm")(input, indices, float(max_norm), float(norm_type))._value)
    return input


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`nn.functional.batch_norm`, also for one value per channel."""
    return batch_norm_values(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`nn.functional.instance_norm`, also for one spatial element."""
    return instance_norm_values(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    """`nn.functional.rrelu`, with random numbers from ``generator``."""
    return rrelu_values(input, lower, upper, training, generator)


conv_tbc, rrelu_ = F.conv_tbc, F.rrelu_


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """`nn.functional.adaptive_max_pool1d` with the indices."""
    return F.adaptive_max_pool1d(input, output_size, return_indices=True)


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """`nn.functional.max_pool1d` with the indices."""
    return F.max_pool1d_with_indices(input, kernel_size, stride or None, padding, dilation, ceil_mode)


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """The convolution or transposed convolution of `nn.functional` for the weight's number of dimensions."""
    n = weight.ndim - 2
    stride, padding, dilation = (
        tuple(value) * n if len(value) == 1 else tuple(value) for value in (stride, padding, dilation)
    )
    if transposed:
        extra = tuple(output_padding) * n if len(output_padding) == 1 else tuple(output_padding)
        conv = function(f"conv_transpose{n}d")
        return conv(input, weight, bias, stride, padding, extra, groups, dilation)
    return function(f"conv{n}d")(input, weight, bias, stride, padding, dilation, groups)


# ---------------------------------------------------------------------- losses
# Reduction 0 is none, 1 mean, 2 sum. The default is none, although PyTorch documents mean.


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 0,
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits`."""
    how = _reduction(reduction)
    return F.binary_cross_entropy_with_logits(input, target, weight, reduction=how, pos_weight=pos_weight)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.cosine_embedding_loss`."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Tensor:
    """`nn.functional.ctc_loss`."""
    how = _reduction(reduction)
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """`nn.functional.hinge_embedding_loss`."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div`."""
    return function("_kl_div")(input, target, _reduction(reduction), log_target)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.margin_ranking_loss`."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """`nn.functional.poisson_nll_loss`."""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_reduction(reduction))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
) -> Tensor:
    """`nn.functional.triplet_margin_loss`."""
    how = _reduction(reduction)
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=how)


globals().update(_publish({name: globals()[name] for name in __all__}, "torch"))
