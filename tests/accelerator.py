"""What must hold on a GPU or TPU beside the suite, which runs on a CPU: ``python tests/accelerator.py``.

Full memory, interrupts, checks of values, and a step against the same step on the CPU. Prints a line for each, and ends
with 1 if one fails.
"""

from __future__ import annotations

import functools
import sys
import traceback

import jax
import numpy as np
from interrupts import OPTIMIZERS, Training, disturbed, recorded

import functorch_port as ft


def trained(compiled):
    ft.manual_seed(0)
    layer = ft.nn.Linear(64, 64)
    optimizer = ft.optim.AdamW(layer.parameters(), lr=0.01)

    def once(x):
        optimizer.zero_grad()
        y = layer(x)
        loss = (ft.softmax(y @ y.t(), -1) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return layer, optimizer, ft.compile(once) if compiled else once


def full_memory(compiled):
    """A batch that is too large leaves all as it was, and a small one trains on."""
    layer, optimizer, step = trained(compiled)
    small = ft.ones(8, 64)
    for _ in range(3):
        step(small)
    weights = [p.detach().clone() for p in layer.parameters()]
    for _ in range(2):
        try:
            float(step(ft.ones(600_000, 64)))
        except ft.OutOfMemoryError as error:
            text = str(error)
        else:
            raise AssertionError("a matrix of 600,000 by 600,000 fits")
    assert "out of memory. Tried to allocate" in text, text
    assert all(map(ft.equal, weights, [p.detach() for p in layer.parameters()]))
    assert optimizer.state_dict()["state"][0]["step"].item() == 3
    assert np.isfinite(float(step(small))) and optimizer.state_dict()["state"][0]["step"].item() == 4
    return text


def memory_that_has_become_short():
    """A program that has run before finds the memory taken by others."""
    layer, optimizer, step = trained(True)
    small, large = ft.ones(8, 64), ft.ones(60_000, 64)  # 14 GB for a matrix of 60,000 by 60,000
    for x in (small, large, large):
        step(x)
    weights, device = [p.detach().clone() for p in layer.parameters()], jax.devices()[0]
    taken = []
    try:
        while True:
            taken.append(jax.block_until_ready(jax.device_put(np.zeros(1 << 28, np.float32), device)))
    except jax.errors.JaxRuntimeError:
        pass
    try:
        for _ in range(3):
            float(step(large))
    except ft.OutOfMemoryError:
        found = "raised"
    else:
        return "fits"
    del taken
    assert all(map(ft.equal, weights, [p.detach() for p in layer.parameters()]))
    assert np.isfinite(float(step(small))) and np.isfinite(float(step(large)))
    return found


def interrupts(name, compiled):
    make = functools.partial(Training, OPTIMIZERS[name], compiled)
    return disturbed(make, recorded(make, 30), 40, 0.004, 1e-3, 1 << 30)


def checks():
    """Values are checked where that is asked for; without, a wrong target gives NaN."""
    layer = ft.nn.Linear(3, 4)
    optimizer = ft.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)

    def once(x, target):
        optimizer.zero_grad()
        loss = ft.nn.functional.cross_entropy(layer(x), target)
        loss.backward()
        optimizer.step()
        return loss

    x, good, bad = ft.ones(2, 3), ft.tensor([1, 2]), ft.tensor([1, 7])
    step = ft.compile(once, checks=True)
    for _ in range(2):
        step(x, good)
    weight = layer.weight.detach().clone()
    try:
        step(x, bad)
    except IndexError as error:
        text = str(error)
    else:
        raise AssertionError("no error")
    assert ft.equal(layer.weight.detach(), weight)
    assert np.isfinite(float(step(x, good)))
    assert np.isnan(float(ft.compile(lambda y, t: ft.nn.functional.cross_entropy(y, t))(layer(x), bad)))
    return text


def same_numbers():
    """Three steps here and on the CPU."""
    losses = []
    for device in (jax.devices()[0], jax.devices("cpu")[0]):
        with jax.default_device(device):
            _, _, step = trained(True)
            x = ft.tensor(np.random.RandomState(0).randn(8, 64).astype(np.float32))
            losses.append([float(step(x)) for _ in range(3)])
    assert np.allclose(*losses, rtol=1e-3), losses
    return losses[0]


def main():
    print(jax.devices()[0], jax.__version__, flush=True)
    parts = {
        "full memory, eager": functools.partial(full_memory, False),
        "full memory, compiled": functools.partial(full_memory, True),
        "memory that has become short": memory_that_has_become_short,
        "checks": checks,
        "same numbers": same_numbers,
        **{
            f"interrupts, {name} {'compiled' if c else 'eager'}": functools.partial(interrupts, name, c)
            for name in ("SGD", "AdamW")
            for c in (False, True)
        },
    }
    failed = 0
    for name, part in parts.items():
        try:
            print(f"{name}: {part()}", flush=True)
        except Exception:
            failed += 1
            print(f"{name}: FAILED\n{traceback.format_exc()}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
