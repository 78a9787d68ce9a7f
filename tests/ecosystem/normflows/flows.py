"""Normalizing flows: RealNVP, Glow's parts, residual and spline flows, with their losses and samples."""

import json

import normflows as nf
import torch
from training import descend

torch.manual_seed(0)
points = nf.distributions.TwoMoons().sample(32).double()
found = {"tolerance": 1e-6}


def coupled():
    layers = []
    for _ in range(3):
        layers.append(nf.flows.AffineCouplingBlock(nf.nets.MLP([1, 16, 2], init_zeros=True)))
        layers += [nf.flows.Permute(2, mode="swap"), nf.flows.ActNorm(2)]
    return nf.NormalizingFlow(nf.distributions.DiagGaussian(2), layers)


def splines():
    layers = []
    for _ in range(2):
        layers.append(nf.flows.AutoregressiveRationalQuadraticSpline(2, 1, 16))
        layers.append(nf.flows.LULinearPermute(2))
    return nf.NormalizingFlow(nf.distributions.DiagGaussian(2, trainable=False), layers)


def residual():
    net = nf.nets.LipschitzMLP([2, 16, 2], init_zeros=True, lipschitz_const=0.9)
    return nf.NormalizingFlow(nf.distributions.DiagGaussian(2), [nf.flows.Residual(net, reduce_memory=True)])


for name, make in {"coupled": coupled, "splines": splines, "residual": residual}.items():
    torch.manual_seed(1)
    flow = make().double()  # the norm makes gradients of rounding alone, which AdamW does not see in float64
    found[name] = descend(flow, lambda net: net.forward_kld(points), lr=1e-2)
    torch.manual_seed(2)
    with torch.no_grad():
        samples, logs = flow.sample(4)
    found[name]["samples"] = [samples.tolist(), logs.tolist()]
print(json.dumps(found))
