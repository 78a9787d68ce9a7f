"""The benchmark programs in PyTorch's words, once for PyTorch itself and for functorch_port.

`library("torch")` and `library("functorch_port")` give the namespace; everything below takes it as its
first argument, so that both run the same lines.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

LR = 0.01
Step = Callable[[], Any]


def library(name: str) -> SimpleNamespace:
    """``torch``, ``nn``, ``F`` and ``optim`` of a package that has PyTorch's interface."""
    parts = {"torch": "", "nn": ".nn", "F": ".nn.functional", "optim": ".optim"}
    return SimpleNamespace(**{key: importlib.import_module(name + suffix) for key, suffix in parts.items()})


def mlp(lib: Any, sizes: Sequence[int]) -> Any:
    """Dense layers with ReLU between them."""
    layers: list[Any] = []
    for n, m in pairwise(sizes):
        layers += [lib.nn.Linear(n, m), lib.nn.ReLU()]
    return lib.nn.Sequential(*layers[:-1])


def cnn(lib: Any) -> Any:
    """The demo's network: two convolutions and two dense layers, 1,199,882 parameters."""
    nn, F = lib.nn, lib.F

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(1, 32, 3, 1)
            self.conv2 = nn.Conv2d(32, 64, 3, 1)
            self.dropout1 = nn.Dropout2d(0.25)
            self.dropout2 = nn.Dropout(0.5)
            self.fc1 = nn.Linear(9216, 128)
            self.fc2 = nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.conv1(x))  # (N, 32, 26, 26)
            x = F.relu(self.conv2(x))  # (N, 64, 24, 24)
            x = self.dropout1(F.max_pool2d(x, 2))
            x = lib.torch.flatten(x, 1)  # (N, 9216)
            x = self.dropout2(F.relu(self.fc1(x)))
            return F.log_softmax(self.fc2(x), dim=1)

    return Net()


def data(shape: Sequence[int], classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A batch of random inputs (float32) and labels (int64)."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape).astype(np.float32), rng.integers(0, classes, shape[0])


def training(
    lib: Any,
    model: Any,
    loss: Callable[[Any, Any], Any],
    batch: Any,
    wrap: Any = None,
    zero_last: bool = False,
    optimizer: Any = None,
) -> Step:
    """A training step on a batch that stays; ``wrap`` compiles it. It returns the loss. Without an ``optimizer`` it is
    plain SGD.

    With ``zero_last`` gradients are dropped at the end of the step, so that a compiled one need not return them.
    """
    optimizer = optimizer or lib.optim.SGD(model.parameters(), lr=LR)
    x, y = (lib.torch.from_numpy(a) for a in batch)

    def step(x: Any, y: Any) -> Any:
        if not zero_last:
            optimizer.zero_grad()
        out = loss(model(x), y)
        out.backward()
        optimizer.step()
        if zero_last:
            optimizer.zero_grad()
        return out

    run = step if wrap is None else wrap(step)
    return lambda: run(x, y)
