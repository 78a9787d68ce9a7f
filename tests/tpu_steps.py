"""Compiles training steps for a TPU that is not there, ours and hand-written, and prints what they cost as JSON.

A process of its own, as it loads the TPU compiler. `test_tpu.py` runs it, without arguments, with the name of a model
of the suite, or with ``attention`` and a length.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding, PartitionSpec

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import handwritten
import networks
import suite_jax
import suite_networks

import functorch_port as torch
from functorch_port._base import flops
from functorch_port._plan.topology import devices_of
from functorch_port.nn.attention import SDPBackend, sdpa_kernel

SIZES = (784, 512, 512, 10)
LIBRARY = networks.library("functorch_port")


def sharding() -> NamedSharding:
    """One device of a TPU v5e board."""
    return NamedSharding(Mesh(np.array(devices_of("v5e:2x2")[:1]), ("device",)), PartitionSpec())


def costs(lowered: Any) -> dict[str, Any]:
    """What the compiled program costs, and its 64-bit arrays that are not scalars."""
    compiled = lowered.compile()
    memory = compiled.memory_analysis()
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    return {
        "flops": compiled.cost_analysis()["flops"],
        "bytes accessed": compiled.cost_analysis()["bytes accessed"],
        "peak": held + memory.temp_size_in_bytes,
        "arguments": memory.argument_size_in_bytes,
        "temporary": memory.temp_size_in_bytes,
        "wide": sorted(set(re.findall(r"\b(?:f64|s64|u64|c128)\[[\d,]+\]", compiled.as_text()))),
    }


def ours(
    model: Any,
    loss: Any,
    shape: tuple[int, ...],
    place: NamedSharding,
    zero_last: bool = False,
    keep_grads: bool = True,
) -> dict[str, Any]:
    """The program that `compile` makes of a whole training step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=handwritten.LR)

    @torch.compile(keep_grads=keep_grads)
    def step(x: Any, y: Any) -> Any:
        if not zero_last:
            optimizer.zero_grad()
        out = loss(model(x), y)
        out.backward()
        optimizer.step()
        if zero_last:
            optimizer.zero_grad()
        return out

    images, labels = networks.data(shape, 10)
    step(torch.from_numpy(images), torch.from_numpy(labels))
    (program,) = step.programs()
    found = costs(program.executable.lower(in_shardings=place, out_shardings=place))
    return {**found, "gradients": sum(4 * p.numel() for p in model.parameters())}


def by_hand(program: handwritten.Program, shape: tuple[int, ...], place: NamedSharding) -> dict[str, Any]:
    """The same step written in plain JAX."""
    state = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), program.state)
    x, y = jax.ShapeDtypeStruct(shape, np.float32), jax.ShapeDtypeStruct(shape[:1], np.int32)
    jitted = jax.jit(program.step, donate_argnums=0, in_shardings=place, out_shardings=place)
    return costs(jitted.lower(state, x, y))


def of_suite(name: str, place: NamedSharding) -> dict[str, Any]:
    """The training step of a model of the suite, ours and by hand. ``products`` counts what is in loops, too."""
    made = []

    def wrap(step: Any) -> Any:
        made.append(torch.compile(step, keep_grads=False))
        return made[-1]

    with torch.compiler.for_platform("tpu"):
        suite_networks.JOBS[name].set_up(LIBRARY, wrap).train()
    (program,) = made[0].programs()
    plain, *given = suite_jax.set_up(name).program
    described = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), given)
    jitted = jax.jit(plain, donate_argnums=0, in_shardings=place, out_shardings=place)
    # XLA's default for a convolution's weight is another order of the dimensions than the one it computes in: in
    # PyTorch's order, unlike in HWIO, large weights and their momentum would be copied twice in each step
    form = Format(Layout.AUTO, place) if name.startswith("ResNet") else place
    found = costs(program.executable.lower(in_shardings=form, out_shardings=form))
    hand = costs(jitted.lower(*described))
    found["products"] = flops.by_scope(program.executable.jaxpr).total()
    hand["products"] = flops.by_scope(jax.make_jaxpr(plain)(*described)).total()
    return {"ours": found, "by hand": hand}


def of_attention(length: int, place: NamedSharding) -> dict[str, Any]:
    """Causal attention in bfloat16 and its derivative: by the kernel, and without."""
    shape = jax.ShapeDtypeStruct((4, 8, length, 64), jax.numpy.bfloat16)

    def gradients(*given: Any) -> Any:
        given = tuple(t.detach().requires_grad_() for t in given)
        out = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=True)
        return torch.autograd.grad(out.float().square().sum(), given)

    found = {}
    for name, backends in (("kernel", list(SDPBackend)), ("plain", [SDPBackend.MATH])):
        with torch.compiler.for_platform("tpu"), sdpa_kernel(backends):
            pure = torch.functionalize(gradients)
            pure.state(shape, shape, shape)
            jitted = jax.jit(lambda *a, pure=pure: pure({}, *a)[0], in_shardings=place, out_shardings=place)
            lowered = jitted.trace(shape, shape, shape).lower(lowering_platforms=("tpu",))
        found[name] = costs(lowered)
    return found


def main() -> None:
    """Compile what is asked for; matrix products as precise as plain JAX has them on a TPU."""
    torch.set_float32_matmul_precision("medium")
    place, (_, *asked) = sharding(), sys.argv
    if not asked:
        found = of_networks(place)
    else:
        found = of_attention(int(asked[1]), place) if asked[0] == "attention" else of_suite(asked[0], place)
    print(json.dumps(found))


def of_networks(place: NamedSharding) -> dict[str, Any]:
    """The steps of both small networks, in several forms."""
    F = LIBRARY.F
    cases = {
        "mlp": (lambda: networks.mlp(LIBRARY, SIZES), F.cross_entropy, (64, 784), handwritten.mlp(SIZES)),
        "cnn": (lambda: networks.cnn(LIBRARY), F.nll_loss, (64, 1, 28, 28), handwritten.cnn()),
    }
    return {
        name: {
            "gradients kept": ours(make(), loss, shape, place),
            "gradients not kept": ours(make(), loss, shape, place, keep_grads=False),
            "zero_grad last": ours(make(), loss, shape, place, zero_last=True),
            "by hand": by_hand(plain, shape if name == "mlp" else (64, 28, 28, 1), place),
        }
        for name, (make, loss, shape, plain) in cases.items()
    }


if __name__ == "__main__":
    main()
