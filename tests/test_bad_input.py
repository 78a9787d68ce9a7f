"""Bad input: PyTorch's exception type and text, and nothing half-changed afterwards.

Every case is written once and run by both libraries. It returns the objects to watch and the call that must fail.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import functorch_port as ft


def shape_mismatch_add(T):
    a, b = T.ones(2, 3), T.ones(2, 4)
    return [a, b], lambda: a + b


def shape_mismatch_add_inplace(T):
    a, b = T.ones(2, 3), T.ones(4, 2, 3)
    return [a, b], lambda: a.add_(b)


def shape_mismatch_matmul(T):
    a, b = T.ones(2, 3), T.ones(4, 5)
    return [a, b], lambda: a @ b


def shape_mismatch_linear(T):
    layer, x = T.nn.Linear(3, 4), T.ones(2, 5)
    return [*layer.parameters()], lambda: layer(x)


def shape_mismatch_conv(T):
    layer, x = T.nn.Conv2d(3, 4, 3), T.ones(2, 5, 8, 8)
    return [*layer.parameters()], lambda: layer(x)


def shape_mismatch_view(T):
    a = T.ones(2, 3)
    return [a], lambda: a.view(4)


def shape_mismatch_batch_norm(T):
    layer = T.nn.BatchNorm1d(4)
    return [*layer.state_dict().values()], lambda: layer(T.ones(2, 5))


def dtype_mismatch_inplace(T):
    a, b = T.ones(2, dtype=T.int64), T.ones(2) * 0.5
    return [a, b], lambda: a.add_(b)


def dtype_mismatch_matmul(T):
    a, b = T.ones(2, 2), T.ones(2, 2, dtype=T.float64)
    return [a, b], lambda: a @ b


def dtype_requires_grad(T):
    a = T.ones(2, dtype=T.int64)
    return [a], lambda: a.requires_grad_()


def dtype_of_labels(T):
    x, y = T.ones(2, 3), T.ones(2, dtype=T.int32)
    return [x, y], lambda: T.nn.functional.nll_loss(x, y)


def wrong_type_of_operand(T):
    a = T.ones(2)
    return [a], lambda: T.add(a, "text")


def wrong_type_of_module(T):
    seq = T.nn.Sequential(T.nn.Linear(2, 2))
    return [*seq.parameters()], lambda: seq.add_module("x", 3)


def wrong_type_of_parameters(T):
    w = T.ones(2, requires_grad=True)
    return [w], lambda: T.optim.SGD(w, lr=0.1)


def negative_learning_rate(T):
    w = T.ones(2, requires_grad=True)
    return [w], lambda: T.optim.SGD([w], lr=-0.1)


def freed_graph(T):
    w = T.ones(2, requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    return [w, w.grad], loss.backward


def non_scalar_backward(T):
    w = T.ones(2, requires_grad=True)
    out = w * 2
    return [w], out.backward


def backward_without_history(T):
    a = T.ones(())
    return [a], a.backward


def gradient_of_wrong_shape(T):
    w = T.ones(2, requires_grad=True)
    out = w * 2
    return [w], lambda: out.backward(T.ones(3))


def inplace_on_leaf(T):
    w = T.ones(2, requires_grad=True)
    return [w], lambda: w.add_(1)


def inplace_on_view_of_leaf(T):
    w = T.ones(2, 2, requires_grad=True)
    return [w], lambda: w[0].mul_(2)


def assignment_to_leaf(T):
    w = T.ones(2, requires_grad=True)
    return [w], lambda: w.__setitem__(0, 3.0)


def inplace_on_expanded(T):
    a = T.ones(1, 2)
    wide = a.expand(3, 2)
    return [a], lambda: wide.add_(1)


def numpy_of_leaf(T):
    w = T.ones(2, requires_grad=True)
    return [w], w.numpy


def unused_input(T):
    w, v = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
    loss = (w * 2).sum()
    return [w, v], lambda: T.autograd.grad(loss, v)


def index_out_of_range(T):
    a = T.ones(3, 2)
    return [a], lambda: a[3]


def index_tensor_out_of_range(T):
    a = T.ones(3, 2)
    return [a], lambda: a[T.tensor([0, 5])]


def too_many_indices(T):
    a = T.ones(3)
    return [a], lambda: a[0, 0]


def mask_of_wrong_shape(T):
    a = T.ones(3)
    return [a], lambda: a[T.tensor([True, False])]


def negative_step(T):
    a = T.ones(3)
    return [a], lambda: a[::-1]


def assigned_value_of_wrong_shape(T):
    a = T.ones(3, 2)
    return [a], lambda: a.__setitem__(0, T.ones(3))


def embedding_out_of_range(T):
    layer = T.nn.Embedding(4, 2)
    return [layer.weight], lambda: layer(T.tensor([4]))


def label_out_of_range(T):
    x = T.zeros(2, 3)
    return [x], lambda: T.nn.functional.cross_entropy(x, T.tensor([0, 3]))


def gather_out_of_range(T):
    a = T.ones(2, 3)
    return [a], lambda: a.gather(1, T.tensor([[0], [3]]))


def dim_out_of_range(T):
    a = T.ones(2, 3)
    return [a], lambda: a.sum(2)


def bool_of_many(T):
    a = T.ones(2)
    return [a], lambda: bool(a)


def item_of_many(T):
    a = T.ones(2)
    return [a], a.item


def len_of_scalar(T):
    a = T.ones(())
    return [a], lambda: len(a)


def iterating_a_scalar(T):
    a = T.ones(())
    return [a], lambda: list(a)


def ragged_data(T):
    return [], lambda: T.tensor([[1, 2], [3]])


def state_dict_missing_key(T):
    net = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.Linear(2, 2))
    state = {k: v * 0 for k, v in net.state_dict().items() if k != "1.bias"}
    # strict: the keys that fit are loaded first, in PyTorch too, so only the exception is compared
    return [], lambda: net.load_state_dict(state)


def state_dict_wrong_shape(T):
    net = T.nn.Linear(2, 2)
    return [net.weight], lambda: net.load_state_dict({"weight": T.ones(3, 2)}, strict=False)


def optimizer_state_dict_of_other_size(T):
    net, other = T.nn.Linear(2, 2), T.nn.Linear(2, 2, bias=False)
    opt, wrong = T.optim.SGD(net.parameters(), lr=0.1), T.optim.SGD(other.parameters(), lr=0.2)
    return [net.weight, T.tensor(opt.param_groups[0]["lr"])], lambda: opt.load_state_dict(wrong.state_dict())


def grad_of_wrong_shape(T):
    w = T.ones(2, requires_grad=True)
    return [w], lambda: setattr(w, "grad", T.ones(3))


def non_leaf_parameter(T):
    w = T.ones(2, requires_grad=True) * 2
    return [w], lambda: T.optim.SGD([w], lr=0.1)


def same_parameter_in_two_groups(T):
    w = T.ones(2, requires_grad=True)
    opt = T.optim.SGD([w], lr=0.1)
    return [w, T.tensor(len(opt.param_groups))], lambda: opt.add_param_group({"params": [w]})


def parameter_of_wrong_type(T):
    layer = T.nn.Linear(2, 2)
    return [layer.weight], lambda: setattr(layer, "weight", T.ones(2, 2))


SAME_TEXT = [
    shape_mismatch_add, shape_mismatch_add_inplace, shape_mismatch_matmul, shape_mismatch_linear,
    shape_mismatch_conv, shape_mismatch_view,
    shape_mismatch_batch_norm, dtype_mismatch_inplace, dtype_mismatch_matmul, dtype_requires_grad, wrong_type_of_module,
    wrong_type_of_parameters, negative_learning_rate, freed_graph, non_scalar_backward,
    backward_without_history, gradient_of_wrong_shape,
    inplace_on_leaf, inplace_on_view_of_leaf, inplace_on_expanded, numpy_of_leaf, unused_input, index_out_of_range,
    index_tensor_out_of_range, too_many_indices, mask_of_wrong_shape, negative_step, embedding_out_of_range,
    label_out_of_range,
    dim_out_of_range, bool_of_many, item_of_many, len_of_scalar, iterating_a_scalar, ragged_data,
    state_dict_missing_key,
    state_dict_wrong_shape, optimizer_state_dict_of_other_size, non_leaf_parameter, same_parameter_in_two_groups,
    parameter_of_wrong_type, dtype_of_labels, grad_of_wrong_shape,
]  # fmt: skip
#: where PyTorch's text speaks of its C++ signatures, or ours tells more: the type, and the facts named here
SAME_FACTS = {
    wrong_type_of_operand: ["add()", "str"],
    assignment_to_leaf: ["leaf", "in-place"],
    assigned_value_of_wrong_shape: ["size", "3", "2"],
    gather_out_of_range: ["index 3 is out of bounds", "size 3"],
}


def _failure(case, T):
    watched, call = case(T)
    before = [w.detach().numpy().copy() for w in watched]
    versions = [w._version for w in watched]
    with pytest.raises(Exception) as caught:  # noqa: PT011  the type is compared below
        call()
    for w, value, version in zip(watched, before, versions, strict=True):
        if T is ft:  # PyTorch's BatchNorm has counted the batch already
            np.testing.assert_array_equal(w.detach().numpy(), value)
            assert w._version == version
    return caught.value


@pytest.mark.parametrize("case", [*SAME_TEXT, *SAME_FACTS], ids=lambda c: c.__name__)
def test_bad_input(case):
    theirs, ours = _failure(case, torch), _failure(case, ft)
    assert type(ours).__name__ == type(theirs).__name__, (theirs, ours)
    if case in SAME_FACTS:
        for fact in SAME_FACTS[case]:
            assert fact in str(ours), (theirs, ours)
    else:
        assert str(ours).strip() == str(theirs).strip()


@pytest.mark.parametrize(
    "call",
    [
        lambda T: T.ones(2).sum(foo=1),
        lambda T: T.relu(T.ones(2), foo=1),
        lambda T: T.nn.Linear(2, 2, foo=1),
        lambda T: T.optim.SGD([T.ones(2)], lr=0.1, foo=1),
        lambda T: T.ones(2).to(foo=1),
        lambda T: T.tensor([1], foo=1),
        lambda T: T.nn.functional.cross_entropy(T.ones(2, 2), T.zeros(2, dtype=T.long), foo=1),
    ],
)
def test_unknown_keyword_arguments(call):
    with pytest.raises(TypeError):
        call(torch)
    with pytest.raises(TypeError, match="foo"):
        call(ft)
