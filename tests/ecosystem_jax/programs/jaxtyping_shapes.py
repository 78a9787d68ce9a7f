"""Shapes of jaxtyping, checked at run time by beartype, for functions of Tensors."""

import jax
import jax.numpy as jnp
from beartype import beartype
from jaxtyping import Bool, Float, Float32, Int, TypeCheckError, jaxtyped

import functorch_port as torch


def checked(kind, ones, longs):
    @jaxtyped(typechecker=beartype)
    def outer(a: Float[kind, "n m"], b: Float[kind, "m k"]) -> Float[kind, "n k"]:  # noqa: F722
        return a @ b

    def holds(*args):
        try:
            outer(*args)
        except TypeCheckError:
            return 0
        return 1

    return {
        "calls": [holds(ones(2, 3), ones(3, 4)), holds(ones(2, 3), ones(2, 4)), holds(longs(2, 3), longs(3, 4))],
        "kinds": [
            int(isinstance(ones(2, 3), form))
            for form in (
                Float[kind, "2 3"], Float32[kind, "..."], Int[kind, "2 3"], Bool[kind, "2 3"], Float[kind, "6"],
                Float[kind, "*rest 3"],
            )
        ],
        "sum": outer(ones(2, 3), ones(3, 4)).sum(),
    }  # fmt: skip


def theirs():
    return checked(jax.Array, lambda *s: jnp.ones(s), lambda *s: jnp.ones(s, int))


def ours():
    return checked(torch.Tensor, torch.ones, lambda *s: torch.ones(*s, dtype=torch.int64))
