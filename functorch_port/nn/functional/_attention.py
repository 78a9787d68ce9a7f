"""Scaled dot-product attention and multi-head attention."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ..._array import tracing
from ..._base import contexts
from ..._base.device import platform
from ..._run import autocast
from ..._run.bind import function
from ..._tensor.creation import zeros, zeros_like
from ..._tensor.tensor import Tensor, wrap
from ...ops._common import broadcast_shapes
from ...ops._fused_attention import Kernel, kernel_for
from ...ops.random import dropout_mask
from ._activation import softmax
from ._causal_bias import CausalBias, CausalVariant
from ._common import require_tensor
from ._conv import linear, pad
from ._dropout import dropout

_attention, _cat, _baddbmm, _bmm = (
    function("_scaled_dot_product_attention"),
    function("cat"),
    function("baddbmm"),
    function("bmm"),
)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Scaled dot-product attention: ``softmax(query @ key.T * scale) @ value``.

    A query that may attend to no key gets zeros.

    Args:
        query: (..., L, E).
        key: (..., S, E).
        value: (..., S, Ev).
        attn_mask: broadcasts to (..., L, S). A bool mask is True where a query may attend; a float mask is added
            to the scores.
        dropout_p: dropout probability of the attention weights; always applied, so pass 0 in evaluation.
        is_causal: query ``i`` attends to keys ``0`` to ``i`` only; excludes ``attn_mask``.
        scale: factor of the scores; default ``1 / sqrt(E)``.
        enable_gqa: grouped-query attention: the number of key and value heads (dimension -3) may divide the query's.

    Shape:
        (..., L, Ev).

    Raises:
        RuntimeError: if types or shapes do not match, or both ``attn_mask`` and ``is_causal`` are given.

    Example:
        >>> import functorch_port as torch
        >>> x = torch.tensor([[[1., 0.], [0., 1.]]])
        >>> torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)[0, 0]
        tensor([1., 0.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    """
    for position, (name, tensor) in enumerate((("query", query), ("key", key), ("value", value)), 1):
        require_tensor("scaled_dot_product_attention", name, position, tensor)
    if isinstance(attn_mask, CausalBias):
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        if attn_mask.variant is CausalVariant.UPPER_LEFT or attn_mask.seq_len_q == attn_mask.seq_len_kv:
            attn_mask, is_causal = None, True
    if dropout_p > 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p:g}")
    if contexts.state.attention is not None:
        other = contexts.state.attention
        return other(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)  # type: ignore[no-any-return]
    keep = None
    if dropout_p > 0:
        shape = (
            *broadcast_shapes(query.shape[:-2], _heads(key, query, enable_gqa)),
            query.size(-2),
            key.size(-2),
        )
        keep = (
            wrap(dropout_mask(shape, dropout_p, query.dtype))
            if dropout_p < 1
            else zeros((), dtype=query.dtype)
        )
    kernel = None
    if attn_mask is None and keep is None and (contexts.state.platform or platform()) != "cpu":
        kernel = _kernel(query, key, value, is_causal, enable_gqa)
    return _attention(
        query,
        key,
        value,
        attn_mask,
        keep,
        float(dropout_p) if keep is not None else 0.0,
        is_causal,
        scale,
        enable_gqa,
        kernel,
    )


def _kernel(query: Tensor, key: Tensor, value: Tensor, is_causal: bool, enable_gqa: bool) -> Kernel | None:
    """The kernel that the devices have which the program is for; None without one for such tensors."""
    kind = autocast.platform() or query.device.type
    types = {autocast.lower_type(t.dtype, kind) for t in (query, key, value)}
    if len(types) > 1 or min(query.ndim, key.ndim, value.ndim) < 2:
        return None
    shapes = (tuple(query.shape), tuple(key.shape), tuple(value.shape))
    found = kernel_for(kind, types.pop(), *shapes, is_causal, enable_gqa)
    if found is None or not _is_several(query, key, value):
        return found
    # XLA splits no kernel over devices: it must be known how the batch is split
    is_mapped = tracing.overlay and tracing.overlay.transforms and not tracing.overlay.is_reverse
    split = contexts.state.split
    return None if split is None or is_mapped else found.over(*split, shapes[0])


def _is_several(*tensors: Tensor) -> bool:
    """Whether a program of these is for several devices, or a transform maps it."""
    if tracing.overlay:
        return not tracing.overlay.kernels
    return any(len(getattr(getattr(t._look(), "sharding", None), "device_set", ())) > 1 for t in tensors)


def _heads(key: Tensor, query: Tensor, grouped: bool) -> tuple[int, ...]:
    """The batch dimensions of the keys after their heads are repeated."""
    return (*key.shape[:-3], query.shape[-3]) if grouped else tuple(key.shape[:-2])


# ------------------------------------------------------------------ several heads


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: Any,
    other_name: str,
    target_type: Any,
    check_other: bool = True,
) -> Tensor | None:
    """A module's mask (bool: True where attention is not allowed) as a float mask to add to the scores."""
    if mask is None:
        return None
    floating = mask.is_floating_point()
    if mask.dtype.name != "bool" and not floating:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    return mask if floating else zeros_like(mask, dtype=target_type).masked_fill(mask, -math.inf)


def _mha_shape_check(
    query: Tensor, key: Tensor, value: Tensor, padding: Any, mask: Any, num_heads: int
) -> bool:
    """Whether there is a batch dimension; raises PyTorch's errors for wrong ranks."""
    batched = query.ndim == 3
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    start = f"For {'batched (3-D)' if batched else 'unbatched (2-D)'} `query`, expected"
    if not key.ndim == value.ndim == query.ndim:
        found = f"but found {key.ndim}-D and {value.ndim}-D tensors respectively"
        raise AssertionError(f"{start} `key` and `value` to be {query.ndim}-D {found}")
    if padding is not None and padding.ndim != query.ndim - 1:
        found = f"but found {padding.ndim}-D tensor instead"
        raise AssertionError(f"{start} `key_padding_mask` to be `None` or {query.ndim - 1}-D {found}")
    if mask is not None and mask.ndim not in (2, 3):
        raise AssertionError(
            f"{start} `attn_mask` to be `None`, 2-D or 3-D but found {mask.ndim}-D tensor instead"
        )
    if mask is not None and not batched and mask.ndim == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {mask.shape}")
    return batched


def _check_mask(mask: Tensor, bsz: int, num_heads: int, tgt_len: int, src_len: int) -> Tensor:
    """The mask with a dimension for batch and heads."""
    if mask.ndim not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask.ndim} is not supported")
    expected = (tgt_len, src_len) if mask.ndim == 2 else (bsz * num_heads, tgt_len, src_len)
    if tuple(mask.shape) != expected:
        raise RuntimeError(
            f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {expected}."
        )
    return mask.unsqueeze(0) if mask.ndim == 2 else mask


def _in_projection_packed(
    query: Tensor, key: Tensor, value: Tensor, weight: Any, bias: Any = None
) -> tuple[Tensor, ...]:
    """Project query, key and value with the three parts of one weight; equal tensors share one product."""
    if weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    e = query.size(-1)
    if key is value and query is key:
        return linear(query, weight, bias).chunk(3, -1)
    if key is value:
        weights, biases = weight.split([e, 2 * e]), (None, None) if bias is None else bias.split([e, 2 * e])
        return linear(query, weights[0], biases[0]), *linear(key, weights[1], biases[1]).chunk(2, -1)
    weights, biases = weight.chunk(3), (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))


def _separate_projection(
    tensors: tuple[Tensor, ...], given: tuple[Tensor | None, ...], bias: Tensor | None
) -> tuple[Tensor, ...]:
    e = tensors[0].size(-1)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    weights = [weight for weight in given if weight is not None]
    if len(weights) < 3:
        missing = next(letter for letter, weight in zip("qkv", given, strict=True) if weight is None)
        raise AssertionError(f"use_separate_proj_weight is True but {missing}_proj_weight is None")
    for name, x, weight in zip(("query", "key", "value"), tensors, weights, strict=True):
        if tuple(weight.shape) != (e, x.size(-1)):
            raise AssertionError(
                f"expecting {name} weights shape of {(e, x.size(-1))}, but got {weight.shape}"
            )
    return tuple(linear(x, w, b) for x, w, b in zip(tensors, weights, biases, strict=True))


def _split_heads(x: Tensor, rows: int, head_dim: int) -> Tensor:
    """(L, N, E) as (N * heads, L, head_dim)."""
    return x.reshape(x.shape[0], rows, head_dim).transpose(0, 1)


def _static(name: str, given: Tensor, rows: int, head_dim: int) -> Tensor:
    if given.size(0) != rows:
        raise AssertionError(f"expecting {name}.size(0) of {rows}, but got {given.size(0)}")
    if given.size(2) != head_dim:
        raise AssertionError(f"expecting {name}.size(2) of {head_dim}, but got {given.size(2)}")
    return given


def _longer(mask: Tensor | None) -> Tensor | None:
    """The mask with one more key that every query may attend to."""
    return None if mask is None else pad(mask, (0, 1))


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Multi-head attention, as in `nn.MultiheadAttention`, which documents the remaining arguments.

    Args:
        query: (L, N, E) or (L, E).
        key, value: (S, N, E) or (S, E).
        in_proj_weight, in_proj_bias: (3E, E) and (3E), the stacked projections of query, key and value.
        bias_k, bias_v: (1, 1, E), appended as one more key and value.
        out_proj_weight, out_proj_bias: (E, E) and (E).
        use_separate_proj_weight: use ``q_proj_weight``, ``k_proj_weight``, ``v_proj_weight`` instead.
        static_k, static_v: (N * heads, S, E / heads), replace the projected keys and values.

    Shape:
        (L, N, E) and the attention weights: (N, L, S), or (N, heads, L, S) without averaging; None unless
        ``need_weights``.

    Raises:
        AssertionError, RuntimeError: if shapes do not match.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
    """
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same_kv, same_qk = key is value, query is key
        query = query.unsqueeze(1)
        key = query if same_qk else key.unsqueeze(1)
        value = key if same_kv else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    tgt_len, bsz, embed_dim = query.shape
    src_len = key.shape[0]
    mask_type = None if attn_mask is None else attn_mask.dtype
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", mask_type, "attn_mask", query.dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    is_causal = is_causal and key_padding_mask is None and not need_weights
    attn_mask = None if is_causal else _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)

    head_dim, rows = embed_dim // num_heads, bsz * num_heads
    if embed_dim != embed_dim_to_check:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}"
        )
    if head_dim * num_heads != embed_dim:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if key.shape[:2] != value.shape[:2]:
            found = f"{key.shape[:2]} do not match value's {value.shape[:2]}"
            raise AssertionError(f"key's sequence and batch dims {found}")
        separate = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _separate_projection((query, key, value), separate, in_proj_bias)
    else:
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        q, k, v = _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)
    if attn_mask is not None:
        attn_mask = _check_mask(attn_mask, bsz, num_heads, tgt_len, src_len)

    if bias_k is not None and bias_v is not None:
        if static_k is not None:
            raise AssertionError("bias cannot be added to static key.")
        if static_v is not None:
            raise AssertionError("bias cannot be added to static value.")
        k, v = _cat([k, bias_k.repeat(1, bsz, 1)]), _cat([v, bias_v.repeat(1, bsz, 1)])
        attn_mask, key_padding_mask = _longer(attn_mask), _longer(key_padding_mask)
    elif bias_k is not None or bias_v is not None:
        raise AssertionError(
            "bias_k is set but bias_v is None" if bias_v is None else "bias_v is set but bias_k is None"
        )
    q = _split_heads(q, rows, head_dim)
    k = _split_heads(k, rows, head_dim) if static_k is None else _static("static_k", static_k, rows, head_dim)
    v = _split_heads(v, rows, head_dim) if static_v is None else _static("static_v", static_v, rows, head_dim)
    if add_zero_attn:
        nothing = zeros((rows, 1, head_dim), dtype=k.dtype, device=k.device)
        k, v = _cat([k, nothing], dim=1), _cat([v, nothing], dim=1)
        attn_mask, key_padding_mask = _longer(attn_mask), _longer(key_padding_mask)
    src_len = k.size(1)
    if key_padding_mask is not None:
        padding = _padding_for_heads(key_padding_mask, bsz, num_heads, src_len)
        attn_mask = padding if attn_mask is None else attn_mask + padding

    dropout_p = dropout_p if training else 0.0
    if need_weights:
        out, weights = _attend_with_weights(q, k, v, attn_mask, dropout_p)
        out = out.transpose(0, 1)
    else:
        if attn_mask is not None:
            attn_mask = (
                attn_mask.unsqueeze(0)
                if attn_mask.size(0) == 1
                else attn_mask.reshape(bsz, num_heads, attn_mask.size(1), src_len)
            )
        q, k, v = (x.reshape(bsz, num_heads, x.size(1), head_dim) for x in (q, k, v))
        out = scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal).permute(2, 0, 1, 3)
    out = linear(out.reshape(tgt_len * bsz, embed_dim), out_proj_weight, out_proj_bias)
    out = out.reshape(tgt_len, bsz, out.size(1))
    out = out if batched else out.squeeze(1)
    if not need_weights:
        return out, None
    weights = weights.reshape(bsz, num_heads, tgt_len, src_len)
    weights = weights.mean(dim=1) if average_attn_weights else weights
    return out, weights if batched else weights.squeeze(0)


def _padding_for_heads(padding: Tensor, bsz: int, num_heads: int, src_len: int) -> Tensor:
    for i, expected in enumerate((bsz, src_len)):
        if padding.shape[i] != expected:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{i}] to be {expected}, but got {padding.shape[i]}"
            )
    padding = padding.reshape(bsz, 1, 1, src_len).expand(-1, num_heads, -1, -1)
    return padding.reshape(bsz * num_heads, 1, src_len)


def _attend_with_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Any, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """The attention output and the attention weights."""
    scaled, transposed = q * math.sqrt(1.0 / q.size(-1)), k.transpose(-2, -1)
    scores = _bmm(scaled, transposed) if mask is None else _baddbmm(mask, scaled, transposed)
    weights = softmax(scores, dim=-1)
    if dropout_p > 0:
        weights = dropout(weights, p=dropout_p)
    return _bmm(weights, v), weights
