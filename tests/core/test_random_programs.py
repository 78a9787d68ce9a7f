"""Random programs of views and in-place operations, the same in torch and here: values and gradients must agree."""

from __future__ import annotations

import random
import re
import warnings
from typing import Any

import compare
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

import functorch_port as ft

Step = tuple[int, int, int, int]


def view(t: Any, kind: int, a: int, b: int) -> Any:
    """One of the ways to look at ``t``; small numbers choose the details."""
    if t.dim() == 0:
        return t.view(1) if kind % 2 else t.unsqueeze(0)
    dim = a % t.dim()
    size = t.shape[dim]
    return [
        lambda: t.select(dim, b % size),
        lambda: t[tuple([slice(None)] * dim + [slice(b % size, None)])],
        lambda: t[tuple([slice(None)] * dim + [slice(None, None, 1 + b % 2)])],
        lambda: t.transpose(dim, b % t.dim()),
        lambda: t.unsqueeze(dim),
        lambda: t.view(-1),
        lambda: t.reshape(-1),
        lambda: t.view(*t.shape[:-1], t.shape[-1]),
        lambda: t.detach() if b % 3 == 0 else t.narrow(dim, 0, size),
        lambda: t.flatten() if b % 2 else t.t() if t.dim() <= 2 else t.permute(2, 0, 1),
        lambda: t[..., b % t.shape[-1]],
        lambda: t.diagonal() if t.dim() >= 2 else t[:],
        lambda: t.squeeze(),
        lambda: t.chunk(2, dim)[b % 2 if size > 1 else 0],
    ][kind % 14]()


def write(lib: Any, t: Any, kind: int, a: int, b: int, others: list[Any]) -> None:
    """One of the ways to change ``t`` in place."""
    other = others[a % len(others)]
    if other.untyped_storage().data_ptr() == t.untyped_storage().data_ptr():
        other = other.clone()  # reading what is being written is for test_inplace
    number = (b % 5) / 2 - 1
    [
        lambda: t.mul_(number),
        lambda: t.add_(number),
        lambda: t.fill_(number),
        lambda: t.add_(other),
        lambda: t.mul_(other),
        lambda: t.copy_(other),
        lambda: t.__setitem__(0 if t.dim() else ..., number),
        lambda: t.__setitem__(..., other),
        lambda: t.__setitem__((slice(None, None, 2),) if t.dim() else (), number),
        lambda: t.__setitem__(t > number, 0.5),
        lambda: t.__setitem__([0] if t.dim() else ..., number),
        lambda: t.neg_(),
        lambda: t.zero_(),
        lambda: t.sub_(other, alpha=2),
        lambda: t.clamp_(-1.5, 1.5),
        lambda: t.addcmul_(t.detach().clone(), t.detach().clone(), value=0.5),
    ][kind % 16]()


def interpret(lib: Any, steps: list[Step], leaf: bool) -> tuple[list[Any], list[Any], str]:
    """Run a program; returns all tensors, the leaves, and the error that stopped it."""
    base = np.arange(6.0).reshape(2, 3) / 2 - 1
    x = lib.tensor(base, requires_grad=leaf)
    y = lib.tensor(base[0] * 3, requires_grad=leaf)
    tensors = [x * 2, y * 1] if leaf else [x, y]
    error = ""
    for op, target, a, b in steps:
        t = tensors[target % len(tensors)]
        try:
            if op % 5 < 2:
                tensors.append(view(t, op // 5, a, b))
            elif op % 5 < 4:
                write(lib, t, op // 5, a, b, tensors)
            else:
                tensors.append(t * tensors[a % len(tensors)].sum())
        except (RuntimeError, IndexError) as e:
            error = f"{type(e).__name__}: {e}"
            break
    return tensors, [x, y], error


def is_stale(t: Any) -> bool:
    """Whether the tensor is one of several views of a base that was changed since, which may not be used any more."""
    try:
        t.grad_fn
    except RuntimeError as e:
        assert "its base or another view of its base has been modified inplace" in str(e)
        return True
    return False


def check(steps: list[Step], leaf: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, leaves, error = interpret(torch, steps, leaf)
        ours, my_leaves, my_error = interpret(ft, steps, leaf)
    if "single memory location" in error and not my_error:
        return  # overlapping memory in a way that only strides show, such as two views with steps
    # (which of the outputs of a split it was, is not known for the last one, which may be shorter)
    assert re.sub(r"Output \d+", "Output", error) == re.sub(r"Output \d+", "Output", my_error)
    for i, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        compare.same(a.detach(), b.detach(), 1e-10, where=f"tensor {i}")
        assert a.requires_grad == b.requires_grad, f"tensor {i}: requires_grad {a.requires_grad}"
    stale = [is_stale(t) for t in theirs]
    assert stale == [is_stale(t) for t in ours]
    if not leaf or error:
        return
    theirs, ours = ([t for t, s in zip(ts, stale) if not s] for ts in (theirs, ours))
    loss = sum((t * (k + 1)).sum() for k, t in enumerate(theirs) if t.requires_grad)
    mine = sum((t * (k + 1)).sum() for k, t in enumerate(ours) if t.requires_grad)
    try:
        loss.backward()
    except RuntimeError as e:  # what an operation saved was changed: an error there, the right gradient here
        assert re.search("modified by an inplace operation|has been modified inplace", str(e))
        mine.backward()
        return
    mine.backward()
    for a, b in zip(leaves, my_leaves, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            compare.same(a.grad, b.grad, 1e-10, where="gradient")


steps = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 9), st.integers(0, 5), st.integers(0, 5)),
    min_size=2,
    max_size=7,
)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(steps, st.booleans())
def test_random(steps: list[Step], leaf: bool) -> None:
    check(steps, leaf)


#: programs that went wrong once
FOUND: list[tuple[list[Step], bool]] = [
    ([(55, 2, 0, 0), (85, 6, 4, 5), (36, 9, 1, 5), (37, 0, 3, 1)], True),
    (
        [
            (39, 8, 1, 0),
            (83, 4, 5, 2),
            (65, 6, 5, 1),
            (67, 4, 4, 1),
            (64, 3, 3, 1),
            (7, 9, 4, 0),
            (45, 9, 5, 5),
            (92, 0, 5, 3),
        ],
        True,
    ),
    (
        [
            (48, 4, 0, 4),
            (25, 0, 4, 2),
            (7, 9, 1, 2),
            (91, 8, 2, 2),
            (32, 3, 2, 3),
            (11, 8, 5, 3),
            (11, 3, 1, 3),
            (37, 9, 2, 0),
        ],
        False,
    ),
    (
        [
            (64, 8, 2, 5),
            (91, 7, 4, 2),
            (99, 1, 0, 5),
            (8, 9, 3, 3),
            (61, 1, 2, 5),
            (65, 3, 3, 2),
            (61, 6, 5, 2),
            (68, 7, 5, 2),
        ],
        True,
    ),
    ([(65, 8, 5, 0), (96, 3, 5, 0), (87, 4, 0, 1)], True),
    ([(65, 2, 2, 1), (82, 6, 3, 2), (19, 1, 1, 5)], True),
    (
        [
            (6, 6, 5, 3),
            (14, 0, 3, 2),
            (25, 3, 4, 3),
            (91, 5, 3, 4),
            (46, 2, 3, 0),
            (37, 6, 2, 2),
            (94, 1, 1, 3),
        ],
        True,
    ),
    ([(65, 8, 4, 3), (9, 2, 3, 1), (38, 4, 5, 0), (51, 0, 0, 2)], True),
    (
        [
            (3, 3, 2, 0),
            (60, 5, 5, 3),
            (1, 2, 4, 2),
            (66, 2, 5, 3),
            (83, 8, 3, 3),
            (4, 3, 4, 3),
            (52, 3, 2, 3),
        ],
        True,
    ),
]


@pytest.mark.parametrize("steps, leaf", FOUND, ids=map(str, range(len(FOUND))))
def test_found_before(steps: list[Step], leaf: bool) -> None:
    check(steps, leaf)


if __name__ == "__main__":  # a longer search: python tests/core/test_random_programs.py SEED COUNT
    import sys

    rng = random.Random(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        program = [
            (rng.randrange(100), rng.randrange(10), rng.randrange(6), rng.randrange(6))
            for _ in range(rng.randrange(2, 9))
        ]
        leaf = rng.random() < 0.7
        try:
            check(program, leaf)
        except Exception as e:
            print(leaf, program, type(e).__name__, str(e)[:300], flush=True)
