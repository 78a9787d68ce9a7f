"""The persistent compilation cache: on by default, silent, switchable; a second process compiles nothing."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from functorch_port import compiler
from functorch_port._array.donation import Donating
from functorch_port._base import cache, memory

SCRIPT = """
import collections, json, sys, warnings
warnings.simplefilter("error")
import jax
events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: events.update([name.rsplit("/", 1)[-1]]))
import functorch_port as torch

torch.manual_seed(0)
nn = torch.nn
model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x, y = torch.randn(4, 6), torch.tensor([0, 1, 2, 0])

def step(x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

losses = [step(x, y).item() for _ in range(2)]
compiled = torch.compile(step)
losses += [compiled(x, y).item() for _ in range(2)]
json.dump({"losses": losses, "directory": jax.config.jax_compilation_cache_dir, "hits": events["cache_hits"],
           "misses": events["cache_misses"], "requests": events["compile_requests_use_cache"]}, sys.stdout)
"""
ASK = (
    "import functorch_port, jax; "
    "print(jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs)"
)


def run(code: str, **settings: str) -> str:
    """What a fresh process prints; it must say nothing on stderr."""
    ours = ("JAX_", "FUNCTORCH_PORT_", "XDG_CACHE_HOME")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    environment = {**inherited, "JAX_PLATFORMS": "cpu", **settings}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def test_second_process_compiles_nothing(tmp_path: Path) -> None:
    first = json.loads(run(SCRIPT, XDG_CACHE_HOME=str(tmp_path)))
    second = json.loads(run(SCRIPT, XDG_CACHE_HOME=str(tmp_path)))
    assert first["directory"] == str(tmp_path / "functorch_port" / "xla")
    assert first["misses"] > 0
    assert second["misses"] == 0
    assert second["hits"] == second["requests"] > 0
    assert second["losses"] == first["losses"]


@pytest.mark.parametrize("value", ["0", "off", "False"])
def test_switched_off(tmp_path: Path, value: str) -> None:
    assert run(ASK, XDG_CACHE_HOME=str(tmp_path), FUNCTORCH_PORT_CACHE=value) == "None 1.0"
    assert not list(tmp_path.iterdir())


def test_another_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert run(ASK, FUNCTORCH_PORT_CACHE=str(folder)) == f"{folder} 0.0"


def test_jax_setting_wins(tmp_path: Path) -> None:
    ours = {"FUNCTORCH_PORT_CACHE": str(tmp_path / "ours")}
    settings = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "jax"), **ours}
    assert run(ASK, **settings) == f"{tmp_path / 'jax'} 1.0"
    code = f"import jax; jax.config.update('jax_compilation_cache_dir', {str(tmp_path)!r}); {ASK}"
    assert run(code, **ours) == f"{tmp_path} 1.0"
    assert not (tmp_path / "ours").exists()


def test_jax_switch_and_threshold_are_kept(tmp_path: Path) -> None:
    home = {"XDG_CACHE_HOME": str(tmp_path)}
    assert run(ASK, **home, JAX_ENABLE_COMPILATION_CACHE="0").startswith("None")
    asked = run(ASK, **home, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="2")
    assert asked == f"{tmp_path / 'functorch_port' / 'xla'} 2.0"


def test_unusable_folder_means_no_cache(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert run(ASK, FUNCTORCH_PORT_CACHE=str(blocked / "x")) == "None 1.0"
    assert run(ASK, XDG_CACHE_HOME=str(blocked)) == "None 1.0"


def test_broken_entries_are_compiled_anew(tmp_path: Path) -> None:
    code = "import functorch_port as torch; print(torch.compile(lambda x: x * 2)(torch.ones(3)).tolist())"
    assert run(code, FUNCTORCH_PORT_CACHE=str(tmp_path)) == "[2.0, 2.0, 2.0]"
    entries = list(tmp_path.glob("*-cache"))
    assert entries
    for entry in entries:  # as a process leaves them that is killed while it writes
        entry.write_bytes(entry.read_bytes()[:40])
    assert run(code, FUNCTORCH_PORT_CACHE=str(tmp_path)) == "[2.0, 2.0, 2.0]"


TRAINING = """
import gc, json, os, random, sys
if os.environ["COLLECT"] == "never":
    gc.disable()
elif os.environ["COLLECT"] == "often":
    gc.set_threshold(random.randint(20, 2000), 2, 2)
import functorch_port as torch
nn, F = torch.nn, torch.nn.functional

class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))

def cases():
    yield nn.Sequential(nn.Linear(40, 80), nn.Tanh(), nn.Dropout(0.5), nn.Linear(80, 10)), (200, 40)
    yield nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Dropout(), nn.Linear(16 * 49, 10)), (8, 3, 16, 16)
    yield Transformer(), (8, 20, 32)

torch.manual_seed(0)
losses = []
for model, shape in cases():
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(*shape), torch.randint(0, 10, shape[:1])

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for do in (step, torch.compile(step)):
        for _ in range(3):
            losses.append(do(x, y).item())
            if os.environ["COLLECT"] == "often":
                gc.collect()
stats = torch.compiler.cache_stats()
json.dump({"losses": losses, "hits": stats.hits, "misses": stats.misses}, sys.stdout)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """The folder that a first process has filled by training, and what it says."""
    folder = tmp_path_factory.mktemp("cache")
    environment = {"FUNCTORCH_PORT_CACHE": str(folder), "COLLECT": "as ever", "PYTHONHASHSEED": "1"}
    environment["FUNCTORCH_PORT_TIER"] = "compiled"  # what numpy computes asks for nothing
    return folder, json.loads(run(TRAINING, **environment))


@pytest.mark.parametrize(("collect", "seed"), [("never", "2"), ("often", "3")])
def test_what_is_asked_for_does_not_depend_on_the_process(
    trained: tuple[Path, dict], collect: str, seed: str
) -> None:
    folder, first = trained
    environment = {"FUNCTORCH_PORT_CACHE": str(folder), "COLLECT": collect, "PYTHONHASHSEED": seed}
    environment["FUNCTORCH_PORT_TIER"] = "compiled"
    second = json.loads(run(TRAINING, **environment))
    assert first["misses"] > 20
    assert second["misses"] == 0 and second["hits"] > 20
    assert second["losses"] == first["losses"]


@pytest.mark.cpu
def test_machine_code_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was cut off, or is another one, is written anew."""
    ffi = pytest.importorskip("functorch_port._cpu.native.ffi")
    if not ffi.compiles():
        pytest.skip("llvmlite is not there")
    made = []
    compile_ = ffi._object
    monkeypatch.setattr(ffi, "_object", lambda *given: made.append(1) or compile_(*given))
    monkeypatch.setattr(cache, "directory", lambda: str(tmp_path))
    text = "define i64 @seven() {\n  ret i64 7\n}"

    def seven() -> int:
        return ctypes.CFUNCTYPE(ctypes.c_int64)(ffi.function("seven", text))()

    before = compiler.cache_stats()
    assert (seven(), seven(), len(made)) == (7, 7, 1)
    after = compiler.cache_stats()
    assert (after.hits - before.hits, after.misses - before.misses) == (1, 1)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    assert (after.directory, after.files, after.bytes) == (str(tmp_path), 1, len(whole))
    for broken in (b"", whole[:100], whole[:-1] + b"x"):
        file.write_bytes(broken)
        made.clear()
        assert (seven(), len(made)) == (7, 1)
        assert file.read_bytes() == whole
    monkeypatch.setattr(cache, "directory", lambda: str(tmp_path / "missing"))
    assert seven() == 7


def test_a_large_program_that_has_run_often_is_compiled_once_more(tuned, monkeypatch) -> None:
    monkeypatch.setattr(memory, "LARGE", 0)
    tuned(parts_after=3)
    made = []

    def often() -> object:
        made.append(1)
        return jax.jit(double, donate_argnums=0)

    def double(given: list[jax.Array], kept: list[jax.Array]) -> list[jax.Array]:
        return [given[0] * 2 + kept[0], kept[0] + 1]

    program = Donating(jax.jit(double, donate_argnums=0), (0,), often)
    first = program.jit
    x, one = jax.numpy.ones(1000), jax.numpy.ones(1000)
    found = []
    for _ in range(6):
        results: list[list[jax.Array]] = []
        program.into(results, ([x], [one]), ())
        ((x, _),) = results
        found.append(float(x[0]))
    assert found == [3, 7, 15, 31, 63, 127]
    assert made == [1] and program.jit is not first


def test_a_large_eager_program_that_has_run_often_is_compiled_once_more(tuned, monkeypatch) -> None:
    from functorch_port._cpu import compiler_options

    monkeypatch.setattr(memory, "LARGE", 0)
    monkeypatch.setattr(compiler_options.allocator, "keep", lambda: True)
    monkeypatch.setattr(compiler_options.allocator, "is_on_cpu", lambda: True)
    monkeypatch.setattr(cache, "directory", lambda: "there is one")
    tuned(parts_after=3)
    x = jax.numpy.ones((64, 64))
    program = compiler_options.Jitted(lambda x: x @ x, jax.make_jaxpr(lambda x: x @ x)(x).jaxpr)
    first = program.jit
    assert "xla_multiheap_size_constraint_per_heap" not in program.options
    for k in range(5):
        assert float(program(x)[0, 0]) == 64
        assert (program.jit is first) == (k < 2)
    monkeypatch.setattr(cache, "directory", lambda: None)
    told = compiler_options.options(program.jaxpr, often=False)
    assert told == compiler_options.options(program.jaxpr, often=True)
    assert "xla_multiheap_size_constraint_per_heap" in told
