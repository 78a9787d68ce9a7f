"""The Vision Transformer."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ..._checks import _assert
from ..._run.bind import function
from ..._tensor.creation import empty, zeros
from ..._tensor.tensor import Tensor
from ...nn import (
    GELU,
    BatchNorm2d,
    Conv2d,
    Dropout,
    LayerNorm,
    Linear,
    Module,
    MultiheadAttention,
    Parameter,
    ReLU,
    Sequential,
    Tanh,
    init,
)
from ...nn import functional as F
from ..ops.misc import MLP, Conv2dNormActivation
from ._api import weights_of
from ._utils import _ovewrite_named_param, builder

__all__ = [
    "ViT_B_16_Weights", "ViT_B_32_Weights", "ViT_H_14_Weights", "ViT_L_16_Weights", "ViT_L_32_Weights",
    "VisionTransformer", "vit_b_16", "vit_b_32", "vit_h_14", "vit_l_16", "vit_l_32",
]  # fmt: skip

_Make = Callable[..., Module]
_NORM = partial(LayerNorm, eps=1e-6)


class ConvStemConfig(NamedTuple):
    """A convolution before the patches.

    Attributes:
        out_channels, kernel_size, stride: of the convolution.
        norm_layer: makes a normalization of so many channels. Default: `BatchNorm2d`.
        activation_layer: makes the activation. Default: `ReLU`.
    """

    out_channels: int
    kernel_size: int
    stride: int
    norm_layer: _Make = BatchNorm2d
    activation_layer: _Make = ReLU


class MLPBlock(MLP):
    """The two linear layers of an `EncoderBlock`.

    Args:
        in_dim: size of the input and of the result.
        mlp_dim: size between the layers.
        dropout: after each.
    """

    _version = 2

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=GELU, inplace=None, dropout=dropout)
        for module in self.modules():
            if isinstance(module, Linear):
                init.xavier_uniform_(module.weight)
                init.normal_(module.bias, std=1e-6)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        version = local_metadata.get("version")
        if version is None or version < 2:  # the layers had names
            for place, old in ((0, "linear_1"), (3, "linear_2")):
                for kind in ("weight", "bias"):
                    value = state_dict.pop(f"{prefix}{old}.{kind}", None)
                    if value is not None:
                        state_dict[f"{prefix}{place}.{kind}"] = value
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class EncoderBlock(Module):
    """Attention and an `MLPBlock`, each normalized before and added to its input.

    Args:
        num_heads: of the attention.
        hidden_dim: size of an element of the sequence.
        mlp_dim: size between the layers of the `MLPBlock`.
        dropout, attention_dropout: probabilities.
        norm_layer: makes a normalization. Default: `LayerNorm` with eps 1e-6.
    """

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: _Make = _NORM,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = MultiheadAttention(
            hidden_dim, num_heads, dropout=attention_dropout, batch_first=True
        )
        self.dropout = Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        _assert_sequence(input)
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(Module):
    """Learned positions and a stack of `EncoderBlock`.

    Args:
        seq_length: of the input.
        num_layers: the number of blocks.
        num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer: of each block.
    """

    def __init__(
        self,
        seq_length: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float,
        attention_dropout: float,
        norm_layer: _Make = _NORM,
    ) -> None:
        super().__init__()
        self.pos_embedding = Parameter(empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = Dropout(dropout)
        blocks = OrderedDict()
        for i in range(num_layers):
            blocks[f"encoder_layer_{i}"] = EncoderBlock(
                num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer
            )
        self.layers = Sequential(blocks)
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        _assert_sequence(input)
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


def _assert_sequence(input: Tensor) -> None:
    _assert(input.dim() == 3, f"Expected (batch_size, seq_length, hidden_dim) got {input.shape}")


class VisionTransformer(Module):
    """A transformer's encoder of the patches of an image; the class is read off an additional element.

    Args:
        image_size, patch_size: sides of the squares; the first is a multiple of the second.
        num_layers: blocks of the encoder.
        num_heads: of each attention.
        hidden_dim: size of an element of the sequence.
        mlp_dim: size between the linear layers of a block.
        dropout, attention_dropout: default 0.0.
        num_classes: default 1000.
        representation_size: of a hidden layer of the classifier. Default: it has none.
        norm_layer: makes a normalization. Default: `LayerNorm` with eps 1e-6.
        conv_stem_configs: convolutions in place of the one that cuts out patches. Default: none.

    Raises:
        AssertionError: the patches do not fill the image; or an input has another size.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.models import VisionTransformer
        >>> model = VisionTransformer(32, 8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32, num_classes=10)
        >>> model(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])

    Reference: https://docs.pytorch.org/vision/stable/models/vision_transformer.html
    """

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
        representation_size: int | None = None,
        norm_layer: _Make = _NORM,
        conv_stem_configs: list[ConvStemConfig] | None = None,
    ) -> None:
        super().__init__()
        _assert(image_size % patch_size == 0, "Input shape indivisible by patch size!")
        self.image_size = image_size
        self.patch_size = patch_size
        self.hidden_dim = hidden_dim
        self.mlp_dim = mlp_dim
        self.attention_dropout = attention_dropout
        self.dropout = dropout
        self.num_classes = num_classes
        self.representation_size = representation_size
        self.norm_layer = norm_layer
        self.conv_proj: Module
        if conv_stem_configs is None:
            self.conv_proj = Conv2d(3, hidden_dim, kernel_size=patch_size, stride=patch_size)
        else:
            self.conv_proj = _stem(conv_stem_configs, hidden_dim)
        self.class_token = Parameter(zeros(1, 1, hidden_dim))
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.encoder = Encoder(
            self.seq_length,
            num_layers,
            num_heads,
            hidden_dim,
            mlp_dim,
            dropout,
            attention_dropout,
            norm_layer,
        )
        heads: OrderedDict[str, Module] = OrderedDict()
        if representation_size is None:
            heads["head"] = Linear(hidden_dim, num_classes)
        else:
            heads["pre_logits"] = Linear(hidden_dim, representation_size)
            heads["act"] = Tanh()
            heads["head"] = Linear(representation_size, num_classes)
        self.heads = Sequential(heads)
        self._draw()

    def _draw(self) -> None:
        last = getattr(self.conv_proj, "conv_last", None)
        if isinstance(self.conv_proj, Conv2d):
            fan_in = self.conv_proj.in_channels * math.prod(self.conv_proj.kernel_size)
            init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / fan_in))
            init.zeros_(self.conv_proj.bias)
        elif isinstance(last, Conv2d):
            init.normal_(last.weight, mean=0.0, std=math.sqrt(2.0 / last.out_channels))
            init.zeros_(last.bias)
        hidden = getattr(self.heads, "pre_logits", None)
        if isinstance(hidden, Linear):
            init.trunc_normal_(hidden.weight, std=math.sqrt(1 / hidden.in_features))
            init.zeros_(hidden.bias)
        init.zeros_(self.heads.head.weight)
        init.zeros_(self.heads.head.bias)

    def _process_input(self, x: Tensor) -> Tensor:
        """The patches of images as sequences."""
        n, _, height, width = x.shape
        for side, size in (("height", height), ("width", width)):
            _assert(
                size == self.image_size,
                f"Wrong image {side}! Expected {self.image_size} but got {size}!",
            )
        return self.conv_proj(x).reshape(n, self.hidden_dim, -1).permute(0, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self._process_input(x)
        token = self.class_token.expand(x.shape[0], -1, -1)
        x = self.encoder(function("cat")([token, x], dim=1))
        return self.heads(x[:, 0])


def _stem(configs: list[ConvStemConfig], hidden_dim: int) -> Sequential:
    layers, channels = Sequential(), 3
    for i, config in enumerate(configs):
        layers.add_module(
            f"conv_bn_relu_{i}",
            Conv2dNormActivation(
                channels,
                config.out_channels,
                config.kernel_size,
                config.stride,
                norm_layer=config.norm_layer,
                activation_layer=config.activation_layer,
            ),
        )
        channels = config.out_channels
    layers.add_module("conv_last", Conv2d(channels, hidden_dim, kernel_size=1))
    return layers


def interpolate_embeddings(
    image_size: int,
    patch_size: int,
    model_state: OrderedDict[str, Tensor],
    interpolation_mode: str = "bicubic",
    reset_heads: bool = False,
) -> OrderedDict[str, Tensor]:
    """The state of a model for images of another size: its positions are interpolated.

    Args:
        image_size, patch_size: of the model that will load it.
        model_state: the state of a `VisionTransformer`.
        interpolation_mode: default ``"bicubic"``.
        reset_heads: whether to leave out the classifier. Default: False.

    Raises:
        ValueError: the positions are not those of one square image.

    Reference: https://docs.pytorch.org/vision/stable/models/vision_transformer.html
    """
    name = "encoder.pos_embedding"
    places = model_state[name]
    n, length, hidden = places.shape
    if n != 1:
        raise ValueError(f"Unexpected position embedding shape: {places.shape}")
    side, new = math.isqrt(length - 1), image_size // patch_size
    if new**2 == length - 1:
        return model_state
    if side**2 != length - 1:
        raise ValueError(
            f"seq_length is not a perfect square! Instead got seq_length_1d * seq_length_1d = {side**2} and"
            f" seq_length = {length - 1}"
        )
    token, grid = places[:, :1], places[:, 1:].permute(0, 2, 1).reshape(1, hidden, side, side)
    grid = F.interpolate(grid, size=new, mode=interpolation_mode, align_corners=True)
    model_state[name] = function("cat")([token, grid.reshape(1, hidden, new**2).permute(0, 2, 1)], dim=1)
    if not reset_heads:
        return model_state
    return OrderedDict((key, value) for key, value in model_state.items() if not key.startswith("heads"))


def _of(patch_size: int, num_layers: int, num_heads: int, hidden_dim: int, mlp_dim: int) -> _Make:
    def make(image_size: int = 224, **kwargs: Any) -> VisionTransformer:
        return VisionTransformer(image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, **kwargs)

    return make


def _sized(weights: Any, kwargs: dict[str, Any]) -> None:
    _ovewrite_named_param(kwargs, "image_size", weights.meta["min_size"][0])


ViT_B_16_Weights = weights_of("ViT_B_16_Weights", __name__)
ViT_B_32_Weights = weights_of("ViT_B_32_Weights", __name__)
ViT_L_16_Weights = weights_of("ViT_L_16_Weights", __name__)
ViT_L_32_Weights = weights_of("ViT_L_32_Weights", __name__)
ViT_H_14_Weights = weights_of("ViT_H_14_Weights", __name__)

vit_b_16 = builder(
    "vit_b_16", ViT_B_16_Weights, _of(16, 12, 12, 768, 3072), "ViT-Base, patches of 16.", given=_sized
)
vit_b_32 = builder(
    "vit_b_32", ViT_B_32_Weights, _of(32, 12, 12, 768, 3072), "ViT-Base, patches of 32.", given=_sized
)
vit_l_16 = builder(
    "vit_l_16", ViT_L_16_Weights, _of(16, 24, 16, 1024, 4096), "ViT-Large, patches of 16.", given=_sized
)
vit_l_32 = builder(
    "vit_l_32", ViT_L_32_Weights, _of(32, 24, 16, 1024, 4096), "ViT-Large, patches of 32.", given=_sized
)
vit_h_14 = builder(
    "vit_h_14",
    ViT_H_14_Weights,
    _of(14, 32, 16, 1280, 5120),
    "ViT-Huge, patches of 14.",
    legacy=None,
    given=_sized,
)
