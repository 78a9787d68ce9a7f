"""Whole training steps compile for a TPU, on any machine, and cost what the same steps in plain JAX cost.

By default three models of the suite, as some take the compiler minutes; with WHOLE_TPU=1 all.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("libtpu", reason="the TPU compiler")
pytestmark = pytest.mark.slow


def found(*arguments: str) -> dict[str, Any]:
    """What `tpu_steps.py` finds."""
    here = Path(__file__).parent
    command = [sys.executable, str(here / "tpu_steps.py"), *arguments]
    path = os.pathsep.join(filter(None, (str(here.parent), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def costs() -> dict[str, Any]:
    """Those of the small networks."""
    return found()


@pytest.mark.parametrize("way", ["gradients not kept", "zero_grad last"])
@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_as_cheap_as_plain_jax(costs: dict[str, Any], network: str, way: str) -> None:
    ours, plain = costs[network][way], costs[network]["by hand"]
    assert ours["flops"] == pytest.approx(plain["flops"], rel=0.02)
    assert ours["peak"] == pytest.approx(plain["peak"], rel=0.02)


@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_gradients_left_behind_cost_their_size(costs: dict[str, Any], network: str) -> None:
    """With `zero_grad` at the start of the step, ``.grad`` can be read after it: that keeps the old parameters."""
    ours, plain = costs[network]["gradients kept"], costs[network]["by hand"]
    assert ours["flops"] == pytest.approx(plain["flops"], rel=0.02)
    assert ours["peak"] == pytest.approx(plain["peak"] + ours["gradients"], rel=0.02)


@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_no_64_bit_arrays_but_the_labels(costs: dict[str, Any], network: str) -> None:
    for way in ("gradients not kept", "zero_grad last", "gradients kept"):
        assert costs[network][way]["wide"] in ([], ["s64[64]"])


# name -> the shape of its labels, its only 64-bit array
SUITE = {
    "MLP 64, b16": "16",
    "ResNet-18 32x32, b16": "16",
    "ResNet-18 224x224, b4": "4",
    "ViT-Ti/16, b8": "8",
    "GPT 0.8M, b12x64": "12,64",
    "GPT 10M, b4x256": "4,256",
    "LSTM 256, b20x35": "35,20",
    "U-Net 64x64, b4": "4,64,64",
    "DCGAN 32x32, b32": None,
}


# not mended: 2.8 % more operations than by hand, and it is not known where
LARGE = pytest.mark.xfail(reason="ResNet-18 at 224x224 takes 2.8 % more operations", strict=True)


CHOSEN = (
    SUITE if os.environ.get("WHOLE_TPU") == "1" else ("MLP 64, b16", "LSTM 256, b20x35", "GPT 0.8M, b12x64")
)


@pytest.mark.parametrize("name", [pytest.param(n, marks=LARGE) if "224" in n else n for n in CHOSEN])
def test_the_suite_is_as_cheap_as_plain_jax(name: str) -> None:
    """No step takes over 2 % more operations, or memory, than the one by hand; some take less."""
    costs = found(name)
    ours, plain = costs["ours"], costs["by hand"]
    # of a loop XLA counts one round, so there the jaxprs are compared
    operations = "products" if name.startswith("LSTM") else "flops"
    assert ours[operations] <= 1.02 * plain[operations]
    assert ours["peak"] <= 1.02 * plain["peak"]
    assert set(ours["wide"]) <= {f"s64[{SUITE[name]}]"}


def test_the_memory_of_attention_grows_with_the_length() -> None:
    """By the kernel, with its derivative; without it with the square of the length."""
    short, long = found("attention", "2048"), found("attention", "4096")
    for length, one in ((2048, short), (4096, long)):  # short arrays stay in VMEM, and take less
        queries = 4 * 8 * length * 64 * 2
        assert one["kernel"]["temporary"] < 12 * queries
    assert long["plain"]["temporary"] > 3 * short["plain"]["temporary"]
    assert long["kernel"]["temporary"] < long["plain"]["temporary"] / 5
    assert not long["kernel"]["wide"]
