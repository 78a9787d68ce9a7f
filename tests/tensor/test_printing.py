"""The text of tensors: equal to torch's to the character."""

import random
import warnings

import ml_dtypes
import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._base import dtypes
from functorch_port._tensor import printing

#: numpy views of the types that torch does not export
RAW = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
}
OPTIONS = [
    {},
    {"precision": 0},
    {"precision": 8},
    {"precision": 1, "linewidth": 30, "threshold": 10, "edgeitems": 2},
    {"profile": "short"},
    {"profile": "full"},
    {"profile": "full", "edgeitems": 1},
    {"profile": "unknown"},
    {"sci_mode": True},
    {"sci_mode": False},
    {"linewidth": 40},
    {"linewidth": 120},
    {"threshold": 0, "edgeitems": 0},
    {"threshold": 5, "edgeitems": 1},
    {"threshold": 100, "edgeitems": 5},
]


@pytest.fixture(autouse=True)
def default_options():
    yield
    for library in (torch, ft):
        library.set_printoptions(profile="default")
        library.set_default_dtype(library.float32)


def as_numpy(x):
    if x.dtype in RAW:
        raw, kind = RAW[x.dtype]
        return x.detach().view(raw).numpy().view(kind)
    return x.detach().numpy()


def random_tensor(rng, d):
    """A tensor of dtype ``d`` of random shape, with the values that decide about widths and notation."""
    shape = [rng.choice([0, 1, 2, 3, 5, 8, 13, 40]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4]))]
    if len(shape) == 1 and rng.random() < 0.3:
        shape = [rng.choice([30, 1000, 1001])]
    kind = getattr(torch, d.name)
    x = torch.randn(shape, dtype=torch.float64) * 10 ** rng.uniform(-6, 10 if rng.random() < 0.3 else 2)
    if rng.random() < 0.4:
        x = x.round()
    if rng.random() < 0.3:
        x = x * 10.0 ** torch.randint(-5, 6, shape)
    if rng.random() < 0.2 and x.numel():
        x.view(-1)[rng.randrange(x.numel())] = rng.choice(
            [float("nan"), float("inf"), -float("inf"), 0.0, -0.0]
        )
    if rng.random() < 0.15:
        x = x * rng.choice([0.0, float("nan")])
    if kind.is_complex:
        imag = torch.randn(shape, dtype=torch.float64) * rng.choice([0, 1e-3, 1, 1e3])
        return torch.complex(x, imag).to(kind)
    if kind is torch.bool:
        return x > 0
    if not kind.is_floating_point:
        return x.nan_to_num(0, 0, 0).clamp(-100 if kind.is_signed else 0, 100).to(kind)
    return x.to(kind)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("default", ["float32", "float64"])
def test_random_tensors(options, default):
    rng = random.Random(str(options) + default)
    torch.manual_seed(rng.randrange(2**31))
    for library in (torch, ft):
        library.set_default_dtype(getattr(library, default))
        library.set_printoptions(**options)
    for _ in range(100):
        d = rng.choice([*dtypes.ALL, *[dtypes.float32] * 10])
        x = random_tensor(rng, d)
        if x.is_floating_point() and x.element_size() > 1 and rng.random() < 0.5:
            x.requires_grad_()
            if rng.random() < 0.5:
                x = x * 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # infinities in half types
            ours = ft.tensor(as_numpy(x), requires_grad=x.requires_grad)
            assert repr(ours * 1 if x.grad_fn else ours) == repr(x)


CALLS = """
torch.tensor(1.5)
torch.tensor(-0.0)
torch.tensor(1e20)
torch.tensor(123456.0)
torch.tensor(3)
torch.tensor(True)
torch.tensor([])
torch.zeros(0, 3)
torch.zeros(2, 0, dtype=torch.int32)
torch.zeros(0, requires_grad=True)
torch.tensor([1e10, 1.0])
torch.tensor([float("nan"), 1.0, float("inf")])
torch.tensor([100000000.0])
torch.tensor([123456789.0])
torch.tensor([1000.0, 0.5, 0.0])
torch.tensor([-1.5, -100])
torch.tensor([2**62])
torch.tensor([1 + 2j, 3.5 - 1j])
torch.arange(1001)
torch.ones(40, dtype=torch.float64)
torch.ones(2, 2, 2, 2, requires_grad=True)
torch.ones(3, device="meta")
torch.ones(3, device="meta", dtype=torch.float64, requires_grad=True)
torch.ones((), device="meta")
torch.ones(2, requires_grad=True) * 2
torch.ones(3, 3, requires_grad=True).sum()
torch.ones(3, 3).double()[0]
torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
torch.nn.Parameter(torch.ones(2), requires_grad=False)
[torch.ones(2), {"a": torch.zeros(1)}]
str(torch.tensor(1.5)), f"{torch.tensor(1.5):.3f}", f"{torch.tensor(1.5)}", f"{torch.tensor([1.5])}"
"""


@pytest.mark.parametrize("call", CALLS.strip().split("\n"))
def test_call_is_as_torchs(call):
    assert repr(eval(call, {"torch": ft})) == repr(eval(call, {"torch": torch}))


def test_subclass_shows_its_name():
    texts = []
    for library in (torch, ft):
        kind = type("Special", (library.Tensor,), {})
        texts.append(repr(library.ones(2, 2).as_subclass(kind)))
    assert texts[0] == texts[1]


def test_traced_tensor_shows_its_shape():
    seen = []

    def look(x):
        seen.append(repr(x))
        return x + 1

    ft.compile(look)(ft.zeros(2, 3))
    assert seen == ["tensor(..., size=(2, 3))"]


def test_options_are_kept_and_put_back():
    assert printing.get_printoptions() == {
        "precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None,
    }  # fmt: skip
    with printing.printoptions(precision=2, sci_mode=True):
        assert repr(ft.tensor([1.25])) == "tensor([1.25e+00])"
    assert repr(ft.tensor([1.25])) == "tensor([1.2500])"
    ft.set_printoptions(sci_mode=True)
    ft.set_printoptions(precision=3)  # sci_mode is not kept, as in torch
    assert repr(ft.tensor([1.25])) == "tensor([1.250])"


def test_contents_can_be_given():
    text = printing.format_tensor(
        np.ones(2, np.float32), dtypes.float32, contents="<secret>", device="cuda:0"
    )
    assert text == "tensor(<secret>, device='cuda:0')"
