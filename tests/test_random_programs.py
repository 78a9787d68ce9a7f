# ruff: noqa: E501 (tables, a line per program)
"""Random programs (views, in-place operations, several dtypes, gradients) are the same in torch and here.

Values, forms, gradients and errors must agree, eager and compiled. A few are drawn by default; the search is
``PYTHONPATH=tests python tests/test_random_programs.py SEED COUNT [MODES]``, or RANDOM_PROGRAMS=COUNT for the test.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import re
from collections.abc import Callable
from typing import Any

import compare
import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import UnsatisfiedAssumption
from random_programs import (
    Outcome,
    Program,
    Rounding,
    Tangled,
    Writer,
    is_rounding,
    is_stale,
    run,
    run_compiled,
)

import functorch_port as ft
from functorch_port._base.tuning import tuning

LENGTH = 20
TOLERANCE = {torch.float64: 1e-8, torch.complex128: 1e-8, torch.float32: 1e-4, torch.bfloat16: 5e-2}
#: where PyTorch's backward fails: forms changed or histories cut without recording, a complex and a real choice,
#: elements that were written to through an expanded view
FAILURES = (
    "detached in-place",
    "invalid gradient at index",
    "Expected isFloatingType(grad.scalar_type())",
    "more than one element of the written-to tensor",
)
#: ``x[0] += y``: what PyTorch may take for a write to a leaf, as its end writes through a view that has not seen its
#: new history
PART_OF_ITSELF = re.compile(r"(?:no_grad: )?(t\d+)\[.*\] \S+= ")
#: a new form given without recording: PyTorch's backward is for the old one, and fails, or takes the gradient's elements
#: for others where both have one shape; here it is for the new one
NEW_FORM = re.compile(r"no_grad: t\d+\.(?:t|transpose|swapaxes|swapdims|squeeze|unsqueeze)_\(")
LEAF = "a leaf Variable that requires grad is being used in an in-place operation"


def tolerance(program: Program) -> dict[torch.dtype, float]:
    """By dtype; what was computed in a coarse dtype stays coarse in every other."""
    coarse = max((TOLERANCE[d] for d in TOLERANCE if str(d) in str(program)), default=0.0)
    coarse = max(coarse, 1e-4 if ".float()" in str(program) else 0.0)
    return {d: max(t, coarse) for d, t in TOLERANCE.items()}


Shaken = Callable[[], list[Outcome]]


def same_values(theirs: Outcome, ours: Outcome, program: Program, shaken: Shaken) -> None:
    tol = tolerance(program)
    assert theirs.tensors.keys() >= ours.tensors.keys(), [*theirs.tensors, *ours.tensors]
    for name, a in theirs.tensors.items():
        if name in ours.tensors or not is_stale(a):
            same(a, ours.tensors[name], tol.get(a.dtype), lambda o: o.tensors[name], shaken, name)  # noqa: B023


def same(
    a: torch.Tensor, b: Any, tol: float | None, of: Callable[[Outcome], Any], shaken: Shaken, where: str
) -> None:
    """Values within ``tol``, or no further apart than PyTorch's own are when what it computes is rounded otherwise."""
    try:
        compare.same(a, b, tol, where=where)
    except AssertionError:
        if not is_rounding(a, b, [of(outcome) for outcome in shaken()]):
            raise


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
        "writes": t._version - outcome.versions[name],
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


def same_gradients(theirs: Outcome, ours: Outcome, program: Program, shaken: Shaken) -> None:
    if any(text in str(theirs.failed) for text in FAILURES):
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
            same(a, b, tol.get(a.dtype), lambda o: o.grads.get(name), shaken, f"gradient of {name}")  # noqa: B023


def reference(program: Program, seed: int | None = None) -> Outcome:
    """What PyTorch does; what it saves for the backward is copied, so that it may be written to.

    Else PyTorch raises or (changed through ``.data``) takes what it finds.
    """
    rounding = contextlib.nullcontext() if seed is None else Rounding(seed)
    with rounding, torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        return run(torch, program)


def check(program: Program, modes: str = "eager inside outside") -> bool:
    """Assert that it is the same here; False if what PyTorch does depends on the order of its writes, or is a mistake."""
    torch.manual_seed(0)
    with Tangled() as tangled:
        theirs = reference(program)
    if tangled.found or any(is_mistaken(program, i, error) for i, error in theirs.errors.items()):
        return False
    mistaken = tangled.repeated or any(NEW_FORM.match(line) for line in program.lines)
    differentiated = same_gradients if not mistaken else lambda *_: None
    shaken = functools.cache(lambda: [reference(program, seed) for seed in range(6)])
    if "eager" in modes:
        with allowed():
            ours = run(ft, program)
        same_errors(theirs, ours, program)
        same_values(theirs, ours, program, shaken)
        same_forms(theirs, ours)
        differentiated(theirs, ours, program, shaken)
    for mode in ("inside", "outside"):
        if mode in modes:
            with allowed():
                ours, traces = run_compiled(ft, program, mode == "inside")
            same_errors(theirs, ours, program)
            same_values(theirs, ours, program, shaken)
            differentiated(theirs, ours, program, shaken)
            assert traces == 1, f"{traces} traces"
    return True


def check_refused(program: Program) -> None:
    """Assert that a saved tensor that was written to is refused only where PyTorch does so."""
    ours = run(ft, program).failed
    if ours is not None and WRITTEN in str(ours):
        assert run(torch, program).failed is not None, ours  # for another reason, if it comes to one before


WRITTEN = "has been modified by an inplace operation"
allowed = ft.autograd.graph.allow_mutation_on_saved_tensors


def is_mistaken(program: Program, i: int, error: Exception) -> bool:
    """Whether PyTorch refused a line because it took a view for a leaf."""
    found = PART_OF_ITSELF.match(program.lines[i])
    leaves = {line.split(" ", 1)[0] for line in program.leaves}
    return found is not None and LEAF in str(error) and found[1] not in leaves


def kind_of(error: Exception) -> str:
    """What an error says, without numbers and names."""
    return re.sub(r"[\d.e+-]+|t\d+|0x\w+", "#", f"{type(error).__name__}: {error}")[:60]


def shrunk(program: Program, modes: str, fault: Exception) -> Program:
    """The program without the lines that the fault does not need."""
    for i in reversed(range(len(program.lines))):
        shorter = Program(program.leaves, program.lines[:i] + program.lines[i + 1 :])
        try:
            check(shorter, modes)
        except Exception as error:
            if kind_of(error) == kind_of(fault):
                program = shorter
    return program


COUNT = int(os.environ.get("RANDOM_PROGRAMS", "16"))
#: how eager operations are computed: small ones stay in numpy (as nothing is compiled for them, half of the programs),
#: they go through numpy's programs, or these and compiled ones as they come, or compiled ones alone
TIERS: list[dict[str, Any]] = [
    *[{"tier": "auto", "numpy_elements": 4096}] * 3,
    {"tier": "numpy", "numpy_elements": 1},
    {"tier": "auto", "numpy_elements": 1},
    {"tier": "compiled", "numpy_elements": 0},
]


@settings(
    max_examples=COUNT,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_random(data: st.DataObject) -> None:
    def pick(options: Any) -> Any:
        return data.draw(st.sampled_from(options))

    modes, how = pick(("eager inside", "eager outside")), pick(TIERS)
    program = Writer(pick, static=True).write(LENGTH)
    with tuning.having(**how):
        try:
            if check(program, modes):
                check_refused(program)
        except UnsatisfiedAssumption:  # PyTorch itself cannot look at it
            raise
        except Exception as error:
            raise AssertionError(f"{modes}, {how}:\n{shrunk(program, modes, error)}") from error


LEAVES = """
t0 = torch.tensor([[-1.0, -0.5, 0.0], [0.5, 1.0, 1.5]], dtype=torch.float64{grad})
t1 = torch.tensor([-3.0, -1.5, 0.0], dtype=torch.float64{grad})
"""
#: programs that went wrong once
FOUND = """
t2 = t0 * 2; t3 = t1 * 1; t4 = t2.diagonal(); t5 = t2.transpose(0, 1); t6 = t3.view(3); t2[...] = t5.clone()
t2 = t0 * 2; t3 = t1 * 1; t4 = t2 * t3.sum(); t3.mul_(0.0); t5 = t2.chunk(2, 1)[1]; t2.sub_(t2.clone(), alpha=2); t6 = t5 * t5.sum()
t2 = t0 * 2; t3 = t1 * 1; t4 = t2 * t2.sum(); t5 = t3.unsqueeze(0); t6 = t3 * t2.sum(); t6.add_(0.5); t7 = t3.squeeze(); t8 = t5.chunk(2, 1)[0]; t9 = t8.squeeze(); t9.sub_(t7.clone(), alpha=2)
t2 = t0 * 2; t3 = t1 * 1; t4 = t2.chunk(2, 1)[0]; t5 = t2.view(-1); t2.add_(-0.5)
t2 = t0 * 2; t3 = t1 * 1; t4 = t2.chunk(2, 0)[1]; t2.mul_(0.0); t5 = t3 * t3.sum()
t2 = t0 * 2; t3 = t1 * 1; t4 = t2[:, 0:]; t5 = t2 * t2.sum(); t6 = t5.view(-1); t7 = t2.unsqueeze(1); t8 = t4.t(); t8[...] = t4.clone()
t2 = t0 * 2; t3 = t1 * 1; t4 = t2.chunk(2, 0)[1]; t5 = t4 * t2.sum(); t2[...] = t3; t6 = t2[..., 2]
t2 = t0 * 2; t3 = t1 * 1; t3.mul_(-1.0); t4 = t3.squeeze(); t5 = t4.select(0, 2); t6 = t4.chunk(2, 0)[1]; t5.mul_(0.5); t7 = t5 * t6.sum()
t2 = torch.zeros(3, dtype=torch.float64); t3 = t2[1:]; t2.requires_grad_(); t4 = t3 * 2
no_grad: t2 = t0[1:]; t3 = t2 * 2
t2 = t0 * 2; t2.gt_(0.5); t3 = t0 * 2; t3.logical_not_(); t4 = t1.detach().clone(); t4.lt_(t1)
t2 = t0 * 2; t2.t_(); t3 = t2.t(); t3.index_fill_(1, torch.tensor([0]), -0.25)
t2 = t0 * 2; t3 = t2[0]; t2.t_(); t2.mul_(t2.detach() + 1)
t2 = t0 * 2; t3 = t2[0]; t2.t_(); t3.add_(t1)
t2 = torch.view_as_real(torch.complex(t1, t1)); t3 = t2.expand([3, 2]); t3.cumsum_(0)
t2 = t0 * 1; t3 = t2.split(1, -1)[-1]; t2.detach().add_(0.5); t4 = t3.any()
t2 = t0 * 1; t3 = t2.t().ravel(); t4 = t3.repeat_interleave(2, 0); t5 = torch.einsum("ij->ji", t2); t5.mul_(2)
t2 = t0.view(-1); t0.detach_(); t2.squeeze_()
no_grad: t2 = t0.expand([2, 2, 3]); no_grad: t2.unsqueeze_(0)
t2 = torch.zeros(2, 1, dtype=torch.float64); t3 = torch.view_as_complex(t2.t())
t0[...] = t0; t2 = t0 * 1; t2[...] = t2
t2 = t0.sum(); t3 = t2.mT; t4 = t2.mH; t5 = t1.mT
t2 = t0 * 1; no_grad: t3 = t2[1:]; t2.sub_(1); no_grad: t3.squeeze_(); no_grad: t4 = t3 + 1
t2 = t0 * 2; t3 = t2[0]; no_grad: t2.t_(); t4 = t3 * 2; no_grad: t1.unsqueeze_(0); t5 = t1 * 2; no_grad: t3.unsqueeze_(0)
t2 = (t0 * 1).expand([2, 2, 3]).clone()[:, :, :2] * 1; t3 = torch.view_as_complex(t2); t2.squeeze_(); t2.t_(); t4 = t3 * 2
t2 = t1[:2].reshape(1, 2) * 1; t3 = torch.view_as_complex(t2); t2.squeeze_(); t4 = t3 * 2; t2.mul_(2); t3.mul_(3); t5 = t3 * 2
t2 = t0.long().split([1, 1], 0)[0]; t2.copy_(t1); t2.t_(); t2.copy_(t1[:, None])
t2 = t0.t(); t0.detach_(); t0.add_(1); t3 = t2.sum(); t4 = t1 * 2; t5 = t4[1:]; t4.detach_(); t4.mul_(2); t6 = t5 * 3
t2 = torch.complex(t0, t0); t3 = t2.diagonal(2); t4 = t3.reshape(2, -1, 1)
t2 = t0 * 1; t2.scatter_add_(0, torch.zeros_like(t2, dtype=torch.int64), t2); t2.index_copy_(0, torch.arange(2), t2.view(2, 3))
t2 = t1 * 1; t3 = t2.unsqueeze(0); t3.add_(t2); t3[::2] += t2; t3[...] = t2; t2.pow_(t3); t2[0] = t2[:1]; t2[[0, 1, 2]] = t2; t0[0] = t0[0]; t1[...] = t1
t2 = t0.sigmoid(); no_grad: t0.transpose_(0, 1)
t2 = (t0 + 0.1).softmax(-1); t3 = (t2.sum(-1) * 3).floor(); t4 = t2.var(1).floor()
"""
#: likewise, as compiled functions that are differentiated outside
FOUND_COMPILED = """
t0.detach_()
t2 = t1 * 1; t2.add_(t0); t2.add_(t1.detach()); t3 = t0 * 3
t2 = t0.flatten(); t3 = t2.detach(); t4 = t2.split(1, 0)[-1]; t3.t_(); t5 = t4[...]
"""
#: likewise, with leaves that have no gradients
FOUND_BARE = """
t0[t0 > 1.0] = 0.5; t2 = t0.view(-1); t0.add_(0.0); t3 = t2.unsqueeze(0); t3[0] = 0.5; t4 = t0[:, ::2]; t5 = t3[:, ::2]; t3[...] = t2.clone()
t2 = (t1 * 1)[:1]; t3 = t2.expand([2]); t3[...] = t3; t3.copy_(t3)
t2 = t0.chunk(2, 1)[-1]; t2.fill_diagonal_(3); t2.requires_grad_()
t2 = t0.t(); t2.floor_(); t3 = t0[0]; t0.requires_grad_(); t4 = t3[1:]; t5 = t2.sum()
t2 = t1[1:]; t2.unsqueeze_(0); t1.requires_grad_(); t3 = t2 * 2
t2 = t1.expand([2, 3]); t2.zero_(); t2.fill_(3); t2.fill_diagonal_(1); t2.masked_fill_(t0 > 0, 5); t2[0, [1]] = 7; t2.tril_()
t2 = (t1.sum() * 1).long().expand([2, 2]); t2.fill_diagonal_(1.5); t2.add_(1); t3 = t1.sum().expand([1]); t3.copy_(t1[:1])
"""
#: compiled, of leaves without gradients
FOUND_BARE_COMPILED = """
t0.requires_grad_(); t2 = t0 * 2
"""


FOUND_ALL = [
    (line, mode, grad)
    for table, mode, grad in (
        (FOUND, "eager", ", requires_grad=True"),
        (FOUND_BARE, "eager", ""),
        (FOUND_COMPILED, "outside", ", requires_grad=True"),
        (FOUND_BARE_COMPILED, "outside", ""),
    )
    for line in table.strip().split("\n")
]


@pytest.mark.parametrize("line, mode, grad", FOUND_ALL, ids=map(str, range(len(FOUND_ALL))))
def test_found_before(line: str, mode: str, grad: str) -> None:
    assert check(Program(LEAVES.format(grad=grad).strip().split("\n"), line.split("; ")), mode)


if __name__ == "__main__":
    import collections
    import gc
    import sys
    import time
    from pathlib import Path

    import jax

    seed, count = map(int, sys.argv[1:3])
    figures: collections.Counter[str] = collections.Counter()
    start = time.process_time()
    for number in range(seed, seed + count):
        rng = random.Random(number)
        modes = sys.argv[3] if len(sys.argv) > 3 else rng.choice(("eager inside", "eager outside"))
        how = rng.choice(TIERS)
        program = Writer(rng.choice, static=modes != "eager").write(LENGTH)
        figures.update(programs=1, lines=len(program.lines), **{modes: 1, how["tier"]: 1})
        with tuning.having(**how):
            try:
                figures["undefined"] += not check(program, modes)
            except UnsatisfiedAssumption:
                figures["undefined"] += 1
            except Exception as error:
                figures["different"] += 1
                small = shrunk(program, modes, error)
                print(
                    f"--- {number} {modes} {how} {type(error).__name__}: {str(error)[:600]}\n{small}",
                    flush=True,
                )
        if Path("/proc/self/maps").read_bytes().count(b"\n") > 50_000:  # Linux grants 65,530
            jax.clear_caches()
            figures["cleared"] += 1
        gc.collect()
        gc.freeze()  # a trace looks through all that the collector lists
        if number % 10 == 9:
            print(f"# {dict(figures)} {time.process_time() - start:.0f} s", flush=True)
    print(f"# {dict(figures)} {time.process_time() - start:.0f} s")
