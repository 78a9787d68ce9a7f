"""`loss_landscape`: the loss around a model's parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._base.optional import optional
from .._tensor.creation import tensor
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor
from ..nn import Module

__all__ = ["loss_landscape"]


def loss_landscape(
    model: Module,
    loss: Callable[[], Any],
    path: Any = None,
    *,
    steps: int = 21,
    span: float = 1.0,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """The loss in a plane through a model's parameters, along two random directions.

    Each row of a direction is as long as that row of the parameter, so that pictures of different models can be
    compared (filter normalization). Parameters of fewer than two dimensions stay as they are. Call it in evaluation
    mode: in training mode batch norm changes with each call. The parameters are put back, to the bit.

    Args:
        model: the model.
        loss: gives the loss of the model as it is, on the same data each time.
        path: of a picture to draw, such as ``landscape.png``. Default: none.
        steps: positions along each direction; an odd number has the parameters themselves among them.
        span: how far the plane goes; at 1 a direction is as long as the parameters.
        seed: of the directions. PyTorch's stream of random numbers is left alone.

    Returns:
        the positions, and the losses as an array of ``(steps, steps)``: the first index is along the first direction.

    Raises:
        ValueError: there are fewer than two steps, or no parameter of two dimensions.

    Example:
        >>> import functorch_port as torch
        >>> model, x = torch.nn.Linear(3, 2), torch.ones(4, 3)
        >>> at, losses = torch.viz.loss_landscape(model, lambda: model(x).square().mean(), steps=5)
        >>> at.tolist(), losses.shape
        ([-1.0, -0.5, 0.0, 0.5, 1.0], (5, 5))

    Reference: https://arxiv.org/abs/1712.09913
    """
    params = [p for p in model.parameters() if p.dim() > 1]
    if steps < 2 or not params:
        raise ValueError(
            f"loss_landscape: {steps} steps and {len(params)} parameters of two dimensions or more"
        )
    random = np.random.default_rng(seed)
    values = [p.detach().clone() for p in params]
    first, second = ([_direction(value, random) for value in values] for _ in range(2))
    at = np.linspace(-span, span, steps)
    losses = np.empty((steps, steps))
    try:
        with no_grad():
            for i, j in np.ndindex(steps, steps):
                for param, value, a, b in zip(params, values, first, second):
                    param.copy_(value + float(at[i]) * a + float(at[j]) * b)
                losses[i, j] = float(loss())
    finally:
        with no_grad():
            for param, value in zip(params, values):
                param.copy_(value)
    if path is not None:
        _draw(at, losses, path)
    return at, losses


def _direction(value: Tensor, random: np.random.Generator) -> Tensor:
    numbers = np.asarray(value.cpu().numpy(), dtype=np.float64)
    rows = random.standard_normal(numbers.shape).reshape(len(numbers), -1)
    lengths = np.linalg.norm(numbers.reshape(len(numbers), -1), axis=1, keepdims=True)
    rows *= lengths / np.linalg.norm(rows, axis=1, keepdims=True)
    return tensor(rows.reshape(numbers.shape), dtype=value.dtype, device=value.device)


def _draw(at: Sequence[float] | np.ndarray, losses: np.ndarray, path: Any) -> None:
    figure = optional("matplotlib.figure", "functorch_port.viz", "viz", "matplotlib").Figure(
        figsize=(5, 4), layout="constrained"
    )
    axes = figure.subplots()
    shown = axes.contourf(at, at, losses.T, levels=30)
    axes.plot(0, 0, "w+")
    axes.set_xlabel("first direction")
    axes.set_ylabel("second direction")
    figure.colorbar(shown, label="loss")
    figure.savefig(path, dpi=100)
