"""A sentence encoder of a tiny BERT with words of its own: embeddings, similarities, training by two losses."""

import json
import logging

import torch
import transformers as hf
from sentence_transformers import SentenceTransformer, losses, util
from sentence_transformers.models import Pooling, Transformer

logging.disable(logging.WARNING)
words = "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran on mat road fast slow red blue".split()
with open("vocab.txt", "w") as file:
    file.write("\n".join(words))
torch.manual_seed(0)
config = hf.BertConfig(
    vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
    max_position_embeddings=16,
)  # fmt: skip
hf.BertModel(config).save_pretrained("bert")
hf.BertTokenizer("vocab.txt").save_pretrained("bert")
encoder = Transformer("bert", max_seq_length=12)
model = SentenceTransformer(
    modules=[encoder, Pooling(encoder.get_word_embedding_dimension(), "mean")], device="cpu"
)
texts = ["the cat sat on the mat", "a dog ran on the road", "the red cat ran fast"]
found = {}
vectors = model.encode(texts, convert_to_tensor=True, show_progress_bar=False)
found["vectors"] = vectors[:, :6].tolist()
found["similar"] = util.cos_sim(vectors, vectors).tolist()
found["search"] = util.semantic_search(vectors[:1], vectors, top_k=2)[0]
pairs = [model.tokenize(texts), model.tokenize(["a cat sat", "the dog ran", "a red cat"])]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for name, loss, labels in (
    ("ranking", losses.MultipleNegativesRankingLoss(model), None),
    ("cosine", losses.CosineSimilarityLoss(model), torch.tensor([0.9, 0.8, 0.7])),
):
    values = []
    for _ in range(2):
        optimizer.zero_grad()
        value = loss([dict(pair) for pair in pairs], labels)
        value.backward()
        optimizer.step()
        values.append(value.item())
    found[name] = values
model.eval()
model.save("saved")
found["loaded"] = (
    SentenceTransformer("saved", device="cpu").encode(texts[0], show_progress_bar=False)[:6].tolist()
)
print(json.dumps(found))
