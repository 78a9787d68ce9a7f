"""jaxopt and Optimistix minimise the loss of our module."""

import jax.numpy as jnp
import jaxopt
import numpy as np
import optimistix
from common import X, Y

import functorch_port as torch

START = {
    "0.weight": np.full((4, 3), 0.1, "float32") * np.arange(4)[:, None].astype("float32"),
    "0.bias": np.zeros(4, "float32"),
    "2.weight": np.full((1, 4), 0.2, "float32"),
    "2.bias": np.zeros(1, "float32"),
}


def solved(predict):
    def loss(params, _=None):
        return jnp.mean((predict(params, X[0]) - Y[0]) ** 2)

    found = jaxopt.LBFGS(fun=loss, maxiter=8).run(START)
    other = optimistix.minimise(
        loss, optimistix.BFGS(rtol=1e-3, atol=1e-3), {k: jnp.asarray(v) for k, v in START.items()},
        max_steps=8, throw=False,
    )  # fmt: skip
    least = optimistix.least_squares(
        lambda params, _: predict(params, X[0]) - Y[0],
        optimistix.LevenbergMarquardt(rtol=1e-3, atol=1e-3),
        {k: jnp.asarray(v) for k, v in START.items()}, max_steps=4, throw=False,
    )  # fmt: skip
    return {"jaxopt": loss(found.params), "optimistix": loss(other.value), "least squares": loss(least.value)}


def theirs():
    def predict(p, x):
        return jnp.tanh(x @ p["0.weight"].T + p["0.bias"]) @ p["2.weight"].T + p["2.bias"]

    return solved(predict)


def ours():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    apply, _, _ = torch.func.pure(net)
    return solved(lambda params, x: apply(params, {}, x)[0])
