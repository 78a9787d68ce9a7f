"""Attention and the Transformer against torch: values, gradients, masks of all kinds, initial numbers, errors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from compare import case, check_case, sample
from nn_programs import MODULE_RUN
from programs import cases, check

import functorch_port as ft

f32, f64, f16, bf16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
Q, K, V = sample(2, 4, 3, 8), sample(2, 4, 5, 8, seed=1), sample(2, 4, 5, 6, seed=2)
MAY = sample(3, 5, seed=3) > 0
MAY[1] = False  # a query that may look nowhere
NUMBERS = sample(2, 1, 3, 5, seed=4)
MINUS = torch.zeros(3, 5, dtype=f64).masked_fill(~MAY, -torch.inf)


def S(*args, **kwargs):
    return case("torch.nn.functional.scaled_dot_product_attention", *args, **kwargs)


def cast(dtype, *tensors):
    return [t.to(dtype) for t in tensors]


ATTENTION = [
    S(Q, K, V),
    S(Q, K, V, attn_mask=MAY),
    S(Q, K, V, attn_mask=NUMBERS),
    S(Q, K, V, MINUS, _first=True),
    S(Q, K, V, is_causal=True),
    S(K, Q, Q, is_causal=True),
    S(Q, K, V, scale=0.3),
    S(Q[0, 0], K[0, 0], V[0, 0]),
    S(Q[0], K[0], V[0], attn_mask=MAY),
    S(Q, K[:1], V[:, :1]),
    S(Q, K[:, :2], V[:, :2], enable_gqa=True),
    S(Q, K[:, :1], V[:, :2], attn_mask=MAY, enable_gqa=True),
    S(*cast(f32, Q, K, V), attn_mask=MAY),
    *(S(*cast(d, Q, K, V), is_causal=True, _grad=False) for d in (f16, bf16)),
    S(Q, K[:, :, :0], V[:, :, :0], _grad=False),
    S(Q, K, V, dropout_p=1.0, _grad=False),
    S(Q, K, V, dropout_p=-0.5, _grad=False),
    # errors
    S(Q, K, V.float()),
    S(Q[0, 0, 0], K, V),
    S(Q, K, V, attn_mask=MAY, is_causal=True),
    S(Q, K, V, attn_mask=MAY.long()),
    S(Q, K, V, attn_mask=torch.ones(4, 5, dtype=torch.bool)),
    S(Q, K[:, :2], V[:, :2]),
    S(Q, K[:, :3], V[:, :3], enable_gqa=True),
    S(Q, K[..., :4], V),
    S(Q, K, V[:, :, :3]),
    S(Q, K, V, dropout_p=1.5),
    S(Q.long(), K.long(), V.long()),
    S(Q[0, 0], K[0, 0], V[0, 0], enable_gqa=True),
    S(Q, K, 1),
]


@pytest.mark.parametrize("c", ATTENTION, ids=str)
def test_scaled_dot_product_attention(c):
    check_case(c)


PRELUDE = (
    MODULE_RUN
    + """
x, y, z = data(5, 3, 8), data(4, 3, 8, seed=1), data(4, 3, 6, seed=2)
padding = torch.tensor([[False] * 5, [False, False, False, True, True], [False] * 4 + [True]])
causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
some = torch.tensor(np.random.default_rng(0).uniform(0, 1, (6, 5, 5)) > 0.7)
some[:, :, 0] = False
A, E, D = nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer
"""
)

MODULES = """
run(lambda: A(8, 2), x, x, x)
run(lambda: A(8, 2, bias=False, batch_first=True), x, x, x, average_attn_weights=False)
run(lambda: A(8, 2), y, x, x, key_padding_mask=padding)
run(lambda: A(8, 2), x, x, x, attn_mask=some, key_padding_mask=padding, need_weights=False)
run(lambda: A(8, 2), x, x, x, attn_mask=causal, need_weights=False, is_causal=True)
run(lambda: A(8, 2), x, x, x, attn_mask=causal, is_causal=True)
run(lambda: A(8, 2, add_bias_kv=True, add_zero_attn=True), x, x, x, attn_mask=some, key_padding_mask=padding)
run(lambda: A(8, 4, add_bias_kv=True, add_zero_attn=True), x, x, x, need_weights=False)
run(lambda: A(8, 2, kdim=8, vdim=6), x, y, z)
run(lambda: A(8, 2), y, y.clone(), y.clone(), need_weights=False)
run(lambda: A(8, 2), x[:, 0], y[:, 0], y[:, 0], attn_mask=some[:2, :, :4])
run(lambda: A(8, 2), x[:, 0], x[:, 0], x[:, 0], key_padding_mask=padding[1])
run(lambda: A(8, 2, dropout=0.4), x, x, x)
run(lambda: A(8, 2, dropout=0.4), x, x, x, need_weights=False)
run(lambda: A(8, 2, dropout=0.4), x, x, x, train=False)
repr(A(8, 2)), list(A(8, 2, kdim=4, add_bias_kv=True).state_dict()), A(8, 2).merge_masks(causal, padding.double(),
    x.transpose(0, 1))
A(8, 2).double()(x[:, :0], x[:, :0], x[:, :0], need_weights=False)[0].shape
A(8, 2).double()(x[:, :0], x[:, :0], x[:, :0])[1].shape
nn.Transformer(8, 2, 1, 1, 8, 0.0).double()(x[:, :0], x[:, :0]).shape
A(8, 3)
A(0, 3)
A(8, 2)(x[0, 0], x, x)
A(8, 2)(x, x[0], x)
A(8, 2)(x[0], x, x)
A(8, 2).double()(x, x, x, attn_mask=causal[:4])
A(8, 2).double()(x, x, x, attn_mask=some[:5])
A(8, 2).double()(x, x, x, attn_mask=causal.long())
A(8, 2).double()(x, x, x, key_padding_mask=padding[:2])
A(8, 2).double()(x, x, x, key_padding_mask=padding[0])
A(8, 2).double()(x, x, x, is_causal=True)
A(6, 2).double()(x, x, x)
A(8, 2).double()(x, y, x)
run(lambda: E(8, 2, 16, dropout=0.0), x, src_mask=causal, is_causal=True)
run(lambda: E(8, 2, 16, activation="gelu", norm_first=True, bias=False), x, src_key_padding_mask=padding)
run(lambda: E(8, 2, 16, activation=torch.tanh, batch_first=True), x[:, 0], train=False)
run(lambda: E(8, 2, 16, batch_first=True), x, train=False, grad=False)
run(lambda: D(8, 2, 16), x, y, tgt_mask=causal, tgt_is_causal=True)
run(lambda: D(8, 2, 16, norm_first=True, batch_first=True, bias=False), x.transpose(0, 1), y.transpose(0, 1),
    train=False)
run(lambda: D(8, 2, 16), x, y, tgt_key_padding_mask=padding, memory_key_padding_mask=padding[:, :4])
E(8, 2, activation="x")
run(lambda: nn.TransformerEncoder(E(8, 2, 16, batch_first=True), 2, nn.LayerNorm(8)), x.transpose(0, 1),
    src_key_padding_mask=padding, train=False, grad=False)
run(lambda: nn.TransformerEncoder(E(8, 2, 16, batch_first=True), 2), x.transpose(0, 1),
    src_key_padding_mask=padding.flip(1), train=False, grad=False)
run(lambda: nn.TransformerEncoder(E(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False), x.transpose(0, 1),
    src_key_padding_mask=padding, train=False, grad=False)
run(lambda: nn.TransformerEncoder(E(8, 2, 16), 2), x, mask=causal, src_key_padding_mask=padding)
run(lambda: nn.Transformer(8, 2, 1, 2, 16, dropout=0.2), x, y, tgt_mask=causal[:4, :4], src_key_padding_mask=padding)
run(lambda: nn.Transformer(8, 2, 1, 1, 16, norm_first=True, batch_first=True, bias=False), x.transpose(0, 1),
    y.transpose(0, 1), tgt_mask=causal[:4, :4], train=False)
nn.Transformer(8, 2, 1, 1, 16).double()(x, y[:, :2])
nn.Transformer(4, 2, 1, 1, 16).double()(x, y)
repr(nn.Transformer(8, 2, 1, 1, 16)).replace("functorch_port", "torch"), causal,
    nn.Transformer.generate_square_subsequent_mask(2)
[p.shape for p in nn.Transformer(8, 2, 1, 1, custom_encoder=nn.Identity()).parameters()]
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", cases(MODULES))
def test_modules(code):
    check(code, PRELUDE, tol=1e-10)


@pytest.mark.parametrize("compiled", [False, True])
def test_weight_on_one_place_has_no_slope(compiled):
    """Also where XLA may compute a product and a difference in one, as with heads of one number."""
    rng = np.random.default_rng(0)
    q, k, v = (40 * rng.standard_normal((2, 4, 5, 1)).astype(np.float32) for _ in range(3))
    q = np.sign(q) * (np.abs(q) + 900)  # all the weight on the largest key, or on the smallest

    def step(q, k, v):
        (ft.nn.functional.scaled_dot_product_attention(q, k, v) * v).sum().backward()
        return q.grad, k.grad

    leaves = [ft.tensor(x, requires_grad=True) for x in (q, k, v)]
    for grad in (ft.compile(step) if compiled else step)(*leaves):
        assert not grad.numpy().any()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float64", 1e-14), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("batch", [(), (3, 2)])
def test_products_of_one_number_each_to_second_order(batch, dtype, tolerance, compiled):
    """They are rounded by an operation of its own, on a CPU."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((*batch, *shape)) for shape in ((5, 1), (1, 4), (5, 4))]

    def run(T, a, b, slope):
        out = a @ b
        grads = T.autograd.grad(out - out.detach().mean(), [a, b], slope, create_graph=True)
        again = T.autograd.grad(sum((g * g).sum() for g in grads), [a, b, slope])
        return (out, *grads, *again)

    found = []
    for T in (ft, torch):
        leaves = [T.tensor(x, dtype=getattr(T, dtype), requires_grad=True) for x in arrays]
        fn = partial(run, T)
        found.append((ft.compile(fn) if compiled and T is ft else fn)(*leaves))
    for got, want in zip(*found, strict=True):
        want = want.detach().double().numpy()
        np.testing.assert_allclose(
            got.detach().double().numpy(), want, tolerance, tolerance * np.abs(want).max()
        )
