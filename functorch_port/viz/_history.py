"""`plot_history`: how numbers change during training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._base.optional import optional

__all__ = ["plot_history"]


def plot_history(history: Mapping[str, Sequence[Any]], path: Any, *, log: bool = False) -> None:
    """Draw curves, such as losses by step.

    A name like ``train/loss`` belongs to the panel ``loss`` with the curve ``train``; other names have panels of their
    own.

    Args:
        history: by name the numbers, or pairs of a step and a number.
        path: of the picture; its ending says the format, as ``.png`` or ``.svg``.
        log: whether the vertical axes are logarithmic.

    Raises:
        ValueError: there is nothing to draw.

    Example:
        >>> import functorch_port as torch
        >>> history = {"train/loss": [1.0, 0.5], "test/loss": [(0, 1.1), (1, 0.7)]}
        >>> torch.viz.plot_history(history, "history.png")  # doctest: +SKIP
    """
    if not history or not any(len(values) for values in history.values()):
        raise ValueError("plot_history: there is nothing in the history")
    panels: dict[str, dict[str, Sequence[Any]]] = {}
    for name, values in history.items():
        curve, _, panel = name.rpartition("/")
        panels.setdefault(panel, {})[curve or name] = values
    figure = optional("matplotlib.figure", "functorch_port.viz", "viz", "matplotlib").Figure(
        figsize=(5 * len(panels), 3.5), layout="constrained"
    )
    for axes, (title, curves) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items()):
        for name, values in curves.items():
            pairs = [v if isinstance(v, tuple) else (i, v) for i, v in enumerate(values)]
            axes.plot([float(step) for step, _ in pairs], [float(v) for _, v in pairs], label=name)
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.set_yscale("log" if log else "linear")
        axes.legend()
    figure.savefig(path, dpi=100)
