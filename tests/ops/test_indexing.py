"""Gathering, scattering and masks against torch."""

import math

import pytest
import torch
from compare import case, check_case, sample

T = torch.tensor
X = sample(3, 4)
CUBE = sample(2, 3, 4)
I2 = T([[0, 1], [2, 0]])
COLUMNS = T([[0, 3], [1, 1], [2, 0]])
MASK = X > 0
SRC = sample(3, 4, seed=5)
nan = math.nan

gathers = [
    case("torch.gather", X, 0, I2),
    case("torch.gather", X, 1, COLUMNS),
    case("torch.gather", X, -1, COLUMNS.int()),
    case("torch.gather", CUBE, 1, T([[[0, 2, 1, 1]]])),
    case("torch.gather", T(1.0), 0, T(0)),
    case("torch.gather", X, 0, torch.zeros(0, 4, dtype=torch.int64)),
    case("torch.gather", X, 0, T([[5]])),
    case("torch.gather", X, 0, T([[-1]])),
    case("torch.gather", X, 0, T([0])),
    case("torch.gather", X, 0, T([[0.0]])),
    case("torch.gather", X, 0, torch.zeros(1, 5, dtype=torch.int64)),
    case("torch.index_select", X, 0, T([2, 0, 2])),
    case("torch.index_select", CUBE, -1, T([1], dtype=torch.int32)),
    case("torch.index_select", X, 0, T(1)),
    case("torch.index_select", T(1.0), 0, T([0])),
    case("torch.index_select", X, 0, T([3])),
    case("torch.index_select", X, 0, T([-1])),
    case("torch.index_select", X, 0, T([[1]])),
    case("torch.index_select", X, 0, T([1.0])),
    case("torch.take", X, T([[0, 11], [-1, 5]])),
    case("torch.take", X, T([12])),
    case("torch.take", X, T([0.0])),
    case("torch.take_along_dim", X, T([[1, 0, 2, 0]]), 0),
    case("torch.take_along_dim", X, T([[1], [0], [-1]]), 1),
    case("torch.take_along_dim", X, T([0, 5])),
    case("torch.take_along_dim", X, T([0]), 0),
    case("torch.masked_select", X, MASK),
    case("torch.masked_select", X, T([True, False, True, False])),
    case("torch.masked_select", sample(4), MASK),
    case("torch.masked_select", X, T([True, False])),
    case("torch.masked_select", X, X),
    *(case("torch.nonzero", x) for x in (MASK, T([0, 3, 0]), T(1.0), torch.zeros(0))),
    *(case("torch.nonzero", x, as_tuple=True) for x in (MASK, T(1.0))),
    case("torch.argwhere", MASK),
    case("torch.isin", T([[1, 2], [3, 4]]), T([2, 4])),
    case("torch.isin", T([1, 2]), 2),
    case("torch.isin", 1, T([1, 2])),
    case("torch.isin", T([1.0, 2.0]), T([2]), invert=True, _grad=False),
]

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
scatters = [
    case("torch.scatter", X, 0, I2, SRC[:2, :2]),
    case(
        "torch.scatter", X, 0, I2, SRC, _grad=False
    ),  # torch has gradients only for a src of the shape of index
    case("torch.scatter", X, 1, COLUMNS, 2.5),
    case("torch.scatter", X, 1, COLUMNS, value=1),
    case("torch.scatter", CUBE, 1, T([[[0, 2, 1, 1]]]), CUBE[:1, :1]),
    case("torch.scatter", T(1.0), 0, T(0), T(2.0)),
    case("torch.scatter", X, 0, torch.zeros(0, 4, dtype=torch.int64), SRC, _grad=False),
    case("torch.scatter", T([1, 2]), 0, T([0]), 2.5),
    case("torch.scatter", X, 0, I2, SRC, reduce="add", _grad=False),
    case("torch.scatter", X, 0, I2, 3.0, reduce="multiply", _grad=False),
    case("torch.scatter", X, 0, I2, SRC, reduce="mean"),
    case("torch.scatter", X, 0, I2, T([[1, 2], [3, 4]])),
    case("torch.scatter", X, 0, T([[0, 0, 0, 0, 0]]), 1.0),
    case("torch.scatter", X, 0, I2, SRC[:1, :1]),
    case("torch.scatter", X, 0, T([[5]]), 1.0),
    case("torch.scatter", X, 0, T([[0.0]]), 1.0),
    case("Tensor.scatter_", X, 0, I2, SRC),
    case("torch.scatter_add", X, 0, T([[0, 0, 1, 2], [0, 1, 1, 2]]), SRC[:2]),
    case("torch.scatter_add", X, 1, COLUMNS, SRC[:, :2]),
    case("torch.scatter_add", X, 0, I2, T([[1, 2], [3, 4]])),
    case("torch.scatter_add", X, 0, T([[7]]), SRC),
    case("Tensor.scatter_add_", X, 0, I2, SRC),
    *(case("torch.scatter_reduce", X, 0, T([[0, 0, 1, 2], [0, 1, 1, 2]]), SRC[:2], r) for r in REDUCTIONS),
    *(
        case("torch.scatter_reduce", X, 0, T([[0, 0, 1, 2], [0, 1, 1, 2]]), SRC[:2], r, include_self=False)
        for r in REDUCTIONS
    ),
    *(case("torch.scatter_reduce", T([1, 2, 3]), 0, T([0, 0, 1]), T([5, 4, 4]), r) for r in REDUCTIONS),
    *(
        case("torch.scatter_reduce", T([1, 2, 3]), 0, T([0, 0, 1]), T([5, 4, 4]), r, include_self=False)
        for r in REDUCTIONS
    ),
    *(
        case(
            "torch.scatter_reduce", T([2.0, 0.0, 3.0]), 0, T([0, 0, 0, 1, 2]), T([0.0, 2.0, 3.0, 4.0, 3.0]), r
        )
        for r in REDUCTIONS
    ),
    *(
        case("torch.scatter_reduce", T([2.0, 1.0]), 0, T([0, 0, 0]), T([2.0, 2.0, 1.0]), r)
        for r in ("amax", "amin")
    ),
    case("torch.scatter_reduce", X, 0, I2, SRC, "median"),
    case("torch.index_add", X, 0, T([0, 2, 0]), SRC),
    case("torch.index_add", X, 1, T([3]), SRC[:, :1], alpha=-0.5),
    case("torch.index_add", X, 0, T([0]), SRC),
    case("torch.index_add", X, 0, T([0, 1, 5]), SRC),
    case("torch.index_add", X, 0, T([0, 1, 2]), SRC.float()),
    case("Tensor.index_add_", X, 0, T([0, 2]), SRC[:2]),
    case("torch.index_copy", X, 0, T([2, 0]), SRC[:2]),
    case("torch.index_copy", X, 0, T([0]), SRC),
    case("torch.index_copy", X, 0, T([5]), SRC[:1]),
    case("torch.index_fill", X, 0, T([0, 2]), 1.5),
    case("torch.index_fill", X, 1, T([-1]), T(2.0, dtype=torch.float64), _grad=False),
    case("torch.index_fill", X, 0, T([5]), 2.0),
    case("torch.index_fill", X, 0, T([0]), SRC),
    case("torch.index_fill", T([1, 2]), 0, T([0]), 2.5),
    *(
        case("torch.index_reduce", X, 0, T([0, 2, 0]), SRC, r)
        for r in ("prod", "mean", "amax", "amin", "sum", "most")
    ),
    case("torch.put", X, T([0, 5]), T([7.0, 8.0], dtype=torch.float64)),
    case("torch.put", X, T([0, 0]), T([7.0, 8.0], dtype=torch.float64), accumulate=True),
    case("torch.put", X, T([99]), T([7.0], dtype=torch.float64)),
    case("torch.put", X, T([0]), T([7])),
]

masks = [
    case("torch.masked_fill", X, MASK, 2),
    case("torch.masked_fill", X, MASK, -math.inf),
    case("torch.masked_fill", X, MASK, T(2.0)),
    case("torch.masked_fill", X, T([True, False, True, True]), 0.5),
    case("torch.masked_fill", X, torch.ones(2, 3, 4) > 0, 0.5),
    case("torch.masked_fill", T([1, 2]), T([True, False]), 2.5),
    case("torch.masked_fill", X, X, 2),
    case("torch.masked_fill", X, MASK, SRC),
    case("torch.masked_fill", X, T([True, False]), 2),
    case("Tensor.masked_fill_", X, MASK, 2),
    case("torch.masked_scatter", X, MASK, sample(12, seed=3)),
    case("torch.masked_scatter", X, T([True, False, True, False]), sample(6, seed=3)),
    case("torch.masked_scatter", X, X > -9, sample(2)),
    case("torch.masked_scatter", X, MASK, T([1])),
    case("Tensor.fill_diagonal_", X, 5),
    case("Tensor.fill_diagonal_", sample(7, 3), 5, True),
    case("Tensor.fill_diagonal_", sample(2, 2, 2), 5),
    case("Tensor.fill_diagonal_", sample(3), 5),
]


@pytest.mark.parametrize("case", [*gathers, *scatters, *masks], ids=str)
def test_like_torch(case):
    check_case(case)
