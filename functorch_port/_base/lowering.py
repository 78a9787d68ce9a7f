"""What a platform may do in a way of its own: primitives, and what becomes of a whole program.

A primitive is one formula of JAX's operations, for which a platform may have a faster way.

An operation that is such a primitive says so with `define`. What a platform has of its own is told by `register`, which
no operation knows of. `has_way` says whether it is worth binding the primitive: without a faster way the formula itself
is better, as XLA and JAX's transforms see through it. `function_of` and `compiler_options` are for who makes a program,
and knows no platform either.

Reference: https://docs.jax.dev/en/latest/jax-primitives.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
from jax.interpreters import batching, mlir

from .modes import OfThread

if TYPE_CHECKING:  # it takes 20 ms to import
    from jax.extend.core import ClosedJaxpr, Jaxpr, Primitive

__all__ = [
    "AtOnce", "Passes", "at_first_use", "at_once", "by_platform", "compiler_options", "define", "for_numpy",
    "for_xla", "formula_of", "function_of", "has_way", "ready", "register", "register_at_once", "register_passes",
]  # fmt: skip

_formulas: dict[Primitive, Callable[..., Any]] = {}
_suits: dict[Primitive, Callable[..., bool]] = {}
_waiting: list[Callable[[], None]] = []


def at_first_use(install: Callable[[], None]) -> None:
    """Have a function called, which registers what a platform has, when that is first asked for."""
    _waiting.append(install)


def ready() -> None:
    """Have registered what a platform has."""
    for install in _waiting:
        install()
    _waiting.clear()  # not before: what an interrupt has cut off is done again


def define(primitive: Primitive, formula: Callable[..., Any]) -> None:
    """Say what a primitive computes: by itself, in a program for any platform, and under `jax.vmap`.

    Args:
        primitive: with `multiple_results` and `def_abstract_eval` as they are to be.
        formula: of its arrays and parameters: its value, a list if there are several.
    """
    many = primitive.multiple_results

    def batched(arrays: Any, axes: Any, **how: Any) -> Any:
        made = jax.vmap(partial(formula, **how), axes)(*arrays)
        return made, [0] * len(made) if many else 0

    _formulas[primitive] = formula
    primitive.def_impl(formula)
    batching.primitive_batchers[primitive] = batched
    mlir.register_lowering(primitive, mlir.lower_fun(formula, multiple_results=many))


def register(
    primitive: Primitive,
    platform: str,
    rule: Callable[..., Any],
    suits: Callable[..., bool],
    each: bool = False,
) -> None:
    """Say how a platform computes a primitive in a way of its own.

    Args:
        primitive: one that was defined.
        platform: its name, as JAX has it.
        rule: of the avals of the arrays and of the results, and of the parameters: a lowering rule of the arrays, or
            None where the formula is computed there too.
        suits: of the arguments of `has_way`.
        each: write each operation of the primitive into the program by itself: its rule may look at what makes its
            arrays. Otherwise JAX writes equal ones once.
    """
    lower = mlir.lower_fun(_formulas[primitive], multiple_results=primitive.multiple_results)

    def lowered(context: Any, *arrays: Any, **how: Any) -> Any:
        chosen = rule(context.avals_in, context.avals_out, **how)
        return lower(context, *arrays, **how) if chosen is None else chosen(context, *arrays)

    _suits[primitive] = suits
    mlir.register_lowering(primitive, lowered, platform=platform, cacheable=not each)


class AtOnce(NamedTuple):
    """What computes a primitive at once, on numpy arrays of any sizes.

    Attributes:
        way: ``(arrays, **params)`` to an array, or a tuple of several.
        suits: of the arguments of `has_way`, in which sizes may be symbols.
        time: microseconds that a call takes at least.
    """

    way: Callable[..., Any]
    suits: Callable[..., bool]
    time: float


def register_at_once(primitive: Primitive, how: AtOnce) -> None:
    """Say how a primitive is computed at once."""
    _at_once[primitive] = how
    _suits_at_once[primitive] = how.suits


def at_once(primitive: Primitive) -> AtOnce | None:
    """What `register_at_once` was told, or None."""
    return _at_once.get(primitive)


_at_once: dict[Primitive, AtOnce] = {}
_suits_at_once: dict[Primitive, Callable[..., bool]] = {}


class _Tracing(OfThread):
    """
    Attributes:
        suits: by primitive whether it is bound in what the calling thread traces.
    """

    suits: dict[Primitive, Callable[..., bool]] = _suits


_tracing = _Tracing()


@contextmanager
def _suiting(suits: dict[Primitive, Callable[..., bool]]) -> Iterator[None]:
    before, _tracing.suits = _tracing.suits, suits
    try:
        yield
    finally:
        _tracing.suits = before


def for_numpy() -> AbstractContextManager[None]:
    """Have the calling thread trace what runs on numpy arrays, and is no program of XLA."""
    return _suiting(_suits_at_once)


def for_xla() -> AbstractContextManager[None]:
    """The reverse, for a user's function: what it jits JAX keeps, and takes for programs of XLA."""
    return _suiting(_suits)


def by_platform(*arrays: Any, default: Callable[..., Any], **ways: Callable[..., Any]) -> Any:
    """`jax.lax.platform_dependent`; what is traced for numpy has the way of a CPU alone."""
    if _tracing.suits is _suits_at_once:
        return ways.get("cpu", default)(*arrays)
    return jax.lax.platform_dependent(*arrays, default=default, **ways)


def has_way(primitive: Primitive, *arguments: Any) -> bool:
    """Whether a platform has a way of its own for such arguments, in what is being traced.

    No program of a platform is for sizes that are not known.
    """
    if _tracing.suits is _suits and any(
        type(n) is not int for a in arguments for n in getattr(a, "shape", ())
    ):
        return False
    ready()
    suits = _tracing.suits.get(primitive)
    return suits is not None and suits(*arguments)


def formula_of(primitive: Primitive) -> Callable[..., Any] | None:
    """What a primitive that was defined here computes, for who has another use of it; None for one of JAX's own."""
    return _formulas.get(primitive)


# ------------------------------------------------------------------ whole programs


class Passes(NamedTuple):
    """What a platform does with a whole program.

    Attributes:
        function: of a jaxpr: what takes the place of `jax.extend.core.jaxpr_as_fun`, or None.
        options: of a jaxpr, and of whether the program has run often: what `jax.jit` gets as ``compiler_options``, or
            None.
    """

    function: Callable[[Jaxpr], Callable[[ClosedJaxpr], Callable[..., Any]] | None]
    options: Callable[[Jaxpr, bool], dict[str, Any] | None]


_passes: list[Passes] = []


def register_passes(passes: Passes) -> None:
    """Have all programs made with these."""
    if passes not in _passes:  # an interrupt may have cut off what comes after
        _passes.append(passes)


def function_of(jaxpr: Jaxpr) -> Callable[[ClosedJaxpr], Callable[..., Any]] | None:
    """What makes a function of a program with this jaxpr; None for `jax.extend.core.jaxpr_as_fun`."""
    ready()
    return next((made for passes in _passes if (made := passes.function(jaxpr)) is not None), None)


def compiler_options(jaxpr: Jaxpr, often: bool = False) -> dict[str, Any] | None:
    """What `jax.jit` gets as ``compiler_options`` for a program with this jaxpr.

    Args:
        often: whether it has run often, so that it may be compiled once more if that makes it faster.
    """
    ready()
    return next((made for passes in _passes if (made := passes.options(jaxpr, often)) is not None), None)
