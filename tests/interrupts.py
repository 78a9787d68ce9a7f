"""Interrupts at every place of a training step, and what must hold after one."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import signal
import sys

import jax
import numpy as np

import functorch_port as ft
from functorch_port._array import tracing

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
        self.inputs = [ft.tensor(np.random.RandomState(k).randn(5, 3).astype(np.float32)) for k in range(40)]
        self.taken = 0
        layers, trained = self.layers, self.optimizer

        def once(x):
            trained.zero_grad()
            loss = (layers(x) ** 2).mean()
            loss.backward()
            trained.step()
            return loss

        self.once = once
        self.run = ft.compile(once, **options) if compiled else once

    def step(self):
        return self.run(self.inputs[self.taken])

    def state(self):
        """All numbers of the model and the optimizer by name."""
        found = {f"model.{k}": np.array(v.cpu().numpy()) for k, v in self.layers.state_dict().items()}
        saved = self.optimizer.state_dict()
        for i, table in saved["state"].items():
            for name, value in table.items():
                if value is not None:
                    found[f"state.{i}.{name}"] = np.array(
                        value.cpu().numpy() if hasattr(value, "numpy") else value
                    )
        for i, group in enumerate(saved["param_groups"]):
            found |= {
                f"group.{i}.{k}": np.array(v) for k, v in group.items() if isinstance(v, int | float | tuple)
            }
        modes = [ft.is_grad_enabled(), tracing.current() is None, type(math.sqrt) is type(abs)]
        if self.run is not self.once:  # an eager operation may leave JAX's, which the library sets in each
            modes.append(not jax.config.jax_enable_x64)
        found["modes"] = np.array(modes)
        found["key"] = ft.random.get_rng_state().cpu().numpy()
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

    before, held = sys.gettrace(), tracing.turn._is_owned()
    sys.settrace(begin)
    try:
        yield count
    finally:
        sys.settrace(before)
        while (
            not held and tracing.turn._is_owned()
        ):  # the end of a `with` is a line, too, at which no signal comes
            tracing.turn.release()


def disturbed(make, states, count, longest, tolerance=0.0, fresh=6):
    """Train under ``count`` real signals, each at a random moment; returns how many ended before and after a step.

    Args:
        make: gives a `Training`.
        states: what `recorded` says of it.
        longest: seconds until a signal, at most: about those of a step.
        fresh: after how many signals training starts anew (with a first step that traces).
    """
    random = np.random.RandomState(1)
    outcome = {"before": 0, "after": 0, "missed": 0}

    def handler(number, frame):
        if frame.f_code.co_name == "gc_callback":  # of hypothesis, where Python swallows what is raised
            signal.setitimer(signal.ITIMER_REAL, 1e-5)
            return
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, handler)
    try:
        sent, training = 0, None
        while sent < count:
            if training is None or training.taken >= len(states) - 2 or sent % fresh == 0:
                training = make()
            at = training.taken
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, longest))
                training.step()
                signal.setitimer(signal.ITIMER_REAL, 0)
                training.taken += 1
                outcome["missed"] += 1
                longest = max(longest * 0.97, 2e-5)
            # numpy's C code makes the second of the first, and JAX's the third
            except (KeyboardInterrupt, SystemError, ValueError) as error:
                cause = error.__cause__
                assert (
                    isinstance(error, KeyboardInterrupt)
                    or isinstance(cause, KeyboardInterrupt)
                    or ("KeyboardInterrupt" in str(error))
                )
                sent += 1
                longest *= 1.1
                training.taken = which(training.state(), states, at, tolerance)
                outcome["after" if training.taken > at else "before"] += 1
                training.step()  # the loop goes on
                training.taken += 1
                assert not differences(training.state(), states[training.taken], tolerance)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    return outcome


OPTIMIZERS = {
    "SGD": lambda params: ft.optim.SGD(params, lr=0.05, momentum=0.9),
    "AdamW": lambda params: ft.optim.AdamW(params, lr=0.01),
    "RMSprop": lambda params: ft.optim.RMSprop(params, lr=0.01, momentum=0.5),
    "Muon": lambda params: ft.optim.Muon([p for p in params if p.ndim == 2], lr=0.01),
    "optax": lambda params: ft.optim.from_optax(__import__("optax").adam, params, lr=0.01),
}


if __name__ == "__main__":
    # python tests/interrupts.py 1000: so many signals for all of these, in equal parts
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    kinds = [
        (name, compiled, fresh) for name in OPTIMIZERS for compiled in (False, True) for fresh in (3, 1 << 30)
    ]
    for name, compiled, fresh in kinds:
        make = functools.partial(Training, OPTIMIZERS[name], compiled)
        states = recorded(make, 30)
        longest = 0.5 if fresh == 3 else 0.002
        found = disturbed(make, states, -(-total // len(kinds)), longest, 1e-5, fresh)
        print(
            name,
            "compiled" if compiled else "eager",
            "first calls too" if fresh == 3 else "warm",
            found,
            flush=True,
        )
