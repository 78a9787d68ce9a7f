# Written by tools/stubs.py: `make stubs` writes it anew.

from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from ..._base.device import device as _device
from ..._tensor.overriding import handle_torch_function as handle_torch_function
from ..._tensor.overriding import has_torch_function as has_torch_function
from ..._tensor.overriding import has_torch_function_unary as has_torch_function_unary
from ..._tensor.overriding import has_torch_function_variadic as has_torch_function_variadic
from ..._tensor.tensor import Tensor as Tensor
from .. import grad as grad
from ._activation import celu as celu
from ._activation import elu as elu
from ._activation import gumbel_softmax as gumbel_softmax
from ._activation import hardsigmoid as hardsigmoid
from ._activation import hardswish as hardswish
from ._activation import hardtanh as hardtanh
from ._activation import leaky_relu as leaky_relu
from ._activation import log_softmax as log_softmax
from ._activation import mish as mish
from ._activation import relu as relu
from ._activation import relu6 as relu6
from ._activation import rrelu as rrelu
from ._activation import rrelu_ as rrelu_
from ._activation import selu as selu
from ._activation import sigmoid as sigmoid
from ._activation import silu as silu
from ._activation import softmax as softmax
from ._activation import softmin as softmin
from ._activation import tanh as tanh
from ._activation import threshold as threshold
from ._attention import _canonical_mask as _canonical_mask
from ._attention import _in_projection_packed as _in_projection_packed
from ._attention import _mha_shape_check as _mha_shape_check
from ._attention import multi_head_attention_forward as multi_head_attention_forward
from ._attention import scaled_dot_product_attention as scaled_dot_product_attention
from ._conv import conv_tbc as conv_tbc
from ._conv import linear as linear
from ._conv import pad as pad
from ._ctc import ctc_loss as ctc_loss
from ._distance import normalize as normalize
from ._dropout import alpha_dropout as alpha_dropout
from ._dropout import dropout as dropout
from ._dropout import dropout1d as dropout1d
from ._dropout import dropout2d as dropout2d
from ._dropout import dropout3d as dropout3d
from ._dropout import feature_alpha_dropout as feature_alpha_dropout
from ._embedding import embedding as embedding
from ._embedding import embedding_bag as embedding_bag
from ._embedding import one_hot as one_hot
from ._grouped import ScalingType as ScalingType
from ._grouped import SwizzleType as SwizzleType
from ._grouped import grouped_mm as grouped_mm
from ._grouped import scaled_grouped_mm as scaled_grouped_mm
from ._grouped import scaled_mm as scaled_mm
from ._linear_loss import linear_cross_entropy as linear_cross_entropy
from ._loss import binary_cross_entropy as binary_cross_entropy
from ._loss import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from ._loss import cosine_embedding_loss as cosine_embedding_loss
from ._loss import cross_entropy as cross_entropy
from ._loss import gaussian_nll_loss as gaussian_nll_loss
from ._loss import hinge_embedding_loss as hinge_embedding_loss
from ._loss import huber_loss as huber_loss
from ._loss import kl_div as kl_div
from ._loss import l1_loss as l1_loss
from ._loss import margin_ranking_loss as margin_ranking_loss
from ._loss import mse_loss as mse_loss
from ._loss import multi_margin_loss as multi_margin_loss
from ._loss import multilabel_margin_loss as multilabel_margin_loss
from ._loss import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from ._loss import nll_loss as nll_loss
from ._loss import poisson_nll_loss as poisson_nll_loss
from ._loss import smooth_l1_loss as smooth_l1_loss
from ._loss import soft_margin_loss as soft_margin_loss
from ._loss import triplet_margin_loss as triplet_margin_loss
from ._loss import triplet_margin_with_distance_loss as triplet_margin_with_distance_loss
from ._normalization import _verify_batch_size as _verify_batch_size
from ._normalization import batch_norm as batch_norm
from ._normalization import group_norm as group_norm
from ._normalization import instance_norm as instance_norm
from ._normalization import layer_norm as layer_norm
from ._normalization import local_response_norm as local_response_norm
from ._normalization import rms_norm as rms_norm
from ._pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from ._pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from ._pooling import adaptive_avg_pool3d as adaptive_avg_pool3d
from ._pooling import adaptive_max_pool1d as adaptive_max_pool1d
from ._pooling import adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices
from ._pooling import adaptive_max_pool2d as adaptive_max_pool2d
from ._pooling import adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices
from ._pooling import adaptive_max_pool3d as adaptive_max_pool3d
from ._pooling import adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices
from ._pooling import fractional_max_pool2d as fractional_max_pool2d
from ._pooling import fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices
from ._pooling import fractional_max_pool3d as fractional_max_pool3d
from ._pooling import fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices
from ._pooling import lp_pool1d as lp_pool1d
from ._pooling import lp_pool2d as lp_pool2d
from ._pooling import lp_pool3d as lp_pool3d
from ._pooling import max_pool1d as max_pool1d
from ._pooling import max_pool1d_with_indices as max_pool1d_with_indices
from ._pooling import max_pool2d as max_pool2d
from ._pooling import max_pool2d_with_indices as max_pool2d_with_indices
from ._pooling import max_pool3d as max_pool3d
from ._pooling import max_pool3d_with_indices as max_pool3d_with_indices
from ._pooling import max_unpool1d as max_unpool1d
from ._pooling import max_unpool2d as max_unpool2d
from ._pooling import max_unpool3d as max_unpool3d
from ._vision import affine_grid as affine_grid
from ._vision import fold as fold
from ._vision import grid_sample as grid_sample
from ._vision import interpolate as interpolate
from ._vision import unfold as unfold
from ._vision import upsample as upsample
from ._vision import upsample_bilinear as upsample_bilinear
from ._vision import upsample_nearest as upsample_nearest

_Device: TypeAlias = _device | _str | _int | None
_Number: TypeAlias = _complex | np.number[Any] | np.bool
_Sizes: TypeAlias = _int | Sequence[_int]

def avg_pool1d(
    input: Tensor,
    kernel_size: _Sizes,
    stride: _Sizes | None = None,
    padding: _Sizes = 0,
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
) -> Tensor:
    """Average pooling over 1 spatial dimension."""

def avg_pool2d(
    input: Tensor,
    kernel_size: _Sizes,
    stride: _Sizes | None = None,
    padding: _Sizes = 0,
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
    divisor_override: _int | None = None,
) -> Tensor:
    """Average pooling over 2 spatial dimensions."""

def avg_pool3d(
    input: Tensor,
    kernel_size: _Sizes,
    stride: _Sizes | None = None,
    padding: _Sizes = 0,
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
    divisor_override: _int | None = None,
) -> Tensor:
    """Average pooling over 3 spatial dimensions."""

def bilinear(
    input1: Tensor, input2: Tensor | _Number, weight: Tensor | _Number, bias: Tensor | _Number | None = None
) -> Tensor:
    """``input1 @ weight[k] @ input2 + bias[k]`` for every output ``k``."""

def celu_(input: Tensor, alpha: _float = 1.0) -> Tensor:
    """In-place version of `celu`."""

def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """Move channel ``g * n + i`` to ``i * groups + g``, where n is the number of channels per group."""

def conv1d(
    input: Tensor,
    weight: Tensor | _Number,
    bias: Tensor | _Number | None = None,
    stride: _Sizes = 1,
    padding: Any = 0,
    dilation: _Sizes = 1,
    groups: _int = 1,
) -> Tensor:
    """Convolution over 1 spatial dimension: ``input`` (N, C, ...) and ``weight`` (O, C / groups, ...) give (N, O, ...)."""

def conv2d(
    input: Tensor,
    weight: Tensor | _Number,
    bias: Tensor | _Number | None = None,
    stride: _Sizes = 1,
    padding: Any = 0,
    dilation: _Sizes = 1,
    groups: _int = 1,
) -> Tensor:
    """Convolution over 2 spatial dimensions: ``input`` (N, C, ...) and ``weight`` (O, C / groups, ...) give (N, O, ...)."""

def conv3d(
    input: Tensor,
    weight: Tensor | _Number,
    bias: Tensor | _Number | None = None,
    stride: _Sizes = 1,
    padding: Any = 0,
    dilation: _Sizes = 1,
    groups: _int = 1,
) -> Tensor:
    """Convolution over 3 spatial dimensions: ``input`` (N, C, ...) and ``weight`` (O, C / groups, ...) give (N, O, ...)."""

def conv_transpose1d(
    input: Tensor,
    weight: Tensor | _Number,
    bias: Tensor | _Number | None = None,
    stride: _int | _Sizes = 1,
    padding: _int | _Sizes = 0,
    output_padding: _int | _Sizes = 0,
    groups: _int = 1,
    dilation: _int | _Sizes = 1,
) -> Tensor:
    """Transposed convolution over 1 spatial dimension: ``input`` (N, C, ...) and ``weight`` (C, O / groups, ...) give (N, O, ...)."""

def conv_transpose2d(
    input: Tensor,
    weight: Tensor | _Number,
    bias: Tensor | _Number | None = None,
    stride: _int | _Sizes = 1,
    padding: _int | _Sizes = 0,
    output_padding: _int | _Sizes = 0,
    groups: _int = 1,
    dilation: _int | _Sizes = 1,
) -> Tensor:
    """Transposed convolution over 2 spatial dimensions: ``input`` (N, C, ...) and ``weight`` (C, O / groups, ...) give (N, O, ...)."""

def conv_transpose3d(
    input: Tensor,
    weight: Tensor | _Number,
    bias: Tensor | _Number | None = None,
    stride: _int | _Sizes = 1,
    padding: _int | _Sizes = 0,
    output_padding: _int | _Sizes = 0,
    groups: _int = 1,
    dilation: _int | _Sizes = 1,
) -> Tensor:
    """Transposed convolution over 3 spatial dimensions: ``input`` (N, C, ...) and ``weight`` (C, O / groups, ...) give (N, O, ...)."""

@overload
def cosine_similarity(x1: Tensor, x2: Tensor | _Number, dim: _int = 1, eps: _float = 1e-08) -> Tensor:
    """The cosine similarity of vectors along ``dim``; norms are at least ``eps``."""

@overload
def cosine_similarity(x1: Tensor, x2: Tensor | _Number, *, axis: _int, eps: _float = 1e-08) -> Tensor: ...
def elu_(input: Tensor, alpha: _float = 1.0, scale: _float = 1.0, input_scale: _float = 1.0) -> Tensor:
    """In-place version of `elu`."""

def gelu(input: Tensor, approximate: _str = "none") -> Tensor:
    """``input`` times the normal CDF of ``input``, exact or approximated (``approximate="tanh"``)."""

@overload
def glu(input: Tensor, dim: _int = -1) -> Tensor:
    """The first half along ``dim`` times the sigmoid of the second half."""

@overload
def glu(input: Tensor, *, axis: _int) -> Tensor: ...
def hardshrink(input: Tensor, lambd: _float = 0.5) -> Tensor:
    """``input`` where ``|input| > lambd``, else 0."""

def hardtanh_(input: Tensor, min_val: _float = -1.0, max_val: _float = 1.0) -> Tensor:
    """In-place version of `hardtanh`."""

def leaky_relu_(input: Tensor, negative_slope: _float = 0.01) -> Tensor:
    """In-place version of `leaky_relu`."""

def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(input))``."""

def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """Move channel ``g * n + i`` to ``i * groups + g``, where n is the number of channels per group."""

def pairwise_distance(
    x1: Tensor, x2: Tensor | _Number, p: _float = 2.0, eps: _float = 1e-06, keepdim: _bool = False
) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension."""

def pdist(input: Tensor, p: _float = 2) -> Tensor:
    """The p-norm distances of all pairs of rows: (0, 1), (0, 2), ..., (1, 2), ..."""

def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """Rearrange (..., C * r * r, H, W) to (..., C, H * r, W * r)."""

def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """Rearrange (..., C, H * r, W * r) to (..., C * r * r, H, W)."""

def prelu(input: Tensor, weight: Tensor | _Number) -> Tensor:
    """``input`` where it is positive, else ``weight * input``, with one weight for all or for each channel."""

def relu_(input: Tensor) -> Tensor:
    """In-place version of `relu`."""

def selu_(input: Tensor) -> Tensor:
    """In-place version of `selu`."""

def softplus(input: Tensor, beta: _float = 1.0, threshold: _float = 20.0) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``, or ``input`` where ``beta * input`` is above ``threshold``."""

def softshrink(input: Tensor, lambd: _float = 0.5) -> Tensor:
    """``input`` moved towards 0 by ``lambd``; 0 where ``|input| <= lambd``."""

def softsign(input: Tensor) -> Tensor:
    """``input / (1 + |input|)``."""

def tanhshrink(input: Tensor) -> Tensor:
    """``input - tanh(input)``."""

def threshold_(input: Tensor, threshold: _float, value: _float) -> Tensor:
    """In-place version of `threshold`."""
