"""`torch.profiler` beside PyTorch's: names, calls, shapes, schedules and files; of times only that they are there."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

import jax
import pytest
import torch

import functorch_port as ft

#: what PyTorch has on the first two levels and the library has not: they are parts of something else there
PARTS = ("TBackward0", "LogSoftmaxBackward0")
LEFT_OUT = {"aten::ones_like", *PARTS, *(f"autograd::engine::evaluate_function: {name}" for name in PARTS)}


def training(T, compiled=False):
    T.manual_seed(0)
    model = T.nn.Sequential(T.nn.Linear(4, 8), T.nn.ReLU(), T.nn.Linear(8, 3))
    optimizer = T.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = T.randn(5, 4), T.tensor([0, 1, 2, 0, 1])

    def step():
        optimizer.zero_grad()
        loss = T.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return ft.compile(step) if compiled else step


def profiled(T, **options):
    step = training(T)
    step()
    with T.profiler.profile(activities=[T.profiler.ProfilerActivity.CPU], **options) as prof:
        with T.profiler.record_function("mine"):
            step()
    return prof


def depth(event) -> int:
    return 0 if event.cpu_parent is None else 1 + depth(event.cpu_parent)


def test_a_step_has_the_names_and_calls_of_torch() -> None:
    ours = Counter(e.name for e in profiled(ft).events())
    theirs = Counter(
        e.name
        for e in profiled(torch).events()
        if depth(e) < 2 or (depth(e) == 2 and not e.name.startswith("aten::"))
    )
    for name in LEFT_OUT:
        theirs.pop(name)
    assert ours == theirs
    assert ours["aten::linear"] == ours["AddmmBackward0"] == 2


def test_order_and_shapes() -> None:
    def rows(prof):
        return [
            (e.name, e.input_shapes)
            for e in prof.events()
            if e.name in ("aten::linear", "aten::relu", "AddmmBackward0", "ReluBackward0", "mine")
        ]

    ours, theirs = (rows(profiled(T, record_shapes=True)) for T in (ft, torch))
    assert ours == theirs
    averages = profiled(ft, record_shapes=True).key_averages(group_by_input_shape=True)
    assert {str(e.input_shapes): e.count for e in averages if e.key == "aten::linear"} == {
        "[[5, 4], [8, 4], [8]]": 1,
        "[[5, 8], [3, 8], [3]]": 1,
    }


def test_times_are_those_of_the_computation() -> None:
    x = ft.randn(600, 600)
    with ft.profiler.profile() as prof:
        began = time.perf_counter()
        y = x @ x @ x
        whole = 1e6 * (time.perf_counter() - began)
    products = [e for e in prof.events() if e.name == "aten::matmul"]
    assert len(products) == 2
    # it is over when the block ends: to read the result takes nothing of the product's time
    assert sum(e.cpu_time_total for e in products) <= whole
    assert not hasattr(y._storage.held, "call"), "a result that still waits to be computed"
    recorded = ft.randn(50, 50, requires_grad=True)
    with ft.profiler.profile():
        z = recorded @ recorded
    assert type(z._storage.held).__name__ != "Deferred"


def test_flops_memory_and_stacks(tmp_path) -> None:
    prof = profiled(ft, with_flops=True, profile_memory=True, with_stack=True)
    sums = {e.key: e for e in prof.key_averages()}
    assert sums["aten::linear"].flops == 2 * 5 * 4 * 8 + 2 * 5 * 8 * 3
    assert (
        sums["AddmmBackward0"].flops == 2 * (2 * 5 * 8 * 3) + 2 * 5 * 4 * 8
    )  # the first needs no gradient of x
    assert sums["aten::linear"].self_cpu_memory_usage == 4 * (5 * 8 + 5 * 3)
    assert sums["aten::relu"].self_cpu_memory_usage == 4 * 5 * 8
    assert sums["mine"].cpu_memory_usage == sum(e.self_cpu_memory_usage for e in sums.values())
    table = prof.key_averages(group_by_stack_n=2).table(sort_by="flops", row_limit=3)
    assert "Total FLOPs" in table and "Self CPU Mem" in table and "test_profile.py" in table
    prof.export_stacks(str(tmp_path / "stacks"))
    assert all(int(line.rpartition(" ")[2]) > 0 for line in (tmp_path / "stacks").read_text().splitlines())
    with pytest.raises(ValueError, match="metric should be one of: .'self_cpu_time_total', 'self_cuda"):
        prof.export_stacks(str(tmp_path / "none"), "count")
    with pytest.raises(ValueError, match="with_stack=True"):
        profiled(ft).export_stacks(str(tmp_path / "none"))


@pytest.mark.cpu
def test_views_in_numpy_take_no_memory() -> None:
    with ft.profiler.profile(profile_memory=True) as views:
        ft.ones(4, 4).t()
    assert [e.self_cpu_memory_usage for e in views.events() if e.name == "aten::t"] == [0]


def test_rows_and_units_of_a_table() -> None:
    averages = profiled(ft).key_averages()
    lines = averages.table(sort_by="cpu_time_total", row_limit=4, time_unit="us").splitlines()
    assert lines[3].split()[0] == "mine" and len(lines) == 3 + 4 + 2
    assert all(cell.endswith("us") for line in lines[3:7] for cell in line.split()[-2:-1])
    with pytest.raises(ValueError, match="time_unit"):
        averages.table(time_unit="min")


def test_schedules() -> None:
    names = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
    for numbers in itertools.product((0, 1), (0, 2), (1, 2), (0, 2), (0, 1), (0, 1)):
        chosen = dict(zip(names, numbers))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of no warm-up
            ours, theirs = (T.profiler.schedule(**chosen) for T in (ft, torch))
        assert [ours(i).name for i in range(14)] == [theirs(i).name for i in range(14)], numbers


def test_schedules_refuse() -> None:
    for T in (ft, torch):
        with pytest.warns(UserWarning, match="won't be using warmup"):
            T.profiler.schedule(wait=1, warmup=0, active=1)
        with pytest.raises(AssertionError, match="active"):
            T.profiler.schedule(wait=1, warmup=1, active=0)
        with pytest.raises(AssertionError):
            T.profiler.schedule(wait=1, warmup=1, active=1)(-1)


class Theirs(torch.profiler.profile):
    """PyTorch's without its tracer, which crashes now and then beside JAX's."""

    def prepare_trace(self) -> None:
        pass

    def start_trace(self) -> None:
        self.log.append(("begins", self.step_num))

    def stop_trace(self) -> None:
        self.log.append(("ends", self.step_num))


class Ours(ft.profiler.profile):
    def _begin(self) -> None:
        self.log.append(("begins", self.step_num))
        super()._begin()

    def _end(self, ready: bool) -> None:
        self.log.append(("ends", self.step_num))
        super()._end(ready)


@pytest.mark.parametrize("repeat, steps", [(2, 10), (0, 6), (0, 4)])
def test_cycles_begin_and_end_when_torchs_do(repeat, steps) -> None:
    logs = []
    for T, kind in ((ft, Ours), (torch, Theirs)):
        log: list = []
        of_step = T.profiler.schedule(wait=1, warmup=1, active=2, repeat=repeat)
        prof = kind(schedule=of_step, on_trace_ready=lambda p: log.append(("ready", p.step_num)))
        prof.log = log
        with prof:
            for _ in range(steps):
                prof.step()
        logs.append(log)
    assert logs[0] == logs[1] and ("ready", 4) in logs[0]


def test_what_a_cycle_has() -> None:
    found = []
    of_step = ft.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    ready = lambda p: found.append((p.step_num, {e.key: e.count for e in p.key_averages()}))
    with ft.profiler.profile(schedule=of_step, on_trace_ready=ready) as prof:
        for _ in range(10):
            ft.ones(2).neg()
            prof.step()
    assert found == [(step, {"ProfilerStep*": 2, "aten::neg": 2}) for step in (4, 8)]


def test_cycles_that_are_added_up_and_wrong_schedules() -> None:
    Action = ft.profiler.ProfilerAction
    of_step = ft.profiler.schedule(wait=0, warmup=1, active=1, repeat=3)
    with ft.profiler.profile(schedule=of_step, acc_events=True) as prof:
        for _ in range(7):
            ft.ones(2).neg()
            prof.step()
    assert sum(e.name == "aten::neg" for e in prof.events()) == 3
    with pytest.warns(UserWarning, match="RECORD followed by NONE"):
        with ft.profiler.profile(schedule=lambda i: [Action.RECORD, Action.NONE][min(i, 1)]) as prof:
            prof.step()


def test_chrome_trace(tmp_path) -> None:
    prof = profiled(ft, record_shapes=True)
    prof.add_metadata_json("run", '{"seed": 3}')
    for name in ("trace.json", "trace.json.gz"):
        prof.export_chrome_trace(str(tmp_path / name))
    with gzip.open(tmp_path / "trace.json.gz") as file:
        trace = json.load(file)
    assert trace["traceEvents"] == json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [e["name"] for e in spans] == [e.name for e in prof.events()]
    (outer,) = [e for e in spans if e["name"] == "mine"]
    for span in spans:  # they are inside of one another
        assert outer["ts"] <= span["ts"] and span["ts"] + span["dur"] <= outer["ts"] + outer["dur"] + 1e-3
        assert isinstance(span["pid"], int) and isinstance(span["tid"], int)
    names = {(e["name"], e["args"]["name"]) for e in trace["traceEvents"] if e["ph"] == "M"}
    assert ("process_name", "python") in names
    (linear, _) = [e for e in spans if e["name"] == "aten::linear"]
    assert linear["args"]["Input Dims"] == [[5, 4], [8, 4], [8]]


_TO_TENSORBOARD = """
import sys
import functorch_port as ft
if sys.argv[2] == "tpu":
    from functorch_port.distributed import described_mesh
    described_mesh("v5e:2x2")
handler = ft.profiler.tensorboard_trace_handler(sys.argv[1], "worker", use_gzip=True)
with ft.profiler.profile(on_trace_ready=handler):
    ft.ones(3).neg()
"""


def to_tensorboard(folder: Path, devices: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: that of the tests may have loaded libtpu."""
    command = [sys.executable, "-c", _TO_TENSORBOARD, str(folder), devices]
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path},
    )


def test_folder_for_tensorboard(tmp_path) -> None:
    folder = tmp_path / "logs"
    done = to_tensorboard(folder, "cpu")
    assert done.returncode == 0, done.stderr
    (trace,) = folder.glob("worker.*.pt.trace.json.gz")
    assert any(
        e["name"] == "aten::neg" for e in json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    )
    (planes,) = folder.glob("plugins/profile/*/*.xplane.pb")  # where the profile plugin looks
    assert planes.stat().st_size > 0


def test_no_trace_where_jax_would_end_the_process(tmp_path) -> None:
    pytest.importorskip("libtpu", reason="the TPU compiler")
    done = to_tensorboard(tmp_path, "tpu")
    assert done.returncode == 1 and "Profile in another process" in done.stderr


def test_what_cannot_be_traced_is_the_error_not_that_no_trace_was_begun(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(jax.profiler, "start_trace", lambda folder: 1 / 0)
    made = ft.profiler.profile(
        schedule=ft.profiler.schedule(wait=0, warmup=1, active=1),
        on_trace_ready=ft.profiler.tensorboard_trace_handler(str(tmp_path)),
    )
    monkeypatch.setattr("functorch_port.profiler._profile._check_jax_can_trace", lambda: None)
    with pytest.raises(ZeroDivisionError), made:
        made.step()


def test_compiled_functions_are_one_entry() -> None:
    step = training(ft, compiled=True)
    with ft.profiler.profile() as prof:
        step()
        step()
    assert [(e.key, e.count) for e in prof.key_averages()] == [
        ("Torch-Compiled Region: training.<locals>.step", 2)
    ]


def test_compiled_modules_have_the_name_of_their_class() -> None:
    model = ft.compile(ft.nn.Linear(3, 2))
    with ft.profiler.profile() as prof:
        model(ft.ones(4, 3)).sum().backward()
    names = [e.name for e in prof.events()]
    assert names[0] == "Torch-Compiled Region: Linear" and "aten::sum" in names


def test_regions_and_decorators() -> None:
    @ft.profiler.record_function("twice")
    def twice(x):
        return x * 2

    with ft.profiler.profile() as prof:
        twice(ft.ones(2))
    assert [e.name for e in prof.events()] == ["twice", "aten::mul"]
    assert ft.autograd.profiler.record_function is ft.profiler.record_function


def test_numbers_are_what_they_were() -> None:
    plain, watched = training(ft), training(ft)
    expected = [plain().item() for _ in range(4)]
    with ft.profiler.profile(with_flops=True, profile_memory=True):
        found = [watched().item() for _ in range(4)]
    assert found == pytest.approx(expected, rel=1e-6)


def sparse_gradient():
    layer = ft.nn.Embedding(10, 3, sparse=True)
    layer(ft.tensor([1, 2, 2])).sum().backward()
    return layer.weight.grad.to_dense()


def second_derivative():
    x = ft.ones(3, requires_grad=True)
    (g,) = ft.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()
    return x.grad


def recomputed():
    x = ft.ones(3, requires_grad=True)
    checkpoint = ft.utils.checkpoint.checkpoint
    checkpoint(lambda z: (z.exp() * 2).sin(), x, use_reentrant=False).sum().backward()
    return x.grad


def written_to():
    x = ft.ones(4)
    x[1:3] += 1
    x[0] = 5
    return ft.add(x.mul_(2), 1, out=x)


def mapped():
    return ft.vmap(lambda x: (x @ x.T).sum())(ft.ones(2, 3, 3))


@pytest.mark.parametrize("run", [sparse_gradient, second_derivative, recomputed, written_to, mapped])
def test_what_else_there_is_works_in_a_profile(run) -> None:
    expected = run()
    with ft.profiler.profile(with_flops=True, profile_memory=True, record_shapes=True):
        found = run()
    assert ft.allclose(found, expected)


@pytest.mark.parametrize(
    "options, error",
    [
        ({"with_modules": True}, NotImplementedError),
        ({"experimental_config": object()}, NotImplementedError),
        ({"execution_trace_observer": object()}, NotImplementedError),
        ({"activities": ["CPU"]}, TypeError),
        ({"activities": []}, AssertionError),
    ],
)
def test_refused(options, error) -> None:
    with pytest.raises(error):
        ft.profiler.profile(**options)


def test_nothing_recorded_yet() -> None:
    for T in (ft, torch):
        with pytest.raises(AssertionError, match="Profiler must be initialized before accessing events"):
            T.profiler.profile().events()


def test_compiled_objects_without_a_name() -> None:
    class Doubled:
        def __call__(self, x):
            return x * 2

    with ft.profiler.profile() as prof:
        for fn in (functools.partial(product_of, 2), Doubled()):
            ft.compile(fn)(ft.ones(2))
    names = ["Torch-Compiled Region: product_of", "Torch-Compiled Region: Doubled"]
    assert [event.key for event in prof.key_averages()] == names


def product_of(factor, x):
    return factor * x


def test_another_thread_cannot_stop_a_profile() -> None:
    """It would leave the first one with a profile for ever."""
    prof, found = ft.profiler.profile(), []

    def stop() -> None:
        with pytest.raises(RuntimeError, match="the thread that started it"):
            prof.stop()
        found.append(1)

    prof.start()
    thread = threading.Thread(target=stop)
    thread.start()
    thread.join()
    ft.ones(2).mul(1)
    prof.stop()
    assert found and [event.key for event in prof.key_averages()] == ["aten::mul"]
    with ft.profiler.profile():
        pass
