"""Losses. `reduction` is "none" (one loss per element or example), "mean" or "sum"."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..._array import tracing
from ..._run import autocast
from ..._run.bind import function
from ..._tensor.creation import full_like
from ..._tensor.tensor import Tensor
from ._distance import pairwise_distance

_log_softmax, _maximum, _minimum = function("log_softmax"), function("clamp_min"), function("minimum")
_nll_loss, _nll_loss_nd, _nll_loss_smoothed = (
    function("_nll_loss"),
    function("_nll_loss_nd"),
    function("_nll_loss_smoothed"),
)
_cross_entropy, _soft_cross_entropy = function("_cross_entropy"), function("_soft_cross_entropy")
_mse, _l1, _smooth_l1, _huber = (
    function("_mse_loss"),
    function("_l1_loss"),
    function("_smooth_l1_loss"),
    function("_huber_loss"),
)
_bce, _bce_with_logits = function("_binary_cross_entropy"), function("_binary_cross_entropy_with_logits")
_kl_div, _poisson_nll, _gaussian_nll = (
    function("_kl_div"),
    function("_poisson_nll_loss"),
    function("_gaussian_nll_loss"),
)
_hinge, _cosine, _ranking = (
    function("_hinge_embedding_loss"),
    function("_cosine_embedding_loss"),
    function("_margin_ranking_loss"),
)
_triplet, _soft_margin = function("_triplet_margin_loss"), function("_soft_margin_loss")
_multi_margin, _multilabel_margin = function("_multi_margin_loss"), function("_multilabel_margin_loss")
_multilabel_soft_margin = function("_multilabel_soft_margin_loss")


def legacy_reduction(
    size_average: bool | None, reduce: bool | None, reduction: str, stacklevel: int = 3
) -> str:
    """Translate the deprecated arguments `size_average` and `reduce` to a reduction, with PyTorch's warning."""
    if size_average is None and reduce is None:
        return reduction
    average, reduced = size_average is not False, reduce is not False
    reduction = "none" if not reduced else "mean" if average else "sum"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
        stacklevel=stacklevel,
    )
    return reduction


def _check_reduction(reduction: str) -> None:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


def _warn_sizes(input: Tensor, target: Tensor) -> None:
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )


def _weighted(
    losses: Tensor, input: Tensor, weight: Tensor, reduction: str, by_weight: bool = True
) -> Tensor:
    """Elementwise losses times weights, reduced; the mean is over the sum of the weights."""
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    losses = losses * weight
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction != "mean":
        raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")
    return losses.sum() / weight.sum() if by_weight else losses.mean()


# ---------------------------------------------------------------- classification


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of the target class.

    Args:
        input: log-probabilities, (N, C), (C) or (N, C, d1, ...).
        target: class indices, (N), () or (N, d1, ...).
        weight: (C), a factor per class; the mean is over the sum of the factors.
        ignore_index: a target that adds nothing to the loss and its gradient.
        reduction: "none", "mean" or "sum".

    Raises:
        IndexError: if a target is out of range.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.nll_loss.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    chosen = _nll_loss if input.ndim <= 2 else _nll_loss_nd
    return chosen(input, target, weight, ignore_index, reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy between logits and class indices or class probabilities.

    Args:
        input: logits, (N, C), (C) or (N, C, d1, ...).
        target: class indices (the input's shape without C), or probabilities of the input's shape.
        weight: (C), a factor per class.
        ignore_index: a class index that adds nothing to the loss and its gradient.
        reduction: "none", "mean" or "sum".
        label_smoothing: share of the target that is spread evenly over all classes.

    Raises:
        IndexError: if a target is out of range.

    Example:
        >>> import functorch_port as torch
        >>> scores = torch.tensor([[1., 2., 3.]])
        >>> torch.nn.functional.cross_entropy(scores, torch.tensor([2]))
        tensor(0.4076)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    if not isinstance(target, Tensor):
        raise TypeError(
            f"cross_entropy_loss(): argument 'target' (position 2) must be Tensor, not {type(target).__name__}"
        )
    ndim = input.ndim
    soft = target.ndim == ndim and target.shape == input.shape
    if soft and not target.is_floating_point():
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {target.dtype.scalar_name}"
        )
    if soft and ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    if ndim <= 2 and not soft and not label_smoothing and not tracing.overlay:
        return _cross_entropy(input, target, weight, ignore_index, reduction)
    if autocast.enabled:  # one operation in PyTorch: the softmax too runs in float32
        (input,), _ = autocast.cast_inputs("cross_entropy", (input,), {})
    log_probabilities = _log_softmax(input, 1 if ndim > 1 else 0, None)
    if soft:
        return _soft_cross_entropy(log_probabilities, target, weight, reduction, float(label_smoothing))
    if label_smoothing > 0:
        return _nll_loss_smoothed(
            log_probabilities, target, weight, ignore_index, reduction, float(label_smoothing)
        )
    chosen = _nll_loss if ndim <= 2 else _nll_loss_nd
    return chosen(log_probabilities, target, weight, ignore_index, reduction)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy between probabilities and targets in [0, 1].

    Args:
        input: probabilities.
        target: same size as the input.
        weight: factors that broadcast against the input.
        reduction: "none", "mean" or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.binary_cross_entropy.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}) is deprecated. "
            "Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand(target.size())
    return _bce(input, target, weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of ``sigmoid(input)``.

    Args:
        input: logits.
        target: in [0, 1], same size as the input.
        weight: factors that broadcast against the input.
        reduction: "none", "mean" or "sum".
        pos_weight: a factor per class for positive targets.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.binary_cross_entropy_with_logits.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    return _bce_with_logits(input, target, weight, reduction, pos_weight)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Kullback-Leibler divergence ``KL(target || exp(input))``.

    Args:
        input: log-probabilities.
        target: probabilities, or log-probabilities with ``log_target``.
        reduction: "none", "mean" (over all elements), "batchmean" (over the examples, the mathematical definition)
            or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.kl_div.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction != "batchmean":
        _check_reduction(reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
            stacklevel=2,
        )
    return _kl_div(input, target, reduction, log_target)


# ---------------------------------------------------------------- regression


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``(input - target) ** 2``.

    Args:
        input, target: tensors of the same size (other sizes broadcast, with a warning).
        reduction: "none", "mean" or "sum".
        weight: a factor per element.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.mse_loss.html
    """
    _warn_sizes(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    if weight is not None:
        return _weighted(_mse(input, target, "none"), input, weight, reduction)
    return _mse(input, target, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``|input - target|``.

    Args:
        input, target: tensors of the same size (other sizes broadcast, with a warning).
        reduction: "none", "mean" or "sum".
        weight: a factor per element.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.l1_loss.html
    """
    _warn_sizes(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    if weight is not None:
        return _weighted(_l1(input, target, "none"), input, weight, reduction)
    return _l1(input, target, reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """``0.5 * d ** 2 / beta`` where ``d = |input - target|`` is below ``beta``, else ``d - 0.5 * beta``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.smooth_l1_loss.html
    """
    _warn_sizes(input, target)
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _smooth_l1(input, target, reduction, float(beta))


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """``0.5 * d ** 2`` where ``d = |input - target|`` is below ``delta``, else ``delta * (d - 0.5 * delta)``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.huber_loss.html
    """
    _warn_sizes(input, target)
    if weight is not None:
        return _weighted(
            _huber(input, target, "none", float(delta)), input, weight, reduction, by_weight=False
        )
    _check_reduction(reduction)
    return _huber(input, target, reduction, float(delta))


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of Poisson counts with rate ``exp(input)``, or ``input`` without ``log_input``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.poisson_nll_loss.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    return _poisson_nll(input, target, log_input, full, float(eps), reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Negative log-likelihood of normal variables with mean ``input`` and variance ``var``.

    Raises:
        ValueError: if the shape of ``var`` does not match the input, or ``var`` has a negative entry.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gaussian_nll_loss.html
    """
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = full_like(input, var)
    size = input.size()
    if var.size() != size:
        if size[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif var.dim() != len(size) or sum(v for s, v in zip(size, var.size(), strict=True) if s != v) != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    return _gaussian_nll(input, target, var, full, float(eps), reduction)


# ---------------------------------------------------------------- margins and embeddings


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.hinge_embedding_loss.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _hinge(input, target, float(margin), reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos(input1, input2)`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cosine_embedding_loss.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _cosine(input1, input2, target, float(margin), reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, -target * (input1 - input2) + margin)``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.margin_ranking_loss.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _ranking(input1, input2, target, float(margin), reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, |anchor - positive| - |anchor - negative| + margin)``.

    Args:
        anchor, positive, negative: (N, D) or (D).
        p: exponent of the norm.
        swap: use the distance from positive to negative instead, where it is the smaller one.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.triplet_margin_loss.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _triplet(anchor, positive, negative, float(margin), float(p), float(eps), swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a user-defined distance.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.triplet_margin_with_distance_loss.html
    """
    _check_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _minimum(far, distance(positive, negative))
    losses = _maximum(margin + near - far, 0)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-target * input))``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.soft_margin_loss.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _soft_margin(input, target, reduction)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Sum of ``max(0, margin - input[target] + input[other]) ** p`` over the other classes, divided by C.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.multi_margin_loss.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return _multi_margin(input, target, int(p), float(margin), weight, reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Sum of ``max(0, 1 - input[j] + input[i])`` over target classes j and others i, divided by C.

    The target lists the target classes of each example; a -1 ends the list.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.multilabel_margin_loss.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    return _multilabel_margin(input, target, reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy of logits, averaged over the classes (the last dimension).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.multilabel_soft_margin_loss.html
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    return _multilabel_soft_margin(input, target, weight, reduction)
