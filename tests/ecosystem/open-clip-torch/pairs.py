"""CLIP from a configuration: embeddings of pictures and texts, two losses through three steps, zero-shot."""

import json

import open_clip
import torch
from open_clip.loss import ClipLoss, SigLipLoss
from training import descend

torch.manual_seed(0)
pictures = torch.randn(4, 3, 32, 32)
texts = open_clip.get_tokenizer("ViT-B-32")(["a cat", "two dogs in a field", "a red car", "the sea at night"])
found = {"tokens": texts[:, :8].tolist()}
vision = {"layers": 2, "width": 64, "head_width": 32, "patch_size": 8, "image_size": 32}
words = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
for name, loss, options in (
    ("clip", ClipLoss(), {}),
    ("siglip", SigLipLoss(), {"init_logit_bias": -10.0}),
):
    torch.manual_seed(1)
    model = open_clip.CLIP(embed_dim=32, vision_cfg=vision, text_cfg=words, **options)
    found[name] = descend(model, lambda net: loss(*net(pictures, texts)), lr=1e-4)
    model.eval()
    with torch.no_grad():
        seen = model.encode_image(pictures, normalize=True)
        said = model.encode_text(texts, normalize=True)
    found[name]["alike"] = (100 * seen @ said.T).softmax(-1).tolist()
prepared = open_clip.image_transform(32, is_train=False)
from PIL import Image

found["prepared"] = prepared(Image.linear_gradient("L").convert("RGB"))[:, ::8, ::8].tolist()
print(json.dumps(found))
