"""Normalizing flows: masked autoregressive ones by affine maps and splines, with a context, and a continuous one."""

import json

import torch
import zuko
from training import descend

torch.manual_seed(0)
points = torch.randn(32, 3, dtype=torch.float64).exp().log1p()
context = torch.randn(32, 2, dtype=torch.float64)
found = {"tolerance": 1e-6}
for name, make in {
    "maf": lambda: zuko.flows.MAF(3, 2, transforms=2, hidden_features=(16, 16)),
    "spline": lambda: zuko.flows.NSF(3, 2, transforms=2, bins=4, hidden_features=(16,)),
    "circular": lambda: zuko.flows.NCSF(3, 2, transforms=1, hidden_features=(16,)),
    "gaussians": lambda: zuko.flows.GMM(3, 2, components=3, hidden_features=(16,)),
    "polynomials": lambda: zuko.flows.BPF(3, 2, transforms=1, degree=4, hidden_features=(16,)),
    "volume": lambda: zuko.flows.NICE(3, 2, transforms=2, hidden_features=(16,)),
    "unconstrained": lambda: zuko.flows.NAF(3, 2, transforms=1, hidden_features=(16,)),
    "continuous": lambda: zuko.flows.CNF(3, 2, hidden_features=(16,)),
}.items():
    torch.manual_seed(1)
    flow = make().double()
    found[name] = descend(flow, lambda net: -net(context).log_prob(points).mean(), lr=1e-2)
    torch.manual_seed(2)
    with torch.no_grad():
        found[name]["samples"] = flow(context[:2]).sample((2,)).tolist()
print(json.dumps(found))
