"""Positions as rotations: of words, of pictures by axes, longer ones, with decay, for a cache."""

import json

import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

torch.manual_seed(0)
q, k = torch.randn(1, 2, 6, 16, requires_grad=True), torch.randn(1, 2, 6, 16)
found = {}
for name, rotary in {
    "words": RotaryEmbedding(dim=8),
    "longer": RotaryEmbedding(dim=8, interpolate_factor=2.0),
    "learned": RotaryEmbedding(dim=8, learned_freq=True),
}.items():
    turned = rotary.rotate_queries_or_keys(q)
    scores = turned @ rotary.rotate_queries_or_keys(k).mT
    q.grad = None
    scores.square().sum().backward()
    found[name] = [turned.tolist(), q.grad.tolist()]
decaying = RotaryEmbedding(dim=8, use_xpos=True)
found["decaying"] = [t.tolist() for t in decaying.rotate_queries_and_keys(q, k)]
found["cached"] = [
    t.tolist() for t in RotaryEmbedding(dim=8).rotate_queries_with_cached_keys(q[:, :, -1:], k)
]
axes = RotaryEmbedding(dim=4, freqs_for="pixel", max_freq=64)
grid = torch.randn(1, 3, 4, 16)
found["pictures"] = apply_rotary_emb(axes.get_axial_freqs(3, 4), grid).tolist()
print(json.dumps(found))
