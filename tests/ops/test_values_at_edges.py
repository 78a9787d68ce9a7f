"""Values and gradients where formulas have edges: zeros in a product, nothing but NaN, weights of another type."""

import collections
from typing import Any

import numpy as np
import pytest
import torch
from compare import case, check_case

import functorch_port as ft

T = torch.tensor
NAN = float("nan")

CASES = [
    *(
        case(f"torch.{name}", T(x))
        for name in ("min", "max")
        for x in ([NAN] * 3, [NAN, 1.0, NAN], [1.0, 1.0])
    ),
    *(case(f"torch.{name}", T([NAN, NAN])) for name in ("amin", "amax")),
    *(case("torch.lerp", T([1.0, 2.0]), T([0.0, 4.0]), w, _first=True) for w in (T(0.3).double(), T(1))),
    case("Tensor.lerp_", T([1.0, 2.0]), T([0.0, 4.0]), T(0.3).double()),
    case("torch.lerp", T([1.0]), T([0.0]), T([0.3]).double()),
    case("Tensor.index_add_", torch.zeros(3), 0, T([5]), torch.ones(1)),
    case("Tensor.index_add_", torch.zeros(3), 0, T([-1]), torch.ones(1)),
    case("Tensor.index_add_", torch.zeros(3, 2), 0, T([5]), torch.ones(1, 2)),
    case("Tensor.index_reduce_", torch.zeros(3), 0, T([5]), torch.ones(1), "prod"),
]


@pytest.mark.parametrize("one", CASES, ids=str)
def test_edges(one: Any) -> None:
    check_case(one)


@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
@pytest.mark.parametrize("factors", [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0], [0.0] * 3, [2.0, 3.0]])
def test_second_derivative_of_a_product(name: str, factors: list[float]) -> None:
    """The exact one; PyTorch refuses two zeros."""
    start, index = ft.tensor([1.5, 1.0]).double(), ft.tensor([0] * len(factors))
    src = ft.tensor(factors).double().requires_grad_()
    (first,) = ft.autograd.grad(getattr(start, name)(0, index, src, "prod")[0], src, create_graph=True)
    for i in range(len(factors)):
        (row,) = ft.autograd.grad(first[i], src, retain_graph=True)
        others = [
            1.5 * np.prod([f for k, f in enumerate(factors) if k not in (i, j)]) for j in range(len(factors))
        ]
        np.testing.assert_allclose(
            row.numpy(), [0 if j == i else o for j, o in enumerate(others)], atol=1e-12
        )


class Halves:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> float:
        if i >= 3:
            raise IndexError
        return i + 0.5


@pytest.mark.parametrize("number", range(4))
def test_data_in_any_kind_of_sequence(number: int) -> None:
    def made(library: Any) -> Any:
        deque, one = collections.deque, library.tensor(1.0)
        return [deque([1, 2]), [deque([1, 2]), (3, 4)], Halves(), deque([one, one])][number]

    theirs, ours = torch.tensor(made(torch)), ft.tensor(made(ft))
    assert theirs.tolist() == ours.tolist() and str(theirs.dtype) == str(ours.dtype)


def test_what_is_no_sequence() -> None:
    for data in ({0: 1.0}, {1}, iter([1])):
        with pytest.raises(RuntimeError, match="Could not infer dtype of"):
            ft.tensor(data)


def test_weight_norm_of_a_row_of_zeros():
    """Its direction is not defined: NaN, in the gradients too."""

    def run(library, dim, v, g):
        v, g = library.tensor(v, requires_grad=True), library.tensor(g, requires_grad=True)
        out = library._weight_norm(v, g, dim)
        out.sum().backward()
        return [np.array(a.tolist()) for a in (out.detach(), v.grad, g.grad)]

    for dim, v, g in (
        (0, [[0.0, 0.0], [3.0, 4.0]], [[1.0], [2.0]]),
        (0, [[0.0, 0.0], [3.0, 4.0]], [[0.0], [2.0]]),
        (1, [[0.0, 3.0], [0.0, 4.0]], [[1.0, 2.0]]),
    ):
        for ours, theirs in zip(run(ft, dim, v, g), run(torch, dim, v, g), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def test_the_gradient_of_a_count_of_elements_is_zero():
    """PyTorch leaves it out, which counts as zero where it is asked for one (`materialize_grads`)."""
    for norm in (
        lambda t, x: t.norm(x, 0),
        lambda t, x: x.norm(0, 1).sum(),
        lambda t, x: t.linalg.vector_norm(x, 0),
    ):
        found = []
        for library in (ft, torch):
            x = library.tensor([[0.0, 1.0], [2.0, 0.0]], requires_grad=True)
            found.append(library.autograd.grad(norm(library, x), x, materialize_grads=True)[0].tolist())
        assert found[0] == found[1] == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("tier", ["numpy", "compiled"])
@pytest.mark.parametrize(
    "call",
    [
        lambda T, x, zero: T.nn.functional.threshold(x, 0.0, zero),
        lambda T, x, zero: T.nn.functional.hardtanh(x, zero, 1.0),
        lambda T, x, zero: T.nan_to_num(x * float("nan"), nan=zero),
        lambda T, x, zero: T.nn.functional.pad(x, (1, 1), value=zero),
    ],
    ids=["threshold", "hardtanh", "nan_to_num", "pad"],
)
def test_zeros_of_both_signs_are_two_arguments(call, tier, tuned):
    """Python has them equal: the second call took the program of the first."""
    tuned(tier=tier)
    for zero in (0.0, -0.0, 0.0):
        theirs, ours = (call(T, -T.ones(2), zero).numpy() for T in (torch, ft))
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))
