"""Small programs on a mesh of any devices, with what they communicate, for `plan` and `devices`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from functorch_port._plan import hlo
from functorch_port._plan.collectives import Collective, collectives
from functorch_port._plan.texts import compiled_with_text

WIDTH, LAYERS = 512, 3


def mesh_of(devices: Any, **axes: int) -> Mesh:
    """A mesh of these devices in their order."""
    return Mesh(devices.reshape([*axes.values()]), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))


def text(mesh: Mesh, f: Callable[..., Any], *args: tuple[tuple[int, ...], P]) -> str:
    """The compiled program of a function of arrays with these shapes and places."""
    given = [
        jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec)) for shape, spec in args
    ]
    return compiled_with_text(jax.jit(f).lower(*given), mesh.devices.flat[0].platform)[1]


def found(mesh: Mesh, f: Callable[..., Any], *args: tuple[tuple[int, ...], P]) -> list[Collective]:
    """The collectives of that program."""
    return collectives(hlo.parse(text(mesh, f, *args)), dict(mesh.shape))


def rows(some: list[Collective]) -> list[tuple[Any, ...]]:
    """What a test compares."""
    return sorted((c.kind, c.axes, c.size, c.nbytes, c.times, c.exact) for c in some)


def fsdp(mesh: Mesh, scanned: bool, remat: bool = False) -> Callable[..., Any]:
    """A step of SGD of an MLP whose weights are split over "fsdp" and gathered for each product."""
    on = lambda a, *spec: lax.with_sharding_constraint(a, NamedSharding(mesh, P(*spec)))

    def layer(x: Any, w: Any) -> Any:
        with jax.named_scope("layer"):
            return jnp.tanh(x @ on(w))

    layer = jax.checkpoint(layer) if remat else layer

    def loss(ws: Any, x: Any) -> Any:
        if scanned:
            return (lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0] ** 2).sum()
        for k in range(LAYERS):
            x = layer(x, ws[k])
        return (x * x).sum()

    return lambda ws, x: on(ws - 0.1 * jax.grad(loss)(ws, x), None, "fsdp")


def fsdp_args(count: int) -> tuple[tuple[tuple[int, ...], P], ...]:
    """Of that step on so many devices."""
    return ((LAYERS, WIDTH, WIDTH), P(None, "fsdp")), ((32 * count, WIDTH), P("fsdp"))


def tensor_parallel(up: Any, down: Any, x: Any) -> Any:
    """Megatron's two products."""
    with jax.named_scope("mlp"):
        return jax.nn.relu(x @ up) @ down


TENSOR_ARGS = ((64, 256), P(None, "tp")), ((256, 64), P("tp")), ((32, 64), P("dp"))


def ring(mesh: Mesh, axis: str, times: int) -> Callable[..., Any]:
    """Pass an array on, so many times."""
    size = mesh.shape[axis]
    pairs = [(i, (i + 1) % size) for i in range(size)]

    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: (2 * lax.ppermute(c, axis, pairs), None), x, None, length=times)[0]

    return jax.shard_map(f, mesh=mesh, in_specs=P(axis), out_specs=P(axis))


def exchanged(mesh: Mesh) -> Callable[..., Any]:
    """An all-to-all, a sum over the whole mesh and a sum over "dp" that is split."""

    def f(x: Any, y: Any) -> Any:
        return (
            lax.all_to_all(x, "tp", 0, 0, tiled=True),
            lax.psum(y, ("dp", "tp")),
            lax.psum_scatter(y, "dp", scatter_dimension=0, tiled=True),
        )

    out = P("dp"), P(), P(("tp", "dp"))
    return jax.shard_map(f, mesh=mesh, in_specs=(P("dp"), P("tp")), out_specs=out, check_vma=False)
