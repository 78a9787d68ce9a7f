"""Stochastic variational inference with a guide of its own and an automatic one; HMC of a regression; a param store."""

import json

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import HMC, MCMC, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDiagonalNormal
from pyro.optim import Adam

torch.set_default_dtype(torch.float64)
pyro.set_rng_seed(0)
x = torch.linspace(-1, 1, 20)
y = 2 * x - 0.5 + 0.1 * torch.randn(20)


def model(x, y):
    slope = pyro.sample("slope", dist.Normal(0.0, 3.0))
    offset = pyro.sample("offset", dist.Normal(0.0, 3.0))
    noise = pyro.sample("noise", dist.LogNormal(-1.0, 1.0))
    with pyro.plate("points", len(x)):
        pyro.sample("y", dist.Normal(slope * x + offset, noise), obs=y)


def guide(x, y):
    for name in ("slope", "offset"):
        loc = pyro.param(f"{name}_loc", torch.tensor(0.1))
        scale = pyro.param(f"{name}_scale", torch.tensor(0.5), constraint=dist.constraints.positive)
        pyro.sample(name, dist.Normal(loc, scale))
    loc = pyro.param("noise_loc", torch.tensor(-1.0))
    pyro.sample("noise", dist.LogNormal(loc, pyro.param("noise_scale", torch.tensor(0.3))))


svi = SVI(model, guide, Adam({"lr": 0.05}), loss=Trace_ELBO())
found = {"losses": [svi.step(x, y) for _ in range(8)]}
found["params"] = {name: value.item() for name, value in sorted(pyro.get_param_store().items())}
pyro.get_param_store().save("store")
pyro.clear_param_store()
pyro.get_param_store().load("store")
found["loaded"] = sorted(pyro.get_param_store().keys())
pyro.clear_param_store()
auto = AutoDiagonalNormal(model)
svi = SVI(model, auto, Adam({"lr": 0.05}), loss=Trace_ELBO(num_particles=2))
found["automatic"] = [svi.step(x, y) for _ in range(4)]
found["median"] = {name: value.item() for name, value in auto.median(x, y).items()}
pyro.set_rng_seed(1)
chain = MCMC(
    HMC(model, step_size=0.02, num_steps=3, adapt_step_size=False),
    num_samples=4,
    warmup_steps=2,
    disable_progbar=True,
)
chain.run(x, y)
found["chain"] = {name: value.tolist() for name, value in sorted(chain.get_samples().items())}
trace = pyro.poutine.trace(pyro.poutine.condition(model, {"slope": torch.tensor(2.0)})).get_trace(x, y)
found["log_prob"] = trace.log_prob_sum().item()
print(json.dumps(found))
