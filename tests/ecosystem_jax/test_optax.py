"""Every transformation of optax as an optimizer: PyTorch's loop and a loop of JAX give the numbers of optax alone."""

from __future__ import annotations

import copy
import inspect
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import functorch_port as ft

sys.path.insert(0, str(Path(__file__).parent))
from transformations import CASES, EXTRA, NAMES, REFUSED, UTILITIES, public

# optax warns of arguments that it will drop
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
RNG = np.random.default_rng(0)
START = {
    name: RNG.standard_normal(shape) * 0.4
    for name, shape in zip(NAMES, ((5, 3), (5,), (2, 5), (2,)), strict=True)
}
X = RNG.standard_normal((6, 16, 3))
Y = np.stack([X.sum(-1), X.prod(-1)], -1)
#: transformations that draw numbers of the default type, which is of 64 bits in an update here
DRAWN = ("contrib.hutchinson_estimator_diag_hessian", "contrib.sophia")
#: without an argument for the loss
NO_LOSS = ("contrib.sam", "contrib.sam, opaque")
RUN = [name for name in CASES if name not in REFUSED]


def loss_of(params, x, y):
    hidden = jnp.tanh(x @ params["0.weight"].T + params["0.bias"])
    return jnp.mean((hidden @ params["2.weight"].T + params["2.bias"] - y) ** 2)


def functions(name, x, y):
    """The functions that the update of this transformation takes."""
    loss = lambda params: loss_of(params, x, y)
    known = {"value_fn": loss, "obj_fn": loss, "grad_fn": lambda params, _: jax.grad(loss)(params)}
    return {key: known[key] for key in EXTRA.get(name, ())}


def by_optax(name, dtype):
    """Losses and final parameters of a loop of JAX and optax alone."""
    with jax.enable_x64(dtype == "float64" or name in DRAWN):
        tx = optax.with_extra_args_support(CASES[name]())
        params = {key: jnp.asarray(value, dtype) for key, value in START.items()}
        if name == "lookahead":
            params = optax.LookaheadParams.init_synced(params)

        @jax.jit
        def step(params, state, x, y):
            fast = getattr(params, "fast", params)
            value, grads = jax.value_and_grad(loss_of)(fast, x, y)
            extra = functions(name, x, y) | ({} if name in NO_LOSS else {"value": value})
            if "value_fn" in extra:
                extra["grad"] = grads
            updates, state = tx.update(grads, state, params, **extra)
            return optax.apply_updates(params, updates), state, value

        state, losses = tx.init(params), []
        for x, y in zip(X.astype(dtype), Y.astype(dtype), strict=True):
            params, state, value = step(params, state, x, y)
            losses.append(float(value))
        return losses, jax.tree.map(np.asarray, getattr(params, "fast", params))


class Ours:
    """The same in PyTorch's words."""

    def __init__(self, name, dtype, start=START):
        self.net = ft.nn.Sequential(ft.nn.Linear(3, 5), ft.nn.Tanh(), ft.nn.Linear(5, 2))
        self.net.to(getattr(ft, dtype)).load_state_dict(
            {key: ft.tensor(value) for key, value in start.items()}
        )
        self.optimizer = ft.optim.from_optax(CASES[name](), self.net.named_parameters())
        self.name = name
        self.batches = [
            (ft.tensor(x), ft.tensor(y)) for x, y in zip(X.astype(dtype), Y.astype(dtype), strict=True)
        ]

    def step(self, x, y):
        def closure():
            self.optimizer.zero_grad()
            loss = ft.nn.functional.mse_loss(self.net(x), y)
            loss.backward()
            return loss

        return self.optimizer.step(closure, **functions(self.name, x.jax(), y.jax()))

    def values(self):
        return {key: value.detach().numpy().copy() for key, value in self.net.state_dict().items()}

    def eager(self):
        return [self.step(x, y).item() for x, y in self.batches], self.values()

    def compiled(self):
        step = ft.compile(self.step)
        return [step(x, y).item() for x, y in self.batches], self.values()

    def scanned(self):
        pure = ft.functionalize(self.step)
        state = pure.state(*self.batches[0])
        stacked = [jnp.stack([pair[i].jax() for pair in self.batches]) for i in (0, 1)]
        state, losses = jax.lax.scan(lambda state, batch: pure(state, *batch)[::-1], state, stacked)
        pure.load(state)
        return [float(loss) for loss in losses], self.values()


def close(got, want, bound):
    np.testing.assert_allclose(got[0], want[0], rtol=bound, atol=bound)
    for key, value in want[1].items():
        np.testing.assert_allclose(got[1][key], value, rtol=bound, atol=bound, err_msg=key)


def test_every_name_of_optax_is_here():
    assert public() == {name for name in CASES if "," not in name} | UTILITIES


@pytest.mark.parametrize("name", RUN)
def test_numbers_are_those_of_optax_alone(name):
    want = by_optax(name, "float64")
    assert name == "set_to_zero" or want[0][0] != want[0][-1]
    close(Ours(name, "float64").eager(), want, 1e-10)
    close(Ours(name, "float64").compiled(), want, 1e-10)
    with jax.enable_x64(True):
        close(Ours(name, "float64").scanned(), want, 1e-10)
    # where optax computes powers of the betas in float32, they are of float64 here
    close(Ours(name, "float32").eager(), by_optax(name, "float32"), 5e-5)


@pytest.mark.parametrize("name", RUN)
def test_a_saved_state_goes_on(name):
    whole, half = Ours(name, "float32"), Ours(name, "float32")
    want = whole.eager()
    for x, y in half.batches[:3]:
        half.step(x, y)
    saved = copy.deepcopy(half.optimizer.state_dict())
    other = Ours(name, "float32", half.values())
    other.optimizer.load_state_dict(saved)
    losses = [other.step(x, y).item() for x, y in other.batches[3:]]
    np.testing.assert_allclose(losses, want[0][3:], rtol=2e-6)
    for key, value in want[1].items():
        np.testing.assert_allclose(other.values()[key], value, rtol=2e-5, atol=1e-6, err_msg=key)


def by_name(name):
    home, _, last = name.rpartition(".")
    return getattr(optax.contrib if home else optax, last)


#: optimizers by the functions that make them, whose arguments go into the groups
FACTORIES = [
    name
    for name in RUN
    if "," not in name
    and "learning_rate" in inspect.signature(by_name(name)).parameters
    and name not in ("contrib.schedule_free", "scale_by_learning_rate")
]


@pytest.mark.parametrize("name", FACTORIES)
def test_a_function_with_its_numbers_in_the_groups(name):
    signature = inspect.signature(by_name(name)).parameters
    rate = None if signature["learning_rate"].default is None else 0.05
    more = {"key": jax.random.key(0)} if "key" in signature else {}
    twin = Ours(name, "float64")
    twin.optimizer = ft.optim.from_optax(by_name(name)(rate, **more), twin.net.named_parameters())
    ours = Ours(name, "float64")
    ours.optimizer = ft.optim.from_optax(by_name(name), ours.net.named_parameters(), lr=rate, **more)
    assert rate is None or ours.optimizer.param_groups[0]["lr"] == 0.05
    want, got = ([one.step(x, y).item() for x, y in one.batches[:3]] for one in (twin, ours))
    # optax rounds a number to the type of its own first, and so do the groups
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_an_optimizer_is_refused(name):
    kind, text = REFUSED[name]
    ours = Ours(name, "float32")
    with pytest.raises(kind, match=text):
        ours.step(*ours.batches[0])
    for key, value in ours.values().items():
        np.testing.assert_array_equal(value, START[key].astype("float32"))


def test_an_update_of_another_shape_is_refused():
    """dpsgd takes the rows of a gradient for gradients of examples if all parameters have as many."""
    w = ft.nn.Parameter(ft.ones(4, 3))
    optimizer = ft.optim.from_optax(CASES["contrib.dpsgd"](), [w])
    w.grad = ft.ones(4, 3)
    with pytest.raises(ValueError, match="a gradient of each example"):
        optimizer.step()
    assert w.tolist() == [[1.0] * 3] * 4


def test_an_argument_that_is_missing_names_the_way():
    ours = Ours("lbfgs", "float32")
    ours.net(ours.batches[0][0]).sum().backward()
    with pytest.raises(TypeError) as caught:
        ours.optimizer.step()
    assert "step(value=loss, value_fn=fn)" in caught.value.__notes__[0]


def test_the_loss_without_a_closure():
    ours, twin = Ours("polyak_sgd", "float64"), Ours("polyak_sgd", "float64")
    for x, y in ours.batches:
        ours.optimizer.zero_grad()
        loss = ft.nn.functional.mse_loss(ours.net(x), y)
        loss.backward()
        ours.optimizer.step(value=loss)
    close(([], ours.values()), ([], twin.eager()[1]), 0)


def test_state_of_another_type_than_the_parameter_is_loaded_as_it_was():
    tx = optax.adam(0.1, mu_dtype=jnp.bfloat16)
    w = ft.nn.Parameter(ft.ones(3))
    optimizer = ft.optim.from_optax(tx, [w])
    w.grad = ft.tensor([0.3, 0.1, 0.7])
    optimizer.step()
    other = ft.optim.from_optax(tx, [ft.nn.Parameter(ft.ones(3))])
    other.load_state_dict(optimizer.state_dict())
    for tree in (optimizer, other):
        assert optax.tree.get(tree.optax_state(), "mu")["0"].dtype == jnp.bfloat16


def test_functions_of_optax_take_the_state():
    ours = Ours("contrib.schedule_free_sgd", "float64")
    ours.eager()
    with jax.enable_x64(True):
        tx = CASES[ours.name]()
        params = {key: jnp.asarray(value) for key, value in START.items()}
        state = tx.init(params)
        for x, y in zip(X, Y, strict=True):
            updates, state = tx.update(jax.grad(loss_of)(params, x, y), state, params)
            params = optax.apply_updates(params, updates)
        want = optax.contrib.schedule_free_eval_params(state, params)
        now = {key: jnp.asarray(value) for key, value in ours.values().items()}
        got = optax.contrib.schedule_free_eval_params(ours.optimizer.optax_state(), now)
    for key in NAMES:
        np.testing.assert_allclose(got[key], want[key], rtol=1e-10)
