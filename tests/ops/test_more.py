"""Special functions, windows, numerical gradients, LU and `_ex` variants, questions about tensors."""

import functools

import pytest
import torch
from compare import case, check_case, sample, to_ours

import functorch_port as ft

T = torch.tensor
POS = sample(2, 3, low=0.2, high=0.9)
X = sample(3, 4)
SQUARE = sample(3, 3) + 3 * torch.eye(3, dtype=torch.float64)
SPD = SQUARE @ SQUARE.T
M = torch.ones(2, 3)

special = [
    *(
        case(f"torch.special.{n}", POS)
        for n in "expit gammaln entr ndtr log_ndtr ndtri erfcx i0e i1 i1e exp2 erf".split()
    ),
    case("torch.special.psi", POS, _tol=1e-9),  # torch's trigamma is good to 4e-10
    case("torch.special.erfcx", T([-1.0, 0.5, 5.0, 20.0], dtype=torch.float64), _grad=False),
    case("torch.special.multigammaln", POS + 2, 2, _tol=1e-9),
    case("torch.special.xlog1py", T([0.0, 2.0, 1.0]), T([1.0, 3.0, 0.5])),
    case("torch.special.zeta", POS + 2, POS, _grad=False),
    case("torch.special.logsumexp", X, 0),
    case("torch.igamma", POS, POS + 1, _grad=False),
    case("torch.igammac", POS, POS + 1, _grad=False),
    case("torch.special.gammainc", POS, POS + 1, _grad=False),
    case("torch.igamma", T([1]), T([2])),
    case("Tensor.polygamma", POS, 1, _tol=1e-9),
]

WINDOWS = ("hann", "hamming", "blackman", "bartlett", "kaiser")
factories = [
    *(case(f"torch.{n}_window", k) for n in WINDOWS for k in (0, 1, 2, 7, -1)),
    *(case(f"torch.{n}_window", 6, periodic=False, dtype=torch.float64) for n in WINDOWS),
    *(case(f"torch.{n}_window", 6, dtype=torch.int64, _text="start") for n in WINDOWS[:1]),
    *(
        case(f"torch.{n}_indices", *a)
        for n in ("tril", "triu")
        for a in ((3, 3), (2, 4, 1), (4, 2, -1), (0, 2), (-1, 2))
    ),
    case("torch.vander", T([1, 2, 3])),
    case("torch.vander", T([1.0, 2, 3]), 2, increasing=True, _grad=False),  # torch raises in its backward
    case("torch.linalg.vander", X, N=3),
    case("torch.unravel_index", T([5, 2]), (2, 3)),
    case("torch.unravel_index", T([50, -1, 5]), (3, 4)),
    case("torch.unravel_index", T([1.0]), (3, 4)),
    case("torch.unravel_index", T([1]), (3, -4)),
    case("torch.unravel_index", T([1]), (3, 4.0)),
]

numeric = [
    case("torch.gradient", T([1.0, 4, 9, 16])),
    case("torch.gradient", T([1.0, 4, 9, 16]), spacing=2.0),
    case("torch.gradient", X),
    case("torch.gradient", X, dim=1, edge_order=2),
    case(
        "torch.gradient",
        X,
        spacing=(T([0.0, 1, 3], dtype=torch.float64), T([0.0, 2, 3, 7], dtype=torch.float64)),
        _grad=False,
    ),
    case("torch.gradient", X, edge_order=3),
    case("torch.trapz", X),
    case("torch.trapezoid", T([1, 2, 4])),
    case("torch.cumulative_trapezoid", X),
    case("torch.cumulative_trapezoid", X, T([0.0, 1, 3, 4], dtype=torch.float64), dim=1),
    case("Tensor.sum_to_size", M, 1, 3),
    case("Tensor.sum_to_size", M, (3,)),
    case("Tensor.sum_to_size", M, 5),
    case(
        "torch.as_strided_scatter", M, T([7.0, 8.0]), (2,), (1,), _grad=False
    ),  # torch gives the part that was written over a gradient
    case("torch.narrow_copy", M, 0, 0, 1),
]

systems = [
    case("torch.linalg.lu_factor", SQUARE),
    case("torch.linalg.lu", SQUARE, _grad=False),  # P requires grad here, for what it is worth
    case("torch.linalg.lu", sample(4, 3), _grad=False),
    case("torch.linalg.inv_ex", SQUARE),
    case("torch.linalg.inv_ex", torch.zeros(2, 2), _grad=False, _values=False),
    case("torch.linalg.cholesky_ex", SPD),
    case("torch.linalg.cholesky_ex", -SPD, _grad=False, _values=False),
    case("torch.linalg.solve_ex", SQUARE, sample(3, 2)),
    case("torch.linalg.inv_ex", torch.zeros(2, 2), check_errors=True),
    case("torch.linalg.vecdot", X, X + 1),
    *(case("torch.linalg.cond", SQUARE, p) for p in (None, 2, -2)),
    *(case("torch.linalg.cond", SQUARE, p, _grad=False) for p in (1, "fro")),  # torch raises in its backward
    case("torch.linalg.tensorinv", SPD.reshape(3, 1, 3), ind=1),
    case("torch.linalg.tensorsolve", torch.eye(6).reshape(2, 3, 6) + 0.1, M),
    case("torch.cholesky_inverse", torch.linalg.cholesky(SPD), _grad=False),
    case("torch.linalg.diagonal", X),
    case("torch.nuclear_norm", X),
    case("torch.frobenius_norm", X, dim=1),
]

questions = [
    *(case(f"torch.{n}", x) for n in ("is_tensor", "is_storage", "typename") for x in (M, 1)),
    *(
        case(f"torch.{n}", M)
        for n in (
            "is_floating_point",
            "is_complex",
            "is_signed",
            "is_conj",
            "is_neg",
            "is_inference",
            "numel",
        )
    ),
    *(case("torch.is_nonzero", x) for x in (T([1.0]), T([0]), M, torch.zeros(0))),
    case("torch.is_same_size", M, X),
    case("Tensor.is_set_to", M, M),
    case("torch.result_type", T([1]), 1.5),
    case("torch.result_type", T([1.0], dtype=torch.float16), T(1.0, dtype=torch.float64)),
    *(
        case("torch.broadcast_shapes", *a)
        for a in (((2, 1), (3,)), (3, (2, 1)), ((2,), (3,)), ((2, 3), (4, 1)), ())
    ),
    case("torch.detach", M, _grad=False),
]


@pytest.mark.parametrize("case", [*special, *factories, *numeric, *systems, *questions], ids=str)
def test_like_torch(case):
    check_case(case)


def test_lu_solve():
    for lib, a, b in ((torch, SQUARE, X[:, :2]), (ft, to_ours(SQUARE), to_ours(X[:, :2].clone()))):
        factors = lib.linalg.lu_factor(a)
        for adjoint in (False, True):
            found = lib.linalg.lu_solve(*factors, b, adjoint=adjoint)
            assert lib.allclose((a.mH if adjoint else a) @ found, b)


OUTS = {
    "add": lambda lib, x, out: lib.add(x, 1, out=out),
    "sum": lambda lib, x, out: lib.sum(x, 0, out=out),
    "matmul": lambda lib, x, out: lib.matmul(x.t(), x, out=out),
    "cat": lambda lib, x, out: lib.cat([x, x], out=out),
    "pow": lambda lib, x, out: lib.pow(x, 2, out=out),
    "where": lambda lib, x, out: lib.where(x > 0, x, -x, out=out),
    "eq": lambda lib, x, out: lib.eq(x, x, out=out),
}


@pytest.mark.parametrize("name", OUTS)
def test_out(name):
    """``out=`` is written to and returned; an empty one is resized."""
    x = torch.arange(6.0).reshape(2, 3) - 2
    out, mine = torch.empty(0), ft.empty(0)
    if name == "eq":
        out, mine = out.bool(), mine.bool()
    made = OUTS[name](torch, x, out)
    ours = OUTS[name](ft, to_ours(x), mine)
    assert made is out and ours is mine
    assert ours.tolist() == made.tolist() and str(ours.dtype) == str(made.dtype)


def test_out_of_several_results():
    x = torch.tensor([[1.0, 3.0], [4.0, 2.0]])
    mine = to_ours(x)
    for lib, y in ((torch, x), (ft, mine)):
        values, indices = lib.empty(0), lib.empty(0, dtype=lib.int64)
        found = lib.max(y, 1, out=(values, indices))
        assert found[0] is values and values.tolist() == [3.0, 4.0] and indices.tolist() == [1, 0]
        values, indices = lib.empty(0), lib.empty(0, dtype=lib.int64)
        lib.sort(y, 1, out=(values, indices))
        assert values.tolist() == [[1.0, 3.0], [2.0, 4.0]]


FIXED = {
    "view": lambda x: x.view(-1) * 2,
    "chunk": lambda x: [c.sum() for c in x.chunk(2, 1)],
    "max": lambda x: x.max(1),
    "topk": lambda x: x.topk(2),
    "pow": lambda x: x**2 + x**2.5 + 2**x,
    "clamp": lambda x: x.clamp(0.5, 1.5),
    "where": lambda x: x.where(x > 1, 0.0),
    "einsum": lambda x: ft.einsum("ij,kj->ik", x, x),
    "gather": lambda x: x.gather(1, x.argsort(1)),
    "norm": lambda x: x.norm(dim=1, keepdim=True),
    "inv": lambda x: ft.linalg.inv(x[:, :2] @ x[:, :2].T + ft.eye(2)),
    "median": lambda x: x.median(),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "in place": lambda x: x.clone().add_(1).mul_(x).t_(),
    "quantile": lambda x: x.quantile(0.5, dim=1),
}


@pytest.mark.parametrize("name", FIXED)
def test_compiled_as_eager(name):
    """The same program inside `compile` gives the same numbers."""
    x = ft.tensor([[0.3, 1.2, 2.0], [1.7, 0.1, 0.9]])
    eager, compiled = FIXED[name](x), ft.compile(FIXED[name])(x)
    flat = functools.partial(lambda r: list(r) if isinstance(r, tuple | list) else [r])
    for a, b in zip(flat(eager), flat(compiled), strict=True):
        assert a.shape == b.shape and a.dtype is b.dtype
        assert ft.allclose(a, b, rtol=1e-6) if a.is_floating_point() else ft.equal(a, b)


@pytest.mark.parametrize("name", ["nonzero", "masked_select", "unique", "bincount"])
def test_data_dependent_shapes_under_compile(name):
    """A result whose shape depends on values is refused inside a compiled function, with a reason."""
    x = ft.tensor([1, 0, 2])
    fns = {"masked_select": lambda x: x.masked_select(x > 0)}
    fn = fns.get(name, lambda x: getattr(ft, name)(x))
    fn(x)
    with pytest.raises(RuntimeError, match=r"compiled|value"):
        ft.compile(fn)(x)
