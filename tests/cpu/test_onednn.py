"""Convolutions by oneDNN: PyTorch's numbers to any order, and all that JAX does with an operation."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from by_onednn import agree, draw, run, sent_to
from counting import xla_compilations

import functorch_port as ft
from functorch_port._cpu.native import onednn
from functorch_port.ops import _convolution

pytestmark = pytest.mark.skipif(not onednn.available(), reason="needs oneDNN and llvmlite")

# input, weight, stride, padding, dilation, groups
CASES = [
    ((8, 32, 14, 14), (48, 32, 3, 3), 1, 0, 1, 1),
    ((4, 16, 32, 31), (32, 16, 3, 3), (2, 1), (1, 2), 1, 1),
    ((4, 64, 16, 16), (128, 64, 1, 1), 2, 0, 1, 1),
    ((2, 3, 64, 64), (24, 3, 7, 7), 2, 3, 1, 1),
    ((4, 32, 20, 20), (64, 16, 3, 3), 1, (2, 1), (1, 2), 2),
    ((8, 64, 17, 17), (64, 1, 3, 3), 1, 1, 1, 64),
    ((2, 12, 24, 24), (24, 12, 3, 5), 1, "same", 1, 1),
]

_plan = onednn.plan  # tests have another in its place


@pytest.fixture(autouse=True)
def everything_by_onednn(monkeypatch):
    with sent_to(monkeypatch, "plan"):
        yield


@pytest.mark.parametrize(("x", "w", "stride", "padding", "dilation", "groups"), CASES)
def test_as_pytorch(x, w, stride, padding, dilation, groups):
    def fn(T, x, w):
        return T.nn.functional.conv2d(x, w, None, stride, padding, dilation, groups)

    agree(*(run(T, fn, draw(x, 0), draw(w, 1)) for T in (ft, torch)))


@pytest.mark.parametrize(
    ("x", "w", "stride", "padding", "extra", "groups", "dilation"),
    [
        ((4, 32, 16, 16), (32, 24, 2, 2), 2, 0, 0, 1, 1),
        ((4, 64, 8, 9), (64, 32, 4, 4), 2, 1, 0, 1, 1),
        ((4, 32, 9, 9), (32, 8, 3, 3), (2, 3), 1, (1, 2), 2, 1),
        ((4, 32, 9, 9), (32, 16, 3, 3), 1, 1, 0, 1, 2),
    ],
)
def test_transposed(x, w, stride, padding, extra, groups, dilation):
    def fn(T, x, w):
        return T.nn.functional.conv_transpose2d(x, w, None, stride, padding, extra, groups, dilation)

    agree(*(run(T, fn, draw(x, 0), draw(w, 1)) for T in (ft, torch)))


@pytest.mark.parametrize("cores", [1, 3, 4, 7])
@pytest.mark.parametrize("images", [1, 2, 6])
@pytest.mark.parametrize(("weight", "groups"), [((192, 48, 3, 3), 1), ((64, 16, 3, 3), 2)], ids=str)
def test_any_number_of_cores(monkeypatch, tuned, cores, images, weight, groups):
    """Images and weights are cut for so many: those which cannot be are left to oneDNN whole."""
    monkeypatch.setattr(onednn, "cores", lambda: cores)
    tuned(convolution_part=1)
    shape = (images, weight[1] * groups, 13, 12 + cores)  # not the other numbers' plans
    _plan.cache_clear()
    jax.clear_caches()

    def fn(T, x, w):
        return T.nn.functional.conv2d(x, w, None, 1, 1, 1, groups)

    agree(*(run(T, fn, draw(shape, 0), draw(weight, 1)) for T in (ft, torch)))
    _plan.cache_clear()


def test_parts_are_whole_images():
    for cores, images in itertools.product([1, 2, 3, 4, 8, 16], range(1, 40)):
        how = _convolution.Convolution(
            (images, 8, 16, 16), (8, 8, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, None
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(onednn, "cores", lambda cores=cores: cores)
            for kind in ("forward", "input", "weight"):
                parts = onednn.parts_of(kind, how)
                # none is cut, and no thread has much more than its share
                assert parts == 0 or images % parts == 0
                assert parts == 0 or -(-parts // cores) * (images // parts) * cores <= 1.6 * images
    onednn.plan("forward", how)  # what every test here must ask for


@pytest.fixture
def two_threads():
    """PyTorch as it is by itself on two cores: a sum over images depends on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_gradients_are_those_of_pytorch_to_the_last_bit(two_threads):
    x, w = draw((16, 32, 24, 24), 0), draw((32, 32, 3, 3), 1)
    ours, theirs = (
        run(T, lambda T, x, w: T.nn.functional.conv2d(x, w, padding=1), x, w) for T in (ft, torch)
    )
    for a, b in zip(ours[1:3], theirs[1:3], strict=True):
        np.testing.assert_array_equal(a, b)


def test_compiled_training_is_eager_training():
    def train(wrap):
        ft.manual_seed(0)
        model = ft.nn.Sequential(
            ft.nn.Conv2d(8, 16, 3),
            ft.nn.ReLU(),
            ft.nn.ConvTranspose2d(16, 8, 4, 2),
            ft.nn.Conv2d(8, 4, 3, groups=4),
        )
        optimizer = ft.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        step, x = wrap(step), ft.tensor(draw((16, 8, 20, 20), 0))
        return [step(x).item() for _ in range(5)]

    np.testing.assert_allclose(train(ft.compile), train(lambda f: f), rtol=1e-5)


def _geometry(x, w):
    return _convolution.Convolution(x.shape, w.shape, (1, 1), ((1, 1), (1, 1)), (1, 1), 1, None)


def test_transformations_of_jax():
    x, w = jnp.asarray(draw((4, 16, 16, 16), 0)), jnp.asarray(draw((16, 16, 3, 3), 1))
    how = _geometry(x, w)

    def ours(x, w):
        return _convolution.convolve(x, w, how)

    def plain(x, w):
        return _convolution.by_xla(x, w, "forward", how)

    both = [
        lambda f: jax.jit(f)(x, w),
        lambda f: jax.jvp(jax.jit(f), (x, w), (w.sum() * x, x.mean() + w))[1],
        lambda f: jax.jit(jax.vmap(f, (0, None)))(jnp.stack([x, 2 * x]), w),
        lambda f: jax.jit(jax.vmap(jax.grad(lambda w, x: f(x, w).sum()), (None, 0)))(
            w, jnp.stack([x, 2 * x])
        ),
        lambda f: jax.jit(jax.grad(jax.checkpoint(lambda w: jnp.sin(f(x, w)).sum())))(w),
        lambda f: jax.lax.scan(lambda c, _: (f(c, w) * 0.01, None), x, None, 3)[0],
    ]
    for use in both:
        a, b = use(ours), use(plain)
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-5 * float(jnp.abs(b).max()))


def test_other_platforms_have_xlas_convolution():
    x, w = jnp.asarray(draw((4, 16, 16, 16), 0)), jnp.asarray(draw((16, 16, 3, 3), 1))
    step = jax.jit(jax.grad(lambda w: _convolution.convolve(x, w, _geometry(x, w)).sum()))
    here = jax.export.export(step, platforms=["cpu"], disabled_checks=[
        jax.export.DisabledSafetyCheck.custom_call(name) for name in _names(step, w)
    ])(w).mlir_module()  # fmt: skip
    there = jax.export.export(step, platforms=["tpu"])(w).mlir_module()
    assert "functorch_port.convolution" in here and "stablehlo.convolution" not in here
    assert "functorch_port.convolution" not in there and "stablehlo.convolution" in there


def _names(step, w):
    text = step.lower(w).as_text()
    return {part.split("(")[0] for part in text.split("@")[1:] if part.startswith("functorch_port")}


def test_equal_convolutions_share_a_program():
    x = ft.tensor(draw((4, 16, 18, 18), 0))
    layers = [ft.nn.Conv2d(16, 16, 3) for _ in range(4)]
    for layer in layers[:3]:  # what comes back often becomes one program
        layer(x).sum().backward()
    with xla_compilations() as compiled:
        layers[3](x).sum().backward()
    assert compiled == [0]


def test_cached_programs_find_their_convolutions(tmp_path):
    """A program from the cache has the handler's name, not its address."""
    program = """
import numpy as np
import functorch_port as torch
torch.manual_seed(0)
layer = torch.nn.Conv2d(16, 16, 3)
loss = torch.compile(lambda x: layer(x).square().mean())(torch.ones(4, 16, 18, 18))
print(loss.item())
"""
    env = {**os.environ, "FUNCTORCH_PORT_CACHE": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    output = lambda: (
        subprocess.run(
            [sys.executable, "-c", program], env=env, check=True, capture_output=True, text=True, timeout=120
        ).stdout
    )
    assert output() == output() and any(tmp_path.iterdir())
    onednn.plan("forward", _convolution.Convolution(
        (4, 16, 18, 18), (16, 16, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, None
    ))  # fmt: skip


@pytest.mark.parametrize(("size", "parts"), [(4, False), (24, True)])
def test_gradient_of_a_weight_of_more_numbers_than_the_images_is_made_whole(monkeypatch, size, parts):
    monkeypatch.setattr(onednn, "cores", lambda: 2)
    how = _convolution.Convolution(
        (4, 64, size, size), (64, 64, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, None
    )
    assert (onednn.parts_of("weight", how) > 0) == parts
    arrays = [draw(shape, k) for k, shape in enumerate((how.input, how.weight))]
    agree(*(run(T, lambda T, x, w: T.nn.functional.conv2d(x, w, padding=1), *arrays) for T in (ft, torch)))
