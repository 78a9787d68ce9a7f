"""Rearranged, reduced, repeated, packed; its layers, and einsum by names; gradients through them."""

import json

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

torch.manual_seed(0)
x = torch.randn(2, 3, 8, 8, requires_grad=True)
net = torch.nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4), EinMix("b t c -> b t d", "c d", c=48, d=5),
    torch.nn.GELU(), Reduce("b t d -> b d", "mean"),
)  # fmt: skip
out = net(x)
out.square().sum().backward()
packed, shapes = pack([x[0], torch.ones(3, 8)], "c *")
print(
    json.dumps(
        {
            "out": out.tolist(),
            "gradient": x.grad.flatten()[:8].tolist(),
            "rearranged": rearrange(x, "b c h w -> (b h) w c")[3, :2].tolist(),
            "reduced": reduce(x, "b c (h 2) (w 2) -> b c h w", "max").sum().item(),
            "repeated": list(repeat(x, "b c h w -> b (r c) h w", r=2).shape),
            "packed": [list(packed.shape), [list(part.shape) for part in unpack(packed, shapes, "c *")]],
            "product": einsum(x, x, "b c h w, b d h w -> b c d").tolist(),
        }
    )
)
