"""The built-in configurations of every optimizer, under PyTorch's argument names."""

from __future__ import annotations

from typing import Any, NamedTuple

import functorch_port.optim as optim

__all__ = ["DIMENSIONS", "GRIDS", "ROUNDING", "Rounding", "configurations", "names"]

_DECAY, _UPHILL = {"weight_decay": 0.1}, {"maximize": True}

#: optimizer -> configurations; others are tried with their defaults
GRIDS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {"lr": 0.02},
        {"lr": 0.02, "momentum": 0.9},
        {"lr": 0.02, "momentum": 0.9, "nesterov": True},
        {"lr": 0.02, "momentum": 0.9, "dampening": 0.5},
        {"lr": 0.02, "momentum": 0.9, **_DECAY},
        {"lr": 1e-3, **_UPHILL, **_DECAY},
    ],
    "Adam": [
        {"lr": 0.02},
        {"lr": 0.02, "betas": (0.5, 0.9), "eps": 1e-4},
        {"lr": 0.02, **_DECAY},
        {"lr": 0.02, "amsgrad": True},
        {"lr": 0.02, **_UPHILL, **_DECAY},
    ],
    "AdamW": [
        {"lr": 0.02},
        {"lr": 0.02, **_DECAY},
        {"lr": 0.02, "amsgrad": True},
        {"lr": 0.02, **_UPHILL},
    ],
    "Adamax": [
        {"lr": 0.02},
        {"lr": 0.02, **_DECAY},
        {"lr": 0.02, "betas": (0.5, 0.9)},
        {"lr": 0.02, **_UPHILL},
    ],
    "NAdam": [
        {"lr": 0.02},
        {"lr": 0.02, **_DECAY},
        {"lr": 0.02, "decoupled_weight_decay": True, **_DECAY},
        {"lr": 0.02, "momentum_decay": 0.01},
        {"lr": 0.02, **_UPHILL},
    ],
    "RAdam": [
        {"lr": 0.02},
        {"lr": 0.02, **_DECAY},
        {"lr": 0.02, "decoupled_weight_decay": True, **_DECAY},
        {"lr": 0.02, "betas": (0.5, 0.9)},
        {"lr": 0.02, **_UPHILL},
    ],
    "Adagrad": [
        {"lr": 0.1},
        {"lr": 0.1, "lr_decay": 0.1},
        {"lr": 0.1, "initial_accumulator_value": 0.1},
        {"lr": 0.1, **_DECAY},
        {"lr": 0.1, **_UPHILL},
    ],
    "Adadelta": [{"lr": 1.0}, {"lr": 0.5, "rho": 0.5}, {"lr": 1.0, **_DECAY}, {"lr": 0.1, **_UPHILL}],
    "RMSprop": [
        {"lr": 0.02},
        {"lr": 0.02, "alpha": 0.9, "eps": 1e-4},
        {"lr": 0.01, "momentum": 0.9},
        {"lr": 0.01, "centered": True},
        {"lr": 0.02, **_DECAY},
        {"lr": 1e-3, **_UPHILL},
    ],
    "Rprop": [{"lr": 0.01}, {"lr": 0.01, "etas": (0.6, 1.1)}, {"lr": 0.01, "step_sizes": (1e-4, 0.1)}],
    "ASGD": [
        {"lr": 0.02},
        {"lr": 0.02, "t0": 10, "lambd": 0.01},
        {"lr": 0.02, **_DECAY},
        {"lr": 1e-3, **_UPHILL},
    ],
    "SparseAdam": [{"lr": 0.02}, {"lr": 0.02, "betas": (0.5, 0.9)}, {"lr": 0.02, **_UPHILL}],
    "Adafactor": [
        {"lr": 0.02},
        {"lr": 0.5},
        {"lr": 0.02, **_DECAY},
        {"lr": 0.02, "beta2_decay": -0.5, "eps": (1e-16, 1e-2), "d": 2.0},
        {"lr": 0.02, **_UPHILL},
    ],
    "Muon": [
        {"lr": 0.02},
        {"lr": 0.02, "weight_decay": 0.0},
        {"lr": 0.02, "nesterov": False, "momentum": 0.8},
        {"lr": 0.02, "adjust_lr_fn": "match_rms_adamw"},
    ],
    "LBFGS": [
        {"lr": 0.5, "max_iter": 3},
        {"lr": 0.5, "max_iter": 3, "history_size": 20},
        {"lr": 1.0, "max_iter": 3, "line_search_fn": "strong_wolfe"},
    ],
}


class Rounding(NamedTuple):
    """A larger limit for an optimizer that amplifies rounding errors although its formulas agree.

    Attributes:
        first_ulps: the limit in the first step.
        dtypes: the dtypes in which the whole run may exceed the tolerance.
        reason: the reason, for the report.
    """

    first_ulps: float
    dtypes: tuple[str, ...]
    reason: str


_BELOW_FLOAT64 = ("float32", "bfloat16", "float16")

#: optimizers that amplify rounding errors
ROUNDING: dict[str, Rounding] = {
    "LBFGS": Rounding(
        1e3,
        ("float64", *_BELOW_FLOAT64),
        "a step is up to max_iter iterations, and each magnifies the rounding of its scalar products, which PyTorch "
        "and XLA add up in another order",
    ),
    "Adafactor": Rounding(16, (), "its factors are means over rows and columns, added up in another order"),
    "Rprop": Rounding(
        4,
        ("float32", "bfloat16"),
        "PyTorch steps along the sign of a gradient that is a denormal number (below 1.2e-38), XLA takes it for zero",
    ),
    "Muon": Rounding(
        4,
        ("float64", *_BELOW_FLOAT64),
        "it orthogonalizes in bfloat16, where a sum in another order may round to a neighbour 0.4 % away",
    ),
}

#: optimizers that are tried only with parameters of these numbers of dimensions
DIMENSIONS: dict[str, tuple[int, ...]] = {"Muon": (2,), "SparseAdam": (1, 2)}


def names() -> list[str]:
    """The names of all optimizers, those with configurations first."""
    public = [n for n, v in vars(optim).items() if isinstance(v, type) and issubclass(v, optim.Optimizer)]
    known = [n for n in GRIDS if n in public]
    return known + sorted(set(public) - {*known, "Optimizer"})


def configurations(name: str) -> list[dict[str, Any]]:
    """The configurations of an optimizer."""
    return GRIDS.get(name, [{}])
