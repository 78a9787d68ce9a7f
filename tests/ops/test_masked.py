"""torch.masked against torch."""

import math
import warnings

import pytest
import torch
from compare import case, check_case, sample, to_ours

import functorch_port as ft

REDUCTIONS = ("sum", "prod", "amax", "amin", "mean", "norm", "var", "std", "logsumexp")
ALONG = ("cumsum", "cumprod", "softmax", "log_softmax", "softmin", "median", "argmax", "argmin")
X, CUBE = sample(3, 4), sample(2, 3, 4)
MASK = sample(3, 4, dtype=torch.bool)
EMPTY_ROW = MASK & torch.tensor([[True], [False], [True]])
whole = sample(3, 4, dtype=torch.int64)
c128 = torch.complex128

cases = [
    *(case(f"torch.masked.{n}", X, mask=m) for n in REDUCTIONS for m in (None, MASK, MASK[0])),
    *(case(f"torch.masked.{n}", X, dim=1, keepdim=True, mask=EMPTY_ROW) for n in REDUCTIONS),
    *(case(f"torch.masked.{n}", CUBE, dim=(0, -1), mask=CUBE[:, :1] > 0) for n in REDUCTIONS),
    *(case(f"torch.masked.{n}", X, 1, mask=m) for n in ALONG for m in (None, MASK, EMPTY_ROW)),
    *(
        case(f"torch.masked.{n}", X, 0, mask=MASK, dtype=torch.float32, _tol=1e-6)
        for n in (*REDUCTIONS[:5], *ALONG[:4])
    ),
    *(
        case(f"torch.masked.{n}", whole, 1, mask=MASK)
        for n in (*REDUCTIONS[:4], *ALONG[:2], "argmax", "median", "std")
    ),
    case("torch.masked.median", whole, 1, mask=EMPTY_ROW),
    case("torch.masked.mean", whole, mask=MASK),
    case("torch.masked.mean", whole, mask=MASK, dtype=torch.int32),
    *(case(f"torch.masked.{n}", whole > 0, mask=MASK) for n in ("sum", "amax", "argmin")),
    *(case(f"torch.masked.{n}", sample(3, 4, dtype=c128), mask=MASK) for n in ("sum", "prod", "mean", "var")),
    case("torch.masked.norm", X, 3.0, 1, mask=MASK),
    *(case("torch.masked.norm", X, o, mask=MASK) for o in (0.0, 1.0, math.inf, -math.inf)),
    case("torch.masked.norm", whole, -math.inf, mask=MASK),
    *(case("torch.masked.var", X, 1, u, mask=EMPTY_ROW) for u in (True, False)),
    *(case("torch.masked.var", X, 1, correction=c, mask=MASK) for c in (0, 2)),
    case("torch.masked.std", X, 1, True, correction=1),
    case("torch.masked.normalize", X, 2.0, 1, mask=EMPTY_ROW),
    case("torch.masked.normalize", X, 1.0, 0, eps=10.0),
    case("torch.masked.logaddexp", X, X.flip(0), input_mask=MASK, other_mask=EMPTY_ROW),
    case("torch.masked.argmax", X, mask=MASK),
    case("torch.masked.sum", sample(), 0, mask=torch.tensor(True)),
    *(case("torch.masked.sum", X, d) for d in (2, (0, 0), ())),
    case("torch.masked.sum", X, mask=sample(2, 3, 4, dtype=torch.bool)),
    case("torch.masked.sum", X, mask=sample(5, dtype=torch.bool)),
    case("torch.masked.softmax", X, 3),
]


@pytest.mark.parametrize("case", cases, ids=str)
def test_like_torch(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_case(case)


def test_masked_tensors_are_refused():
    for make in (ft.masked.masked_tensor, ft.masked.as_masked_tensor, ft.masked.MaskedTensor):
        with pytest.raises(NotImplementedError, match=r"pass the mask to the functions of torch\.masked"):
            make(to_ours(X), to_ours(MASK))
    assert ft.masked.is_masked_tensor(to_ours(X)) is False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert set(torch.masked.__all__) <= set(dir(ft.masked))


def test_compiled():
    x, mask = to_ours(X), to_ours(MASK)
    compiled = ft.compile(
        lambda x, m: (ft.masked.softmax(x, 1, mask=m), ft.masked.median((x * 4).long(), 1, mask=m))
    )
    eager = ft.masked.softmax(x, 1, mask=mask)
    assert ft.allclose(compiled(x, mask)[0], eager, equal_nan=True)
