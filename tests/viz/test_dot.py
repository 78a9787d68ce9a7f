"""`make_dot` beside torchviz's: the same text, but for the numbers that nodes are called by."""

from __future__ import annotations

import re
import warnings

import pytest
import torch

import functorch_port as ft
from functorch_port import viz

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torchviz = pytest.importorskip("torchviz")


pytestmark = pytest.mark.filterwarnings("ignore:distutils Version classes:DeprecationWarning")  # torchviz's


def canonical(digraph) -> str:
    """The text with nodes numbered in the order in which they come."""
    numbers: dict[str, str] = {}
    return re.sub(r"\b\d{9,}\b", lambda m: numbers.setdefault(m[0], f"n{len(numbers)}"), digraph.source)


def mlp(T):
    m = T.nn.Sequential(T.nn.Linear(4, 3), T.nn.ReLU(), T.nn.Linear(3, 2))
    return T.nn.functional.cross_entropy(m(T.ones(2, 4)), T.tensor([0, 1])), dict(m.named_parameters())


def cnn(T):
    nn = T.nn
    m = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 2)
    )
    return m(T.ones(2, 1, 8, 8)).mean(), dict(m.named_parameters())


def lstm(T):
    m = T.nn.LSTM(3, 4)
    return m(T.ones(5, 2, 3))[0], dict(m.named_parameters())


def lstm_cell(T):
    m = T.nn.LSTMCell(3, 4)
    return m(T.ones(2, 3), m(T.ones(2, 3))), dict(m.named_parameters())


def gru_cell(T):
    m = T.nn.GRUCell(3, 4, bias=False)
    return m(T.ones(2, 3), m(T.ones(2, 3))), dict(m.named_parameters())


def rnn_cell(T):
    m = T.nn.RNNCell(3, 4, nonlinearity="relu")
    return m(T.ones(3)), dict(m.named_parameters())


def shared_weights(T):
    layer = T.nn.Linear(3, 3)
    return layer(layer(T.ones(2, 3)).tanh()).sum(), dict(layer.named_parameters())


def views(T):
    b = T.ones(2, 3, requires_grad=True)
    return (b * 2).view(3, 2).t(), {"b": b}


def view_of_a_leaf(T):
    return T.ones(2, requires_grad=True).view(1, 2), None


def several(T):
    b = T.ones(2, requires_grad=True)
    c = b.exp()
    return (c, c + b, b * 1), {"b": b}


def constant(T):
    return T.ones(2), None


def joined(T):
    a = T.ones(2, requires_grad=True)
    return T.cat([a, a * 2]).softmax(0).sum(), {"a": a}


def deep(T):
    a = b = T.ones(2, requires_grad=True)
    for _ in range(120):
        b = b * a
    return b, {"a": a}


def in_place(T):
    a = T.ones(2, requires_grad=True)
    b = a * 1
    b.add_(a)
    b[0] = a[1]
    return b.sum(), {"a": a}


def double_backward(T):
    x = T.ones(3, requires_grad=True)
    y = T.tensor(2.0, requires_grad=True)
    (g,) = T.autograd.grad((x * y).sum(), x, create_graph=True)
    return g, {"x": x, "y": y}


def square(T):
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = T.ones(2, requires_grad=True)
    return Square.apply(x).sum(), {"x": x}


@pytest.mark.parametrize(
    "case",
    [
        mlp,
        cnn,
        lstm,
        lstm_cell,
        gru_cell,
        rnn_cell,
        shared_weights,
        views,
        view_of_a_leaf,
        several,
        constant,
        joined,
        deep,
        in_place,
        square,
    ],
)
def test_the_graph_is_torchvizs(case) -> None:
    assert canonical(viz.make_dot(*case(ft))) == canonical(torchviz.make_dot(*case(torch)))


def test_saved_tensors_of_a_function() -> None:
    ours, theirs = (
        make(*square(T), show_saved=True) for T, make in ((ft, viz.make_dot), (torch, torchviz.make_dot))
    )
    assert canonical(ours) == canonical(theirs)


def test_double_backward_leads_to_the_same_leaves() -> None:
    """Here it has fewer nodes: the derivative of an operation is one."""
    drawn = viz.make_dot(*double_backward(ft)).source
    assert 'label="y\n ()" fillcolor=lightblue' in drawn


def product(T):
    w = T.ones(3, requires_grad=True)
    return w * w, {"w": w}


@pytest.mark.parametrize(
    "options",
    [{"show_attrs": True}, {"show_saved": True}, {"show_attrs": True, "max_attr_chars": 10}],
)
def test_saved_values(options) -> None:
    ours, theirs = (
        make(*product(T), **options) for T, make in ((ft, viz.make_dot), (torch, torchviz.make_dot))
    )
    assert canonical(ours) == canonical(theirs)


def test_refused() -> None:
    for make in (viz.make_dot, torchviz.make_dot):
        with pytest.raises(AssertionError):
            make(product(ft if make is viz.make_dot else torch)[0], params={"a": None})
    for module in (viz, torchviz):
        with pytest.raises(NotImplementedError):
            module.make_dot_from_trace(None)
    out, _ = product(ft)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        viz.make_dot(out, show_attrs=True)
    assert {n for n in dir(torchviz) if not n.startswith("_")} <= set(viz.__all__)


def test_long_chains_need_no_recursion() -> None:
    y = ft.ones(1, requires_grad=True)
    for _ in range(3000):
        y = y + 1
    assert viz.make_dot(y).source.count("AddBackward0") == 3000
