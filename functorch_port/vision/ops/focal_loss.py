"""The focal loss."""

from __future__ import annotations

from ..._tensor.tensor import Tensor
from ...nn import functional as F
from ._utils import reduced

__all__ = ["sigmoid_focal_loss"]


def sigmoid_focal_loss(
    inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2, reduction: str = "none"
) -> Tensor:
    """Binary cross entropy of logits, in which what is known well already counts less.

    Args:
        inputs: logits.
        targets: 0 or 1 for each.
        alpha: the weight of targets that are 1, and 1 less it of the others; -1 for none. Default: 0.25.
        gamma: the power of the error that is the weight. Default: 2.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``. Default: ``"none"``.

    Returns:
        The loss of each, or their mean or sum.

    Raises:
        ValueError: ``alpha`` is neither in [0, 1] nor -1; or for another ``reduction``.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import sigmoid_focal_loss
        >>> sigmoid_focal_loss(torch.zeros(2), torch.tensor([0.0, 1.0]))
        tensor([0.1300, 0.0433])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.sigmoid_focal_loss.html
    """
    if not 0 <= alpha <= 1 and alpha != -1:
        raise ValueError(f"Invalid alpha value: {alpha}. alpha must be in the range [0,1] or -1 for ignore.")
    p = inputs.sigmoid()
    right = p * targets + (1 - p) * (1 - targets)
    loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none") * ((1 - right) ** gamma)
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    if reduction == "mean":
        return loss.mean()
    return reduced(loss, reduction)
