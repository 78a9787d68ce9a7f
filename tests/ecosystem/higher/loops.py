"""Gradients through steps of optimizers: learned rates, a model's start for several tasks."""

import json

import higher
import torch
from torch.nn import functional as F

torch.manual_seed(0)
found = {}
for name, make in {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "adam": lambda params: torch.optim.Adam(params, lr=0.1),
    "rmsprop": lambda params: torch.optim.RMSprop(params, lr=0.1),
}.items():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    inner, outer = make(model.parameters()), torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for task in range(3):
        rows = torch.randn(16, 2)
        goal = (rows * (task + 1)).sin().sum(1, keepdim=True)
        outer.zero_grad()
        with higher.innerloop_ctx(model, inner, copy_initial_weights=False) as (fast, steps):
            for _ in range(3):
                steps.step(F.mse_loss(fast(rows[:8]), goal[:8]))
            loss = F.mse_loss(fast(rows[8:]), goal[8:])
            loss.backward()
        outer.step()
        losses.append(loss.item())
    found[name] = [losses, [p.grad.norm().item() for p in model.parameters()]]
rate = torch.tensor(0.1, requires_grad=True)
rows = torch.randn(8, 2)
model = torch.nn.Linear(2, 1)
with higher.innerloop_ctx(model, torch.optim.SGD(model.parameters(), lr=0.1), override={"lr": [rate]}) as (
    fast,
    steps,
):
    for _ in range(2):
        steps.step(fast(rows).square().mean())
    fast(rows).square().mean().backward()
found["rate"] = rate.grad.item()
print(json.dumps(found))
