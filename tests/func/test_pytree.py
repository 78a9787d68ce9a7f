"""`func.pure`: a module inside plain JAX code, with optax, and back."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import functorch_port as torch


class Net(torch.nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.first = torch.nn.Linear(3, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.second = torch.nn.Linear(4, 4)
        self.second.weight = torch.nn.Parameter(torch.ones(4, 4) / 4)
        self.tied = self.second
        self.drop = torch.nn.Dropout(dropout)
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x, scale=1.0):
        self.calls = self.calls + 1
        h = self.norm(self.first(x)).relu()
        return {"out": self.drop(self.tied(self.second(h))) * scale, "n": 3}


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=(8, 3)), jnp.float32), jnp.asarray(
        rng.normal(size=(8, 4)), jnp.float32
    )


def eager_training(net, x, y, steps):
    x, y = torch.from_numpy(np.array(x)), torch.from_numpy(np.array(y))
    opt, losses = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), []
    for _ in range(steps):
        opt.zero_grad()
        loss = (net(x)["out"] - y).pow(2).mean()
        loss.backward()
        opt.step()
        losses.append(float(loss.detach()))
    return losses


def test_training_with_optax_is_training_the_module():
    torch.manual_seed(0)
    net, (x, y) = Net(), arrays()
    twin = Net()
    twin.load_state_dict(net.state_dict())
    apply, params, buffers = torch.func.pure(net)
    assert sorted(params) == sorted(dict(net.named_parameters())) and "calls" in buffers
    tx = optax.sgd(0.1, momentum=0.9)
    traces = itertools.count()

    def loss_of(params, buffers, x, y):
        next(traces)
        out, buffers = apply(params, buffers, x)
        assert isinstance(out["out"], jax.Array) and out["n"] == 3
        return jnp.mean((out["out"] - y) ** 2), buffers

    @jax.jit
    def step(params, buffers, state, x, y):
        (loss, buffers), grads = jax.value_and_grad(loss_of, has_aux=True)(params, buffers, x, y)
        updates, state = tx.update(grads, state)
        return optax.apply_updates(params, updates), buffers, state, loss

    state, losses = tx.init(params), []
    for _ in range(5):
        params, buffers, state, loss = step(params, buffers, state, x, y)
        losses.append(float(loss))
    assert next(traces) <= 2  # dtypes settle after the first call where JAX has no int64
    np.testing.assert_allclose(losses, eager_training(twin, x, y, 5), rtol=1e-5)
    before = {name: np.array(p.detach()) for name, p in net.named_parameters()}
    assert float(net.calls) == 0  # the module was not touched
    torch.func.load_pytree(net, params, buffers)
    assert float(net.calls) == 5 and net.norm.num_batches_tracked.dtype is torch.int64
    for (name, ours), (_, theirs) in zip(net.state_dict().items(), twin.state_dict().items(), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-4, atol=1e-5, err_msg=name)
    assert any(not np.allclose(before[n], np.array(p.detach())) for n, p in net.named_parameters())


def test_vmap_over_stacked_modules_and_hessians():
    nets = [torch.nn.Linear(2, 1) for _ in range(3)]
    made = [torch.func.pure(net) for net in nets]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[m.params for m in made])
    x = jnp.ones((5, 2))
    out = jax.vmap(lambda p: made[0].apply(p, {}, x)[0])(stacked)
    for net, row in zip(nets, out, strict=True):
        np.testing.assert_allclose(row, np.array(net(torch.ones(5, 2)).detach()), rtol=1e-6)
    hessian = jax.hessian(lambda p: jnp.sum(made[0].apply(p, {}, x)[0] ** 2))(made[0].params)
    np.testing.assert_allclose(hessian["bias"]["bias"], [[10.0]], rtol=1e-6)


def test_random_numbers_come_from_the_key():
    apply, params, buffers = torch.func.pure(Net(dropout=0.5))
    x, _ = arrays()
    call = jax.jit(lambda key: apply(params, buffers, x, rng=key)[0]["out"])
    a, b, c = call(jax.random.key(0)), call(jax.random.key(0)), call(jax.random.key(1))
    assert (a == b).all() and (a != c).any()
    with pytest.raises(RuntimeError, match="rng="):
        apply(params, buffers, x)


def test_eval_mode_keywords_and_errors():
    net = Net().eval()
    apply, params, buffers = torch.func.pure(net)
    x, _ = arrays()
    out, after = apply(params, buffers, x, scale=2.0)
    np.testing.assert_allclose(
        out["out"], 2 * np.array(net(torch.from_numpy(np.array(x)))["out"].detach()), rtol=1e-6, atol=1e-6
    )
    assert (after["norm.running_mean"] == buffers["norm.running_mean"]).all()
    with pytest.raises(KeyError, match="has no 'third'"):
        torch.func.load_pytree(net, {"third": x})
    with pytest.raises(ValueError, match="shape"):
        torch.func.load_pytree(net, {"first.bias": x})


def test_a_tensor_is_a_node_whose_leaf_may_be_anything():
    """As JAX requires of nodes: `jax.tree.map` may put shapes or marks in place of arrays."""
    shapes = jax.tree.map(lambda x: x.shape, {"w": torch.ones(2, 3)})
    assert repr(shapes) == "{'w': tensor((2, 3))}" and jax.tree.leaves(shapes) == [2, 3]
    marks = jax.tree.map(lambda x: x.ndim > 1, {"w": torch.ones(2, 3), "b": torch.ones(2)})
    assert jax.tree.structure(marks) == jax.tree.structure({"w": torch.ones(1), "b": torch.ones(1)})
    assert (
        jax.tree.map(lambda m, x: x * 2 if m else x, marks, {"w": torch.ones(1), "b": torch.ones(1)})[
            "w"
        ].item()
        == 2
    )
