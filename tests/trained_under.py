"""Two small models trained for a few steps: run as a program under some setting of JAX's, it prints the losses as JSON.

``T`` is this package or torch. The arguments are ways to train: "eager", "compiled".
"""

import json
import sys

import numpy as np


def data(shape):
    rng = np.random.default_rng(0)
    return rng.normal(size=(8, *shape)).astype("float32"), rng.integers(0, 3, 8)


def mlp(T):
    nn = T.nn
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.2), nn.LayerNorm(32), nn.Linear(32, 3))


def cnn(T):
    nn = T.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(72, 3),
    )  # fmt: skip


def train(T, make, shape, name, compiled, steps=4):
    """Losses of the steps, and the sum of what the model then gives in evaluation."""
    T.manual_seed(0)
    model = make(T)
    x, y = map(T.tensor, data(shape))
    optimizer = getattr(T.optim, name)(model.parameters(), lr=0.05)
    schedule = T.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = T.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        T.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    run = T.compile(step, rng="torch") if compiled else step
    losses = []
    for _ in range(steps):
        losses.append(run(x, y).item())
        schedule.step()
    model.eval()
    with T.no_grad():
        return [*losses, model(x).sum().item()]


CASES = {"mlp": (mlp, (8,), "SGD"), "cnn": (cnn, (3, 8, 8), "Adam")}


def all_of(T, ways):
    return {
        f"{name} {way}": train(T, *case, way == "compiled") for name, case in CASES.items() for way in ways
    }


if __name__ == "__main__":
    import functorch_port

    print(json.dumps(all_of(functorch_port, sys.argv[1:])))
