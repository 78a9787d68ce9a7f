"""A layer of a language model, with attention in several ways, as people write it."""

from __future__ import annotations

import functorch_port as ft
import functorch_port.nn as nn
import functorch_port.nn.functional as F


class Attention(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.tokens, self.places = nn.Embedding(20, 16), nn.Embedding(128, 16)
        self.qkv, self.norm, self.out = nn.Linear(16, 48), nn.LayerNorm(16), nn.Linear(16, 20, bias=False)
        self.register_buffer("mask", ft.tril(ft.ones(128, 128)).view(1, 1, 128, 128))

    def forward(self, x):
        batch, length = x.size()
        assert length <= 128
        h = self.tokens(x) + self.places(ft.arange(0, length, dtype=ft.long))
        q, k, v = (
            p.view(batch, length, 2, 8).transpose(1, 2) for p in self.qkv(self.norm(h)).split(16, dim=2)
        )
        if self.kind == "causal":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif self.kind == "full":
            y = F.scaled_dot_product_attention(q, k, v)
        elif self.kind == "mask":
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=ft.ones(length, length, dtype=ft.bool).tril()
            )
        else:
            weights = (q @ k.transpose(-2, -1)) / 8**0.5
            weights = weights.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
            y = weights.softmax(-1) @ v
        return self.out(h + y.transpose(1, 2).contiguous().view(batch, length, 16))
