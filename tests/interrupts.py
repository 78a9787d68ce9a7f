"""Interrupts at every place of a training step, and what must hold after one."""

from __future__ import annotations

import contextlib
import os
import sys

import numpy as np

import functorch_port as ft

PACKAGE = os.path.dirname(ft.__file__)


class Training:
    """A small model with everything that a step changes, and its steps one by one.

    Args:
        optimizer: of the parameters.
        compiled: whether the step is.
    """

    def __init__(self, optimizer, compiled, **options):
        ft.manual_seed(0)
        # eager, a forward pass changes statistics and draws numbers long before the step, as in PyTorch
        middle = [ft.nn.BatchNorm1d(4), ft.nn.Dropout(0.3)] if compiled else [ft.nn.Tanh()]
        self.layers = ft.nn.Sequential(ft.nn.Linear(3, 4, bias=not compiled), *middle, ft.nn.Linear(4, 2))
        self.optimizer = optimizer(self.layers.parameters())
        self.inputs = [ft.tensor(np.random.RandomState(k).randn(5, 3).astype(np.float32)) for k in range(12)]
        self.taken = 0
        layers, trained = self.layers, self.optimizer

        def once(x):
            trained.zero_grad()
            loss = (layers(x) ** 2).mean()
            loss.backward()
            trained.step()
            return loss

        self.run = ft.compile(once, **options) if compiled else once

    def step(self):
        return self.run(self.inputs[self.taken])

    def state(self):
        """All numbers of the model and the optimizer by name."""
        found = {f"model.{k}": np.array(v.numpy()) for k, v in self.layers.state_dict().items()}
        saved = self.optimizer.state_dict()
        for i, table in saved["state"].items():
            for name, value in table.items():
                if value is not None:
                    found[f"state.{i}.{name}"] = np.array(value.numpy() if hasattr(value, "numpy") else value)
        for i, group in enumerate(saved["param_groups"]):
            found |= {
                f"group.{i}.{k}": np.array(v) for k, v in group.items() if isinstance(v, int | float | tuple)
            }
        found["key"] = ft.random.get_rng_state().numpy()
        found["training"] = np.array([m.training for m in self.layers.modules()])
        found["flags"] = np.array([p.requires_grad for p in self.layers.parameters()])
        return found


def recorded(make, steps):
    """The states of an undisturbed training, from before the first step on."""
    training = make()
    states = [training.state()]
    for _ in range(steps):
        training.step()
        training.taken += 1
        states.append(training.state())
    return states


def differences(state, expected, tolerance=0.0):
    """Names of what is not as expected. State that was not made yet may be zero."""
    wrong = []
    for name in {*state, *expected}:
        a, b = state.get(name), expected.get(name)
        if a is None or b is None:
            there = a if b is None else b
            if np.any(there != 0):
                wrong.append(name)
        elif a.shape != b.shape or not np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
            wrong.append(name)
    return wrong


def which(state, states, at, tolerance=0.0):
    """The number of the step, ``at`` or the next, after which all is as in ``state``."""
    found = [k for k in (at, at + 1) if not differences(state, states[k], tolerance)]
    assert found, (
        f"neither the state before step {at} nor that after it",
        sorted(differences(state, states[at], tolerance)),
        sorted(differences(state, states[at + 1], tolerance)),
    )
    return found[0]


@contextlib.contextmanager
def raising(error, number, opcodes=False, inside=PACKAGE):
    """Raise ``error`` before the line (or instruction) with this number that runs in ``inside``. Yields the count."""
    count = [0]

    def local(frame, event, arg):
        if event == ("opcode" if opcodes else "line"):
            count[0] += 1
            if count[0] == number:
                raise error
        return local

    def begin(frame, event, arg):
        if not frame.f_code.co_filename.startswith(inside):
            return None
        if opcodes:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return local

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        yield count
    finally:
        sys.settrace(before)
