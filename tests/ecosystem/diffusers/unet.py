"""A tiny UNet with DDPM and DDIM: steps of training, pictures from noise; an autoencoder, and a saved model."""

import json

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    UNet2DConditionModel,
    UNet2DModel,
)
from training import descend

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=4,
)  # fmt: skip
noisier = DDPMScheduler(num_train_timesteps=50)
pictures, noise = torch.rand(2, 3, 8, 8) * 2 - 1, torch.randn(2, 3, 8, 8)
times = torch.randint(0, 50, (2,))
noisy = noisier.add_noise(pictures, noise, times)
found = {"noisy": noisy.sum().item()}
found["training"] = descend(
    unet, lambda net: torch.nn.functional.mse_loss(net(noisy, times).sample, noise), lr=1e-3
)
pipeline = DDPMPipeline(unet, DDIMScheduler(num_train_timesteps=50))
pipeline.set_progress_bar_config(disable=True)
made = pipeline(batch_size=1, num_inference_steps=4, generator=torch.manual_seed(3), output_type="np").images
found["made"] = made.reshape(-1)[:24].tolist()
unet.save_pretrained("unet")
again = UNet2DModel.from_pretrained("unet")
found["loaded"] = again(noisy, times).sample.sum().item()
coder = AutoencoderKL(
    block_out_channels=(8, 8), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    latent_channels=2, norm_num_groups=4, sample_size=8,
)  # fmt: skip
found["coded"] = (
    coder(pictures, sample_posterior=True, generator=torch.manual_seed(1)).sample.abs().mean().item()
)
guided = UNet2DConditionModel(
    sample_size=8, in_channels=2, out_channels=2, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    cross_attention_dim=8, attention_head_dim=4,
)  # fmt: skip
words = torch.randn(2, 3, 8)
found["guided"] = (
    guided(torch.randn(2, 2, 8, 8), times, encoder_hidden_states=words).sample.flatten()[:16].tolist()
)
print(json.dumps(found))
