"""Four architectures with small encoders, without weights to download: losses, three steps, measures."""

import json

import segmentation_models_pytorch as smp
import torch
from training import descend

torch.manual_seed(0)
images, masks = torch.randn(2, 3, 64, 64).double(), torch.randint(0, 3, (2, 64, 64))
loss = smp.losses.DiceLoss("multiclass")
found = {}
for name, make in {
    "unet": smp.Unet,
    "fpn": smp.FPN,
    "linknet": smp.Linknet,
    "deeplab": smp.DeepLabV3Plus,
}.items():
    torch.manual_seed(1)
    encoder = "resnet18" if name != "unet" else "timm-mobilenetv3_small_minimal_100"
    model = make(
        encoder, encoder_weights=None, classes=3
    ).double()  # in float32 AdamW amplifies the rounding of tiny gradients
    found[name] = descend(model, lambda net: loss(net(images), masks), steps=2, lr=1e-4)
guessed = torch.randint(0, 3, (2, 64, 64))
counts = smp.metrics.get_stats(guessed, masks, mode="multiclass", num_classes=3)
found["iou"] = smp.metrics.iou_score(*counts, reduction="micro").item()
found["f1"] = smp.metrics.f1_score(*counts, reduction="macro").item()
found["focal"] = smp.losses.FocalLoss("multiclass")(torch.randn(2, 3, 8, 8), masks[:, :8, :8]).item()
print(json.dumps(found))
