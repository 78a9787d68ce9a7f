"""How alike pictures are: SSIM and its form at several scales, of volumes too, as a loss."""

import json

import torch
from pytorch_msssim import MS_SSIM, SSIM, ms_ssim, ssim

torch.manual_seed(0)
a = torch.rand(2, 3, 176, 176)
b = (a + 0.1 * torch.randn(a.shape)).clamp(0, 1)
volumes = [x.view(2, 3, 176, 16, 11)[:, :, :16] for x in (a, b)]
found = {
    "ssim": ssim(a, b, data_range=1, size_average=False).tolist(),
    "positive": ssim(a, 1 - b, data_range=1, nonnegative_ssim=True).item(),
    "scales": ms_ssim(a, b, data_range=1, size_average=False).tolist(),
    "volumes": ssim(*volumes, data_range=1, win_size=7).item(),
}
for name, measure in {
    "ssim": SSIM(data_range=1, channel=3),
    "scales": MS_SSIM(data_range=1, channel=3),
}.items():
    x = b.clone().requires_grad_()
    optimizer, losses = torch.optim.Adam([x], lr=0.01), []
    for _ in range(3):
        optimizer.zero_grad()
        loss = 1 - measure(a, x)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    found[f"descent, {name}"] = losses
print(json.dumps(found))
