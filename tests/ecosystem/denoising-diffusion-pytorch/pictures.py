"""Diffusion: a small UNet trained by three objectives, pictures by all steps and by few; in one dimension."""

import json

import torch
from denoising_diffusion_pytorch import GaussianDiffusion, GaussianDiffusion1D, Unet, Unet1D
from training import descend

torch.manual_seed(0)
pictures, rows = torch.rand(2, 3, 16, 16), torch.rand(2, 3, 16)
found = {}
for objective in ("pred_noise", "pred_x0", "pred_v"):
    torch.manual_seed(1)
    net = Unet(dim=8, dim_mults=(1, 2), flash_attn=False)
    diffusion = GaussianDiffusion(net, image_size=16, timesteps=8, sampling_timesteps=3, objective=objective)
    torch.manual_seed(2)
    found[objective] = descend(diffusion, lambda model: model(pictures), lr=1e-3)
    with torch.no_grad():
        found[objective]["sampled"] = diffusion.sample(1)[0, :, ::5, ::5].tolist()
        found[objective]["all steps"] = diffusion.p_sample_loop((1, 3, 16, 16))[0, :, ::5, ::5].tolist()
torch.manual_seed(3)
line = GaussianDiffusion1D(Unet1D(dim=8, dim_mults=(1, 2), channels=3), seq_length=16, timesteps=6)
found["line"] = descend(line, lambda model: model(rows), lr=1e-3)
with torch.no_grad():
    found["line"]["sampled"] = line.sample(1).tolist()
print(json.dumps(found))
