"""Pictures of a folder by transforms v1 and v2, with boxes and masks; a ResNet, a detector's parts, a grid."""

import json
import os

import numpy as np
import torch
import torchvision
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision import tv_tensors
from torchvision.datasets import ImageFolder
from torchvision.models import mobilenet_v3_small, resnet18
from torchvision.ops import box_iou, nms, roi_align, sigmoid_focal_loss
from torchvision.transforms import v2
from training import descend

rng = np.random.default_rng(0)
for name in ("a", "b"):
    os.makedirs(f"pictures/{name}")
    for i in range(4):
        Image.fromarray(rng.integers(0, 256, (40, 48, 3), dtype=np.uint8)).save(f"pictures/{name}/{i}.png")
first = T.Compose(
    [
        T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ColorJitter(0.2, 0.2, 0.2, 0.1), T.RandomRotation(10),
        T.ToTensor(), T.Normalize((0.5,) * 3, (0.5,) * 3),
    ]
)  # fmt: skip
second = v2.Compose(
    [
        v2.ToImage(), v2.RandomResizedCrop(32, antialias=True), v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.5,) * 3, (0.5,) * 3),
    ]
)  # fmt: skip
found = {}
for name, transform in (("v1", first), ("v2", second)):
    torch.manual_seed(0)
    batches = list(DataLoader(ImageFolder("pictures", transform), batch_size=4, shuffle=True))
    found[name] = [[x.mean().item(), x.std().item(), y.tolist()] for x, y in batches]
torch.manual_seed(1)
image = tv_tensors.Image(torch.randint(0, 256, (3, 40, 48), dtype=torch.uint8))
boxes = tv_tensors.BoundingBoxes([[4, 5, 20, 30], [10, 2, 40, 38]], format="XYXY", canvas_size=(40, 48))
turned = v2.Compose(
    [v2.RandomAffine(15), v2.Resize((24, 24), antialias=True), v2.RandomPhotometricDistort()]
)(image, boxes)
found["turned"] = [turned[0].float().mean().item(), turned[1].tolist()]
mix = v2.MixUp(num_classes=2)(torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 1, 0]))
found["mixed"] = [mix[0].mean().item(), mix[1].tolist()]
x, y = batches[0]
for name, make in (("resnet", resnet18), ("mobilenet", mobilenet_v3_small)):
    torch.manual_seed(2)
    model, pictures = make(num_classes=2).double(), x.double()  # norms over four values amplify rounding
    found[name] = descend(
        model, lambda net: torch.nn.functional.cross_entropy(net(pictures), y), steps=2, lr=1e-4
    )
corners = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
found["kept"] = nms(corners, torch.tensor([0.9, 0.8, 0.7]), 0.5).tolist()
found["overlap"] = box_iou(corners, corners).tolist()
found["pooled"] = roi_align(x[:1], [corners[:2]], 4).sum().item()
found["focal"] = sigmoid_focal_loss(
    torch.tensor([0.3, -2.0]), torch.tensor([1.0, 0.0]), reduction="sum"
).item()
found["grid"] = list(torchvision.utils.make_grid(x, nrow=2).shape)
print(json.dumps(found))
