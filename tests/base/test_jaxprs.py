"""Walks through jaxprs, and what of them is needed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from functorch_port._base.jaxprs import inlined, pruned, uses, walk


@jax.jit
def twice(x):
    return x + x


@jax.custom_vjp
def halved(x):
    return x / 2


halved.defvjp(lambda x: (x / 2, None), lambda _, g: (g / 2,))

PROGRAMS = {
    "jit, more than once": lambda x: twice(twice(x)) * twice(x),
    "custom derivatives": lambda x: jax.nn.relu(x) + halved(x),
    "checkpoint": lambda x: jax.checkpoint(lambda x: jnp.sin(twice(x)))(x),
    "a loop": lambda x: jax.lax.fori_loop(0, 3, lambda _, x: twice(x), x),
    "a choice": lambda x: jax.lax.cond(x.sum() > 0, twice, jnp.sin, x),
    "parts for platforms": lambda x: jax.lax.platform_dependent(x, tpu=jnp.sin, cpu=twice, default=jnp.cos),
    "a constant": lambda x: jax.jit(lambda x: x * np.array([1.0, 2.0, 3.0], np.float32))(x),
    "an argument and a number are results": lambda x: jax.jit(lambda x: (x, 2.0))(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_inlined_programs_compute_the_same(name):
    x = jnp.array([-1.0, 2.0, 3.0])
    closed = jax.make_jaxpr(PROGRAMS[name])(x)
    flat = ClosedJaxpr(inlined(closed.jaxpr), closed.consts)
    calls = {"jit", "pjit", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat2"}
    assert calls.isdisjoint(eqn.primitive.name for eqn in flat.jaxpr.eqns)
    for a, b in zip(jaxpr_as_fun(closed)(x), jaxpr_as_fun(flat)(x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_walk_has_values_of_any_kind():
    jaxpr = jax.make_jaxpr(lambda x: twice(x) * 3.0)(1.0).jaxpr

    def rule(eqn, ins):
        return [f"{eqn.primitive.name}({', '.join(ins)})"]

    assert walk(jaxpr, ["x"], rule, lambda value, aval: str(float(value))) == ["mul(add(x, x), 3.0)"]


def test_what_is_needed_is_known_inside_of_calls():
    def both(x, y):
        return jnp.sin(x), jnp.cos(y)

    jaxpr = jax.make_jaxpr(lambda x, y: jax.jit(both)(x, y))(1.0, 1.0).jaxpr
    assert pruned(jaxpr)[1] == [True, True]
    part, used = pruned(jaxpr, [False, True])
    assert used == [False, True] and len(part.invars) == 2 and len(part.outvars) == 1


def test_uses():
    jaxpr = inlined(jax.make_jaxpr(lambda x: (twice(x), 1.0))(1.0).jaxpr)
    (x,), (out, _) = jaxpr.invars, jaxpr.outvars
    assert uses(jaxpr) == {x: 2, out: 1}
