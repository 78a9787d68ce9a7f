"""What programs have in common: data from a seed, and a few steps of training."""

import torch
from torch.nn import functional as F


def descend(model, loss_of, steps=3, lr=1e-2, make=torch.optim.AdamW):
    """The losses of some steps, and the norm of the last gradient."""
    optimizer = make(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    return {"losses": losses, "gradient": norm.item()}


def digits(count=64, classes=4):
    """Rows and labels that can be learned."""
    generator = torch.Generator().manual_seed(7)
    labels = torch.arange(count) % classes
    centres = torch.randn(classes, 16, generator=generator)
    return centres[labels] + 0.3 * torch.randn(count, 16, generator=generator), labels


def classify(model, batch):
    rows, labels = batch
    return F.cross_entropy(model(rows), labels)
