"""LoRA, DoRA and prefix tuning of a GPT-2: parameters, three steps, adapters merged, saved and loaded."""

import json

import torch
import transformers as hf
from peft import LoraConfig, PeftModel, PrefixTuningConfig, TaskType, get_peft_model
from training import descend


def gpt2():
    torch.manual_seed(0)
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=32))


torch.manual_seed(1)
tokens = torch.randint(3, 50, (2, 10))
KINDS = {
    "lora": LoraConfig(
        r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True, task_type=TaskType.CAUSAL_LM
    ),
    "dora": LoraConfig(r=4, use_dora=True, target_modules=["c_attn"], fan_in_fan_out=True),
    "prefix": PrefixTuningConfig(num_virtual_tokens=4, task_type=TaskType.CAUSAL_LM),
}
found = {}
for name, config in KINDS.items():
    model = get_peft_model(gpt2(), config)
    model.train()
    trained = {n: list(p.shape) for n, p in model.named_parameters() if p.requires_grad}
    found[name] = {
        "trained": trained,
        "parameters": list(model.get_nb_trainable_parameters()),
        **descend(model, lambda net: net(input_ids=tokens, labels=tokens).loss),
    }
    model.eval()
    with torch.no_grad():
        found[name]["logits"] = model(input_ids=tokens).logits[0, -1, :6].tolist()
        model.save_pretrained(name)
        again = PeftModel.from_pretrained(gpt2(), name).eval()
        found[name]["loaded"] = again(input_ids=tokens).logits[0, -1, :6].tolist()
        if name == "lora":
            found[name]["merged"] = again.merge_and_unload()(input_ids=tokens).logits[0, -1, :6].tolist()
print(json.dumps(found))
