"""Layouts `sparse_csr` and `sparse_csc`, and gradients through `to_sparse`, beside PyTorch's."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import pytest
import torch

import functorch_port as ft

A = [[0.0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 0, 4]]
CSR = "[0,2,2,4],[1,3,0,3],[1.,2,3,4]"

PROGRAMS = """
c
a.double().to_sparse_csr()
a.to_sparse_csc()
T.sparse_csr_tensor([0,0],T.tensor([],dtype=T.int64),[],size=(1,3))
T.sparse_csr_tensor(i32([0,2,2,4]),i32([1,3,0,3]),T.tensor([1.,2,3,4]),(3,4)).crow_indices().dtype
T.sparse_csr_tensor([0,2,2,4],[1,3,0,4],[1.,2,3,4],(3,4))
T.sparse_csr_tensor([0,2,2,3],[1,3,0,3],[1.,2,3,4],(3,4))
T.sparse_csr_tensor([1,2,2,4],[1,3,0,3],[1.,2,3,4],(3,4))
T.sparse_csr_tensor([0,2,2,4],[3,1,0,3],[1.,2,3,4],(3,4))
T.sparse_csr_tensor([0,3,2,4],[1,3,0,3],[1.,2,3,4],(3,4))
T.sparse_csr_tensor([0,2,2,4],[1,3,0,3],[1.,2,3],(3,4))
T.sparse_csr_tensor([0,2,4],[1,3,0,3],[1.,2,3,4],(3,4))
T.sparse_csr_tensor([0,2,2,4],[1,-3,0,3],[1.,2,3,4],(3,4))
T.sparse_csr_tensor([0,2,2,4],[1,1,0,3],[1.,2,3,4],(3,4))
T.sparse_csr_tensor([0,2,2,4],[1,3,0,3],[1.,2,3,4],(3,))
T.sparse_csr_tensor([0.,2,2,4],[1,3,0,3],[1.,2,3,4],(3,4))
T.sparse_csr_tensor(T.tensor([0,2,2,4]),i32([1,3,0,3]),[1.,2,3,4],(3,4))
T.sparse_csc_tensor([0,1,2,2,4],[2,0,0,5],[3.,1,2,4],(3,4))
T.sparse_csr_tensor([0,2,2,4],[1,3,0,3],[1.,2,3,4]).shape
T.sparse_csr_tensor([0,2,2,4],[1,3,0,3],[1.,2,3,4],(3,4),dtype=T.float64).dtype
T.sparse_compressed_tensor([0,2,2,4],[1,3,0,3],[1.,2,3,4],(3,4),layout=T.sparse_csr).layout
T.sparse_csc_tensor([0,1,2,2,4],[2,0,0,2],[3.,1,2,4],(3,4)).to_dense()
[c.crow_indices(), c.col_indices(), c.values(), c.to_sparse_csc().ccol_indices(), c.to_sparse_csc().row_indices()]
[c.to_sparse_csr() is c, c.to_sparse(layout=T.sparse_csr) is c, c.to_sparse(2).layout, c.to_sparse().is_coalesced()]
[a.to_sparse(layout=T.sparse_csr).layout, a.to_sparse().to_sparse_csr().layout, c.to_sparse_csc().to_dense()]
c.to_sparse_csc().crow_indices()
c.row_indices()
a.crow_indices()
a.to_sparse().crow_indices()
[c.t().layout, c.transpose(0,1).layout, c.transpose(-1,-1).layout, c.t().to_dense(), c.to_sparse_csc().t().layout]
[c@T.ones(4,2), c@T.ones(4), c.mv(T.ones(4)), T.mm(c,T.ones(4,2)), c.t()@T.ones(3,2), T.ones(2,3)@c]
[T.sparse.mm(c,T.ones(4,2)), T.addmm(T.ones(3,2),c,T.ones(4,2),alpha=2), c.to_sparse_csc()@T.ones(4,2)]
[(c@c.t()).to_dense(), (c@c.t()).layout]
[c+c, c+a, a+c, c*2, 3*c, c*c, c*a, (a*c).layout, -c, c.abs(), c.relu(), c.sqrt(), c.sum()]
T.add(c, a, alpha=3)
c.stride()
c.is_contiguous()
c.coalesce()
c.indices()
c.is_coalesced()
c.numpy()
c.data_ptr()
[c.is_sparse_csr, c.is_sparse, c.to_sparse_csc().is_sparse_csr, c.layout == T.sparse_csr, len(c), c.dim(), c._nnz()]
[c.clone().mul_(2), c.clone().zero_(), c.double().values().dtype, c.to(T.float64).layout, c.detach().layout]
[a.sparse_mask(c), (a+1).sparse_mask(c.to_sparse_csc()).values()]
"""


def _shown(library: Any, code: str) -> Any:
    a = library.tensor(A)
    names = {
        "T": library, "a": a, "c": a.to_sparse_csr(),
        "i32": lambda x: library.tensor(x, dtype=library.int32),
    }  # fmt: skip
    try:
        return str(eval(code, names))
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]


@pytest.fixture(autouse=True)
def checked():
    with warnings.catch_warnings(), torch.sparse.check_sparse_tensor_invariants():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("code", PROGRAMS.strip().split("\n"))
def test_values_and_errors_are_pytorchs(code: str) -> None:
    assert _shown(ft, code) == _shown(torch, code)


GRADIENTS = """
(s@w).pow(2).sum()
(w.t()@s.t()).pow(2).sum()
s.to_dense().square().sum()
(s*2).sum()
(s*2@w).pow(2).sum()
(T.ones(3,4)+s).pow(2).sum()
s.sum()
T.addmm(T.ones(3,2),s,w).pow(2).sum()
(s@T.ones(4)).pow(2).sum()
(s.t()@T.ones(3,2)).pow(2).sum()
"""


@pytest.mark.parametrize("kind", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
@pytest.mark.parametrize("code", GRADIENTS.strip().split("\n"))
def test_a_dense_tensor_gets_the_gradient_of_all_its_elements(code: str, kind: str) -> None:
    """Not of those alone that are entries."""
    found = []
    for T in (torch, ft):
        d, w = T.tensor(A, requires_grad=True), T.arange(8.0).reshape(4, 2).requires_grad_()
        eval(code, {"T": T, "s": getattr(d, kind)(), "w": w}).backward()
        found.append((d.grad.tolist(), None if w.grad is None else w.grad.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["to_sparse", "to_sparse_csr"])
def test_products_of_torch_sparse_have_the_gradient_of_entries(kind: str) -> None:
    found = []
    for T in (torch, ft):
        d, w = T.tensor(A, requires_grad=True), T.arange(8.0).reshape(4, 2).requires_grad_()
        T.sparse.mm(getattr(d, kind)(), w).pow(2).sum().backward()
        found.append((d.grad.tolist(), w.grad.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("code", ["s.abs().sum()", "s.sqrt() @ w", "T.ones(3, 4) + s.abs()"])
def test_gradients_that_are_known_in_part_are_refused(code: str) -> None:
    d, w = ft.tensor(A, requires_grad=True), ft.ones(4, 2)
    with pytest.raises(NotImplementedError, match="only that of its entries is known"):
        eval(code, {"T": ft, "s": d.to_sparse(), "w": w})


def test_values_with_a_history() -> None:
    found = []
    for T in (torch, ft):
        values = T.tensor([1.0, 2, 3, 4], requires_grad=True)
        c = T.sparse_csr_tensor(T.tensor([0, 2, 2, 4]), T.tensor([1, 3, 0, 3]), values, (3, 4))
        w = T.ones(4, 2, requires_grad=True)
        (c @ w).pow(2).sum().backward()
        found.append((values.grad.tolist(), w.grad.tolist(), c.requires_grad, c.is_leaf))
    assert found[0] == found[1]


LEAVES = """
(w.to_dense() * x).sum()
(w.to_sparse().to_dense() * x).sum()
(w.to_sparse_csr().to_dense() * x).sum()
(w.clone().double().to_dense() * x).sum()
w.sum()
(w * 2).sum()
((w * 2) @ x.t()).pow(2).sum()
(x + w * 2).mul(x).sum()
(w * 2 + w).to_dense().mul(x).sum()
(x + w).mul(x).sum()
(w.t().to_dense() * x.t()).sum()
w.values().dot(T.arange(4.))
(w @ x.t()).pow(2).sum()
(x.t() @ w).pow(2).sum()
(w.t() @ x).pow(2).sum()
(w @ x[0]).pow(2).sum()
T.addmm(x[:, :3], w, x.t()).pow(2).sum()
T.sparse.mm(w, x.t()).pow(2).sum()
T.sparse.addmm(x[:, :3], w, x.t()).pow(2).sum()
w.abs().neg().relu().to_dense().mul(x).sum()
T.nn.functional.linear(x, w).pow(2).sum()
T.nn.functional.linear(x[None], w, x[:, 1]).pow(2).sum()
T.nn.functional.linear(x[0], w, x[:, 1]).pow(2).sum()
(w @ x.t()).sum() + (w.to_dense() * x).sum()
"""


@pytest.mark.parametrize("kind", ["to_sparse", "to_sparse_csr"])
@pytest.mark.parametrize("code", LEAVES.strip().split("\n"))
def test_leaves_get_the_gradient_and_its_layout(code: str, kind: str) -> None:
    found = []
    for T in (torch, ft):
        x, w = T.arange(12.0).reshape(3, 4).requires_grad_(), getattr(T.tensor(A), kind)().requires_grad_()
        try:
            result = eval(
                code, {"T": T, "x": x, "w": w.coalesce() if "values" in code and w.is_sparse else w}
            )
        except RuntimeError as error:
            found.append(str(error))
            continue
        result.backward()
        given = None if x.grad is None else x.grad.tolist()
        found.append((result.tolist(), str(w.grad.layout), w.grad.to_dense().tolist(), given))
    assert found[0] == found[1]


@pytest.mark.parametrize("code", LEAVES.strip().split("\n"))
def test_leaves_of_layout_csc_get_the_gradient_of_csr(code: str) -> None:
    """Most of them have none in PyTorch."""
    found = []
    for kind in ("to_sparse_csr", "to_sparse_csc"):
        order = [0, 1, 2, 3] if kind == "to_sparse_csr" else [2, 0, 1, 3]
        x, w = ft.arange(12.0).reshape(3, 4), getattr(ft.tensor(A), kind)().requires_grad_()
        eval(code.replace("T.arange(4.)", f"T.tensor({order}).float()"), {"T": ft, "x": x, "w": w}).backward()
        layout = w.layout if w.grad.layout is not ft.strided else ft.strided
        assert w.grad.layout is layout
        found.append((layout is ft.strided, w.grad.to_dense().tolist()))
    assert found[0] == found[1]


def test_parameters() -> None:
    """They keep their layout; what an optimizer cannot do with it, it refuses, and nothing is changed."""
    for kind in ("to_sparse", "to_sparse_csr", "to_sparse_csc"):
        shown = []
        for T in (torch, ft):
            layer = T.nn.Linear(4, 3, bias=False)
            layer.weight = T.nn.Parameter(getattr(T.tensor(A), kind)())
            shown.append([repr(layer.weight), list(dict(layer.named_parameters())), str(layer.state_dict())])
            layer(T.ones(2, 4)).sum().backward()
            shown[-1] += [str(layer.weight.grad.layout), layer.weight.grad.tolist()]
            layer.load_state_dict(layer.state_dict())
            with pytest.raises(RuntimeError, match="incompatible tensor type"):
                layer.weight.data = T.ones(3, 4)
            layer.zero_grad()
            shown[-1] += [str(layer.double().weight), layer.weight.grad is None]
        assert shown[0] == shown[1]
        for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert isinstance(twin.weight, ft.nn.Parameter) and twin.weight.layout is layer.weight.layout
            assert twin.weight.requires_grad and list(dict(twin.named_parameters())) == ["weight"]
        before = str(layer.weight)
        layer(ft.ones(2, 4).double()).sum().backward()
        for make in (ft.optim.SGD, ft.optim.Adam):
            with pytest.raises((NotImplementedError, RuntimeError)):
                make(layer.parameters(), lr=0.1).step()
        assert str(layer.weight) == before


def test_a_conversion_may_make_parameters_sparse() -> None:
    layer = ft.nn.Linear(4, 3)
    layer.weight.grad = ft.ones(3, 4)
    weight, dense = layer.weight, layer.weight.detach().clone()
    layer._apply(lambda t: t.to_sparse())
    assert layer.weight is not weight and isinstance(layer.weight, ft.nn.Parameter)
    assert layer.weight.grad.layout is layer.weight.layout is ft.sparse_coo and layer.weight.requires_grad
    assert layer.weight.to_dense().equal(dense) and weight.equal(dense)


@pytest.mark.parametrize("kind", ["to_sparse", "to_sparse_csr"])
def test_a_compiled_function_sees_writes_to_a_sparse_tensor(kind: str) -> None:
    w, x = getattr(ft.tensor(A), kind)(), ft.ones(4, 2)
    product = ft.compile(lambda x: (w @ x).sum())
    traced = [product(x).item(), product(x).item(), product.traces]
    for write in (
        lambda: w.mul_(2),
        lambda: w.zero_(),
        lambda: setattr(w, "data", getattr(ft.ones(3, 4), kind)()),
    ):
        write()
        assert product(x).item() == (w.to_dense() @ x).sum().item()
    assert traced == [20, 20, 1]


def test_a_compiled_function_writes_to_a_sparse_tensor() -> None:
    w, x = ft.tensor(A).to_sparse(), ft.ones(4, 2)

    def step(x: Any) -> Any:
        w.mul_(2)
        return (w @ x).sum()

    compiled = ft.compile(step)
    assert [compiled(x).item() for _ in range(3)] == [40, 80, 160]
    assert w.to_dense().tolist() == (ft.tensor(A) * 8).tolist()


def test_a_compiled_step_refuses_leaves() -> None:
    w, x = ft.tensor(A).to_sparse_csr().requires_grad_(), ft.ones(4, 2)
    with pytest.raises(NotImplementedError, match="sparse"):
        ft.compile(lambda: (w @ x).sum().backward())()
    assert w.grad is None


def test_copies() -> None:
    c = ft.tensor(A).to_sparse_csc()
    for twin in (copy.deepcopy(c), copy.copy(c), pickle.loads(pickle.dumps(c))):
        assert twin.layout is ft.sparse_csc and twin is not c and str(twin) == str(c)


@pytest.mark.parametrize(
    "program",
    [
        lambda c: ft.ones(2, 2, 2).to_sparse_csr(),
        lambda c: ft.sparse_csr_tensor([0, 1], [0], [[1.0]], (1, 1)),
        lambda c: ft.sparse_compressed_tensor([0, 1], [0], [1.0], (1, 1), layout=ft.sparse_bsr),
        lambda c: c.to_sparse_bsr((1, 1)),
        lambda c: c.exp(),
        lambda c: c.view(-1),
        lambda c: c[0],
        lambda c: ft.cat([c, c]),
        lambda c: ft.compile(lambda: ft.ones(3, 4) * c.exp())(),
    ],
)
def test_the_rest_is_refused(program: Any) -> None:
    with pytest.raises(NotImplementedError):
        program(ft.tensor(A).to_sparse_csr())
