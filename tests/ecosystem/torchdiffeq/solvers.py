"""Ordinary differential equations by several methods, gradients by the adjoint, and an event."""

import json

import torch
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
times = torch.linspace(0.0, 1.0, 5)


class Flow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    def forward(self, t, y):
        return self.net(y) * torch.cos(t)


flow, start = Flow(), torch.tensor([[1.0, -0.5]])
found = {}
for method in ("dopri5", "dopri8", "bosh3", "rk4", "euler", "explicit_adams", "implicit_adams"):
    found[method] = odeint(flow, start, times, method=method).tolist()
for name, solve in (("direct", odeint), ("adjoint", odeint_adjoint)):
    flow.zero_grad()
    solve(flow, start, times).square().sum().backward()
    found[name] = [p.grad.sum().item() for p in flow.parameters()]
where, path = odeint_event(
    lambda t, y: torch.stack([y[1], -torch.ones_like(y[1]) * 9.8]), torch.tensor([2.0, 0.0]), torch.tensor(0.0),
    event_fn=lambda t, y: y[0],
)  # fmt: skip
found["event"] = [where.item(), path[-1].tolist()]
print(json.dumps(found))
