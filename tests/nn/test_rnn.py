"""Recurrent layers, cells and packed sequences against torch: values, gradients, states, errors."""

from __future__ import annotations

import copy
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from nn_programs import MODULE_RUN
from programs import cases, check

import functorch_port as ft
from functorch_port.ops._recurrence import recur

PRELUDE = (
    MODULE_RUN
    + """
R = nn.utils.rnn
torch.manual_seed(0)
x, u = data(5, 3, 4), data(5, 4)
h, h3, h6 = data(2, 3, 6, seed=1), data(4, 3, 3, seed=1), data(4, 3, 6, seed=2)

class Packed(nn.Module):
    def __init__(self, net, lengths, **kwargs):
        super().__init__()
        self.net, self.lengths, self.kwargs = net, lengths, kwargs
    def forward(self, x, *state):
        p = R.pack_padded_sequence(x, self.lengths, **self.kwargs)
        state = (state if isinstance(self.net, nn.LSTM) else state[0],) if state else ()
        out, last = self.net(p, *state)
        return R.pad_packed_sequence(out, padding_value=2.0), out, last

p = R.pack_padded_sequence(x, [5, 3, 2])
q = R.pack_sequence([x[:2, 0], x[:4, 1]], enforce_sorted=False)
"""
)

MODULES = """
run(lambda: nn.RNN(4, 6), x)
run(lambda: nn.RNN(4, 6, 2, "relu", False, True), x)
run(lambda: nn.RNN(4, 6, nonlinearity="relu", bidirectional=True), x, h)
run(lambda: nn.GRU(4, 6, 2), x, h)
run(lambda: nn.GRU(4, 6, bias=False, bidirectional=True, batch_first=True), x)
run(lambda: nn.LSTM(4, 6, 2, dropout=0.5), x)
run(lambda: nn.LSTM(4, 6, 2, dropout=0.5, bias=False), x, train=False)
run(lambda: nn.LSTM(4, 6, 2, bidirectional=True, proj_size=3, batch_first=True), x.transpose(0, 1))
nn.LSTM(4, 6, 2, bidirectional=True, proj_size=3).double()(x, (h3, h6))
run(lambda: nn.LSTM(4, 6), u)
nn.LSTM(4, 6, batch_first=True).double()(u, (h[:1, 0], h[1:, 0]))
run(lambda: nn.GRU(4, 6), u, h[:1, 0])
nn.LSTM(4, 6)(torch.zeros(2, 0, 4))
run(lambda: Packed(nn.LSTM(4, 6, 2, bidirectional=True), [5, 3, 2]), x)
run(lambda: Packed(nn.LSTM(4, 6, 2, proj_size=3, dropout=0.5), [2, 5, 3], enforce_sorted=False), x)
run(lambda: Packed(nn.GRU(4, 6, 2), [2, 5, 3], enforce_sorted=False), x, h)
run(lambda: Packed(nn.RNN(4, 6, 1), [3, 2, 2, 1, 1], batch_first=True), x)
run(lambda: nn.RNN(4, 1), x)
run(lambda: nn.GRU(4, 1, 2, bidirectional=True), x)
run(lambda: nn.LSTM(4, 1, 2), x)
run(lambda: Packed(nn.LSTM(4, 1, bidirectional=True), [5, 3, 2]), x)
run(lambda: nn.LSTM(4, 6, proj_size=1), x)
run(lambda: nn.RNNCell(4, 6, nonlinearity="relu"), u)
run(lambda: nn.RNNCell(4, 6, bias=False), x[0], h[0])
run(lambda: nn.GRUCell(4, 6), x[0], h[0])
run(lambda: nn.GRUCell(4, 6), u[0])
run(lambda: nn.LSTMCell(4, 6), x[0])
nn.LSTMCell(4, 6, bias=False).double()(u[0], (h[0, 0], h[1, 0]))
repr([nn.RNN(4, 6, 2, "relu", dropout=0.5), nn.LSTM(4, 6, 2, bias=False, proj_size=2), nn.GRU(4, 6, 1, True, True,
    0.0, True)])
repr([nn.RNNCell(4, 6, False, "relu"), nn.LSTMCell(4, 6), nn.GRUCell(4, 6, bias=False)])
[(n, p.shape) for n, p in nn.LSTM(4, 6, 2, bidirectional=True, proj_size=3).named_parameters()]
[[p.shape for p in group] for group in nn.GRU(4, 6, 2).all_weights], nn.GRU(4, 6).flatten_parameters()
[nn.LSTM(4, 6, 2, bidirectional=True).state_dict(), nn.GRUCell(4, 6).state_dict()]
nn.LSTM(4, 6).half()(x.half())[0].dtype
nn.LSTM(4, 6, 2, proj_size=6)
nn.LSTM(4, 6, proj_size=-1)
nn.GRU(4, 6, proj_size=2)
nn.RNN(4, 6, proj_size=2)
nn.RNN(4, 6, nonlinearity="x")
nn.LSTM(4, 0)
nn.LSTM(0, 4)
nn.LSTM(4, 6.0)
nn.LSTM(4, 6, 0)
nn.LSTM(4, 6, bias=1)
nn.LSTM(4, 6, batch_first=1)
nn.LSTM(4, 6, dropout=1.5)
nn.LSTM(4, 6, dropout=True)
nn.LSTM(4, 6)(x)
nn.LSTM(4, 6)(x[0, 0])
nn.RNN(4, 6)(x[0, 0])
nn.LSTM(4, 6).double()(x[..., :3])
nn.LSTM(4, 6).double()(x, (h, h))
nn.LSTM(4, 6).double()(x, (h[:1], h[:1, :, :2]))
nn.LSTM(4, 6).double()(x, (h[0], h[0]))
nn.LSTM(4, 6).double()(u, (h, h))
nn.GRU(4, 6).double()(x, h)
nn.GRU(4, 6).double()(x, h[0])
nn.GRU(4, 6).double()(u, h)
nn.LSTM(4, 6).double()(x[:0])
nn.LSTMCell(4, 6)(x)
nn.LSTMCell(4, 6).double()(x[0], (h[0], h))
nn.LSTMCell(4, 6).double()(x[0], (h[0], h[0, :2]))
nn.GRUCell(4, 6).double()(x[0], h)
nn.GRUCell(3, 6).double()(x[0])
nn.GRUCell(4, 5).double()(x[0], h[0])
nn.RNNCell(4, 6, nonlinearity="x")(x[0])
torch.lstm(x, (h[:1], h[1:]), list(nn.LSTM(4, 6).double().parameters()), True, 1, 0.0, True, False, False)
torch.gru(p.data, p.batch_sizes, h[:1], list(nn.GRU(4, 6).double().parameters()), True, 1, 0.0, True, False)
torch.rnn_tanh(x.transpose(0, 1), h[:1], list(nn.RNN(4, 6).double().parameters()), True, 1, 0.0, True, False, True)
torch.rnn_relu(x, h[:1], list(nn.RNN(4, 6).double().parameters()), True, 1, 0.0, True, False, False)
torch.lstm(x, (h[:1],), list(nn.LSTM(4, 6).double().parameters()), True, 1, 0.0, True, False, False)
torch.lstm_cell(x[0], (h[0], h[1]), *nn.LSTMCell(4, 6).double().parameters())
torch.lstm_cell(x[0], (h[0],), *nn.LSTMCell(4, 6).double().parameters())
h=torch.ones(3, 6); torch.rnn_tanh_cell(torch.ones(3, 4), h, torch.ones(7, 4), torch.ones(6, 6))
h=torch.ones(3, 6); torch.rnn_tanh_cell(torch.ones(3, 4), h, torch.ones(6, 4), torch.ones(7, 6))
h=torch.ones(3, 6); torch.rnn_tanh_cell(torch.ones(3, 4), h, torch.ones(6, 4), torch.ones(6, 5))
h=torch.ones(3, 6); torch.lstm_cell(torch.ones(3, 4), (h,h), torch.ones(25, 4), torch.ones(24, 6))
h=torch.ones(3, 6); torch.lstm_cell(torch.ones(3, 4), (h,h), torch.ones(24, 4), torch.ones(25, 6))
h=torch.ones(3, 6); torch.lstm_cell(torch.ones(3, 4), (h,h), torch.ones(24, 4), torch.ones(24, 5))
h=torch.ones(3, 6); torch.gru_cell(torch.ones(3, 4), h, torch.ones(19, 4), torch.ones(18, 6))
h=torch.ones(3, 6); torch.gru_cell(torch.ones(3, 4), h, torch.ones(18, 4), torch.ones(19, 6))
h=torch.ones(3, 6); torch.gru_cell(torch.ones(3, 4), h, torch.ones(18, 4), torch.ones(18, 5))
torch.gru_cell(x[0], h[0], *nn.GRUCell(4, 6, bias=False).double().parameters())
torch.rnn_tanh_cell(x[0], h[0], *nn.RNNCell(4, 6).double().parameters())
nn.GRUCell(4, 6)(x[0])
nn.LSTMCell(4, 6)(x[0].float(), (h[0], h[1]))
h, c = nn.LSTMCell(4, 6).double()(x[0]); c.retain_grad(); h.sum().backward(); c.grad
h, c = nn.LSTMCell(4, 6).double()(x[0]); torch.autograd.grad(h.sum() + c.sum(), c)
m = nn.LSTMCell(4, 6).double(); h, c = m(x[0]); c.register_hook(lambda g: g * 0); h.sum().backward(); m.weight_ih.grad
m = nn.GRUCell(4, 6).double(); h = m(x[0], m(x[0])); h.grad_fn.next_functions; h.sum().backward(); m.weight_hh.grad
"""

SEQUENCES = """
p
q
R.pad_packed_sequence(q, True, -1.0, 7)
R.pad_packed_sequence(q, total_length=3)
R.unpack_sequence(q)
R.unpad_sequence(x, torch.tensor([2, 5, 1]))
R.unpad_sequence(x, torch.tensor([2, 4, 1, 3, 2]), batch_first=True)
R.pad_sequence([x[0], x[:, 0]], padding_value=3)
R.pad_sequence([x[0], x[:, 0]], True, 3, "left")
R.pad_sequence([torch.tensor([1, 2]), torch.tensor([True])])
R.pad_sequence(t for t in x)
a = u.clone().requires_grad_(); R.pad_sequence([a[:1], a, a[2:]], True, 1.0).square().sum().backward(); a.grad
a = x.clone().requires_grad_(); R.pack_padded_sequence(a, [1, 4, 2], False, False).data.square().sum().backward()
    a.grad
R.pack_padded_sequence(x, torch.tensor([5, 3, 2], dtype=torch.int32))
R.invert_permutation(torch.tensor([2, 0, 1])), R.invert_permutation(None)
R.PackedSequence((torch.ones(3), torch.tensor([2, 1])))
R.PackedSequence(torch.ones(3))
q.float().data.dtype, q.half().data.dtype, q.long().data, q.int().data.dtype, q.byte().data.dtype, q.is_cuda,
    q.is_pinned()
q.to(torch.float64) is q, q.to("cpu") is q, q.cpu() is q, type(q.to(torch.float32)).__name__
a, b, c, d = q; a, b, c, d
R.pack_padded_sequence(x, [1, 2, 4])
R.pack_padded_sequence(x, [4, 2, 0])
R.pack_padded_sequence(x, [4, 2])
R.pack_padded_sequence(x[:0], [4, 2, 1])
R.pack_padded_sequence(x, torch.tensor([[4, 2, 1]]))
R.pack_padded_sequence(x[0, 0], [2])
R.pack_padded_sequence(x[:0], torch.ones(2, 3, 4, 4))
R.pad_sequence([])
R.pad_sequence(3)
R.pad_sequence([x[0], 3])
R.pad_sequence([x[0], x[:, 0, :2]])
R.pad_sequence([torch.tensor(1.0)])
R.pad_sequence([x[0]], padding_side="x")
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", cases(MODULES) + cases(SEQUENCES))
def test_against_torch(code):
    check(code, PRELUDE, tol=1e-9)


def test_autocast():
    for T in (torch, ft):
        with T.autocast("cpu", dtype=T.bfloat16):
            out, (h, c) = T.nn.LSTM(4, 6)(T.ones(5, 3, 4))
            assert out.dtype == h.dtype == c.dtype == T.bfloat16
            assert T.nn.GRU(4, 6)(T.ones(5, 3, 4))[0].dtype == T.float32


def test_half_precision_is_near():
    torch.manual_seed(0)
    ft.manual_seed(0)
    theirs, ours = torch.nn.LSTM(4, 6).bfloat16(), ft.nn.LSTM(4, 6).bfloat16()
    x = np.random.default_rng(0).uniform(-1, 1, (5, 3, 4)).astype(np.float32)
    want, _ = theirs(torch.tensor(x).bfloat16())
    got, _ = ours(ft.tensor(x).bfloat16())
    # torch rounds after every step
    np.testing.assert_allclose(got.detach().float().numpy(), want.detach().float().numpy(), atol=2e-2)


@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"])
def test_own_derivative_is_that_of_the_formula(mode):
    """The rule against the derivative of the scan itself, first and second order, both ways."""
    rng = np.random.default_rng(0)
    gates = {"LSTM": 4, "GRU": 3}.get(mode, 1)

    def normal(*shape):
        return jnp.asarray(rng.standard_normal(shape))

    def flat(tree):
        return jnp.concatenate([a.reshape(-1) for a in jax.tree.leaves(tree)])

    @functools.partial(jax.jit, static_argnums=0)
    def derivatives(fn, args):
        def value(args):
            outs, last = fn(mode, True, *args, mask)
            return sum(jnp.sum(jnp.sin(a) * (i + 1)) for i, a in enumerate((outs, *last)))

        second = jax.grad(lambda a: jnp.sum(jnp.cos(flat(jax.grad(value)(a)))))(args)
        tangent = jax.jvp(value, (args,), (jax.tree.map(jnp.ones_like, args),))[1]
        return flat(jax.grad(value)(args)), flat(second), tangent

    with jax.enable_x64(True):
        size, out = 3, 2 if mode == "LSTM" else 3  # the LSTM with a projection
        states = (normal(2, out), normal(2, size))[: 1 + (mode == "LSTM")]
        bias = normal(gates * size) if mode == "GRU" else None
        w_hr = normal(out, size) if mode == "LSTM" else None
        args = (normal(4, 2, gates * size), states, normal(gates * size, out), bias, w_hr)
        mask = jnp.asarray([[1, 1], [1, 1], [1, 0], [0, 0]], bool)
        for mine, formula in zip(derivatives(recur, args), derivatives(recur.fun, args), strict=True):
            np.testing.assert_allclose(mine, formula, rtol=1e-8, atol=1e-9)


def test_the_program_does_not_grow_with_the_length():
    def size(length):
        net, x = ft.nn.LSTM(3, 4, 2), ft.ones(length, 2, 3)
        pure = ft.functionalize(lambda x: net(x)[0].sum())
        return len(str(jax.make_jaxpr(pure)(pure.state(x), x.jax())).splitlines())

    assert size(5) == size(50)


def test_copies_and_pickles():
    net, x = ft.nn.GRU(3, 4, 2), ft.ones(5, 2, 3)
    want = net(x)[0].detach().numpy()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(twin(x)[0].detach().numpy(), want)
        assert twin.weight_hh_l0 is not net.weight_hh_l0
    packed = ft.nn.utils.rnn.pack_sequence([ft.ones(3), ft.zeros(2)])
    again = pickle.loads(pickle.dumps(packed))
    assert type(again) is type(packed) and again.data.tolist() == packed.data.tolist()


def test_packed_in_a_compiled_function():
    net = ft.nn.LSTM(3, 4, bidirectional=True)
    x = ft.randn(5, 3, 3)

    def run(x):
        packed = ft.nn.utils.rnn.pack_padded_sequence(x, [2, 5, 1], enforce_sorted=False)
        return ft.nn.utils.rnn.pad_packed_sequence(net(packed)[0])[0]

    np.testing.assert_allclose(
        ft.compile(run)(x).detach().numpy(), run(x).detach().numpy(), rtol=1e-5, atol=1e-7
    )
    lengths = ft.tensor([5, 3, 2])
    with pytest.raises(NotImplementedError, match="list of ints"):
        ft.compile(lambda x, n: ft.nn.utils.rnn.pack_padded_sequence(x, n).data)(x, lengths)
