"""T5, Whisper, BERT, ViT, CLIP and Swin from configurations: their losses through three steps of AdamW."""

import json

import torch
import transformers as hf
from training import descend

torch.manual_seed(0)
tokens = torch.randint(3, 50, (2, 10))
pictures = torch.randn(2, 3, 32, 32)
sounds = torch.randn(2, 80, 60)
labels = torch.tensor([1, 0])
text = dict(
    hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, vocab_size=50,
    max_position_embeddings=16,
)  # fmt: skip
image = dict(
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    image_size=32,
    patch_size=8,
)
ends = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
MODELS = {
    "t5": (
        lambda: hf.T5ForConditionalGeneration(
            hf.T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, **ends)
        ),
        lambda net: net(input_ids=tokens, labels=tokens).loss,
    ),
    "whisper": (
        lambda: hf.WhisperForConditionalGeneration(
            hf.WhisperConfig(
                vocab_size=50, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
                decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_source_positions=30,
                max_target_positions=16, begin_suppress_tokens=None, suppress_tokens=None, **ends,
            )
        ),
        lambda net: net(input_features=sounds, labels=tokens).loss,
    ),
    "bert": (lambda: hf.BertForMaskedLM(hf.BertConfig(**text)), lambda net: net(input_ids=tokens, labels=tokens).loss),
    "vit": (
        lambda: hf.ViTForImageClassification(hf.ViTConfig(**image, num_labels=3)),
        lambda net: net(pixel_values=pictures, labels=labels).loss,
    ),
    "clip": (
        lambda: hf.CLIPModel(
            hf.CLIPConfig(
                text_config={**text, "eos_token_id": 2}, vision_config=image, projection_dim=8
            )
        ),
        lambda net: net(input_ids=tokens, pixel_values=pictures, return_loss=True).loss,
    ),
    "swin": (
        lambda: hf.SwinForImageClassification(
            hf.SwinConfig(
                image_size=32, patch_size=4, embed_dim=8, depths=[2, 2], num_heads=[2, 2], window_size=4, num_labels=3
            )
        ),
        lambda net: net(pixel_values=pictures, labels=labels).loss,
    ),
}  # fmt: skip
found = {}
for name, (make, loss) in MODELS.items():
    torch.manual_seed(0)
    found[name] = descend(make().train(), loss, lr=1e-3)
print(json.dumps(found))
