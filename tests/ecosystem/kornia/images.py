"""Filters, colours, geometry, features and seeded augmentations, with gradients through a warp."""

import json

import kornia
import kornia.augmentation as K
import torch

torch.manual_seed(0)
images = torch.rand(2, 3, 24, 24)
found = {
    "blurred": kornia.filters.gaussian_blur2d(images, (5, 5), (1.5, 1.5)).sum().item(),
    "edges": kornia.filters.sobel(images).mean().item(),
    "canny": kornia.filters.canny(images)[0].mean().item(),
    "median": kornia.filters.median_blur(images, (3, 3)).mean().item(),
    "lab": kornia.color.rgb_to_lab(images).mean((0, 2, 3)).tolist(),
    "hsv": kornia.color.rgb_to_hsv(images).mean((0, 2, 3)).tolist(),
    "eroded": kornia.morphology.erosion(images, torch.ones(3, 3)).mean().item(),
    "equalized": kornia.enhance.equalize(images).mean().item(),
}
angle = torch.tensor([10.0, -20.0], requires_grad=True)
turned = kornia.geometry.transform.rotate(images, angle)
turned.square().mean().backward()
found["turned"] = [turned.mean().item(), angle.grad.tolist()]
points = torch.rand(1, 8, 2)
found["homography"] = kornia.geometry.homography.find_homography_dlt(points * 10, points * 20 + 1)[0].tolist()
found["quaternion"] = kornia.geometry.conversions.axis_angle_to_rotation_matrix(
    torch.tensor([[0.1, 0.2, 0.3]])
).tolist()
found["ssim"] = kornia.losses.ssim_loss(images, images.flip(-1), 5).item()
found["corners"] = kornia.feature.harris_response(images).mean().item()
found["sift"] = kornia.feature.SIFTDescriptor(24)(images.mean(1, keepdim=True)).sum(-1).tolist()
torch.manual_seed(1)
augment = K.AugmentationSequential(
    K.RandomHorizontalFlip(p=0.5), K.RandomAffine(20.0, p=1.0), K.ColorJitter(0.2, 0.2, 0.2, 0.1, p=1.0),
    K.RandomErasing(p=1.0), data_keys=["input", "mask"],
)  # fmt: skip
out, mask = augment(images, (images[:, :1] > 0.5).float())
found["augmented"] = [out.mean((2, 3)).tolist(), mask.mean((2, 3)).tolist()]
print(json.dumps(found))
