# ruff: noqa: E501 (tables, a line per subject)
"""Random programs: lines of PyTorch that both libraries run, eager or compiled.

A `Program` is text: how its leaves are made, and statements that use and change tensors called ``t0``, ``t1``, ... It is
written while PyTorch runs it, so that shapes fit more often than not. A statement that PyTorch refuses stays: both must
refuse it, with the same type of error, and leave everything as it was.

Every result that is no view is made contiguous, as results here always are (PyTorch's take the order of their inputs).
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import compare
import hypothesis
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Pick = Callable[[Sequence[Any]], Any]
ERRORS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, NameError)
FLOATS = (torch.float64, torch.float32)
NUMBERS = ("2", "0.5", "-1", "1.5", "3", "-0.25", "0")
POSITIVE = ("2", "0.5", "1.5", "3")
SHAPES = ((2, 3), (3,), (2, 1), (), (1, 3), (3, 2), (2, 2, 3), (4,))


@dataclass
class Program:
    """Attributes:
    leaves: ``t0 = torch.tensor(...)``, one line per leaf.
    lines: statements; one that starts with "no_grad: " runs without recording.
    """

    leaves: list[str]
    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([*self.leaves, *self.lines])


@dataclass
class Outcome:
    """What a program left behind: its tensors by name, the errors by line, and the leaves' gradients.

    ``versions`` are those that the tensors had when they were made: PyTorch counts what it wrote to make them.
    """

    tensors: dict[str, Any]
    errors: dict[int, Exception]
    versions: dict[str, int] = field(default_factory=dict)
    grads: dict[str, Any] = field(default_factory=dict)
    failed: Exception | None = None


# ------------------------------------------------------------------- running


def make_leaves(lib: Any, program: Program) -> dict[str, Any]:
    env: dict[str, Any] = {"torch": lib}
    for line in program.leaves:
        exec(line, env)
    return {name: value for name, value in env.items() if name[0] == "t" and name[1:].isdigit()}


def step(line: str, env: dict[str, Any]) -> Exception | None:
    """Run one statement; returns what it raised."""
    text = line.removeprefix("no_grad: ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with env["torch"].set_grad_enabled(text is line):
                exec(text, env)
        except ERRORS as error:
            return error.with_traceback(None)  # which would keep the tensors of its frames
    return None


def statements(lib: Any, program: Program, leaves: dict[str, Any]) -> Outcome:
    env = {"torch": lib, **leaves}
    errors, versions = {}, dict.fromkeys(leaves, 0)
    for i, line in enumerate(program.lines):
        error = step(line, env)
        if error is not None:
            errors[i] = error
        for name in {n for n in env if n[0] == "t" and n[1:].isdigit()} - versions.keys():
            versions[name] = env[name]._version
        for name in versions:  # PyTorch refuses to write through a view without a look at its new history
            is_stale(env[name])
    tensors = {name: env[name] for name in sorted(versions, key=lambda name: int(name[1:]))}
    return Outcome(tensors, errors, versions)


def is_stale(tensor: Any) -> bool:
    """Whether it is one of several views of a base that was changed since, which may not be used any more."""
    try:
        tensor.grad_fn
    except RuntimeError as error:
        if "must have a last dimension with stride 1" in str(error) or "INTERNAL ASSERT FAILED" in str(error):
            hypothesis.reject()  # PyTorch cannot make the view anew, and says so wherever its history is asked for
        assert "its base or another view of its base has been modified inplace" in str(error)
        return True
    return False


def has_history(tensor: Any) -> bool:
    """Whether it can be differentiated. A view made under `no_grad` requires a gradient because its base does."""
    if is_stale(tensor) or not tensor.requires_grad:
        return False
    return tensor.grad_fn is not None or not tensor._is_view()


def nested(values: Sequence[Any], shape: Sequence[int]) -> Any:
    """The values as lists of lists of this shape."""
    if not shape:
        return values[0]
    rows = len(values) // shape[0] if shape[0] else 0
    return [nested(values[i * rows : (i + 1) * rows], shape[1:]) for i in range(shape[0])]


def weights_for(lib: Any, tensor: Any) -> Any:
    """A gradient for ``tensor``, with a number of its own for every element."""
    kind = complex if tensor.is_complex() else float
    values = [kind(0.5 + (7 * i) % 16 / 16) for i in range(tensor.numel())]
    return lib.tensor(values, dtype=tensor.dtype).reshape(tuple(tensor.shape))


def differentiate(lib: Any, leaves: dict[str, Any], outcome: Outcome) -> None:
    """The gradients of all that can be differentiated, towards the leaves."""
    names = [name for name, leaf in leaves.items() if leaf.requires_grad and leaf.is_leaf]
    roots = [t for t in outcome.tensors.values() if has_history(t)]
    if not roots or not names:
        return
    weights = [weights_for(lib, t) for t in roots]
    try:
        found = lib.autograd.grad(roots, [leaves[n] for n in names], weights, allow_unused=True)
    except RuntimeError as error:
        outcome.failed = error
    else:
        outcome.grads = dict(zip(names, found, strict=True))


def run(lib: Any, program: Program) -> Outcome:
    """The program in eager mode, and the gradients of the leaves."""
    leaves = make_leaves(lib, program)
    outcome = statements(lib, program, leaves)
    differentiate(lib, leaves, outcome)
    return outcome


def _collector(found: list[Any]) -> Any:
    """A generator that keeps what it is sent."""
    while True:
        found.append((yield))


def run_compiled(lib: Any, program: Program, inside: bool) -> tuple[Outcome, int]:
    """The program as a compiled function of its leaves, called twice; differentiated ``inside`` or outside of it.

    Returns the outcome of the second call and how often the function was traced.
    """
    seen: list[tuple[dict[int, Exception], Exception | None]] = []
    note = _collector(
        seen
    )  # a list that the function itself appends to would be state, and a reason to trace again
    next(note)

    def fn(leaves: dict[str, Any]) -> Any:
        outcome = statements(lib, program, leaves)
        if inside:
            differentiate(lib, leaves, outcome)
        note.send((outcome.errors, outcome.failed))
        # (reading a stale view is an error, and so is taking it out of a compiled function)
        return {name: t for name, t in outcome.tensors.items() if not is_stale(t)}, outcome.grads

    compiled = lib.compile(fn)
    for _ in range(2):
        leaves = make_leaves(lib, program)
        tensors, grads = compiled(leaves)
    errors, failed = seen[-1]
    outcome = Outcome(tensors, errors, grads=grads, failed=failed)
    if not inside:
        differentiate(lib, leaves, outcome)
    return outcome, len(seen)


# ------------------------------------------------------------------ rounding


#: numbers of so many bits are taken as exact: sums and products of the leaves' and the program's numbers
EXACT_BITS = {torch.float64: 26, torch.float32: 16, torch.bfloat16: 6}


class Tangled(TorchDispatchMode):
    """Notices what PyTorch does not: that an operation writes to elements that it reads at another place.

    It refuses so where both are blocks without gaps; elsewhere the result depends on the order in which it writes.
    ``repeated`` is what it only warns of, a write through an expanded view: its gradient counts every look at an element.
    """

    found = repeated = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tangled = False
        if func._schema.name[-1] == "_" and isinstance(args[0], torch.Tensor):
            start = args[0].untyped_storage().data_ptr()
            own = self.places(args[0])
            self.repeated |= own.unique().numel() < own.numel()
            for other in tree_leaves((args[1:], kwargs)):
                if isinstance(other, torch.Tensor) and other.untyped_storage().data_ptr() == start:
                    read = self.places(other)
                    tangled |= not torch.equal(own, read) and bool(torch.isin(own, read).any())
        out = func(*args, **(kwargs or {}))
        self.found |= tangled  # and not refused
        return out

    def places(self, x: torch.Tensor) -> torch.Tensor:
        """Where in memory the elements are."""
        places = torch.tensor(x.storage_offset())
        for size, stride in zip(x.shape, x.stride(), strict=True):
            places = places[..., None] + torch.arange(size) * stride
        return places * x.element_size()


class Rounding(TorchDispatchMode):
    """PyTorch with every inexact result off by some units in the last place, at random.

    What differs by this much between two libraries is rounding; so is what PyTorch itself gives otherwise then.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draws = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = [x.detach().clone() for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        out = func(*args, **(kwargs or {}))
        if not any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns):
            for x in tree_leaves(out):
                if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()):
                    self.shake(torch.view_as_real(x) if x.is_complex() else x, before)
        return out

    def shake(self, x: torch.Tensor, before: list[torch.Tensor]) -> None:
        parts = [torch.view_as_real(b) if b.is_complex() else b for b in before]
        moved = [torch.isin(x.contiguous(), b.to(x.dtype).contiguous()) for b in parts]
        scaled = torch.ldexp(torch.frexp(x.double())[0], torch.tensor(EXACT_BITS.get(x.dtype, 52)))
        kept = torch.stack([scaled == scaled.round(), ~x.isfinite(), *moved]).any(0)
        if not bool(kept.all()):
            units = torch.randint(-4, 5, x.shape, generator=self.draws).to(x.dtype)
            x.copy_(torch.where(kept, x, x * (1 + units * torch.finfo(x.dtype).eps)))


def is_rounding(theirs: torch.Tensor, ours: Any, shaken: Sequence[torch.Tensor | None]) -> bool:
    """Whether ours is no further from theirs than that moves under `Rounding`, give or take a factor of 64."""
    if theirs.shape != tuple(ours.shape) or theirs.numel() == 0:
        return False
    a, b, *others = (
        compare.to_numpy(x).astype(np.complex128) for x in (theirs, ours, *shaken) if x is not None
    )
    with np.errstate(all="ignore"):
        moved = np.max([abs(x - a) for x in others], 0) if others else 0
        return bool((abs(b - a) <= 64 * moved + 1e-8 * abs(a)).all())


# ------------------------------------------------------------------- writing


class Writer:
    """Writes a program while PyTorch runs it.

    Args:
        pick: chooses one of a sequence.
        static: leave out what has shapes that depend on values, which a compiled function refuses.
    """

    def __init__(self, pick: Pick, static: bool) -> None:
        self.pick = pick
        self.static = static
        self.program = Program([])
        self.env: dict[str, Any] = {"torch": torch}
        self.count = 0

    def write(self, length: int) -> Program:
        kinds = ["float64 grad", "float64 grad", "float64", *self.pick(KINDS)]
        for kind in kinds:
            self.leaf(kind)
        while len(self.program.lines) < length:
            self.statement()
        return self.program

    # ------------------------------------------------------------ tensors

    def leaf(self, kind: str) -> None:
        dtype, _, grad = kind.partition(" ")
        shape = self.pick(SHAPES)
        start = self.pick(range(-4, 4))
        count = math.prod(shape)
        values: Any = [((start + 5 * i) % 9 - 4) / 2 for i in range(count)]
        if dtype == "int64":
            values = [int(v) for v in values]
        elif dtype == "bool":
            values = [v > 0 for v in values]
        line = f"t{self.count} = torch.tensor({nested(values, shape)}, dtype=torch.{dtype}{', requires_grad=True' * bool(grad)})"
        self.program.leaves.append(line)
        exec(line, self.env)
        self.count += 1

    def names(self) -> list[str]:
        """The tensors, the newest three more often."""
        found = [f"t{i}" for i in range(self.count)]
        return found + found[-3:] * 2

    def tensor(self, wanted: Callable[[torch.Tensor], bool] = lambda t: True) -> str:
        found = [n for n in self.names() if wanted(self.env[n])]
        if not found:
            raise LookupError
        return self.pick(found)

    def fitting(self, name: str, others: Callable[[torch.Tensor], bool] = lambda t: True) -> str:
        """A tensor that broadcasts with ``name``'s."""
        shape = self.env[name].shape

        def fits(t: torch.Tensor) -> bool:
            try:
                return others(t) and math.prod(torch.broadcast_shapes(shape, t.shape)) <= 36
            except RuntimeError:
                return False

        return self.tensor(fits)

    def into(self, name: str) -> str:
        """A tensor that can be written into ``name``'s: its shape broadcasts to that one's, of no higher kind."""
        target = self.env[name]

        def fits(t: torch.Tensor) -> bool:
            try:
                shape = torch.broadcast_shapes(target.shape, t.shape)
            except RuntimeError:
                return False
            return shape == target.shape and torch.can_cast(t.dtype, target.dtype)

        return self.tensor(fits)

    def dim(self, name: str) -> int:
        ndim = self.env[name].ndim
        return self.pick(range(-ndim, ndim)) if ndim else self.pick((0, -1))

    def size(self, name: str, dim: int) -> int:
        t = self.env[name]
        return t.shape[dim] if t.ndim else 1

    # --------------------------------------------------------- statements

    def statement(self) -> None:
        kind = self.pick(("view",) * 5 + ("write",) * 6 + ("math",) * 6 + ("odd",))
        table = {"view": VIEWS, "write": WRITES, "math": MATH, "odd": ODD}[kind]
        try:
            text = self.pick(table)(self)
        except LookupError:  # no tensor fits
            return
        if text is None:
            return
        bare = self.pick((False,) * 7 + (True,))
        prefix = "no_grad: " * bare
        if table in (VIEWS, MATH):
            self.assignment(prefix, text)
        else:
            self.keep(prefix + text)

    def assignment(self, prefix: str, text: str) -> None:
        name = f"t{self.count}"
        before = dict(self.env)
        error = step(f"{prefix}{name} = {text}", self.env)
        if error is None:
            made = self.env[name]
            if made.numel() > 36 or not bool(made.detach().to(torch.complex128).abs().lt(1e4).all()):
                self.env = before
                return
            if not made._is_view() and made.stride() != torch.empty(made.shape).stride():
                self.env = before
                text = f"({text}).clone(memory_format=torch.contiguous_format)"
                step(f"{prefix}{name} = {text}", self.env)
            self.count += 1
        self.program.lines.append(f"{prefix}{name} = {text}")

    def keep(self, line: str) -> None:
        step(line, self.env)
        self.program.lines.append(line)


KINDS = (
    ("float32 grad", "int64"), ("float32", "bool"), ("int64", "bool"), ("complex128 grad", "float32"),
    ("float32 grad", "float64 grad"), ("int64",), ("float64 grad",), ("bfloat16", "int64"),
)  # fmt: skip

Statement = Callable[[Writer], "str | None"]


def is_float(t: torch.Tensor) -> bool:
    return t.dtype in FLOATS


def is_real(t: torch.Tensor) -> bool:
    return not t.is_complex() and t.dtype is not torch.bool


def is_number(t: torch.Tensor) -> bool:
    return t.dtype is not torch.bool


def has_no_ties(t: torch.Tensor) -> bool:
    """Which of equal elements PyTorch's `topk` takes is up to an unstable algorithm."""
    try:
        return is_real(t) and t.unique().numel() == t.numel()
    except RuntimeError:  # a view that may not be read any more
        return False


def has_dims(t: torch.Tensor) -> bool:
    return t.ndim > 0 and t.numel() > 0


# ----------------------------------------------------------------------- views


def _factors(w: Writer, name: str) -> tuple[int, ...]:
    count = w.env[name].numel()
    shapes = [(count,), (-1,), (1, count), (count, 1)]
    shapes += [(a, count // a) for a in (2, 3) if count % a == 0]
    shapes += [(2, -1, 1), (2, 2, count // 4)] if count % 4 == 0 else []
    return w.pick(shapes)


def _index(w: Writer, name: str) -> str:
    """Numbers, slices, None and Ellipsis."""
    ndim = w.env[name].ndim
    parts = []
    for d in range(w.pick(range(ndim + 1))):
        size = w.env[name].shape[d]
        near = w.pick(range(max(size, 1)))
        parts.append(w.pick((f"{near}", f"{near - size}", ":", f"{near}:", "::2", f":{near + 1}", "None, :")))
    if w.pick((False, False, True)):
        parts.append("...")
    return ", ".join(parts) or "..."


def _simple(*suffixes: str) -> Statement:
    return lambda w: f"{w.tensor()}{w.pick(suffixes)}"


def _dims_of(w: Writer, pattern: str, wanted: Callable[[torch.Tensor], bool] = lambda t: True) -> str:
    """A pattern with ``{t}``, ``{d}`` and ``{e}``, two dimensions of it, ``{i}``, a position, and ``{n}``, a number."""
    t = w.tensor(wanted)
    d = w.dim(t)
    size = max(w.size(t, d), 1)
    i = w.pick(range(size)) if "{i}" in pattern else 0
    e = w.dim(t) if "{e}" in pattern else 0
    n = w.pick(NUMBERS) if "{n}" in pattern else 0
    p = w.pick(POSITIVE) if "{p}" in pattern else 0
    return pattern.format(t=t, d=d, e=e, i=i, left=size - i, n=n, p=p)


def pattern(text: str, wanted: Callable[[torch.Tensor], bool] = lambda t: True) -> Statement:
    return lambda w: _dims_of(w, text, wanted)


def _view(w: Writer) -> str:
    t = w.tensor()
    return f"{t}.{w.pick(('view', 'view', 'reshape'))}{_factors(w, t)}"


def _expand(w: Writer) -> str:
    t = w.tensor(lambda t: t.numel() <= 12)
    shape = [w.pick((2, 3)) if n == 1 else n for n in w.env[t].shape]
    return f"{t}.expand({[*w.pick(((), (), (2,))), *shape]})"


def _permute(w: Writer) -> str:
    t = w.tensor(lambda t: t.ndim > 1)
    return f"{t}.permute({list(w.pick(list(itertools.permutations(range(w.env[t].ndim)))))})"


def _piece(w: Writer) -> str:
    t = w.tensor(has_dims)
    d = w.dim(t)
    call = w.pick((f"chunk(2, {d})", f"split(1, {d})", f"unbind({d})", f"split([{w.size(t, d)}], {d})"))
    return f"{t}.{call}[{w.pick((0, -1))}]"


VIEWS: list[Statement] = [
    lambda w: (lambda t: f"{t}[{_index(w, t)}]")(w.tensor()),
    lambda w: (lambda t: f"{t}[{_index(w, t)}]")(w.tensor(has_dims)),
    _view, _view, _expand, _permute, _piece,
    pattern("{t}.transpose({d}, {e})"),
    pattern("{t}.swapaxes({d}, {e})"),
    pattern("{t}.movedim({d}, {e})"),
    pattern("{t}.select({d}, {i})", has_dims),
    pattern("{t}.narrow({d}, {i}, {left})", has_dims),
    pattern("{t}.unsqueeze({d})"),
    pattern("{t}.squeeze({d})"),
    pattern("{t}.flatten()"),
    pattern("{t}.unfold({d}, 1, 1)"),
    pattern("{t}.diagonal({i}, {d}, {e})", lambda t: t.ndim > 1),
    _simple(".squeeze()", ".detach()", ".T", ".mT", ".ravel()", "[None]"),
    lambda w: f"{w.tensor(lambda t: t.ndim == 2)}.t()",
    lambda w: (lambda t: f"{t}.view_as({w.tensor(lambda o: o.numel() == w.env[t].numel())})")(w.tensor()),
    lambda w: f"{w.tensor(lambda t: t.is_complex())}.{w.pick(('real', 'imag'))}",
    lambda w: f"torch.view_as_real({w.tensor(lambda t: t.is_complex())})",
]  # fmt: skip


# ------------------------------------------------------------------------ math


def unary(*calls: str, wanted: Callable[[torch.Tensor], bool] = is_number) -> Statement:
    return lambda w: w.pick(calls).format(t=w.tensor(wanted), n=w.pick(NUMBERS), p=w.pick(POSITIVE))


def binary(*calls: str, wanted: Callable[[torch.Tensor], bool] = lambda t: True) -> Statement:
    def make(w: Writer) -> str:
        a = w.tensor(wanted)
        return w.pick(calls).format(a=a, b=w.fitting(a, wanted), p=w.pick(POSITIVE))

    return make


def _where(w: Writer) -> str:
    a = w.tensor()
    b = w.fitting(a)
    return f"torch.where({w.fitting(a, is_real)} > {w.pick(NUMBERS)}, {a}, {b})"


def _matmul(w: Writer) -> str:
    a = w.tensor(lambda t: is_float(t) and t.ndim > 0)
    left = w.env[a]
    size = left.shape[-1] if left.ndim else 0

    def fits(t: torch.Tensor) -> bool:
        return t.dtype is left.dtype and t.ndim in (1, 2) and t.shape[0] == size

    return f"{a} @ {w.tensor(fits)}"


def _gather(w: Writer) -> str:
    t = w.tensor(has_dims)
    d = w.dim(t)
    i = w.pick(range(max(w.size(t, d), 1)))
    calls = (
        f"index_select({d}, torch.tensor([{i}, 0]))", f"roll({i}, {d})", f"flip({d})", f"repeat_interleave(2, {d})",
        f"take_along_dim(torch.zeros_like({t}, dtype=torch.int64), {d})", f"index_fill({d}, torch.tensor([{i}]), 2)",
        f"take(torch.tensor([{i}, 0, {i}]))",
    )  # fmt: skip
    return f"{t}.{w.pick(calls)}"


def _join(w: Writer) -> str:
    a = w.tensor(has_dims)
    shape = w.env[a].shape
    b = w.tensor(lambda t: t.shape == shape)
    return f"torch.{w.pick(('cat', 'stack'))}([{a}, {b}], {w.dim(a)})"


def _fancy(w: Writer) -> str:
    t = w.tensor(has_dims)
    shape = w.env[t].shape
    i, j = w.pick(range(shape[0])), w.pick(range(shape[-1]))
    return f"{t}[{w.pick((f'[{i}, 0]', f'torch.tensor([[{i}], [0]])', f'..., [{j}, 0]', f'[{i}], None'))}]"


def _masked(w: Writer) -> str | None:
    if w.static:
        return None
    t = w.tensor(is_real)
    return w.pick((f"{t}[{t} > {{n}}]", f"{t}.masked_select({t} > {{n}})")).format(n=w.pick(NUMBERS))


MATH: list[Statement] = [
    unary("-{t}", "{t} * {n}", "{t} + {n}", "{n} - {t}", "{t} / {p}", "{t}.clone()", "{t}.square()", "{t} ** 2"),
    unary("{t}.sin()", "{t}.tanh()", "{t}.sigmoid()", "{t}.cos()", "{t}.exp().clamp(max=9)", "{t}.atan()",
          "{t}.relu()", "{t}.abs()", "({t}.abs() + 1).log()", "({t}.abs() + 1).sqrt()", "{t}.erf()", wanted=is_float),
    unary("{t}.abs()", "{t}.sign()", "{t}.clamp(-1, {p})", "{t}.clamp(min={n})", "{t}.remainder({p})", "{t}.fmod({p})",
          "{t}.floor()", "{t}.nan_to_num()", "{t} > {n}", "{t}.masked_fill({t} > {n}, 2)", wanted=is_real),
    unary("{t}.to(torch.float64)", "{t}.float()", "{t}.to(torch.float64)", "{t}.contiguous()",
          "{t}.clone()", "torch.zeros_like({t})", "torch.ones_like({t}) * {n}", wanted=lambda t: not t.is_complex()),
    unary("{t}.long()", "{t} > {n}", "{t}.bool()", "~({t} > {n})", "{t}.isnan()", "{t}.argsort(stable=True)",
          "{t}.argmax()", "({t} != 0).any()", wanted=is_real),
    binary("{a} + {b}", "{a} * {b}", "{a} - {b}", "torch.add({a}, {b}, alpha={p})", "torch.mul({a}, {b})"),
    binary("{a} + {b}", "{a} * {b}", "{a} / ({b}.abs() + {p})", "torch.maximum({a}, {b})", "torch.minimum({a}, {b})",
           "torch.atan2({a}, {b})", "{a} > {b}", "torch.lerp({a}, {b}, 0.25)", "torch.addcmul({a}, {a}, {b})",
           "torch.logaddexp({a}, {b})", "{a} == {b}", wanted=is_float),
    _where, _matmul, _gather, _join, _fancy, _masked,
    pattern("{t}.sum({d})"), pattern("{t}.sum({d}, keepdim=True)"), pattern("{t}.sum()"),
    pattern("{t}.mean({d})", is_float), pattern("{t}.amax({d})", is_real), pattern("{t}.max({d})[0]", is_real),
    pattern("{t}.min()", is_real), pattern("{t}.prod({d})", is_real), pattern("{t}.cumsum({d})"),
    pattern("{t}.cumprod({d})", is_real), pattern("{t}.logsumexp({d})", is_float),
    pattern("{t}.softmax({d})", is_float), pattern("{t}.var({d}, correction=0)", is_float),
    pattern("{t}.norm(dim={d})", is_float), pattern("{t}.sort(dim={d}, stable=True)[0]", is_real),
    pattern("{t}.topk(1, {d})[0]", has_no_ties), pattern("{t}.median()", is_real), pattern("{t}.cummax({d})[0]", is_float),
    pattern("torch.view_as_complex({t})", lambda t: is_float(t) and t.ndim > 0 and t.shape[-1] == 2),
    pattern("{t}.tril()", lambda t: t.ndim > 1), pattern("{t}.repeat(2, *[1] * {t}.ndim)"),
    pattern("torch.complex({t}, {t})", is_float), pattern("{t}.conj() * 1", lambda t: t.is_complex()),
]  # fmt: skip

# -------------------------------------------------------------------- in place


def changed(*calls: str, wanted: Callable[[torch.Tensor], bool] = is_number) -> Statement:
    return lambda w: w.pick(calls).format(t=w.tensor(wanted), n=w.pick(NUMBERS), p=w.pick(POSITIVE))


def combined(*calls: str, wanted: Callable[[torch.Tensor], bool] = is_number) -> Statement:
    def make(w: Writer) -> str:
        a = w.tensor(wanted)
        return w.pick(calls).format(a=a, b=w.into(a), p=w.pick(POSITIVE))

    return make


def _setitem(w: Writer) -> str:
    t = w.tensor(is_number)
    index = _index(w, t)
    try:
        shape = eval(f"{t}[{index}]", w.env).shape
    except ERRORS:
        return f"{t}[{index}] = {w.pick(NUMBERS)}"
    kind = w.env[t].dtype
    fits = w.tensor(lambda o: o.shape == shape and torch.can_cast(o.dtype, kind))
    return w.pick((f"{t}[{index}] = {w.pick(NUMBERS)}", f"{t}[{index}] = {fits}", f"{t}[{index}] += {fits}"))


def _set_fancy(w: Writer) -> str:
    t = w.tensor(lambda t: has_dims(t) and is_number(t))
    shape = w.env[t].shape
    i, j = w.pick(range(shape[0])), w.pick(range(shape[-1]))
    index = w.pick((f"[{i}, 0]", f"torch.tensor([{i}])", f"..., [{j}]", f"{t}.abs() > {w.pick(NUMBERS)}"))
    kind = w.env[t].dtype  # (what PyTorch casts to integers gives these a history)
    value = w.pick((w.pick(NUMBERS), w.tensor(lambda o: o.ndim == 0 and torch.can_cast(o.dtype, kind))))
    return f"{t}[{index}] = {value}"


def _scatter(w: Writer) -> str:
    t = w.tensor(lambda t: has_dims(t) and is_float(t))
    d = w.dim(t)
    shape = w.env[t].shape
    source = w.tensor(lambda o: o.shape == shape and o.dtype is w.env[t].dtype)
    index = f"torch.zeros_like({t}, dtype=torch.int64)"
    first = f"torch.tensor([{w.pick(range(max(w.size(t, d), 1)))}])"
    calls = (
        f"scatter_add_({d}, {index}, {source})", f"index_fill_({d}, {first}, {w.pick(NUMBERS)})",
        f"index_add_({d}, torch.arange({w.size(t, d)}), {source})", f"masked_fill_({t} > 0, {w.pick(NUMBERS)})",
        f"index_copy_({d}, torch.arange({w.size(t, d)}), {source})",
    )  # fmt: skip
    return f"{t}.{w.pick(calls)}"


WRITES: list[Statement] = [
    changed("{t}.mul_({n})", "{t}.add_({n})", "{t}.fill_({n})", "{t}.neg_()", "{t}.zero_()", "{t}.sub_({n})", "{t} *= {n}"),
    changed("{t}.clamp_(-1.5, {p})", "{t}.abs_()", "{t}.div_({p})", "{t}.sin_()", "{t}.relu_()", "{t}.sigmoid_()",
            "{t}.tanh_()", "{t}.square_()", "{t} /= {p}", "{t}.masked_fill_({t} > {n}, {p})", "{t}.fmod_({p})", wanted=is_float),
    combined("{a}.add_({b})", "{a}.mul_({b})", "{a}.sub_({b}, alpha=2)", "{a}.copy_({b})", "{a} += {b}", "{a} -= {b}"),
    combined("{a}.copy_({b})", "{a}.addcmul_({b}, {b}, value={p})", "{a}.lerp_({b}, 0.5)", "{a}.mul_({b})", wanted=is_float),
    combined("{a}.copy_({b})", "{a}.fill_({b}.any())", wanted=lambda t: True),
    combined("{a}.logical_and_({b})", "{a}.bitwise_xor_({b})", wanted=lambda t: t.dtype is torch.bool),
    changed("{t}.gt_({n})", "{t}.floor_()", "{t}.sign_()", "{t}.pow_(2)", wanted=is_real),
    _setitem, _setitem, _set_fancy, _scatter,
    lambda w: (lambda t: f"{t}.copy_({w.fitting(t)})")(w.tensor()),
    lambda w: (lambda t: f"{t}.add_({w.fitting(t)})")(w.tensor()),
    lambda w: f"{w.tensor(is_number)}.data.mul_({w.pick(POSITIVE)})",
    lambda w: f"{w.tensor(is_number)}.detach().add_({w.pick(NUMBERS)})",
    lambda w: f"{w.tensor(has_dims)}.fill_diagonal_({w.pick(POSITIVE)})",
    pattern("{t}.cumsum_({d})", is_float),
]  # fmt: skip


def reshaped(text: str) -> Statement:
    """A compiled function cannot do so to its arguments."""

    def make(w: Writer) -> str:
        leaves = [w.env[f"t{i}"] for i in range(len(w.program.leaves))]
        return _dims_of(w, text, lambda t: not (w.static and any(t is leaf for leaf in leaves)))

    return make


#: what changes a tensor's form or its place in the graph
ODD: list[Statement] = [
    lambda w: f"{w.tensor()}.requires_grad_()",
    lambda w: f"{w.tensor()}.detach_()",
    reshaped("{t}.unsqueeze_({d})"),
    reshaped("{t}.squeeze_()"),
    reshaped("{t}.transpose_({d}, {e})"),
    reshaped("{t}.t_()"),
]
