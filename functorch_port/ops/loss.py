"""Losses. Every op takes PyTorch's ``reduction``: "none", "mean" or "sum"."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from functorch_port._array import tracing
from functorch_port._array.refusal import outside, refuse
from functorch_port._base.config import matmul_precision
from functorch_port._base.layout import joint_order
from functorch_port._base.promotion import promote
from functorch_port._run.bind import function
from functorch_port._run.registry import Array, op
from functorch_port.ops._common import (
    broadcast_shapes,
    choose,
    compute,
    int32_if_small,
    not_implemented,
    rounded_once,
    type_name,
    wide,
)
from functorch_port.ops.arithmetic import abs_
from functorch_port.ops.distance import cosine_of_loss, pairwise_distance
from functorch_port.ops.softmax import log_softmax


def _reduce(losses: jax.Array, reduction: str) -> jax.Array:
    if reduction == "none":
        return losses
    if reduction == "sum":
        return jnp.sum(losses, dtype=wide(losses.dtype)).astype(losses.dtype)
    if reduction != "mean":
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if losses.dtype.kind not in "fcV":
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {type_name(losses)}"
        )
    return jnp.mean(losses, dtype=wide(losses.dtype)).astype(losses.dtype)


def _pointwise(kernel: str, fn: Any, input: Any, target: Any, reduction: str) -> jax.Array:
    """``fn`` of two tensors in their common dtype, elementwise, then reduced."""
    broadcast_shapes(input.shape, target.shape)
    input, target = promote(input, target)
    if kernel:
        not_implemented(kernel, input, kinds="biuc")
    losses = fn(input, target) if input.dtype.kind == "c" else compute(fn, input.dtype, input, target)
    return _reduce(losses, reduction)


def _not_below_zero(x: jax.Array) -> jax.Array:
    """``max(x, 0)`` with PyTorch's gradient for `clamp_min`: 1 at 0."""
    return jnp.where(x < 0, jnp.zeros((), x.dtype), x)


# classification by class index


def _class_dim(input: Any) -> int:
    return 1 if input.ndim > 1 else 0


def _check_targets(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, **_: Any) -> None:
    """Check that every target is a class."""
    if input.ndim:
        _refuse_targets(input.shape[_class_dim(input)], target, ignore_index)


def _refuse_targets(classes: int, target: Any, ignore_index: int) -> None:
    if target.dtype.kind in "iu":
        refuse(
            partial(_no_class, classes, ignore_index), partial(_target_error, classes, ignore_index), target
        )


def _no_class(classes: int, ignore_index: int, target: Any) -> Any:
    bad = outside(target, 0, classes)
    return bad is not False and bad & (target != ignore_index)


def _target_error(classes: int, ignore_index: int, target: Any) -> Exception:
    bad = target[_no_class(classes, ignore_index, target)][0]
    return IndexError(f"Target {bad} is out of bounds.")


def _check_nll_types(input: Any, target: Any, weight: Any) -> None:
    not_implemented("nll_loss_out_frame", input, kinds="biu")
    if target.dtype.name not in ("int64", "uint8"):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {type_name(target)}")
    classes = input.shape[_class_dim(input)]
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of "
            f"shape: {list(weight.shape)}"
        )
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(f"expected scalar type {type_name(input)} but found {type_name(weight)}")


def _check_nll_shapes(input: Any, target: Any) -> None:
    if input.ndim == 0 or (input.ndim > 1 and target.ndim == 0 and input.ndim != 2):
        raise ValueError(f"Expected 1 or more dimensions (got {input.ndim})")
    if input.ndim <= 2:
        if input.ndim == 2 and (target.ndim == 0 or input.shape[0] != target.shape[0]):
            found = target.shape[0] if target.ndim else 0
            raise ValueError(
                f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({found})."
            )
        if input.ndim == 1 and target.ndim == 1 and target.shape != (1,):
            raise ValueError(
                f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}"
            )
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        return
    if target.ndim and input.shape[0] != target.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]})."
        )
    if input.ndim == 4:
        if target.ndim != 3:
            raise RuntimeError(
                f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {target.ndim}"
            )
        if input.shape[2:] != target.shape[1:]:
            raise RuntimeError(
                f"size mismatch (got input: {list(input.shape)} , target: {list(target.shape)}"
            )
        return
    expected = [input.shape[0], *input.shape[2:]]
    if list(target.shape) != expected:
        raise RuntimeError(f"Expected target size {expected}, got {list(target.shape)}")


@jax.custom_jvp
def _pick(x: jax.Array, index: jax.Array) -> jax.Array:
    """Element ``index`` along the class dimension; its gradient is one fused comparison, not a scatter."""
    dim = _class_dim(x)
    index = int32_if_small(index, x.shape[dim])
    return jnp.take_along_axis(x, jnp.expand_dims(index, dim), dim, mode="clip").squeeze(dim)


@_pick.defjvp
def _pick_jvp(primals: Any, tangents: Any) -> Any:
    x, index = primals
    dim = _class_dim(x)
    classes = lax.broadcasted_iota(index.dtype, x.shape, dim)
    hit = jnp.expand_dims(index, dim) == classes
    return _pick(x, index), jnp.sum(choose(hit, tangents[0], 0), dim)


def _is_unchecked() -> bool:
    """Whether this is traced for a program without checks of values."""
    return bool(tracing.overlay) and tracing.overlay.checks is None


def _narrow(target: Any, ignore_index: int) -> Any:
    """The targets as int32, which is faster on accelerators."""
    if not -(2**31) <= ignore_index < 2**31:
        return target
    if _is_unchecked():  # so that what is not a class does not become one
        target = jnp.clip(target, -(2**31), 2**31 - 1) if target.dtype == np.int64 else target
    return target.astype(np.int32)


def _one_target_each(input: Any, target: Any) -> Any:
    """Make a one-element target of a single unbatched example 0-dim, as PyTorch accepts it."""
    return target.reshape(()) if input.ndim == 1 and target.ndim == 1 else target


def _class_weights(input: Any, target: Any, weight: Any, ignore_index: int) -> tuple[jax.Array, jax.Array]:
    """(the targets, with 0 for ignored ones; the weight of every example, 0 for ignored ones)."""
    counted = target != ignore_index
    safe = choose(counted, target, 0)
    if weight is None:
        return safe, counted.astype(wide(input.dtype))
    rows = weight.at[int32_if_small(safe, weight.shape[0])].get(mode="clip").astype(wide(input.dtype))
    return safe, choose(counted, rows, 0)


def _losses(scores: Any, target: Any, weights: Any) -> jax.Array:
    """The negative score of every target, times its weight.

    In a program without checks, a target that is not a class gives NaN.
    """
    losses = choose(weights != 0, -_pick(scores, target) * weights, 0)
    if not _is_unchecked():
        return losses
    return jnp.where(outside(target, 0, scores.shape[_class_dim(scores)]), jnp.nan, losses)


def _nll(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> jax.Array:
    _check_nll_shapes(input, target)
    _check_nll_types(input, target, weight)
    target = _one_target_each(input, _narrow(target, ignore_index))
    dtype = input.dtype
    x = input.astype(wide(dtype))
    safe, weights = _class_weights(x, target, weight, ignore_index)
    losses = _losses(x, safe, weights)
    if reduction == "mean":
        return (jnp.sum(losses) / jnp.sum(weights)).astype(dtype)
    return _reduce(losses, reduction).astype(dtype)


@op("_nll_loss", where="", node="NllLossBackward0", edges=("input",), check=_check_targets)
def nll_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
):
    """The negative log-probability of the target's class, for ``input`` of shape (N, C) or (C)."""
    return _nll(input, target, weight, ignore_index, reduction)


def _cross_entropy_parts(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    scores = function("log_softmax")(input, _class_dim(input), None)
    return function("_nll_loss")(scores, target, weight, ignore_index, reduction)


@op(
    "_cross_entropy",
    where="",
    node="NllLossBackward0",
    edges=("input",),
    check=_check_targets,
    parts=_cross_entropy_parts,
)
def cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
):
    """`nll_loss` of the log-softmax of logits of shape (N, C) or (C)."""
    return _nll(log_softmax(input, _class_dim(input), None), target, weight, ignore_index, reduction)


@op("_nll_loss_nd", where="", node="NllLoss2DBackward0", edges=("input",), check=_check_targets)
def nll_loss_nd(
    input: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
):
    """`nll_loss` for (N, C, d1, d2, ...)."""
    return _nll(input, target, weight, ignore_index, reduction)


def _check_linear_targets(linear_weight: Any, target: Any, ignore_index: int, **_: Any) -> None:
    _refuse_targets(linear_weight.shape[0], target, ignore_index)


@op("_linear_cross_entropy", where="", node="NllLossBackward0", edges=("input",), check=_check_linear_targets)
def linear_cross_entropy(
    input: Array,
    linear_weight: Array,
    target: Array,
    linear_bias: Array | None,
    weight: Array | None,
    ignore_index: int,
    reduction: str,
    chunk: int,
):
    """Cross entropy of ``input @ linear_weight.T + linear_bias``, ``chunk`` examples at a time.

    Only one chunk's logits exist at any time, also in the backward pass, which recomputes them.
    """
    count, features = input.shape
    _check_nll_types(jax.ShapeDtypeStruct((count, linear_weight.shape[0]), input.dtype), target, weight)
    rest = -count % chunk
    x = jnp.pad(input, [(0, rest), (0, 0)]).reshape(-1, chunk, features)
    t = jnp.pad(_narrow(target, ignore_index), (0, rest), constant_values=ignore_index).reshape(-1, chunk)

    @jax.checkpoint
    def losses(some: Any) -> tuple[jax.Array, jax.Array]:
        x, t = some
        scores = lax.dot_general(
            x,
            linear_weight,
            (((1,), (1,)), ((), ())),
            precision=matmul_precision(),
            preferred_element_type=wide(x.dtype),
        )
        scores = scores if linear_bias is None else scores + linear_bias.astype(scores.dtype)
        safe, weights = _class_weights(scores, t, weight, ignore_index)
        return _losses(log_softmax(scores, 1, None), safe, weights), weights

    each, weights = (v.reshape(-1)[:count] for v in lax.map(losses, (x, t)))
    if reduction == "mean":
        return (jnp.sum(each) / jnp.sum(weights)).astype(input.dtype)
    return _reduce(each, reduction).astype(input.dtype)


@op("_nll_loss_smoothed", where="", node="AddBackward0", edges=("input",), check=_check_targets)
def nll_loss_smoothed(
    input: Array,
    target: Array,
    weight: Array | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
):
    """Cross entropy of log-probabilities with smoothed labels: `nll_loss` mixed with the mean over all classes."""
    sharp = _nll(input, target, weight, ignore_index, reduction)
    target = _one_target_each(input, _narrow(target, ignore_index))
    dim = _class_dim(input)
    spread = -input.astype(wide(input.dtype))
    if weight is not None:
        spread = spread * weight.astype(spread.dtype).reshape(-1, *(1,) * (input.ndim - 1 - dim))
    _, weights = _class_weights(input, target, weight, ignore_index)
    smooth = jnp.where(target != ignore_index, jnp.sum(spread, dim), 0)
    if reduction == "mean":
        smooth = jnp.sum(smooth) / jnp.sum(weights)
    else:
        smooth = _reduce(smooth, reduction)
    mixed = (1 - label_smoothing) * sharp.astype(smooth.dtype) + label_smoothing / input.shape[dim] * smooth
    return mixed.astype(input.dtype)


@op("_soft_cross_entropy", where="", node="DivBackward1")
def soft_cross_entropy(
    input: Array, target: Array, weight: Array | None, reduction: str, label_smoothing: float
):
    """Cross entropy of log-probabilities with class probabilities as the target."""
    dim = _class_dim(input)
    classes = input.shape[dim]
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but got "
            f"weight tensor of shape: {list(weight.shape)}"
        )
    input, target = promote(input, target)
    dtype = input.dtype
    x, t = input.astype(wide(dtype)), target.astype(wide(dtype))
    if label_smoothing > 0:
        t = t * (1 - label_smoothing) + label_smoothing / classes
    products = x * t
    if weight is not None:
        products = products * weight.astype(x.dtype).reshape(-1, *(1,) * (input.ndim - 1 - dim))
    losses = -jnp.sum(products, dim)
    if reduction == "mean":
        return (jnp.sum(losses) / (input.size // classes if input.size else 0 * 1.0)).astype(dtype)
    return _reduce(losses, reduction).astype(dtype)


# regression


@op("_mse_loss", where="", node="MseLossBackward0", order=joint_order)
def mse_loss(input: Array, target: Array, reduction: str = "mean"):
    """``(input - target) ** 2``."""
    return _pointwise("mse_cpu", lambda x, t: (x - t) * (x - t), input, target, reduction)


@op("_l1_loss", where="", node="MeanBackward0", order=joint_order)
def l1_loss(input: Array, target: Array, reduction: str = "mean"):
    """``|input - target|``."""
    return _pointwise("", lambda x, t: abs_(x - t), input, target, reduction)


@op("_smooth_l1_loss", where="", node="SmoothL1LossBackward0", order=joint_order)
def smooth_l1_loss(input: Array, target: Array, reduction: str = "mean", beta: float = 1.0):
    """``0.5 * d**2 / beta`` where ``d = |input - target|`` is below ``beta``, else ``d - 0.5 * beta``."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")

    def fn(x: jax.Array, t: jax.Array) -> jax.Array:
        error = x - t
        size = abs_(error)
        if beta == 0:
            return size
        return jnp.where(size < beta, 0.5 * error * error / beta, size - 0.5 * beta)

    return _pointwise("smooth_l1_cpu", fn, input, target, reduction)


@op("_huber_loss", where="", node="HuberLossBackward0", order=joint_order)
def huber_loss(input: Array, target: Array, reduction: str = "mean", delta: float = 1.0):
    """``0.5 * d**2`` where ``d = |input - target|`` is below ``delta``, else ``delta * (d - 0.5 * delta)``."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")

    def fn(x: jax.Array, t: jax.Array) -> jax.Array:
        error = x - t
        size = abs_(error)
        return jnp.where(size < delta, 0.5 * error * error, delta * (size - 0.5 * delta))

    return _pointwise("huber_cpu", fn, input, target, reduction)


@op("_poisson_nll_loss", where="", node="MeanBackward0", order=joint_order)
def poisson_nll_loss(input: Array, target: Array, log_input: bool, full: bool, eps: float, reduction: str):
    """The negative log-likelihood of Poisson counts ``target``."""

    broadcast_shapes(target.shape, input.shape)

    def fn(x: jax.Array, t: jax.Array) -> jax.Array:
        loss = jnp.exp(x) - t * x if log_input else x - t * jnp.log(x + eps)
        if not full:
            return loss
        big = jnp.where(t > 1, t, jnp.ones((), t.dtype))  # Stirling's formula, for counts above 1 only
        return loss + jnp.where(t > 1, big * jnp.log(big) - big + 0.5 * jnp.log(2 * math.pi * big), 0)

    return _pointwise("", fn, input, target, reduction)


def _check_variance(input: Any, target: Any, var: Any, full: bool, eps: float, reduction: str) -> None:
    refuse(lambda var: var < 0, lambda var: ValueError("var has negative entry/entries"), var)


@op("_gaussian_nll_loss", where="", node="MeanBackward0", check=_check_variance, order=joint_order)
def gaussian_nll_loss(input: Array, target: Array, var: Array, full: bool, eps: float, reduction: str):
    """The negative log-likelihood of normal variables with variance ``var``."""
    broadcast_shapes(input.shape, target.shape)
    input, target, var = promote(input, target, var)
    # the gradient ignores the lower limit of the variance
    var = var + lax.stop_gradient(jnp.maximum(var, eps) - var)
    losses = 0.5 * (jnp.log(var) + (input - target) ** 2 / var)
    return _reduce(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


# binary classification and distributions


@jax.custom_jvp
def _binary_entropy(x: jax.Array, t: jax.Array) -> jax.Array:
    """Binary cross entropy of probabilities, with logarithms clamped to at least -100."""
    log_x, log_rest = jnp.maximum(jnp.log(x), -100), jnp.maximum(jnp.log1p(-x), -100)
    return (t - 1) * log_rest - t * log_x


@_binary_entropy.defjvp
def _binary_entropy_jvp(primals: Any, tangents: Any) -> Any:
    x, t = primals
    dx, dt = tangents
    by_x = (x - t) / jnp.maximum((1 - x) * x, 1e-12)
    return _binary_entropy(x, t), by_x * dx + (jnp.log1p(-x) - jnp.log(x)) * dt


def _check_probabilities(input: Any, target: Any, **_: Any) -> None:
    for what, value in (("input", input), ("target", target)):
        if hasattr(value, "dtype") and value.dtype.kind == "f":
            refuse(
                lambda values: ~((values >= 0) & (values <= 1)),
                lambda values, what=what: RuntimeError(f"all elements of {what} should be between 0 and 1"),
                value,
            )


@op(
    "_binary_cross_entropy",
    where="",
    node="BinaryCrossEntropyBackward0",
    check=_check_probabilities,
    order=joint_order,
)
def binary_cross_entropy(input: Array, target: Array, weight: Array | None = None, reduction: str = "mean"):
    """``-(target * log(input) + (1 - target) * log(1 - input))``."""
    if target.dtype != input.dtype:
        raise RuntimeError(f"Found dtype {type_name(target)} but expected {type_name(input)}")
    losses = compute(_binary_entropy, input.dtype, input, target)
    return _reduce(losses if weight is None else losses * weight, reduction)


@op(
    "_binary_cross_entropy_with_logits",
    where="",
    node="BinaryCrossEntropyWithLogitsBackward0",
    order=joint_order,
)
def binary_cross_entropy_with_logits(
    input: Array,
    target: Array,
    weight: Array | None = None,
    reduction: str = "mean",
    pos_weight: Array | None = None,
):
    """`binary_cross_entropy` of ``sigmoid(input)``, computed stably."""
    not_implemented("log_sigmoid_cpu", input, kinds="biuc")
    if target.dtype.kind in "biu":
        raise RuntimeError(
            f"result type {type_name(input)} can't be cast to the desired output type {type_name(target)}"
        )
    input, target = promote(input, target)
    if pos_weight is not None:
        broadcast_shapes(pos_weight.shape, target.shape)
    x, t = input.astype(wide(input.dtype)), target.astype(wide(input.dtype))
    scale = 1 if pos_weight is None else 1 + (pos_weight - 1) * t
    losses = (1 - t) * x + scale * jax.nn.softplus(-x)
    if weight is not None:
        losses = losses * weight
    return _reduce(losses.astype(input.dtype), reduction)


@op("_kl_div", where="", node="MeanBackward0", order=joint_order)
def kl_div(input: Array, target: Array, reduction: str = "mean", log_target: bool = False):
    """``target * (log(target) - input)`` for log-probabilities ``input``."""

    def fn(x: jax.Array, t: jax.Array) -> jax.Array:
        if log_target:
            return jnp.exp(t) * (t - x)
        some = jnp.where(t == 0, jnp.ones((), t.dtype), t)  # nan for what is below 0
        return t * jnp.log(some) - t * x

    if reduction == "batchmean":
        total = _pointwise("", fn, input, target, "sum")
        return total / input.shape[0] if input.ndim else total
    return _pointwise("", fn, input, target, reduction)


@op("_soft_margin_loss", where="", node="SoftMarginLossBackward0", order=joint_order)
def soft_margin_loss(input: Array, target: Array, reduction: str = "mean"):
    """``log(1 + exp(-target * input))``."""
    return _pointwise("", lambda x, t: jax.nn.softplus(-t * x), input, target, reduction)


@op("_multilabel_soft_margin_loss", where="", node="MeanBackward0")
def multilabel_soft_margin_loss(
    input: Array, target: Array, weight: Array | None = None, reduction: str = "mean"
):
    """Binary cross entropy of logits, averaged over the classes (the last dimension)."""
    losses = target * jax.nn.softplus(-input) + (1 - target) * jax.nn.softplus(input)
    losses = losses if weight is None else losses * weight
    return _reduce(jnp.sum(losses, -1) / input.shape[-1], reduction)


# margins and embeddings


@op("_hinge_embedding_loss", where="", node="MeanBackward0", order=joint_order)
def hinge_embedding_loss(input: Array, target: Array, margin: float = 1.0, reduction: str = "mean"):
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1."""

    def fn(x: jax.Array, t: jax.Array) -> jax.Array:
        zero = jnp.zeros((), x.dtype)
        return jnp.where(t == 1, zero, _not_below_zero(margin - x)) + jnp.where(t == -1, zero, x)

    return _pointwise("", fn, input, target, reduction)


@op("_cosine_embedding_loss", where="", node="MeanBackward0")
def cosine_embedding_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0.0, reduction: str = "mean"
):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1."""
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    rank = target.ndim + 1
    if input1.ndim != rank or input2.ndim != rank:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {rank}D input tensors, "
            f"but found inputs with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    cos = cosine_of_loss(input1, input2)
    zero = jnp.zeros((), cos.dtype)
    losses = jnp.where(target == 1, 1 - cos, zero) + jnp.where(
        target == -1, _not_below_zero(cos - margin), zero
    )
    return _reduce(losses, reduction)


@op("_margin_ranking_loss", where="", node="MeanBackward0", order=joint_order)
def margin_ranking_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0.0, reduction: str = "mean"
):
    """``max(0, -target * (input1 - input2) + margin)``."""
    broadcast_shapes(input1.shape, input2.shape, target.shape)
    input1, input2, target = promote(input1, input2, target)
    return _reduce(_not_below_zero(-target * (input1 - input2) + margin), reduction)


@op("_triplet_margin_loss", where="", node="MeanBackward0")
@rounded_once
def triplet_margin_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-06,
    swap: bool = False,
    reduction: str = "mean",
):
    """``max(0, |anchor - positive| - |anchor - negative| + margin)``."""
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = jnp.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduce(_not_below_zero(margin + near - far), reduction)


def _check_multi_margin(input: Any, target: Any, *_: Any, **__: Any) -> None:
    classes = input.shape[-1] if input.ndim else 1
    fits = input.ndim < 3 and classes and target.size == (input.shape[0] if input.ndim > 1 else 1)
    if fits and target.dtype == np.int64:
        refuse(
            partial(outside, low=0, high=classes), lambda target: RuntimeError("target out of range"), target
        )


def _check_classes(input: Any) -> None:
    if input.ndim > 2 or (input.ndim and not input.shape[-1]):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}"
        )


def _check_long(target: Any) -> None:
    if target.dtype != np.int64:
        raise RuntimeError(f"expected scalar type Long but found {type_name(target)}")


def _check_multi_margin_shapes(input: Any, target: Any, weight: Any) -> None:
    _check_classes(input)
    shape = list(input.shape)
    batch = shape[0] if input.ndim == 2 else 1
    if target.ndim > 1 or target.size != batch:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{batch}], but got {list(target.shape)}. Input has shape {shape}."
        )
    classes = shape[-1] if input.ndim else 1
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    _check_long(target)


@op(
    "_multi_margin_loss",
    where="",
    node="MultiMarginLossBackward0",
    edges=("input",),
    check=_check_multi_margin,
)
@rounded_once
def multi_margin_loss(
    input: Array,
    target: Array,
    p: int = 1,
    margin: float = 1.0,
    weight: Array | None = None,
    reduction: str = "mean",
):
    """The sum of ``max(0, margin - input[target] + input[other]) ** p`` over other classes / number of classes."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    _check_multi_margin_shapes(input, target, weight)
    x, t = jnp.atleast_2d(input), jnp.atleast_1d(target).astype(np.int32)
    hit = t[:, None] == jnp.arange(x.shape[1], dtype=t.dtype)
    gap = margin - _pick(x, t)[:, None] + x
    gap = jnp.where(hit | (gap <= 0), jnp.zeros((), x.dtype), gap)  # the gradient at 0 is 0
    losses = gap if p == 1 else gap * gap
    if weight is not None:
        losses = losses * weight.at[t].get(mode="clip")[:, None]
    losses = jnp.sum(losses, 1) / x.shape[1]
    if not losses.size:
        reduction = "none" if reduction == "none" else "sum"  # PyTorch's mean of nothing is 0 here
    return _reduce(losses.reshape(target.shape) if reduction == "none" else losses, reduction)


@op("_multilabel_margin_loss", where="", node="MultilabelMarginLossBackward0", edges=("input",))
def multilabel_margin_loss(input: Array, target: Array, reduction: str = "mean"):
    """The sum of ``max(0, 1 - input[wanted] + input[other])`` / number of classes; targets end at the first -1."""
    _check_classes(input)
    one_row = input.ndim < 2 and target.ndim < 2 and target.size == input.size
    if not one_row and (input.ndim < 2 or target.shape != input.shape):
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    _check_long(target)
    x, t = jnp.atleast_2d(input), jnp.atleast_2d(target).astype(np.int32)
    classes = jnp.arange(x.shape[1], dtype=t.dtype)
    listed = lax.cummax((t < 0).astype(np.int8), 1) == 0  # (N, C): before the end of the row's list
    wanted = jnp.any(listed[:, :, None] & (t[:, :, None] == classes), 1)  # (N, C)
    rows = jnp.take_along_axis(x, jnp.where(listed, t, 0), 1, mode="clip")  # (N, C): the wanted scores
    gap = 1 - rows[:, :, None] + x[:, None, :]  # (N, wanted, other)
    counts = listed[:, :, None] & ~wanted[:, None, :] & (gap > 0)
    losses = jnp.sum(jnp.where(counts, gap, jnp.zeros((), x.dtype)), (1, 2)) / x.shape[1]
    return _reduce(losses.reshape(input.shape[:-1]) if reduction == "none" else losses, reduction)
