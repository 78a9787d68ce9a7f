"""What scripts ask and set about the process (CUDA, backends, threads, determinism), against torch without a GPU."""

from __future__ import annotations

import importlib

import jax
import pytest
import torch
from twins import outcome, same_outcome

import functorch_port as ft


@pytest.fixture(autouse=True)
def settable(monkeypatch):
    """PyTorch's own test helpers, which other tests here import, forbid setting flags."""
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", True)


ON_GPU = jax.default_backend() == "gpu"

ANSWERS = {
    "cuda": lambda T: (T.cuda.is_available(), T.cuda.device_count(), T.cuda.is_initialized()),
    "bfloat16": lambda T: T.cuda.is_bf16_supported(),
    "usual line": lambda T: str(T.device("cuda" if T.cuda.is_available() else "cpu")),
    "idle commands": lambda T: (T.cuda.empty_cache(), T.cuda.manual_seed(1), T.cuda.manual_seed_all(1)),
    "memory": lambda T: (T.cuda.memory_allocated(), T.cuda.max_memory_allocated()),
    "accelerator": lambda T: (T.accelerator.is_available(), T.accelerator.current_accelerator()),
    "accelerators": lambda T: T.accelerator.device_count(),
    "no accelerator": lambda T: T.accelerator.current_device_index(),
    "other devices": lambda T: (T.xpu.is_available(), T.mps.is_available(), T.mps.device_count()),
    "cudnn": lambda T: (
        T.backends.cudnn.benchmark, T.backends.cudnn.deterministic, T.backends.cudnn.enabled,
        T.backends.cudnn.is_available(), T.backends.cudnn.version(),
    ),
    "mps": lambda T: (T.backends.mps.is_available(), T.backends.mps.is_built(), T.backends.cuda.is_built()),
    "tf32": lambda T: T.backends.cuda.matmul.allow_tf32,
    "threads must be positive": lambda T: T.set_num_threads(0),
    "threads must be int": lambda T: T.set_num_threads("a"),
    "deterministic must be bool": lambda T: T.use_deterministic_algorithms(1),
    "debug mode number": lambda T: T.set_deterministic_debug_mode(3),
    "debug mode name": lambda T: T.set_deterministic_debug_mode("loud"),
    "debug mode type": lambda T: T.set_deterministic_debug_mode(None),
    "no such backend": lambda T: bool(T.backends.cudnn.is_available()),
}  # fmt: skip


#: what a build of PyTorch with CUDA says otherwise, even where there is no GPU
OF_THE_BUILD = {"accelerator", "no accelerator", "cudnn", "mps", "no such backend"}


@pytest.mark.skipif(ON_GPU, reason="the reference is torch without a GPU")
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_torchs(name):
    if torch.version.cuda is not None and name in OF_THE_BUILD:
        pytest.skip("the reference is a build of PyTorch for a CPU")
    assert outcome(ANSWERS[name], torch) == outcome(ANSWERS[name], ft)


def test_switches_keep_what_they_are_told():
    def run(T):
        cudnn = T.backends.cudnn
        before = (cudnn.benchmark, cudnn.deterministic, T.get_num_threads())
        cudnn.benchmark, cudnn.deterministic = True, True
        out = [cudnn.benchmark, cudnn.deterministic]
        with cudnn.flags(enabled=False, benchmark=False):
            out.append((cudnn.enabled, cudnn.benchmark))
        out.append((cudnn.enabled, cudnn.benchmark))
        T.set_num_threads(1)
        out.append(T.get_num_threads())
        T.use_deterministic_algorithms(True, warn_only=True)
        out += [
            T.are_deterministic_algorithms_enabled(),
            T.is_deterministic_algorithms_warn_only_enabled(),
            T.get_deterministic_debug_mode(),
        ]
        T.set_deterministic_debug_mode("default")
        out += [T.are_deterministic_algorithms_enabled(), T.get_deterministic_debug_mode()]
        cudnn.benchmark, cudnn.deterministic = before[:2]
        T.set_num_threads(before[2])
        return out

    same_outcome(run)


def test_tf32_is_the_matmul_precision():
    def run(T):
        before = T.get_float32_matmul_precision()
        T.backends.cuda.matmul.allow_tf32 = True
        out = [T.get_float32_matmul_precision()]
        T.set_float32_matmul_precision("highest")
        out.append(T.backends.cuda.matmul.allow_tf32)
        T.set_float32_matmul_precision(before)
        return out

    same_outcome(run)


@pytest.mark.parametrize(
    "name",
    [
        "cuda.amp",
        "backends.cudnn",
        "backends.cuda",
        "backends.mps",
        "backends.mkldnn",
        "amp",
        "accelerator",
        "mps",
    ],
)
def test_modules_can_be_imported(name):
    theirs, ours = importlib.import_module(f"torch.{name}"), importlib.import_module(f"functorch_port.{name}")
    assert ours.__doc__ and theirs


@pytest.mark.skipif(ON_GPU, reason="there is a GPU")
@pytest.mark.parametrize(
    "command",
    [
        lambda: ft.cuda.current_device(), lambda: ft.cuda.set_device(0), lambda: ft.cuda.get_device_name(),
        lambda: ft.cuda.Event(), lambda: ft.cuda.Stream(), lambda: ft.cuda.device(0).__enter__(),
        lambda: ft.cuda.synchronize(0), lambda: ft.cuda.mem_get_info(),
    ],
)  # fmt: skip
def test_commands_without_a_gpu_say_so(command):
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        command()


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_with_a_gpu():
    assert ft.cuda.is_available() and ft.cuda.device_count() >= 1 and ft.cuda.current_device() == 0
    assert isinstance(ft.cuda.get_device_name(), str) and ft.cuda.get_device_properties(0).total_memory > 0
    x = ft.ones(1024, 1024, device="cuda")
    start, end = ft.cuda.Event(enable_timing=True), ft.cuda.Event(enable_timing=True)
    start.record()
    y = x @ x
    end.record()
    ft.cuda.synchronize()
    assert start.elapsed_time(end) > 0 and y.is_cuda and ft.cuda.memory_allocated() > 0
    with ft.autocast("cuda"):
        assert (x @ x).dtype is ft.float16
    w = ft.nn.Parameter(x)
    w.grad = ft.ones_like(x)
    optimizer = ft.optim.SGD([w], lr=0.5, momentum=0.5)
    optimizer.step()
    optimizer.step()
    assert w.is_cuda and w[0, 0].item() == 1 - 0.5 - 0.75
