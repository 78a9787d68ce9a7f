"""`Trainer`: two epochs with evaluation, a schedule, accumulation and clipping; then on from its checkpoint."""

import json

import numpy as np
import torch
import transformers as hf


class Sentences(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(3, 50, (count, 8), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return {"input_ids": self.tokens[i], "labels": self.tokens[i].sum() % 2}


def accuracy(outcome):
    return {"accuracy": float((np.argmax(outcome.predictions, -1) == outcome.label_ids).mean())}


def make():
    torch.manual_seed(0)
    config = hf.BertConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=50,
        max_position_embeddings=16, num_labels=2,
    )  # fmt: skip
    return hf.BertForSequenceClassification(config)


def train(epochs, resume=None):
    arguments = hf.TrainingArguments(
        output_dir="out", num_train_epochs=epochs, per_device_train_batch_size=4, gradient_accumulation_steps=2,
        learning_rate=1e-3, warmup_steps=2, weight_decay=0.1, max_grad_norm=1.0, eval_strategy="epoch",
        save_strategy="epoch", logging_steps=2, report_to=[], seed=3, use_cpu=True, disable_tqdm=True,
        lr_scheduler_type="cosine",
    )  # fmt: skip
    trainer = hf.Trainer(
        model=make(), args=arguments, train_dataset=Sentences(32, 1), eval_dataset=Sentences(16, 2),
        compute_metrics=accuracy,
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=resume)
    named = ("loss", "grad_norm", "learning_rate", "eval_loss", "eval_accuracy", "train_loss")
    logs = [{name: entry[name] for name in named if name in entry} for entry in trainer.state.log_history]
    return {"logs": logs, "predicted": trainer.predict(Sentences(4, 5)).predictions.tolist()}


print(json.dumps({"from the start": train(2), "resumed": train(3, "out/checkpoint-8")}))
