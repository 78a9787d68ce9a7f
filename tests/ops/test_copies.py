"""The views' copying twins, histograms, native normalizations and other small operations against torch."""

import numpy as np
import pytest
import torch
from compare import case, check_case, sample, to_numpy, to_ours

import functorch_port as ft

T = torch.tensor
A, X = sample(3, 4), sample(2, 3, 4)
EDGES = T([-1.0, -0.5, 0.0, 2.0], dtype=torch.float64)
W3, B3 = sample(3, seed=1), sample(3, seed=2)
inf = float("inf")

copies = [
    case("torch.alias_copy", A),
    case("torch.detach_copy", A, _grad=False),
    case("torch.expand_copy", A, (2, 3, 4)),
    case("torch.diagonal_copy", X, 1, 1, 2),
    case("torch.unsqueeze_copy", A, -1),
    case("torch.transpose_copy", X, 0, 2),
    case("torch.t_copy", A),
    case("torch.permute_copy", X, (2, 0, 1)),
    case("torch.unfold_copy", A, 1, 2, 1),
    case("torch.select_copy", A, 1, 2),
    case("torch.slice_copy", A, 1, 1, 4, 2),
    *(case("torch.squeeze_copy", sample(1, 3, 1), *d) for d in ((), (0,), ((0, 2),))),
    case("torch.view_copy", A, (2, -1)),
    case("torch.view_copy", A.float(), torch.int32, _grad=False),
    case("torch.as_strided_copy", A, (2, 2), (1, 2), 1),
    case("torch.split_copy", A, 2, 1),
    case("torch.split_with_sizes_copy", A, [1, 3], -1),
    case("torch.split_with_sizes_copy", A, [1, 1], -1),
    case("torch.unbind_copy", A, 1),
    case("torch.view_as_real_copy", sample(3, dtype=torch.complex128)),
    # torch refuses to record this one
    case("torch.view_as_complex_copy", sample(3, 2), _grad=False),
]
counts = [
    *(
        case("torch.histogram", A, *a, **k, _grad=False)
        for a, k in (
            ((3,), {}),
            ((EDGES,), {}),
            ((3,), {"range": (-1.0, 1.0)}),
            ((4,), {"density": True, "weight": A.abs()}),
            ((EDGES,), {"density": True}),
            ((2,), {"range": (0.0, 0.0)}),
            ((0,), {}),
            ((2,), {"range": (2.0, 1.0)}),
            ((2,), {"range": (2.0,)}),
            ((2,), {"weight": sample(2)}),
            ((EDGES.float(),), {}),
            ((A,), {}),
        )
    ),
    case("torch.histogram", T([1, 2]), 2),
    case("torch.histogram", T([inf]), 2, _grad=False, _text="start"),
    case("torch.histogram", sample(0), 2, _grad=False),
    case("torch.histogramdd", A, [2, 3, 2, 1], _grad=False),
    case("torch.histogramdd", A[:, :2].contiguous(), [EDGES, EDGES[:3]], _grad=False),
    case("torch.histogramdd", A, 2, weight=sample(3).abs(), density=True, _grad=False),
    case("torch.histogramdd", A[:, :2].contiguous(), [2, 2], [-1.0, 1.0, 0.0, 2.0], _grad=False),
    case("torch.histogramdd", A, [2]),
    case("torch.histogramdd", A[0], [2]),
    *(
        case(f"torch.{name}", sample(*shape), dim=dim, return_inverse=True, return_counts=True, _grad=False)
        for name in ("unique", "unique_consecutive")
        for shape, dim in (((0,), None), ((0, 3), None), ((0, 3), 0), ((0, 3), 1), ((2, 0), 1), ((0, 0), 0))
    ),
    *(case("torch.nonzero_static", T([[0, 1, 1], [1, 0, 0]]), size=n, fill_value=-2) for n in (0, 2, 5)),
    *(case("torch.nonzero_static", x, size=2) for x in (T(1.0), T([]), torch.zeros(0, 3))),
    case("torch.nonzero_static", A, size=-1),
    *(case("torch.hash_tensor", x.to(d)) for x in (A,) for d in (torch.float64, torch.float16, torch.int8)),
    *(case("torch.hash_tensor", x, _grad=False) for x in (T(True), T([3, 255]).byte(), T(2.5))),
    *(case("torch.hash_tensor", X, dim, keepdim=True) for dim in (1, (0, 2))),
    case("torch.hash_tensor", torch.zeros(0)),
    case("torch.hash_tensor", torch.zeros(2, 0), 1),
    case("torch.hash_tensor", T([1j])),
]
others = [
    case("torch.native_layer_norm", A, (4,), sample(4), None, 0.5),
    case("torch.native_layer_norm", A.bfloat16(), (3, 4), None, None, 1e-5),
    case("torch.native_group_norm", X[..., :3].contiguous(), W3, B3, 2, 3, 3, 3, 0.5),
    case("torch.native_group_norm", sample(0, 4), None, None, 0, 4, 1, 2, 0.5),
    case("torch.native_batch_norm", X, W3, B3, None, None, True, 0.1, 0.5),
    case(
        "torch.native_batch_norm",
        X,
        W3,
        B3,
        torch.zeros(3).double(),
        torch.ones(3).double(),
        False,
        0.1,
        0.5,
        _grad=False,
    ),
    case("torch.tensordot", sample(1, 3), sample(2, 3), dims=([0, 1], [0, 1])),
    case("torch.tensordot", sample(2, 3), sample(1, 3), dims=([0], [0])),
    case("torch.nextafter", A, X),
    case("torch.nextafter", A, A.clone()),
    case("torch.gradient", A, spacing=None),
    *(case("torch.combinations", sample(3), r, w) for r in (0, 1, 2, 4) for w in (False, True)),
    *(
        case("torch.quantile", x, T([0.3, 0.5]), d, k)
        for x in (T(2.0),)
        for d in (None, 0)
        for k in (False, True)
    ),
]


@pytest.mark.parametrize("case", [*copies, *counts, *others], ids=str)
def test_like_torch(case):
    check_case(case)


def test_copies_are_copies():
    x = ft.zeros(2, 3)
    for copy in (ft.alias_copy(x), ft.t_copy(x), *ft.unbind_copy(x), ft.view_copy(x, (6,))):
        assert not copy._is_view()
        copy.fill_(1)
    assert x.sum().item() == 0
    assert type(ft.expand_copy(x.requires_grad_(), (1, 2, 3)).grad_fn).__name__ == "ExpandBackward0_copy"


def test_reflected():
    for lib in (torch, ft):
        x = lib.tensor([1.0, 2.0])
        assert x.__rdiv__(2.0).tolist() == [2.0, 1.0] and x.__rpow__(x + 1).tolist() == [2.0, 9.0]


def test_running_statistics_of_native_batch_norm():
    stats = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    ours = [to_ours(s) for s in stats]
    torch.native_batch_norm(X, None, None, *stats, True, 0.3, 1e-5)
    ft.native_batch_norm(to_ours(X), None, None, *ours, True, 0.3, 1e-5)
    for a, b in zip(stats, ours, strict=True):
        np.testing.assert_allclose(to_numpy(b), to_numpy(a), rtol=1e-12)


def test_shapes_of_uninitialised():
    for lib in (torch, ft):
        assert lib.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == (3, 1, 6)
        assert lib.ones(2).new_empty_strided((2, 3), (3, 1)).shape == (2, 3)
        assert lib.ones(2).resize_as_(lib.ones(3, 1)).shape == (3, 1)
        with pytest.raises(RuntimeError, match="must match dimensionality of strides"):
            lib.empty_strided((2, 3), (1,))
        with pytest.raises(RuntimeError, match="Duplicate dim not allowed"):
            lib.empty_permuted((2, 3), (0, 0))
    with pytest.raises(NotImplementedError, match="complex64"):
        ft.ones(2).chalf()
