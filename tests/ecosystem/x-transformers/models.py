"""Decoders with rotary positions, grouped keys and other options; an encoder of pictures; three steps, generation."""

import json

import torch
from training import descend
from x_transformers import (
    AutoregressiveWrapper,
    Decoder,
    Encoder,
    TransformerWrapper,
    ViTransformerWrapper,
    XTransformer,
)

torch.manual_seed(0)
tokens = torch.randint(0, 32, (2, 17))
OPTIONS = {
    "rotary": dict(rotary_pos_emb=True, attn_kv_heads=1, ff_glu=True),
    "alibi": dict(alibi_pos_bias=True, alibi_num_heads=2, use_rmsnorm=True),
    "relative": dict(rel_pos_bias=True, attn_qk_norm=True, sandwich_norm=True),
}
found = {}
for name, options in OPTIONS.items():
    torch.manual_seed(1)
    layers = Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, **options)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=32, max_seq_len=32, attn_layers=layers))
    found[name] = descend(model, lambda net: net(tokens), lr=1e-3)
    model.eval()
    torch.manual_seed(2)
    found[f"{name} generates"] = model.generate(tokens[:, :4], 6, temperature=0.0).tolist()
torch.manual_seed(3)
pictures = ViTransformerWrapper(
    image_size=16, patch_size=4, num_classes=3, attn_layers=Encoder(dim=16, depth=1, heads=2, attn_dim_head=8)
)
found["pictures"] = pictures(torch.randn(2, 3, 16, 16)).tolist()
both = XTransformer(
    dim=16, enc_num_tokens=32, enc_depth=1, enc_heads=2, enc_max_seq_len=32, dec_num_tokens=32, dec_depth=1,
    dec_heads=2, dec_max_seq_len=32,
)  # fmt: skip
found["both"] = descend(both, lambda net: net(tokens, tokens), lr=1e-3)
print(json.dumps(found))
