"""Training steps in float64: eager on PyTorch, compiled here, each step traced at most four times."""

import json
from collections import Counter

import torch

STEPS = 6
OURS = hasattr(torch, "functionalize")


def train(make, optimizer, batch, loss, eager=False):
    """The losses of a few steps; `eager` for what branches in Python on the values of tensors."""
    torch.manual_seed(0)
    model = make().double()
    with torch.no_grad():
        for p in model.parameters():  # some initial values differ in the last bit of float32
            p.copy_((p * 2**12).round() / 2**12)
    opt = optimizer(model.parameters())
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

    compiled = OURS and not eager
    run = torch.compile(step) if compiled else step
    losses = [run(*batch).item() for _ in range(STEPS)]
    # more than two where the rule changes after some steps, as in RAdam's kin
    assert not compiled or traces["step"] <= 4, f"{traces['step']} traces"
    return losses


def report(cases):
    """Train all cases and print their losses."""
    print(json.dumps({"tolerance": 1e-6, **{name: train(*case) for name, case in cases.items()}}))


def report_optimizers(makers, eager=()):
    """Train a small network by each optimizer and print its losses."""
    x = torch.randn(16, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    report(
        {
            name: (
                lambda: torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)),
                make,
                [x],
                lambda model, x: (model(x) - x[:, :1] * x[:, 1:2]).square().mean(),
                name in eager,
            )
            for name, make in makers.items()
        }
    )
