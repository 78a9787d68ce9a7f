"""`generate`: greedy, beams, sampling, a repetition penalty, an assistant, and T5's encoder with its decoder."""

import json

import torch
import transformers as hf

SIZES = dict(
    vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    initializer_range=0.5,
)  # fmt: skip
torch.manual_seed(0)
llama = hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES)).eval()
t5 = hf.T5ForConditionalGeneration(
    hf.T5Config(
        vocab_size=50,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        initializer_factor=3.0,
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=0,
    )  # fmt: skip
).eval()
tokens = torch.randint(3, 50, (2, 5))
mask = torch.ones_like(tokens)
mask[0, :2] = 0
WAYS = {
    "greedy": dict(do_sample=False),
    "beams": dict(num_beams=3, num_return_sequences=2),
    "sampled": dict(do_sample=True, temperature=0.8, top_k=20, top_p=0.9),
    "penalty": dict(do_sample=False, repetition_penalty=1.5, no_repeat_ngram_size=2),
    "static cache": dict(do_sample=False, cache_implementation="static", disable_compile=True),
}
found = {}
for name, way in WAYS.items():
    torch.manual_seed(1)
    found[name] = llama.generate(tokens, attention_mask=mask, max_new_tokens=8, **way).tolist()
scores = llama.generate(
    tokens,
    attention_mask=mask,
    max_new_tokens=4,
    output_scores=True,
    return_dict_in_generate=True,
    do_sample=False,
)
found["scores"] = [row.max(-1).values.tolist() for row in scores.scores]
found["t5"] = t5.generate(tokens, max_new_tokens=8, num_beams=2).tolist()
print(json.dumps(found))
