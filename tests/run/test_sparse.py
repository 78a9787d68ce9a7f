"""Sparse tensors against torch: making, looking, arithmetic, products, texts, refusals."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from twins import outcome, plain, same_outcome

import functorch_port as ft
from functorch_port.distributed.tensor import DTensor

# PyTorch says once per process that it does not check the indices.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.sparse_coo_tensor([[0]], [1.0], (2,))


def _matrix(T):
    """With an index that occurs twice."""
    return T.sparse_coo_tensor([[0, 1, 0], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))


def _rows(T):
    """A hybrid one: each value is a row."""
    return T.sparse_coo_tensor([[3, 1, 3]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], (4, 2))


def _facts(s):
    if not s.is_sparse:
        return plain(s)
    dense = plain(s.to_dense())
    return plain(s._indices()), plain(s._values()), list(s.shape), s.is_coalesced(), s._nnz(), dense, repr(s)


def _other(T, kind="float32"):
    return T.sparse_coo_tensor([[1, 0], [0, 1]], [1.0, 2.0], (2, 3), dtype=getattr(T, kind))


def _loaded(T):
    module, other = T.nn.Module(), T.nn.Module()
    module.register_buffer("s", _matrix(T))
    other.register_buffer("s", _other(T))
    module.load_state_dict(other.state_dict())
    return module.s


def _checked(T, indices):
    with T.sparse.check_sparse_tensor_invariants():
        return T.sparse_coo_tensor(indices, [1.0, 2.0], (3,), is_coalesced=True)


PROGRAMS = {
    "matrix": _matrix,
    "rows": _rows,
    "coalesce": lambda T: _matrix(T).coalesce(),
    "coalesce rows": lambda T: _rows(T).coalesce(),
    "smallest shape": lambda T: T.sparse_coo_tensor([[0, 4]], [[1.0], [2.0]]),
    "empty": lambda T: T.sparse_coo_tensor((2, 3)),
    "empty by keyword": lambda T: T.sparse_coo_tensor(size=(2, 3), dtype=T.float64),
    "zeros": lambda T: T.zeros(3, layout=T.sparse_coo),
    "given dtype": lambda T: T.sparse_coo_tensor([[0]], [1], (2,), dtype=T.float64),
    "integers": lambda T: T.sparse_coo_tensor(T.tensor([[0, 0]]), T.tensor([1, 2]), (2,)).coalesce(),
    "one value": lambda T: T.sparse_coo_tensor([[1]], T.tensor(2.0), (3,)),
    "no entries": lambda T: T.sparse_coo_tensor(T.zeros(1, 0, dtype=T.int64), T.zeros(0)),
    "complex": lambda T: T.sparse_coo_tensor([[0]], [1 + 2j], (2,)),
    "times 2": lambda T: _matrix(T) * 2,
    "2 times": lambda T: 2 * _matrix(T).coalesce(),
    "times a 0-dim tensor": lambda T: _matrix(T) * T.tensor(2.0),
    "times itself": lambda T: _matrix(T) * _matrix(T),
    "times dense": lambda T: _matrix(T) * T.arange(6.0).reshape(2, 3),
    "over 2": lambda T: _matrix(T) / 2,
    "negative": lambda T: -_matrix(T),
    "plus itself": lambda T: (lambda s: s + s)(_matrix(T)),
    "plus equal": lambda T: _matrix(T) + _matrix(T),
    "plus another": lambda T: _matrix(T) + _other(T),
    "coalesced plus another": lambda T: _matrix(T).coalesce() + _other(T).coalesce(),
    "plus another type": lambda T: _matrix(T) + _other(T, "float64"),
    "minus another": lambda T: _matrix(T) - _other(T),
    "with alpha": lambda T: T.add(_rows(T), T.sparse_coo_tensor([[0, 3]], T.ones(2, 2), (4, 2)), alpha=3),
    "dense plus": lambda T: T.ones(2, 3) + _matrix(T),
    "parameter plus": lambda T: (T.nn.Parameter(T.ones(2, 3)) + _matrix(T)).detach(),
    "dense minus": lambda T: T.ones(2, 3) - _matrix(T),
    "dense add_": lambda T: T.ones(2, 3).add_(_matrix(T), alpha=2),
    "add_": lambda T: _matrix(T).add_(_other(T)),
    "mul_": lambda T: _matrix(T).mul_(3),
    "zero_": lambda T: _rows(T).zero_(),
    "mm": lambda T: T.sparse.mm(_matrix(T), T.arange(6.0).reshape(3, 2)),
    "@": lambda T: _matrix(T) @ T.arange(6.0).reshape(3, 2),
    "@ vector": lambda T: _matrix(T) @ T.arange(3.0),
    "dense @": lambda T: T.ones(4, 2) @ _matrix(T),
    "@ sparse": lambda T: _matrix(T) @ _matrix(T).t(),
    "sparse.mm of two": lambda T: T.sparse.mm(_other(T), T.eye(3).to_sparse()),
    "@ sparse without entries": lambda T: _matrix(T) @ T.sparse_coo_tensor(size=(3, 4)),
    "t": lambda T: _matrix(T).t(),
    "transpose": lambda T: _matrix(T).coalesce().transpose(0, 1),
    "sum": lambda T: _matrix(T).sum(),
    "sparse.sum": lambda T: T.sparse.sum(_matrix(T)),
    "sparse.sum of rows": lambda T: T.sparse.sum(_matrix(T), 0),
    "sparse.sum of columns": lambda T: T.sparse.sum(_matrix(T), -1, dtype=T.float64),
    "sparse.sum of both": lambda T: T.sparse.sum(_matrix(T), (0, 1)),
    "sparse.sum of the sparse one": lambda T: T.sparse.sum(_rows(T), 0),
    "sparse.sum of the dense one": lambda T: T.sparse.sum(_rows(T), 1),
    "sparse.addmm": lambda T: T.sparse.addmm(
        T.ones(2, 2), _matrix(T), T.arange(6.0).reshape(3, 2), beta=2, alpha=0.5
    ),
    "addmm": lambda T: T.addmm(T.ones(2), _matrix(T), T.arange(6.0).reshape(3, 2)),
    "permute": lambda T: _matrix(T).permute(1, 0),
    "permute nothing": lambda T: _rows(T).coalesce().permute((0, 1)),
    "bool": lambda T: _matrix(T).bool(),
    "copy_": lambda T: _matrix(T).copy_(_other(T, "float64")),
    "buffer": lambda T: _loaded(T),
    "to_sparse of a number": lambda T: T.tensor(2.0).to_sparse(),
    "to_sparse_coo": lambda T: T.eye(2).to_sparse_coo(),
    "to_sparse with a layout": lambda T: T.eye(2).to_sparse(layout=T.sparse_coo),
    "said to be coalesced": lambda T: T.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), is_coalesced=True),
    "norm": lambda T: _matrix(T).norm(),
    "abs": lambda T: (-_matrix(T)).abs(),
    "sqrt": lambda T: _matrix(T).sqrt(),
    "power": lambda T: _matrix(T) ** 2,
    "double": lambda T: _matrix(T).double(),
    "to": lambda T: _matrix(T).coalesce().to(T.bfloat16),
    "clone": lambda T: _matrix(T).coalesce().clone(),
    "detach": lambda T: _matrix(T).detach(),
    "to_sparse": lambda T: T.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse(),
    "to_sparse of rows": lambda T: T.tensor([[0.0, 0.0], [2.0, 0.0]]).to_sparse(1),
    "sparse_mask": lambda T: T.arange(8.0).reshape(4, 2).sparse_mask(_rows(T)),
    "deepcopy": lambda T: copy.deepcopy(_matrix(T)),
    "pickle": lambda T: pickle.loads(pickle.dumps(_rows(T).coalesce())),
    "long": lambda T: T.sparse_coo_tensor(T.arange(1200).reshape(1, -1), T.ones(1200), (1200,)),
}


def test_a_sparse_tensor_is_no_dtensor():
    made = ft.eye(3).to_sparse()
    assert not isinstance(made, DTensor)
    assert not isinstance(made._values(), DTensor)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert _facts(PROGRAMS[name](torch)) == _facts(PROGRAMS[name](ft))


def test_what_it_says_of_itself():
    def facts(T):
        s = _rows(T)
        return (
            s.is_sparse, str(s.layout), s.sparse_dim(), s.dense_dim(), s.dim(), s.ndim, s.numel(), len(s), s.size(1),
            str(s.dtype), str(s.device), s.requires_grad, s.is_leaf, s.type(), isinstance(s, T.Tensor), s.size(-1),
            s.element_size(), s.is_floating_point(), s.is_contiguous(), T.ones(2).is_sparse, T.ones(2).dense_dim(),
            s.coalesce().coalesce() is s.coalesce(), (c := s.coalesce()).coalesce() is c,
        )  # fmt: skip

    same_outcome(facts)


def test_sums_of_many_lists():
    """The order of entries is torch's, whatever the lists."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        lists = [rng.integers(0, 6, rng.integers(1, 9)) for _ in range(2)]
        values = [rng.integers(0, 9, (len(x), 2)).astype("float32") for x in lists]

        def total(T, lists=lists, values=values):
            a, b = (
                T.sparse_coo_tensor(T.tensor(i)[None], T.tensor(v), (40, 2))
                for i, v in zip(lists, values, strict=True)
            )
            return _facts(a + b), _facts(a.coalesce() - b.coalesce()), _facts((a + b).coalesce())

        same_outcome(total)


ERRORS = {
    "indices of uncoalesced": lambda T: _matrix(T).indices(),
    "values of uncoalesced": lambda T: _matrix(T).values(),
    "sparse plus dense": lambda T: _matrix(T) + T.ones(2, 3),
    "sparse minus dense": lambda T: _matrix(T) - T.ones(2, 3),
    "sparse plus number": lambda T: _matrix(T) + 1,
    "number plus sparse": lambda T: 1 + _matrix(T),
    "sizes": lambda T: _matrix(T) + _rows(T),
    "dense size": lambda T: T.ones(3) + _matrix(T),
    "nnz": lambda T: T.sparse_coo_tensor([[0, 1]], [1.0], (2,)),
    "dims": lambda T: T.sparse_coo_tensor([[0], [1]], [1.0], (2,)),
    "flat indices": lambda T: T.sparse_coo_tensor([0], [1.0], (2,)),
    "too large": lambda T: T.sparse_coo_tensor([[5]], [1.0], (2,), check_invariants=True),
    "negative": lambda T: T.sparse_coo_tensor([[-1]], [1.0], (2,), check_invariants=True),
    "mm": lambda T: _matrix(T) @ T.ones(2, 2),
    "mv": lambda T: _matrix(T) @ T.ones(2),
    "t": lambda T: _rows(T).t(),
    "sum of no dimension": lambda T: T.sparse.sum(_matrix(T), 5),
    "sum of one twice": lambda T: T.sparse.sum(_matrix(T), (0, -2)),
    "sum of a dense one": lambda T: T.sparse.sum(T.ones(2)),
    "addmm of sizes": lambda T: T.sparse.addmm(T.ones(2, 2), _matrix(T), T.ones(2, 2)),
    "addmm of sparse": lambda T: T.sparse.addmm(_matrix(T), _matrix(T), T.ones(3, 3)),
    "mm with a vector": lambda T: T.sparse.mm(_matrix(T), T.ones(3)),
    "not coalesced": lambda T: T.sparse_coo_tensor(
        [[1, 0]], [1.0, 2.0], (3,), is_coalesced=True, check_invariants=True
    ),
    "not coalesced by default": lambda T: _checked(T, [[0, 0]]),
    "to_sparse of too many": lambda T: T.ones(2).to_sparse(5),
    "numpy": lambda T: _matrix(T).numpy(),
    "tolist": lambda T: _matrix(T).tolist(),
    "item": lambda T: _matrix(T).item(),
    "bool": lambda T: bool(_matrix(T)),
    "data_ptr": lambda T: _matrix(T).data_ptr(),
    "storage": lambda T: _matrix(T).untyped_storage(),
    "dtype of to_dense": lambda T: _matrix(T).to_dense(dtype=T.float64),
    "coalesce a dense one": lambda T: T.ones(2).coalesce(),
    "values of a dense one": lambda T: T.ones(2).values(),
    "indices of a dense one": lambda T: T.ones(2).indices(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_torchs(name):
    theirs, ours = outcome(ERRORS[name], torch), outcome(ERRORS[name], ft)
    assert theirs[1] is not None and theirs[1:] == ours[1:]


@pytest.mark.parametrize(
    "program",
    [
        lambda s: s.exp(),
        lambda s: s.view(-1),
        lambda s: s[0],
        lambda s: s == s,
        lambda s: ft.cat([s, s]),
        lambda s: s.sum(0),
        lambda s: ft.ones(2, 3).copy_(s),
        lambda s: ft.where(ft.ones(2, 3) > 0, s, s),
        lambda s: s.add_(ft.ones(())),
        lambda s: s.requires_grad_() @ s.t(),
        lambda s: s.requires_grad_().abs().sum(),
        lambda s: ft.compile(lambda: ft.ones(2, 3) * s.exp())(),
        lambda s: ft.vmap(ft.sin)(s),
        lambda s: ft.sparse.softmax(s, 1),
        lambda s: ft.hspmm(s, ft.ones(3, 1)),
        lambda s: s.to_sparse_bsr((1, 1)),
        lambda s: ft.sparse_bsr_tensor([0, 1], [0], [1.0]),
    ],
)
def test_the_rest_is_refused(program):
    with pytest.raises((NotImplementedError, RuntimeError), match="sparse|dense"):
        program(_matrix(ft))


def test_gradients_of_values_and_of_dense_factors():
    def run(T):
        v = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        d = T.arange(6.0).reshape(3, 2).requires_grad_()
        make = lambda: T.sparse_coo_tensor([[0, 1, 0], [2, 0, 2]], v, (2, 3))  # noqa: E731
        s = make()
        (T.sparse.mm(s, d) ** 2).sum().backward()
        first = plain(v.grad), plain(d.grad), s.requires_grad
        v.grad = None
        ((make() * 2 + make()).coalesce().to_dense() * T.arange(6.0).reshape(2, 3)).sum().backward()
        second = plain(v.grad)
        v.grad = None
        (T.sparse.sum(make(), 0).to_dense() ** 2).sum().backward()
        (T.sparse.addmm(d, make().t(), T.ones(2, 2)) ** 2).sum().backward()
        return first, second, plain(v.grad), plain(d.grad)

    same_outcome(run)


#: what is done with a sparse leaf and a dense matrix
LEAVES = {
    "mm": lambda T, x, d: x.mm(d).sum(),
    "@": lambda T, x, d: (x @ d).sum(),
    "mv": lambda T, x, d: x.mv(d[0]).sum(),
    "sum": lambda T, x, d: x.sum(),
    "dense plus": lambda T, x, d: (d[:2] + x).sum(),
    "addmm": lambda T, x, d: T.addmm(T.ones(2, 3), x, d).sum(),
    "sparse.mm": lambda T, x, d: T.sparse.mm(x, d).sum(),
    "sparse.addmm": lambda T, x, d: T.sparse.addmm(T.ones(2, 3), x, d, alpha=2).sum(),
    "sparse.sum": lambda T, x, d: T.sparse.sum(x),
    "to_dense": lambda T, x, d: ((x * 2).to_dense() * d[:2]).sum(),
    "values": lambda T, x, d: x.coalesce().values().square().sum(),
    "plus": lambda T, x, d: (x + x).to_dense().sum(),
    "t": lambda T, x, d: (x.t().to_dense() * d[:, :2]).sum(),
    "power": lambda T, x, d: (x**2).to_dense().sum(),
    "abs": lambda T, x, d: (-x).abs().to_dense().sum(),
    "twice": lambda T, x, d: T.sparse.mm(x, d).sum() + x.to_dense().sum(),
}


def _leaf(T):
    return T.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), requires_grad=True)


@pytest.mark.parametrize("name", LEAVES)
def test_gradients_of_a_leaf(name):
    def run(T):
        x = _leaf(T)
        LEAVES[name](T, x, T.arange(1, 10.0).reshape(3, 3)).backward()
        return str(x.grad.layout), plain(x.grad.to_dense()), x.grad.requires_grad

    same_outcome(run)


def test_all_elements_of_a_leaf():
    """PyTorch's gradient is a sparse tensor with all elements, which is dense here."""

    def run(T):
        x = _leaf(T)
        (x.to_dense(masked_grad=False) * T.arange(6.0).reshape(2, 3)).sum().backward()
        return plain(x.grad.to_dense())

    same_outcome(run)


def test_what_a_leaf_is():
    def run(T):
        x = _leaf(T)
        seen = [
            x.requires_grad,
            x.is_leaf,
            x.grad_fn,
            x.detach().requires_grad,
            repr(x),
            x._values().requires_grad,
        ]
        y = x * 3
        seen += [y.requires_grad, y.is_leaf, plain(T.autograd.grad(y.to_dense().sum(), y)[0].to_dense())]
        copied = copy.deepcopy(x)
        seen += [copied.requires_grad, copied.is_leaf, pickle.loads(pickle.dumps(x)).requires_grad]
        with T.no_grad():
            x.mul_(2)
        return [
            *seen,
            plain(x.detach().to_dense()),
            x.requires_grad_(False).requires_grad,
        ]

    same_outcome(run)


#: what cannot be done with a sparse leaf
WRONG = {
    "mul_": lambda T, x: x.mul_(2),
    "zero_": lambda T, x: x.zero_(),
    "add_": lambda T, x: x.add_(_other(T)),
    "requires_grad_(False)": lambda T, x: (x * 2).requires_grad_(False),
    "of integers": lambda T, x: T.sparse_coo_tensor([[0]], [1], (2,)).requires_grad_(),
    "another shape": lambda T, x: (x * 2).backward(T.ones(3)),
    "history of _values": lambda T, x: x._values().backward(T.ones(3)),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_of_a_leaf(name):
    theirs, ours = (
        outcome(lambda T: WRONG[name](T, _leaf(T)), torch),
        outcome(lambda T: WRONG[name](T, _leaf(T)), ft),
    )
    assert theirs[1] is not None and theirs[1:] == ours[1:]


def test_hooks_see_sparse_gradients():
    def run(T):
        x, seen = _leaf(T), []
        x.register_hook(lambda g: seen.append(plain(g.to_dense())) or g * 2)
        y = x * 3
        y.register_hook(lambda g: seen.append(plain(g.to_dense())) or g * 5)
        y.to_dense().sum().backward()
        return seen, plain(x.grad.to_dense())

    same_outcome(run)


def test_sparse_gradients_given():
    def run(T):
        def given():
            return T.sparse_coo_tensor([[0, 1], [2, 2]], [10.0, 20.0], (2, 3))

        x, dense, sum_of = _leaf(T), T.ones(2, 3, requires_grad=True), T.ones(2, 3, requires_grad=True)
        (x * 3).backward(given())
        dense.backward(given())
        dense.backward(given())
        sum_of.grad = T.ones(2, 3)
        sum_of.backward(given())
        leaf = _leaf(T)
        leaf.backward(given())
        return [(str(t.grad.layout), plain(t.grad.to_dense())) for t in (x, dense, sum_of, leaf)]

    same_outcome(run)


def test_a_function_gives_a_sparse_gradient():
    def run(T):
        class Twice(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return (g * 2).to_sparse()

        x, y = T.ones(2, 3, requires_grad=True), T.ones(2, 3, requires_grad=True)
        (Twice.apply(x) + Twice.apply(x)).sum().backward()
        (Twice.apply(y) + y * 5).sum().backward()
        return [(str(t.grad.layout), plain(t.grad.to_dense())) for t in (x, y)]

    same_outcome(run)


def test_gradcheck_of_entries():
    def checked(fn, x, **options):
        return ft.autograd.gradcheck(fn, (x,), masked=True, **options)

    for x in (
        ft.rand(2, 3, dtype=ft.float64).to_sparse().requires_grad_(),
        ft.rand(2, 3, dtype=ft.float64, requires_grad=True).to_sparse(),
    ):
        assert checked(lambda x: x.coalesce().to_dense().sin(), x)
        wrong = lambda x: x.to_dense().detach() * x.to_dense()  # noqa: E731
        assert not checked(wrong, x, raise_exception=False)
        with pytest.raises(RuntimeError, match="failed while testing batched gradient"):
            checked(lambda x: x.to_dense(), x, check_batched_grad=True)


def test_without_sparse_dimensions():
    def run(T):
        s = T.sparse_coo_tensor(T.zeros(0, 3, dtype=T.int64), T.ones(3, 2), (2,))
        return plain((s + s).coalesce().values())

    same_outcome(run)


def test_whether_invariants_are_checked():
    def states(T):
        check = T.sparse.check_sparse_tensor_invariants
        seen = [check.is_enabled()]
        check.enable()
        seen.append(check.is_enabled())
        with check(False):
            seen.append(check.is_enabled())
        check.disable()
        return [*seen, check()(check.is_enabled)(), check.is_enabled()]

    same_outcome(states)
