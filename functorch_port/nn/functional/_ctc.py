"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._array import tracing
from ..._base import dtypes
from ..._run.bind import function
from ..._tensor.creation import tensor
from ..._tensor.tensor import Tensor

_ctc_loss = function("_ctc_loss")


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification: the negative log-likelihood of label sequences.

    Args:
        log_probs: (T, N, C), or (T, C) with lengths given as tensors; the output of `log_softmax`.
        targets: (N, S) labels, or the labels of all examples concatenated in one vector.
        input_lengths: number of frames of every example.
        target_lengths: number of labels of every example.
        blank: index of the blank class.
        reduction: "none", "mean" (each loss divided by its number of labels, then averaged) or "sum".
        zero_infinity: set the loss of examples with too few frames for their labels to zero.

    Raises:
        RuntimeError: if lengths do not match the tensors.

    Note:
        As in PyTorch, the gradient is correct for the input of `log_softmax`, not for arbitrary ``log_probs``.

    Example:
        >>> import functorch_port as torch
        >>> frames = torch.zeros(2, 1, 2).log_softmax(2)  # two frames, one example, blank and one label
        >>> torch.nn.functional.ctc_loss(frames, torch.tensor([[1]]), [2], [1])
        tensor(0.2877)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.ctc_loss.html
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    pair = input_lengths, target_lengths
    listed = [isinstance(v, (list, tuple)) for v in pair]
    if not all(listed) and not all(isinstance(v, Tensor) for v in pair):
        kinds = ", ".join(type(v).__name__ for v in (log_probs, targets, *pair))
        raise TypeError(
            f"ctc_loss() received an invalid combination of arguments - got ({kinds}, int, int, bool)"
        )
    frames: Any
    labels: Any
    frames, labels = (tensor(v, dtype=dtypes.int64) if isinstance(v, (list, tuple)) else v for v in pair)
    if log_probs.dim() == 2 and not listed[0]:
        log_probs, frames, labels = log_probs.unsqueeze(1), frames.reshape(-1), labels.reshape(-1)
        longest = _longest(targets, labels)
        out = _ctc_loss(log_probs, targets, frames, labels, blank, reduction, zero_infinity, longest)
        return out.squeeze(0) if reduction == "none" else out
    if log_probs.dim() != 3:
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {log_probs.dim()}-dimensional tensor for argument #1 'log_probs' "
            "(while checking arguments for ctc_loss_allocate_outputs)"
        )
    return _ctc_loss(
        log_probs, targets, frames, labels, blank, reduction, zero_infinity, _longest(targets, target_lengths)
    )


def _longest(targets: Tensor, lengths: Any) -> int:
    """An upper bound on the number of labels, rounded up so that batches share one compiled program."""
    if targets.dim() != 1:
        return targets.shape[-1] if targets.dim() else 0
    if isinstance(lengths, Tensor):
        if tracing.overlay or not lengths.numel():
            return targets.shape[0]
        lengths = np.asarray(lengths._look())
    most = max((int(v) for v in lengths), default=0)
    return -(-most // 8) * 8
