"""`examples/gpt_pod.py` on a mesh: the losses of one device, and runs that go on on another mesh."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("grain")
sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import gpt_pod
import language_models

import functorch_port as ft

SIZES = {
    "gpt2-tiny": language_models.Config(width=16, layers=3, heads=2, kv_heads=2, hidden=64, context=12),
    "llama-tiny": language_models.Config("llama", 256, 12, 16, 3, 4, 2, 40, tied=False),
    "mixtral-tiny": language_models.Config(
        "mixtral", 256, 12, 16, 2, 4, 2, 40, tied=False, experts=4, chosen=2
    ),
}
TINY = "--steps 4 --batch 8 --length 12 --eval-batches 1 --eval-every 9 --log-every 1 --save-every 9 --warmup 2".split()


def run(folder, *options):
    gpt_pod.main([*TINY, "--out", str(folder), *options])
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [[value for value in (line.get("loss"), line.get("gradient_norm")) if value] for line in lines]


@pytest.fixture(autouse=True)
def sizes(monkeypatch):
    for name, size in SIZES.items():
        monkeypatch.setitem(language_models.SIZES, name, size)


@pytest.mark.parametrize("model", ["llama-tiny", "mixtral-tiny"])
def test_losses_are_those_of_one_device_on_two_meshes(model, tmp_path, monkeypatch):
    want = run(tmp_path / "one", "--model", model, "--remat")
    must_stop = gpt_pod.Run.must_stop
    with monkeypatch.context() as patch:
        patch.setattr(gpt_pod.Run, "must_stop", lambda self, step: step == 2 or must_stop(self, step))
        run(tmp_path / "mesh", "--model", model, "--mesh", "dp=2,fsdp=2,tp=2")
    got = run(tmp_path / "mesh", "--model", model, "--mesh", "fsdp=8")
    assert len(got) == 5
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4)


@pytest.mark.parametrize(
    "mesh, split, model", [("fsdp=4,tp=2", 4, "llama-tiny"), ("dp=2,fsdp=2,tp=2", 2, "mixtral-tiny")]
)
def test_parameters_and_state_lie_in_parts(mesh, split, model):
    job = gpt_pod.Job(SIZES[model], gpt_pod.mesh_of(mesh))
    job.initialise(0)
    tokens = np.zeros((8, 13), np.int64)
    job.step(*job.on_devices(tokens))
    for name, parameter in job.model.named_parameters():
        for tensor in (parameter, job.optimizer.state[parameter]["exp_avg"]):
            parts = {part.data.size for part in tensor._value.addressable_shards}
            count = 2 * split if "_proj" in name or "experts" in name else split
            assert parts == {tensor.numel() // count}, name


def test_tensor_parallelism_needs_a_llama():
    with pytest.raises(ValueError, match="tp needs a llama"):
        gpt_pod.Job(SIZES["gpt2-tiny"], gpt_pod.mesh_of("fsdp=4,tp=2"))


def test_a_mesh_of_tp_alone_computes_in_the_dtype_that_is_asked_for(tmp_path):
    one, wide, low = (
        run(tmp_path / name, "--model", "llama-tiny", *options.split())[3]
        for name, options in {
            "1": "--dtype bf16",
            "2": "--mesh tp=8",
            "3": "--mesh tp=8 --dtype bf16",
        }.items()
    )
    np.testing.assert_allclose(low, one, rtol=2e-2)
    assert not np.allclose(low, wide, rtol=1e-5)


def test_mfu_is_that_of_the_devices_that_compute(tmp_path):
    for devices, mesh in {1: "", 8: "fsdp=8"}.items():
        folder = tmp_path / str(devices)
        run(folder, "--model", "llama-tiny", "--peak-tflops", "0.5", "--mesh", mesh)
        line = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])
        # 2 * 3 for each number of a weight that is multiplied with, and half of 12 * width * length for attention
        layer = 2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 40 + 2 * 16
        flops = 6 * (3 * layer + 256 * 16 + 16) + 3 * 6 * 16 * 12
        assert line["mfu"] == pytest.approx(line["tokens_per_second"] * flops / (devices * 0.5e12), rel=1e-12)


@pytest.mark.parametrize(
    "names, said", [("fsdp, dp", "goes with fsdp after it"), ("data, fsdp", "its axes are dp, fsdp")]
)
def test_a_mesh_with_other_axes_is_refused(names, said):
    with pytest.raises(SystemExit, match=said):
        gpt_pod.mesh_of(",".join(f"{name}={size}" for name, size in zip(names.split(", "), (4, 2))))
    mesh = ft.distributed.init_device_mesh("cpu", (4, 2), mesh_dim_names=tuple(names.split(", ")))
    with pytest.raises(ValueError, match=f"a mesh of {names}: .*{said}"):
        gpt_pod.Job(SIZES["llama-tiny"], mesh)
