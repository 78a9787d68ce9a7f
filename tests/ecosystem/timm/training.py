"""A training script's parts: augmentation by mixup, AdamW by `create_optimizer`, a schedule, an average, features."""

import json

import numpy as np
import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, accuracy

torch.manual_seed(0)
np.random.seed(0)
model = timm.create_model("resnet10t", num_classes=4, drop_path_rate=0.1)
images, labels = torch.randn(8, 3, 64, 64), torch.arange(8) % 4
mixup = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, num_classes=4, label_smoothing=0.1)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
schedule = CosineLRScheduler(optimizer, t_initial=4, warmup_t=1, warmup_lr_init=1e-5)
average = ModelEmaV3(model, decay=0.9)
losses, rates = [], []
for epoch in range(3):
    x, y = mixup(images, labels)
    loss = SoftTargetCrossEntropy()(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update(model)
    schedule.step(epoch + 1)
    losses.append(loss.item())
    rates.append(optimizer.param_groups[0]["lr"])
average.module.eval()
out = average.module(images)
pyramid = timm.create_model("mobilenetv3_small_050", features_only=True)(images[:2])
found = {
    "losses": losses,
    "rates": rates,
    "groups": [len(group["params"]) for group in optimizer.param_groups],
    "averaged": out[0].tolist(),
    "accuracy": [a.item() for a in accuracy(out, labels, topk=(1, 2))],
    "features": [[list(f.shape), f.abs().mean().item()] for f in pyramid],
}
print(json.dumps(found))
