"""Multi-head attention."""

from __future__ import annotations

from typing import Any

from ..._base import contexts
from ..._tensor.creation import empty
from ..._tensor.tensor import Tensor
from .. import functional as F
from .. import init
from .._module import Module
from ..functional._attention import _canonical_mask
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Multi-head attention: each head attends with its own projections of query, key and value.

    Args:
        embed_dim: size of the query and of the output; split among the heads.
        num_heads: number of heads.
        dropout: dropout probability of the attention weights.
        bias: whether the projections have biases.
        add_bias_kv: append a learned key and value.
        add_zero_attn: append a key and a value of zeros.
        kdim, vdim: sizes of keys and values; default ``embed_dim``.
        batch_first: inputs and outputs are (N, L, E) rather than (L, N, E).
        device, dtype: of the parameters.

    Shape:
        query (L, N, E), key (S, N, kdim) and value (S, N, vdim), or without N, to (L, N, E) and the attention
        weights (N, L, S).

    Raises:
        ValueError: if ``embed_dim`` or ``num_heads`` is not positive.
        AssertionError: if ``embed_dim`` is not a multiple of ``num_heads``.

    Example:
        >>> import functorch_port as torch
        >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        >>> x = torch.ones(3, 5, 8)
        >>> out, weights = attention(x, x, x)
        >>> out.shape, weights.shape
        (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
    """

    __module__ = "functorch_port.nn.modules.activation"  # PyTorch's, which pickles say

    __constants__ = ["batch_first"]

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0,"
                f" got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def parameter(*shape: int) -> Parameter:
            return Parameter(empty(shape, device=device, dtype=dtype))

        separate = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * embed_dim, embed_dim)
            for name in separate:
                self.register_parameter(name, None)
        else:
            for name, size in separate.items():
                setattr(self, name, parameter(embed_dim, size))
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.bias_k: Parameter | None = None
        self.bias_v: Parameter | None = None
        if add_bias_kv:
            self.bias_k, self.bias_v = parameter(1, 1, embed_dim), parameter(1, 1, embed_dim)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The attention output and the attention weights.

        Args:
            query, key, value: see the class.
            key_padding_mask: (N, S); True (or -inf) at keys to ignore.
            need_weights: whether to return the weights; False is faster, and returns None for them.
            attn_mask: (L, S) or (N * heads, L, S); True (or -inf) where a query may not attend.
            average_attn_weights: whether to average the weights over the heads; else they are (N, heads, L, S).
            is_causal: a hint that ``attn_mask`` is the causal mask, so that it need not be read.
        """
        mask_type = None if attn_mask is None else attn_mask.dtype
        key_padding_mask = _canonical_mask(
            key_padding_mask, "key_padding_mask", mask_type, "attn_mask", query.dtype
        )
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        turned = self.batch_first and query.ndim == 3
        if contexts.state.joined and not turned:
            contexts.state.check_batch_first("MultiheadAttention", query)
        if turned:
            query, key, value = _turned(query, key, value)
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return out.transpose(1, 0) if turned else out, weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both float masks merged into one (N, heads, L, S), and its type: 1 for padding only, 2 otherwise."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        n, length, _ = query.shape
        if attn_mask.ndim == 3:
            merged = attn_mask.reshape(n, -1, length, length)
        else:
            merged = attn_mask.reshape(1, 1, length, length).expand(n, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            padding = key_padding_mask.reshape(n, 1, 1, length)
            merged = merged + padding.expand(-1, self.num_heads, -1, -1)
        return merged, 2


def _turned(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Swap dimensions 0 and 1; equal tensors stay equal, so that they share one projection."""
    turned: dict[int, Tensor] = {id(x): x.transpose(1, 0) for x in (query, key, value)}
    return turned[id(query)], turned[id(key)], turned[id(value)]
