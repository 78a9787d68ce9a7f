"""The convolution, as a primitive whose derivatives are primitives of the same kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad

from .._base import lowering
from ._common import LAYOUTS

__all__ = ["Convolution", "convolution_p", "convolve", "convolve_back"]

Ints = tuple[int, ...]


class Convolution(NamedTuple):
    """The static parameters of a convolution.

    Attributes:
        input, weight: the shapes (N, C, ...) and (O, C / groups, ...).
        strides, dilations: per spatial dimension.
        pads: (before, after) per spatial dimension.
        groups: the number of groups of channels.
        precision: the precision of the products, for `jax.lax`.
    """

    input: Ints
    weight: Ints
    strides: Ints
    pads: tuple[Ints, ...]
    dilations: Ints
    groups: int
    precision: Any

    @property
    def output(self) -> Ints:
        """The shape of the result, (N, O, ...)."""
        sizes = zip(self.input[2:], self.weight[2:], self.strides, self.pads, self.dilations, strict=True)
        spatial = [(n + low + high - d * (k - 1) - 1) // s + 1 for n, k, s, (low, high), d in sizes]
        return self.input[0], self.weight[0], *spatial


def convolve(x: jax.Array, w: jax.Array, how: Convolution, out: Any = None) -> jax.Array:
    """The convolution, with a result of dtype ``out``."""
    if lowering.has_way(convolution_p, x, w, how):
        return convolution_p.bind(x, w, kind="forward", how=how)
    return _forward(x, w, how, out)


def convolve_back(y: jax.Array, w: jax.Array, how: Convolution, otherwise: Callable[..., Any]) -> jax.Array:
    """The transposed convolution of ``y``; ``otherwise(y, w)`` is the best way for XLA."""
    if how.output == y.shape and lowering.has_way(convolution_p, y, w, how):
        return convolution_p.bind(y, w, kind="input", how=how)
    return otherwise(y, w)


# -------------------------------------------------------------------- by XLA


def by_xla(a: Any, b: Any, kind: str, how: Convolution) -> jax.Array:
    """The result, or the gradient of the input or the weight, by `jax.lax`."""
    forward = partial(_forward, how=how)
    if kind == "forward":
        return forward(a, b)
    if kind == "input":
        like = jax.ShapeDtypeStruct(how.input, a.dtype)
        return jax.linear_transpose(lambda x: forward(x, b), like)(a)[0]
    like = jax.ShapeDtypeStruct(how.weight, b.dtype)
    return jax.linear_transpose(lambda w: forward(a, w), like)(b)[0]


def _forward(x: Any, w: Any, how: Convolution, out: Any = None) -> jax.Array:
    options: dict[str, Any] = {
        "window_strides": how.strides,
        "padding": how.pads,
        "rhs_dilation": how.dilations,
        "feature_group_count": how.groups,
        "dimension_numbers": LAYOUTS[len(how.strides)],
        "precision": how.precision,
        "preferred_element_type": None if out == x.dtype else out,
    }

    def plain(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(x, w, **options)

    def one_more_row(x: jax.Array, w: jax.Array) -> jax.Array:
        """An unpadded convolution, computed with one extra row.

        On a CPU, XLA is faster for padded convolutions than for others, also for the weight's gradient, so there it
        pays to pad and to drop the extra row.
        """
        pads = ((0, 1), *how.pads[1:])
        y = lax.conv_general_dilated(x, w, **{**options, "padding": pads})
        return lax.slice_in_dim(y, 0, y.shape[2] - 1, axis=2)

    if not _wants_one_more_row(x, how):
        return plain(x, w)
    return lowering.by_platform(x, w, cpu=one_more_row, default=plain)


def _wants_one_more_row(x: Any, how: Convolution) -> bool:
    return (
        x.dtype == np.float32
        and len(how.input) == 4
        and how.groups == 1
        and how.strides == (1, 1)
        and how.pads == ((0, 0), (0, 0))
        and prod(how.weight[2:]) > 1
        and prod(how.weight[1:]) >= 64
    )


# -------------------------------------------------------------------- one primitive

#: Of two arrays; linear in both. ``kind`` is what `by_xla` has, and a derivative has the third kind.
convolution_p = Primitive("convolution")


@convolution_p.def_abstract_eval
def _shape(a: Any, b: Any, *, kind: str, how: Convolution) -> Any:
    shape = {"forward": how.output, "input": how.input, "weight": how.weight}[kind]
    return jax.core.ShapedArray(shape, a.dtype)


def _transposed(which: int) -> Callable[..., Any]:
    """The rule for the gradient of the first or the second array, from the other one and the result's gradient."""
    #: its kind, and whether the result's comes first
    rules: dict[str, tuple[tuple[str, bool], tuple[str, bool]]] = {
        "forward": (("input", True), ("weight", False)),
        "input": (("forward", True), ("weight", True)),
        "weight": (("input", False), ("forward", False)),
    }

    def rule(slope: Any, a: Any, b: Any, *, kind: str, how: Convolution) -> Any:
        found, first = rules[kind][which]
        other = a if which else b
        given = (slope, other) if first else (other, slope)
        return convolution_p.bind(*given, kind=found, how=how)

    return rule


ad.defbilinear(convolution_p, _transposed(0), _transposed(1))


lowering.define(convolution_p, by_xla)
