"""Mistral, Qwen, Gemma, Phi, Mixtral, Mamba, GPT-2 and Llama from configurations: logits and three steps of AdamW."""

import json

import torch
import transformers as hf
from training import descend

SIZES = dict(
    vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
MODELS = {
    "mistral": (hf.MistralConfig, hf.MistralForCausalLM, SIZES),
    "qwen2": (hf.Qwen2Config, hf.Qwen2ForCausalLM, SIZES),
    "qwen3": (hf.Qwen3Config, hf.Qwen3ForCausalLM, SIZES | {"head_dim": 8}),
    "gemma": (hf.GemmaConfig, hf.GemmaForCausalLM, SIZES | {"head_dim": 8}),
    "phi": (hf.PhiConfig, hf.PhiForCausalLM, SIZES | {"num_key_value_heads": 2}),
    "mixtral": (hf.MixtralConfig, hf.MixtralForCausalLM, SIZES | {"num_local_experts": 4}),
    "llama": (hf.LlamaConfig, hf.LlamaForCausalLM, SIZES),
    "mamba": (hf.MambaConfig, hf.MambaForCausalLM, dict(vocab_size=50, hidden_size=16, num_hidden_layers=2)),
    "gpt2": (
        hf.GPT2Config,
        hf.GPT2LMHeadModel,
        dict(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=32),
    ),
}
found = {}
for name, (config, model, sizes) in MODELS.items():
    torch.manual_seed(0)
    net = model(config(**sizes))
    tokens = torch.randint(3, 50, (2, 12))
    net.eval()
    with torch.no_grad():
        found[name] = net(input_ids=tokens).logits[:, -1, :8].tolist()
    net.train()
    found[f"{name} trains"] = descend(net, lambda net: net(input_ids=tokens, labels=tokens).loss, lr=1e-3)
print(json.dumps(found))
