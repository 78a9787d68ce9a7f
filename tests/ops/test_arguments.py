"""Arguments of the wrong type or number: torch's exception, and its text where torch has one plain sentence."""

import pytest
import torch

import functorch_port as ft

SAME_TEXT = [
    "lib.cat(x)",
    "lib.cat([x, 1])",
    "lib.cat([x], dim='a')",
    "lib.stack(x)",
    "lib.add(x, 'a')",
    "lib.maximum(x, 1)",
    "lib.atan2(x, 1.0)",
    "lib.matmul(x)",
    "lib.matmul(x, 1)",
    "lib.mm(x, 2)",
    "lib.sum(1.0)",
    "lib.gather(x, 0, 1)",
    "lib.scatter_add(x, 0, i, 2)",
    "x @ 1",
    "1 @ x",
    "x + 'a'",
    "x.permute()",
    "x.expand()",
    "x.repeat()",
    "x.flip()",
    "x.topk()",
    "x.reshape()",
    "x.argmax(dim=0.5)",
]

SAME_TYPE = [
    "lib.round(x, decimals=1.5)",
    "x.sum(foo=1)",
    "x.sum('a')",
    "x.sum(0, 1)",
    "x.view()",
    "x.view('a')",
    "x.clamp('a')",
    "x.pow('a')",
    "x.max('a')",
    "x.chunk()",
    "x.transpose(0)",
    "x.squeeze('a')",
    "x.masked_fill(x > 0, 'a')",
    "lib.where(True, x, x)",
    "x.t(1)",
]


def _outcome(lib, text):
    scope = {"lib": lib, "x": lib.ones(2, 3), "i": lib.tensor([[0]])}
    try:
        eval(text, scope)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("text", [*SAME_TEXT, *SAME_TYPE])
def test_refused_as_torch_does(text):
    theirs, ours = _outcome(torch, text), _outcome(ft, text)
    assert type(ours) is type(theirs), f"{ours!r}, torch: {theirs!r}"
    if text in SAME_TEXT:
        assert str(ours) == str(theirs)
