"""The Transformer: encoder, decoder, and their layers."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._array import tracing
from ..._run import autocast
from ..._tensor import grad_mode
from ..._tensor.creation import full, zeros_like
from ..._tensor.tensor import Tensor
from ...backends import mha
from .. import functional as F
from .. import init
from .._module import Module
from ..functional._attention import _canonical_mask
from ._attention import MultiheadAttention
from .activation import GELU, ReLU
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]


def _get_activation_fn(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


def _get_clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _generate_square_subsequent_mask(size: int, device: Any = None, dtype: Any = None) -> Tensor:
    return full((size, size), -math.inf, device=device, dtype=dtype).triu(diagonal=1)  # type: ignore[attr-defined]


def _detect_is_causal_mask(mask: Tensor | None, hint: bool | None, size: int) -> bool:
    """The hint if there is one; else whether the mask is the causal mask. False for a traced mask."""
    if hint is not None or mask is None:
        return hint is True
    if tracing.overlay or tuple(mask.shape) != (size, size):
        return False
    return bool((mask == _generate_square_subsequent_mask(size, mask.device, mask.dtype)).all())


def _get_seq_len(x: Tensor, batch_first: bool) -> int:
    return x.size(1) if batch_first and x.ndim == 3 else x.size(0)


class _Layer(Module):
    """Base of the encoder and decoder layers."""

    __constants__ = ["norm_first"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation: Callable[[Tensor], Tensor] = F.relu

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward block, each with dropout, a residual connection and layer normalization.

    Args:
        d_model: size of the input and output features.
        nhead: number of attention heads.
        dim_feedforward: hidden size of the feed-forward block.
        dropout: dropout probability.
        activation: activation of the feed-forward block: "relu", "gelu" or a function.
        layer_norm_eps: eps of the layer normalizations.
        batch_first: inputs and outputs are (N, S, E) rather than (S, N, E).
        norm_first: normalize the input of each block (pre-norm) rather than its output.
        bias: whether linear layers and normalizations have biases.
        device, dtype: of the parameters.

    Shape:
        (S, N, E), or (N, S, E) with ``batch_first``, or (S, E), to the same.

    Raises:
        RuntimeError: for an unknown activation.

    Example:
        >>> import functorch_port as torch
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> layer(torch.ones(3, 5, 8)).shape
        torch.Size([3, 5, 8])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoderLayer.html
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **place
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _get_activation_fn(activation)
        relu = self.activation is F.relu or isinstance(self.activation, ReLU)
        gelu = self.activation is F.gelu or isinstance(self.activation, GELU)
        self.activation_relu_or_gelu = 1 if relu else 2 if gelu else 0

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The layer's output.

        Args:
            src: the sequence.
            src_mask: (S, S) or (N * heads, S, S); True (or -inf) where a position may not attend.
            src_key_padding_mask: (N, S); True (or -inf) at positions to ignore.
            is_causal: a hint that ``src_mask`` is the causal mask.
        """
        mask_type = None if src_mask is None else src_mask.dtype
        padding = _canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", mask_type, "src_mask", src.dtype
        )
        mask = _canonical_mask(src_mask, "src_mask", None, "", src.dtype, False)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal=is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal=is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        masks = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask, "is_causal": is_causal}
        return self.dropout1(self.self_attn(x, x, x, need_weights=False, **masks)[0])

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._feed_forward(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward block.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
            device, dtype: as for `TransformerEncoderLayer`.

    Shape:
        tgt (T, N, E) and memory (S, N, E), N first with ``batch_first``, or without N, to the shape of tgt.

    Raises:
        RuntimeError: for an unknown activation.

    Example:
        >>> import functorch_port as torch
        >>> layer = torch.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
        >>> layer(torch.ones(3, 4, 8), torch.ones(3, 5, 8)).shape
        torch.Size([3, 4, 8])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerDecoderLayer.html
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"device": device, "dtype": dtype}
        attention = {"dropout": dropout, "bias": bias, "batch_first": batch_first, **place}
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _get_activation_fn(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The layer's output.

        Args:
            tgt: the sequence.
            memory: the encoder's output.
            tgt_mask, memory_mask: (T, T) and (T, S); True (or -inf) where a position may not attend.
            tgt_key_padding_mask, memory_key_padding_mask: (N, T) and (N, S); True (or -inf) at padding.
            tgt_is_causal, memory_is_causal: hints that the mask is the causal mask.
        """
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        masks = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask, "is_causal": is_causal}
        return self.dropout1(self.self_attn(x, x, x, need_weights=False, **masks)[0])

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        masks = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask, "is_causal": is_causal}
        return self.dropout2(self.multihead_attn(x, mem, mem, need_weights=False, **masks)[0])

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._feed_forward(x))


def _no_fast_path(layer: Any) -> str:
    """Why PyTorch's encoder would not use its fast path with this layer; "" if it would."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    attention = layer.self_attn
    reasons = (
        (layer.norm_first, ".norm_first was True"),
        (
            not attention.batch_first,
            ".self_attn.batch_first was not True(use batch_first for better inference performance)",
        ),
        (not attention._qkv_same_embed_dim, ".self_attn._qkv_same_embed_dim was not True"),
        (attention.in_proj_bias is None, ".self_attn was passed bias=False"),
        (not layer.activation_relu_or_gelu, ".activation_relu_or_gelu was not True"),
        (layer.norm1.eps != layer.norm2.eps, ".norm1.eps was not equal to encoder_layer.norm2.eps"),
        (attention.num_heads % 2 == 1, ".self_attn.num_heads is odd"),
    )
    return next((f"encoder_layer{text}" for wrong, text in reasons if wrong), "")


class TransformerEncoder(Module):
    """A stack of encoder layers.

    In evaluation without gradients, and with only a padding mask, padded positions come out as zeros, as in
    PyTorch's fast path (not inside ``compile``).

    Args:
        encoder_layer: the layer; it is copied ``num_layers`` times.
        num_layers: number of layers.
        norm: a normalization of the output, or None.
        enable_nested_tensor: False leaves the outputs at padded positions unchanged.
        mask_check: zero the padding only if it comes after the sequences, as the fast path requires.

    Shape:
        (S, N, E), or (N, S, E) with ``batch_first``, or (S, E), to the same.

    Example:
        >>> import functorch_port as torch
        >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> torch.nn.TransformerEncoder(layer, num_layers=2)(torch.ones(3, 5, 8)).shape
        torch.Size([3, 5, 8])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoder.html
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        reason = _no_fast_path(encoder_layer)
        if enable_nested_tensor and reason:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {reason}",
                stacklevel=2,
            )
            self.use_nested_tensor = False

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The stack's output.

        Args:
            src: the sequence.
            mask, src_key_padding_mask: as for the layers.
            is_causal: a hint that ``mask`` is the causal mask; None checks the mask.
        """
        mask_type = None if mask is None else mask.dtype
        padding = _canonical_mask(src_key_padding_mask, "src_key_padding_mask", mask_type, "mask", src.dtype)
        mask = _canonical_mask(mask, "mask", None, "", src.dtype, False)
        is_causal = _detect_is_causal_mask(
            mask, is_causal, _get_seq_len(src, self.layers[0].self_attn.batch_first)
        )
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=is_causal, src_key_padding_mask=padding)
        if padding is not None and mask is None and self._clears_padding(src, padding):
            output = output.where((padding == 0).unsqueeze(-1), zeros_like(output))  # type: ignore[attr-defined]
        return output if self.norm is None else self.norm(output)

    def _clears_padding(self, src: Tensor, padding: Tensor) -> bool:
        """Whether PyTorch would use its fast path, which returns zeros at padded positions."""
        first = self.layers[0]
        if not (mha.get_fastpath_enabled() and self.use_nested_tensor) or first.training or src.ndim != 3:
            return False
        if tracing.overlay or autocast.enabled:
            return False
        if grad_mode.is_grad_enabled() and (
            src.requires_grad or any(p.requires_grad for p in first.parameters())
        ):
            return False
        if not self.mask_check:
            return True
        valid = padding.detach().numpy() == 0
        return bool(np.array_equal(valid, -np.sort(-valid.astype(int), axis=1)))


class TransformerDecoder(Module):
    """A stack of decoder layers.

    Args:
        decoder_layer: the layer; it is copied ``num_layers`` times.
        num_layers: number of layers.
        norm: a normalization of the output, or None.

    Shape:
        As for `TransformerDecoderLayer`.

    Example:
        >>> import functorch_port as torch
        >>> layer = torch.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
        >>> torch.nn.TransformerDecoder(layer, num_layers=2)(torch.ones(3, 4, 8), torch.ones(3, 5, 8)).shape
        torch.Size([3, 4, 8])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerDecoder.html
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The stack's output; the arguments are those of the layers. ``tgt_is_causal=None`` checks the mask."""
        tgt_is_causal = _detect_is_causal_mask(
            tgt_mask, tgt_is_causal, _get_seq_len(tgt, self.layers[0].self_attn.batch_first)
        )
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """Encoder and decoder of "Attention Is All You Need".

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
            device, dtype: as for `TransformerEncoderLayer`.
        num_encoder_layers, num_decoder_layers: numbers of layers.
        custom_encoder, custom_decoder: modules that replace the encoder and the decoder.

    Shape:
        src (S, N, E) and tgt (T, N, E), N first with ``batch_first``, or without N, to the shape of tgt.

    Raises:
        RuntimeError: if sizes do not match.

    Example:
        >>> import functorch_port as torch
        >>> model = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
        >>> model(torch.ones(3, 5, 8), torch.ones(3, 4, 8)).shape
        torch.Size([3, 4, 8])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Transformer.html
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"device": device, "dtype": dtype}
        layer: Any = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first)
        layer = (*layer, norm_first, bias, device, dtype)
        super().__init__()
        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(*layer)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm)
        self.encoder = custom_encoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*layer)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm)
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoder's output; masks are as for the layers, and ``None`` as a hint checks the mask."""
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask (sz, sz): 0 at a position and all earlier ones, -inf elsewhere."""
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)
