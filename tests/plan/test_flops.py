"""FLOPs of steps, beside sums by hand, 6 N D, and XLA's count of the same program without loops."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P

import functorch_port as ft
from functorch_port import nn
from functorch_port._plan import flops, hlo, work
from functorch_port._plan.analysis import analyse
from functorch_port._plan.flops import Flops
from functorch_port._plan.places import module_of, phase_of
from functorch_port.distributed.experts import MixtureOfExperts
from functorch_port.nn import functional as F
from functorch_port.utils.checkpoint import checkpoint


def counted(model: nn.Module, loss: Callable[[Any], Any], *args: Any) -> Flops:
    """Of a training step."""
    optimizer = ft.optim.SGD(model.parameters(), lr=0.1)

    def step(*args: Any) -> Any:
        optimizer.zero_grad()
        out = loss(model(*args))
        out.backward()
        optimizer.step()
        return out

    step = ft.compile(step, keep_grads=False)
    step(*args)
    return flops.of(step.programs()[0].executable.jaxpr)


def square(y: Any) -> Any:
    return (y * y).mean()


def test_mlp() -> None:
    found = counted(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), square, ft.ones(5, 8))
    first, second = 2 * 5 * 8 * 16, 2 * 5 * 16 * 4
    assert (found.forward, found.backward) == (
        first + second,
        first + 2 * second,
    )  # the input has no gradient
    assert found.modules == {
        "model/0": {"forward": first, "backward": first},
        "model/2": {"forward": second, "backward": 2 * second},
    }
    assert (found.executed, found.model, found.recomputed, found.update) == (
        found.model,
        found.executed,
        0,
        0,
    )


def test_cnn() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2, padding=1))
    found = counted(model, square, ft.ones(2, 3, 8, 8))
    first, second = 2 * 2 * 64 * 8 * 3 * 9, 2 * 2 * 16 * 4 * 8 * 9
    assert (found.forward, found.backward) == (first + second, first + 2 * second)


def test_lstm() -> None:
    found = counted(nn.LSTM(8, 16, batch_first=True), lambda y: square(y[0]), ft.ones(3, 5, 8))
    inputs, hidden = 2 * 3 * 5 * 64 * 8, 2 * 3 * 5 * 64 * 16
    assert (found.forward, found.backward) == (inputs + hidden, inputs + 2 * hidden)


def test_mixture_of_experts() -> None:
    tokens, dim, wide, experts, chosen = 12, 8, 32, 4, 2
    layer = MixtureOfExperts(dim, wide, experts, chosen, capacity_factor=1.0)
    room = layer.capacity(tokens)
    found = counted(layer, lambda y: square(y.output) + y.balance_loss, ft.randn(tokens, dim))
    router, one = 2 * tokens * dim * experts, 2 * experts * room * dim * wide
    moved, places = 2 * tokens * experts * room * dim, 2 * tokens * chosen * experts * room
    gates = 2 * tokens * chosen * experts
    assert found.forward == router + 2 * one + 2 * moved + 2 * places + gates
    assert found.backward == router + 3 * one + 2 * moved + places + gates


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Any) -> Any:
        n, length, dim = x.shape
        q, k, v = (
            t.view(n, length, 4, dim // 4).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, length, dim))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, dim: int, layers: int, vocabulary: int, remat: str = "") -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        blocks = [Block(dim) for _ in range(layers)]
        self.blocks = (
            nn.ScanStack(blocks, remat=remat == "stack") if "stack" in remat else nn.ModuleList(blocks)
        )
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocabulary, bias=False)
        self.remat = remat

    def forward(self, x: Any) -> Any:
        x = self.embed(x)
        if "stack" in self.remat:
            x = self.blocks(x)
        else:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if self.remat else block(x)
        return self.head(self.norm(x))


@pytest.mark.parametrize("remat", ["", "unit", "plain stack", "stack"])
def test_gpt(remat: str) -> None:
    """6 N D and the attention's 12 L T d a token; N without the table that is looked up in."""
    dim, layers, vocabulary, batch, length = 64, 2, 256, 2, 32
    model = GPT(dim, layers, vocabulary, remat)
    weights = sum(p.numel() for p in model.parameters()) - vocabulary * dim
    found = counted(model, square, ft.zeros(batch, length, dtype=ft.int64))
    tokens = batch * length
    products = layers * 12 * dim * dim + vocabulary * dim
    assert found.forward == 2 * products * tokens + 4 * layers * length * dim * tokens
    assert found.model == 3 * found.forward
    assert found.model == pytest.approx((6 * weights + 12 * layers * length * dim) * tokens, rel=0.03)
    if remat in (
        "unit",
        "stack",
    ):  # all of a block is computed again but its last product, which no gradient needs
        one = 2 * (12 - 4) * dim * dim * tokens + 4 * length * dim * tokens
        assert found.recomputed == pytest.approx(layers * one, rel=0.2)
        assert found.executed == found.model + found.recomputed
    else:
        assert found.recomputed == 0
    where = "model/blocks/stacked" if "stack" in remat else "model/blocks/0"
    assert found.modules[f"{where}/up"]["backward"] == 2 * found.modules[f"{where}/up"]["forward"]


@pytest.mark.parametrize(
    ("place", "phase", "module"),
    [
        ("net/fc/jvp()", "forward", "net/fc"),
        ("backward/net/fc/transpose(jvp())", "backward", "net/fc"),
        ("backward/rematted_computation/net/fc/jvp()", "recomputed", "net/fc"),
        ("region/backward/net/fc/transpose(jvp())", "backward", "region/net/fc"),
        ("region/backward/rematted_computation/net/jvp()", "recomputed", "region/net"),
        ("net/backward/jvp()", "forward", "net/backward"),  # a module of that name, as of two directions
        ("backward/net/backward/transpose(jvp())", "backward", "net/backward"),
        ("Muon.step/jvp()", "update", "Muon.step"),
        ("region/Muon.step", "update", "region/Muon.step"),
        ("backward", "backward", ""),
        ("jvp(a/b)/c", "forward", "a/b/c"),
        ("transpose(jvp(a/b))/c", "backward", "a/b/c"),
        ("transpose(jvp(a))/backward", "backward", "a/backward"),
        ("transpose(jvp(a))/jvp(a)/checkpoint/rematted_computation", "recomputed", "a"),
        ("vmap(transpose(jvp(a)))/bd,de->be", "backward", "a"),
        ("", "forward", ""),
    ],
)
def test_phases_and_modules_by_names(place: str, phase: str, module: str) -> None:
    assert (phase_of(place), module_of(place)) == (phase, module)


# ------------------------------------------------------------------ plain JAX


def layer(x: Any, w: Any) -> Any:
    with jax.named_scope("block/mlp"):
        return jnp.tanh(jnp.tanh(x @ w) @ w)


def stack(ws: Any, x: Any, remat: bool, unroll: bool) -> Any:
    f = jax.checkpoint(layer) if remat else layer
    if unroll:
        for k in range(len(ws)):
            x = f(x, ws[k])
        return (x * x).sum()
    return (lax.scan(lambda x, w: (f(x, w), None), x, ws)[0] ** 2).sum()


@pytest.mark.parametrize("remat", [False, True])
def test_beside_xla(remat: bool) -> None:
    """Its count of the program without a loop has what is computed element by element, too: a tenth of a percent."""
    ws, x = jnp.ones((5, 256, 256)), jnp.ones((128, 256))
    grad = lambda unroll: jax.grad(lambda ws: stack(ws, x, remat, unroll))
    looped, plain = (flops.of(jax.make_jaxpr(grad(unroll))(ws)) for unroll in (False, True))
    product = 5 * 2 * 2 * 128 * 256 * 256
    assert looped.forward == plain.forward == product
    assert looped.recomputed == plain.recomputed == (product if remat else 0)
    assert looped.modules.keys() == plain.modules.keys() == {"block/mlp"}
    assert looped.backward == 2 * product  # scan's rule has the gradient of the first layer's input, too
    compiled = jax.jit(grad(False)).lower(ws).compile()
    unrolled = jax.jit(grad(True)).lower(ws).compile()
    assert plain.model <= unrolled.cost_analysis()["flops"] <= 1.02 * plain.executed
    assert looped.executed / compiled.cost_analysis()["flops"] > 4  # XLA counts the loop's body once
    here = work.products(hlo.parse(compiled.as_text())).total()
    assert here == (looped.executed if remat else looped.model)


def test_bytes_beside_xla() -> None:
    """XLA has a loop's body once: what is left of it and of ours is the same, and ours grows with the loop."""

    def moved(length: int, unroll: bool) -> tuple[float, float]:
        f = jax.jit(lambda ws: stack(ws, jnp.ones((128, 256)), False, unroll))
        compiled = f.lower(jnp.ones((length, 256, 256))).compile()
        return work.traffic(hlo.parse(compiled.as_text())), compiled.cost_analysis()["bytes accessed"]

    ours, xla = moved(5, True)
    assert ours == pytest.approx(xla, rel=0.01)
    (short, once), (long, _) = moved(5, False), moved(8, False)
    body = (long - short) / 3
    assert short - 4 * body == pytest.approx(once, rel=0.01)
    assert body > 2 * 4 * (128 * 256 * 2 + 256 * 256)  # two products read and write at least these


@pytest.mark.parametrize(
    ("loop", "times"),
    [
        (lambda x: lax.fori_loop(0, jnp.int32(7), lambda i, c: c @ x, x), 7),
        (lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] @ x), (0, x))[1], 5),
        (lambda x: lax.while_loop(lambda c: c[0] >= 1, lambda c: (c[0] - 2, c[1] @ x), (8, x))[1], 4),
        (lambda x: lax.while_loop(lambda c: 9 >= c[0], lambda c: (3 + c[0], c[1] @ x), (1, x))[1], 3),
        (lambda x: lax.while_loop(lambda c: c[0] < 0, lambda c: (c[0] + 1, c[1] @ x), (0, x))[1], 0),
    ],
)
def test_loops_of_known_length(loop: Callable[[Any], Any], times: int) -> None:
    x = jnp.ones((3, 3))
    assert flops.of(jax.make_jaxpr(loop)(x)).executed == times * 2 * 27
    text = jax.jit(loop).lower(x).compile().as_text()
    for said in (
        text,
        re.sub(r'"known_trip_count":\{"n":"\d+"\}', "", text),
    ):  # a TPU's compiler does not say it
        program = hlo.parse(said)
        assert not program.unknown and work.products(program).total() == times * 2 * 27


def test_loops_within_loops_and_of_wide_counters() -> None:
    def inner(x: Any, n: int) -> Any:
        return lax.while_loop(lambda c: c[0] * 2 < n, lambda c: (c[0] + 1, c[1] @ x), (jnp.int64(1), x))[1]

    with jax.enable_x64(True):
        f = jax.jit(
            lambda x: lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 4, inner(c[1], 12)), (9, x))[1]
        )
        text = f.lower(jnp.ones((3, 3), jnp.float32)).compile().as_text()
    program = hlo.parse(re.sub(r'"known_trip_count":\{"n":"\d+"\}', "", text))
    assert not program.unknown and work.products(program).total() == 3 * 5 * 2 * 27


def test_a_loop_of_unknown_length_is_refused_or_said() -> None:
    loop = lambda x, n: lax.fori_loop(0, n, lambda i, c: c @ x, x)
    args = jnp.ones((3, 3)), 3
    with pytest.raises(NotImplementedError, match="unknown number of times"):
        flops.of(jax.make_jaxpr(loop)(*args))
    program = hlo.parse(jax.jit(loop).lower(*args).compile().as_text())
    assert work.products(program).total() == 2 * 27 and len(program.unknown) == 1
    jaxpr = jax.make_jaxpr(lambda x: lax.fori_loop(0, 3, lambda i, c: c @ x, x))(args[0])
    found = analyse(jaxpr, jax.jit(loop).lower(*args).compile().as_text(), {"one": 1}, "v5e:1x1")
    assert found.device_flops == 3 * 2 * 27 and "not known how often 1 loop" in found.warnings[0]


def test_parts_of_a_mesh_and_of_a_kernel() -> None:
    devices = np.array(jax.devices() * 8)[:8]
    mesh = Mesh(devices.reshape(2, 4), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    for axes, parts in (({"a"}, 2), ({"a", "b"}, 8)):
        f = jax.shard_map(lambda x: x @ x.T, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names=axes)
        assert flops.of(jax.make_jaxpr(f)(jnp.ones((4, 4)))).executed == parts * 2 * 2 * 2 * 4

    def kernel(x: Any, y: Any, out: Any) -> None:
        out[...] = x[...] @ y[...]

    block = pl.BlockSpec((8, 8), lambda i: (i, 0))
    call = pl.pallas_call(
        kernel, jax.ShapeDtypeStruct((32, 8), jnp.float32), grid=(4,),
        in_specs=[block, pl.BlockSpec((8, 8), lambda i: (0, 0))], out_specs=block,
    )  # fmt: skip
    assert flops.of(jax.make_jaxpr(call)(jnp.ones((32, 8)), jnp.ones((8, 8)))).executed == 2 * 32 * 8 * 8


def test_products_of_ragged_rows() -> None:
    sizes = jnp.array([1, 2, 5])
    f = lambda a, b: lax.ragged_dot(a, b, sizes).sum()
    found = flops.of(jax.make_jaxpr(jax.grad(f, (0, 1)))(jnp.ones((8, 4)), jnp.ones((3, 4, 5))))
    assert (found.forward, found.backward) == (2 * 8 * 4 * 5, 2 * 2 * 8 * 4 * 5)


def test_convolutions_of_compiled_programs() -> None:
    """Zeros around an image and between its elements do not count there: by hand for 5 positions of 3 taps."""
    x, k = jnp.ones((2, 5, 3)), jnp.ones((3, 3, 4))
    f = lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
    found = work.products(hlo.parse(jax.jit(f).lower(x, k).compile().as_text()))
    assert found.total() in (2 * 2 * 13 * 3 * 4, 0)  # 0 if XLA calls a library
    assert work._pairs(5, 5, 3, 1, 1, 1, 1) == 13
    assert work._pairs(8, 8, 8, 7, 0, 8, 1) == 8  # as a TPU writes a product of 8 matrices
