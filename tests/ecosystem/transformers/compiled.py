"""Tiny GPT-2, BERT and Llama: their training steps compiled here, in float64."""

import torch
import transformers as hf
from compiled_steps import report

still = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
ends = dict.fromkeys(("bos_token_id", "eos_token_id"))
calm = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
sizes = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 50,
    "max_position_embeddings": 16,
}
gpt2 = hf.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=16, vocab_size=50, **still, **ends)
models = {
    "gpt2": lambda: hf.GPT2LMHeadModel(gpt2),
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**sizes, **calm)),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, num_key_value_heads=1, **ends)),
}
tokens = torch.randint(0, 50, (2, 8), generator=torch.Generator().manual_seed(0))
report(
    {
        name: (
            make,
            lambda p: torch.optim.AdamW(p, lr=1e-3),
            [tokens],
            lambda model, tokens: model(input_ids=tokens, labels=tokens).loss,
        )
        for name, make in models.items()
    }
)
