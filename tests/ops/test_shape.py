"""Views, reshaping, joining, repeating against torch: values, gradients, errors, sharing and strides."""

import pytest
import torch
from compare import case, check_case, sample, to_ours

T = torch.tensor
X = sample(2, 3)
CUBE = sample(2, 3, 4)
ONES = sample(1, 3, 1)

views = [
    case("Tensor.view", X, 3, 2),
    case("Tensor.view", X, (6,)),
    case("Tensor.view", X, -1, 2),
    case("Tensor.view", X, 4),
    case("Tensor.view", X, -1, 4),
    case("Tensor.view", X, -1, -1),
    case("Tensor.view", X, -2, 3),
    case("Tensor.view", torch.ones(0, 3), -1, 0),
    case("Tensor.view", torch.ones(0, 3), -1, 3),
    case("Tensor.view", T(1.0), 1, 1),
    case("Tensor.view_as", X, sample(6)),
    case("Tensor.reshape_as", X, sample(6)),
    case("Tensor.view", X.float(), torch.int32),
    case("Tensor.view", X, torch.int32),
    case("Tensor.view", X.float(), torch.float64),
    case("Tensor.view", sample(2, 4).float(), torch.float64),
    case("torch.reshape", X, (3, -1)),
    case("Tensor.reshape", X, 3, -1),
    case("Tensor.reshape", CUBE, 2, -1),
    case("torch.reshape", X, (-1, -1)),
    *(case("torch.flatten", CUBE, *a) for a in ((), (1,), (0, 1), (-2, -1), (1, 1), (2, 1), (3,))),
    case("torch.flatten", T(1.0)),
    case("torch.ravel", X),
    case("torch.unflatten", X, 1, (3, 1)),
    case("torch.unflatten", X, 1, (-1, 3)),
    case("torch.unflatten", X, 1, (2, 2)),
    case("torch.unflatten", X, 1, ()),
    *(case("torch.squeeze", ONES, *a) for a in ((), (0,), (1,), (-1,), ((0, 2),), ((0, 0),), (5,))),
    case("torch.squeeze", T(1.0), 0),
    *(case("torch.unsqueeze", X, d) for d in (0, 1, -1, -3, 3, 4)),
    *(case("torch.transpose", CUBE, *a) for a in ((0, 1), (-1, 0), (0, 3))),
    case("torch.swapaxes", CUBE, 0, 2),
    case("torch.swapaxes", CUBE, axis0=0, axis1=2),
    case("Tensor.swapaxes_", sample(3), axis0=0, axis1=0),
    case("torch.swapdims", CUBE, 0, 2),
    *(case("torch.t", x) for x in (X, sample(3), T(1.0), CUBE)),
    case("Tensor.permute", CUBE, 2, 0, 1),
    case("torch.permute", CUBE, (2, -2, 0)),
    case("torch.permute", CUBE, (0, 1)),
    case("torch.permute", CUBE, (0, 0, 1)),
    case("torch.permute", CUBE, (0, 1, 5)),
    case("torch.movedim", CUBE, 0, 2),
    case("torch.moveaxis", CUBE, (0, 1), (1, 2)),
    case("torch.movedim", CUBE, (0, 1), (0,)),
    case("torch.movedim", CUBE, (0, 1), (0, 0)),
    case("torch.adjoint", X),
    case("torch.adjoint", sample(2, 3, dtype=torch.complex128), _grad=False),
    case("Tensor.expand", sample(3, 1), 3, 4),
    case("Tensor.expand", sample(3), 2, -1),
    case("Tensor.expand", X, (4, 2, 3)),
    case("Tensor.expand", X, -1, 2, 3),
    case("Tensor.expand", X, 2, 4),
    case("Tensor.expand", X, 3),
    case("Tensor.expand_as", sample(3), X),
    case("torch.broadcast_to", sample(3), (2, 3)),
    case("torch.broadcast_tensors", sample(3), sample(2, 1)),
    case("torch.broadcast_tensors", X, sample(4)),
    *(
        case("torch.narrow", CUBE, *a)
        for a in ((0, 0, 1), (1, -2, 2), (2, 4, 0), (0, 3, 0), (0, 1, 5), (0, 0, -1), (3, 0, 1))
    ),
    case("torch.narrow", CUBE, 1, T(1), 2),
    case("torch.narrow", T(1.0), 0, 0, 1),
    *(case("torch.select", CUBE, *a) for a in ((0, 1), (-1, -1), (1, 5), (1, -4), (3, 0))),
    case("torch.select", T(1.0), 0, 0),
    *(case("torch.unbind", CUBE, d) for d in (0, 1, -1, 3)),
    case("torch.unbind", T(1.0)),
    *(
        case("torch.split", sample(5, 2), *a)
        for a in ((2,), ([1, 4],), ([1, 1],), (2, 1), (-1,), (7,), ([2, -1],), (0,))
    ),
    case("torch.split", T(1.0), 1),
    case("torch.split_with_sizes", sample(5, 2), [2, 3]),
    *(case("torch.chunk", sample(5, 2), *a) for a in ((2,), (3,), (7,), (1, 1), (0,))),
    case("torch.chunk", torch.ones(0, 2), 3),
    *(
        case("torch.tensor_split", sample(7, 2), *a)
        for a in ((3,), (2, 1), ((1, 5),), ((5, 1),), ([2, -1],), (0,))
    ),
    case("torch.tensor_split", sample(7), T([1, 3])),
    case("torch.tensor_split", sample(7), sections=3),
    case("Tensor.tensor_split", sample(2, 7), indices=(1, 4), dim=1),
    case("torch.hsplit", sample(4), sections=2),
    case("torch.vsplit", sample(4, 2), indices=[1]),
    *(case(f"torch.{n}", sample(2, 4, 6), 2) for n in ("hsplit", "vsplit", "dsplit")),
    *(case(f"torch.{n}", sample(4), [1]) for n in ("hsplit", "vsplit", "dsplit")),
    case("torch.vsplit", X, 4),
    *(case("torch.diagonal", sample(3, 4), *a) for a in ((), (1,), (-2,), (5,), (0, 1, 0), (0, 0, 0))),
    case("torch.diagonal", CUBE, 0, 0, 2),
    case("torch.diagonal", sample(3)),
    *(
        case("Tensor.unfold", sample(7, 2), *a)
        for a in ((0, 3, 2), (0, 2, 1), (1, 1, 1), (0, 0, 1), (0, 8, 1), (0, 1, 0), (0, -1, 1))
    ),
    case("Tensor.unfold", T(1.0), 0, 1, 1),
    *(
        case("torch.as_strided", sample(12), *a)
        for a in (((2, 3), (3, 1)), ((3, 2), (1, 4), 2), ((2, 2), (3,)), ((5,), (3,)), ((2,), (1,), -1))
    ),
    case("torch.real", sample(3, dtype=torch.complex128)),
    case("torch.imag", sample(3, dtype=torch.complex128)),
    case("torch.imag", X),
    case("torch.view_as_real", sample(3, dtype=torch.complex128)),
    case("torch.view_as_complex", sample(3, 2)),
    case("torch.view_as_real", X),
    case("torch.view_as_complex", X),
    case("torch.atleast_1d", T(1.0)),
    case("torch.atleast_2d", T(1.0), sample(3)),
    *(case("torch.atleast_3d", x) for x in (T(1.0), sample(3), X, CUBE)),
]

others = [
    *(case("torch.cat", [X, sample(4, 3)]) for _ in range(1)),
    case("torch.cat", (X, X, X), -1),
    case("torch.cat", [X, X], axis=1),
    case("torch.cat", [X, sample(3, 4)]),
    case("torch.cat", []),
    case("torch.cat", [X, sample(3)]),
    case("torch.cat", [T(1.0), T(2.0)]),
    case("torch.cat", [torch.ones(0), X.float()]),
    case("torch.cat", [X, T([[1, 2, 3]]), X.float()]),
    case("torch.concat", [X, X], 5),
    case("torch.concatenate", [X, X]),
    *(case("torch.stack", [X, X + 1], d) for d in (0, 1, -1, 5)),
    case("torch.stack", [X, sample(3)]),
    case("torch.stack", []),
    *(
        case(f"torch.{n}", [x, x + 1])
        for n in ("hstack", "vstack", "dstack", "column_stack", "row_stack")
        for x in (T(1.0), sample(3), X)
    ),
    case("torch.block_diag", X, sample(2, 1), sample(2)),
    *(case("torch.flip", CUBE, d) for d in ((0,), (0, -1), (0, 0), (5,))),
    case("Tensor.flip", CUBE, 0, 1),
    *(case(f"torch.{n}", X) for n in ("fliplr", "flipud")),
    *(case(f"torch.{n}", T(1.0)) for n in ("fliplr", "flipud")),
    *(case("torch.roll", CUBE, *a) for a in ((1,), (1, 0), ((1, -2), (0, 2)), ((1, 2), (0,)), (1, 5))),
    *(case("torch.rot90", CUBE, *a) for a in ((), (2,), (3, (1, 2)), (-1, (0, -1)), (1, (0, 0)), (1, (0,)))),
    *(case("Tensor.repeat", X, *a) for a in ((2, 2), (2, 1, 3), ((2, 2),), (2,), (0, 1), (-1, 1))),
    *(case("torch.tile", X, d) for d in ((2,), (2, 2), (2, 1, 2))),
    *(
        case("torch.repeat_interleave", X, *a)
        for a in (
            (2,),
            (2, 0),
            (2, -1),
            (-1,),
            (T([1, 2]), 0),
            (T([2]), 1),
            (T([1, 2, 3]), 0),
            (T([1.0, 2]), 0),
        )
    ),
    case("torch.repeat_interleave", T([2, 0, 1])),
    case("torch.repeat_interleave", X, T([1, 2]), 0, output_size=3),
    case("torch.repeat_interleave", X, T([1, 2]), 0, output_size=4),
    case("torch.repeat_interleave", X, T([2]), 1, output_size=5),
    case("torch.repeat_interleave", X, 2, 0, output_size=5),
    case("torch.repeat_interleave", T([1, 2]), output_size=4),
    case("torch.repeat_interleave", X, T([-1, 2]), 0),
    *(case("torch.meshgrid", sample(2), sample(3), indexing=i) for i in ("ij", "xy", "zz")),
    case("torch.meshgrid", X, X, _text="start"),
    case("torch.cartesian_prod", T([1, 2]), T([3, 4, 5])),
    case("torch.cartesian_prod", T([1, 2])),
    *(case("torch.combinations", T([1.0, 2, 3]), *a) for a in ((), (3,), (2, True))),
    case("torch.combinations", T([1.0, 2, 3]), 4, _grad=False),
    *(case(f"torch.{n}", x, d) for n in ("tril", "triu") for x in (X, CUBE, sample(3)) for d in (0, 1, -1)),
    *(case("torch.diag", x, d) for x in (sample(3), sample(3, 4)) for d in (0, 1, -1)),
    case("torch.diag", CUBE),
    *(case("torch.diag_embed", X, *a) for a in ((), (1,), (-1, 0, 2), (0, 0, 0))),
    case("torch.diagflat", X, 1),
    case("torch.select_scatter", X, sample(3), 0, 1),
    case("torch.select_scatter", X, sample(2), 0, 1),
    case("torch.slice_scatter", X, sample(2, 2), 1, 0, 3, 2),
    case("torch.slice_scatter", X, sample(2, 3), 1, 0, 1),
    case("torch.diagonal_scatter", X, sample(2), 1),
    case("torch.diagonal_scatter", X, sample(3)),
    case("Tensor.t_", X),
    case("Tensor.squeeze_", ONES),
    case("Tensor.unsqueeze_", X, 0),
    case("Tensor.transpose_", X, 0, 1),
    case("Tensor.tril_", X),
]


@pytest.mark.parametrize("case", [*views, *others], ids=str)
def test_like_torch(case):
    check_case(case)


LAYOUTS = {
    "view": lambda x: x.view(6, 4),
    "view of t": lambda x: x.transpose(0, 1).unsqueeze(0).view(1, 3, 2, 4),
    "reshape view": lambda x: x.reshape(-1, 4),
    "reshape copy": lambda x: x.transpose(0, 1).reshape(6, 4),
    "reshape kept": lambda x: x.transpose(0, 1).reshape(3, 2, 2, 2),
    "flatten": lambda x: x.flatten(1),
    "flatten copy": lambda x: x.transpose(1, 2).flatten(1),
    "permute": lambda x: x.permute(2, 0, 1),
    "T": lambda x: x[0].T,
    "mT": lambda x: x.mT,
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "expand": lambda x: x[:, :1].expand(2, 5, 4),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "select": lambda x: x.select(2, 1),
    "slice": lambda x: x[:, ::2, 1:],
    "chunk": lambda x: x.chunk(2, 2)[1],
    "split": lambda x: x.split([1, 2], 1)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "unfold": lambda x: x.unfold(2, 2, 2),
    "as_strided": lambda x: x.as_strided((2, 2), (3, 1), 4),
    "as_strided of a slice": lambda x: x[1].as_strided((2, 2), (1, 2)),
    "movedim": lambda x: x.movedim(0, 2),
    "ravel": lambda x: x.ravel(),
    "contiguous": lambda x: x.transpose(0, 1).contiguous(),
    "cat": lambda x: torch_of(x).cat([x, x]),
    "flip": lambda x: x.flip(0),
    "tensor_split": lambda x: x.tensor_split(2, 2)[1],
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "expand_as": lambda x: x[:1].expand_as(x),
    "meshgrid": lambda x: torch_of(x).meshgrid(x[0, 0], x[0, :, 0], indexing="xy")[0],
    "atleast_3d": lambda x: torch_of(x).atleast_3d(x[0]),
}


def torch_of(x):
    import functorch_port

    return torch if isinstance(x, torch.Tensor) else functorch_port


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_and_sharing(name):
    """Strides, offset, contiguity are torch's; what is a view in torch shares memory here too, both ways."""
    x = torch.arange(24.0).reshape(2, 3, 4).clone()
    mine = to_ours(x)
    a, b = LAYOUTS[name](x), LAYOUTS[name](mine)
    assert tuple(a.shape) == tuple(b.shape)
    strides = [
        (s, t) for s, t, n in zip(a.stride(), b.stride(), a.shape) if n > 1
    ]  # of a single element, any will do
    assert all(s == t for s, t in strides) and a.storage_offset() == b.storage_offset()
    assert a.is_contiguous() == b.is_contiguous()
    assert a._is_view() == b._is_view()
    x[0, 1] = 100.0
    mine[0, 1] = 100.0
    assert a.tolist() == b.tolist()
    try:
        a.add_(1)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match="single memory location"):
            b.add_(1)
        assert "single memory location" in str(error)
        return
    b.add_(1)
    assert a.tolist() == b.tolist()
    assert x.tolist() == mine.tolist()


@pytest.mark.parametrize(
    "size", [(6, 4), (3, 8), (2, 3, 4), (4, 3, 2), (24,), (1, 24, 1), (3, 2, 2, 2), (12, 2)]
)
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 2, 1), (2, 1, 0)])
def test_view_needs_fitting_strides(size, order):
    x = torch.arange(24.0).reshape(2, 3, 4)
    a, b = x.permute(order), to_ours(x).permute(order)
    try:
        expected = a.view(size)
    except RuntimeError as error:
        with pytest.raises(RuntimeError) as mine:
            b.view(size)
        assert str(mine.value) == str(error)
    else:
        assert b.view(size).tolist() == expected.tolist() and b.view(size).stride() == expected.stride()
