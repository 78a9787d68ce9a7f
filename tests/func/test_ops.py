"""Operations under the transforms: gradient, forward mode and `vmap` of a choice of every family, against torch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import programs
import pytest
import torch

import functorch_port as ft

OPS = """
F.gelu(x)
F.softmax(x, -1)
F.log_softmax(x, -1)
F.layer_norm(x, (4,))
F.batch_norm(x, None, None, training=True)
F.cross_entropy(x, torch.tensor([0, 1, 2]), reduction="none")
F.binary_cross_entropy_with_logits(x, x * 0 + 0.5)
F.conv2d(x[None, None], torch.ones(1, 1, 2, 2, dtype=torch.float64))
F.max_pool2d(x[None, None], 2, 1)
F.embedding(torch.tensor([0, 2]), x)
F.linear(x, x, x[:, 0])
x.sort(-1)[0]
x.topk(2)[0]
x.max(1)[0]
x.median(1)[0]
x.cumsum(0)
x.cumprod(1)
x.var(1)
x.logsumexp(1)
x.norm(dim=1)
x.clamp(-0.5, 0.5)
torch.where(x > 0, x, x * 2)
x @ x.t()
torch.hypot(x, x + 1)
torch.cat([x, x * 2]).mean(0)
x[torch.tensor([0, 2])]
x.gather(1, torch.tensor([[0, 1], [1, 2], [2, 3]]))
x.scatter_add(1, torch.tensor([[0, 1], [1, 2], [2, 3]]), x[:, :2])
x.masked_fill(x > 0, 0.0)
x.unfold(1, 2, 1)
x.expand(2, 3, 4)
x.diagonal()
torch.linalg.inv(x[:3, :3] + 3 * torch.eye(3, dtype=torch.float64))
torch.maximum(x, -x)
torch.atan2(x, x + 1)
F.normalize(x) * x.sum()
"""


def run(lib: Any, code: str, mode: str) -> Any:
    names = {"torch": lib, "F": lib.nn.functional}
    f = eval(f"lambda x: {code}", names)
    x = lib.tensor(np.random.default_rng(0).normal(size=(3, 4)))
    if mode == "grad":
        return lib.func.grad(lambda x: (f(x) ** 2).sum())(x)
    if mode == "jvp":
        return lib.func.jvp(f, (x,), (x * 0.5 + 1,))[1]
    return lib.func.vmap(f)(lib.stack([x, x * 0.7 + 0.1]))


@pytest.mark.parametrize("mode", ["grad", "jvp", "vmap"])
@pytest.mark.parametrize("code", OPS.strip().split("\n"))
def test_op(code: str, mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = run(torch, code, mode), run(ft, code, mode)
    programs.equal(theirs, ours, 1e-9, code)
