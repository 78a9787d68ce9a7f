"""Names of `torch.nn` that are seldom used: CrossMapLRN2d, nn.attention.bias, nn.grad, grouped_mm, refused ones."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import torch
from nn_programs import same, tries
from twins import plain

import functorch_port as ft


@pytest.mark.parametrize(("channels", "size"), [(3, 5), (7, 3), (6, 4), (1, 3), (4, 1)])
def test_cross_map_lrn(channels, size):
    values = np.random.default_rng(0).standard_normal((2, channels, 2, 3))

    def program(T):
        layer = T.nn.CrossMapLRN2d(size, alpha=0.5, k=2)
        return repr(layer), plain(layer(T.tensor(values))), tries(lambda: layer(T.ones(2, 2)))

    same(program, 1e-12)


def test_cross_map_lrn_gradient():
    """Against differences: PyTorch's backward pass is not that of its forward pass."""
    x = ft.tensor(np.random.default_rng(0).standard_normal((1, 5, 2, 2)), requires_grad=True)
    assert ft.autograd.gradcheck(ft.nn.CrossMapLRN2d(3, alpha=0.5), (x,))


@pytest.mark.parametrize(("queries", "keys"), [(3, 5), (5, 5), (5, 3)])
def test_causal_bias(queries, keys):
    """As PyTorch's attention with the mask that the bias stands for."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 2, 5, 4))
    q, k, v = q[..., :queries, :], k[..., :keys, :], v[..., :keys, :]
    bias = ft.nn.attention.bias
    made = {0: bias.causal_upper_left(queries, keys)}
    if queries <= keys:
        made[keys - queries] = bias.causal_lower_right(queries, keys)
    for offset, mask in made.items():
        whole = np.tril(np.ones((queries, keys), bool), offset)
        ours = ft.nn.functional.scaled_dot_product_attention(*map(ft.tensor, (q, k, v)), mask)
        theirs = torch.nn.functional.scaled_dot_product_attention(
            *map(torch.tensor, (q, k, v)), torch.tensor(whole)
        )
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-14)
        assert isinstance(mask, ft.Tensor) and repr(mask) == repr(ft.tensor(whole))
        assert (mask.seq_len_q, mask.seq_len_kv, mask._materialize().shape) == (
            queries,
            keys,
            (queries, keys),
        )


def test_causal_bias_errors():
    bias, x = ft.nn.attention.bias, ft.ones(1, 2, 3)
    with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
        ft.nn.functional.scaled_dot_product_attention(x, x, x, bias.causal_upper_left(2, 2), is_causal=True)
    with pytest.raises(AssertionError, match="causal_upper_left only supports 2D tensors"):
        bias.causal_upper_left(3)
    with pytest.raises(AssertionError, match="variant must be a CausalVariant, got int"):
        bias.CausalBias(1, 2, 3)
    with pytest.warns(UserWarning, match="Lower right causal bias will produce NaNs"):
        bias.causal_lower_right(3, 2)


def test_functions():
    x, w, b = (np.random.default_rng(0).standard_normal(shape) for shape in ((5, 2, 3), (3, 3, 4), (4,)))

    def program(T):
        F, t = T.nn.functional, T.tensor
        y = t([-1.0, 2.0])
        return plain([F.conv_tbc(t(x), t(w), t(b), 1), F.rrelu_(y, 0.1, 0.3), y])

    same(program, 1e-12)
    attention = ft.nn.attention
    assert attention.list_flash_attention_impls() == [] and attention.current_flash_attention_impl() is None
    attention.restore_flash_attention_impl()
    for refused in (attention.activate_flash_attention_impl, attention.register_flash_attention_impl):
        with pytest.raises(NotImplementedError, match="XLA chooses"):
            refused("FA4")


#: what `torch.nn.functional` uses itself
HELPERS = ("Tensor", "assert_int_or_pair", "boolean_dispatch")


def test_public_names():
    for name in ("nn", "nn.functional", "nn.utils", "nn.init", "nn.attention", "nn.attention.bias"):
        theirs, ours = (
            importlib.import_module(f"torch.{name}"),
            importlib.import_module(f"functorch_port.{name}"),
        )
        public = getattr(theirs, "__all__", None) or [
            n
            for n, v in vars(theirs).items()
            if callable(v) and n[0] != "_" and "torch" in str(getattr(v, "__module__", None))
        ]
        gone = [n for n in public if n not in HELPERS and not hasattr(ours, n)]
        assert len(public) >= 4 and gone == [], name


@pytest.mark.parametrize(
    ("left", "right", "ends"),
    [
        ((4, 8), (3, 8, 16), [2, 2, 4]),
        ((2, 8, 16), (16, 24), [8, 24]),
        ((16, 32), (32, 8), [8, 32]),
        ((2, 8, 16), (2, 16, 8), None),
    ],
)
def test_grouped_mm(left, right, ends):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(left).astype("f4"), rng.standard_normal(right).astype("f4")

    def program(T):
        x, y = (T.tensor(v).requires_grad_() for v in (a, b))
        out = T.nn.functional.grouped_mm(x, y, offs=None if ends is None else T.tensor(ends, dtype=T.int32))
        weights = T.linspace(-1, 1, out.numel()).reshape(out.shape)
        return plain(out), [plain(g) for g in T.autograd.grad(out, (x, y), weights)]

    same(program, 1e-5)


def test_grouped_mm_errors():
    def program(T):
        rows, matrices, ends = T.ones(4, 8), T.ones(2, 8, 16), T.tensor([2, 4], dtype=T.int32)
        mm = T.nn.functional.grouped_mm
        return tries(
            lambda: mm(rows, matrices),
            lambda: mm(matrices, matrices.mT, offs=ends),
            lambda: mm(rows, matrices, offs=ends.long()),
            lambda: mm(rows, matrices, offs=ends[None]),
            lambda: mm(rows, matrices, offs=ends[:1]),
            lambda: mm(rows, matrices, offs=ends, bias=T.ones(16)),
            lambda: mm(rows, matrices, offs=ends, out_dtype=T.bfloat16),
            lambda: mm(rows, matrices.mT, offs=ends),
            lambda: mm(rows[0], matrices, offs=ends),
            lambda: mm(rows, matrices.double(), offs=ends),
            lambda: mm(matrices, T.ones(3, 16, 8)),
        )

    same(program)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_convolutions(n):
    def program(T):
        x = T.linspace(-1, 1, 8 * 7**n, dtype=T.double).reshape(2, 4, *(7,) * n)
        weight = T.linspace(-2, 1, 12 * 3**n, dtype=T.double).reshape(6, 2, *(3,) * n).requires_grad_()
        out = getattr(T.nn.functional, f"conv{n}d")(x, weight, None, 2, 1, 1, 2)
        above = out.detach().cumsum(-1).requires_grad_()
        of_input = getattr(T.nn.grad, f"conv{n}d_input")(x.shape, weight, above, 2, 1, 1, 2)
        of_weight = getattr(T.nn.functional.grad, f"conv{n}d_weight")(x, weight.shape, above, 2, 1, 1, 2)
        second = T.autograd.grad(of_input.square().sum() + of_weight.sin().sum(), (above, weight))
        return [plain(t) for t in (of_input, of_weight, *second)]

    same(program, 1e-9)


def test_names_for_other_libraries():
    def program(T):
        nn, F = T.nn, T.nn.functional
        with pytest.warns(FutureWarning) as warned:
            container = nn.Container(a=nn.Linear(1, 1))
        with pytest.warns(UserWarning, match="will be deprecated"):
            number = nn._reduction.legacy_get_enum(None, False)
        x = T.ones(2, 3, 4)
        return [
            repr(container),
            str(warned[0].message),
            number,
            nn._reduction.legacy_get_string(False, None, False),
            [F._Reduction.get_enum(r) for r in ("none", "mean", "sum")],
            repr(nn.modules.transformer._get_clones(nn.Linear(1, 1), 2)),
            plain(F._canonical_mask(T.tensor([True, False]), "m", None, "", T.float32)),
            F._mha_shape_check(x, x, x, None, None, 2),
            [tuple(p.shape) for p in F._in_projection_packed(x, x, x, T.ones(12, 4))],
            nn.modules.conv._pair(3),
            nn.modules.conv._reverse_repeat_tuple((1, 2), 2),
            nn.modules.conv.LazyConv2d is nn.LazyConv2d,
            nn.modules.pooling.MaxUnpool2d is nn.MaxUnpool2d,
            importlib.import_module(f"{T.__name__}.nn.common_types")._size_2_t == int | tuple[int, int],
            nn.factory_kwargs(None),
            sorted(nn.factory_kwargs({"factory_kwargs": {"dtype": 1}, "device": 2}).items()),
            *tries(
                lambda: nn.factory_kwargs({"weight": 1}),
                lambda: nn.factory_kwargs({"factory_kwargs": {"dtype": 1}, "dtype": 2}),
                lambda: nn._reduction.get_enum("max"),
                lambda: F._verify_batch_size([1, 3, 1]),
            ),
        ]

    same(program)


@pytest.mark.parametrize(
    ("call", "way_round"),
    [
        (lambda nn: nn.functional.scaled_mm(None, None), "bfloat16"),
        (lambda nn: nn.functional.scaled_grouped_mm(None, None), "grouped_mm"),
        (lambda nn: nn.quantized.Linear, "bfloat16"),
        (lambda nn: nn.parallel.replicate(None, []), "sharding"),
        (
            lambda nn: importlib.import_module(f"{nn.__name__}.attention.varlen").varlen_attn(),
            "flex_attention",
        ),
    ],
)
def test_refused_by_name(call, way_round):
    with pytest.raises(NotImplementedError, match=way_round):
        call(ft.nn)
