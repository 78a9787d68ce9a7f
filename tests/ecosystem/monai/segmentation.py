"""A UNet on volumes: transforms from dicts, a loader, Dice loss and metric, windows over a larger volume."""

import json

import monai
import numpy as np
import torch
from monai.data import CacheDataset, DataLoader, decollate_batch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss, FocalLoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.transforms import (
    AsDiscrete,
    Compose,
    EnsureChannelFirstd,
    RandFlipd,
    RandRotate90d,
    RandSpatialCropd,
    ScaleIntensityd,
)  # fmt: skip
from training import descend

monai.utils.set_determinism(0)
rng = np.random.default_rng(0)
volumes = [rng.random((16, 16, 16), dtype=np.float32) for _ in range(4)]
cases = [{"image": v, "label": (v > 0.5).astype(np.float32)} for v in volumes]
both = ["image", "label"]
steps = Compose(
    [
        EnsureChannelFirstd(both, channel_dim="no_channel"), ScaleIntensityd("image"),
        RandSpatialCropd(both, (8, 8, 8), random_size=False), RandFlipd(both, prob=0.5), RandRotate90d(both, prob=0.5),
    ]
)  # fmt: skip
loader = DataLoader(CacheDataset(cases, steps, progress=False), batch_size=2, shuffle=True)
batches = list(loader)
found = {"batches": [[b[name].sum().item() for name in both] for b in batches]}
net = UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,), num_res_units=1)
loss = DiceCELoss(to_onehot_y=True, softmax=True)
first = batches[0]
found["training"] = descend(net, lambda net: loss(net(first["image"]), first["label"]))
net.eval()
with torch.no_grad():
    whole = torch.as_tensor(volumes[0])[None, None]
    out = sliding_window_inference(whole, (8, 8, 8), 2, net, overlap=0.25)
    found["windows"] = [out.mean().item(), out.std().item()]
    metric = DiceMetric(include_background=False)
    guessed = [AsDiscrete(argmax=True, to_onehot=2)(o) for o in decollate_batch(out)]
    metric(guessed, [AsDiscrete(to_onehot=2)((whole[0] > 0.5).float())])
    found["dice"] = metric.aggregate().item()
found["focal"] = FocalLoss(to_onehot_y=True)(
    torch.randn(2, 3, 4, 4), torch.randint(0, 3, (2, 1, 4, 4))
).item()
print(json.dumps(found))
