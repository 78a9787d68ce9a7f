"""Sorting, searching, distinct values and counting against torch."""

import math

import pytest
import torch
from compare import case, check_case, sample, to_ours

import functorch_port as ft

T = torch.tensor
nan, inf = math.nan, math.inf
X = sample(3, 4)
INT = T([[3, 1, 2, 1], [5, 5, 0, 9]])
NAN = T([[3.0, nan, 2.0], [nan, 1.0, inf]])

order = [
    *(
        case(f"torch.{n}", x, *a)
        for n in ("sort", "argsort")
        for x in (X, INT)
        for a in ((), (0,), (-1, True), (1, False), (2,))
    ),
    *(
        case(f"torch.{n}", NAN, descending=d, _grad=n == "sort")
        for n in ("sort", "argsort")
        for d in (True, False)
    ),
    *(
        case(f"torch.{n}", x)
        for n in ("sort", "argsort")
        for x in (T(1.0), torch.zeros(0), torch.zeros(2, 0), T([True, False]))
    ),
    case("torch.sort", T([1.0, 1, 0, 1, 0]), stable=True),
    case("torch.sort", T([1.0, 1, 0, 1, 0]), stable=True, descending=True),
    case("torch.sort", sample(20, dtype=torch.bfloat16)),
    case("torch.msort", X),
    *(
        case("torch.topk", X, k, **o)
        for k in (0, 1, 2, 4)
        for o in ({}, {"largest": False}, {"dim": 0} if k < 4 else {})
    ),
    case("torch.topk", X, 5),
    case("torch.topk", X, -1),
    case("torch.topk", T(1.0), 1),
    case("torch.topk", T([3, 9, -4, 7]), 2),
    case("torch.topk", T([3, 9, -4, 7]), 2, largest=False),
    case("torch.topk", T([1.0, nan, 3.0]), 2, _grad=False),
    *(
        case("torch.topk", T([1.0, inf, nan, 2.0, -nan, -inf], dtype=d), k, largest=g, _grad=False)
        for d in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
        for g in (True, False)
        for k in (1, 2, 3, 5)
    ),
    case("torch.topk", T([[1.0, inf, nan, 2.0]]).expand(2000, 4), 2, _grad=False),
    case("torch.topk", T([[1.0, inf, nan, 2.0]]).expand(2000, 4), 3, largest=False, _grad=False),
    case("torch.topk", sample(9, dtype=torch.bfloat16), 3),
    *(case("torch.kthvalue", X, *a) for a in ((1,), (2, 0), (4, -1, True), (0,), (5,))),
    case("torch.kthvalue", T([1.0, 3.0, 2.0]), 2),
]

search = [
    case("torch.searchsorted", T([1, 3, 5]), T([3, 4, 0, 9])),
    case("torch.searchsorted", T([1, 3, 5]), T([3, 4]), right=True),
    case("torch.searchsorted", T([1, 3, 5]), T([3, 4]), side="right"),
    case("torch.searchsorted", T([1, 3, 5]), 3, out_int32=True),
    case("torch.searchsorted", T([1.0, 3.0]), T([[2.0, 1.0], [3.0, 4.0]])),
    case("torch.searchsorted", T([[1, 3], [2, 4]]), T([[2], [3]])),
    case("torch.searchsorted", T([[1, 3], [2, 4]]), T([2])),
    case("torch.searchsorted", T([1, 3]), T([3]), side="x"),
    case("torch.searchsorted", T([1, 3]), T([3]), side="left", right=True),
    case("torch.searchsorted", T([3, 1, 2]), T([2]), sorter=T([1, 2, 0])),
    *(
        case("torch.searchsorted", T([3, 1, 2]), T([2]), sorter=s)
        for s in (T([1, 2, 3]), T([1, 2, -1]), T([1, 2]), T([1, 2, 0], dtype=torch.int32))
    ),
    case("torch.bucketize", T([[3, 4], [1, 9]]), T([1, 3, 5])),
    case("torch.bucketize", T([3, 4]), T([1, 3, 5]), right=True),
    case("torch.bucketize", 3, T([1, 3])),
]

distinct = [
    *(
        case("torch.unique", INT, return_inverse=i, return_counts=c)
        for i in (False, True)
        for c in (False, True)
    ),
    case("torch.unique", T([[1, 2], [1, 2], [0, 1]]), dim=0, return_inverse=True, return_counts=True),
    case("torch.unique", T([[1, 1, 0], [2, 2, 1]]), dim=1, return_counts=True),
    case("torch.unique", T([1.5, nan, nan, 1.5]), _grad=False),
    case("torch.unique", torch.zeros(0), _grad=False),
    case("torch.unique", T([True, False, True])),
    case("torch.unique_consecutive", T([1, 1, 2, 2, 1]), return_inverse=True, return_counts=True),
    case("torch.unique_consecutive", T([[1, 1], [1, 2]]), return_inverse=True, return_counts=True),
    case("torch.unique_consecutive", T([[1, 2], [1, 2], [0, 1]]), dim=0, return_inverse=True),
    case("torch.bincount", T([1, 1, 3])),
    case("torch.bincount", T([1, 1, 3]), minlength=6),
    case("torch.bincount", T([1, 1, 3]), T([0.5, 1.0, 2.0])),
    case("torch.bincount", T([1, 1, 3]), T([1, 2, 3])),
    case("torch.bincount", torch.zeros(0, dtype=torch.int64)),
    case("torch.bincount", T([-1])),
    case("torch.bincount", T([[1]])),
    case("torch.bincount", T([1.0])),
    case("torch.bincount", T([1]), T([1.0, 2.0])),
    case("torch.histc", T([1.0, 2, 1]), 4, 0, 3, _grad=False),
    case("torch.histc", T([1.0, 2, 3]), 3, _grad=False),
    case("torch.histc", T([1.0, 1]), 3, _grad=False),
    case("torch.histc", T([1.0, 9.0, -3.0]), bins=5, min=0, max=3, _grad=False),
    case("torch.histc", T([1.0]), 3, 5, 1, _grad=False),
    case("torch.histc", T([1, 2])),
    case("torch.histogram", T([1.0, 2, 3, 2.5]), 3, _grad=False),
    case(
        "torch.histogram",
        T([1.0, 2, 3]),
        4,
        range=(0.0, 4.0),
        weight=T([1.0, 2, 4]),
        density=True,
        _grad=False,
    ),
]


@pytest.mark.parametrize("case", [*order, *search, *distinct], ids=str)
def test_like_torch(case):
    check_case(case)


def test_topk_of_ties_gives_valid_places():
    """Which of several equal values is picked is not specified; the indices must point at the values."""
    x = to_ours(T([1.0, 2, 2, 3, 3, 2]))
    values, indices = x.topk(4)
    assert values.tolist() == [3.0, 3.0, 2.0, 2.0]
    assert x[indices].tolist() == values.tolist() and len(set(indices.tolist())) == 4


@pytest.mark.parametrize("dim", [None, 0])
@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
def test_distinct_values_have_no_derivative(name: str, dim: int | None) -> None:
    told = []
    for library in (torch, ft):
        x = library.ones(2, 3, requires_grad=True)
        values, inverse = getattr(library, name)(x, return_inverse=True, dim=dim)
        assert values.requires_grad and not inverse.requires_grad
        with library.no_grad():
            assert not getattr(library, name)(x, dim=dim).requires_grad
        with pytest.raises(NotImplementedError) as error:
            (values.sum() + x.sum()).backward()
        told.append((values.grad_fn.name(), str(error.value)))
    assert told[0] == told[1]
