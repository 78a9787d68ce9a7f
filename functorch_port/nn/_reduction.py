"""``torch.nn._reduction``: reductions as numbers and from deprecated arguments, for losses of other libraries."""

from __future__ import annotations

import warnings

from .functional._loss import legacy_reduction

__all__: list[str] = []


def get_enum(reduction: str) -> int:
    """The number of a reduction: 0 for "none", 1 for "mean", 2 for "sum"."""
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2
        )
        return 1
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return ("none", "mean", "sum").index(reduction)


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The reduction for the deprecated `size_average` and `reduce`; None means True."""
    with warnings.catch_warnings():
        if not emit_warning:
            warnings.simplefilter("ignore")
        return legacy_reduction(size_average is not False, reduce, "mean")


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """The number of `legacy_get_string`."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
