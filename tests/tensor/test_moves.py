"""Tensors that go from one device to another, and their gradients back: in a process with two CPU devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import functorch_port as torch

def check(tensor, where, value):
    assert str(tensor.device) == where, (tensor.device, where)
    assert {d.id for d in tensor.detach().jax().devices()} == {int(where[4:] or 0)}
    assert (tensor == value).all()

for size in (3, 100):
    w = torch.full((size, size), 3.0, requires_grad=True)
    for _ in range(5):
        w.grad = None
        there = (w * 2).to("cpu:1")
        check(there, "cpu:1", 6.0)
        (there * there).mean(dim=0).sum().backward()
        check(w.grad, "cpu", 24 / size)
        back = there.detach().to("cpu:0") + w.detach()
        check(back, "cpu", 9.0)
    there = (w * w).to("cpu:1")
    assert there.grad_fn.name() == "ToCopyBackward0" and there.requires_grad
    (first,) = torch.autograd.grad((there * there).sum(), w, create_graph=True)
    check(first, "cpu", 108.0)
    (second,) = torch.autograd.grad(first.sum(), w)
    check(second, "cpu", 108.0)
    with torch.no_grad():
        assert not (w * w).to("cpu:1").requires_grad
    v = torch.ones(size, size, device="cpu:1", requires_grad=True)
    for _ in range(5):
        v.grad = None
        (v * 4).sum().backward()
        check(v.grad, "cpu:1", 4.0)
    layer = torch.nn.Linear(size, size).to("cpu:1")
    with torch.no_grad():
        for _ in range(5):
            out = layer(v)
    assert str(out.device) == "cpu:1" and {d.id for d in out.jax().devices()} == {1}
"""

#: between platforms JAX halves what has 64 bits where these are not on: seen on a GPU, told here from the calls
IN_64_BITS = """
import jax
import functorch_port as torch

move, moved = jax.device_put, []

def watched(value, *args, **kwargs):
    if any(leaf.dtype.itemsize >= 8 for leaf in jax.tree.leaves(value) if hasattr(leaf, "dtype")):
        assert jax.config.jax_enable_x64, "64 bits moved where JAX has 32"
        moved.append(value)
    return move(value, *args, **kwargs)

jax.device_put = watched
for dtype in (torch.float64, torch.int64, torch.complex64):
    x = torch.ones(3, dtype=dtype).to("cpu:1")
    for y in (torch.zeros_like(x), torch.rand_like(x) if dtype.is_floating_point else x, x.new_zeros(3), x.to("cpu:0")):
        assert y.dtype == dtype
    assert x.untyped_storage().cpu() is not None
    assert torch.full((3,), 2, dtype=dtype, device="cpu:1").tolist() == [2, 2, 2]
w = torch.ones(3, dtype=torch.float64, requires_grad=True)
(w * 2).to("cpu:1").sum().backward()
assert w.grad.dtype == torch.float64
v = torch.ones(3, dtype=torch.float64, device="cpu:1", requires_grad=True)
optimizer = torch.optim.AdamW([v])
v.sum().backward()
optimizer.step()
assert all(s.dtype != torch.float32 or s.ndim == 0 for s in optimizer.state[v].values())
assert len(moved) > 10
"""

IN_PROGRAMS = """
import functorch_port as torch

x = torch.randn(3, 4, device="cpu:1")
seen = []

def step(x):
    hidden = (x * 2).exp()
    seen.append((hidden.device, hidden.new_zeros(2).device))
    return hidden + torch.ones(4, device=hidden.device) + hidden.new_ones(4)

wanted = step(x)
for transform in (torch.compile, torch.func.vmap, torch.func.functionalize):
    result = transform(step)(x)
    assert str(result.device) == "cpu:1" and torch.allclose(result, wanted)
layer = torch.nn.Linear(4, 2).to("cpu:1")
gradient = torch.func.grad(lambda p: step(torch.func.functional_call(layer, p, x).tile(2)).sum())
assert str(gradient(dict(layer.named_parameters()))["weight"].device) == "cpu:1"
assert len(seen) > 4 and {str(device) for pair in seen for device in pair} == {"cpu:1"}, seen
assert torch.get_default_device() == torch.device("cpu")

def away(x):
    return (x * 2).to("cpu:0")

try:
    torch.compile(away)(x)
except NotImplementedError as error:
    assert "one device, cpu:1" in str(error)
else:
    raise AssertionError("a program has no second device")
"""


@pytest.mark.parametrize(
    "program", [PROGRAM, IN_64_BITS, IN_PROGRAMS], ids=["eager", "64 bits", "in programs"]
)
def test_there_and_back(program: str) -> None:
    root = str(Path(__file__).parents[2])
    flags = "--xla_force_host_platform_device_count=2"
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
