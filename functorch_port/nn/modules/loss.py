"""Losses as layers. `reduction` is "none" (one loss per element or example), "mean" or "sum"."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..._tensor.tensor import Tensor
from .. import functional as F
from ..functional._linear_loss import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from ._linear_cross_entropy import LinearCrossEntropyLoss as LinearCrossEntropyLoss
from ._loss import _Loss, _WeightedLoss
from .distance import PairwiseDistance

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]

LinearCrossEntropyOptions.__module__ = __name__  # PyTorch's, which pickles say


class L1Loss(_Loss):
    """``|input - target|``.

    Args:
        reduction: "none", "mean" (the default) or "sum".

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.L1Loss()(torch.tensor([1., 2.]), torch.tensor([1., 4.]))
        tensor(1.)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.L1Loss.html
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """``(input - target) ** 2``.

    Args:
        reduction: "none", "mean" (the default) or "sum".

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.MSELoss()(torch.tensor([1., 2.]), torch.tensor([1., 4.]))
        tensor(2.)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MSELoss.html
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """``0.5 * d ** 2 / beta`` where ``d = |input - target|`` is below `beta`, else ``d - 0.5 * beta``.

    Args:
        beta: where the loss changes from quadratic to linear.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.SmoothL1Loss.html
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """``0.5 * d ** 2`` where ``d = |input - target|`` is below `delta`, else ``delta * (d - 0.5 * delta)``.

    Args:
        delta: where the loss changes from quadratic to linear.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.HuberLoss.html
    """

    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class NLLLoss(_WeightedLoss):
    """Negative log-likelihood of the target class.

    Args:
        weight: a factor per class; "mean" divides by the sum of the targets' factors.
        ignore_index: a target that adds nothing to the loss and its gradient.
        reduction: "none", "mean" (the default) or "sum".

    Shape:
        input (N, C), (C) or (N, C, d1, ...); target the same without C.

    Raises:
        IndexError: if a target is out of range.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html
    """

    __constants__ = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """Deprecated name of `NLLLoss`."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement and see "
            "https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy between logits and class indices or class probabilities.

    Args:
        weight: a factor per class; with class indices, "mean" divides by the sum of the targets' factors.
        ignore_index: a class index that adds nothing to the loss and its gradient.
        label_smoothing: share of the target that is spread evenly over all classes.
        reduction: "none", "mean" (the default) or "sum".

    Shape:
        input (N, C), (C) or (N, C, d1, ...); target the same without C (indices), or the same (probabilities).

    Raises:
        IndexError: if a target is out of range.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.CrossEntropyLoss()(torch.tensor([[1., 2., 3.]]), torch.tensor([2]))
        tensor(0.4076)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(_WeightedLoss):
    """Binary cross entropy between probabilities and targets in [0, 1].

    Args:
        weight: factors that broadcast against the input.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.BCELoss.html
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """`BCELoss` of ``sigmoid(input)``, in a numerically stable form.

    Args:
        weight: factors that broadcast against the input.
        pos_weight: a factor per class for positive targets.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence ``KL(target || exp(input))``.

    Args:
        reduction: "none", "mean" (over all elements), "batchmean" (over the examples, the mathematical definition)
            or "sum".
        log_target: the target holds log-probabilities.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.KLDivLoss.html
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of Poisson counts.

    Args:
        log_input: the rate is ``exp(input)``, otherwise ``input``.
        full: add Stirling's approximation of the constant term.
        eps: added inside the logarithm (without `log_input`), to keep it finite.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.PoissonNLLLoss.html
    """

    __constants__ = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood of normal variables.

    Args:
        full: add the constant term.
        eps: lower bound of the variance.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.GaussianNLLLoss.html
    """

    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1.

    Args:
        margin: the margin.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.HingeEmbeddingLoss.html
    """

    __constants__ = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """``1 - cos(input1, input2)`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        margin: from -1 to 1.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineEmbeddingLoss.html
    """

    __constants__ = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """``max(0, -target * (input1 - input2) + margin)``.

    Args:
        margin: the margin.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MarginRankingLoss.html
    """

    __constants__ = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))``.

    Args:
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.SoftMarginLoss.html
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Binary cross entropy of logits, averaged over the classes.

    Args:
        weight: a factor per class.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiLabelSoftMarginLoss.html
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Sum of ``max(0, 1 - input[j] + input[i])`` over target classes j and others i, divided by C.

    The target lists the target classes of each example; a -1 ends the list.

    Args:
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiLabelMarginLoss.html
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Sum of ``max(0, margin - input[target] + input[other]) ** p`` over the other classes, divided by C.

    Args:
        p: 1 or 2.
        margin: the margin.
        weight: a factor per class.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiMarginLoss.html
    """

    __constants__ = ["p", "margin", "reduction"]

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead"
            )
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class CTCLoss(_Loss):
    """Connectionist temporal classification: the negative log-likelihood of label sequences.

    Args:
        blank: index of the blank class.
        reduction: "none", "mean" (each loss divided by its number of labels, then averaged) or "sum".
        zero_infinity: set the loss of examples with too few frames for their labels to zero.

    Shape:
        log-probabilities (T, N, C) or (T, C); targets (N, S), or all labels in one vector; lengths (N).

    Raises:
        RuntimeError: if lengths do not match the tensors.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CTCLoss.html
    """

    __constants__ = ["blank", "reduction"]

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class TripletMarginLoss(_Loss):
    """``max(0, |anchor - positive| - |anchor - negative| + margin)``.

    Args:
        margin: greater than 0.
        p: exponent of the norm.
        eps: keeps the gradient finite where vectors are equal.
        swap: use the distance from positive to negative instead, where it is the smaller one.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.TripletMarginLoss.html
    """

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a user-defined distance.

    Args:
        distance_function: maps two tensors to distances; default `PairwiseDistance`.
        margin: greater than 0.
        swap: use the distance from positive to negative instead, where it is the smaller one.
        reduction: "none", "mean" (the default) or "sum".

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.TripletMarginWithDistanceLoss.html
    """

    __constants__ = ["margin", "swap", "reduction"]

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = distance_function if distance_function is not None else PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
