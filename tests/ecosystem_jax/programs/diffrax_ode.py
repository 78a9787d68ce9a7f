"""A neural ODE: Diffrax solves it, the field is our module, and our loop trains it."""

import diffrax
import jax.numpy as jnp
import numpy as np
from common import batches, jax_losses, mean_square, our_losses

import functorch_port as torch

WEIGHT = np.random.default_rng(5).standard_normal((3, 3)).astype(np.float32) * np.float32(0.3)


def solve(field, params, y0):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, params: field(params, y)), diffrax.Tsit5(), 0.0, 1.0, 0.1, y0, params,
        stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6), adjoint=diffrax.DirectAdjoint(), max_steps=64,
    )  # fmt: skip
    return solution.ys[0]


def theirs():
    def loss(params, x, y):
        end = solve(lambda p, y: jnp.tanh(y @ p["weight"].T), params, x)
        return mean_square(end.sum(-1, keepdims=True), y)

    return {"losses": jax_losses(loss, {"weight": jnp.asarray(WEIGHT)}, batches(), 0.02)}


def ours():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Tanh())
    apply, _, _ = torch.func.pure(module)
    solved = torch.func.from_jax(lambda w, y0: solve(lambda p, y: apply(p, {}, y)[0], {"0.weight": w}, y0))
    weight = module[0].weight
    weight.data.copy_(torch.tensor(WEIGHT))

    def loss(x, y):
        return ((solved(weight, x).sum(-1, keepdim=True) - y) ** 2).mean()

    return {"losses": our_losses(loss, [weight], batches(), 0.02)}
