"""The persistent compilation cache: on by default, silent, switchable; a second process compiles nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    assert first["misses"] > 5  # two eager steps, a compiled one, and what sets them up
    assert second["misses"] == 0
    assert second["hits"] == second["requests"] > 5
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
    code = "import functorch_port as torch; print((torch.ones(3) * 2).tolist())"
    assert run(code, FUNCTORCH_PORT_CACHE=str(tmp_path)) == "[2.0, 2.0, 2.0]"
    entries = list(tmp_path.glob("*-cache"))
    assert entries
    for entry in entries:  # as a process leaves them that is killed while it writes
        entry.write_bytes(entry.read_bytes()[:40])
    assert run(code, FUNCTORCH_PORT_CACHE=str(tmp_path)) == "[2.0, 2.0, 2.0]"
