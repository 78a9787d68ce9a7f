"""A stochastic differential equation by two methods, with gradients directly and by the adjoint."""

import json

import torch
import torchsde

torch.set_default_dtype(torch.float64)


class Walk(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.noise_type, self.sde_type = "diagonal", kind
        self.drift, self.spread = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.spread(y).sigmoid()


found = {}
times, start = torch.linspace(0, 1, 4), torch.full((2, 3), 0.1)
for kind, method in (
    ("ito", "euler"),
    ("ito", "milstein"),
    ("stratonovich", "midpoint"),
    ("stratonovich", "heun"),
):
    torch.manual_seed(0)
    walk = Walk(kind)
    motion = torchsde.BrownianInterval(0.0, 1.0, size=(2, 3), entropy=7)
    path = torchsde.sdeint(walk, start, times, bm=motion, method=method, dt=0.1)
    path.square().sum().backward()
    found[method] = [path[-1].tolist(), [p.grad.sum().item() for p in walk.parameters()]]
torch.manual_seed(0)
walk = Walk("stratonovich")
motion = torchsde.BrownianInterval(0.0, 1.0, size=(2, 3), entropy=7)
path = torchsde.sdeint_adjoint(walk, start, times, bm=motion, method="midpoint", dt=0.1)
path.square().sum().backward()
found["adjoint"] = [p.grad.sum().item() for p in walk.parameters()]
print(json.dumps(found))
