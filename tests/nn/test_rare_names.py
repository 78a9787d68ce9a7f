"""Names of `torch.nn` that are seldom used: CrossMapLRN2d, nn.attention.bias."""

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


def test_public_names():
    for name in ("nn", "nn.functional", "nn.utils", "nn.init", "nn.attention", "nn.attention.bias"):
        theirs, ours = (
            importlib.import_module(f"torch.{name}"),
            importlib.import_module(f"functorch_port.{name}"),
        )
        public = getattr(theirs, "__all__", [])
        assert [n for n in public if not hasattr(ours, n)] == [], name
