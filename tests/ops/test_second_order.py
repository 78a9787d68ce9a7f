"""Second derivatives against torch, above all of the ops with derivatives of their own."""

import pytest
import torch
from compare import sample, to_numpy, to_ours

import functorch_port as ft

T = torch.tensor
POS = sample(2, 3, low=0.3, high=0.9)
X = sample(2, 3)
SPD = sample(3, 3) @ sample(3, 3).T + torch.eye(3, dtype=torch.float64)
INDEX = T([[0, 1, 1], [2, 0, 1]])

CASES = {
    **{
        name: ((POS,), lambda lib, x, n=name: getattr(lib, n)(x))
        for name in "sin exp log sqrt rsqrt tanh sigmoid abs square reciprocal erf sinc lgamma atanh logit".split()
    },
    "pow": ((POS, POS + 1), lambda lib, x, y: lib.pow(x, y)),
    "pow 3": ((X,), lambda lib, x: x**3),
    "pow 2.5": ((POS,), lambda lib, x: x**2.5),
    "div": ((X, POS), lambda lib, x, y: x / y),
    "mul": ((X, POS), lambda lib, x, y: x * y * x),
    "atan2": ((X, POS), lambda lib, x, y: lib.atan2(x, y)),
    "hypot": ((X, POS), lambda lib, x, y: lib.hypot(x, y)),
    "xlogy": ((X, POS), lambda lib, x, y: lib.xlogy(x, y)),
    "logaddexp": ((X, POS), lambda lib, x, y: lib.logaddexp(x, y)),
    "lerp": ((X, POS, POS), lambda lib, x, y, w: lib.lerp(x, y, w)),
    "clamp": ((X,), lambda lib, x: lib.clamp(x, -0.5, 0.5) ** 2),
    "where": ((X, POS), lambda lib, x, y: lib.where(x > 0, x * y, y * y)),
    "prod": ((X,), lambda lib, x: x.prod()),
    "prod dim": ((X,), lambda lib, x: x.prod(1)),
    "cumprod": ((X,), lambda lib, x: x.cumprod(1)),
    "var": ((X,), lambda lib, x: x.var(1)),
    "std": ((X,), lambda lib, x: x.std()),
    "norm": ((X,), lambda lib, x: x.norm()),
    "norm 3": ((X,), lambda lib, x: x.norm(3, 1)),
    "logsumexp": ((X,), lambda lib, x: x.logsumexp(1)),
    "max": ((X,), lambda lib, x: (x * x).max()),
    "max dim": ((X,), lambda lib, x: (x * x).max(1)[0]),
    "median": ((X,), lambda lib, x: (x * x).median(1)[0]),
    "sort": ((X,), lambda lib, x: (x * x).sort(1)[0] * x),
    "matmul": ((X, sample(3, 2)), lambda lib, x, y: (x @ y) ** 2),
    "einsum": ((X, sample(3, 2)), lambda lib, x, y: lib.einsum("ij,jk->ik", x, y) ** 2),
    "inv": ((SPD,), lambda lib, x: lib.linalg.inv(x)),
    "det": ((SPD,), lambda lib, x: lib.linalg.det(x)),
    "solve": ((SPD, sample(3)), lambda lib, x, y: lib.linalg.solve(x, y)),
    "cholesky": ((SPD,), lambda lib, x: lib.linalg.cholesky(x)),
    "pinv": ((sample(4, 3),), lambda lib, x: lib.linalg.pinv(x)),
    "svd": ((SPD[:, :2].contiguous(),), lambda lib, x: lib.linalg.svd(x)[0][:, :2].abs()),
    "eigh": ((SPD,), lambda lib, x: lib.linalg.eigh(x)[1].abs()),
    "eig": ((SPD + sample(3, 3),), lambda lib, x: lib.linalg.eig(x)[1].abs()),
    "eigvals": ((SPD + sample(3, 3),), lambda lib, x: lib.linalg.eigvals(x).abs().sort()[0]),
    "cholesky_solve": ((X.mT.contiguous(), SPD), lambda lib, x, y: lib.cholesky_solve(x, lib.tril(y))),
    "lu_solve": (
        (SPD, X.mT.contiguous()),
        lambda lib, x, y: lib.linalg.lu_solve(*lib.linalg.lu_factor(x), y),
    ),
    "householder": ((SPD, SPD[0].contiguous()), lambda lib, x, t: lib.linalg.householder_product(x, t)),
    "gather": ((X,), lambda lib, x: x.gather(0, lib.tensor([[0, 1, 1]])) ** 2),
    "scatter_add": (
        (sample(3, 3), X),
        lambda lib, x, y: x.scatter_add(0, lib.tensor(INDEX.tolist()), y) ** 2,
    ),
    "scatter_reduce": (
        (sample(3, 3), X),
        lambda lib, x, y: x.scatter_reduce(0, lib.tensor(INDEX.tolist()), y, "mean") ** 2,
    ),
    "index_add": ((X, POS), lambda lib, x, y: x.index_add(0, lib.tensor([0, 0]), y) ** 2),
    "expand": ((X,), lambda lib, x: x.unsqueeze(0).expand(2, 2, 3) ** 2),
    "cat": ((X, POS), lambda lib, x, y: lib.cat([x, y]) ** 2),
    "diagonal": ((SPD,), lambda lib, x: x.diagonal() ** 2),
    "unfold": ((sample(6),), lambda lib, x: x.unfold(0, 3, 2) ** 2),
    "addcdiv": ((X, POS, POS + 1), lambda lib, x, y, z: lib.addcdiv(x, y, z, value=0.5)),
}


def second_order(lib, fn, inputs):
    """Gradient of the squared norm of the gradient."""
    out = fn(lib, *inputs)
    weight = lib.arange(1, out.numel() + 1, dtype=lib.float64).reshape(tuple(out.shape)) / out.numel()
    first = lib.autograd.grad((out * weight).sum(), inputs, create_graph=True)
    total = sum((g * g).sum() for g in first)
    if not total.requires_grad:
        return [*first]
    second = lib.autograd.grad(total, inputs, allow_unused=True)
    return [*first, *second]


@pytest.mark.parametrize("name", CASES)
def test_double_backward(name):
    inputs, fn = CASES[name]
    theirs = second_order(torch, fn, [x.clone().requires_grad_() for x in inputs])
    ours = second_order(ft, fn, [to_ours(x.clone().requires_grad_()) for x in inputs])
    for a, b in zip(theirs, ours, strict=False):
        a = torch.zeros((), dtype=torch.float64) if a is None else a
        got = to_numpy(b) if b is not None else 0.0
        torch.testing.assert_close(
            torch.as_tensor(got, dtype=torch.float64).expand(a.shape), a.detach(), rtol=1e-8, atol=1e-9
        )
