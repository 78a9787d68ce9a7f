"""Runs one program, written once for any library with PyTorch's names, on torch and on this package."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import functorch_port as ft


def outcome(program: Callable[..., Any], *args: Any) -> tuple[Any, Any, list[tuple[str, str]]]:
    """What a program returned, what it raised as (type, text), and its warnings as (category, text)."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result, error = None, None
        try:
            result = program(*args)
        except Exception as e:
            error = (type(e).__name__, str(e))
    return result, error, [(w.category.__name__, str(w.message)) for w in seen]


def same_outcome(program: Callable[[Any], Any]) -> None:
    """``program(T)`` returns equal plain values, or raises and warns alike."""
    theirs, ours = outcome(program, torch), outcome(program, ft)
    assert theirs == ours, f"\ntorch: {theirs}\nours:  {ours}"


def plain(value: Any) -> Any:
    """Tensors as (dtype, nested lists), inside dicts and lists too, so that results can be compared with ``==``."""
    if isinstance(value, (torch.Tensor, ft.Tensor)):
        return str(value.dtype), value.detach().tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def to_torch(value: Any) -> Any:
    """A state_dict of ours with torch tensors, through numpy."""
    return _convert(value, ft.Tensor, lambda t: torch.from_numpy(np.array(t.detach())))


def to_ours(value: Any) -> Any:
    """A state_dict of torch with our tensors, through numpy."""
    return _convert(value, torch.Tensor, lambda t: ft.tensor(t.detach().numpy()))


def _convert(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {k: _convert(v, kind, change) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_convert(v, kind, change) for v in value)
    return value


def distance(theirs: list[np.ndarray], ours: list[np.ndarray], scale: float = 1e-30) -> float:
    """Largest difference, relative to the largest value of each array, or to ``scale`` if that is larger."""
    worst = 0.0
    for a, b in zip(theirs, ours, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        worst = max(worst, float(np.max(np.abs(a - b)) / max(np.max(np.abs(a)), scale)))
    return worst


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Normal numbers; complex ones have both parts drawn."""
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return np.asarray(values, dtype)


def trajectory(
    T: Any, name: str, options: dict[str, Any], dtype: str, steps: int, shapes: Any
) -> tuple[list[np.ndarray], Any]:
    """Parameters after each step with given gradients, some of which are missing, and the optimizer."""
    rng = np.random.default_rng(0)
    params = [T.nn.Parameter(T.tensor(draw(rng, s, dtype))) for s in shapes]
    optimizer = getattr(T.optim, name)(params, **options)
    values = []
    for i in range(steps):
        for p in params:
            p.grad = T.tensor(draw(rng, tuple(p.shape), dtype))
        if i in (3, 4):
            params[1].grad = None  # from here on it is two steps behind
        optimizer.step()
        values += [p.detach().numpy().copy() for p in params]
    return values, optimizer
