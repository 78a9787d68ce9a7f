"""What PyTorch's profiler calls the operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["aten"]

#: by the name here, without a leading underscore
_NAMES = {
    "alpha_dropped": "alpha_dropout", "basic_put": "copy_", "batch_norm_eval": "batch_norm",
    "batch_norm_tracked": "batch_norm", "cholesky_ex": "linalg_cholesky_ex", "constant_pad_nd": "pad",
    "cross_entropy": "cross_entropy_loss", "dropped": "dropout",
    "instance_norm_tracked": "instance_norm", "inv_ex": "linalg_inv_ex",
    "ldl_factor_ex": "linalg_ldl_factor_ex", "linear_2d": "linear", "linear_2d_unbiased": "linear",
    "linear_nd": "linear", "linear_nd_unbiased": "linear", "linear_vector": "linear",
    "lstsq": "linalg_lstsq", "lu": "linalg_lu", "lu_factor_ex": "linalg_lu_factor_ex",
    "mask_put": "index_put_", "max_dim": "max", "median_dim": "median", "min_dim": "min",
    "nanmedian_dim": "nanmedian", "nll_loss": "nll_loss_nd", "norm": "linalg_vector_norm",
    "number_pow": "pow", "pow_exact": "pow", "pow_number": "pow", "reflected_divide": "div",
    "repeat_each": "repeat_interleave", "reshape_copy": "reshape",
    "soft_cross_entropy": "cross_entropy_loss", "solve_ex": "linalg_solve_ex", "to_device": "to",
    "to_dtype": "to", "true_divide": "div", "upsample_nearest-exact1d": "_upsample_nearest_exact1d",
    "upsample_nearest-exact2d": "_upsample_nearest_exact2d",
    "upsample_nearest-exact3d": "_upsample_nearest_exact3d",
}  # fmt: skip

#: without a counterpart: PyTorch has several operations in their place, or none
_OWN = frozenset({
    "all_gather", "all_reduce", "all_to_all", "attend", "attention_scores", "averaged", "axis_index",
    "broadcast_from", "circular_pad1d", "circular_pad2d", "circular_pad3d", "compared", "constrain",
    "diagonal_filled", "embedding_bag_of_rows", "embedding_bag_parts", "flat_nonzero", "from_microbatches",
    "gaussian_nll_loss", "group_moments", "histogram_edges", "lerped", "limited", "linear_cross_entropy",
    "local_response_norm", "lp_pool1d", "lp_pool2d", "lp_pool3d", "lstm_gates", "lstm_layer", "lstm_output",
    "lstm_state", "lstsq_rank", "lu_permutation", "max_unpool1d", "mean_and_rstd",
    "multilabel_soft_margin_loss", "nll_loss_smoothed",
    "part", "power_method", "recurrent_layer", "reduce_scatter", "reflect_pad1d", "reflect_pad2d",
    "reflect_pad3d", "repeat_by", "repeat_indices", "replicate_pad1d", "replicate_pad2d", "replicate_pad3d",
    "ring_attention", "rows", "scaled_to_norm", "softsign", "split_part", "split_sizes_part", "tanhshrink",
    "to_microbatches", "total_norm", "unbind_part", "unit_vectors", "unravel_index", "view_dtype",
})  # fmt: skip

_SPACES = ("linalg", "special", "fft")


def aten(spec: Any, args: Sequence[Any]) -> str:
    """The name of an operation with these arguments: ``aten::linear``; ``functorch_port::`` where PyTorch has none."""
    name = spec.name.removeprefix("_")
    if name == "basic_index":
        return f"aten::{_indexing(args[2])}"
    if name in _NAMES:
        return f"aten::{_NAMES[name]}"
    if name in _OWN:
        return f"functorch_port::{name}"
    space = next((s for s in _SPACES if s in spec.where and "torch" not in spec.where), None)
    return f"aten::{space}_{name}" if space and not name.startswith(space) else f"aten::{name}"


#: of the parts of an index (see `ops.getitem.basic_index`). PyTorch has an operation for each part, here is one for all
_INDEXING = {"i": "select", "s": "slice", "n": "unsqueeze"}


def _indexing(spec: Sequence[Any]) -> str:
    kinds = {part[0] for part in spec}
    return next((name for kind, name in _INDEXING.items() if kind in kinds), "alias")
