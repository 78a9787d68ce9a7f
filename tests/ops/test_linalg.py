"""Matrix products, einsum and torch.linalg against torch."""

import math

import numpy as np
import pytest
import torch
from compare import case, check_case, resolve, same_error, sample, to_numpy, to_ours

import functorch_port as ft

T = torch.tensor
bf16, f16, c128 = torch.bfloat16, torch.float16, torch.complex128
A, B = sample(2, 3), sample(3, 4, seed=1)
SQUARE = sample(3, 3) + 3 * torch.eye(3, dtype=torch.float64)
BATCH = sample(2, 3, 3) + 3 * torch.eye(3, dtype=torch.float64)
SYMMETRIC = SQUARE @ SQUARE.T
V = sample(3)
inf = math.inf

SHAPES = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((2, 1, 2, 3), (5, 3, 4)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((2, 3), (4, 5)),
    ((2,), (3,)),
    ((2, 3), (4,)),
    ((3,), (4, 2)),
    ((2, 3, 4), (3, 4, 5)),
    ((2, 3, 4), (5,)),
    ((2, 3, 4), (5, 6)),
    ((), (2,)),
    ((2, 3, 4), (2, 5, 6)),
]

products = [
    *(case("torch.matmul", sample(*a), sample(*b, seed=1)) for a, b in SHAPES),
    case("operator.matmul", A, B),
    case("operator.matmul", A, 1),
    case("torch.matmul", A, B.float()),
    case("torch.matmul", torch.ones(2, 2), torch.ones(2, 2).long()),
    case("torch.matmul", torch.ones(2, 2).bool(), torch.ones(2, 2).bool()),
    case("torch.matmul", T([[1, 2], [3, 4]]), T([[1], [5]])),
    case("torch.matmul", A.float() * 100, B.float()),
    *(case("torch.matmul", sample(4, 200, dtype=d), sample(200, 3, dtype=d)) for d in (bf16, torch.float32)),
    case("torch.matmul", sample(2, 3, dtype=c128), sample(3, 2, dtype=c128)),
    case("torch.mm", A, B),
    case("torch.mm", A, A),
    case("torch.mm", V, A),
    case("torch.mm", A, V),
    case("torch.bmm", sample(2, 3, 4), sample(2, 4, 5)),
    case("torch.bmm", sample(2, 3, 4), sample(2, 3, 4)),
    case("torch.bmm", A, B),
    case("torch.bmm", sample(2, 3, 4), sample(2, 4, 5).float()),
    case("torch.mv", A, V),
    case("torch.mv", A, sample(4)),
    case("torch.dot", V, V + 1),
    case("torch.dot", V, sample(4)),
    case("torch.dot", A, A),
    case("torch.dot", V, V.float()),
    case("torch.vdot", sample(3, dtype=c128), sample(3, dtype=c128, seed=1)),
    case("torch.inner", A, sample(4, 3)),
    case("torch.inner", V, V),
    case("torch.inner", A, B),
    case("torch.addmm", sample(4), A, B),
    case("torch.addmm", sample(2, 4), A, B, beta=0.5, alpha=2),
    case("torch.addmm", T([math.nan] * 4, dtype=torch.float64), A, B, beta=0, _grad=False),
    case("torch.addmm", sample(7), A, B),
    case("torch.addmm", sample(5), A, A),
    case("torch.addmm", sample(4).float(), A, B, _text="start"),
    case("torch.addmv", sample(2), A, V, beta=2, alpha=0.5),
    case("torch.addmv", sample(2), A, sample(4)),
    case("torch.addbmm", T(1.0, dtype=torch.float64), sample(2, 2, 3), sample(2, 3, 3), alpha=0.5),
    case("torch.baddbmm", sample(2, 3), sample(2, 2, 3), sample(2, 3, 3), beta=0.5),
    case("torch.addr", T(1.0), V, sample(2), beta=2),
    case("torch.addr", sample(3, 2), A, V),
    case("Tensor.addmm_", sample(2, 4), A, B),
    case("torch.outer", V, sample(2)),
    case("torch.ger", V, T([1, 2])),
    case("torch.outer", A, V),
    case("torch.tensordot", sample(2, 3, 4), sample(3, 4, 5), 2),
    case("torch.tensordot", sample(2, 3, 4), sample(4, 3), dims=([1, 2], [1, 0])),
    case("torch.tensordot", A, A, 0),
    case("torch.tensordot", A, A, 1),
    case("torch.kron", A, sample(2, 2)),
    case("torch.cross", sample(2, 3), sample(2, 3, seed=1), dim=1),
    case("torch.cross", sample(3, 2), sample(3, 2, seed=1)),
    case("torch.cross", sample(2, 3), sample(2, 3), dim=0),
    case("torch.linalg.cross", sample(2, 3), sample(1, 3, seed=1)),
    *(case("torch.cdist", sample(4, 3), sample(5, 3, seed=1), p=p) for p in (2.0, 1.0, 3.0, 0.0, inf, 0.5)),
    case("torch.cdist", sample(2, 4, 3), sample(5, 3, seed=1)),
    case(
        "torch.cdist", torch.tensor([[inf, 1.0], [2.0, 1.0]]), torch.tensor([[inf, 1.0]]), p=0.0, _grad=False
    ),
    case("torch.cdist", A, A),
    case("torch.cdist", A, A, compute_mode="donot_use_mm_for_euclid_dist"),
    case("torch.cdist", A, A, compute_mode="foo"),
    case("torch.linalg.svdvals", A, driver="gesvd"),
    case("torch.cdist", A, sample(2, 2)),
    case("torch.trace", T([[True]])),
    case("torch.trace", SQUARE),
    case("torch.trace", A),
    case("torch.trace", T([[1, 2], [3, 4]], dtype=torch.int32)),
    case("torch.trace", V),
    case("torch.linalg.multi_dot", [A, B, sample(4, 2)]),
    case("torch.chain_matmul", A, B),
]

EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    ("i,j->ij", (2,), (3,)),
    ("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("a,ab,abc->c", (2,), (2, 3), (2, 3, 4)),
    (" i j , j k -> i k ", (2, 3), (3, 4)),
    ("i...->...", (2, 3)),
    ("ij,kl->ik", (2, 3)),
    ("ij,jk", (2, 3), (2, 3)),
    ("ij", (2, 3, 4)),
    ("ijk", (2, 3)),
    ("ij->ij", (2, 3), (2, 3)),
]
einsums = [
    *(
        case("torch.einsum", e, *[sample(*s, seed=i) for i, s in enumerate(shapes)], _text="start")
        for e, *shapes in EQUATIONS
    ),
    case("torch.einsum", "ij,jk", [A, B]),
    case("torch.einsum", A, [0, 1], B, [1, 2], [0, 2]),
    case("torch.einsum", A, [0, 1], B, [1, 2]),
    case("torch.einsum", "ij,jk->ik", sample(2, 50, dtype=bf16), sample(50, 2, dtype=bf16)),
]

MATRIX_ORDERS = ("fro", "nuc", inf, -inf, 1, -1, 2, -2)
systems = [
    *(case("torch.linalg.matrix_norm", sample(2, 3, 4), o) for o in MATRIX_ORDERS),
    *(case("torch.linalg.matrix_norm", sample(2, 3, 4), o, (0, 2), True) for o in ("fro", "nuc", inf, -1)),
    case("torch.linalg.matrix_norm", A, 3),
    case("torch.linalg.matrix_norm", V),
    *(
        case("torch.linalg.norm", A, *a)
        for a in ((), (1,), ("nuc",), ("fro",), (2,), (inf, 0), (None, 1), (1, (0, 1)), (-1,))
    ),
    case("torch.linalg.norm", V, 3),
    case("torch.linalg.norm", sample(2, 3, 4), 3),
    case("torch.linalg.norm", sample(2, 3, 4)),
    case("torch.linalg.norm", T([1, 2])),
    *(
        case(f"torch.linalg.{n}", x)
        for n in ("inv", "det", "slogdet", "matrix_exp", "svdvals", "pinv")
        for x in (SQUARE, BATCH)
    ),
    *(case(f"torch.linalg.{n}", A) for n in ("inv", "det", "slogdet", "cholesky", "eigh", "matrix_exp")),
    *(case(f"torch.linalg.{n}", V) for n in ("inv", "det", "svd", "qr", "cholesky")),
    *(case(f"torch.{n}", x) for n in ("inverse", "det", "slogdet", "logdet", "pinverse") for x in (SQUARE,)),
    case("torch.linalg.pinv", A),
    *(case("torch.linalg.matrix_power", SQUARE, n) for n in (0, 1, 3, -2)),
    case("torch.matrix_exp", SQUARE),
    case("torch.linalg.matrix_rank", T([[1.0, 2], [2, 4]])),
    case("torch.linalg.solve", SQUARE, V),
    case("torch.linalg.solve", SQUARE, sample(3, 2)),
    case("torch.linalg.solve", BATCH, sample(2, 3, 2)),
    case("torch.linalg.solve", BATCH, sample(2, 3)),
    case("torch.linalg.solve", SQUARE, sample(2, 3), left=False),
    case("torch.linalg.solve", SQUARE, sample(4, 2), _text="any"),
    case("torch.linalg.solve_triangular", SQUARE.triu(), sample(3, 2), upper=True),
    case("torch.linalg.solve_triangular", SQUARE.tril(), sample(2, 3), upper=False, left=False),
    case("torch.linalg.cholesky", SYMMETRIC),
    case("torch.linalg.cholesky", SYMMETRIC, upper=True),
    case("torch.cholesky", SYMMETRIC),
    case("torch.cholesky_solve", sample(3, 2), torch.linalg.cholesky(SYMMETRIC)),
    case("torch.cholesky_solve", sample(2, 3, 2), torch.linalg.cholesky(SYMMETRIC).mT, True),
    case("torch.cholesky_solve", sample(3), SYMMETRIC),
    case("torch.cholesky_solve", sample(2, 3), SYMMETRIC),
    case("torch.cholesky_inverse", torch.linalg.cholesky(SYMMETRIC)),
    case("torch.cholesky_inverse", A),
    case("torch.linalg.eigvalsh", SYMMETRIC),
    *(case("torch.linalg.qr", SQUARE, m, _grad=m == "reduced") for m in ("reduced", "complete", "r", "best")),
    # ours goes through the pseudo-inverse
    *(
        case("torch.linalg.lstsq", sample(5, 2), sample(5, 3, seed=1), driver=d, _grad=False, _tol=1e-9)
        for d in (None, "gels", "gelsd", "gelss")
    ),
    case("torch.cov", sample(3, 5)),
    case("torch.cov", sample(3, 5), correction=0),
    case("torch.corrcoef", sample(3, 5)),
    # singular or indefinite
    case("torch.linalg.inv", torch.zeros(2, 2)),
    case("torch.linalg.inv", torch.stack([torch.eye(2), torch.zeros(2, 2)])),
    case("torch.linalg.inv", T([[1.0, 2.0], [2.0, 4.0]])),
    case("torch.linalg.solve", torch.zeros(2, 2), T([1.0, 2])),
    case("torch.linalg.cholesky", -torch.eye(2)),
    case("torch.linalg.cholesky", T([[1.0, 2.0], [2.0, 1.0]])),
    case("torch.linalg.det", torch.zeros(2, 2), _grad=False),
]


@pytest.mark.filterwarnings("ignore:Using torch.cross without")
@pytest.mark.parametrize("case", [*products, *einsums, *systems], ids=str)
def test_like_torch(case):
    check_case(case)


@pytest.mark.parametrize(
    "name", ["torch.linalg.svd", "torch.svd", "torch.linalg.eigh", "torch.linalg.eig", "torch.linalg.qr"]
)
def test_decompositions(name):
    """Factors are unique up to signs: the product, and the values, are compared."""
    x = SYMMETRIC if "eig" in name else sample(4, 3)
    theirs, ours = resolve(torch, name)(x), resolve(ft, name)(to_ours(x))
    assert [tuple(t.shape) for t in theirs] == [tuple(t.shape) for t in ours]
    assert [str(t.dtype) for t in theirs] == [str(t.dtype) for t in ours]
    assert repr(theirs).split("(")[0] == repr(ours).split("(")[0]
    for t, o in zip(theirs, ours, strict=True):
        t, o = np.abs(to_numpy(t)), np.abs(to_numpy(o))
        if name == "torch.linalg.eig":
            t, o = np.sort(t, axis=-1), np.sort(o, axis=-1)
        if t.shape == o.shape and not (name == "torch.linalg.svd" and t.shape == (4, 4)):
            np.testing.assert_allclose(o, t, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("full", [True, False])
def test_svd_gradient_of_invariants(full):
    """A function that does not depend on the signs of the factors has torch's gradient."""

    def loss(lib, x):
        u, s, vh = lib.linalg.svd(x, full_matrices=False)
        return (u @ lib.diag(s**2) @ vh).sum() + s.sum()

    x = sample(4, 3).requires_grad_()
    mine = to_ours(x)
    loss(torch, x).backward()
    loss(ft, mine).backward()
    np.testing.assert_allclose(to_numpy(mine.grad), to_numpy(x.grad), rtol=1e-9, atol=1e-9)


def test_eigh_gradient_of_invariants():
    def loss(lib, x):
        values, vectors = lib.linalg.eigh(x)
        return (vectors @ lib.diag(values**3) @ vectors.T).sum()

    x = SYMMETRIC.clone().requires_grad_()
    mine = to_ours(x)
    loss(torch, x).backward()
    loss(ft, mine).backward()
    np.testing.assert_allclose(to_numpy(mine.grad), to_numpy(x.grad), rtol=1e-9, atol=1e-7)


def test_matmul_precision_setting():
    assert ft.get_float32_matmul_precision() == torch.get_float32_matmul_precision() == "highest"
    x = ft.ones(2, 2)
    try:
        for word in ("high", "medium", "highest"):
            ft.set_float32_matmul_precision(word)
            assert ft.get_float32_matmul_precision() == word
            assert (x @ x).tolist() == [[2.0, 2.0], [2.0, 2.0]]
        with pytest.raises(RuntimeError):
            ft.set_float32_matmul_precision("low")
    finally:
        ft.set_float32_matmul_precision("highest")


def test_linalg_error_type():
    assert issubclass(ft.linalg.LinAlgError, RuntimeError) and issubclass(
        torch.linalg.LinAlgError, RuntimeError
    )
    with pytest.raises(ft.linalg.LinAlgError):
        ft.linalg.inv(ft.zeros(2, 2))
    try:
        torch.linalg.inv(torch.zeros(2, 2))
    except torch.linalg.LinAlgError as error:
        same_error(error, ft.linalg.LinAlgError(str(error)))


@pytest.mark.parametrize("order", [1, 2, inf, "nuc"])
def test_norms_of_empty_matrices(order):
    for shape in ((0, 4), (4, 0), (2, 0, 3)):
        ours, theirs = (lib.linalg.matrix_norm(lib.zeros(shape), order) for lib in (ft, torch))
        assert ours.tolist() == theirs.tolist()
