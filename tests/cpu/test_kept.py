"""Traces on disk: a second process traces nothing and computes the same; nothing stale or wrong is ever found there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import functorch_port as ft
from functorch_port import compiler
from functorch_port._base import cache
from functorch_port._base.quiet import quiet
from functorch_port._cpu import numpy_programs as host
from functorch_port._run.call import Op
from functorch_port._run.registry import OpSpec, ops
from functorch_port._tensor import kept
from functorch_port._tensor.family import Family
from functorch_port.optim import _engine, adam

pytestmark = pytest.mark.cpu
#: the fixture of this folder leaves these tests alone
TIER = "numpy"


# ------------------------------------------------------------------ whole processes

SCRIPT = """
import collections, hashlib, json, sys
import jax
traced = collections.Counter()
make = jax.make_jaxpr
jax.make_jaxpr = lambda fn, *args, **how: traced.update([str(fn)]) or make(fn, *args, **how)
import functorch_port as torch
nn, F = torch.nn, torch.nn.functional

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.conv(x).flatten(2).transpose(1, 2)
        return self.head(self.layer(x)[:, -3:].mean(1))

torch.manual_seed(0)
net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
losses = []
for n in (8, 12, 10):
    x, y = torch.randn(n, 3, 8, 2 * n), torch.randint(0, 5, (n,))
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())
digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters())).hexdigest()
stats = torch.compiler.cache_stats()
print(json.dumps({"bits": [losses, digest], "traced": traced, "hits": stats.hits, "misses": stats.misses}))
"""


def start(folder: Path, **settings: str) -> subprocess.Popen[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "FUNCTORCH_PORT_"))}
    ours = {"FUNCTORCH_PORT_CACHE": str(folder), "FUNCTORCH_PORT_TIER": "numpy", "JAX_PLATFORMS": "cpu"}
    environment = {**inherited, **ours, **settings}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, **pipes)


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0 and errors == "", errors
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder that a first process has filled, and what it says."""
    folder = tmp_path_factory.mktemp("cache")
    return folder, finished(start(folder, PYTHONHASHSEED="1"))


def test_a_second_process_traces_nothing(first: tuple[Path, dict[str, Any]]) -> None:
    folder, cold = first
    assert len(cold["traced"]) > 20 and cold["hits"] == 0
    for seed in ("2", "3"):
        warm = finished(start(folder, PYTHONHASHSEED=seed))
        assert warm["traced"] == {} and warm["misses"] == 0 and warm["hits"] >= cold["misses"]
        assert warm["bits"] == cold["bits"]


@pytest.mark.parametrize(
    "changed",
    [
        {"FUNCTORCH_PORT_HOST_ELEMENTS": "100"},
        {"JAX_THREEFRY_PARTITIONABLE": "0"},
        {"FUNCTORCH_PORT_CACHE": "0"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_another_setting_finds_nothing(first: tuple[Path, dict[str, Any]], changed: dict[str, str]) -> None:
    folder, cold = first
    other = finished(start(folder, **changed))
    assert sum(other["traced"].values()) > 20 and other["bits"] == cold["bits"]


def test_processes_write_at_once(first: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    _, cold = first
    for found in [finished(process) for process in [start(tmp_path) for _ in range(3)]]:
        assert found["bits"] == cold["bits"]
    assert not [file.name for file in tmp_path.iterdir() if file.name.count(".")]  # parts of files
    warm = finished(start(tmp_path))
    assert warm["traced"] == {} and warm["bits"] == cold["bits"]


# ------------------------------------------------------------------ in this process


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tuned: Callable[..., None]) -> Path:
    """Where traces are kept until the test is over."""
    tuned(kept_traces=8)
    monkeypatch.setattr(cache, "directory", lambda: str(tmp_path))
    monkeypatch.setattr(kept, "_LOADED", float("inf"))  # files that were just edited are no others
    monkeypatch.setattr(kept._Seen, "at", float("-inf"))
    kept._waiting.clear()
    return tmp_path


def files(folder: Path) -> list[Path]:
    kept.flush()
    return sorted(folder.glob("trace-*"))


class Process:
    """What a process knows of a function that it calls so, with the times that it was traced."""

    def __init__(self, fn: Callable[..., Any], name: str | None = "fn") -> None:
        self.traced = 0

        def counted(*args: Any) -> Any:
            self.traced += 1
            return fn(*args)

        self.plan = SimpleNamespace(family=Family(lambda numbers: counted, name), numbers=())

    def __call__(self, *args: Any) -> Any:
        found = host.bound(self.plan, args)
        assert found is not None
        out = quiet.run(found.run, *args)
        kept.flush()
        return out


def rows(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, 6)).astype(np.float32)


def scaled(x: Any) -> Any:
    return x / jnp.sqrt((x * x).sum(-1, keepdims=True)) + jnp.arange(x.shape[0])[:, None].astype(x.dtype)


def test_the_trace_with_symbols_serves_a_size_that_is_the_first(folder: Path) -> None:
    cold = Process(scaled)
    found = {n: cold(rows(n)).tobytes() for n in (5, 7, 9)}
    assert cold.traced == 2 and len(files(folder)) == 1
    before, warm = compiler.cache_stats(), Process(scaled)
    assert {n: warm(rows(n)).tobytes() for n in (9, 5, 7)} == found
    after = compiler.cache_stats()
    assert warm.traced == 0 and (after.hits - before.hits, after.misses - before.misses) == (2, 0)
    assert warm.plan.family.find([rows(33)], ())[0].shapes((33,)) == jax.ShapeDtypeStruct((33, 6), np.float32)
    assert Process(scaled, "another")(rows(5)).tobytes() == found[5]
    assert len(files(folder)) == 2


def test_a_size_is_a_symbol_at_once_where_another_is_known(folder: Path) -> None:
    Process(scaled)(rows(5))
    second = Process(scaled)
    second(rows(7)), second(rows(8))
    assert second.traced == 1


def test_dtypes_and_equal_sizes_are_told_apart(folder: Path) -> None:
    fn = lambda x: x.sum(0) if x.shape[0] == x.shape[1] else x
    Process(fn)(rows(5)), Process(fn)(rows(7))
    assert Process(fn)(rows(6)).shape == (6,)
    double = Process(fn)(rows(5).astype(np.float64))
    assert double.dtype == np.float64 and len(files(folder)) == 3
    assert Process(fn)(rows(8)).shape == (8, 6)


def test_what_has_no_program_is_known_too(folder: Path) -> None:
    fn = lambda x: jax.lax.approx_max_k(x, 2)[0]
    for traces in (1, 0):
        process = Process(fn)
        assert host.bound(process.plan, [rows(5)]) is None
        kept.flush()
        assert process.traced == traces


def test_shapes_alone_are_kept_and_the_program_comes_later(folder: Path) -> None:
    made = Process(scaled).plan.family.find([rows(5)], ())[0].shapes(())
    (file,) = files(folder)
    small, second = file.stat().st_size, Process(scaled)
    assert second.plan.family.find([rows(5)], ())[0].shapes(()) == made and second.traced == 0
    second(rows(5))
    assert second.traced == 1 and file.stat().st_size > small
    third = Process(scaled)
    third(rows(5))
    assert third.traced == 0


def test_files_that_are_not_whole_or_foreign_are_misses(folder: Path) -> None:
    found = Process(scaled)(rows(5)).tobytes()
    (file,) = files(folder)
    whole = file.read_bytes()
    Process(lambda x: x + 1, "other")(rows(5))
    other = next(path for path in files(folder) if path != file).read_bytes()
    assert other[:32] != whole[:32]
    for broken in (b"", whole[:20], whole[:-1], whole[:40] + b"\0" + whole[41:], whole[:32] + other[32:]):
        file.write_bytes(broken)
        process = Process(scaled)
        assert process(rows(5)).tobytes() == found and process.traced == 1
        assert Process(scaled)(rows(5)).tobytes() == found and file.stat().st_size == len(whole)
    file.unlink()
    file.mkdir()
    assert Process(scaled)(rows(5)).tobytes() == found


def test_another_process_adds_to_what_is_there(folder: Path) -> None:
    one, two = Process(scaled), Process(scaled)
    for process, n in ((one, 5), (two, 5), (one, 7), (two, 8)):
        host.bound(process.plan, [rows(n)])
    kept.flush()
    third = Process(scaled)
    third(rows(5)), third(rows(9))
    assert third.traced == 0


def test_no_more_than_so_many_traces_are_kept(folder: Path, tuned: Callable[..., None]) -> None:
    tuned(kept_traces=2)
    fn = lambda x: x[: int(x.shape[0]) // 2]
    process = Process(fn)
    for n in range(5, 11):
        process(rows(n))
    known = kept.load(next(iter(process.plan.family._known.values())).home)
    assert [record[0] for record in known[1]] == [[9, 6], [10, 6]]
    second = Process(fn)
    second(rows(10)), second(rows(11))
    assert second.traced == 1  # it is not tried with symbols again


def test_the_code_of_the_library_is_in_the_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Process(scaled)(rows(5))
    ends = (
        "_cpu/numpy_programs/writer.py",
        "_base/sizes.py",
        "ops/conv.py",
        "_tensor/pullback.py",
        "optim/adam.py",
    )
    assert all(any(path.endswith(end) for path in kept._sources()) for end in ends)
    code = folder / "code.py"
    found = set()
    monkeypatch.setattr(kept, "_sources", lambda: [str(code)])
    for text in ("a = 1", "a = 2"):  # of one length
        code.write_text(text)
        found.add(kept._library.__wrapped__())
    assert len(found) == 2 and None not in found
    changed = found.pop()
    monkeypatch.setattr(kept, "_library", lambda: changed)
    monkeypatch.setattr(kept._Seen, "state", (None, ""))
    other = Process(scaled)
    other(rows(5))
    assert other.traced == 1


def test_nothing_is_kept_of_code_that_has_changed_since(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_LOADED", 0.0)
    process = Process(scaled)
    process(rows(5))
    assert process.traced == 1 and not files(folder)


@pytest.mark.parametrize("change", ["tuning", "jax", "deterministic", "default dtype", "precision"])
def test_settings_are_in_the_key(folder: Path, tuned: Callable[..., None], change: str) -> None:
    def changed() -> Any:
        if change == "tuning":
            tuned(numpy_products=1 << 17)
        elif change == "deterministic":
            ft.use_deterministic_algorithms(True)
        elif change == "default dtype":
            ft.set_default_dtype(ft.float64)
        elif change == "precision":
            ft.set_float32_matmul_precision("high")

    try:
        Process(scaled)(rows(5))
        running = Process(scaled)
        running(rows(5))
        if change == "jax":
            with jax.threefry_partitionable(not jax.config.jax_threefry_partitionable):
                other = Process(scaled)
                other(rows(5))
                running(rows(7))
        else:
            changed()
            other = Process(scaled)
            other(rows(5))
            running(rows(7))
        assert other.traced == 1
        assert len(files(folder)) == 2
    finally:
        ft.use_deterministic_algorithms(False)
        ft.set_default_dtype(ft.float32)
        ft.set_float32_matmul_precision("highest")


def test_what_was_made_under_another_setting_is_not_kept(folder: Path, tuned: Callable[..., None]) -> None:
    running = Process(scaled)
    running(rows(5))
    (file,) = files(folder)
    before = file.read_bytes()
    tuned(numpy_products=1 << 17)
    running(rows(7))
    assert file.read_bytes() == before and running.traced == 2


def test_warnings_are_given_in_each_process(folder: Path) -> None:
    def warns(x: Any) -> Any:
        warnings.warn("careful", UserWarning, stacklevel=2)
        return x + 1

    for _ in range(2):
        with pytest.warns(UserWarning, match="careful"):
            Process(warns)(rows(5))


def test_an_error_is_raised_in_each_process(folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="Incompatible"):
            Process(lambda x: x + jnp.ones(5)).plan.family.find([rows(4)], ())
    assert Process(lambda x: x + jnp.ones(6))(rows(4)).shape == (4, 6)


def test_functions_without_a_name_are_not_kept(folder: Path) -> None:
    Process(scaled, None)(rows(5))
    assert not files(folder)


# ------------------------------------------------------------------ names


def test_static_arguments_are_written_exactly() -> None:
    values = [
        1, True, 1.0, 0, False, 0.0, -0.0, float("nan"), float("inf"), 1j, complex(0, -0.0), 0j, None, "1", "None",
        (), (1,), ((1,),), (1, (2,)), ((1,), 2), (1, 2), ("1 2",), ("1", "2"), ..., slice(1), slice(1, None), "#",
        kept.NUMBER, ft.float32, ft.float64, "torch.float32", np.dtype("int8"), np.dtype("int16"),
        ft.device("cpu"), "cpu", ft.channels_last, ft.contiguous_format, ft.strided, adam.Flags,
    ]  # fmt: skip
    texts = [kept.text(value) for value in values[:-1]]
    assert len(set(texts)) == len(texts)
    for other in (object(), [1], {1: 2}, ft.ones(1), lambda: 1, values[-1], np.float32(1), np.ones(1)):
        with pytest.raises(kept.Unwritten):
            kept.text(other)


def named(spec: OpSpec, **static: Any) -> str | None:
    return Op(spec)._name({"input": 0}, static)


def test_only_the_librarys_own_operations_have_names() -> None:
    spec = ops["add"]
    assert named(spec, alpha=1.0) != named(spec, alpha=True) != named(spec, alpha=None) is not None
    assert named(spec, alpha=0.0) != named(spec, alpha=-0.0)
    assert named(spec, alpha=object()) is None

    def add(input: Any) -> Any:
        return input + 1

    assert named(OpSpec(add, ("add",), ())) is None
    add.__module__ = spec.fn.__module__  # as `functools.wraps` would have it
    assert named(OpSpec(add, ("add",), ())) is None
    assert named(OpSpec(spec.fn, ("add",), ())) is None  # it is not the registered one


def test_only_the_librarys_own_rules_have_names() -> None:
    flags = adam.METHOD.flags({**adam.Adam([ft.ones(1)]).param_groups[0]})
    exact = _engine._of_elements(adam.adam_rule, flags, (True,), "none").exact
    assert exact != _engine._of_elements(adam.adam_rule, flags, (False,), "none").exact is not None

    def adam_rule(*given: Any) -> Any:
        return adam.adam_rule(*given)

    for name in ("adam_rule", adam_rule.__qualname__):
        adam_rule.__module__, adam_rule.__qualname__ = adam.__name__, name
        assert _engine._of_elements(adam_rule, flags, (True,), "none").exact is None


def test_functions_of_the_user_are_not_kept(folder: Path) -> None:
    class Double(ft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return ft.tensor(x.numpy() * 2)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    @ft.library.custom_op("kept_test::twice", mutates_args=())
    def twice(x: ft.Tensor) -> ft.Tensor:
        return ft.tensor(x.numpy() * 2)

    x = ft.ones(3, requires_grad=True)
    ft.func.vmap(lambda x: x)(x.detach())
    kept.flush()
    names = len(files(folder))
    Double.apply(x), twice(x.detach())
    assert len(files(folder)) - names <= 1  # of `x * 2` at most
