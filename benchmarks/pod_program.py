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

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import gpt_pod
import language_models
import numpy as np
from both import source

BATCH, RATE, WARMUP = 16, 2e-3, 100


def by_torch(
    config: language_models.Config, batches: Any, steps: int, rate: float, warmup: int
) -> list[tuple[float, float]]:
    """Losses and norms of a loop as plain as it can be, on the same models with the line that imports torch changed."""
    import torch

    models: Any = ModuleType("language_models_of_torch")
    sys.modules[models.__name__] = models
    exec(compile(source("language_models", "torch"), "language_models", "exec"), vars(models))
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
    found = []
    for step, batch in enumerate(islice(batches, steps)):
        falls = 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))
        for group in optimizer.param_groups:
            group["lr"] = rate * ((step + 1) / warmup if step < warmup else falls)
        optimizer.zero_grad()
        tokens = torch.from_numpy(batch)
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        found.append((loss.item(), norm.item()))
    return found


def by_the_job(
    config: language_models.Config, batches: Any, steps: int, rate: float, warmup: int, **how: Any
) -> list[tuple[float, float]]:
    """The same by the compiled step of `gpt_pod.Job`, which takes ``how``."""
    job = gpt_pod.Job(config, lr=rate, warmup=warmup, steps=steps, **how)
    job.initialise(0)
    found = []
    for batch in islice(batches, steps):
        loss, norm = job.step(*job.on_devices(batch))
        found.append((loss.item(), norm.item()))
        job.schedule.step()
    return found


def main() -> None:
    library, model, steps = sys.argv[1:]
    config = language_models.SIZES[model]
    with tempfile.TemporaryDirectory() as folder:
        pieces = gpt_pod.Pieces(gpt_pod.manual(Path(folder)), config.context, (0.0, 0.9))
        batches = gpt_pod.batches(pieces, BATCH, 0)
        found = (by_torch if library == "torch" else by_the_job)(config, batches, int(steps), RATE, WARMUP)
    losses = [loss for loss, _ in found]
    assert np.isfinite(losses).all()
    print(json.dumps(losses))


if __name__ == "__main__":
    main()
