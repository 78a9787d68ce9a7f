"""Autocast in traces casts what PyTorch's casts, whatever the device that the program is for."""

from __future__ import annotations

import warnings
from collections import Counter

import jax
import numpy as np
import pytest
import torch
from compare import sample

import functorch_port as ft
from functorch_port._array import tracing
from functorch_port._base.jaxprs import operations

X = sample(2, 8, 16).float()


def products(jaxpr) -> Counter[tuple[str, str]]:
    """How many matrix products there are of which types of operands."""
    found = [e for e in operations([jaxpr]) if e.primitive.name == "dot_general"]
    return Counter(tuple(str(v.aval.dtype) for v in e.invars) for e in found)


class Block:
    """Norm, linear layers, attention and a residual; and a whole step of it."""

    def __init__(self, T):
        T.manual_seed(0)
        self.T, self.norm = T, T.nn.LayerNorm(16)
        self.qkv, self.out = T.nn.Linear(16, 48), T.nn.Linear(16, 16)
        self.parameters = [*self.norm.parameters(), *self.qkv.parameters(), *self.out.parameters()]

    def step(self, x, kind):
        T = self.T
        for p in self.parameters:
            p.grad = None
        with T.autocast(kind, dtype=T.bfloat16):
            h = self.norm(x)
            qkv = self.qkv(h)
            q, k, v = qkv.view(2, 8, 3, 2, 8).permute(2, 0, 3, 1, 4)
            a = T.nn.functional.scaled_dot_product_attention(q, k, v)
            y = self.out(a.transpose(1, 2).reshape(2, 8, 16)) + x
            made = [h, qkv, a, y]
            loss = T.nn.functional.mse_loss(y, x.flip(0))
        loss.backward()
        return loss, made


def _traced(kind):
    """The jaxpr of a step, and the types that its forward pass made."""
    block = Block(ft)

    def step(x):
        loss, made = block.step(x, kind)
        return made, loss, [p.grad for p in block.parameters]

    with ft.compiler.for_platform(kind):
        jaxpr = ft.compiler.functionalize(step).jaxpr(jax.ShapeDtypeStruct(tuple(X.shape), np.float32))
    return jaxpr, [f"torch.{a.dtype}" for a in jaxpr.out_avals[:4]]


@pytest.mark.parametrize("kind", ["cpu", "cuda", "tpu"])
def test_the_products_of_a_trace(kind):
    """bfloat16 wherever PyTorch has it: in the forward pass and in the backward pass."""
    _, made = Block(torch).step(X, "cpu")
    jaxpr, types = _traced(kind)
    assert types == [str(t.dtype) for t in made]
    found = products(jaxpr)
    assert found.pop(("bfloat16", "bfloat16")) >= 6, (
        found
    )  # of each layer, and of gradients of weights and inputs
    # attention takes bfloat16 and computes in float32 inside, where that is wider
    assert sum(found.values()) <= 6 and set(found) <= {("float32", "float32")}, found


def test_other_platforms_are_not_cast():
    def product(x):
        with ft.autocast("cpu", dtype=ft.bfloat16):
            return x @ x

    pure = ft.compiler.functionalize(product)
    x = ft.ones(4, 4)
    for kind, wanted in (("tpu", "float32"), ("cpu", "bfloat16"), ("tpu", "float32")):
        with ft.compiler.for_platform(kind):
            assert str(pure.jaxpr(x).out_avals[0].dtype) == wanted
    with pytest.raises(ValueError, match="'cpu', 'cuda' or 'tpu'"):
        ft.compiler.for_platform("meta").__enter__()


def test_compiled_functions_have_a_program_for_each_platform():
    @ft.compile
    def product(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there is no TPU to cast for
            with ft.autocast("tpu"):
                return x @ x

    x = ft.ones(4, 4)
    assert product(x).dtype is ft.float32
    with ft.compiler.for_platform("tpu"):
        assert product(x).dtype is ft.bfloat16
    assert product(x).dtype is ft.float32 and product.traces == 2


def test_autocast_around_a_pure_function_is_a_part_of_its_key():
    pure = ft.compiler.functionalize(lambda x: x @ x)
    x = ft.ones(4, 4)
    assert str(pure.jaxpr(x).out_avals[0].dtype) == "float32"
    with ft.autocast("cpu"):
        assert str(pure.jaxpr(x).out_avals[0].dtype) == "bfloat16"
    assert str(pure.jaxpr(x).out_avals[0].dtype) == "float32"


def test_autocast_without_a_tpu_says_so():
    with pytest.warns(UserWarning, match="no TPU is available"), ft.autocast("tpu"):
        assert (ft.ones(2, 2) @ ft.ones(2, 2)).dtype is ft.float32


def test_a_tensor_elsewhere_does_not_decide_for_which_device_a_program_is():
    """Only what the program takes says where it runs."""
    elsewhere = ft.ones(8193)  # not one that lies on the host
    elsewhere._storage.put(jax.device_put(elsewhere._storage.array(), jax.devices()[0]))
    assert elsewhere._storage.held.committed

    def look(x):
        y = x + 1
        assert tracing.overlay.taken_on_purpose is None
        y = y + elsewhere[0]
        assert tracing.overlay.taken_on_purpose is elsewhere._storage
        return y

    ft.compiler.functionalize(look).jaxpr(ft.ones(4))


# ---------------------------------------------------------------------- GradScaler


def _scaled_steps(T, compile, optimizer, spoil):
    """Scales, counts and parameters of twelve steps; a skipped one must leave all state as it was, to the bit."""
    net = T.nn.Sequential(T.nn.Linear(3, 4), T.nn.Tanh(), T.nn.Linear(4, 2))
    with T.no_grad():
        for p in net.parameters():
            p.copy_(T.linspace(-1, 1, p.numel()).reshape(p.shape))
    optimizer = optimizer(T, net.parameters())
    scaler = T.amp.GradScaler(
        "cpu", init_scale=3000.0, growth_factor=1.7, backoff_factor=0.3, growth_interval=2
    )
    x = T.linspace(-1, 1, 15).reshape(5, 3)

    @compile
    def step(factor):
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean() * factor
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = T.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        return norm

    def state():
        held = [v for p in net.parameters() for v in optimizer.state.get(p, {}).values() if v is not None]
        return [t.detach().numpy().copy() for t in (*net.parameters(), *held)]

    found = []
    for i in range(12):
        before = state()
        step(T.tensor(spoil.get(i, 1.0)))
        after = state()
        if i in spoil:
            for old, new in zip(before, after):  # the first step may have made some
                np.testing.assert_array_equal(old, new)
        count = len(list(net.parameters()))
        found.append(((scaler.get_scale(), scaler._get_growth_tracker()), after[:count]))
    return found, step


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_a_scaler_in_a_compiled_step(name):
    """Scale, growth and backoff are PyTorch's exactly; nothing is read from the device for it."""
    spoil = {0: float("inf"), 4: float("nan"), 5: float("-inf"), 9: float("inf")}
    options = {"lr": 0.05, "momentum": 0.9} if name == "SGD" else {"lr": 0.05}
    make = lambda T, params: getattr(T.optim, name)(params, **options)
    (wanted, _), (found, step) = (
        _scaled_steps(T, c, make, spoil) for T, c in ((torch, lambda f: f), (ft, ft.compile))
    )
    for (scales, params), (our_scales, ours) in zip(wanted, found, strict=True):
        assert our_scales == scales
        for p, our in zip(params, ours, strict=True):
            np.testing.assert_allclose(our, p, rtol=1e-5, atol=1e-6)
    assert step.traces <= 2  # the first step makes the state
    (program, *_) = step.programs()
    primitives = {e.primitive.name for e in operations([program.executable.jaxpr.jaxpr])}
    assert not any("callback" in name for name in primitives), primitives


def test_a_step_has_no_wide_arrays_but_its_labels():
    """Embedding, attention, dropout, clipping, scaling and AdamW under autocast: 64 bits are in numbers alone."""
    net = ft.nn.Sequential(
        ft.nn.Embedding(65, 32),
        ft.nn.TransformerEncoderLayer(32, 2, 64, dropout=0.1, batch_first=True),
        ft.nn.Linear(32, 65),
    )
    optimizer, scaler = ft.optim.AdamW(net.parameters(), lr=1e-3), ft.amp.GradScaler("cpu")
    scaler.scale(ft.zeros(()))  # makes its state

    @ft.compile(keep_grads=False)
    def step(x, y):
        optimizer.zero_grad()
        with ft.autocast("tpu"):
            loss = ft.nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        ft.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss

    x = ft.zeros(4, 16, dtype=ft.int64)
    with ft.compiler.for_platform("tpu"):
        assert step(x, x).isfinite()
    (program,) = step.programs()
    made = [v.aval for e in operations([program.executable.jaxpr.jaxpr]) for v in e.outvars]
    wide = {(str(a.dtype), a.size) for a in made if a.shape and str(a.dtype)[-2:] == "64"}
    assert wide <= {("int64", 64)}, wide
