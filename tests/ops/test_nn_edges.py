"""Small, empty and 0-dim inputs of functions of `nn.functional`, and what they refuse, against torch."""

from __future__ import annotations

import pytest
import torch
from compare import case, check_case, sample
from nn_programs import same as same_program
from nn_programs import tries

f64, i64 = torch.float64, torch.int64
T = torch.tensor
X, IMG = sample(5, 4), sample(2, 3, 4, 4)
ROWS = T([0, 1, 2, 3, 1])


def F(name, *args, **kwargs):
    return case(f"torch.nn.functional.{name}", *args, **kwargs)


CASES = [
    F("kl_div", T(0.5, dtype=f64), T(-0.5, dtype=f64), _grad=False),
    F("kl_div", X, T([0.0, 0.3, 1.0, 2.0], dtype=f64).expand(5, 4), reduction="sum", _first=True),
    *(
        F("gaussian_nll_loss", X, X.flip(0), v)
        for v in (sample(5, low=0.1), sample(1, 4, low=0.1), sample(5, 1, low=1))
    ),
    *(F("gaussian_nll_loss", X, X.flip(0), v) for v in (sample(4, low=0.1), sample(1, 1, low=0.1))),
    *(F("group_norm", torch.zeros(s, dtype=f64), 3) for s in ((0, 6, 2), (2, 0, 2), (2, 6, 0))),
    *(
        F("pad", IMG, p, mode="replicate")
        for p in ((0, -4, 0, 0), (-2, -2, 1, 1), (-5, 1, 0, 0), (-2, 5, -2, 5))
    ),
    F("pad", IMG, (-3, -2, 0, 0), mode="replicate"),
    F("pad", IMG[..., :0], (1, 1, 1, 1), mode="replicate"),
    *(F("normalize", T(3.0, dtype=f64), dim=d, p=p) for d in (0, -1, 1) for p in (1, 2)),
    *(F("cosine_similarity", T(3.0, dtype=f64), T(-2.0, dtype=f64), dim=d) for d in (0, 1)),
    F("feature_alpha_dropout", X[0]),
    F("feature_alpha_dropout", X[0], training=True),
    F("dropout2d", X[0], 0.5, False),
    F("huber_loss", X, X, reduction="abc"),
    F("batch_norm", torch.zeros(0, dtype=f64), None, None, training=True),
    F("batch_norm", torch.zeros(0), torch.zeros(0), torch.ones(0), _grad=False),
    *(
        F("multi_margin_loss", x, t, _first=True, **k)
        for x, t, k in (
            (X, ROWS, {"reduction": "none"}),
            (X[:0], ROWS[:0], {}),
            (X[:0], ROWS[:0], {"reduction": "none"}),
            (X[0], T(1), {}),
            (X[0], T([1]), {"reduction": "none"}),
            (X[0, 0], T(0), {}),
            (X, ROWS[:4], {}),
            (X, ROWS[:, None], {}),
            (X[0], ROWS[:2], {}),
            (X, ROWS, {"weight": sample(3)}),
            (X[:, :0], ROWS, {}),
            (IMG, ROWS[:2], {}),
            (X, ROWS.double(), {}),
            (X, ROWS + 3, {}),
        )
    ),
]


@pytest.mark.parametrize("c", CASES, ids=str)
def test_against_torch(c):
    check_case(c)


def test_layers_refuse():
    def program(lib):
        nn, x = lib.nn, lib.ones(2, 3, 4, 4)
        return tries(
            lambda: nn.HuberLoss(delta=1j),
            lambda: nn.CircularPad1d(2)(x),
            lambda: nn.CircularPad2d(2)(x[0, 0]),
            lambda: nn.CircularPad3d(2)(x[0]),
            lambda: nn.MultiMarginLoss()(x[0, 0], lib.tensor([0, 1])),
        )

    same_program(program)
