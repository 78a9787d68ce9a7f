"""The figures of a plan beside what else is known of a step: 6 N D, XLA's own counts, the compiler's cycles.

``python benchmarks/plan_figures.py [TOPOLOGY] [AXIS=SIZE,...]`` compiles a training step of a GPT in plain JAX for a
TPU that need not be there (v5e:4x4 and fsdp=16 by default), prints a table, and writes ``out/plan.html``.
"""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from functorch_port._base import tables as plain
from functorch_port._base.units import nbytes
from functorch_port._plan import rows
from functorch_port._plan.analysis import Analysis, analyse
from functorch_port._plan.chips import Topology, topology
from functorch_port._plan.page import page
from functorch_port._plan.tables import tables
from functorch_port._plan.texts import compiled_with_text
from functorch_port._plan.topology import devices_of
from functorch_port._plan.wires import coordinates_of

WIDTH, LAYERS, VOCAB, LENGTH, HEADS, ROWS = 1024, 8, 32768, 1024, 16, 4


class Model:
    """A GPT on a mesh with "fsdp" and maybe "tp": how its weights lie, and a step of Adam in bfloat16 and float32."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh, self.tp = mesh, "tp" if "tp" in mesh.shape else None
        self.batch = ROWS * mesh.shape["fsdp"]
        inner = {"qkv": 3 * WIDTH, "up": 4 * WIDTH}
        weights = {name: ((LAYERS, WIDTH, n), P(None, "fsdp", self.tp)) for name, n in inner.items()}
        weights |= {
            name: ((LAYERS, n, WIDTH), P(None, self.tp, "fsdp"))
            for name, n in (("out", WIDTH), ("down", 4 * WIDTH))
        }
        weights |= {"embed": ((VOCAB, WIDTH), P(None, "fsdp")), "head": ((WIDTH, VOCAB), P("fsdp", self.tp))}
        self.weights = {name: self.like(*given) for name, given in weights.items()}

    def like(self, shape: tuple[int, ...], spec: P, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(self.mesh, spec))

    def on(self, x: Any, *spec: Any) -> Any:
        return lax.with_sharding_constraint(x, NamedSharding(self.mesh, P(*spec)))

    def block(self, x: Any, w: dict[str, Any]) -> Any:
        split = {name: self.on(w[name].astype(jnp.bfloat16), None, self.tp) for name in ("qkv", "up")}
        split |= {name: self.on(w[name].astype(jnp.bfloat16), self.tp) for name in ("out", "down")}
        with jax.named_scope("attention"):
            each = jnp.split(normed(x) @ split["qkv"], 3, -1)
            shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
            q, k, v = (self.on(a.reshape(shape), "fsdp", None, self.tp) for a in each)
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / 8
            scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
            y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores).astype(x.dtype), v)
            x = self.on(x + y.reshape(x.shape) @ split["out"], "fsdp")
        with jax.named_scope("mlp"):
            return self.on(x + jax.nn.gelu(normed(x) @ split["up"]) @ split["down"], "fsdp")

    def loss(self, weights: dict[str, Any], tokens: Any) -> Any:
        with jax.named_scope("embed"):
            x = self.on(weights["embed"].astype(jnp.bfloat16)[tokens], "fsdp")
        stack = {name: w for name, w in weights.items() if w.ndim == 3}
        with jax.named_scope("blocks"):
            x, _ = lax.scan(lambda x, w: (jax.checkpoint(self.block)(x, w), None), x, stack)
        with jax.named_scope("head"):
            logits = (x @ weights["head"].astype(jnp.bfloat16)).astype(jnp.float32)
            return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1).mean()

    def step(self, weights: Any, state: Any, tokens: Any) -> Any:
        grads = jax.grad(self.loss)(weights, tokens)
        with jax.named_scope("Adam.step"):
            mean = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, state[0], grads)
            square = jax.tree.map(lambda a, g: 0.95 * a + 0.05 * g * g, state[1], grads)
            update = lambda w, m, s: w - 1e-3 * m / (jnp.sqrt(s) + 1e-8)
            return jax.tree.map(update, weights, mean, square), (mean, square)

    def traced(self) -> Any:
        state = self.weights, self.weights
        out = jax.tree.map(lambda a: a.sharding, (self.weights, state))
        tokens = self.like((self.batch, LENGTH), P("fsdp"), jnp.int32)
        return jax.jit(self.step, donate_argnums=(0, 1), out_shardings=out).trace(self.weights, state, tokens)

    def by_formula(self) -> int:
        """6 N D without the table that is looked up in, and 12 L T d a token for the attention."""
        size = sum(math.prod(w.shape) for w in self.weights.values()) - VOCAB * WIDTH
        return (6 * size + 12 * LAYERS * LENGTH * WIDTH) * self.batch * LENGTH


def normed(x: Any) -> Any:
    square = jnp.square(x.astype(jnp.float32)).mean(-1, keepdims=True)
    return x * lax.rsqrt(square + 1e-6).astype(x.dtype)


def report(where: Topology, found: Analysis, memory: Any) -> dict[str, Any]:
    """What the page takes."""
    causes = {
        "arguments": memory.argument_size_in_bytes,
        "temporary": memory.temp_size_in_bytes,
    }
    return {
        "topology": where.name, "device": found.chip, "devices": found.devices, "mesh": found.mesh,
        "needs": sum(causes.values()), "hbm": found.memory, "analysis": found.to_dict(),
        "causes": [{"name": name, "bytes": count, "largest": []} for name, count in causes.items()],
        "versions": {"jax": jax.__version__},
    }  # fmt: skip


def main() -> None:
    """Compile, compare, and write the page."""
    where = topology(sys.argv[1] if len(sys.argv) > 1 else "v5e:4x4")
    given = sys.argv[2] if len(sys.argv) > 2 else f"fsdp={where.devices}"
    axes = {name: int(size) for name, size in (part.split("=") for part in given.split(","))}
    chips = devices_of(where.name)
    devices = np.array(chips).reshape([*axes.values()])
    model = Model(Mesh(devices, tuple(axes), axis_types=(AxisType.Auto,) * len(axes)))
    start = time.perf_counter()
    traced = model.traced()
    compiled, text = compiled_with_text(traced.lower(), "tpu")
    between = time.perf_counter()
    places = coordinates_of(chips, where)
    tokens = model.batch * LENGTH
    found = analyse(traced.jaxpr, text, axes, where.name, tokens, 1.0, coordinates=places)
    end = time.perf_counter()
    xla, memory = compiled.cost_analysis(), compiled.memory_analysis()
    shown = plain.table("plan_figures", title=f"{where.name}, {given}")
    for column in ("figure", "here", "beside it", "by"):
        shown.add_column(column)
    for row in (
        ("model FLOPs", f"{found.flops.model:.6g}", f"{model.by_formula():.6g}", "6 N D + 12 L T d a token"),
        ("FLOPs, all devices", f"{found.flops.executed:.6g}", f"{found.device_flops * found.devices:.6g}",
         "the compiled program"),
        ("FLOPs of a device", f"{found.device_flops:.6g}", f"{xla['flops']:.6g}", "XLA: loops once"),
        ("bytes of a device", nbytes(found.traffic or 0), nbytes(xla["bytes accessed"]), "XLA: loops once, VMEM too"),
        ("seconds to analyse", f"{end - between:.2f}", f"{between - start:.0f}", "to compile, 2 busy cores"),
    ):  # fmt: skip
        shown.add_row(*row)
    made = report(where, found, memory)
    print(plain.text("plan_figures", shown, *tables(made)))
    out = Path(__file__).parents[1] / "out" / "plan.html"
    out.parent.mkdir(exist_ok=True)
    out.write_text(page(made))
    print(
        f"\n{rows.in_seconds(found.roofline.seconds)} at best; {out.relative_to(out.parents[1])} has all of it"
    )


if __name__ == "__main__":
    main()
