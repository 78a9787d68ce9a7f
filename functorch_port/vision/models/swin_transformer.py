"""The Swin transformer: attention within windows, which are shifted in every other block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..._run.bind import function
from ..._tensor.creation import arange, zeros
from ..._tensor.tensor import Tensor
from ...nn import (
    GELU,
    AdaptiveAvgPool2d,
    Conv2d,
    Flatten,
    LayerNorm,
    Linear,
    Module,
    Parameter,
    Sequential,
    init,
)
from ...nn import functional as F
from ..ops.misc import MLP, Permute
from ..ops.stochastic_depth import StochasticDepth
from ._api import weights_of
from ._utils import builder

__all__ = [
    "SwinTransformer", "Swin_B_Weights", "Swin_S_Weights", "Swin_T_Weights", "swin_b", "swin_s", "swin_t",
]  # fmt: skip

_Make = Callable[..., Module]


class PatchMerging(Module):
    """Four pixels as one, with twice the channels: half the size.

    Args:
        dim: channels of the input.
        norm_layer: makes a normalization. Default: `LayerNorm`.
    """

    def __init__(self, dim: int, norm_layer: _Make = LayerNorm) -> None:
        super().__init__()
        self.dim = dim
        self.reduction = Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-3:-1]
        x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
        parts = [x[..., i::2, j::2, :] for j in (0, 1) for i in (0, 1)]
        return self.reduction(self.norm(function("cat")(parts, -1)))


class ShiftedWindowAttention(Module):
    """Attention of each pixel to those in its window, with a bias for each relative position.

    Args:
        dim: channels.
        window_size: height and width.
        shift_size: by which windows are shifted down and to the right.
        num_heads: of the attention.
        qkv_bias, proj_bias: whether the linear layers have a bias. Default: True.
        attention_dropout, dropout: default 0.0.

    Raises:
        ValueError: sizes are not two numbers.
    """

    relative_position_index: Tensor

    def __init__(
        self,
        dim: int,
        window_size: list[int],
        shift_size: list[int],
        num_heads: int,
        qkv_bias: bool = True,
        proj_bias: bool = True,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if len(window_size) != 2 or len(shift_size) != 2:
            raise ValueError("window_size and shift_size must be of length 2")
        self.window_size = window_size
        self.shift_size = shift_size
        self.num_heads = num_heads
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self.qkv = Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = Linear(dim, dim, bias=proj_bias)
        height, width = window_size
        table = zeros((2 * height - 1) * (2 * width - 1), num_heads)
        self.relative_position_bias_table = Parameter(init.trunc_normal_(table, std=0.02))
        y, x = arange(height).repeat_interleave(width), arange(width).repeat(height)
        apart_y, apart_x = (a[:, None] - a[None, :] for a in (y, x))
        index = (apart_y + height - 1) * (2 * width - 1) + apart_x + width - 1
        self.register_buffer("relative_position_index", index.flatten())

    def get_relative_position_bias(self) -> Tensor:
        """The bias of each head for each pair of pixels of a window: ``[1, heads, pixels, pixels]``."""
        pixels = self.window_size[0] * self.window_size[1]
        found = self.relative_position_bias_table[self.relative_position_index]
        return found.view(pixels, pixels, -1).permute(2, 0, 1).contiguous()[None]

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        tall, wide = self.window_size
        x = F.pad(x, (0, 0, 0, -width % wide, 0, -height % tall))
        padded = x.shape[1:3]
        shift = [
            0 if w >= p else s for s, w, p in zip(self.shift_size, self.window_size, padded, strict=True)
        ]
        if any(shift):
            x = function("roll")(x, (-shift[0], -shift[1]), (1, 2))
        rows, columns = padded[0] // tall, padded[1] // wide
        windows = self._attend(_windows(x, tall, wide), _apart(padded, self.window_size, shift), batch)
        x = windows.view(batch, rows, columns, tall, wide, channels).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(batch, *padded, channels)
        if any(shift):
            x = function("roll")(x, shift, (1, 2))
        return x[:, :height, :width].contiguous()

    def _attend(self, x: Tensor, apart: Tensor | None, batch: int) -> Tensor:
        """Attention within windows ``[windows, pixels, channels]``; ``apart`` tells who does not see whom."""
        count, pixels, channels = x.shape
        heads = self.num_heads
        qkv = self.qkv(x).reshape(count, pixels, 3, heads, channels // heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = (q * (channels // heads) ** -0.5) @ k.transpose(-2, -1) + self.get_relative_position_bias()
        if apart is not None:
            mask = zeros(apart.shape, dtype=scores.dtype, device=scores.device).masked_fill(apart, -100.0)
            scores = scores.view(batch, -1, heads, pixels, pixels) + mask[None, :, None]
            scores = scores.view(count, heads, pixels, pixels)
        weights = F.dropout(scores.softmax(dim=-1), self.attention_dropout, self.training)
        x = (weights @ v).transpose(1, 2).reshape(count, pixels, channels)
        return F.dropout(self.proj(x), self.dropout, self.training)


def _windows(x: Tensor, height: int, width: int) -> Tensor:
    """The windows of images ``[N, H, W, C]``, each as a sequence of pixels."""
    n, tall, wide, channels = x.shape
    x = x.view(n, tall // height, height, wide // width, width, channels).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, height * width, channels)


def _apart(padded: tuple[int, ...], window: list[int], shift: list[int]) -> Tensor | None:
    """For each window which pairs of pixels only the shift has brought together; None without a shift."""
    if not any(shift):
        return None
    parts = []
    for size, side, moved in zip(padded, window, shift, strict=True):
        at = arange(size)
        parts.append((at >= size - side).long() + (at >= size - moved).long())
    regions = _windows((3 * parts[0][:, None] + parts[1][None, :])[None, :, :, None], *window)[..., 0]
    return regions[:, None, :] != regions[:, :, None]


class SwinTransformerBlock(Module):
    """Attention within windows and an `MLP`, each normalized before and added to its input.

    Args:
        dim: channels.
        num_heads, window_size, shift_size: of the attention.
        mlp_ratio: how much wider the `MLP` is. Default: 4.0.
        dropout, attention_dropout, stochastic_depth_prob: default 0.0.
        norm_layer: makes a normalization. Default: `LayerNorm`.
        attn_layer: makes the attention. Default: `ShiftedWindowAttention`.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        window_size: list[int],
        shift_size: list[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.0,
        norm_layer: _Make = LayerNorm,
        attn_layer: _Make = ShiftedWindowAttention,
    ) -> None:
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = attn_layer(
            dim, window_size, shift_size, num_heads, attention_dropout=attention_dropout, dropout=dropout
        )
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.norm2 = norm_layer(dim)
        self.mlp = MLP(dim, [int(dim * mlp_ratio), dim], activation_layer=GELU, inplace=None, dropout=dropout)
        for module in self.mlp.modules():
            if isinstance(module, Linear):
                init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    init.normal_(module.bias, std=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class SwinTransformer(Module):
    """Stages of blocks with half the size and twice the channels each, and a linear classifier.

    Args:
        patch_size: height and width of the patches.
        embed_dim: channels of the first stage.
        depths: the number of blocks of each stage.
        num_heads: of the attention, for each stage.
        window_size: height and width of the windows.
        mlp_ratio: how much wider an `MLP` is. Default: 4.0.
        dropout, attention_dropout: default 0.0.
        stochastic_depth_prob: of leaving out the last block; those before it have less. Default: 0.1.
        num_classes: default 1000.
        norm_layer: makes a normalization. Default: `LayerNorm` with eps 1e-5.
        block: makes a block. Default: `SwinTransformerBlock`.
        downsample_layer: between stages. Default: `PatchMerging`.

    Reference: https://docs.pytorch.org/vision/stable/models/swin_transformer.html
    """

    def __init__(
        self,
        patch_size: list[int],
        embed_dim: int,
        depths: list[int],
        num_heads: list[int],
        window_size: list[int],
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth_prob: float = 0.1,
        num_classes: int = 1000,
        norm_layer: _Make | None = None,
        block: _Make | None = None,
        downsample_layer: _Make = PatchMerging,
    ) -> None:
        super().__init__()
        self.num_classes = num_classes
        make, norm = block or SwinTransformerBlock, norm_layer or partial(LayerNorm, eps=1e-5)
        height, width = patch_size
        patches = Conv2d(3, embed_dim, kernel_size=(height, width), stride=(height, width))
        features: list[Module] = [Sequential(patches, Permute([0, 2, 3, 1]), norm(embed_dim))]
        done, total = 0, sum(depths)
        for i, (depth, heads) in enumerate(zip(depths, num_heads, strict=True)):
            dim = embed_dim * 2**i
            blocks = []
            for j in range(depth):
                shift = [0 if j % 2 == 0 else side // 2 for side in window_size]
                blocks.append(
                    make(
                        dim,
                        heads,
                        window_size=window_size,
                        shift_size=shift,
                        mlp_ratio=mlp_ratio,
                        dropout=dropout,
                        attention_dropout=attention_dropout,
                        stochastic_depth_prob=stochastic_depth_prob * float(done) / (total - 1),
                        norm_layer=norm,
                    )
                )
                done += 1
            features.append(Sequential(*blocks))
            if i < len(depths) - 1:
                features.append(downsample_layer(dim, norm))
        self.features = Sequential(*features)
        last = embed_dim * 2 ** (len(depths) - 1)
        self.norm = norm(last)
        self.permute = Permute([0, 3, 1, 2])
        self.avgpool = AdaptiveAvgPool2d(1)
        self.flatten = Flatten(1)
        self.head = Linear(last, num_classes)
        for module in self.modules():
            if isinstance(module, Linear):
                init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.permute(self.norm(self.features(x)))
        return self.head(self.flatten(self.avgpool(x)))


def _of(embed_dim: int, depth: int, heads: int, probability: float) -> Callable[..., SwinTransformer]:
    """The network of four stages, of which the third has ``depth`` blocks, and the others two."""

    def make(**kwargs: Any) -> SwinTransformer:
        return SwinTransformer(
            [4, 4],
            embed_dim,
            [2, 2, depth, 2],
            [heads * 2**i for i in range(4)],
            [7, 7],
            stochastic_depth_prob=probability,
            **kwargs,
        )

    return make


Swin_T_Weights = weights_of("Swin_T_Weights", __name__)
Swin_S_Weights = weights_of("Swin_S_Weights", __name__)
Swin_B_Weights = weights_of("Swin_B_Weights", __name__)

swin_t = builder("swin_t", Swin_T_Weights, _of(96, 6, 3, 0.2), "Swin transformer, tiny.")
swin_s = builder("swin_s", Swin_S_Weights, _of(96, 18, 3, 0.3), "Swin transformer, small.")
swin_b = builder("swin_b", Swin_B_Weights, _of(128, 18, 4, 0.5), "Swin transformer, the base.")
