"""``functorch-port plan``: what it prints, its exit status, and what it says of scripts that cannot be planned."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from jax.sharding import PartitionSpec as P

import functorch_port as ft
from functorch_port import cli
from functorch_port._plan import trying, worker
from functorch_port._plan.lowering import lowered
from functorch_port._plan.report import Cause, Plan, Value
from functorch_port._plan.sweep import Sweep
from functorch_port._plan.topology import devices_of
from functorch_port._plan.worker import Failed
from functorch_port.distributed import described_mesh, plan
from functorch_port.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from functorch_port.distributed.sharding import constrain, shard
from functorch_port.distributed.tensor.parallel import ColwiseParallel, parallelize_module

F = ft.nn.functional
ROOT = Path(__file__).parents[2]
TPU = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="the TPU compiler")

SCRIPT = """
import functools, os, subprocess, sys, time
import torch
from jax.sharding import PartitionSpec as P
from torch.distributed.fsdp import fully_shard
from torch.distributed.sharding import shard

def build(mesh, batch=8, dtype=torch.float32, remat=False, width=64):
    assert remat in (False, "dots")
    with torch.device("meta"):
        net = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))
        x = torch.zeros(batch, width)
    fully_shard(net, mesh=mesh)
    shard(x, P("fsdp"), mesh)
    opt = torch.optim.AdamW(net.parameters())

    @torch.compile(keep_grads=False)
    def step(x):
        opt.zero_grad()
        with torch.autocast(mesh.device_type, dtype, enabled=dtype != torch.float32):
            loss = net(x).float().square().mean()
        loss.backward()
        opt.step()
        return loss

    return step, [x]

def large(mesh):
    return build(mesh, 1 << 16, width=1 << 15)

def reads(mesh):
    step, args = build(mesh)
    return lambda x: float(step(x).sum()), args

def needs(batch, layers):
    return None

def varied(remat, microbatches):
    return None

def helps(x):
    return x

narrow = functools.partial(build, width=8)

def fails(mesh):
    return {}["no such key"]

def nothing(mesh):
    return [1]

def waits(mesh):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    with open(os.environ["PIDS"], "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    time.sleep(100)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: Any) -> Path:
    path = Path(tmp_path_factory.mktemp("plan")) / "train_here.py"
    path.write_text(SCRIPT)
    path.with_name("open.py").write_text("def build(")
    path.with_name("notes.txt").write_text("x")
    return path


def environment(script: Path, **more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("XLA_FLAGS", "TPU_"))}
    cache = {
        "FUNCTORCH_PORT_CACHE": str(script.parent / "cache"),
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT),
    }
    return {**kept, **cache, **more}


def planned(script: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "functorch_port", "plan", *arguments]
    return subprocess.run(
        command, env=environment(script, **more), capture_output=True, text=True, cwd=script.parent
    )


def test_a_plan_as_text_and_json(script: Path) -> None:
    options = (
        "--mesh",
        "fsdp=4",
        "--batch",
        "16",
        "--dtype",
        "bf16",
        "--remat",
        "dots",
        "--json",
        "plan.json",
    )
    done = planned(script, "train_here.py:build", "--topology", "cpu:4", *options)
    assert done.returncode == 0, done.stderr
    assert "cpu:4: 4 x cpu, mesh fsdp=4" in done.stdout
    text = (script.parent / "plan.json").read_text()
    found = Plan.from_json(text)
    assert found.to_json() + "\n" == text and json.loads(text)["needs"] == found.needs
    numbers = (64 * 256 + 256 + 256 * 64 + 64) * 4 // 4
    assert found.bytes_of("parameters") == numbers and found.bytes_of("optimizer state") == 2 * numbers + 4
    largest = next(cause for cause in found.causes if cause.name == "parameters").largest[0]
    assert largest == Value("net.0.weight", "net/0", "float32[256,64]", 64 * 256)
    assert {*found.seconds} == {"tracing", "lowering", "compiling"} and not found.cached


QUESTIONS = {
    ("no.py:build", "cpu:1"): ({}, "there is no file 'no.py'"),
    ("train_here.py:absent", "cpu:1"): ({}, "it has build, large, reads, needs, varied, narrow, fails, nothing"),
    ("notes.txt", "cpu:1"): ({}, "'notes.txt' is no script of Python: its name is to end with .py"),
    ("open.py:", "cpu:1"): ({}, "open.py failed when it was imported:\n\n  File"),
    ("train_here.py:fails", "cpu:1"): ({}, "in fails\n    return {}[\"no such key\"]"),
    ("train_here.py:nothing", "cpu:1"): ({}, "return step, [x, y]; or a dict of those by name as the third"),
    ("train_here.py:needs", "cpu:1"): ({}, "needs() asks for 'batch': give it by --batch"),
    ("train_here.py:needs", "cpu:1 "): ({"batch": "2"}, "cpu has a number of virtual devices"),
    ("train_here.py:needs", "v5e:3x5x7"): ({}, "TPU v5e has the shapes 1x1, 2x2"),
    ("train_here.py:needs", "v9:2x2"): ({}, "the chips are v4, v5e, v5p"),
    ("train_here.py:build", "cpu:2"): ({}, "JAX has 1 CPU devices here"),
    ("train_here.py:reads", "cpu:1"): ({}, "in <lambda>:\n    return lambda x: float(step(x).sum()), args"),
}  # fmt: skip
GIVEN = [
    (
        "build",
        {"mesh": "fsdp=3"},
        "the mesh fsdp=3 has 3 devices, and cpu:1 has 1: the sizes are to multiply to 1",
    ),
    ("build", {"mesh": "fsdp"}, "a mesh is like fsdp=64,tp=4"),
    ("build", {"batch": "many"}, "--batch is a number of rows"),
    ("build", {"length": "0"}, "--length is a number of tokens of a row"),
    ("build", {"length": "8"}, "--length was given, and build("),
    ("build", {"dtype": "int3.5"}, "--dtype is bf16, fp16, fp32"),
    ("fails", {"remat": ""}, "--remat was given, and fails(mesh) does not ask for it"),
    ("needs", {"batch": "2"}, "asks for 'layers', which plan does not have"),
]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux's device that is full")
@pytest.mark.parametrize("form", [(), ("--json", "-")])
def test_a_report_that_cannot_be_written_is_no_step_that_does_not_fit(
    script: Path, form: tuple[str, ...]
) -> None:
    command = [
        sys.executable,
        "-m",
        "functorch_port",
        "plan",
        "train_here.py:narrow",
        "--topology",
        "cpu:1",
        *form,
    ]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command,
            env=environment(script),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=script.parent,
        )
    assert done.returncode == 2
    assert (
        done.stderr == "functorch-port plan: the standard output cannot be written: No space left on device\n"
    )


def test_what_cannot_be_planned_is_told(script: Path) -> None:
    questions = [[f, t, options] for (f, t), (options, _) in QUESTIONS.items()]
    questions += [[f"train_here.py:{name}", "cpu:1", options] for name, options, _ in GIVEN]
    code = """
import json, sys
from functorch_port._plan import building
from functorch_port._plan.worker import Question
found = []
for question in json.loads(sys.argv[1]):
    try:
        building.planned(Question(*question), lambda phase: None)
    except building.BadInput as error:
        found.append(str(error))
print(json.dumps(found))
"""
    command = [sys.executable, "-c", code, json.dumps(questions)]
    done = subprocess.run(command, env=environment(script), capture_output=True, text=True, cwd=script.parent)
    assert done.returncode == 0, done.stderr
    expected = [text for _, text in QUESTIONS.values()] + [text for *_, text in GIVEN]
    for said, text in zip(json.loads(done.stdout), expected, strict=True):
        assert text in said


def test_out_of_time_everything_has_ended(script: Path, monkeypatch: Any) -> None:
    pids = script.parent / "pids"
    monkeypatch.setenv("PIDS", str(pids))

    def wait(phase: str) -> None:
        for _ in range(3000):
            if pids.exists() and len(pids.read_text().split()) == 2:
                return
            time.sleep(0.02)

    with pytest.raises(
        Failed, match="out of time: after 0.1 s it was still .* --time-limit SECONDS gives more"
    ):
        worker.run(worker.Question(f"{script}:waits", "cpu:1", {}), wait, 0.1)
    for pid in map(int, pids.read_text().split()):
        for _ in range(100):
            if not is_running(pid):
                break
            time.sleep(0.02)
        assert not is_running(pid)


def test_a_sweep_is_ranked_within_a_budget_and_known_answers_are_free(script: Path) -> None:
    options = (
        "train_here.py:build --topology cpu:2 --batch 64 --mesh fsdp,tp --html s.html --json s.json".split()
    )
    first = planned(script, *options, "--remat", "dots", "--sweep", "1")
    assert first.returncode == 0, first.stderr
    one = Plan.from_json((script.parent / "s.json").read_text())
    assert one.sweep is not None and len(one.sweep["ranked"]) == len(one.sweep["left"]) == 1
    assert "layouts planned: 1; left out: 1, --sweep N plans more." in first.stdout
    again = planned(script, *options, "--sweep")
    assert again.returncode == 0, again.stderr
    best = Plan.from_json((script.parent / "s.json").read_text())
    found = Sweep.from_dict(best.sweep or {})
    sizes = [one.needs for one in found.ranked]
    assert (
        [one.compiled for one in found.ranked].count(True) == 1 and sizes == sorted(sizes) and len(sizes) == 2
    )
    assert {one.candidate.mesh for one in found.ranked} == {
        (("fsdp", 2), ("tp", 1)),
        (("fsdp", 1), ("tp", 2)),
    }
    assert best.needs == sizes[0] and dict(found.ranked[0].candidate.mesh) == best.mesh
    assert [one.problem for one in found.failed] == 2 * [
        "AssertionError"
    ]  # by the script, which wants no remat=True
    assert "Layouts" in (script.parent / "s.html").read_text() and "1. fsdp=" in again.stdout


def test_what_a_sweep_varies(script: Path) -> None:
    asked = lambda **options: worker.Question("f.py", "v5e:4x4", options)
    everything = dict.fromkeys(("mesh", "batch", "dtype", "remat", "microbatches"), "none")
    some = trying.space(asked(mesh="fsdp,tp"), everything)
    assert len(some) == 5 * 2 * 4 and some[0].mesh == (("fsdp", 16), ("tp", 1)) and some[0].remat
    some = trying.space(asked(mesh="dp=2,fsdp,tp=2", remat="false"), everything)
    assert {one.mesh for one in some} == {(("dp", 2), ("fsdp", 4), ("tp", 2))} and len(some) == 4
    assert [one.name for one in trying.space(asked(), {"remat": "true"})] == ["remat", "as it is"]
    for options, takes, said in (
        ({"mesh": "fsdp=16"}, ["mesh"], "nothing to vary: .* It asks for mesh"),
        ({}, [], "It asks for nothing"),
        ({"mesh": "fsdp=3,tp"}, ["mesh"], "the mesh fsdp=3,tp cannot have the 16 devices of v5e:4x4"),
        ({"mesh": "fsdp=8"}, ["mesh", "remat"], "the mesh fsdp=8 cannot have the 16"),
        ({"mesh": "fsdp,fsdp"}, ["mesh"], "is like fsdp,tp or dp=2,fsdp,tp; got 'fsdp,fsdp'"),
    ):
        with pytest.raises(ValueError, match=said):
            trying.space(asked(**options), dict.fromkeys(takes, "none"))


def test_what_a_function_asks_for_and_what_no_layout_can_use(script: Path) -> None:
    asked = lambda name, topology="cpu:1", **options: worker.takes(
        worker.Question(f"{script}:{name}", topology, options), lambda phase: None
    )
    found = {"mesh": "none", "batch": "8", "dtype": "float32", "remat": "false"}
    assert asked("build", mesh="fsdp,tp") == found and asked("varied") == {
        "remat": "none",
        "microbatches": "none",
    }
    for name, topology, options, said in (
        ("build", "cpu:x", {"mesh": "fsdp,tp"}, "cpu has a number of virtual devices, as in cpu:8"),
        ("build", "cpu:1", {"dtype": "int3.5"}, "--dtype is bf16, fp16, fp32"),
        ("fails", "cpu:1", {"remat": ""}, r"--remat was given, and fails\(mesh\) does not ask for it"),
        ("varied", "cpu:1", {"mesh": "fsdp,tp"}, "--mesh was given, and varied"),
        ("needs", "cpu:1", {}, "give it by --batch"),
    ):
        with pytest.raises(Failed, match=said):
            asked(name, topology, **options)


BAD = [
    (["--sweep", "0"], "--sweep: a number of compilations is at least 1, got 0"),
    (["--tokens", "0"], "--tokens: a number of tokens is at least 1, got 0"),
    (["--price", "nan"], "--price: a price is a number that is not negative, got nan"),
    (["--price", "-1"], "--price: a price is a number that is not negative, got -1"),
    (["--time-limit", "soon"], "--time-limit: seconds are a number that is not negative, got soon"),
    (["--json", ""], "--json '': expected the name of a file"),
    (["--html", "-"], "--html '-': expected the name of a file"),
    (["--html", "."], "--html .: that is a folder"),
    (["--json", "none/plan.json"], "--json none/plan.json: there is no folder for such a file"),
    (["--json", "plan", "--html", "./plan"], "expected two files"),
]


@pytest.mark.parametrize(("options", "said"), BAD)
def test_options_that_are_refused_before_anything_is_planned(
    options: list[str], said: str, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(worker, "run", lambda *_: pytest.fail("it was planned"))
    try:
        status = cli.main(["plan", "train.py", "--topology", "cpu:1", *options])
    except SystemExit as error:
        status = int(error.code or 0)
    assert status == 2 and said in capsys.readouterr().err


def test_what_is_tried_where_a_step_does_not_fit() -> None:
    question = worker.Question("f.py", "v5e:4x4", {"mesh": "fsdp=8,tp=2"})
    everything = dict.fromkeys(("mesh", "batch", "dtype", "remat", "microbatches"), "none")
    found = dict(trying.changes(question, everything, {"fsdp": 8, "tp": 2}))
    assert [*found] == [
        "--remat true",
        "--dtype bf16",
        "--microbatches 4",
        "--remat true --microbatches 4",
        "--remat true --mesh fsdp=4,tp=4",
        "--remat true --mesh fsdp=16,tp=1",
        "--topology v5e:4x8 --remat true --mesh fsdp=16,tp=2",
    ]
    last = found["--topology v5e:4x8 --remat true --mesh fsdp=16,tp=2"]
    assert last.topology == "v5e:4x8" and last.options == {"mesh": "fsdp=16,tp=2", "remat": "true"}
    given = question._replace(
        options={"remat": "true", "dtype": "bf16", "microbatches": "2"}, topology="v5e:16x16"
    )
    assert [*dict(trying.changes(given, everything, {"fsdp": 256}))] == ["--microbatches 8"]
    default = {
        "mesh": "none",
        "dtype": "bfloat16",
        "remat": "dots",
        "microbatches": "2",
    }  # is what was planned
    found = dict(trying.changes(question._replace(topology="v5e:16x16"), default, {"fsdp": 256}))
    assert [*found] == ["--microbatches 8"]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_plan_for_people() -> None:
    causes = [
        Cause(
            "parameters",
            3 << 30,
            [Value("net.up.weight", "net/up", "f32[8]", 32), Value("p[b]", "p", "s8", 8)],
        ),
        Cause("temporary", 1 << 30),
    ]
    modules = {"net/up": {"parameters": 32}}
    found = Plan(
        "v5e:1x1", "TPU", 1, {"x": 1}, False, 4 << 30, 2 << 30, causes, modules, {}, problem="Too large."
    )
    text = str(found)
    assert "DOES NOT FIT: needs 4.00 GiB of 2.00 GiB on each device (200%)" in text
    assert "parameters            3.00 GiB   75%  net.up.weight f32[8] 32 B" in text and "Too large." in text
    rich = pytest.importorskip("rich.console")
    console = rich.Console(width=100, record=True, file=io.StringIO())
    console.print(found)
    shown = console.export_text()
    assert (
        "DOES NOT FIT" in shown
        and "net.up.weight  net/up  f32[8]" in shown
        and "Too large." in shown
        and "p[b] " in shown
    )
    assert "net/up   32 B  parameters 32 B" in shown and "net/up" in text


def test_the_compiler_is_not_installed(monkeypatch: Any) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'functorch-port\[tpu\]'"):
        devices_of("v5e:2x2")


@TPU
@pytest.mark.slow
def test_a_pod_that_is_not_here(script: Path) -> None:
    fits = planned(script, "train_here.py:build", "--topology", "v5e:2x2", "--dtype", "bf16", "--json", "-")
    assert fits.returncode == 0, fits.stderr
    found = Plan.from_json(fits.stdout)
    compiler = found.compiler
    held = compiler["arguments"] + compiler["outputs"] - compiler["reused in place"]
    assert sum(cause.bytes for cause in found.causes) == found.needs == held + compiler["temporary"]
    assert found.fits and found.hbm == int(15.75 * 2**30) and found.device == "TPU v5 lite"
    large = planned(
        script, "train_here.py:large", "--topology", "v5e:2x2", "--suggestions", "1", "--price", "2"
    )
    assert large.returncode == 1, large.stderr
    assert re.search(r"--topology v5e:2x4 --mesh fsdp=8 +[\d.]+ GiB +does not fit", large.stdout)
    assert "does not ask for remat and microbatches: if it does, plan tries that, too" in large.stdout
    assert "a step: at best" not in large.stdout and "FLOPs of a step" not in large.stdout  # of no program
    assert "No price: the time of a step is not known here." in large.stdout
    assert "DOES NOT FIT" in large.stdout and "The compiler gave up: Ran out of memory on HBM" in large.stdout
    assert re.search(
        r"Most is (temporary|activations saved|optimizer state), [\d.]+ GiB: net/[012] [\d.]+ GiB",
        large.stdout,
    )


class Attention(ft.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (ft.nn.Linear(256, n, bias=False) for n in (512, 128, 128))

    def forward(self, x: Any) -> Any:
        q, k, v = (f(x).unflatten(-1, (-1, 64)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


@TPU
@pytest.mark.slow
@pytest.mark.parametrize(
    ("tensor", "queries", "keys"),
    [(1, "8x256x64", "2x256x64"), (2, "2x4x256x64", "2x1x256x64"), (4, "4x2x256x64", "")],
)
def test_attention_is_the_kernel_also_where_heads_are_split(tensor: int, queries: str, keys: str) -> None:
    """Eight heads of queries and two of keys, which are repeated where there are more devices."""
    mesh = described_mesh("v5e:2x4", {"fsdp": 8 // tensor, "tp": tensor})
    with ft.device("meta"):
        net, x = Attention(), ft.zeros(8, 256, 256, dtype=ft.bfloat16)
    parallelize_module(net, mesh["tp"], {name: ColwiseParallel() for name in "qkv"})
    fully_shard(net, mesh=mesh["fsdp"], mp_policy=MixedPrecisionPolicy(param_dtype=ft.bfloat16))
    shard(x, P("fsdp"), mesh)

    def step(x: Any) -> Any:
        net(x).float().sum().backward()

    text = lowered(ft.compile(step), [x], {}, None, mesh).program.as_text()
    parts = [f"tensor<{shape or queries}xbf16>" for shape in (queries, keys)]  # rows and heads of a device
    kernels = [line for line in text.splitlines() if "@tpu_custom_call" in line]
    assert kernels and all(part in line for line in kernels for part in parts)


@TPU
@pytest.mark.slow
def test_grouped_products_of_half_precision_compute_each_row_once() -> None:
    """A TPU's compiler refuses them in several passes."""
    mesh = described_mesh("v5e:1x1")
    with ft.device("meta"):
        rows = ft.zeros(2048, 512, dtype=ft.bfloat16, requires_grad=True)
        matrices = ft.zeros(8, 512, 256, dtype=ft.bfloat16, requires_grad=True)
        ends = ft.zeros(8, dtype=ft.int32)

    def step(rows: Any, matrices: Any, ends: Any) -> None:
        F.grouped_mm(rows, matrices, offs=ends).float().square().sum().backward()

    found = plan(step, [rows, matrices, ends], mesh=mesh)
    assert found.analysis is not None and found.analysis["flops"]["executed"] == 3 * 2 * 2048 * 512 * 256


@TPU
@pytest.mark.slow
def test_a_trace_for_devices_that_are_not_here() -> None:
    mesh = described_mesh("v5e:2x2", {"dp": 2, "tp": 2})
    net = ft.nn.Sequential(ft.nn.Linear(16, 16), ft.nn.Dropout(0.5))  # real, with a real buffer
    net.register_buffer("positions", ft.arange(16))
    shard(net, {"weight": P("tp")}, mesh)
    with ft.device("meta"):
        x = ft.zeros(8, 16)
    key = ft.default_generator.key_storage.held

    def step(x: Any) -> Any:
        here = [x, net[0].weight, ft.ones(16, device=x.device), ft.zeros_like(x, device="tpu"), x.to("tpu")]
        assert {t.device for t in here} == {ft.device("tpu")}
        with ft.autocast("tpu", ft.bfloat16):
            out = net(constrain(x, P("dp"), mesh)) + net.positions
            assert net[0](x).dtype == ft.bfloat16
        return out

    ready = lowered(step, [x], {}, None, mesh)
    parts = {one.name: (one.cause, one.part) for one in ready.inputs}
    assert parts["net.0.weight"] == ("parameters", (8, 16)) and parts["net.positions"] == ("buffers", (16,))
    assert parts["default_generator"] == ("other", (4,))  # as JAX's keys are on a TPU
    assert net.positions.is_meta and ft.default_generator.key_storage.held is key
    text = ready.program.as_text()
    assert "rng_bit_generator" in text and "num_partitions = 4" in text


def test_bad_input_from_python() -> None:
    mesh = described_mesh("cpu:1")
    for sizes in ({"fsdp": 0}, {"fsdp": -1, "tp": -1}, {"fsdp": 1.0}):
        with pytest.raises(ValueError, match="integers of at least 1, got"):
            described_mesh("cpu:1", sizes)
    for given in ((8, None), ("cpu:1", "fsdp")):
        with pytest.raises(TypeError, match="expected a topology such as 'v5e:4x4' and sizes such as"):
            described_mesh(*given)
    with ft.device("meta"):
        net, x = ft.nn.Linear(8, 4), ft.zeros(2, 8)
    for wrong, said in (({"tokens": 0}, "at least 1, got 0"), ({"price": -1.0}, "is not negative, got -1.0")):
        with pytest.raises(ValueError, match=said):
            plan(net, [x], mesh=mesh, **wrong)
    with pytest.raises(TypeError, match="expected a list of the step's arguments, got Tensor"):
        plan(net, x, mesh=mesh)
    with pytest.raises(TypeError, match="expected a mesh of described_mesh, got dict"):
        plan(net, [x], mesh={"fsdp": 1})
    assert "No price: the time of a step is not known here." in plan(net, [x], mesh=mesh, price=1.0).notes
