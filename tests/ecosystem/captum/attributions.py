"""Attributions of a small network: by gradients, along paths, by occlusion, of layers and neurons, by Shapley."""

import json

import numpy as np
import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GradientShap,
    IntegratedGradients,
    LayerConductance,
    LayerGradCam,
    NeuronGradient,
    NoiseTunnel,
    Occlusion,
    Saliency,
    ShapleyValueSampling,
)  # fmt: skip

torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(48, 8), torch.nn.ReLU(),
    torch.nn.Linear(8, 3),
).eval()  # fmt: skip
x = torch.randn(2, 1, 6, 6, requires_grad=True)
base = torch.zeros_like(x)
found = {}


def kept(name, value):
    found[name] = [value.sum().item(), value.flatten()[:8].tolist()]


kept("saliency", Saliency(net).attribute(x, target=1))
value, delta = IntegratedGradients(net).attribute(x, base, target=1, n_steps=8, return_convergence_delta=True)
kept("integrated", value)
found["delta"] = delta.tolist()
kept("deeplift", DeepLift(net).attribute(x, base, target=torch.tensor([0, 2])))
kept("occlusion", Occlusion(net).attribute(x, sliding_window_shapes=(1, 2, 2), strides=(1, 2, 2), target=0))
kept(
    "ablation",
    FeatureAblation(net).attribute(x, target=0, feature_mask=torch.arange(36).reshape(1, 1, 6, 6) // 9),
)
kept("conductance", LayerConductance(net, net[3]).attribute(x, target=2, n_steps=5))
kept("cam", LayerGradCam(net, net[0]).attribute(x, target=2))
kept("neuron", NeuronGradient(net, net[3]).attribute(x, neuron_selector=1))
torch.manual_seed(1)
np.random.seed(1)  # of which `GradientShap` draws
kept("shap", GradientShap(net).attribute(x, torch.cat([base, base + 0.1]), target=1, n_samples=4, stdevs=0.1))
kept("noisy", NoiseTunnel(Saliency(net)).attribute(x, nt_samples=3, stdevs=0.2, target=1))
small = torch.nn.Linear(4, 2)
kept("shapley", ShapleyValueSampling(small).attribute(torch.randn(1, 4), target=0, n_samples=3))
print(json.dumps(found))
