"""Points that stay on their manifolds: a ball, a sphere, orthogonal and positive matrices; two optimizers."""

import json

import geoopt
import torch

torch.manual_seed(0)
found = {"tolerance": 1e-6}
torch.set_default_dtype(torch.float64)
cases = {
    "ball": (geoopt.PoincareBall(c=1.0), (4, 3)),
    "lorentz": (geoopt.Lorentz(), (4, 4)),
    "sphere": (geoopt.Sphere(), (4, 3)),
    "stiefel": (geoopt.Stiefel(), (5, 3)),
    "positive": (geoopt.SymmetricPositiveDefinite(), (3, 3)),
}
for name, (manifold, shape) in cases.items():
    torch.manual_seed(1)
    start, goal = (manifold.projx(0.3 * torch.randn(shape)) for _ in range(2))
    for make in (geoopt.optim.RiemannianSGD, geoopt.optim.RiemannianAdam):
        point = geoopt.ManifoldParameter(start.clone(), manifold=manifold)
        optimizer, losses = make([point], lr=0.05, stabilize=2), []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (point - goal).square().sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        found[f"{name}, {make.__name__}"] = [
            losses,
            point.tolist(),
            manifold.check_point_on_manifold(point, rtol=1e-4),
        ]
ball = cases["ball"][0]
a, b = ball.projx(0.3 * torch.randn(2, 3)), ball.projx(0.3 * torch.randn(2, 3))
for name in ("dist", "logmap", "mobius_add"):
    found[name] = getattr(ball, name)(a, b).tolist()
found["moved"] = ball.expmap(a, 0.1 * b).tolist()
print(json.dumps(found))
