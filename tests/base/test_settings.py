"""The library's environment variables."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import functorch_port as ft
from functorch_port._base import settings

ROOT = Path(__file__).parents[2]

VALUES = {
    "AGREE": {"": "programs", "always": "always", "FIRST": "first"},
    "BACKEND": {"": "auto", "jax": "jax", "AUTO": "auto"},
    "CACHE": {"": True, "1": True, "yes": True, "off": False, "/a/b": "/a/b"},
    "CHECKS": {"": None, "0": False, "true": True},
    "HOST_ELEMENTS": {"": 4096, "0": 0, "16": 16},
    "KEEP_MEMORY": {"": True, "No": False},
    "KERNELS": {"": True, "0": False},
    "KEYS": {"": "auto", "rbg": "rbg", "Threefry2x32": "threefry2x32"},
    "REPLAY_AFTER": {"": 2, "0": 0},
    "RNG": {"": "jax", "torch": "torch", "JAX": "jax"},
    "TIER": {"": "auto", "numpy": "numpy", "Compiled": "compiled"},
    "VISION": {"": "ours", "installed": "installed", "OURS": "ours"},
    "X64": {"": True, "FALSE": False, " 1 ": True},
}
WRONG = {
    "AGREE": ["never", "1"],
    "BACKEND": ["numpy", "1"],
    "CHECKS": ["2", "maybe"],
    "HOST_ELEMENTS": ["-1", "1e3", "many"],
    "KEEP_MEMORY": ["x"],
    "KERNELS": ["some"],
    "KEYS": ["threefry", "1"],
    "REPLAY_AFTER": ["-2", "often", "1.5"],
    "RNG": ["numpy", "1"],
    "TIER": ["xla", "1"],
    "VISION": ["theirs", "1"],
    "X64": ["64", "-"],
}


def test_every_variable_is_here():
    assert set(VALUES) == set(settings.VARIABLES) == {*WRONG, "CACHE"}


@pytest.mark.parametrize("name", VALUES)
def test_values(name, monkeypatch):
    for text, value in VALUES[name].items():
        monkeypatch.setenv(f"FUNCTORCH_PORT_{name}", text)
        assert settings.get(name) == value and type(settings.get(name)) is type(value)
    monkeypatch.delenv(f"FUNCTORCH_PORT_{name}")
    assert settings.get(name) == settings.VARIABLES[name].default


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_refused(name, monkeypatch):
    for text in WRONG[name]:
        monkeypatch.setenv(f"FUNCTORCH_PORT_{name}", text)
        wanted = f"FUNCTORCH_PORT_{name}: got '{text}', allowed is {settings.VARIABLES[name].allowed}"
        with pytest.raises(ValueError, match=re.escape(wanted)):
            settings.get(name)


def test_they_are_refused_when_the_library_is_imported():
    variables = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "FUNCTORCH_PORT_CHECKS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", "import functorch_port"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("ValueError: environment variable FUNCTORCH_PORT_CHECKS: got '2', allowed is 0 ")


def test_a_name_that_is_none_is_warned_of(monkeypatch):
    monkeypatch.setenv("FUNCTORCH_PORT_RGN", "torch")
    with pytest.warns(UserWarning, match="FUNCTORCH_PORT_RGN is none of .*: FUNCTORCH_PORT_RNG"):
        settings._look()
    monkeypatch.delenv("FUNCTORCH_PORT_RGN")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settings._look()


def test_one_place_reads_them():
    package = ROOT / "functorch_port"
    asks = re.compile(r"(environ|getenv)\W.*(FUNCTORCH_PORT_|_PREFIX)")
    assert [p.name for p in package.rglob("*.py") if asks.search(p.read_text())] == ["settings.py"]


def test_random_numbers_of_compiled_functions(monkeypatch):
    def run(T, compile):
        T.manual_seed(3)
        net = T.nn.Sequential(T.nn.Dropout(0.5), T.nn.Flatten(0))
        return [compile(lambda: T.rand(3))().tolist(), compile(net)(T.ones(8)).tolist()]

    theirs = run(torch, lambda fn: fn)
    monkeypatch.setenv("FUNCTORCH_PORT_RNG", "torch")
    assert run(ft, ft.compile) == theirs
    assert run(ft, lambda fn: ft.compile(fn, rng="jax")) != theirs
    monkeypatch.setenv("FUNCTORCH_PORT_RNG", "jax")
    assert run(ft, ft.compile) != theirs
    assert run(ft, lambda fn: ft.compile(fn, rng="torch")) == theirs
