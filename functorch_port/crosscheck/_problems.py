"""Problems for the optimizers, with exact gradients by numpy in float64.

Every library gets the gradients of the same function, rounds them to its dtype and takes its step, so all differences
come from the update.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["PROBLEMS", "Missing", "Problem", "WrongUse", "found", "load"]

Arrays = dict[str, np.ndarray]


class WrongUse(ValueError):
    """A request that cannot be carried out; the command prints its message without a traceback."""


class Missing(WrongUse, ImportError):
    """A requested library is not installed."""


def found(name: str, kind: str) -> Any:
    """Import the object ``module:name``, also from a module in the current folder.

    Args:
        name: the module and the name in it.
        kind: what the object is, for the error.

    Raises:
        WrongUse: the module or the object does not exist.

    Example:
        >>> from functorch_port.crosscheck import _problems as problems
        >>> problems.found("math:gcd", "problem")(4, 6)
        2
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise WrongUse(f"{kind} {name!r}: must be of the form module:name")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        home = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # a module that it imports is missing
        raise WrongUse(f"{kind} {name!r}: no module {error.name!r} in {os.getcwd()} or installed") from None
    if not hasattr(home, attribute):
        raise WrongUse(f"{kind} {name!r}: module {module!r} ({home.__file__}) has no {attribute!r}")
    return getattr(home, attribute)


class Problem(NamedTuple):
    """A function to minimize.

    Attributes:
        start: the initial parameters, by name, in float64.
        evaluate: a function from parameters to the loss and the gradients by name.
    """

    start: Arrays
    evaluate: Callable[[Arrays], tuple[float, Arrays]]


def convex(seed: int) -> Problem:
    """A quadratic form in a matrix, a vector and a scalar, with a condition number of 100."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {"matrix": (6, 4), "vector": (5,), "scalar": ()}
    start = {k: rng.standard_normal(s) for k, s in shapes.items()}
    goal = {k: rng.standard_normal(s) for k, s in shapes.items()}
    goal["scalar"] = 3 * start["scalar"]  # the path does not cross zero, where relative errors mean little
    weight = {k: 10.0 ** rng.uniform(-1, 1, s) for k, s in shapes.items()}

    def evaluate(params: Arrays) -> tuple[float, Arrays]:
        away = {k: params[k] - goal[k] for k in params}
        loss = sum(0.5 * float(np.sum(weight[k] * away[k] ** 2)) for k in params)
        return loss, {k: weight[k] * away[k] for k in params}

    return Problem(start, evaluate)


def rosenbrock(seed: int) -> Problem:
    """Rosenbrock's function in twelve dimensions, divided by 100; it amplifies differences."""
    rng = np.random.default_rng(seed)
    start = {"x": -1.0 + 0.1 * rng.standard_normal((3, 4))}

    def evaluate(params: Arrays) -> tuple[float, Arrays]:
        x = params["x"].reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):  # when it maximizes, the values have no bound
            bend, rest = x[1:] - x[:-1] ** 2, 1 - x[:-1]
            grad = np.zeros_like(x)
            grad[:-1] = -4 * x[:-1] * bend - 0.02 * rest
            grad[1:] += 2 * bend
            return float(np.sum(bend**2 + 0.01 * rest**2)), {"x": grad.reshape(params["x"].shape)}

    return Problem(start, evaluate)


def digits(seed: int) -> Problem:
    """A small network (64-16-10, tanh, cross-entropy) on 256 of scikit-learn's handwritten digits."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise Missing(
            "--problem digits needs scikit-learn: pip install 'functorch-port[examples]'"
        ) from error
    rng = np.random.default_rng(seed)
    data = load_digits()
    pick = rng.permutation(len(data.target))[:256]
    images, labels = data.data[pick] / 16.0, data.target[pick]
    shapes = {"0.weight": (16, 64), "0.bias": (16,), "1.weight": (10, 16), "1.bias": (10,)}
    start = {k: rng.standard_normal(s) / np.sqrt(s[-1]) for k, s in shapes.items()}
    rows = np.arange(len(labels))

    def evaluate(params: Arrays) -> tuple[float, Arrays]:
        hidden = np.tanh(images @ params["0.weight"].T + params["0.bias"])  # (N, 16)
        scores = hidden @ params["1.weight"].T + params["1.bias"]  # (N, 10)
        scores -= scores.max(1, keepdims=True)
        odds = np.exp(scores)
        odds /= odds.sum(1, keepdims=True)
        loss = -float(np.mean(np.log(odds[rows, labels])))
        odds[rows, labels] -= 1
        odds /= len(labels)
        back = (odds @ params["1.weight"]) * (1 - hidden**2)  # (N, 16)
        grads = (back.T @ images, back.sum(0), odds.T @ hidden, odds.sum(0))
        return loss, dict(zip(shapes, grads, strict=True))

    return Problem(start, evaluate)


PROBLEMS: dict[str, Callable[[int], Problem]] = {"convex": convex, "rosenbrock": rosenbrock, "digits": digits}


def load(name: str | Callable[[int], Any], seed: int = 0) -> Problem:
    """Make a built-in problem or the user's own.

    Args:
        name: one of `PROBLEMS`, or ``module:function``, or a function from the seed to ``(start, evaluate)`` as in
            `Problem`.
        seed: the seed of the data and of the initial parameters.

    Raises:
        ValueError: the problem is unknown, or its function returns something else.
    """
    if not isinstance(seed, int) or seed < 0:
        raise WrongUse(f"seed must be a non-negative integer, got {seed!r}")
    if callable(name):
        return _checked(name(seed), getattr(name, "__name__", "yours"))
    if name in PROBLEMS:
        return PROBLEMS[name](seed)
    if ":" not in name:
        raise WrongUse(
            f"unknown problem {name!r}: must be one of {', '.join(PROBLEMS)}, or your own as module:function"
        )
    return _checked(found(name, "problem")(seed), name)


def _checked(given: Any, name: str) -> Problem:
    """A user's problem, checked by one evaluation."""

    def wrong(what: str) -> WrongUse:
        return WrongUse(f"problem {name}: {what}")

    if not isinstance(given, tuple) or len(given) != 2 or not callable(given[1]):
        raise wrong("it must return (start, evaluate), a dict of arrays and a function")
    start = {k: np.asarray(v, np.float64) for k, v in dict(given[0]).items()}
    if not any(v.size for v in start.values()):
        raise wrong("start has no elements")
    tried = given[1](dict(start))
    if not isinstance(tried, tuple) or len(tried) != 2:
        raise wrong("evaluate(params) must return (loss, gradients)")
    grads = {k: np.asarray(v) for k, v in dict(tried[1]).items()}
    for k, v in start.items():
        if k not in grads:
            raise wrong(f"evaluate returned no gradient for {k!r}")
        if grads[k].shape != v.shape:
            raise wrong(f"the gradient of {k!r} has shape {grads[k].shape}, but the parameter has {v.shape}")
        if not np.isfinite(v).all() or not np.isfinite(grads[k]).all():
            raise wrong(f"{k!r} or its gradient is not finite at the start")
    return Problem(start, given[1])
