"""Long random programs (views, in-place operations, several dtypes, gradients), the same in torch and here.

Values, forms, gradients and errors must agree, eager and compiled. This is a search, run by hand, that has not come to
its end: ``PYTHONPATH=tests python tests/core/test_long_programs.py SEED COUNT``, or with LONG_PROGRAMS=1.
"""

from __future__ import annotations

import os
import random
import re
from typing import Any

import compare
import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from random_programs import Outcome, Program, Writer, is_stale, run, run_compiled

import functorch_port as ft

LENGTH = 20
TOLERANCE = {torch.float64: 1e-8, torch.complex128: 1e-8, torch.float32: 1e-4, torch.bfloat16: 5e-2}
#: what PyTorch says where an operation's saved input was changed since; here the gradient is that of what was computed
CHANGED_SINCE = "modified by an inplace operation"
#: likewise where it was detached in place
DETACHED = "detached in-place"
#: overlapping memory in a way that only strides show, such as two views with steps
OVERLAP = "single memory location"


def tolerance(program: Program) -> dict[torch.dtype, float]:
    """By dtype; what was computed in a coarse dtype stays coarse in every other."""
    coarse = max((TOLERANCE[d] for d in TOLERANCE if str(d) in str(program)), default=0.0)
    coarse = max(coarse, 1e-4 if ".float()" in str(program) else 0.0)
    return {d: max(t, coarse) for d, t in TOLERANCE.items()}


def same_values(theirs: Outcome, ours: Outcome, program: Program) -> None:
    tol = tolerance(program)
    assert theirs.tensors.keys() == ours.tensors.keys(), [*theirs.tensors, *ours.tensors]
    for name, a in theirs.tensors.items():
        compare.same(a, ours.tensors[name], tol.get(a.dtype), where=name)


def same_errors(theirs: Outcome, ours: Outcome, program: Program) -> None:
    for i in sorted(theirs.errors.keys() | ours.errors.keys()):
        line, error = program.lines[i], theirs.errors.get(i)
        assert error is not None, f"{line!r}: {ours.errors[i]!r}, torch does it"
        compare.same_error(error, ours.errors.get(i), "any", f"{line!r}")


def form(outcome: Outcome, name: str) -> dict[str, Any]:
    """What a tensor is beside its values."""
    t = outcome.tensors[name]
    stale = is_stale(t)
    base = next((n for n, other in outcome.tensors.items() if other is t._base), None)
    found = {
        "stale": stale,
        "requires_grad": stale or t.requires_grad,
        "leaf": stale or t.is_leaf,
        "version": t._version,
    }
    found |= {"view": t._is_view(), "base": base, "stride": tuple(t.stride()), "offset": t.storage_offset()}
    shares = [n for n, o in outcome.tensors.items() if _memory(o) == _memory(t)]
    return found | {"contiguous": t.is_contiguous(), "shares memory with": shares}


def _memory(t: Any) -> int:
    return t.untyped_storage().data_ptr()


def same_forms(theirs: Outcome, ours: Outcome) -> None:
    for name in theirs.tensors:
        a, b = form(theirs, name), form(ours, name)
        if theirs.tensors[name].numel() == 0:
            del a["shares memory with"], b["shares memory with"]
        assert a == b, f"{name}: { ({k: (a[k], b[k]) for k in a if a[k] != b[k]}) }"


def same_gradients(theirs: Outcome, ours: Outcome, program: Program) -> None:
    if theirs.failed is not None and DETACHED in str(theirs.failed):
        return
    if theirs.failed is not None:
        compare.same_error(theirs.failed, ours.failed, "any", "backward")
        return
    if ours.failed is not None:
        raise ours.failed
    tol = tolerance(program)
    assert theirs.grads.keys() == ours.grads.keys(), [*theirs.grads, *ours.grads]
    for name, a in theirs.grads.items():
        b = ours.grads[name]
        if a is None or b is None:
            present = a if a is not None else b
            assert present is None or not (present != 0).any(), f"gradient of {name}: {a} != {b}"
        else:
            compare.same(a, b, tol.get(a.dtype), where=f"gradient of {name}")


def reference(program: Program) -> Outcome:
    """What PyTorch does; with its saved tensors protected where it would refuse to differentiate."""
    outcome = run(torch, program)
    if outcome.failed is not None and CHANGED_SINCE in str(outcome.failed):
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            outcome.failed, outcome.grads = (again := run(torch, program)).failed, again.grads
    return outcome


def check(program: Program, modes: str = "eager inside outside") -> None:
    torch.manual_seed(0)
    theirs = reference(program)
    if any(OVERLAP in str(e) for e in theirs.errors.values()):
        return
    if "eager" in modes:
        ours = run(ft, program)
        same_errors(theirs, ours, program)
        same_values(theirs, ours, program)
        same_forms(theirs, ours)
        same_gradients(theirs, ours, program)
    for mode in ("inside", "outside"):
        if mode in modes:
            ours, traces = run_compiled(ft, program, mode == "inside")
            same_errors(theirs, ours, program)
            same_values(theirs, ours, program)
            same_gradients(theirs, ours, program)
            assert traces == 1, f"{traces} traces"


@pytest.mark.skipif(os.environ.get("LONG_PROGRAMS") != "1", reason="a search, run by hand")
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random(data: st.DataObject) -> None:
    def pick(options: Any) -> Any:
        return data.draw(st.sampled_from(options))

    modes = pick(("eager", "eager inside", "eager outside"))
    program = Writer(pick, static=modes != "eager").write(LENGTH)
    try:
        check(program, modes)
    except Exception as error:
        raise AssertionError(f"{modes}:\n{program}") from error


def shrunk(program: Program, modes: str, same_fault: Any) -> Program:
    """The program without the lines that the fault does not need."""
    i = len(program.lines) - 1
    while i >= 0:
        shorter = Program(program.leaves, program.lines[:i] + program.lines[i + 1 :])
        try:
            check(shorter, modes)
        except Exception as error:
            if same_fault(error):
                program = shorter
        i -= 1
    return program


if __name__ == "__main__":
    import collections
    import gc
    import sys
    import time
    from pathlib import Path

    import jax

    seed, count = map(int, sys.argv[1:3])
    wanted = sys.argv[3] if len(sys.argv) > 3 else ""
    figures: collections.Counter[str] = collections.Counter()
    start = time.time()
    for number in range(seed, seed + count):
        rng = random.Random(number)
        modes = wanted or rng.choice(("eager", "eager", "eager inside", "eager outside"))
        program = Writer(rng.choice, static=modes != "eager").write(LENGTH)
        figures.update(programs=1, lines=len(program.lines), **{modes: 1})
        try:
            check(program, modes)
        except Exception as error:
            figures["different"] += 1
            kind = re.sub(r"[\d.e+-]+|t\d+|0x\w+", "#", str(error))[:60]
            small = shrunk(
                program, modes, lambda e: re.sub(r"[\d.e+-]+|t\d+|0x\w+", "#", str(e))[:60] == kind
            )
            print(f"--- {number} {modes} {type(error).__name__}: {str(error)[:600]}\n{small}", flush=True)
        if number % 20 == 0 and Path("/proc/self/maps").read_bytes().count(b"\n") > 25_000:
            jax.clear_caches()
            gc.collect()
        if number % 50 == 49:
            print(f"# {dict(figures)} {time.time() - start:.0f} s", flush=True)
    print(f"# {dict(figures)} {time.time() - start:.0f} s")
