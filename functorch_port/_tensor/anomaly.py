"""Anomaly mode: say which forward operation a failing or NaN-producing backward belongs to."""

from __future__ import annotations

import traceback
import warnings
from typing import Any

import jax
import numpy as np

from .node import Node

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]

enabled = False
check_nan = True


def record(node: Node) -> None:
    """Keep the stack of the forward call on the node (called by dispatch while anomaly mode is on)."""
    node.metadata["traceback_"] = traceback.format_stack()[:-3]


def annotate(node: Node, error: Exception) -> None:
    """Warn where the operation whose backward failed was called."""
    del error
    if enabled:
        stack = (
            "".join((node._metadata or {}).get("traceback_", []))
            or "No forward pass information available.\n"
        )
        warnings.warn(
            f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{stack}",
            UserWarning,
            stacklevel=4,
        )


def check(node: Node, results: Any) -> None:
    """Raise if a backward produced NaN."""
    if not check_nan:
        return
    for i, value in enumerate(results):
        if getattr(value, "_sparse", False):
            value = value._vals
        array = getattr(value, "_value", value)
        if array is None or isinstance(array, jax.core.Tracer) or array.dtype.kind not in "fc":
            continue
        if np.isnan(np.asarray(array)).any():
            error = RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")
            annotate(node, error)
            raise error


class set_detect_anomaly:
    """Turn anomaly mode on or off, at once or as a context manager.

    Args:
        mode: True to turn it on.
        check_nan: also raise when a backward produces NaN.

    Reference: https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        global enabled
        self._previous = (enabled, globals()["check_nan"])
        enabled = mode
        globals()["check_nan"] = check_nan

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        global enabled
        enabled, globals()["check_nan"] = self._previous


class detect_anomaly(set_detect_anomaly):
    """Context manager: a backward that fails or produces NaN says which forward operation it belongs to."""

    def __init__(self, check_nan: bool = True) -> None:
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
            "enabled for debugging.",
            stacklevel=2,
        )
        super().__init__(True, check_nan)


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode also looks for NaN."""
    return check_nan
