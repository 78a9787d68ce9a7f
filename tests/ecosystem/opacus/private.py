"""Training with differential privacy: gradients of single rows, clipped and noised, for several layers; the budget."""

import json
import warnings

import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.accountants import RDPAccountant
from opacus.validators import ModuleValidator
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from training import classify, digits

warnings.simplefilter("ignore")
torch.manual_seed(0)
found = {}
for name, make, rows in (
    ("linear", lambda: torch.nn.Linear(16, 4), torch.randn(6, 16)),
    ("convolution", lambda: torch.nn.Conv2d(2, 3, 3, padding=1), torch.randn(6, 2, 5, 5)),
    ("norm", lambda: torch.nn.GroupNorm(2, 4), torch.randn(6, 4, 5)),
    ("layer norm", lambda: torch.nn.LayerNorm(5), torch.randn(6, 4, 5)),
    ("embedding", lambda: torch.nn.Embedding(7, 3), torch.randint(7, (6, 4))),
):
    torch.manual_seed(1)
    layer = GradSampleModule(make())
    layer(rows).square().sum().backward()
    found[name] = {n: p.grad_sample.flatten(1).norm(dim=1).tolist() for n, p in layer.named_parameters()}
by_func = GradSampleModule(torch.nn.Conv1d(2, 3, 3), force_functorch=True)
by_func(torch.randn(6, 2, 8)).square().sum().backward()
found["by vmap"] = [p.grad_sample.flatten(1).norm(dim=1).tolist() for p in by_func.parameters()]
fixed = ModuleValidator.fix(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)))
found["fixed"] = [type(m).__name__ for m in fixed]
torch.manual_seed(2)
batch = digits()
model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
engine = PrivacyEngine()
model, optimizer, loader = engine.make_private(
    module=model, optimizer=optimizer, data_loader=DataLoader(TensorDataset(*batch), batch_size=16),
    noise_multiplier=1.0, max_grad_norm=1.0,
)  # fmt: skip
losses = []
for _ in range(2):
    for rows, labels in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(rows), labels)
        loss.backward()
        optimizer.step()
        losses.append([len(rows), loss.item()])
found["losses"], found["epsilon"] = losses, engine.get_epsilon(1e-5)
found["after"] = classify(model, batch).item()
accountant = RDPAccountant()
for _ in range(10):
    accountant.step(noise_multiplier=1.1, sample_rate=0.1)
found["accountant"] = accountant.get_epsilon(1e-5)
print(json.dumps(found))
