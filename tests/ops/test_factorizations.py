"""LU, LDL, Householder, pseudo-inverse and the ``_ex`` functions of torch.linalg against torch."""

import numpy as np
import pytest
import torch
from compare import case, check_case, sample, to_numpy, to_ours

import functorch_port as ft

T = torch.tensor
c128, f64 = torch.complex128, torch.float64
SQUARE = sample(3, 3) + 3 * torch.eye(3, dtype=f64)
BATCH = sample(2, 3, 3) + 3 * torch.eye(3, dtype=f64)
COMPLEX = sample(3, 3, dtype=c128) + 3 * torch.eye(3)
TALL, WIDE = sample(5, 3), sample(3, 5)
SYMMETRIC = SQUARE @ SQUARE.T
LOW = torch.outer(sample(4), sample(3)).contiguous()
SINGULAR = torch.stack([torch.eye(2), torch.zeros(2, 2)])
V = sample(3)
LU, PIVOTS = torch.linalg.lu_factor(BATCH)
CLU, CPIVOTS = torch.linalg.lu_factor(COMPLEX)
REFLECTIONS, TAU = torch.geqrf(TALL)
INDEFINITE = T([[0.0, 2, 1, 3], [2, 0, 5, 1], [1, 5, 0.1, 4], [3, 1, 4, 0]], dtype=f64)
INDEFINITE6 = sample(2, 6, 6) - sample(2, 6, 6).mT.flip(0)
INDEFINITE6 = INDEFINITE6 + INDEFINITE6.mT
HERMITIAN = COMPLEX + COMPLEX.mH - 6 * torch.eye(3)
i32 = torch.int32


def ldl(x, **options):
    return (*torch.linalg.ldl_factor(x, **options), sample(*x.shape[:-1], 2, dtype=x.dtype))


lu = [
    *(
        case(f"torch.linalg.{n}", x)
        for n in ("lu", "lu_factor", "lu_factor_ex")
        for x in (SQUARE, BATCH, COMPLEX, TALL, WIDE, sample(0, 3), sample(2, 0, 0), V)
    ),
    case("torch.linalg.lu", SQUARE, pivot=False),
    case("torch.linalg.lu_factor", SINGULAR),
    case("torch.linalg.lu_factor_ex", SINGULAR),
    case("torch.linalg.lu_factor_ex", SINGULAR, check_errors=True),
    case("torch.lu", BATCH),
    case("torch.lu", SINGULAR[1], get_infos=True),
    case("Tensor.lu", SQUARE),
    *(case("torch.lu_unpack", *torch.linalg.lu_factor(x)) for x in (BATCH, TALL, WIDE)),
    case("torch.lu_unpack", LU, PIVOTS, unpack_data=False, _grad=False),
    case("torch.lu_unpack", LU, PIVOTS, unpack_pivots=False),
    case("torch.lu_unpack", LU, PIVOTS.double()),
    case("torch.lu_unpack", LU, PIVOTS * 0),
    *(
        case("torch.linalg.lu_solve", *x, left=left, adjoint=adjoint)
        for x in ((LU, PIVOTS, sample(2, 3, 3)), (CLU, CPIVOTS, sample(3, 3, dtype=c128)))
        for left in (True, False)
        for adjoint in (True, False)
    ),
    case("torch.linalg.lu_solve", LU, PIVOTS, sample(3, 2)),
    case("torch.lu_solve", sample(2, 3, 2), LU, PIVOTS),
    case("torch.linalg.lu_solve", LU, PIVOTS, sample(2, 2)),
    case("torch.linalg.lu_solve", LU, PIVOTS, V),
    case("torch.linalg.lu_solve", LU, PIVOTS, sample(3, 2).float()),
    case("torch.linalg.lu_solve", LU, PIVOTS.long(), sample(3, 2)),
    case("torch.linalg.lu_solve", LU, PIVOTS[:, :2], sample(3, 2)),
]
symmetric = [
    *(
        case(f"torch.linalg.{n}", x, hermitian=h, _grad=False)
        for n in ("ldl_factor", "ldl_factor_ex")
        for h in (True, False)
        for x in (SYMMETRIC, INDEFINITE, INDEFINITE6, HERMITIAN, COMPLEX + COMPLEX.mT, sample(2, 0, 0))
    ),
    case("torch.linalg.ldl_factor_ex", SINGULAR, _grad=False),
    case("torch.linalg.ldl_factor", A := sample(2, 3)),
    # sums in another order than LAPACK's
    *(
        case("torch.linalg.ldl_solve", *ldl(x), _grad=False, _tol=1e-10)
        for x in (SYMMETRIC, INDEFINITE, INDEFINITE6, COMPLEX + COMPLEX.mT)
    ),
    case("torch.linalg.ldl_solve", *ldl(HERMITIAN, hermitian=True), hermitian=True, _grad=False, _tol=1e-10),
    case("torch.linalg.ldl_solve", SYMMETRIC, V, sample(3, 2)),
    case("torch.linalg.ldl_solve", SYMMETRIC, T([1, 2, 3], dtype=i32), sample(2, 2)),
]
reflections = [
    *(case("torch.geqrf", x, _grad=False) for x in (TALL, WIDE, BATCH, COMPLEX, sample(0, 3), V)),
    *(
        case("torch.linalg.householder_product", *torch.geqrf(x))
        for x in (TALL, BATCH, COMPLEX, sample(2, 3, 0))
    ),
    case("torch.orgqr", REFLECTIONS, TAU[:2]),
    case("torch.linalg.householder_product", REFLECTIONS, TAU.float()),
    case("torch.linalg.householder_product", WIDE, TAU),
    *(
        case("torch.ormqr", REFLECTIONS, TAU, sample(*((5, 2) if left else (2, 5))), left, transpose)
        for left in (True, False)
        for transpose in (True, False)
    ),
    case("torch.ormqr", *torch.geqrf(COMPLEX), sample(3, 2, dtype=c128), True, True),
    case("torch.ormqr", REFLECTIONS, TAU, V),
]
solvers = [
    *(
        case(f"torch.linalg.{n}", x, *more)
        for n, more in (("inv_ex", ()), ("solve_ex", (V,)), ("cholesky_ex", ()))
        for x in (SYMMETRIC, A)
    ),
    *(case(f"torch.linalg.{n}", sample(2, 0, 0)) for n in ("inv_ex", "cholesky_ex", "det", "pinv")),
    case("torch.linalg.cond", sample(2, 0, 0), _grad=False),
    case("torch.linalg.solve_ex", sample(2, 0, 0), sample(2, 0, 3)),
    case("torch.linalg.inv_ex", SINGULAR, check_errors=True),
    case("torch.linalg.solve_ex", SINGULAR, torch.ones(2, 2, 1), check_errors=True),
    case("torch.linalg.cholesky_ex", SINGULAR - 1, check_errors=True),
    case("torch.linalg.solve", SQUARE, sample(3, 2), left=False),
    case("torch.linalg.solve", SQUARE, T(1.0, dtype=f64)),
    case("torch.linalg.solve", SQUARE, V, left=False),
    case("torch.linalg.solve_triangular", SQUARE, V, upper=True),
    case("torch.linalg.solve_triangular", SQUARE, sample(2, 2), upper=True),
    *(
        case("torch.triangular_solve", sample(2, 3, 2), BATCH, *options)
        for options in ((), (False,), (True, True), (False, True, True))
    ),
    case("torch.triangular_solve", V, SQUARE),
    case("torch.triangular_solve", sample(2, 3), SQUARE),
    *(
        case(f"torch.linalg.{n}", x, **options)
        for n, x in (("matrix_rank", LOW), ("matrix_rank", BATCH), ("pinv", BATCH), ("pinv", WIDE))
        for options in ({}, {"atol": 0.1}, {"rtol": 1e-3}, {"atol": 1.0, "rtol": 0.1})
    ),
    case("torch.linalg.pinv", BATCH, rtol=T([0.1, 0.7], dtype=f64), _first=True),
    case("torch.linalg.pinv", SYMMETRIC, hermitian=True, _tol=1e-10),
    case("torch.linalg.pinv", SYMMETRIC, 1e-3, True, _tol=1e-10),
    case("torch.pinverse", TALL),
    case("torch.linalg.matrix_rank", SYMMETRIC, hermitian=True),
    case("torch.linalg.matrix_rank", BATCH, atol=T([0.1, 10.0])),
    case("torch.linalg.matrix_rank", SQUARE, 3.0),
    case("torch.linalg.matrix_rank", sample(2, 0, 3)),
    *(case("torch.linalg.cond", SQUARE, p) for p in (None, 2, -2, "nuc", 5)),
    # torch's own gradient fails here
    *(case("torch.linalg.cond", SQUARE, p, _grad=False) for p in (1, -1, float("inf"), "fro")),
    case("torch.linalg.cond", A, 1),
    case("torch.linalg.cond", SINGULAR, 1, _grad=False),
    case(
        "torch.linalg.tensorsolve", sample(2, 3, 6) + torch.eye(6, dtype=f64).reshape(2, 3, 6), sample(2, 3)
    ),
    case("torch.linalg.tensorsolve", sample(2, 3, 6), sample(2, 2)),
    case("torch.linalg.tensorinv", sample(2, 3, 6), ind=0),
    case("torch.linalg.vander", T(2.0), N=3),
    case("torch.linalg.vander", sample(2, 3)),
    case("torch.linalg.vander", T(2.0)),
    case("torch.linalg.lstsq", TALL, V, driver="best"),
    case("torch.linalg.lstsq", COMPLEX[:, :2].contiguous(), COMPLEX, _grad=False, _tol=1e-9),
    case("torch.linalg.lstsq", TALL, V),
    case("torch.linalg.lstsq", TALL, sample(5, 2), driver="gels", _grad=False, _tol=1e-9),
    case("torch.linalg.svd", T([[float("nan")]])),
    case("torch.linalg.eig", T([[float("inf")]])),
    case("torch.svd", TALL, compute_uv=False, _grad=False),
]


@pytest.mark.parametrize("case", [*lu, *symmetric, *reflections, *solvers], ids=str)
def test_like_torch(case):
    check_case(case)


def grads(lib, loss, x):
    loss(lib, x).backward()
    return x.grad


INVARIANT = {
    "full svd": lambda lib, x: (lambda u, s, v: (u[:, :3] @ lib.diag(s**2) @ v).sum())(*lib.linalg.svd(x)),
    "singular values of equal size": lambda lib, x: (
        (x.mT @ x * 0 + lib.eye(3)).sum() + lib.linalg.svd(x.mT @ x * 0 + lib.eye(3, dtype=x.dtype))[1].sum()
    ),
    "eig": lambda lib, x: (lambda w, v: (v @ lib.diag(w**2) @ lib.linalg.inv(v)).real.sum() + v.abs().sum())(
        *lib.linalg.eig(x.mT @ x + x[:3])
    ),
    "eigenvalues of equal size": lambda lib, x: lib.linalg.eigvalsh(
        lib.eye(3, dtype=x.dtype) + 0 * x[:3]
    ).sum(),
    "qr": lambda lib, x: (lambda q, r: (q @ r).pow(2).sum() + r.abs().sum())(*lib.linalg.qr(x)),
    "lstsq": lambda lib, x: lib.linalg.lstsq(x, x * x + 1)[0].sum(),
    "low rank": lambda lib, x: (lib.manual_seed(0), lib.svd_lowrank(x, 3)[1].sum())[1],
    "components": lambda lib, x: (lib.manual_seed(0), lib.pca_lowrank(x.mT)[1].sum())[1],
}


@pytest.mark.parametrize("name", INVARIANT)
def test_gradient_of_what_is_determined(name):
    """Factors have free signs and phases; what does not depend on them has torch's gradient."""
    x = sample(5, 3).requires_grad_()
    mine = to_ours(x)
    theirs = grads(torch, INVARIANT[name], x)
    ours = grads(ft, INVARIANT[name], mine)
    np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("q", [1, 3])
def test_low_rank_is_torchs_draw(q):
    """The random directions are torch's, and so is the approximation."""
    torch.manual_seed(3)
    ft.manual_seed(3)
    theirs, ours = torch.svd_lowrank(TALL, q, M=LOW[0]), ft.svd_lowrank(to_ours(TALL), q, M=to_ours(LOW[0]))
    u, s, v = (to_numpy(o) for o in ours)
    want = (theirs[0] * theirs[1]) @ theirs[2].mT
    np.testing.assert_allclose((u * s) @ v.T, want.numpy(), rtol=1e-10, atol=1e-12)
    with pytest.raises(ValueError, match="not greater than min"):
        ft.pca_lowrank(to_ours(TALL), 4)


def test_no_derivative():
    x = to_ours(SYMMETRIC.clone().requires_grad_())
    with pytest.raises(NotImplementedError, match="the derivative for 'geqrf' is not implemented."):
        ft.geqrf(x).a.sum().backward()
    with pytest.raises(RuntimeError, match="derivative for aten::linalg_ldl_factor_ex is not implemented"):
        ft.linalg.ldl_factor(x).LD.sum().backward()
    assert not ft.linalg.lu(x).P.requires_grad and ft.linalg.lu(x).L.requires_grad


def test_out_and_compile():
    x = to_ours(SYMMETRIC)
    out = ft.empty(0, dtype=ft.float64)
    assert ft.linalg.inv(x, out=out) is out
    np.testing.assert_allclose((out @ x).numpy(), np.eye(3), atol=1e-12)
    inverse, info = ft.compile(lambda a: ft.linalg.inv_ex(a))(x)
    np.testing.assert_allclose(inverse.numpy(), out.numpy(), rtol=1e-12)
    assert info.item() == 0
