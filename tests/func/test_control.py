"""Structured control flow: eager as live torch, compiled as eager, derivatives as those of the loop written out."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils._pytree as pytree
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan as torch_scan

import functorch_port as ft
from functorch_port._higher_order_ops.map import map as ft_map
from functorch_port.func import cond, scan, while_loop

NUMBERS = np.random.default_rng(0).normal(size=(3, 4))


def table(lib: Any, **names: Any) -> dict[str, Any]:
    return dict(x=lib.tensor(NUMBERS), w=lib.tensor(NUMBERS[0], requires_grad=True), **names)


def scan_columns(lib: Any, x: Any, w: Any, flow: Any) -> Any:
    return flow.scan(lambda c, col: (c * col, {"a": c + 1, "b": col.sum()}), w[:3] * 1, x, dim=1)


def scan_backwards(lib: Any, x: Any, w: Any, flow: Any) -> Any:
    return flow.scan(
        lambda c, col: (c * w[:3] + col, c.clone()), lib.zeros_like(w[:3]), x, dim=-1, reverse=True
    )


def scan_nothing(lib: Any, x: Any, w: Any, flow: Any) -> Any:
    return flow.scan(lambda c, row: (c, row), w * 1, [])


def scan_of_pairs(lib: Any, x: Any, w: Any, flow: Any) -> Any:
    def step(c, s):
        return {"n": c["n"] + 1, "sum": c["sum"] + s[0] * w}, (c["sum"] * 2, [s[1] + c["n"]])

    return flow.scan(step, {"n": lib.tensor(0), "sum": w * 2}, (x, x * 2))


def mapped(lib: Any, x: Any, w: Any, flow: Any) -> Any:
    return flow.map(lambda row, v: {"p": row * v, "s": row.sum()}, x, w * 1)


def loop_of_ints(lib: Any, x: Any, w: Any, flow: Any) -> Any:
    return flow.while_loop(lambda i, v: 2 * i < v.shape[0] + 2, lambda i, v: (i + 1, v + i), (0, x))


def loop_of_a_condition(lib: Any, x: Any, w: Any, flow: Any) -> Any:
    return flow.while_loop(lambda v: v.abs().sum() < 100, lambda v: (v * v + 1,), (w * 1,))


def branch(lib: Any, x: Any, w: Any, flow: Any) -> Any:
    inner = functools.partial(flow.cond, x.sum() > 0, lambda v: v * 2, lambda v: v.sin())
    return flow.cond(x.sum() < 100, lambda v: inner((v,)) * w, lambda v: v - w, (x,))


PROGRAMS = [
    scan_columns,
    scan_backwards,
    scan_nothing,
    scan_of_pairs,
    mapped,
    loop_of_ints,
    loop_of_a_condition,
    branch,
]


def plain(lib: Any, tree: Any) -> list[Any]:
    """Leaves, Tensors as nested lists, and the kinds they have."""
    if isinstance(tree, dict):
        return [v for k in sorted(tree) for v in plain(lib, tree[k])]
    if isinstance(tree, tuple | list):
        return [v for item in tree for v in plain(lib, item)]
    if isinstance(tree, lib.Tensor):
        return [(str(tree.dtype), tuple(tree.shape), tree.detach().tolist())]
    return [tree]


def total(lib: Any, tree: Any) -> Any:
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, tuple | list):
        return sum(total(lib, item) for item in tree)
    return (tree**2).sum() if isinstance(tree, lib.Tensor) and tree.is_floating_point() else 0


def outcome(lib: Any, program: Any, flow: Any, wrap: Any = lambda f: f, grad: bool = True) -> list[Any]:
    given = table(lib, flow=flow)

    def step():
        out = program(lib, **given)
        if grad:
            loss = total(lib, out)
            if isinstance(loss, lib.Tensor) and loss.requires_grad:
                loss.backward()
        return out

    out = wrap(step)()
    return plain(lib, [out, given["w"].grad])


def close(a: list[Any], b: list[Any]) -> None:
    assert len(a) == len(b)
    for one, other in zip(a, b):
        if isinstance(one, tuple) and isinstance(other, tuple):
            assert one[:2] == other[:2]
            np.testing.assert_allclose(one[2], other[2], rtol=1e-10, atol=1e-12)
        else:
            assert one == other


def _scan(step: Any, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
    """`scan` as its documentation has it, in plain Python on torch's tensors."""
    leaves, tree = pytree.tree_flatten(xs)
    if not leaves:
        return init, []
    dim %= leaves[0].dim()
    ys = []
    order = range(leaves[0].shape[dim])
    for i in reversed(order) if reverse else order:
        init, y = step(init, pytree.tree_unflatten([leaf.select(dim, i) for leaf in leaves], tree))
        ys.append(y)
    if reverse:
        ys.reverse()
    return init, pytree.tree_map(lambda *parts: torch.stack(parts, min(dim, parts[0].dim())), *ys)


def _map(f: Any, xs: Any, *args: Any) -> Any:
    return _scan(lambda c, x: (c, f(x, *args)), None, xs)[1]


def _while_loop(cond_fn: Any, body_fn: Any, carried: Any) -> Any:
    while cond_fn(*carried):
        carried = body_fn(*carried)
    return carried


def _cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    return (true_fn if pred else false_fn)(*operands)


OURS = SimpleNamespace(scan=scan, map=ft_map, while_loop=while_loop, cond=cond)
THEIRS = SimpleNamespace(scan=torch_scan, map=torch_map, while_loop=torch.while_loop, cond=torch.cond)
LOOPS = SimpleNamespace(scan=_scan, map=_map, while_loop=_while_loop, cond=_cond)


@pytest.fixture
def without_dynamo() -> Any:
    """PyTorch's control flow as it is, not through its compiler, whose start takes twenty seconds.

    So run it takes scans of one output only, and has no gradients.
    """
    with torch.compiler.set_stance("force_eager"), torch.no_grad():
        yield


@pytest.mark.usefixtures("without_dynamo")
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p not in (scan_columns, scan_of_pairs)])
def test_values_are_torchs(program: Any) -> None:
    close(outcome(ft, program, OURS, grad=False), outcome(torch, program, THEIRS, grad=False))


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_are_those_of_plain_loops(program: Any) -> None:
    close(outcome(ft, program, OURS), outcome(torch, program, LOOPS))


@pytest.mark.parametrize("program", PROGRAMS)
def test_compiled_is_eager(program: Any) -> None:
    eager, compiled = outcome(ft, program, OURS), outcome(ft, program, OURS, ft.compile)
    if program is loop_of_ints:  # in a trace the int is a 0-dim Tensor
        eager[0] = ("torch.int64", (), eager[0])
    close(eager, compiled)


X = ft.ones(2, 3)
T = torch.ones(2, 3)


def _body(lib: Any) -> Any:
    return lambda c, x: (c + x, c * x)


ERRORS = {
    "callable": lambda lib, scan, x: scan(3, lib.zeros(3), x),
    "reverse": lambda lib, scan, x: scan(_body(lib), lib.zeros(3), x, reverse=1),
    "no init": lambda lib, scan, x: scan(_body(lib), [], x),
    "init of ints": lambda lib, scan, x: scan(_body(lib), 1, x),
    "xs with an int": lambda lib, scan, x: scan(_body(lib), lib.zeros(3), [x, 3]),
    "dim": lambda lib, scan, x: scan(_body(lib), lib.zeros(3), x, dim=2),
    "0-dim": lambda lib, scan, x: scan(_body(lib), lib.zeros(3), lib.tensor(1.0)),
    "empty": lambda lib, scan, x: scan(_body(lib), lib.zeros(3), lib.zeros(0, 3)),
    "scan dtype": lambda lib, scan, x: scan(lambda c, s: ((c + s).double(), s.clone()), lib.zeros(3), x),
    "scan shape": lambda lib, scan, x: scan(lambda c, s: ((c + s).sum(), s.clone()), lib.zeros(3), x),
    "pred none": lambda lib, scan, x: lib.cond(None, lib.sin, lib.cos, (x,)),
    "pred size": lambda lib, scan, x: lib.cond(x[0, 0:0] > 0, lib.sin, lib.cos, (x,)),
    "branch": lambda lib, scan, x: lib.cond(lib.tensor(True), 3, lib.cos, (x,)),
    "branch, number": lambda lib, scan, x: lib.cond(1, 3, lib.cos, (x,)),
    "operands": lambda lib, scan, x: lib.cond(lib.tensor(True), lib.sin, lib.cos, (3,)),
    "while callable": lambda lib, scan, x: lib.while_loop(3, lambda i: (i + 1,), (lib.tensor(0),)),
    "while dtype": lambda lib, scan, x: lib.while_loop(
        lambda i, v: i < 3, lambda i, v: (i + 1, v.double()), (lib.tensor(0), x)
    ),
    "map empty": lambda lib, scan, x: lib._higher_order_ops.map(lambda v: v, lib.zeros(0, 2)),
    "map ints": lambda lib, scan, x: lib._higher_order_ops.map(lambda v: v, [3]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torchs(name: str) -> None:
    with pytest.raises(Exception) as theirs:
        ERRORS[name](torch, torch_scan, T)
    kind = RuntimeError if isinstance(theirs.value, RuntimeError) else theirs.type  # dynamo's own kinds
    first = str(theirs.value).split("\n")[0]
    for wrap in (lambda f: f, ft.compile):
        with pytest.raises(kind) as ours:
            wrap(lambda: ERRORS[name](ft, scan, X))()
        received = str(ours.value).split("\n")[0]
        assert (
            received.split(", but got tensor")[0] == first.split(", but got tensor")[0]
        )  # values are not traced


def test_conditions_and_carries_that_do_not_fit() -> None:
    for wrap in (lambda f: f, ft.compile):
        with pytest.raises(RuntimeError, match="must return a boolean scalar tensor or a boolean"):
            wrap(lambda: while_loop(lambda x: 3 - x, lambda x: (x + 1,), (ft.tensor(0.0),)))()
        with pytest.raises(AssertionError, match="can only be of .* but got"):
            wrap(lambda: while_loop(lambda x, s: x < 3, lambda x, s: (x + 1, s), (ft.tensor(0.0), 1.5)))()
        with pytest.raises(RuntimeError, match="same number of outputs"):
            wrap(lambda: while_loop(lambda x, y: x < 3, lambda x, y: (x + 1,), (ft.tensor(0), X)))()
    with pytest.raises(RuntimeError, match="cond: both branches must return"):
        ft.compile(lambda: cond(X.sum() > 0, lambda: X, lambda: (X,)))()


@pytest.mark.parametrize("rounds", [0, 3, 64, 150, 1000])
def test_gradient_of_a_compiled_loop(rounds: int) -> None:
    """Carried and captured tensors, ints beside floats, more rounds than states are kept."""

    def step(n, wrap):
        w = ft.tensor([0.9, -1.1], dtype=ft.float64, requires_grad=True)
        x = ft.tensor([1.0, 2.0], dtype=ft.float64, requires_grad=True)

        def run(n):
            return while_loop(
                lambda i, v, k: i < n, lambda i, v, k: (i + 1, (v * w).sin() + i * 0.5, k + i), (0, x, n * 0)
            )

        _, v, k = wrap(run)(n)
        (v * v).sum().backward()
        return [v.tolist(), k.item(), x.grad.tolist(), None if w.grad is None else w.grad.tolist()]

    n = ft.tensor(rounds)
    eager, compiled = step(n, lambda f: f), step(n, ft.compile)
    if rounds == 0:  # what was not used has no gradient eagerly; a program does not know that
        eager[3] = [0.0, 0.0]
    for a, b in zip(eager, compiled):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-300)


def test_one_program_for_any_number_of_rounds() -> None:
    w = ft.tensor(1.5, requires_grad=True)

    @ft.compile
    def step(n):
        w.grad = None
        while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v * w), (ft.tensor(0), ft.tensor(1.0)))[
            1
        ].backward()
        return w.grad

    for n in (2, 5, 70):
        assert step(ft.tensor(n)).item() == pytest.approx(n * 1.5 ** (n - 1), rel=1e-5)
    assert step.traces <= 2


def powers(n: Any, x: Any) -> Any:
    return while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v * x), (ft.tensor(0), ft.ones_like(x)))[1]


@pytest.mark.parametrize("wrap", [lambda f: f, ft.compile], ids=["eager", "compiled"])
def test_transforms_of_a_loop(wrap: Any) -> None:
    x, n = ft.tensor([2.0, 3.0]), ft.tensor(3)
    func = ft.func
    assert wrap(lambda: func.grad(lambda v: powers(n, v).sum())(x))().tolist() == [12.0, 27.0]
    assert wrap(lambda: func.jvp(lambda v: powers(n, v), (x,), (ft.ones(2),))[1])().tolist() == [12.0, 27.0]
    assert wrap(lambda: func.hessian(lambda v: powers(n, v).sum())(x))().tolist() == [
        [12.0, 0.0],
        [0.0, 18.0],
    ]
    counts = ft.tensor([1, 3])
    assert wrap(lambda: ft.vmap(powers)(counts, x))().tolist() == [2.0, 27.0]
    # each example goes round its own number of times
    assert wrap(lambda: ft.vmap(func.grad(lambda v, n: powers(n, v)))(x, counts))().tolist() == [1.0, 27.0]


@pytest.mark.parametrize("wrap", [lambda f: f, ft.compile], ids=["eager", "compiled"])
def test_transforms_of_branches_and_scans(wrap: Any) -> None:
    def chosen(x):
        return cond(x > 0, lambda v: v * v, lambda v: v.exp(), (x,))

    x = ft.tensor([2.0, -1.0])
    expected = [4.0, float(np.exp(np.float32(-1.0)))]
    np.testing.assert_allclose(wrap(lambda: ft.vmap(chosen)(x))().tolist(), expected, rtol=1e-6)
    np.testing.assert_allclose(wrap(lambda: ft.vmap(ft.func.grad(chosen))(x))().tolist(), expected, rtol=1e-6)

    def running(c, rows):
        return scan(lambda c, r: (c * r, c.clone()), c, rows)[0].sum()

    rows = ft.arange(6.0).reshape(3, 2) + 1
    assert wrap(lambda: ft.func.grad(running)(ft.ones(2), rows))().tolist() == [15.0, 48.0]
    grads = wrap(lambda: ft.vmap(ft.func.grad(running), (0, None))(ft.ones(2, 2), rows))()
    assert grads.tolist() == [[15.0, 48.0]] * 2


class Memory:
    """Buffers that a part of a program writes: rows of a table, a count, a view of another tensor."""

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.rows = lib.zeros(4, 3, dtype=lib.float64)
        self.count = lib.zeros((), dtype=lib.int64)
        self.whole = lib.ones(2, 3, dtype=lib.float64)
        self.w = lib.tensor(NUMBERS[0, :3], requires_grad=True)
        self.norm = lib.nn.BatchNorm1d(3, dtype=lib.float64)
        self.small, self.number = lib.zeros(3), lib.tensor(1.0)

    def write(self, i: Any, x: Any) -> Any:
        with self.lib.no_grad():
            self.small.data.add_(x.detach())
            self.small[1:] = 2
            self.number.mul_(0.5).clamp_(min=0.1)
            self.rows.index_copy_(0, i[None], x.detach()[None] + self.rows.sum(0))
            self.count += 1
            self.whole[1].mul_(1.5)
        return self.rows.sum(0) + self.whole[1] + self.count

    def state(self) -> list[Any]:
        return [
            self.rows,
            self.count,
            self.whole,
            self.w.grad,
            self.norm.running_mean,
            self.norm.num_batches_tracked,
        ]


def writes_in_rounds(m: Memory, flow: Any, x: Any) -> Any:
    start = (m.lib.tensor(0), x)
    return flow.while_loop(lambda i, x: (i < 4) & (m.count < 7), lambda i, x: (i + 1, m.write(i, x)), start)[
        1
    ]


def writes_in_a_recorded_round(m: Memory, flow: Any, x: Any) -> Any:
    body = lambda i, x: (i + 1, x * m.w + m.write(i, x))
    return flow.while_loop(lambda i, x: i < 3, body, (m.lib.tensor(0), x))[1]


def writes_in_a_scan(m: Memory, flow: Any, x: Any) -> Any:
    body = lambda x, i: (m.write(i, x) * m.w, x * m.w)
    return flow.scan(body, x, m.lib.arange(4))[1]


def writes_in_a_map(m: Memory, flow: Any, x: Any) -> Any:
    return flow.map(lambda i: m.write(i, x), m.lib.arange(3))


def writes_in_a_branch(m: Memory, flow: Any, x: Any) -> Any:
    once = lambda x: flow.cond(m.count < 1, lambda x: m.write(m.count + 1, x), lambda x: x * m.w, (x,))
    return once(x) + once(x)


def writes_in_branches_of_rounds(m: Memory, flow: Any, x: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        return i + 1, flow.cond(i % 2 == 0, lambda x: m.write(i, x), lambda x: x + m.rows[0], (x,))

    return flow.while_loop(lambda i, x: i < 4, body, (m.lib.tensor(0), x))[1]


def writes_in_rounds_of_rounds(m: Memory, flow: Any, x: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        x = flow.while_loop(lambda k, x: k < 2, lambda k, x: (k + 1, m.write(k, x)), (m.lib.tensor(0), x))[1]
        return i + 1, x * 0.5 + m.count

    return flow.while_loop(lambda i, x: i < 3, body, (m.lib.tensor(0), x))[1]


def counts_batches(m: Memory, flow: Any, x: Any) -> Any:
    body = lambda i, x: (i + 1, m.norm(x) * m.w)
    return flow.while_loop(lambda i, x: i < 3, body, (m.lib.tensor(0), x.expand(2, 3) + m.whole.cumsum(0)))[1]


WRITING = [
    writes_in_rounds,
    writes_in_a_recorded_round,
    writes_in_a_scan,
    writes_in_a_map,
    writes_in_a_branch,
    writes_in_branches_of_rounds,
    writes_in_rounds_of_rounds,
    counts_batches,
]


def _while(going: Any, body: Any, carried: Any) -> Any:
    while going(*carried):
        carried = body(*carried)
    return carried


WRITTEN_OUT = SimpleNamespace(while_loop=_while, scan=_scan, map=_map, cond=_cond)
OURS = SimpleNamespace(while_loop=while_loop, scan=scan, map=ft_map, cond=cond)


@pytest.mark.parametrize("program", WRITING, ids=lambda p: p.__name__)
def test_parts_of_a_program_write_to_tensors_from_outside(program: Any) -> None:
    """Values, gradients and state after three calls, as of torch's tensors in Python's own loops."""

    def calls(lib: Any, flow: Any, wrap: Any) -> list[Any]:
        memory, found = Memory(lib), []

        def step(x: Any) -> Any:
            out = program(memory, flow, x)
            if out.requires_grad:
                (out**2).sum().backward()
            return out

        step = wrap(step)
        for row in range(3):
            found += plain(lib, [step(lib.tensor(NUMBERS[row, :3])), memory.state()])
        return found

    expected = calls(torch, WRITTEN_OUT, lambda f: f)
    close(calls(ft, OURS, lambda f: f), expected)
    close(calls(ft, OURS, ft.compile), expected)


DRAWING = {
    "while_loop": lambda x: while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * ft.rand(8)), (ft.tensor(0), x))[1],
    "scan": lambda x: scan(lambda c, r: (c * ft.rand(8) * r, c.clone()), x, ft.ones(4, 8))[0],
    "map": lambda x: ft_map(lambda r: r * ft.rand(8), x.expand(4, 8)).prod(0),
    "cond": lambda x: cond(x.sum() > 0, lambda x: x * ft.rand(8), lambda x: x, (x,)),
    "dropout": lambda x: scan(lambda c, r: (ft.dropout(c * r, 0.5, True), c.clone()), x, ft.ones(4, 8))[1].prod(0),
    "multinomial": lambda x: scan(
        lambda c, r: (c, ft.multinomial(r, 1) + c[:1]), x, ft.ones(8, 90)
    )[1].squeeze(1),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWING)
def test_random_numbers_of_each_round(name: str) -> None:
    """Each round has its own, the same from the same seed, and the derivative is that of the numbers drawn."""
    x = ft.full((8,), 2.0, requires_grad=True)

    @ft.compile
    def step() -> Any:
        x.grad = None
        out = DRAWING[name](x)
        out.sum().backward()
        return out, ft.rand(8)

    ft.manual_seed(1)
    (first, after), grad = step(), x.grad
    second, _ = step()
    assert len({*first.tolist()}) > 1 and (first != second).any() and (after != first).all()
    ft.manual_seed(1)
    again, same = step()
    assert ft.equal(again, first) and ft.equal(same, after)
    if name not in ("dropout", "multinomial"):
        power = 4 if name == "map" else 1
        np.testing.assert_allclose(grad.numpy(), power * first.detach().numpy() / 2, rtol=1e-5)
    with pytest.raises(NotImplementedError, match="compile without rng"):
        ft.compile(lambda: DRAWING[name](x), rng="torch")()


def test_rounds_draw_numbers_of_their_own() -> None:
    fill = lambda i, rows: (i + 1, rows.index_copy(0, i[None], ft.rand(1, 8)))
    drop = ft.vmap(lambda x: ft.dropout(x, 0.5, True) * ft.rand(()), randomness="different")
    ways = [
        lambda: scan(lambda c, r: (c * 1, drop(r) + ft.rand(8)), ft.ones(1), ft.ones(4, 8))[1],
        lambda: scan(lambda c, r: (c * 1, r * ft.rand(8)), ft.ones(1), ft.ones(4, 8))[1],
        lambda: ft_map(lambda r: r * ft.rand(8), ft.ones(4, 8)),
        lambda: while_loop(lambda i, rows: i < 4, fill, (ft.tensor(0), ft.zeros(4, 8)))[1],
        lambda: ft.vmap(lambda x: while_loop(lambda x: x.sum() < 1, lambda x: (x + 1,), (x,))[0])(
            ft.rand(4, 8)
        ),
    ]
    for way in ways:
        assert len({*ft.compile(way)().flatten().tolist()}) == 32


def test_a_branch_not_taken_draws_nothing() -> None:
    draws = ft.compile(
        lambda x: (cond(x > 0, lambda x: x * ft.rand(3), lambda x: x * ft.ones(3), (x,)), ft.rand(3))
    )
    ft.manual_seed(0)
    taken = draws(ft.tensor(1.0))[1]
    ft.manual_seed(0)
    not_taken = draws(ft.tensor(-1.0))[1]
    ft.manual_seed(0)
    assert ft.equal(not_taken, ft.compile(lambda: ft.rand(3))()) and not ft.equal(taken, not_taken)


def _twice(body: Any, x: Any) -> Any:
    return while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, body(x)), (ft.tensor(0), x))


def _inner_write(x: Any) -> Any:
    mine = x + 1
    _twice(lambda y: mine.add_(1) + y, x)
    return mine


REFUSED = {
    "an argument": (lambda t, x: _twice(lambda x: x.add_(1), x), "an argument of a branch or of a round"),
    "an argument of scan": (
        lambda t, x: scan(lambda c, r: (c.add_(r), c.clone()), x, ft.ones(2, 3)),
        "an argument of a branch or of a round",
    ),
    "an argument of cond": (
        lambda t, x: cond(x.sum() > 0, lambda x: x.add_(1), lambda x: x, (x,)),
        "an argument of a branch or of a round",
    ),
    "given too": (lambda t, x: _twice(lambda x: x + t.add_(1), t), "returns or is given a tensor that it also writes"),
    "returned": (lambda t, x: _twice(lambda x: t.add_(1), x), "returns or is given a tensor that it also writes"),
    "given in a round": (
        lambda t, x: _twice(lambda y: y + _twice(lambda x: x + t.add_(1), t)[1], x),
        "returns or is given a tensor that it also writes",
    ),
    "condition": (
        lambda t, x: while_loop(lambda x: t.add_(1).sum() < 3, lambda x: (x + 1,), (x,)),
        "the condition of a while_loop writes",
    ),
    "condition by chance": (
        lambda t, x: while_loop(lambda x: ft.rand(()) < 0.5, lambda x: (x + 1,), (x,)),
        "the condition of a while_loop writes",
    ),
    "made around": (lambda t, x: _twice(_inner_write, x), "made in a round or a transform around"),
    "recorded": (
        lambda t, x: _twice(lambda x: x * W + t.copy_(x * W) * 1, x),
        "that is differentiated writes to a tensor from outside",
    ),
    "a value": (lambda t, x: _twice(lambda x: x * x.sum().item(), x), "not known while the function is being compiled"),
    "a size": (lambda t, x: _twice(lambda x: x + x[: x[0].int()].sum(), x), "not known while the function is being"),
    "in vmap": (lambda t, x: ft.vmap(lambda y: _twice(lambda x: x + t.add_(1), y))(x), "mutate a captured Tensor"),
}  # fmt: skip
W = ft.ones(3, requires_grad=True)


@pytest.mark.parametrize("name", REFUSED)
def test_what_parts_of_a_program_must_not_do(name: str) -> None:
    program, text = REFUSED[name]
    t, x = ft.ones(3), ft.ones(3)
    with pytest.raises((RuntimeError, NotImplementedError), match=text):
        ft.compile(program)(t, x)
    assert t.tolist() == x.tolist() == [1.0, 1.0, 1.0] and t._version == x._version == 0
