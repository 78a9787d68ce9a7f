"""Sparse maps to probabilities: sparsemax, entmax, by bisection with a learned power; their losses and gradients."""

import json

import entmax
import torch

torch.manual_seed(0)
rows, labels = torch.randn(5, 9), torch.randint(9, (5,))
found = {}
for name, of in {
    "sparsemax": lambda x: entmax.sparsemax(x, dim=-1),
    "first": lambda x: entmax.sparsemax(x, dim=-1, k=4),
    "entmax15": lambda x: entmax.entmax15(x, dim=0),
    "bisected": lambda x: entmax.entmax_bisect(x, alpha=1.3),
    "sparsemax bisected": lambda x: entmax.sparsemax_bisect(x),
    "normmax": lambda x: entmax.normmax_bisect(x, alpha=2),
    "budget": lambda x: entmax.budget_bisect(x, budget=2),
    "loss": lambda x: entmax.sparsemax_loss(x, labels),
    "loss 1.5": lambda x: entmax.entmax15_loss(x, labels),
    "loss of a power": lambda x: entmax.EntmaxBisectLoss(alpha=1.7, reduction="none")(x, labels),
}.items():
    x = rows.clone().requires_grad_()
    out = of(x)
    (out * torch.arange(out.numel()).view(out.shape)).sum().backward()
    found[name] = [out.tolist(), x.grad.tolist()]
alpha = torch.full((5, 1), 1.5, requires_grad=True)
out = entmax.entmax_bisect(rows, alpha)
out[:, 0].sum().backward()
found["power"] = alpha.grad.tolist()
layer = torch.nn.Sequential(torch.nn.Linear(9, 4), entmax.Entmax15(dim=-1))
found["layer"] = layer(rows).tolist()
print(json.dumps(found))
