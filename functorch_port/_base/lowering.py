"""Primitives of our own that programs for a CPU compute in another way than XLA would."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from . import settings

__all__ = ["define"]


def define(
    primitive: Primitive, by_xla: Callable[..., Any], on_cpu: Callable[..., Any], each: bool = False
) -> None:
    """Say how a primitive is computed: by XLA, also under `jax.vmap`, but in a program for a CPU as ``on_cpu`` says.

    Args:
        primitive: with `multiple_results` and `def_abstract_eval` as they are to be.
        by_xla: of its arrays and parameters: its value, a list if there are several.
        on_cpu: of the avals of the arrays and of the results, and of the parameters: a lowering rule of the arrays, or
            None where XLA computes it there too.
        each: write each operation of the primitive into the program by itself: its rule may look at what makes its
            arrays. Otherwise JAX writes equal ones once.
    """
    many = primitive.multiple_results
    lower = mlir.lower_fun(by_xla, multiple_results=many)

    def lower_on_cpu(context: Any, *arrays: Any, **how: Any) -> Any:
        rule = on_cpu(context.avals_in, context.avals_out, **how)
        return lower(context, *arrays, **how) if rule is None else rule(context, *arrays)

    def batched(arrays: Any, axes: Any, **how: Any) -> Any:
        made = jax.vmap(partial(by_xla, **how), axes)(*arrays)
        return made, [0] * len(made) if many else 0

    primitive.def_impl(by_xla)  # by itself: under `jax.disable_jit`
    batching.primitive_batchers[primitive] = batched
    mlir.register_lowering(primitive, lower)
    if not settings.PLAIN:
        mlir.register_lowering(primitive, lower_on_cpu, platform="cpu", cacheable=not each)
