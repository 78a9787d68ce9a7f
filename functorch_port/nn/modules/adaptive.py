"""Adaptive softmax, for very many classes."""

from __future__ import annotations

import itertools
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from ..._array import tracing
from ..._run.bind import function
from ..._tensor.tensor import Tensor
from .. import functional as F
from .._module import Module
from .container import ModuleList, Sequential
from .linear import Linear

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])
_where, _cat = function("where"), function("cat")


class AdaptiveLogSoftmaxWithLoss(Module):
    """Adaptive log-softmax and its loss: over frequent classes and clusters of rare ones, then within a cluster.

    Each cluster is computed for the whole batch, so that shapes do not depend on the targets.

    Args:
        in_features: size of the input's last dimension.
        n_classes: number of classes, sorted by falling frequency.
        cutoffs: the class indices at which the clusters begin.
        div_value: each cluster has this many times fewer hidden features than the one before.
        head_bias: whether the head (frequent classes and clusters) has a bias.
        device, dtype: of the parameters.

    Shape:
        input (N, in_features) or (in_features), target (N) or (), to a named tuple: `output`, the log-probabilities
        of the targets, with the target's shape, and `loss`, minus their mean.

    Raises:
        ValueError: if the cutoffs are not increasing class indices.
        RuntimeError: if a target is out of range (not checked in a compiled function), or shapes do not match.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveLogSoftmaxWithLoss.html
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = _checked(list(cutoffs), n_classes)
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i, (first, end) in enumerate(itertools.pairwise(self.cutoffs)):
            hidden = int(in_features // (div_value ** (i + 1)))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, device=device, dtype=dtype),
                    Linear(hidden, end - first, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        for layer in (self.head, *itertools.chain.from_iterable(self.tail)):
            layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        _check_shapes(input_, target_)
        batched = target_.dim() > 0
        input, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        self._check_range(target)
        head = F.log_softmax(self.head(input), dim=1)
        output = head.gather(1, self._column_in_head(target).unsqueeze(1)).squeeze(1)
        for layers, (first, end) in zip(self.tail, itertools.pairwise(self.cutoffs), strict=True):
            inside = (target >= first) & (target < end)
            column: Any = target - first
            column = column.clamp(0, end - first - 1)
            local = F.log_softmax(layers(input), dim=1).gather(1, column.unsqueeze(1)).squeeze(1)
            output = output + _where(inside, local, 0.0)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _column_in_head(self, target: Tensor) -> Tensor:
        """The class itself, or its cluster."""
        column = target.clamp(0, self.shortlist_size - 1)
        for i, first in enumerate(self.cutoffs[:-1]):
            column = _where(target >= first, self.shortlist_size + i, column)
        return column

    def _check_range(self, target: Tensor) -> None:
        if tracing.overlay or not target.numel():
            return
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{low}, {high}] "
                "were found. "
            )

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head, short = F.log_softmax(head_output, dim=1), self.shortlist_size
        parts = [head[:, :short]]
        for i, layers in enumerate(self.tail):
            parts.append(F.log_softmax(layers(input), dim=1) + head[:, short + i].unsqueeze(1))
        return _cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes.

        Args:
            input: (N, in_features).

        Shape:
            (N, n_classes).
        """
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of every example.

        Args:
            input: (N, in_features).

        Shape:
            (N).
        """
        head_output = self.head(input)
        best = head_output.argmax(1)
        return _where(
            best >= self.shortlist_size, self._get_full_log_prob(input, head_output).argmax(1), best
        )


def _checked(cutoffs: list[int], n_classes: int) -> list[int]:
    if len(cutoffs) == 0:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    rising = cutoffs == sorted(set(cutoffs)) and all(int(c) == c for c in cutoffs)
    if not rising or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where "
            "each value is between 1 and n_classes-1"
        )
    return cutoffs


def _check_shapes(input: Tensor, target: Tensor) -> None:
    rank = target.dim()
    if rank > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if rank == 1 and input.size(0) != target.size(0):
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input.dim() != rank + 1:
        raise RuntimeError(
            f"{rank}D target tensor expects {rank + 1}D input tensors, but found inputs with size {input.size()}"
        )
