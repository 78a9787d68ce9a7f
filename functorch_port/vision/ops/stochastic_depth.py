"""Stochastic depth: branches of a residual network that are left out at random."""

from __future__ import annotations

from ..._tensor.creation import empty
from ..._tensor.tensor import Tensor
from ...nn import Module

__all__ = ["StochasticDepth", "stochastic_depth"]


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Zeros with probability ``p``, else the input divided by ``1 - p``.

    Args:
        input: of any shape; the first dimension is that of the samples.
        p: probability of zeros.
        mode: ``"batch"`` to draw once, ``"row"`` for each sample.
        training: False gives the input itself. Default: True.

    Returns:
        A tensor of the same shape.

    Raises:
        ValueError: ``p`` is no probability; or for another ``mode``.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import stochastic_depth
        >>> stochastic_depth(torch.ones(2), 1.0, "batch")
        tensor([0., 0.])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.stochastic_depth.html
    """
    if not 0 <= p <= 1:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if not training or p == 0.0:
        return input
    stays = 1.0 - p
    shape = [input.shape[0] if mode == "row" else 1, *[1] * (input.ndim - 1)]
    noise = empty(shape, dtype=input.dtype, device=input.device).bernoulli_(stays)
    if stays > 0:
        noise.div_(stays)
    return input * noise


class StochasticDepth(Module):
    """`stochastic_depth` as a module, which does nothing in evaluation.

    Args:
        p, mode: as in `stochastic_depth`.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.StochasticDepth.html
    """

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p = p
        self.mode = mode

    def forward(self, input: Tensor) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p}, mode={self.mode})"
