"""The losses of a language model in training, as JSON: by the job of `examples/gpt_pod.py`, or a plain loop of PyTorch.

Usage: python benchmarks/pod_program.py torch|functorch_port MODEL STEPS
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))

import gpt_pod
import language_models
import numpy as np

LIBRARY, MODEL, STEPS = sys.argv[1:]
BATCH, RATE, WARMUP = 16, 2e-3, 100


def by_torch(batches: Any, steps: int) -> list[float]:
    """A loop as plain as it can be, on the same models with the line that imports torch changed."""
    import torch

    models: Any = ModuleType("language_models_of_torch")
    sys.modules[models.__name__] = models
    text = (EXAMPLES / "language_models.py").read_text()
    exec(
        compile(text.replace("import functorch_port as torch", "import torch"), "models", "exec"),
        vars(models),
    )
    config = models.SIZES[MODEL]
    model = models.model_of(config)
    torch.manual_seed(0)
    models.initialise(model, config)
    groups: dict[bool, list[Any]] = {True: [], False: []}
    for parameter in model.parameters():
        groups[parameter.dim() >= 2].append(parameter)
    optimizer = torch.optim.AdamW(
        [{"params": groups[True], "weight_decay": 0.1}, {"params": groups[False], "weight_decay": 0.0}],
        betas=(0.9, 0.95),
    )
    losses = []
    for step, batch in enumerate(islice(batches, steps)):
        falls = 0.1 + 0.45 * (1 + math.cos(math.pi * (step - WARMUP) / max(1, steps - WARMUP)))
        for group in optimizer.param_groups:
            group["lr"] = RATE * ((step + 1) / WARMUP if step < WARMUP else falls)
        optimizer.zero_grad()
        tokens = torch.from_numpy(batch)
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def by_the_job(batches: Any, steps: int) -> list[float]:
    """The compiled step of `gpt_pod.Job`."""
    job = gpt_pod.Job(language_models.SIZES[MODEL], lr=RATE, warmup=WARMUP, steps=steps)
    job.initialise(0)
    losses = []
    for batch in islice(batches, steps):
        losses.append(job.step(*job.on_devices(batch))[0].item())
        job.schedule.step()
    return losses


def main() -> None:
    config = language_models.SIZES[MODEL]
    with tempfile.TemporaryDirectory() as folder:
        pieces = gpt_pod.Pieces(gpt_pod.manual(Path(folder)), config.context, (0.0, 0.9))
        batches = gpt_pod.batches(pieces, BATCH, 0)
        losses = (by_torch if LIBRARY == "torch" else by_the_job)(batches, int(STEPS))
    assert np.isfinite(losses).all()
    print(json.dumps(losses))


if __name__ == "__main__":
    main()
