"""Saves a tiny GPT-2 by `save_pretrained` and loads another by `from_pretrained`.

``both_ways.py MINE OTHERS`` writes the folders MINE and MINE-shards, and prints, as JSON, the sums of the weights
that it loads from OTHERS and OTHERS-shards, and whether their tied weights are one tensor.
"""

import json
import sys

import torch
import transformers as hf

mine, others = sys.argv[1:]
ends = dict.fromkeys(("bos_token_id", "eos_token_id"))
model = hf.GPT2LMHeadModel(
    hf.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=16, vocab_size=50, **ends)
)
with torch.no_grad():
    for i, p in enumerate(model.parameters()):
        p.copy_(((torch.arange(p.numel()) % 13 - 6.0) / 16 + i / 64).reshape(p.shape))
model.save_pretrained(mine)
model.save_pretrained(f"{mine}-shards", max_shard_size="8KB")
found = []
for folder in (others, f"{others}-shards"):
    loaded = hf.GPT2LMHeadModel.from_pretrained(folder)
    sums = {name: tensor.double().sum().item() for name, tensor in loaded.state_dict().items()}
    found.append([sums, loaded.lm_head.weight is loaded.transformer.wte.weight])
print(json.dumps(found))
