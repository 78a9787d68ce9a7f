"""Attention by the kernel for a TPU: where it is used, and that it computes what the plain form does."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu

import functorch_port as ft
from functorch_port._base.jaxprs import operations
from functorch_port.nn.attention import SDPBackend, sdpa_kernel
from functorch_port.ops._fused_attention import Kernel, flash, kernel_for

F = ft.nn.functional
attention = F.scaled_dot_product_attention


def given(*shapes, dtype=ft.bfloat16):
    rng = np.random.default_rng(0)
    return [ft.tensor(rng.standard_normal(s).astype(np.float32)).to(dtype).requires_grad_() for s in shapes]


def gradients(fn, *tensors):
    for t in tensors:
        t.grad = None
    out = fn(*tensors)
    (out.float() * ft.linspace(-1, 1, out.numel()).reshape(out.shape)).sum().backward()
    return [out.detach().float().numpy(), *(t.grad.float().numpy() for t in tensors)]


def kernels(fn, *tensors):
    """How many kernels a trace for a TPU has."""
    with ft.compiler.for_platform("tpu"):
        jaxpr = ft.functionalize(fn).jaxpr(*tensors)
    return sum(e.primitive.name == "pallas_call" for e in operations([jaxpr.jaxpr]))


@pytest.mark.parametrize(
    ("query", "key", "causal", "scale"),
    [
        ((2, 256, 64), (2, 256, 64), False, 0.125),
        ((2, 256, 64), (2, 256, 64), True, 0.125),
        ((1, 4, 128, 64), (1, 2, 128, 64), True, 0.3),  # the interpreter has no batches of this kernel
        ((1, 2, 128, 128), (1, 2, 384, 128), False, 128**-0.5),
        ((256, 64), (256, 64), True, 0.125),
    ],
)
def test_the_kernel_computes_what_the_plain_form_does(query, key, causal, scale):
    """In the interpreter of JAX; both round to bfloat16, in other places. Groups of heads may share keys and values."""
    q, k, v = given(query, key, key)
    plain = lambda *t: attention(*t, is_causal=causal, scale=scale, enable_gqa=query[:-2] != key[:-2])
    wanted = gradients(plain, q, k, v)
    with pltpu.force_tpu_interpret_mode():
        out, pull = jax.vjp(lambda *t: flash(*t, causal, scale), *(t.detach().jax() for t in (q, k, v)))
        slope = jnp.linspace(-1, 1, out.size, dtype=jnp.float32).reshape(out.shape).astype(out.dtype)
        found = [out, *pull(slope)]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a, np.float32), b, atol=0.02 * np.abs(b).max())


def test_a_program_for_a_tpu_computes_the_plain_form_elsewhere():
    """One jaxpr is lowered for each platform; groups of heads share keys and values."""
    q, k, v = given((1, 4, 128, 64), (1, 2, 128, 64), (1, 2, 128, 64))
    grouped = lambda *t: attention(*t, is_causal=True, enable_gqa=True)
    wanted = gradients(grouped, q, k, v)
    assert kernels(grouped, q, k, v) == 1
    with ft.compiler.for_platform("tpu"):
        found = gradients(ft.compile(grouped), q, k, v)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.02, atol=1e-5)  # the backend of a CPU rounds elsewhere


def test_where_it_is_used():
    q, k, v = given((2, 4, 128, 64), (2, 4, 128, 64), (2, 4, 128, 64))
    assert kernels(attention, q, k, v) == 1
    assert kernels(lambda *t: attention(*t, scale=0.3), q, k, v) == 1
    assert kernels(lambda *t: attention(*t, attn_mask=ft.ones(128, 128, dtype=ft.bool)), q, k, v) == 0
    assert kernels(lambda *t: attention(*t, dropout_p=0.1), q, k, v) == 0
    assert kernels(attention, *(t.detach().float() for t in (q, k, v))) == 0
    assert kernels(lambda a, b, c: ft.func.vmap(attention)(a, b, c), q, k, v) == 0
    assert kernels(lambda a, b, c: ft.func.jvp(attention, (a, b, c), (a, b, c))[1], q, k, v) == 0
    with sdpa_kernel(SDPBackend.MATH):
        assert kernels(attention, q, k, v) == 0
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        assert kernels(attention, q, k, v) == 1

    def mixed(a, b, c):
        with ft.autocast("tpu"):
            return attention(a, b, c)

    assert kernels(mixed, *(t.detach().float() for t in (q, k, v))) == 1
    stack = ft.nn.ScanStack([ft.nn.Identity()] * 2)
    stack.stacked.forward = lambda x: attention(x, x, x)
    assert kernels(stack, q) == 1


@pytest.mark.parametrize(
    ("query", "key", "value", "causal", "gqa", "fits"),
    [
        ((2, 4, 256, 128), (2, 4, 512, 128), (2, 4, 512, 128), False, False, True),
        ((2, 4, 256, 128), (2, 4, 512, 128), (2, 4, 512, 128), True, False, False),
        ((256, 64), (256, 64), (256, 64), True, False, True),
        ((2, 4, 250, 64), (2, 4, 250, 64), (2, 4, 250, 64), True, False, False),
        ((2, 4, 256, 48), (2, 4, 256, 48), (2, 4, 256, 48), False, False, False),
        ((2, 4, 256, 64), (2, 4, 256, 64), (2, 4, 256, 128), False, False, False),
        ((2, 4, 256, 64), (1, 4, 256, 64), (1, 4, 256, 64), False, False, False),
        ((2, 4, 256, 64), (2, 2, 256, 64), (2, 2, 256, 64), False, True, True),
        ((2, 4, 256, 64), (2, 3, 256, 64), (2, 3, 256, 64), False, True, False),
        ((0, 4, 256, 64), (0, 4, 256, 64), (0, 4, 256, 64), False, False, False),
    ],
)
def test_shapes(query, key, value, causal, gqa, fits):
    assert (kernel_for("tpu", ft.bfloat16, query, key, value, causal, gqa) == Kernel("tpu")) == fits
    assert kernel_for("cpu", ft.bfloat16, query, key, value, causal, gqa) is None
    assert kernel_for("cuda", ft.bfloat16, query, key, value, causal, gqa) is None  # no GPU to ask


def test_over_a_mesh():
    """The axes of the batch, and for the heads the others."""
    mesh = jax.sharding.AbstractMesh((2, 4, 1), ("dp", "tp", "one"))
    kernel, shape = Kernel("tpu"), (4, 8, 256, 64)
    assert kernel.over(mesh, ("dp",), shape) == Kernel("tpu", mesh, ("dp",), ("tp",))
    assert kernel.over(mesh, ("dp", "tp"), shape) is None  # four rows for eight devices
    assert kernel.over(mesh, ("dp",), (4, 2, 256, 64)) == Kernel("tpu", mesh, ("dp",), ())
    assert kernel.over(mesh, (), shape) == Kernel("tpu", mesh, (), ("dp", "tp"))
    assert kernel.over(mesh, ("dp",), shape[1:]) is None
