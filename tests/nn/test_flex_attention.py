"""`nn.attention`: the kernels' switches, and attention with functions for score and mask."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.attention.flex_attention
from compare import case, check_case, same, sample
from programs import cases, check

import functorch_port as ft

Q, K, V = sample(2, 2, 6, 4), sample(2, 2, 5, 4, seed=1), sample(2, 2, 5, 4, seed=2)

PRELUDE = """
A = torch.nn.attention
X = A.flex_attention
with torch.no_grad():
    bias = torch.tensor(np.random.default_rng(0).uniform(-1, 1, (2, 6, 5)))

def data(*shape, seed=0):
    return torch.tensor(np.random.default_rng([seed, *shape]).uniform(-2, 2, shape))

q, k, v = data(2, 2, 6, 4), data(2, 2, 5, 4, seed=1), data(2, 2, 5, 4, seed=2)
causal = lambda b, h, i, j: i >= j
near = lambda b, h, i, j: (i - j).abs() < 2
alibi = lambda s, b, h, i, j: s + (j - i) * (h + 1) * 0.5
block = X.create_block_mask(causal, 2, None, 6, 5, device="cpu", BLOCK_SIZE=2)
names = ["kv_num_blocks", "full_kv_num_blocks", "q_num_blocks", "full_q_num_blocks"]
aux = X.AuxRequest(lse=True, max_scores=True)
kernels = lambda: [int(b) for b in A._cur_sdpa_kernel_backends()]
"""

PROGRAMS = """
X.flex_attention(q, k, v, alibi, scale=0.3)
X.flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[h, i, j], block, return_lse=True)
X.flex_attention(q, k, v,
    block_mask=X.create_block_mask(lambda b, h, i, j: (i >= j) & (j > 0), None, None, 6, 5, "cpu"))
tuple(X.flex_attention(q, k, v, alibi, return_aux=X.AuxRequest(lse=True))[1])
X.flex_attention(q, k[:, :1], v[:, :1], alibi, enable_gqa=True)
X.flex_attention(q.bfloat16(), k.bfloat16(), v.bfloat16()).dtype
str(block), repr(block).replace("<lambda>", ""), block.shape, block.numel(), block.BLOCK_SIZE
block.sparsity()
block.to_dense(), block._adjust(4, 4).to_dense(), block[0].shape, block[:, :, 1].to_dense(), block[-1].to_dense()
[getattr(block, n) for n in names]
[getattr(X.create_block_mask(causal, 1, 1, 6, 5, "cpu", (3, 2), separate_full_blocks=False), n) for n in names]
str(X.create_block_mask(causal, 5, 1, 300, 200, "cpu"))
X.create_block_mask(X.and_masks(causal, near), 1, 1, 40, 40, "cpu", BLOCK_SIZE=8).to_string(3)
len(block.as_tuple()) > len(block.as_tuple(False)), block.to("cpu").to_dense(), block.to_dense()
X.create_mask(X.or_masks(causal, near), 1, None, 4, 4, "cpu")
X.create_mask(lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf")), 1, 1, 3, 3, "cpu")
X.create_block_mask(lambda s, b, h, i, j: s, 1, 1, 5, 5, "cpu")
X.flex_attention(q, k[..., :3], v)
X.flex_attention(q, k[:, :1], v[:, :1])
X.flex_attention(q[:1], k, v)
X.flex_attention(q, k, v, block_mask=X.create_block_mask(causal, 1, 1, 4, 5, "cpu"))
X.flex_attention(q, k, v, block_mask=X.create_block_mask(causal, 1, 1, 8, 5, "cpu"))
X.flex_attention(q, k, v, block_mask=block[0])
X.flex_attention(q, k, v, return_lse=True, return_aux=aux)
X.flex_attention(q[0], k[0], v[0])
with A.sdpa_kernel(A.SDPBackend.MATH): before = kernels()
    before
with A.sdpa_kernel([A.SDPBackend.FLASH_ATTENTION, A.SDPBackend.EFFICIENT_ATTENTION], True): before = sorted(kernels())
    before
A.sdpa_kernel("math").__enter__()
[repr(b) for b in (A.SDPBackend.MATH, A.SDPBackend.ERROR)],
    str(A.SDPBackend.CUDNN_ATTENTION), int(A.SDPBackend.OVERRIDEABLE)
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", cases(PROGRAMS))
def test_against_torch(code):
    same_text = (
        "start" if "lambda s" in code or "block[0])" in code else "same"
    )  # with the function's address
    with torch.no_grad(), ft.no_grad():
        check(code, PRELUDE, text=same_text)


def test_gradients():
    """PyTorch has none on the CPU: the same attention with a mask of numbers stands in."""
    bias = sample(2, 6, 5, seed=3)
    seen = torch.arange(6)[:, None] >= torch.arange(5)
    leaves = [t.clone().requires_grad_() for t in (Q, K, V, bias)]
    mask = leaves[3].masked_fill(~seen, -math.inf)
    want = torch.nn.functional.scaled_dot_product_attention(*leaves[:3], mask)
    want.square().sum().backward()
    ours = [ft.tensor(t.numpy(), requires_grad=True) for t in (Q, K, V, bias)]
    flex = ft.nn.attention.flex_attention
    block = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 6, 5)

    def attend(q, k, v):
        return flex.flex_attention(q, k, v, lambda s, b, h, i, j: s + ours[3][h, i, j], block)

    got = attend(*ours[:3])
    got.square().sum().backward()
    same(want, got)
    for a, b in zip(leaves, ours, strict=True):
        same(a.grad, b.grad)
    np.testing.assert_allclose(
        ft.compile(attend)(*ours[:3]).detach().numpy(), got.detach().numpy(), rtol=1e-12
    )


def test_a_row_that_sees_nothing_has_no_gradient():
    q = ft.ones(1, 1, 2, 2, requires_grad=True)
    flex = ft.nn.attention.flex_attention
    out = flex.flex_attention(q, q, q, lambda s, b, h, i, j: ft.where(i > 0, s, -math.inf))
    out.sum().backward()
    assert out[0, 0, 0].tolist() == [0.0, 0.0] and np.isfinite(q.grad.numpy()).all()


def test_indexing_a_captured_tensor_inside_vmap():
    w = torch.tensor([1.0, 2.0, 3.0])
    index, rows = torch.arange(3), torch.ones(2, 3)
    for T, to in ((torch, lambda t: t), (ft, lambda t: ft.tensor(t.numpy()))):
        leaf = to(w.clone()).requires_grad_()
        T.vmap(lambda i, leaf=leaf: leaf[i] * 2)(to(index)).sum().backward()
        T.vmap(T.vmap(lambda x, leaf=leaf: x * leaf[0]))(to(rows)).sum().backward()
        assert leaf.grad.tolist() == [8.0, 2.0, 2.0]
    check_case(case("torch.nn.functional.scaled_dot_product_attention", Q, K, V))
