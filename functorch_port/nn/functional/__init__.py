"""`nn.functional`: stateless layers, as functions of Tensors. Each is a thin name for operations in `ops/`."""

from ..._run.bind import publish_functions as _publish
from ..._tensor.overriding import handle_torch_function as handle_torch_function
from ..._tensor.overriding import has_torch_function as has_torch_function
from ..._tensor.overriding import has_torch_function_unary as has_torch_function_unary
from ..._tensor.overriding import has_torch_function_variadic as has_torch_function_variadic
from .. import _reduction as _Reduction
from ._activation import (
    celu as celu,
)
from ._activation import (
    celu_ as celu_,
)
from ._activation import (
    elu as elu,
)
from ._activation import (
    elu_ as elu_,
)
from ._activation import (
    gelu as gelu,
)
from ._activation import (
    glu as glu,
)
from ._activation import (
    gumbel_softmax as gumbel_softmax,
)
from ._activation import (
    hardshrink as hardshrink,
)
from ._activation import (
    hardsigmoid as hardsigmoid,
)
from ._activation import (
    hardswish as hardswish,
)
from ._activation import (
    hardtanh as hardtanh,
)
from ._activation import (
    hardtanh_ as hardtanh_,
)
from ._activation import (
    leaky_relu as leaky_relu,
)
from ._activation import (
    leaky_relu_ as leaky_relu_,
)
from ._activation import (
    log_softmax as log_softmax,
)
from ._activation import (
    logsigmoid as logsigmoid,
)
from ._activation import (
    mish as mish,
)
from ._activation import (
    prelu as prelu,
)
from ._activation import (
    relu as relu,
)
from ._activation import (
    relu6 as relu6,
)
from ._activation import (
    relu_ as relu_,
)
from ._activation import (
    rrelu as rrelu,
)
from ._activation import (
    rrelu_ as rrelu_,
)
from ._activation import (
    selu as selu,
)
from ._activation import (
    selu_ as selu_,
)
from ._activation import (
    sigmoid as sigmoid,
)
from ._activation import (
    silu as silu,
)
from ._activation import (
    softmax as softmax,
)
from ._activation import (
    softmin as softmin,
)
from ._activation import (
    softplus as softplus,
)
from ._activation import (
    softshrink as softshrink,
)
from ._activation import (
    softsign as softsign,
)
from ._activation import (
    tanh as tanh,
)
from ._activation import (
    tanhshrink as tanhshrink,
)
from ._activation import (
    threshold as threshold,
)
from ._activation import (
    threshold_ as threshold_,
)
from ._attention import _canonical_mask as _canonical_mask
from ._attention import _in_projection_packed as _in_projection_packed
from ._attention import _mha_shape_check as _mha_shape_check
from ._attention import multi_head_attention_forward as multi_head_attention_forward
from ._attention import scaled_dot_product_attention as scaled_dot_product_attention
from ._conv import bilinear as bilinear
from ._conv import conv1d as conv1d
from ._conv import conv2d as conv2d
from ._conv import conv3d as conv3d
from ._conv import conv_tbc as conv_tbc
from ._conv import conv_transpose1d as conv_transpose1d
from ._conv import conv_transpose2d as conv_transpose2d
from ._conv import conv_transpose3d as conv_transpose3d
from ._conv import linear as linear
from ._conv import pad as pad
from ._ctc import ctc_loss as ctc_loss
from ._distance import cosine_similarity as cosine_similarity
from ._distance import normalize as normalize
from ._distance import pairwise_distance as pairwise_distance
from ._distance import pdist as pdist
from ._dropout import (
    alpha_dropout as alpha_dropout,
)
from ._dropout import (
    dropout as dropout,
)
from ._dropout import (
    dropout1d as dropout1d,
)
from ._dropout import (
    dropout2d as dropout2d,
)
from ._dropout import (
    dropout3d as dropout3d,
)
from ._dropout import (
    feature_alpha_dropout as feature_alpha_dropout,
)
from ._embedding import embedding as embedding
from ._embedding import embedding_bag as embedding_bag
from ._embedding import one_hot as one_hot
from ._grouped import ScalingType as ScalingType
from ._grouped import SwizzleType as SwizzleType
from ._grouped import grouped_mm as grouped_mm
from ._grouped import scaled_grouped_mm as scaled_grouped_mm
from ._grouped import scaled_mm as scaled_mm
from ._linear_loss import linear_cross_entropy as linear_cross_entropy
from ._loss import (
    binary_cross_entropy as binary_cross_entropy,
)
from ._loss import (
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
)
from ._loss import (
    cosine_embedding_loss as cosine_embedding_loss,
)
from ._loss import (
    cross_entropy as cross_entropy,
)
from ._loss import (
    gaussian_nll_loss as gaussian_nll_loss,
)
from ._loss import (
    hinge_embedding_loss as hinge_embedding_loss,
)
from ._loss import (
    huber_loss as huber_loss,
)
from ._loss import (
    kl_div as kl_div,
)
from ._loss import (
    l1_loss as l1_loss,
)
from ._loss import (
    margin_ranking_loss as margin_ranking_loss,
)
from ._loss import (
    mse_loss as mse_loss,
)
from ._loss import (
    multi_margin_loss as multi_margin_loss,
)
from ._loss import (
    multilabel_margin_loss as multilabel_margin_loss,
)
from ._loss import (
    multilabel_soft_margin_loss as multilabel_soft_margin_loss,
)
from ._loss import (
    nll_loss as nll_loss,
)
from ._loss import (
    poisson_nll_loss as poisson_nll_loss,
)
from ._loss import (
    smooth_l1_loss as smooth_l1_loss,
)
from ._loss import (
    soft_margin_loss as soft_margin_loss,
)
from ._loss import (
    triplet_margin_loss as triplet_margin_loss,
)
from ._loss import (
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from ._normalization import _verify_batch_size as _verify_batch_size
from ._normalization import (
    batch_norm as batch_norm,
)
from ._normalization import (
    group_norm as group_norm,
)
from ._normalization import (
    instance_norm as instance_norm,
)
from ._normalization import (
    layer_norm as layer_norm,
)
from ._normalization import (
    local_response_norm as local_response_norm,
)
from ._normalization import (
    rms_norm as rms_norm,
)
from ._pooling import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
)
from ._pooling import (
    adaptive_avg_pool2d as adaptive_avg_pool2d,
)
from ._pooling import (
    adaptive_avg_pool3d as adaptive_avg_pool3d,
)
from ._pooling import (
    adaptive_max_pool1d as adaptive_max_pool1d,
)
from ._pooling import adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices
from ._pooling import (
    adaptive_max_pool2d as adaptive_max_pool2d,
)
from ._pooling import adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices
from ._pooling import (
    adaptive_max_pool3d as adaptive_max_pool3d,
)
from ._pooling import adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices
from ._pooling import (
    avg_pool1d as avg_pool1d,
)
from ._pooling import (
    avg_pool2d as avg_pool2d,
)
from ._pooling import (
    avg_pool3d as avg_pool3d,
)
from ._pooling import fractional_max_pool2d as fractional_max_pool2d
from ._pooling import fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices
from ._pooling import fractional_max_pool3d as fractional_max_pool3d
from ._pooling import fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices
from ._pooling import lp_pool1d as lp_pool1d
from ._pooling import lp_pool2d as lp_pool2d
from ._pooling import lp_pool3d as lp_pool3d
from ._pooling import (
    max_pool1d as max_pool1d,
)
from ._pooling import (
    max_pool1d_with_indices as max_pool1d_with_indices,
)
from ._pooling import (
    max_pool2d as max_pool2d,
)
from ._pooling import (
    max_pool2d_with_indices as max_pool2d_with_indices,
)
from ._pooling import (
    max_pool3d as max_pool3d,
)
from ._pooling import (
    max_pool3d_with_indices as max_pool3d_with_indices,
)
from ._pooling import max_unpool1d as max_unpool1d
from ._pooling import max_unpool2d as max_unpool2d
from ._pooling import max_unpool3d as max_unpool3d
from ._vision import affine_grid as affine_grid
from ._vision import channel_shuffle as channel_shuffle
from ._vision import fold as fold
from ._vision import grid_sample as grid_sample
from ._vision import interpolate as interpolate
from ._vision import native_channel_shuffle as native_channel_shuffle
from ._vision import pixel_shuffle as pixel_shuffle
from ._vision import pixel_unshuffle as pixel_unshuffle
from ._vision import unfold as unfold
from ._vision import upsample as upsample
from ._vision import upsample_bilinear as upsample_bilinear
from ._vision import upsample_nearest as upsample_nearest

_publish(globals(), "torch.nn.functional")

from .. import grad as grad
