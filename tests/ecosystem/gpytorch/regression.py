"""A Gaussian process: its hyperparameters by Adam, the posterior, a kernel with several lengths, a variational one."""

import json

import gpytorch
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
x = torch.linspace(0, 1, 15)
y = torch.sin(6 * x) + 0.1 * torch.randn(15)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, points):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(points))
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, distribution))
        self.mean = gpytorch.means.ZeroMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def fit(model, likelihood, objective, steps):
    model.train()
    likelihood.train()
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    likelihood.eval()
    return losses


found = {}
likelihood = gpytorch.likelihoods.GaussianLikelihood()
exact = Exact(likelihood)
found["losses"] = fit(exact, likelihood, gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, exact), 4)
points = torch.tensor([0.05, 0.5, 1.2])
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    seen = likelihood(exact(points))
    found["posterior"] = [seen.mean.tolist(), seen.variance.tolist()]
    found["region"] = [side.tolist() for side in seen.confidence_region()]
    torch.manual_seed(1)
    found["samples"] = exact(points).rsample(torch.Size([2])).tolist()
ard = gpytorch.kernels.RBFKernel(ard_num_dims=3) + gpytorch.kernels.LinearKernel()
found["kernel"] = ard(torch.rand(4, 3)).to_dense().tolist()
torch.manual_seed(2)
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Variational(torch.linspace(0, 1, 5).unsqueeze(-1))
found["variational"] = fit(model, likelihood, gpytorch.mlls.VariationalELBO(likelihood, model, 15), 3)
found["state"] = sorted(model.state_dict())
print(json.dumps(found))
