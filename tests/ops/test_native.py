"""Names of `torch` beside `nn.functional`'s; segments, binomial numbers, a few eigenvalues."""

import warnings

import pytest
import torch
from compare import case, check_case, same, sample, to_ours

import functorch_port as ft

T = torch.tensor
X = sample(3, 4, 5, dtype=torch.float32)
ROW, LABELS, WHERE = X[0], X.sign(), T([0, 1, 1])
BAGS, STARTS = T([0, 1, 2, 2, 3, 1]), T([0, 2, 2, 6])
NORM = (None, None, None, None, True, 0.1, 1e-5, False)
FRAMES = X.log_softmax(2)

RANDOM = [
    case("torch.dropout", X, 0.5, True),
    case("torch.dropout", X, 1.5, True),
    case("torch.native_dropout", X, 0.5, True),
    case("torch.native_dropout", X, 0.3, False),
    case("torch.feature_dropout", X, 0.5, True),
    case("torch.alpha_dropout", X, 0.5, True),
    case("torch.feature_alpha_dropout", X, 0.5, True),
    case("torch.dropout_", X, 0.5, True),
    case("torch.rrelu", X, training=True),
    case("torch.rrelu_", X, training=True),
    case("torch.nn.functional.rrelu_", X, 0.5, 0.1),
    case("torch.binomial", torch.full((100,), 30.0), torch.linspace(0, 1, 100), _grad=False),
    case("torch.binomial", torch.full((100,), 300.0), torch.linspace(0, 1, 100), _grad=False),
    case("torch.binomial", T([[5.0], [90.0]]).double(), T([0.3, 0.4]).double(), _grad=False),
    case("torch.binomial", T([5.0]), T([0.5]).double()),
    case("torch.binomial", T([5]), T([1])),
    case("torch.binomial", T([5.0]).half(), T([0.5]).half(), _grad=False),
]
LAYERS = [
    case("torch.batch_norm", X, *NORM, _tol=1e-5),
    case("torch.batch_norm", torch.zeros(1, 4, 1), *NORM, _grad=False),
    case("torch.instance_norm", X, *NORM, _tol=1e-5),
    case("torch.adaptive_max_pool1d", X, 2),
    case("torch.max_pool1d_with_indices", X, 2),
    case("torch.conv_tbc", X, X[:2].permute(0, 2, 1), ROW[:, 0], 1),
    case("torch.conv_tbc", X, X, ROW[:, 0], 1),
    case("torch.conv_tbc", ROW, X, ROW[:, 0], 1),
    case("torch.nn.functional.conv_tbc", X, X[:2].permute(0, 2, 1), ROW[:, 0]),
    case("torch.convolution", X, X[:, :, :2], None, [1], [0], [1], False, [0], 1),
    case("torch.convolution", X[None], X[:, None], None, [1, 2], [0], [1], True, [0], 3),
    case("torch.embedding", ROW, WHERE),
    case("torch.embedding", ROW, WHERE, 1),
    case("torch.embedding_renorm_", ROW, WHERE, 0.5, 2.0),
    *(case("torch.embedding_bag", ROW, BAGS, STARTS, False, mode) for mode in (0, 1, 2)),
    *(
        case(
            "torch.embedding_bag",
            ROW.double(),
            BAGS.int(),
            STARTS.int(),
            False,
            mode,
            False,
            None,
            True,
            pad,
            _grad=grad,
        )
        for mode in (0, 1, 2)
        for pad in (None, 2)
        for grad in (False, True)
    ),
    case("torch.embedding_bag", ROW, BAGS, STARTS.int(), False, 0, False, torch.arange(6.0)),
    case(
        "torch.embedding_bag", ROW.half(), BAGS, STARTS, False, 0, False, torch.arange(6.0).half(), False, -1
    ),
    case("torch.embedding_bag", ROW, BAGS, STARTS, False, 0, False, torch.ones(12)[::2]),
    case("torch.embedding_bag", ROW, BAGS, STARTS[:0], _grad=False),
    case("torch.embedding_bag", ROW, BAGS[:0], STARTS[:1], False, 2, _grad=False),
    case("torch.embedding_bag", ROW, BAGS, STARTS, False, 3),
    case("torch.embedding_bag", ROW[0], BAGS, STARTS),
    case("torch.embedding_bag", ROW, BAGS, STARTS[None]),
    case("torch.embedding_bag", ROW, BAGS, STARTS, False, 1, False, torch.ones(6)),
    case("torch.embedding_bag", ROW, BAGS, STARTS, False, 0, False, torch.ones(5)),
    case("torch.embedding_bag", ROW, BAGS, STARTS, False, 0, False, None, False, 9),
    case("torch.embedding_bag", ROW, BAGS, STARTS + 1, _text="start"),
    case("torch.kl_div", FRAMES, X.abs(), _tol=1e-5),
    case("torch.kl_div", FRAMES, FRAMES, 2, log_target=True),
    case("torch.poisson_nll_loss", X, X.abs(), True, False, 1e-8, 0, _tol=1e-5),
    case("torch.triplet_margin_loss", X[0], X[1], X[2]),
    case("torch.hinge_embedding_loss", X, LABELS),
    case("torch.margin_ranking_loss", X, X * 2, LABELS, 0.5, 2),
    case("torch.cosine_embedding_loss", X[0], X[1], LABELS[0, :, 0], 0.1, 1, _first=True),
    case("torch.binary_cross_entropy_with_logits", X, LABELS.clamp(0, 1), None, None, 1, _tol=1e-5),
    case("torch.ctc_loss", FRAMES, T([[1, 2], [3, 1], [2, 4], [1, 1]]), [3] * 4, [2, 1, 2, 1], 0, 1),
    case("torch.spmm", ROW, ROW.T),
]
DATA, TIES = T([[1.0, 2], [1, 0], [3, 3], [0, 3], [2, 0]]), T([2, 0, 3])
SEGMENTS = [
    *(
        case(
            "torch.segment_reduce",
            DATA,
            how,
            lengths=TIES,
            initial=initial,
            _grad=how != "mean" or bool(initial),
        )
        for how in ("max", "min", "mean", "prod", "sum")
        for initial in (None, 1.0)
    ),
    case("torch.segment_reduce", DATA, "sum", offsets=T([1, 2, 4])),
    case("torch.segment_reduce", DATA, "max", lengths=T([[2, 0]] * 5), axis=1),
    case("torch.segment_reduce", DATA, "sum", lengths=T([1, 1, 1]), unsafe=True),
    case("torch.segment_reduce", DATA, "sum", lengths=T([1, 1, 1])),
    case("torch.segment_reduce", DATA, "sum", lengths=T([2, -1, 4])),
    case("torch.segment_reduce", DATA, "most", lengths=TIES),
    case("torch.segment_reduce", DATA, "amax", offsets=T([0, 2, 5])),
    case("torch.segment_reduce", DATA, "amin", offsets=T([0, 2, 5])),
    case("torch.segment_reduce", DATA, "sum"),
    case("torch.segment_reduce", DATA, "sum", indices=TIES),
    case("torch.segment_reduce", DATA.int(), "sum", lengths=TIES),
    case("torch.segment_reduce", DATA, "sum", lengths=T([[1, 1]] * 5)),
    case("torch.segment_reduce", T(1.0), "sum", lengths=T([1])),
]


@pytest.mark.parametrize("case", RANDOM, ids=str)
def test_random(case):
    torch.manual_seed(3)
    ft.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch resizes the result of binomial
        check_case(case)
    same(torch.rand(2), ft.rand(2))  # as many words were taken


@pytest.mark.parametrize("case", [*LAYERS, *SEGMENTS], ids=str)
def test_like_torch(case):
    check_case(case)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("general", [True, False])
def test_lobpcg(largest, general):
    a = sample(9, 9)
    a, b = a @ a.T, 2 * torch.eye(9, dtype=torch.float64) if general else None
    torch.manual_seed(0)
    values, vectors = torch.lobpcg(a, 2, b, largest=largest, niter=200, tol=1e-12)
    mine, found = ft.lobpcg(to_ours(a), 2, to_ours(b), largest=largest)
    same(values, mine, 1e-8)
    same(vectors.abs(), found.abs(), 1e-5)  # theirs are iterated; the sign is free


def test_lobpcg_refuses():
    check_case(case("torch.lobpcg", torch.ones(4, 4), 2))
    with pytest.raises(AssertionError, match="square"):
        ft.lobpcg(ft.ones(3, 4))
    with pytest.raises(NotImplementedError, match="tracker"):
        ft.lobpcg(ft.eye(9), tracker=print)
