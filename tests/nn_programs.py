"""What the tests of `nn` share: one program run on both libraries, with the package's module paths read as torch's."""

from __future__ import annotations

import re

import torch
from twins import outcome, plain

import functorch_port as ft


def same(program, tol=0.0):
    """As `twins.same_outcome`; the package's own module paths are read as torch's in texts.

    ``tol`` is how far floats may be apart, relatively or absolutely.
    """
    theirs, ours = outcome(program, torch), outcome(program, ft)
    difference = _difference(_renamed(theirs), _renamed(ours), tol)
    assert difference is None, difference


def _difference(theirs, ours, tol=0.0, path="outcome"):
    """Where two results part, or None."""
    if (
        tol
        and type(theirs) is float
        and type(ours) is float
        and abs(theirs - ours) <= tol * max(1, abs(theirs))
    ):
        return None
    if type(theirs) is type(ours) and isinstance(theirs, (list, tuple)) and len(theirs) == len(ours):
        found = (
            _difference(a, b, tol, f"{path}[{i}]") for i, (a, b) in enumerate(zip(theirs, ours, strict=True))
        )
        return next((f for f in found if f), None)
    if isinstance(theirs, dict) and isinstance(ours, dict) and list(theirs) == list(ours):
        return next(
            (f for f in (_difference(theirs[k], ours[k], tol, f"{path}[{k!r}]") for k in theirs) if f), None
        )
    return None if theirs == ours else f"{path}: torch {theirs!r}, ours {ours!r}"


def _renamed(value):
    if isinstance(value, str):
        value = re.sub(r"functorch_port\.nn\.modules\.|torch\.nn\.modules\.", "nn.", value)
        value = re.sub(
            r"functorch_port\.(core\.tensor|core\.size|nn\.parameter|nn\.module|nn)\.", "torch.", value
        )
        return re.sub(r"torch\.(nn\.)?(parameter\.|modules\.module\.)?", "torch.", value).replace(
            "torch.module.", "torch."
        )
    if isinstance(value, (list, tuple)):
        return [_renamed(v) for v in value]
    if isinstance(value, dict):
        return {k: _renamed(v) for k, v in value.items()}
    return value


# for `programs.check`: one forward and backward pass of a module in float64
MODULE_RUN = """
nn, F = torch.nn, torch.nn.functional

def data(*shape, seed=0):
    return torch.tensor(np.random.default_rng([seed, *shape]).uniform(-2, 2, shape))

def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, (list, tuple)) else []

def run(make, *args, train=True, grad=True, **kwargs):
    torch.manual_seed(0)
    m = make().double().train(train)
    inputs = [a.clone().requires_grad_() if grad and isinstance(a, torch.Tensor) else a for a in args]
    same = {id(a): i for i, a in reversed(list(enumerate(args)))}
    inputs = [inputs[same[id(a)]] for a in args]
    with torch.set_grad_enabled(grad):
        out = m(*inputs, **kwargs)
    if not grad:
        return out
    sum((o * torch.arange(o.numel()).reshape(o.shape).double().cos()).sum() for o in leaves(out)).backward()
    return [o.detach() for o in leaves(out)], {n: p.grad for n, p in m.named_parameters()}, leaves(inputs)[0].grad
"""


def net(T):
    nn = T.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(2, 3)
            self.register_buffer("scale", T.ones(1))
            self.register_buffer("cache", T.zeros(2), persistent=False)
            self.register_buffer("empty", None)
            self.register_parameter("none", None)
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(self.lin(x)) * self.scale

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Block()
            self.more = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
            self.again = self.first
            self.named = nn.ModuleDict({"norm": nn.BatchNorm1d(3)})
            self.w = nn.Parameter(T.arange(3.0))
            self.tied = self.more[0].weight
            self.number = 5
            self.missing = None

        def forward(self, x):
            x = self.first(x)
            for layer in self.more:
                x = layer(x)
            return self.named["norm"](x) + self.w

    T.manual_seed(0)
    return Net()


def tries(*calls):
    """What each call gives: its plain value, or its error."""
    out = []
    for call in calls:
        try:
            out.append(plain(call()))
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return out
