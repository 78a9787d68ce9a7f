"""A Gaussian process fitted, its acquisition functions by Monte Carlo and in closed form, a candidate by one."""

import json
import warnings

import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound, qExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.mlls import ExactMarginalLogLikelihood

warnings.simplefilter("ignore")
torch.manual_seed(0)
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
x = draw_sobol_samples(bounds, n=8, q=1, seed=1).squeeze(1)
y = -((x - 0.4) ** 2).sum(-1, keepdim=True)
model = SingleTaskGP(x, y)
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
found = {"points": x.tolist(), "tolerance": 1e-3}  # two optimizers by L-BFGS stop where steps get small
points = torch.tensor([[[0.2, 0.3]], [[0.6, 0.5]]], dtype=torch.float64)
posterior = model.posterior(points)
found["posterior"] = [posterior.mean.tolist(), posterior.variance.tolist()]
found["improvement"] = LogExpectedImprovement(model, best_f=y.max())(points).tolist()
found["bound"] = UpperConfidenceBound(model, beta=0.2)(points).tolist()
sampler = SobolQMCNormalSampler(torch.Size([16]), seed=3)
found["sampled"] = qExpectedImprovement(model, best_f=y.max(), sampler=sampler)(points).tolist()
torch.manual_seed(2)
candidate, value = optimize_acqf(
    UpperConfidenceBound(model, beta=0.2), bounds=bounds, q=1, num_restarts=2, raw_samples=8
)
found["candidate"] = candidate.tolist()
print(json.dumps(found))
