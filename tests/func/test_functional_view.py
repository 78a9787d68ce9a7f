"""Modules as functions of their state: over several devices, through checkpoints, with tied weights, as ensembles."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from nn_programs import same, tries
from twins import plain

import functorch_port as ft

SHARDED = """
import jax, jax.numpy as jnp, numpy as np, optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import functorch_port as torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
apply, params, buffers = torch.func.pure(net)
mesh = Mesh(np.array(jax.devices()), ("data",))
assert mesh.size == 4
tx = optax.adam(0.1)
rng = np.random.default_rng(0)
x, y = (jnp.asarray(rng.normal(size=(16, n)), jnp.float32) for n in (3, 1))

def loss_of(params, x, y):
    return jnp.mean((apply(params, buffers, x)[0] - y) ** 2)

def local(params, x, y):
    assert x.shape == (4, 3)
    # the sum over devices of the gradients is what JAX makes of parameters that all devices share
    return jax.lax.pmean(loss_of(params, x, y), "data")

sharded = jax.shard_map(local, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P())

def train(loss_of):
    @jax.jit
    def step(params, state):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = tx.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    now, state, losses = params, tx.init(params), []
    for _ in range(4):
        now, state, loss = step(now, state)
        losses.append(float(loss))
    return losses

np.testing.assert_allclose(train(sharded), train(loss_of), rtol=1e-5)
split = jax.device_put(x, NamedSharding(mesh, P("data")))  # or let the compiler split it
out, _ = jax.jit(apply)(params, buffers, split)
assert isinstance(out, jax.Array) and len(out.sharding.device_set) == 4
np.testing.assert_allclose(out, apply(params, buffers, x)[0], rtol=1e-5)
"""


def test_shard_map_over_four_devices():
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "PYTHONPATH": str(Path(ft.__file__).parent.parent),
    }
    done = subprocess.run([sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_orbax_saves_and_restores(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import orbax.checkpoint as ocp

        def model():
            return ft.nn.Sequential(ft.nn.Linear(3, 2), ft.nn.BatchNorm1d(2))

        apply, params, buffers = ft.func.pure(model())
        x = jnp.arange(12.0).reshape(4, 3)
        _, buffers = apply(params, buffers, x)
        tx = optax.adam(0.1)
        state = {"params": params, "buffers": buffers, "optimizer": tx.init(params)}
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(tmp_path / "state", state)
            checkpointer.wait_until_finished()
            restored = checkpointer.restore(tmp_path / "state", jax.eval_shape(lambda: state))
        jax.tree.map(np.testing.assert_array_equal, restored, state)
        other = model()
        ft.func.load_pytree(other, restored["params"], restored["buffers"])
        want, _ = apply(params, buffers, x)
        ours = other(ft.tensor(np.array(x)))
        np.testing.assert_allclose(ours.numpy(force=True), want, rtol=1e-6)


class Tied:
    """A module with one weight under two names, for either library."""

    def __new__(cls, T):
        class Net(T.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = T.nn.Linear(2, 2), T.nn.Linear(2, 2, bias=False)
                self.second.weight = self.first.weight
                self.register_buffer("shift", T.ones(2))

            def forward(self, x):
                return self.second(self.first(x)) + self.shift

        return Net()


def test_functional_call_with_tied_weights():
    def program(T):
        T.manual_seed(0)
        net, call, x = Tied(T), T.func.functional_call, T.ones(1, 2)
        w, v, b = T.eye(2), 2 * T.eye(2), T.zeros(2)
        return tries(
            lambda: call(net, {"first.weight": w, "first.bias": b}, x),
            lambda: call(net, {"second.weight": w, "first.bias": b}, x),
            lambda: call(net, {"first.weight": w, "first.bias": b}, x, tie_weights=False),
            lambda: call(net, {"first.weight": w, "second.weight": w}, x),
            lambda: call(net, {"first.weight": w, "second.weight": v}, x),
            lambda: call(net, {"first.weight": w, "second.weight": v}, x, tie_weights=False),
            lambda: call(net, ({"first.weight": w}, {"shift": b}, {"first.bias": b}), (x,)),
            lambda: call(net, [{"first.weight": w}, {"shift": b}], (), {"x": x}),
            lambda: call(net, ({"first.weight": w}, {"first.weight": w}), x),
            lambda: call(net, ({"first.weight": w}, 3), x),
            lambda: call(net, {"first.weight": w, "first.bias": b, "shift": b}, x, strict=True),
            lambda: call(net, {"first.weight": w, "extra": b}, x, strict=True),
            lambda: net(x),
        )

    same(program, 1e-6)


def test_functional_call_replaces_attributes():
    """Names that are no parameter or buffer: one that is None, a tensor, nothing yet; and what cannot be replaced."""

    def program(T):
        class Net(T.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.count, self.shift = T.nn.ReLU(), 5, T.zeros(1)
                self.register_parameter("bias", None)

            def forward(self, x):
                more = getattr(self, "more", x)
                return [plain(t) for t in (x + self.shift, x if self.bias is None else self.bias, more)]

        net, x, two = Net(), T.ones(1), T.tensor([2.0])
        call = T.func.functional_call
        return [
            *(call(net, {name: two}, x) for name in ("shift", "bias", "more")),
            call(net, {"shift": two, "more": two}, x),
            net(x),
            hasattr(net, "more"),
            *tries(
                *(
                    lambda name=name: call(net, {name: two}, x)
                    for name in ("count", "inner", "count.x", "inner.a.b", "2.weight", "", "inner.inplace")
                )
            ),
        ]

    same(program)


def test_stack_module_state():
    def program(T):
        def nets(count=3):
            T.manual_seed(0)
            return [T.nn.Sequential(T.nn.Linear(2, 2), T.nn.BatchNorm1d(2)) for _ in range(count)]

        stack = T.func.stack_module_state
        models = nets()
        params, buffers = stack(models)
        out = [plain(params), plain(buffers), [(p.requires_grad, p.is_leaf) for p in params.values()]]
        x = T.ones(4, 2)
        for model in models:
            model.eval()
        base = models[0]
        run = T.func.vmap(lambda p, b: T.func.functional_call(base, (p, b), (x,)))(params, buffers)
        out += [plain(run), [plain(model(x)) for model in models]]
        run.sum().backward()
        out += [plain(params["0.weight"].grad)]
        mixed = nets()
        mixed[1].eval()
        return out + tries(
            lambda: stack([]),
            lambda: stack(mixed),
            lambda: stack([T.nn.Linear(1, 1), T.nn.ReLU()]),
        )

    same(program, 1e-5)
