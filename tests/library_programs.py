"""Training steps with optimizers from libraries that import torch, for `test_libraries.py`.

``functorch-port run library_programs.py GROUP compiled`` and ``python library_programs.py GROUP eager`` train the same;
either prints, as JSON, the losses of every case and how often its step was traced.
"""

import json
import sys
from collections import Counter

import numpy as np
import torch

STEPS = 6

#: These branch in Python on the values of tensors, which no compiled step can.
EAGER_ONLY = {"Prodigy"}


def train(name, make, optimizer, *batch, loss):
    """The losses of a few steps in float64, and the number of traces."""
    torch.manual_seed(0)
    model = make().double()
    opt = optimizer(model)
    if callable(getattr(opt, "train", None)):  # schedule-free optimizers have modes
        opt.train()
    traces = Counter()

    def step(*batch):
        traces["step"] += 1
        opt.zero_grad()
        value = loss(model, *batch)
        value.backward()
        opt.step()
        return value

    compiled = sys.argv[2] == "compiled" and name not in EAGER_ONLY
    run = torch.compile(step) if compiled else step
    losses = [run(*batch).item() for _ in range(STEPS)]
    return [losses, traces["step"] if compiled else None]


def _optimizers(makers):
    x = torch.tensor(np.random.default_rng(0).standard_normal((16, 4)))
    for name, make in makers.items():
        yield (
            name,
            train(
                name,
                lambda: torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)),
                lambda m, make=make: make(m.parameters()),
                x,
                loss=lambda model, x: (model(x) - x[:, :1] * x[:, 1:2]).square().mean(),
            ),
        )


def lion_pytorch():
    import lion_pytorch

    yield from _optimizers({"Lion": lambda p: lion_pytorch.Lion(p, lr=1e-2, weight_decay=0.1)})


def prodigyopt():
    import prodigyopt

    yield from _optimizers({"Prodigy": prodigyopt.Prodigy})


def schedulefree():
    import schedulefree

    names = ("AdamWScheduleFree", "SGDScheduleFree", "RAdamScheduleFree")
    yield from _optimizers({n: lambda p, n=n: getattr(schedulefree, n)(p, lr=1e-2) for n in names})


if __name__ == "__main__":
    print(json.dumps(dict(globals()[sys.argv[1]]())))
