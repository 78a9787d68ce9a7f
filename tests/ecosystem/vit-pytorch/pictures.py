"""Transformers of pictures: plain, pooled, deep, convolutional; a distillation, recorded attention."""

import json

import torch
from torch.nn import functional as F
from training import descend
from vit_pytorch import SimpleViT, ViT
from vit_pytorch.cait import CaiT
from vit_pytorch.cct import CCT
from vit_pytorch.distill import DistillableViT, DistillWrapper
from vit_pytorch.pit import PiT
from vit_pytorch.recorder import Recorder

torch.manual_seed(0)
pictures, labels = torch.randn(4, 3, 32, 32), torch.tensor([0, 1, 2, 1])
common = {"image_size": 32, "num_classes": 3, "dim": 32, "heads": 2, "mlp_dim": 48}
found = {}
for name, make in {
    "vit": lambda: ViT(patch_size=8, depth=2, dropout=0.1, emb_dropout=0.1, **common),
    "simple": lambda: SimpleViT(patch_size=8, depth=2, **common),
    "cait": lambda: CaiT(patch_size=8, depth=2, cls_depth=1, **common),
    "pit": lambda: PiT(patch_size=8, depth=(1, 1), **common),
    "cct": lambda: CCT(
        img_size=32, embedding_dim=32, n_conv_layers=1, kernel_size=3, num_layers=2, num_heads=2, mlp_ratio=2.0,
        num_classes=3, positional_embedding="learnable",
    ),
}.items():  # fmt: skip
    torch.manual_seed(1)
    model = make()
    found[name] = descend(model, lambda net: F.cross_entropy(net(pictures), labels), lr=1e-3)
torch.manual_seed(2)
encoder = ViT(patch_size=8, depth=2, **common)
_, weights = Recorder(encoder)(pictures)
found["attention"] = [list(weights.shape), weights[0, :, 0, 0, :4].tolist()]
student = DistillableViT(patch_size=8, depth=1, **common)
teacher = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 3))
distilled = DistillWrapper(student=student, teacher=teacher, temperature=3, alpha=0.5, hard=False)
found["distilled"] = descend(distilled, lambda net: net(pictures, labels), lr=1e-3)
print(json.dumps(found))
