"""`Timer`, `Measurement` and `Compare` beside PyTorch's: what they print of given times; FLOPs beside its counter."""

from __future__ import annotations

import re

import pytest
import torch
import torch.utils.benchmark as theirs
from torch.utils.benchmark.utils.common import TaskSpec as TheirSpec

import functorch_port as ft
from functorch_port.utils import benchmark as ours
from functorch_port.utils.flop_counter import FlopCounterMode

TIMES = [
    [1e-4, 1.1e-4, 1.2e-4, 5e-4, 1e-3],
    [1e-1] * 20,
    [1.0, 1.1, 1.2] * 4,
    [3e-8, 4e-8],
    [3e-8, 3e-8, 3.1e-8],
    [300.0],
    [1e-5, 1.05e-5, 1.0e-5, 1.02e-5],
]
NAMES = [
    {},
    {"label": "L", "num_threads": 4},
    {"label": "L", "sub_label": "S", "description": "D", "env": "E"},
    {"sub_label": "S"},
    {"stmt": "for i in range(3):\n    pass"},
    {"setup": "x = 1\ny = 2"},
    {"setup": "x = 1\ny = 2", "stmt": "for i in range(3):\n    pass", "description": "D"},
]


def measured(module, times, number=1, **names):
    names = {"stmt": "x + y", "setup": "pass", **names}
    spec = ours.TaskSpec if module is ours else TheirSpec
    return module.Measurement(number_per_run=number, raw_times=list(times), task_spec=spec(**names))


def shown(measurement) -> str:
    return repr(measurement).partition("\n")[2]  # without the address


@pytest.mark.parametrize("number", [1, 10])
def test_measurements_are_shown_as_torchs(number) -> None:
    for times in TIMES:
        for names in NAMES:
            one, other = (measured(module, times, number, **names) for module in (ours, theirs))
            assert shown(one) == shown(other)
            for name in ("mean", "median", "iqr"):
                assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12)
            for name in (
                "times",
                "significant_figures",
                "has_warnings",
                "title",
                "as_row_name",
                "env",
                "label",
            ):
                assert getattr(one, name) == getattr(other, name), name
            assert one.meets_confidence(0.5) == other.meets_confidence(0.5)


def test_merging() -> None:
    def merged(module):
        given = [([1.0], 1, "a"), ([2.0], 1, "b"), ([3.0], 2, "a")]
        ones = [measured(module, times, number, label=label) for times, number, label in given]
        return [(m.title, m.number_per_run, m.raw_times) for m in module.Measurement.merge(ones)]

    assert merged(ours) == merged(theirs)


def rows(module):
    for sub_label, factor in (("a", 1), ("longer", 10)):
        for description, time in (("numpy", 1e-5), ("a long name", 2.5e-6)):
            for threads in (1, 4):
                names = {"sub_label": sub_label, "description": description, "num_threads": threads}
                yield measured(module, [time * threads * factor] * 5, label="cmp", **names)
    yield measured(module, [3.0] * 3, label="other", sub_label="s", description="d", env="one")
    yield measured(module, [4.0] * 3, label="other", sub_label="s", description="d", env="two")
    for sub_label in "ba":  # of several environments, in an order of their own
        for env, threads in (("two", 1), ("one", 1), ("two", 4)):
            names = {"sub_label": sub_label, "env": env, "num_threads": threads}
            yield measured(module, [3.0] * 3, label="envs", description="d", **names)
    yield measured(module, [3.0] * 3, label="one env", sub_label="s", description="d", env="one")
    for k, time in enumerate((1, 1.005, 1.05, 1.2, 1.99, 2, 4.99, 5)):
        yield measured(module, [time] * 3, label="colours", sub_label=f"s{k}", description="d")


def test_tables_are_torchs() -> None:
    one, other = (module.Compare(list(rows(module))) for module in (ours, theirs))
    assert str(one) == str(other)
    for table in (one, other):
        table.trim_significant_figures()
    assert str(one) == str(other)
    for by_row in (False, True):
        one, other = (
            module.Compare([r for r in rows(module) if r.task_spec.label == "colours"])
            for module in (ours, theirs)
        )
        for table in (one, other):
            table.colorize(rowwise=by_row)
        assert str(one) == str(other)
    missing = [{"sub_label": "a", "description": "x"}, {"sub_label": "b", "description": "yy"}]
    one, other = (
        module.Compare([measured(module, [1e-3] * 3, label="l", **names) for names in missing])
        for module in (ours, theirs)
    )
    assert str(one) == str(other)


def test_tables_with_colours_and_warnings() -> None:
    table = ours.Compare(
        [*rows(ours), measured(ours, [1e-3, 2e-3, 3e-3, 4e-3], label="cmp", sub_label="wide")]
    )
    table.colorize()
    table.highlight_warnings()
    assert "\x1b[92m" in str(table) and "\x1b[31m" in str(table) and "(! 60%)" in str(table)
    with pytest.raises(ValueError, match="Measurement"):
        table.extend_results([1])


def test_numbers() -> None:
    for value in (5e-9, 1e-6, 2e-3, 1.0, 100.0):
        assert ours.select_unit(value) == theirs.select_unit(value)
        for figures in (1, 2, 4):
            one, other = (module.trim_sigfig(123.456 * value, figures) for module in (ours, theirs))
            assert one == pytest.approx(other)


class Clock:
    """Time goes on by the runs that were made."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def run(self) -> None:
        self.now += 0.25


def test_numbers_of_runs() -> None:
    def counted(module, method, **options):
        clock = Clock()
        timer = module.Timer("clock.run()", timer=clock, globals={"clock": clock})
        found = getattr(timer, method)(**options)
        return found.number_per_run, found.median, len(found.times)

    assert counted(ours, "timeit", number=7) == counted(theirs, "timeit", number=7) == (7, 0.25, 1)
    blocked = [counted(module, "blocked_autorange", min_run_time=2.0) for module in (ours, theirs)]
    assert blocked[0] == blocked[1]
    assert counted(ours, "adaptive_autorange")[1] == 0.25
    blocks = []
    clock = Clock()
    timer = ours.Timer("clock.run()", timer=clock, globals={"clock": clock})
    timer.blocked_autorange(callback=lambda number, time: blocks.append((number, time)), min_run_time=1.0)
    assert blocks == [(1, 0.25)] * 4


def test_results_are_waited_for() -> None:
    """A result that is still lazy, or on its way, would be one when the clock is looked at."""
    seen = []
    x = ft.randn(50, 50, requires_grad=True)

    def clock() -> float:
        seen.append([type(value._storage.held).__name__ for value in made])
        return float(len(seen))

    made: list = []
    names = {"x": x, "made": made}
    ours.Timer("y = x @ x; made[:] = [y]", globals=names, timer=clock).timeit(1)
    ours.Timer("made.append(x * 2) or made[-1]", globals=names, timer=clock).timeit(1)
    assert seen and all("Deferred" not in kinds for kinds in seen)


def test_it_has_compiled_before() -> None:
    step = ft.compile(lambda x: x * 2)
    counts = []
    clock = lambda: counts.append(step.traces) or float(len(counts))
    ours.Timer("step(x)", "x = torch.ones(3)", globals={"step": step}, timer=clock).timeit(2)
    assert counts[0] == 0 and counts[-2:] == [1, 1]  # nothing was traced in what is measured


def test_refused() -> None:
    for module in (ours, theirs):
        with pytest.raises(ValueError, match="only a `str`"):
            module.Timer(3)
        with pytest.raises(ValueError, match="Invalid language"):
            module.Timer("1", language="rust")
        with pytest.raises(NameError):
            module.Timer("nothing_of_this_name").timeit(1)
        with pytest.raises(NotImplementedError, match="blocked_autorange"):
            module.Timer("1").repeat()
    with pytest.raises(SyntaxError):
        ours.Timer("1 +")
    with pytest.raises(NotImplementedError, match="num_threads"):
        ours.Timer("1", num_threads=10**6)
    with pytest.raises(NotImplementedError, match=r"c\+\+"):
        ours.Timer("1", language="c++")


# ------------------------------------------------------------------ FLOPs


def work(T, kind):
    nn, F = T.nn, T.nn.functional
    T.manual_seed(0)
    if kind == "linear":
        nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.Linear(3, 2)))(T.ones(5, 4)).sum().backward()
    elif kind == "conv":
        conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        conv(T.ones(2, 3, 8, 8, requires_grad=True)).sum().backward()
    elif kind == "wide":  # of the gradient most products are with zeros, which do not count
        nn.Conv2d(3, 4, 8)(T.ones(2, 3, 8, 8, requires_grad=True)).sum().backward()
    elif kind == "strided":
        conv = nn.Conv2d(4, 4, (3, 5), stride=(3, 2), bias=False)
        conv(T.ones(2, 4, 11, 12, requires_grad=True)).sum().backward()
    elif kind == "groups":
        nn.Conv1d(4, 8, 3, groups=2, padding=1)(T.ones(2, 4, 6))
    elif kind == "transposed":
        F.conv_transpose2d(T.ones(1, 2, 4, 4), T.ones(2, 3, 2, 2), stride=2)
    elif kind == "transposed backward":
        conv = nn.ConvTranspose2d(3, 4, 3, stride=2)
        conv(T.ones(2, 3, 5, 6, requires_grad=True)).sum().backward()
    elif kind == "batched":
        a = T.ones(2, 3, 4, requires_grad=True)
        T.bmm(a, T.ones(2, 4, 5)).sum().backward()
    elif kind == "elementwise":
        (T.ones(3) + 1).exp()


@pytest.mark.parametrize(
    "kind",
    [
        "linear",
        "conv",
        "wide",
        "strided",
        "groups",
        "transposed",
        "transposed backward",
        "batched",
        "elementwise",
    ],
)
def test_flops_are_torchs(kind) -> None:
    from torch.utils.flop_counter import FlopCounterMode as Theirs

    with Theirs(display=False) as counter:
        work(torch, kind)
    with FlopCounterMode(display=False) as own:
        work(ft, kind)
    assert own.get_total_flops() == counter.get_total_flops()
    of_modules = {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items()}
    found = {name: sum(counts.values()) for name, counts in own.get_flop_counts().items()}
    assert {name: count for name, count in of_modules.items() if count} == {
        n: c for n, c in found.items() if c
    }


def test_flops_of_compiled_functions() -> None:
    """Both passes count, whether the backward pass is a part of the program or not."""
    layer, x = ft.nn.Linear(4, 5), ft.ones(3, 4)
    whole, forward = ft.compile(lambda x: layer(x).square().sum().backward()), ft.compile(layer)
    for rows in (3, 6, 3):
        for step in (whole, lambda x: forward(x).square().sum().backward()):
            with FlopCounterMode(display=False) as counter:
                step(ft.ones(rows, 4))
            assert counter.get_total_flops() == 2 * (2 * rows * 4 * 5)
    with ft.profiler.profile(with_flops=True) as prof:
        forward(x)
    assert [event.flops for event in prof.key_averages()] == [2 * 3 * 4 * 5]
    with FlopCounterMode(display=False) as counter:  # a program of its own, not the one that ran last
        ft.func.functional_call(forward, dict(layer.named_parameters()), (ft.ones(7, 4),))
    assert counter.get_total_flops() == 2 * 7 * 4 * 5
    with FlopCounterMode(display=False) as counter:
        with pytest.raises(RuntimeError, match="already enabled"), FlopCounterMode():
            pass
        layer(x)
    with counter:  # begins anew; what was refused has left no hooks
        layer(x)
    assert counter.get_flop_counts()["Linear"] == {"aten::linear": 2 * 3 * 4 * 5}


def test_table_of_flops(capsys) -> None:
    with FlopCounterMode(depth=1):
        work(ft, "linear")
    table = capsys.readouterr().out
    assert re.search(r"Global\s+420\s+100.00%", table) and "Sequential.1.0" not in table
    with pytest.raises(NotImplementedError, match="custom_mapping"):
        FlopCounterMode(custom_mapping={})


def test_flops_so_far():
    from torch.utils.flop_counter import FlopCounterMode as Theirs

    for T, Counter in ((torch, Theirs), (ft, FlopCounterMode)):
        counter = Counter(display=False)
        assert counter.get_flop_counts() == {} and counter.get_total_flops() == 0
        layer, x = T.nn.Linear(3, 4), T.ones(2, 3)
        with counter:
            assert counter.get_flop_counts() == {}
            layer(x)
            assert counter.get_total_flops() == 48 and set(counter.get_flop_counts()) == {"Global", "Linear"}
            layer(x)
        assert counter.get_total_flops() == 96
