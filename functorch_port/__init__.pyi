# Written by tools/stubs.py: `make stubs` writes it anew.

from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from . import _C as _C
from . import _VF as _VF
from . import __config__ as __config__
from . import __future__ as __future__
from . import _custom_ops as _custom_ops
from . import _dynamo as _dynamo
from . import _functorch as _functorch
from . import _higher_order_ops as _higher_order_ops
from . import _inductor as _inductor
from . import _prims_common as _prims_common
from . import _subclasses as _subclasses
from . import _tensor_str as _tensor_str
from . import _utils as _utils
from . import _vmap_internals as _vmap_internals
from . import accelerator as accelerator
from . import amp as amp
from . import ao as ao
from . import autograd as autograd
from . import backends as backends
from . import compiler as compiler
from . import cpu as cpu
from . import cuda as cuda
from . import distributed as distributed
from . import distributions as distributions
from . import export as export
from . import fft as fft
from . import flax as flax
from . import func as func
from . import functional as functional
from . import functorch as functorch
from . import futures as futures
from . import fx as fx
from . import hub as hub
from . import interchange as interchange
from . import jit as jit
from . import library as library
from . import linalg as linalg
from . import masked as masked
from . import mps as mps
from . import mtia as mtia
from . import multiprocessing as multiprocessing
from . import nested as nested
from . import nn as nn
from . import onnx as onnx
from . import ops as ops
from . import optim as optim
from . import overrides as overrides
from . import profiler as profiler
from . import quasirandom as quasirandom
from . import random as random
from . import return_types as return_types
from . import safetensors as safetensors
from . import serialization as serialization
from . import signal as signal
from . import sparse as sparse
from . import special as special
from . import storage as storage
from . import testing as testing
from . import torch_version as torch_version
from . import types as types
from . import utils as utils
from . import version as version
from . import vision as vision
from . import viz as viz
from . import xpu as xpu
from ._base.config import get_float32_matmul_precision as get_float32_matmul_precision
from ._base.config import set_float32_matmul_precision as set_float32_matmul_precision
from ._base.device import device as _device
from ._base.device import device as device
from ._base.device import get_default_device as get_default_device
from ._base.device import set_default_device as set_default_device
from ._base.dtypes import dtype as _dtype
from ._base.dtypes import dtype as dtype
from ._base.dtypes import finfo as finfo
from ._base.dtypes import get_default_dtype as get_default_dtype
from ._base.dtypes import iinfo as iinfo
from ._base.dtypes import set_default_dtype as set_default_dtype
from ._base.layout import channels_last as channels_last
from ._base.layout import channels_last_3d as channels_last_3d
from ._base.layout import contiguous_format as contiguous_format
from ._base.layout import jagged as jagged
from ._base.layout import layout as _layout
from ._base.layout import layout as layout
from ._base.layout import legacy_contiguous_format as legacy_contiguous_format
from ._base.layout import memory_format as _memory_format
from ._base.layout import memory_format as memory_format
from ._base.layout import preserve_format as preserve_format
from ._base.layout import sparse_bsc as sparse_bsc
from ._base.layout import sparse_bsr as sparse_bsr
from ._base.layout import sparse_coo as sparse_coo
from ._base.layout import sparse_csc as sparse_csc
from ._base.layout import sparse_csr as sparse_csr
from ._base.layout import strided as strided
from ._base.memory import OutOfMemoryError as OutOfMemoryError
from ._base.promotion import can_cast as can_cast
from ._base.promotion import promote_types as promote_types
from ._base.size import Size as Size
from ._C import TensorType as TensorType
from ._checks import AcceleratorError as AcceleratorError
from ._checks import SymBool as SymBool
from ._checks import SymFloat as SymFloat
from ._checks import SymInt as SymInt
from ._checks import _assert as _assert
from ._checks import _assert_async as _assert_async
from ._checks import _check as _check
from ._checks import _check_index as _check_index
from ._checks import _check_is_size as _check_is_size
from ._checks import _check_not_implemented as _check_not_implemented
from ._checks import _check_tensor_all as _check_tensor_all
from ._checks import _check_tensor_all_with as _check_tensor_all_with
from ._checks import _check_type as _check_type
from ._checks import _check_value as _check_value
from ._checks import _check_with as _check_with
from ._checks import compiled_with_cxx11_abi as compiled_with_cxx11_abi
from ._checks import e as e
from ._checks import frombuffer as frombuffer
from ._checks import get_device as get_device
from ._checks import get_device_module as get_device_module
from ._checks import inf as inf
from ._checks import is_distributed as is_distributed
from ._checks import nan as nan
from ._checks import newaxis as newaxis
from ._checks import pi as pi
from ._checks import set_anomaly_enabled as set_anomaly_enabled
from ._checks import sym_float as sym_float
from ._checks import sym_int as sym_int
from ._checks import sym_ite as sym_ite
from ._checks import sym_max as sym_max
from ._checks import sym_min as sym_min
from ._checks import sym_not as sym_not
from ._checks import sym_sum as sym_sum
from ._native import _cast_Byte as _cast_Byte
from ._native import _cast_Char as _cast_Char
from ._native import _cast_Double as _cast_Double
from ._native import _cast_Float as _cast_Float
from ._native import _cast_Half as _cast_Half
from ._native import _cast_Int as _cast_Int
from ._native import _cast_Long as _cast_Long
from ._native import _cast_Short as _cast_Short
from ._native import _convert_indices_from_coo_to_csr as _convert_indices_from_coo_to_csr
from ._native import _convert_indices_from_csr_to_coo as _convert_indices_from_csr_to_coo
from ._native import _segment_reduce as _segment_reduce
from ._native import _shape_as_tensor as _shape_as_tensor
from ._native import _softmax_backward_data as _softmax_backward_data
from ._native import adaptive_max_pool1d as adaptive_max_pool1d
from ._native import alpha_dropout as alpha_dropout
from ._native import alpha_dropout_ as alpha_dropout_
from ._native import as_strided_ as as_strided_
from ._native import batch_norm as batch_norm
from ._native import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from ._native import conv_tbc as conv_tbc
from ._native import convolution as convolution
from ._native import cosine_embedding_loss as cosine_embedding_loss
from ._native import ctc_loss as ctc_loss
from ._native import dropout as dropout
from ._native import dropout_ as dropout_
from ._native import dsmm as dsmm
from ._native import embedding as embedding
from ._native import embedding_bag as embedding_bag
from ._native import embedding_renorm_ as embedding_renorm_
from ._native import feature_alpha_dropout as feature_alpha_dropout
from ._native import feature_alpha_dropout_ as feature_alpha_dropout_
from ._native import feature_dropout as feature_dropout
from ._native import feature_dropout_ as feature_dropout_
from ._native import hinge_embedding_loss as hinge_embedding_loss
from ._native import instance_norm as instance_norm
from ._native import kl_div as kl_div
from ._native import margin_ranking_loss as margin_ranking_loss
from ._native import max_pool1d_with_indices as max_pool1d_with_indices
from ._native import native_dropout as native_dropout
from ._native import poisson_nll_loss as poisson_nll_loss
from ._native import rrelu as rrelu
from ._native import rrelu_ as rrelu_
from ._native import spmm as spmm
from ._native import triplet_margin_loss as triplet_margin_loss
from ._random.generator import Generator as Generator
from ._random.generator import default_generator as default_generator
from ._run.sparse import hspmm as hspmm
from ._run.sparse import smm as smm
from ._run.sparse import sparse_bsc_tensor as sparse_bsc_tensor
from ._run.sparse import sparse_bsr_tensor as sparse_bsr_tensor
from ._run.sparse import sparse_compressed_tensor as sparse_compressed_tensor
from ._run.sparse import sparse_coo_tensor as sparse_coo_tensor
from ._run.sparse import sparse_csc_tensor as sparse_csc_tensor
from ._run.sparse import sparse_csr_tensor as sparse_csr_tensor
from ._run.sparse import sspaddmm as sspaddmm
from ._streams import Event as Event
from ._streams import Stream as Stream
from ._stubs import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from ._stubs import get_deterministic_debug_mode as get_deterministic_debug_mode
from ._stubs import get_num_interop_threads as get_num_interop_threads
from ._stubs import get_num_threads as get_num_threads
from ._stubs import (
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
)
from ._stubs import is_warn_always_enabled as is_warn_always_enabled
from ._stubs import set_deterministic_debug_mode as set_deterministic_debug_mode
from ._stubs import set_flush_denormal as set_flush_denormal
from ._stubs import set_num_interop_threads as set_num_interop_threads
from ._stubs import set_num_threads as set_num_threads
from ._stubs import set_warn_always as set_warn_always
from ._stubs import use_deterministic_algorithms as use_deterministic_algorithms
from ._tensor.grad_mode import enable_grad as enable_grad
from ._tensor.grad_mode import inference_mode as inference_mode
from ._tensor.grad_mode import is_grad_enabled as is_grad_enabled
from ._tensor.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from ._tensor.grad_mode import no_grad as no_grad
from ._tensor.grad_mode import set_grad_enabled as set_grad_enabled
from ._tensor.printing import set_printoptions as set_printoptions
from ._tensor.tensor import Tensor as Tensor
from .amp import GradScaler as GradScaler
from .amp import autocast as autocast
from .amp.autocast_mode import clear_autocast_cache as clear_autocast_cache
from .amp.autocast_mode import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from .amp.autocast_mode import get_autocast_dtype as get_autocast_dtype
from .amp.autocast_mode import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from .amp.autocast_mode import is_autocast_cache_enabled as is_autocast_cache_enabled
from .amp.autocast_mode import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from .amp.autocast_mode import is_autocast_enabled as is_autocast_enabled
from .amp.autocast_mode import set_autocast_cache_enabled as set_autocast_cache_enabled
from .amp.autocast_mode import set_autocast_dtype as set_autocast_dtype
from .amp.autocast_mode import set_autocast_enabled as set_autocast_enabled
from .compiler import compile as compile
from .compiler import functionalize as functionalize
from .func import cond as cond
from .func import vmap as vmap
from .func import while_loop as while_loop
from .futures import Future as Future
from .jit import ScriptFunction as ScriptFunction
from .jit import ScriptModule as ScriptModule
from .random import get_rng_state as get_rng_state
from .random import initial_seed as initial_seed
from .random import manual_seed as manual_seed
from .random import seed as seed
from .random import set_rng_state as set_rng_state
from .serialization import load as load
from .serialization import save as save
from .serialization._files import PyTorchFileReader as PyTorchFileReader
from .storage import BFloat16Storage as BFloat16Storage
from .storage import BoolStorage as BoolStorage
from .storage import ByteStorage as ByteStorage
from .storage import CharStorage as CharStorage
from .storage import ComplexDoubleStorage as ComplexDoubleStorage
from .storage import ComplexFloatStorage as ComplexFloatStorage
from .storage import DoubleStorage as DoubleStorage
from .storage import FloatStorage as FloatStorage
from .storage import HalfStorage as HalfStorage
from .storage import IntStorage as IntStorage
from .storage import LongStorage as LongStorage
from .storage import ShortStorage as ShortStorage
from .storage import Storage as Storage
from .storage import TypedStorage as TypedStorage
from .storage import UntypedStorage as UntypedStorage
from .version import __version__ as __version__

_Device: TypeAlias = _device | _str | _int | None
_Number: TypeAlias = _complex | np.number[Any] | np.bool
_Sizes: TypeAlias = _int | Sequence[_int]

bfloat16: _dtype
bits16: _dtype
bits1x8: _dtype
bits2x4: _dtype
bits4x2: _dtype
bits8: _dtype
bool: _dtype
cdouble: _dtype
cfloat: _dtype
chalf: _dtype

class BFloat16Tensor(Tensor): ...
class BoolTensor(Tensor): ...
class ByteTensor(Tensor): ...
class CharTensor(Tensor): ...
class DoubleTensor(Tensor): ...
class FloatTensor(Tensor): ...
class HalfTensor(Tensor): ...
class IntTensor(Tensor): ...
class LongTensor(Tensor): ...
class ShortTensor(Tensor): ...

complex128: _dtype
complex32: _dtype
complex64: _dtype
double: _dtype
float16: _dtype
float32: _dtype
float4_e2m1fn_x2: _dtype
float64: _dtype
float8_e4m3fn: _dtype
float8_e4m3fnuz: _dtype
float8_e5m2: _dtype
float8_e5m2fnuz: _dtype
float8_e8m0fnu: _dtype
float: _dtype
half: _dtype
int16: _dtype
int1: _dtype
int2: _dtype
int32: _dtype
int3: _dtype
int4: _dtype
int5: _dtype
int64: _dtype
int6: _dtype
int7: _dtype
int8: _dtype
int: _dtype
long: _dtype
qint32: _dtype
qint8: _dtype
quint2x4: _dtype
quint4x2: _dtype
quint8: _dtype
short: _dtype
uint16: _dtype
uint1: _dtype
uint2: _dtype
uint32: _dtype
uint3: _dtype
uint4: _dtype
uint5: _dtype
uint64: _dtype
uint6: _dtype
uint7: _dtype
uint8: _dtype

def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The absolute value; its gradient at 0 is 0."""

def abs_(input: Tensor) -> Tensor:
    """In-place version of `abs`."""

def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The absolute value; its gradient at 0 is 0."""

def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Arc cosine."""

def acos_(input: Tensor) -> Tensor:
    """In-place version of `acos`."""

def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse hyperbolic cosine."""

def acosh_(input: Tensor) -> Tensor:
    """In-place version of `acosh`."""

def adaptive_avg_pool1d(input: Tensor, output_size: _Sizes, *, out: Tensor | None = None) -> Tensor:
    """Average pooling over 1 spatial dimension, to the given output size."""

def add(
    input: Tensor | _Number,
    other: Tensor | _Number,
    *,
    alpha: Tensor | _Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``input + alpha * other``."""

def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Tensor | _Number = 1,
    alpha: Tensor | _Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha * bmm(batch1, batch2).sum(0)``."""

def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _Number = 1, out: Tensor | None = None
) -> Tensor:
    """``input + value * tensor1 / tensor2``."""

def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _Number = 1, out: Tensor | None = None
) -> Tensor:
    """``input + value * tensor1 * tensor2``."""

def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Tensor | _Number = 1,
    alpha: Tensor | _Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha * mat1 @ mat2``."""

def addmv(
    input: Tensor,
    mat: Tensor | _Number,
    vec: Tensor,
    *,
    beta: Tensor | _Number = 1,
    alpha: Tensor | _Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha * mat @ vec``."""

def addmv_(
    input: Tensor,
    mat: Tensor | _Number,
    vec: Tensor,
    *,
    beta: Tensor | _Number = 1,
    alpha: Tensor | _Number = 1,
) -> Tensor:
    """In-place version of `addmv`."""

def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: Tensor | _Number = 1,
    alpha: Tensor | _Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``."""

def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of the last two dimensions."""

def affine_grid_generator(
    theta: Tensor, size: _Sizes, align_corners: _bool, *, out: Tensor | None = None
) -> Tensor:
    """The grid to which ``theta`` (N, n, n + 1) maps the elements of a tensor of size ``size`` (N, C, ...)."""

def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy."""

@overload
def all(
    input: Tensor, dim: _Sizes | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Whether all values over ``dim`` are nonzero."""

@overload
def all(
    input: Tensor, *, axis: _Sizes | None, keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def allclose(
    input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False
) -> _bool:
    """Whether `isclose` holds for all elements, as a Python bool."""

@overload
def amax(
    input: Tensor, dim: _Sizes | None = (), keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The maximum over ``dim``; ties share the gradient."""

@overload
def amax(
    input: Tensor, *, axis: _Sizes | None, keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def amin(
    input: Tensor, dim: _Sizes | None = (), keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The minimum over ``dim``; ties share the gradient."""

@overload
def amin(
    input: Tensor, *, axis: _Sizes | None, keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def aminmax(
    input: Tensor, *, dim: _int | None = None, keepdim: _bool = False, out: Sequence[Tensor] | None = None
) -> return_types.aminmax:
    """The minimum and the maximum along ``dim``; ties share the gradient."""

@overload
def aminmax(
    input: Tensor, *, axis: _int | None, keepdims: _bool = False, out: Sequence[Tensor] | None = None
) -> return_types.aminmax: ...
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of complex numbers, in radians; pi for negative real numbers."""

@overload
def any(
    input: Tensor, dim: _Sizes | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Whether any value over ``dim`` is nonzero."""

@overload
def any(
    input: Tensor, *, axis: _Sizes | None, keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def arange(
    end: Tensor | _Number,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """Numbers from ``start`` (default 0) to ``end`` (exclusive) in steps of ``step`` (default 1)."""

@overload
def arange(
    start: Tensor | _Number,
    end: Tensor | _Number,
    step: Tensor | _Number = 1,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor: ...
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Arc cosine."""

def arccos_(input: Tensor) -> Tensor:
    """In-place version of `acos`."""

def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse hyperbolic cosine."""

def arccosh_(input: Tensor) -> Tensor:
    """In-place version of `acosh`."""

def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Arc sine."""

def arcsin_(input: Tensor) -> Tensor:
    """In-place version of `asin`."""

def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse hyperbolic sine."""

def arcsinh_(input: Tensor) -> Tensor:
    """In-place version of `asinh`."""

def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Arc tangent."""

def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of the point (``other``, ``input``), in radians."""

def arctan_(input: Tensor) -> Tensor:
    """In-place version of `atan`."""

def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse hyperbolic tangent."""

def arctanh_(input: Tensor) -> Tensor:
    """In-place version of `atanh`."""

@overload
def argmax(
    input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The index of the first maximum along ``dim``, or in the flattened tensor."""

@overload
def argmax(
    input: Tensor, *, axis: _int | None, keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def argmin(
    input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The index of the first minimum along ``dim``, or in the flattened tensor."""

@overload
def argmin(
    input: Tensor, *, axis: _int | None, keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def argsort(
    input: Tensor,
    dim: _int = -1,
    descending: _bool = False,
    stable: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The indices that sort along ``dim``; see `sort`."""

@overload
def argsort(
    input: Tensor, *, axis: _int, descending: _bool = False, stable: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def argwhere(input: Tensor) -> Tensor:
    """The indices of nonzero elements, as rows."""

def as_strided(
    input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None
) -> Tensor:
    """A view of the elements that these strides reach in the tensor's Storage."""

def as_strided_copy(
    input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None
) -> Tensor:
    """A copy of the `as_strided` view."""

def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: _Sizes,
    stride: _Sizes,
    storage_offset: _int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with ``src`` at the elements that these strides reach."""

def as_tensor(data: Any, dtype: _dtype | None = None, device: _Device = None) -> Tensor:
    """Convert ``data`` to a tensor; a Tensor of the right dtype and device is returned itself."""

def asarray(
    obj: Any,
    *,
    dtype: _dtype | None = None,
    device: _Device = None,
    copy: _bool | None = None,
    requires_grad: _bool = False,
) -> Tensor:
    """Convert ``obj`` to a tensor, like `as_tensor`, with control over copies."""

def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Arc sine."""

def asin_(input: Tensor) -> Tensor:
    """In-place version of `asin`."""

def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse hyperbolic sine."""

def asinh_(input: Tensor) -> Tensor:
    """In-place version of `asinh`."""

def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Arc tangent."""

def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of the point (``other``, ``input``), in radians."""

def atan_(input: Tensor) -> Tensor:
    """In-place version of `atan`."""

def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse hyperbolic tangent."""

def atanh_(input: Tensor) -> Tensor:
    """In-place version of `atanh`."""

def atleast_1d(*tensors: Any) -> Any:
    """Give each tensor at least 1 dimension, by inserting some of size 1."""

def atleast_2d(*tensors: Any) -> Any:
    """Give each tensor at least 2 dimensions, by inserting some of size 1."""

def atleast_3d(*tensors: Any) -> Any:
    """Give each tensor at least 3 dimensions, by inserting some of size 1."""

def avg_pool1d(
    input: Tensor,
    kernel_size: _Sizes,
    stride: _Sizes | None = None,
    padding: _Sizes = 0,
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Average pooling over 1 spatial dimension."""

def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Tensor | _Number = 1,
    alpha: Tensor | _Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha * bmm(batch1, batch2)``."""

def bartlett_window(
    window_length: _int,
    periodic: _bool = True,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """The Bartlett (triangular) window, periodic as in `hann_window`."""

def bernoulli(
    input: Tensor, p: _float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """Draw ones with the probabilities in ``input`` (or with probability ``p``), else zeros."""

def bilinear(
    input1: Tensor,
    input2: Tensor | _Number,
    weight: Tensor | _Number,
    bias: Tensor | _Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``input1 @ weight[k] @ input2 + bias[k]`` for every output ``k``."""

def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
    """The number of times that each integer from 0 on occurs, or the sum of its weights."""

def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw from binomial distributions: the number of successes in ``count`` trials."""

def bitwise_and(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The bits that are set in both."""

def bitwise_left_shift(
    input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor:
    """``input << other``."""

def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Invert all bits; for bools, the negation."""

def bitwise_or(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The bits that are set in at least one."""

def bitwise_right_shift(
    input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor:
    """``input >> other``; the sign stays."""

def bitwise_xor(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The bits that are set in exactly one."""

def blackman_window(
    window_length: _int,
    periodic: _bool = True,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """The Blackman window, periodic as in `hann_window`."""

@overload
def block_diag(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The block diagonal matrix of these matrices; a vector counts as a row."""

@overload
def block_diag(*tensors: Tensor, out: Tensor | None = None) -> Tensor: ...
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of two batches of matrices."""

def broadcast_shapes(*shapes: _int | Sequence[_int]) -> Size:
    """The shape that tensors of these shapes broadcast to."""

def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Expand tensors to their common shape; a tensor that has it is returned itself."""

def broadcast_to(input: Tensor, size: Sequence[_int]) -> Tensor:
    """`expand` to ``size``."""

def bucketize(
    input: Tensor | _Number,
    boundaries: Tensor,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The index of the bucket that each value falls into, between sorted ``boundaries``."""

def cartesian_prod(*tensors: Tensor) -> Tensor:
    """The Cartesian product of vectors, as rows."""

@overload
def cat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along ``dim``; vectors without elements are left out."""

@overload
def cat(tensors: Sequence[Tensor], *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: _float = 2.0,
    compute_mode: Any = "use_mm_for_euclid_dist_if_necessary",
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The p-norm distances between all rows of two (batches of) matrices; the gradient is 0 at distance 0."""

def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Round up."""

def ceil_(input: Tensor) -> Tensor:
    """In-place version of `ceil`."""

def celu(input: Tensor, alpha: _float = 1.0, *, out: Tensor | None = None) -> Tensor:
    """``input`` where it is positive, else ``alpha * (exp(input / alpha) - 1)``."""

def celu_(input: Tensor, alpha: _float = 1.0) -> Tensor:
    """In-place version of `celu`."""

def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices in the cheapest order."""

def channel_shuffle(input: Tensor, groups: _int, *, out: Tensor | None = None) -> Tensor:
    """Move channel ``g * n + i`` to ``i * groups + g``, where n is the number of channels per group."""

def cholesky(input: Tensor, upper: _bool = False) -> Tensor:
    """The Cholesky factor of positive definite matrices."""

def cholesky_inverse(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A, given its Cholesky factor."""

def cholesky_solve(input: Tensor, L: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The solution X of ``A X = input``, given A's Cholesky factor."""

def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """Split along ``dim`` into at most ``chunks`` parts of one size; the last may be smaller."""

def clamp(
    input: Tensor,
    min: Tensor | _Number | None = None,
    max: Tensor | _Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``input`` limited to [``min``, ``max``], or ``max`` where ``min > max``; the gradient at a limit is 1."""

def clamp_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
    """In-place version of `clamp`."""

def clamp_max(input: Tensor, max: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The smaller of ``input`` and ``max``."""

def clamp_max_(input: Tensor, max: Tensor | _Number) -> Tensor:
    """In-place version of `clamp_max`."""

def clamp_min(input: Tensor, min: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The larger of ``input`` and ``min``."""

def clamp_min_(input: Tensor, min: Tensor | _Number) -> Tensor:
    """In-place version of `clamp_min`."""

def clip(
    input: Tensor,
    min: Tensor | _Number | None = None,
    max: Tensor | _Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``input`` limited to [``min``, ``max``], or ``max`` where ``min > max``; the gradient at a limit is 1."""

def clip_(input: Tensor, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
    """In-place version of `clamp`."""

def clone(input: Tensor, memory_format: Any = None, *, out: Tensor | None = None) -> Tensor:
    """A copy with its own Storage; the memory is copied only when one of the two is written."""

def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along dimension 1; a vector counts as a column."""

def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor:
    """All combinations of ``r`` elements of a vector, as rows."""

def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex numbers with the parts ``real`` and ``imag``."""

@overload
def concat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along ``dim``; vectors without elements are left out."""

@overload
def concat(tensors: Sequence[Tensor], *, axis: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def concatenate(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along ``dim``; vectors without elements are left out."""

@overload
def concatenate(tensors: Sequence[Tensor], *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def conj(input: Tensor) -> Tensor:
    """The complex conjugate, as a view; a real tensor is returned itself."""

def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate."""

def conj_physical_(input: Tensor) -> Tensor:
    """In-place version of `conj_physical`."""

def constant_pad_nd(
    input: Tensor, pad: _Sizes, value: Tensor | _Number = 0, *, out: Tensor | None = None
) -> Tensor:
    """``input`` padded with ``value``; negative padding crops."""

def conv1d(
    input: Tensor,
    weight: Tensor | _Number,
    bias: Tensor | _Number | None = None,
    stride: _Sizes = 1,
    padding: Any = 0,
    dilation: _Sizes = 1,
    groups: _int = 1,
    *,
    out: Tensor | None = None,
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
    *,
    out: Tensor | None = None,
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
    *,
    out: Tensor | None = None,
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
    *,
    out: Tensor | None = None,
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
    *,
    out: Tensor | None = None,
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
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Transposed convolution over 3 spatial dimensions: ``input`` (N, C, ...) and ``weight`` (C, O / groups, ...) give (N, O, ...)."""

def copysign(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The magnitude of ``input`` with the sign of ``other``."""

def corrcoef(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The correlation coefficients of variables (rows) over observations (columns)."""

def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Cosine."""

def cos_(input: Tensor) -> Tensor:
    """In-place version of `cos`."""

def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Hyperbolic cosine."""

def cosh_(input: Tensor) -> Tensor:
    """In-place version of `cosh`."""

@overload
def cosine_similarity(
    x1: Tensor, x2: Tensor | _Number, dim: _int = 1, eps: _float = 1e-08, *, out: Tensor | None = None
) -> Tensor:
    """The cosine similarity of vectors along ``dim``; norms are at least ``eps``."""

@overload
def cosine_similarity(
    x1: Tensor, x2: Tensor | _Number, *, axis: _int, eps: _float = 1e-08, out: Tensor | None = None
) -> Tensor: ...
@overload
def count_nonzero(input: Tensor, dim: _Sizes | None = None, *, out: Tensor | None = None) -> Tensor:
    """The number of values over ``dim`` that are not 0."""

@overload
def count_nonzero(input: Tensor, *, axis: _Sizes | None, out: Tensor | None = None) -> Tensor: ...
def cov(
    input: Tensor,
    *,
    correction: _int = 1,
    fweights: Tensor | _Number | None = None,
    aweights: Tensor | _Number | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The covariance matrix of the variables (rows) over the observations (columns)."""

@overload
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The cross product along a dimension of size 3 (default: the first one)."""

@overload
def cross(input: Tensor, other: Tensor, *, axis: _int | None, out: Tensor | None = None) -> Tensor: ...
@overload
def cummax(input: Tensor, dim: _int, *, out: Sequence[Tensor] | None = None) -> return_types.cummax:
    """The cumulative maximum along ``dim``, and its last index."""

@overload
def cummax(input: Tensor, *, axis: _int, out: Sequence[Tensor] | None = None) -> return_types.cummax: ...
@overload
def cummin(input: Tensor, dim: _int, *, out: Sequence[Tensor] | None = None) -> return_types.cummin:
    """The cumulative minimum along ``dim``, and its last index."""

@overload
def cummin(input: Tensor, *, axis: _int, out: Sequence[Tensor] | None = None) -> return_types.cummin: ...
@overload
def cumprod(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """The cumulative product along ``dim``."""

@overload
def cumprod(
    input: Tensor, *, axis: _int, dtype: _dtype | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def cumsum(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """The cumulative sum along ``dim``."""

@overload
def cumsum(
    input: Tensor, *, axis: _int, dtype: _dtype | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Tensor | _Number = 1, dim: _int = -1, out: Tensor | None = None
) -> Tensor:
    """The cumulative `trapezoid` along ``dim``."""

@overload
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Tensor | _Number = 1, axis: _int, out: Tensor | None = None
) -> Tensor: ...
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Convert degrees to radians."""

def deg2rad_(input: Tensor) -> Tensor:
    """In-place version of `deg2rad`."""

def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinant."""

def detach(input: Tensor) -> Tensor:
    """A tensor with the same Storage, detached from the graph."""

def detach_(input: Tensor) -> Tensor:
    """Detach a tensor from the graph, in place."""

def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A detached copy."""

def diag(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """The matrix with a vector on its diagonal, or a copy of a matrix's diagonal."""

def diag_embed(
    input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1, *, out: Tensor | None = None
) -> Tensor:
    """Matrices in ``dim1`` and ``dim2``, with the last dimension of ``input`` on a diagonal."""

def diagflat(input: Tensor, offset: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """The matrix with all elements of ``input`` on its diagonal."""

def diagonal(
    input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None
) -> Tensor:
    """A view of the diagonals of matrices in ``dim1`` and ``dim2``, as the last dimension."""

def diagonal_copy(
    input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None
) -> Tensor:
    """A view of the diagonals of matrices in ``dim1`` and ``dim2``, as the last dimension."""

def diagonal_scatter(
    input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None
) -> Tensor:
    """A copy with ``src`` on a diagonal."""

@overload
def diff(
    input: Tensor,
    n: _int = 1,
    dim: _int = -1,
    prepend: Tensor | _Number | None = None,
    append: Tensor | _Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The ``n``-th difference along ``dim`` of ``prepend``, ``input`` and ``append``, joined."""

@overload
def diff(
    input: Tensor,
    n: _int = 1,
    *,
    axis: _int,
    prepend: Tensor | _Number | None = None,
    append: Tensor | _Number | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The derivative of `lgamma`."""

def dist(input: Tensor, other: Tensor, p: _float = 2, *, out: Tensor | None = None) -> Tensor:
    """The p-norm of ``input - other``."""

def div(
    input: Tensor | _Number,
    other: Tensor | _Number,
    *,
    rounding_mode: _str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``input / other``, optionally rounded towards zero ("trunc") or down ("floor")."""

def divide(
    input: Tensor | _Number,
    other: Tensor | _Number,
    *,
    rounding_mode: _str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``input / other``, optionally rounded towards zero ("trunc") or down ("floor")."""

def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inner product of two vectors."""

def dsplit(
    input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """`tensor_split` along dimension 2; a number must divide it."""

def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along dimension 2, after `atleast_3d`."""

def einsum(equation: Any, *operands: Any) -> Tensor:
    """Einstein summation: ``einsum("ij,jk->ik", a, b)`` or ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""

@overload
def empty(
    size: Sequence[_int],
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
    memory_format: _memory_format | None = None,
) -> Tensor:
    """Create a tensor with unspecified values, which are zeros here."""

@overload
def empty(
    *size: _int,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
    memory_format: _memory_format | None = None,
) -> Tensor: ...
def empty_like(
    input: Tensor,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
    memory_format: _memory_format | None = None,
) -> Tensor:
    """Like `empty`, with the shape, dtype and device of ``input``."""

def empty_permuted(
    size: Sequence[_int],
    physical_layout: Any,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """Like `empty`; ``physical_layout`` is the order of the dimensions in memory, the outermost first."""

def empty_strided(
    size: Sequence[_int],
    stride: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """Like `empty`, with these strides."""

def eq(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input == other``."""

def equal(input: Tensor, other: Tensor) -> _bool:
    """Whether the shapes and all elements are equal, as a Python bool."""

def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The error function."""

def erf_(input: Tensor) -> Tensor:
    """In-place version of `erf`."""

def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 - erf(input)``."""

def erfc_(input: Tensor) -> Tensor:
    """In-place version of `erfc`."""

def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `erf`."""

def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """e to the power of ``input``."""

def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """2 to the power of ``input``."""

def exp2_(input: Tensor) -> Tensor:
    """In-place version of `exp2`."""

def exp_(input: Tensor) -> Tensor:
    """In-place version of `exp`."""

def expand_copy(input: Tensor, size: _Sizes, *, implicit: _bool = False, out: Tensor | None = None) -> Tensor:
    """A view with dimensions of size 1 repeated, and new leading dimensions; -1 keeps a size."""

def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``exp(input) - 1``, accurate near 0."""

def expm1_(input: Tensor) -> Tensor:
    """In-place version of `expm1`."""

def eye(
    n: _int,
    m: _int | None = None,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """A matrix, ``n`` by ``m`` (default: ``n`` by ``n``), with ones on the diagonal and zeros elsewhere."""

def fill(input: Tensor | _Number, value: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``value`` in the shape and dtype of ``input``."""

def fill_(self: Tensor, /, value: Tensor | _Number) -> Tensor:
    """Fill with a number, in place."""

def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Round towards zero."""

def fix_(input: Tensor) -> Tensor:
    """In-place version of `trunc`."""

def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
    """Merge the dimensions from ``start_dim`` to ``end_dim`` into one."""

def flip(input: Tensor, dims: _Sizes, *, out: Tensor | None = None) -> Tensor:
    """Reverse the order of the elements along ``dims``."""

def fliplr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Reverse the columns (dimension 1)."""

def flipud(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Reverse the rows (dimension 0)."""

def float_power(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`pow`, computed in float64 or complex128."""

def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Round down."""

def floor_(input: Tensor) -> Tensor:
    """In-place version of `floor`."""

def floor_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input / other``, rounded down."""

def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger of two elements; NaN only if both are."""

def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smaller of two elements; NaN only if both are."""

def fmod(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The remainder of division rounded towards zero; it has the sign of ``input``."""

def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The fractional part, with the sign of ``input``."""

def frac_(input: Tensor) -> Tensor:
    """In-place version of `frac`."""

def frexp(input: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.frexp:
    """``input`` as ``mantissa * 2**exponent``, with ``0.5 <= |mantissa| < 1`` (both are 0 for 0)."""

def frobenius_norm(input: Tensor, dim: Any = (), keepdim: _bool = False) -> Tensor:
    """The square root of the sum of the squares over ``dim``."""

def from_dlpack(ext_tensor: Any) -> Tensor:
    """Create a tensor from any object with ``__dlpack__``; it shares memory under the conditions of `from_numpy`."""

def from_jax(array: Any) -> Tensor:
    """Wrap a `jax.Array` as a tensor, without a copy."""

def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """Create a tensor from a numpy array."""

def full(
    size: Sequence[_int],
    fill_value: Tensor | _Number,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """Create a tensor filled with a number, whose type gives the default dtype."""

def full_like(
    input: Tensor,
    fill_value: Tensor | _Number,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
    memory_format: _memory_format | None = None,
) -> Tensor:
    """Like `full`, with the shape, dtype and device of ``input``."""

def gather(
    input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False, out: Tensor | None = None
) -> Tensor:
    """``out[i][j] = input[index[i][j]][j]`` for ``dim=0``, and so on. ``sparse_grad`` has no effect."""

def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest common divisor."""

def gcd_(input: Tensor, other: Tensor) -> Tensor:
    """In-place version of `gcd`."""

def ge(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input >= other``."""

def geqrf(input: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.geqrf:
    """The QR decomposition in LAPACK's form: R with the Householder vectors below it, and their factors tau."""

def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The outer product of two vectors."""

def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: _int = 1) -> tuple[Tensor, ...]:
    """The numerical gradient by central differences, one tensor per dimension."""

def greater(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input > other``."""

def greater_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input >= other``."""

def grid_sampler(
    input: Any, grid: Any, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> Any:
    """`grid_sampler_2d` or `grid_sampler_3d`, by the number of dimensions of ``input``."""

def grid_sampler_2d(
    input: Tensor | _Number,
    grid: Tensor | _Number,
    interpolation_mode: _int,
    padding_mode: _int,
    align_corners: _bool,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Sample images (N, C, H, W) at ``grid`` (N, H', W', 2), in coordinates from -1 to 1; see `grid_sampler`."""

def grid_sampler_3d(
    input: Tensor | _Number,
    grid: Tensor | _Number,
    interpolation_mode: _int,
    padding_mode: _int,
    align_corners: _bool,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Sample volumes (N, C, D, H, W) at ``grid`` (N, D', H', W', 3), from -1 to 1; see `grid_sampler`."""

def group_norm(
    input: Tensor | _Number,
    num_groups: _int,
    weight: Tensor | _Number | None = None,
    bias: Tensor | _Number | None = None,
    eps: _float = 1e-05,
    cudnn_enabled: _bool = True,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Normalize to mean 0 and variance 1 per example and group of channels, then scale and shift per channel."""

def gru(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """The layers of `nn.GRU` with weights given as a list."""

def gru_cell(
    input: Tensor | _Number,
    hx: Tensor | _Number,
    w_ih: Tensor | _Number,
    w_hh: Tensor | _Number,
    b_ih: Tensor | _Number | None = None,
    b_hh: Tensor | _Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """One step of a GRU layer."""

def gt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input > other``."""

def hamming_window(
    window_length: _int,
    periodic: _bool = True,
    alpha: _float = 0.54,
    beta: _float = 0.46,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """The Hamming window ``alpha - beta * cos(...)``, periodic as in `hann_window`."""

def hann_window(
    window_length: _int,
    periodic: _bool = True,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """The Hann window; a periodic one omits the last of ``window_length + 1`` points."""

def hardshrink(input: Tensor, lambd: _float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """``input`` where ``|input| > lambd``, else 0."""

@overload
def hash_tensor(
    input: Tensor,
    dim: _Sizes | None = (),
    *,
    keepdim: _bool = False,
    mode: _int = 0,
    out: Tensor | None = None,
) -> Tensor:
    """The exclusive or over ``dim`` of the bits of the elements, as float64, int64 or uint64."""

@overload
def hash_tensor(
    input: Tensor, *, axis: _Sizes | None, keepdims: _bool = False, mode: _int = 0, out: Tensor | None = None
) -> Tensor: ...
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """0 where ``input`` is negative, 1 where it is positive, ``values`` where it is 0."""

def histc(
    input: Tensor, bins: _int = 100, min: _float = 0, max: _float = 0, *, out: Tensor | None = None
) -> Tensor:
    """Count values in ``bins`` equal bins from ``min`` to ``max``; if these are equal, those of the data."""

def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: _bool = False
) -> Any:
    """The number (or weight) of values in ``bins`` equal bins, or between the edges ``bins``; and the edges."""

def histogramdd(
    input: Tensor,
    bins: Any,
    range: Sequence[_float] | None = None,
    weight: Tensor | None = None,
    density: _bool = False,
) -> Any:
    """The number (or weight) of points, vectors in the last dimension, in each cell; and the edges by dimension."""

def hsplit(
    input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """`tensor_split` along dimension 1 (vector: 0); a number must divide it."""

def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along dimension 1, or vectors along dimension 0."""

def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``sqrt(input**2 + other**2)``."""

def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 0."""

def i0_(input: Tensor) -> Tensor:
    """In-place version of `i0`."""

def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularized lower incomplete gamma function P(``input``, ``other``)."""

def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularized upper incomplete gamma function Q(``input``, ``other``)."""

def imag(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The imaginary part, as a view."""

def index_add(
    input: Tensor,
    dim: _int,
    index: Tensor,
    source: Tensor,
    *,
    alpha: Tensor | _Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with ``alpha * source`` added to the slices at the positions ``index``."""

def index_copy(
    input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """A copy with the slices of ``source`` at the positions ``index``."""

def index_fill(
    input: Tensor, dim: _int, index: Tensor, value: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor:
    """A copy with ``value`` in the slices at the positions ``index``."""

def index_put(input: Tensor, indices: Any, values: Any, accumulate: _bool = False) -> Tensor:
    """``input`` with ``values`` at the index tensors or masks; added up where positions repeat if ``accumulate``."""

def index_put_(input: Tensor, indices: Any, values: Any, accumulate: _bool = False) -> Tensor:
    """In-place version of `index_put`."""

def index_reduce(
    input: Tensor,
    dim: _int,
    index: Tensor,
    source: Tensor,
    reduce: _str,
    *,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy into which the slices of ``source`` are reduced by index: "prod", "mean", "amax" or "amin"."""

def index_select(input: Tensor, dim: _int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The slices along ``dim`` at the positions ``index``."""

def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inner products along the last dimensions of both tensors."""

def inverse(input: Tensor) -> Tensor:
    """The inverse of (a batch of) square matrices."""

def is_anomaly_check_nan_enabled() -> _bool:
    """Whether anomaly mode also looks for NaN."""

def is_anomaly_enabled() -> _bool:
    """Whether anomaly mode is on."""

def is_complex(input: Tensor) -> _bool:
    """Whether the dtype is a complex type."""

def is_conj(input: Tensor) -> _bool:
    """Whether the tensor is a conjugate view."""

def is_floating_point(input: Tensor) -> _bool:
    """Whether the dtype is a floating point type."""

def is_inference(input: Tensor) -> _bool:
    """Whether the tensor's memory was allocated in `inference_mode`."""

def is_neg(input: Tensor) -> _bool:
    """Whether the tensor is a negated view."""

def is_nonzero(input: Tensor) -> _bool:
    """Whether a one-element tensor is nonzero."""

def is_same_size(input: Tensor, other: Tensor) -> _bool:
    """Whether both have the same shape."""

def is_signed(input: Tensor) -> _bool:
    """Whether the dtype has negative numbers."""

def is_storage(obj: Any) -> _bool:
    """Whether ``obj`` is a Storage."""

def is_tensor(obj: Any) -> _bool:
    """Whether ``obj`` is a Tensor."""

def isclose(
    input: Tensor,
    other: Tensor,
    rtol: Tensor | _Number = 1e-05,
    atol: Tensor | _Number = 1e-08,
    equal_nan: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Whether ``|input - other| <= atol + rtol * |other|``."""

def isfinite(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is neither infinite nor NaN."""

def isin(
    elements: Tensor | _Number,
    test_elements: Tensor | _Number,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Whether each element is one of ``test_elements``."""

def isinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is infinite."""

def isnan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is NaN."""

def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is minus infinity."""

def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is plus infinity."""

def isreal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether the imaginary part of each element is 0."""

def istft(
    input: Tensor,
    n_fft: _int,
    hop_length: _int | None = None,
    win_length: _int | None = None,
    window: Tensor | _Number | None = None,
    center: _bool = True,
    normalized: _bool = False,
    onesided: _bool | None = None,
    length: _int | None = None,
    return_complex: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The signal whose `stft` is closest to ``input``."""

def kaiser_window(
    window_length: _int,
    periodic: _bool = True,
    beta: _float = 12.0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """The Kaiser window with shape ``beta``, periodic as in `hann_window`."""

def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Kronecker product."""

@overload
def kthvalue(
    input: Tensor, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None
) -> return_types.kthvalue:
    """The ``k``-th smallest value along ``dim`` and its index."""

@overload
def kthvalue(
    input: Tensor, k: _int, *, axis: _int, keepdims: _bool = False, out: Sequence[Tensor] | None = None
) -> return_types.kthvalue: ...
def layer_norm(
    input: Tensor | _Number,
    normalized_shape: _Sizes,
    weight: Tensor | _Number | None = None,
    bias: Tensor | _Number | None = None,
    eps: _float = 1e-05,
    cudnn_enable: _bool = True,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Normalize to mean 0 and variance 1 over the last dimensions, then scale and shift elementwise."""

def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least common multiple."""

def lcm_(input: Tensor, other: Tensor) -> Tensor:
    """In-place version of `lcm`."""

def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * 2**other``; exact if ``other`` has an integer dtype."""

def ldexp_(input: Tensor, other: Tensor) -> Tensor:
    """In-place version of `ldexp`."""

def le(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input <= other``."""

def lerp(input: Tensor, end: Tensor, weight: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input + weight * (end - input)``."""

def less(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input < other``."""

def less_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input <= other``."""

def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the absolute value of the gamma function."""

def linspace(
    start: Tensor | _Number,
    end: Tensor | _Number,
    steps: Tensor | _Number,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both inclusive."""

def lobpcg(
    A: Tensor,
    k: _int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: _int | None = None,
    iK: Tensor | None = None,
    niter: _int | None = None,
    tol: _float | None = None,
    largest: _bool | None = None,
    method: _str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[_str, _int] | None = None,
    ortho_fparams: dict[_str, _float] | None = None,
    ortho_bparams: dict[_str, _bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The ``k`` largest or smallest eigenvalues of ``A x = e B x``, and their eigenvectors."""

def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The natural logarithm."""

def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 10."""

def log10_(input: Tensor) -> Tensor:
    """In-place version of `log10`."""

def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log(1 + input)``, accurate near 0."""

def log1p_(input: Tensor) -> Tensor:
    """In-place version of `log1p`."""

def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 2."""

def log2_(input: Tensor) -> Tensor:
    """In-place version of `log2`."""

def log_(input: Tensor) -> Tensor:
    """In-place version of `log`."""

@overload
def log_softmax(
    input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The logarithm of `softmax`, computed without under- or overflow."""

@overload
def log_softmax(
    input: Tensor, *, axis: _int, dtype: _dtype | None = None, out: Tensor | None = None
) -> Tensor: ...
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log(exp(input) + exp(other))``, without overflow."""

def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log2(2**input + 2**other)``, without overflow."""

@overload
def logcumsumexp(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor:
    """``log(cumsum(exp(input)))`` along ``dim``, without overflow."""

@overload
def logcumsumexp(input: Tensor, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def logdet(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the determinant; NaN if that is negative."""

def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether both elements are nonzero."""

def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether each element is zero."""

def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether at least one of two elements is nonzero."""

def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether exactly one of two elements is nonzero."""

def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor:
    """``log(x / (1 - x))``; with ``eps``, x is limited to ``[eps, 1 - eps]`` first."""

def logit_(input: Tensor, eps: _float | None = None) -> Tensor:
    """In-place version of `logit`."""

def logspace(
    start: Tensor | _Number,
    end: Tensor | _Number,
    steps: Tensor | _Number,
    base: _float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """``base`` to the power of each element of ``linspace(start, end, steps)``."""

@overload
def logsumexp(
    input: Tensor, dim: _Sizes | None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor:
    """``log(sum(exp(input)))`` over ``dim``, without overflow."""

@overload
def logsumexp(
    input: Tensor, *, axis: _Sizes | None, keepdims: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """The layers of `nn.LSTM` with weights given as a list."""

def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM layer: (output, cell state)."""

def lt(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input < other``."""

def lu(A: Tensor, pivot: _bool = True, get_infos: _bool = False) -> Any:
    """`lu_factor`; with ``get_infos`` also ``info`` instead of an error."""

def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The solution X of ``A X = input``, from the `lu_factor` of A."""

def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: _bool = True, unpack_pivots: _bool = True
) -> Any:
    """P, L and U from the result of `linalg.lu_factor`; parts that are not unpacked are empty."""

def masked_fill(input: Tensor, mask: Tensor, value: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """A copy with ``value`` where ``mask`` is True."""

def masked_scatter(input: Tensor, mask: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy in which the elements where ``mask`` is True are, in order, those of ``source``."""

def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A vector of the elements where ``mask`` is True."""

def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product, or batches of it; a vector is a row on the left, and a column on the right."""

def matrix_exp(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix exponential."""

def matrix_power(A: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """The ``n``-th power of square matrices; a negative ``n`` takes powers of the inverse."""

@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The maximum of all elements, or along ``dim`` with its indices; or `maximum` of two tensors."""

@overload
def max(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None
) -> return_types.max: ...
@overload
def max(
    input: Tensor, *, axis: _int, keepdims: _bool = False, out: Sequence[Tensor] | None = None
) -> return_types.max: ...
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def max_pool1d(
    input: Tensor,
    kernel_size: _Sizes,
    stride: _Sizes | None = None,
    padding: _Sizes = 0,
    dilation: _Sizes = 1,
    ceil_mode: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Max-pooling over 1 spatial dimension; gradients go to the first maximum."""

def max_pool2d(
    input: Tensor,
    kernel_size: _Sizes,
    stride: _Sizes | None = None,
    padding: _Sizes = 0,
    dilation: _Sizes = 1,
    ceil_mode: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Max-pooling over 2 spatial dimensions; gradients go to the first maximum."""

def max_pool3d(
    input: Tensor,
    kernel_size: _Sizes,
    stride: _Sizes | None = None,
    padding: _Sizes = 0,
    dilation: _Sizes = 1,
    ceil_mode: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Max-pooling over 3 spatial dimensions; gradients go to the first maximum."""

def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger of two elements, NaN if one of them is; equal elements share the gradient."""

@overload
def mean(
    input: Tensor,
    dim: _Sizes | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The mean over ``dim`` (all dimensions by default)."""

@overload
def mean(
    input: Tensor,
    *,
    axis: _Sizes | None,
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def median(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The lower median of all elements, or along ``dim`` with its index; NaN if one element is."""

@overload
def median(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None
) -> return_types.median: ...
def meshgrid(*tensors: Any, indexing: _str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of vectors, one tensor for each; ``indexing`` is "ij" (default) or "xy"."""

@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The minimum of all elements, or along ``dim`` with its indices; or `minimum` of two tensors."""

@overload
def min(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None
) -> return_types.min: ...
@overload
def min(
    input: Tensor, *, axis: _int, keepdims: _bool = False, out: Sequence[Tensor] | None = None
) -> return_types.min: ...
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smaller of two elements, NaN if one of them is; equal elements share the gradient."""

def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices."""

@overload
def mode(
    input: Tensor, dim: _int = -1, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None
) -> return_types.mode:
    """The most frequent value along ``dim`` (the smallest of several), and its last index."""

@overload
def mode(
    input: Tensor, *, axis: _int, keepdims: _bool = False, out: Sequence[Tensor] | None = None
) -> return_types.mode: ...
def moveaxis(
    input: Tensor, source: _int | _Sizes, destination: _int | _Sizes, *, out: Tensor | None = None
) -> Tensor:
    """Move the dimensions ``source`` to the positions ``destination``; the others keep their order."""

def movedim(
    input: Tensor, source: _int | _Sizes, destination: _int | _Sizes, *, out: Tensor | None = None
) -> Tensor:
    """Move the dimensions ``source`` to the positions ``destination``; the others keep their order."""

def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sort along the first dimension."""

def mul(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input * other``."""

def multinomial(
    input: Tensor,
    num_samples: _int,
    replacement: _bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Draw indices with probabilities proportional to the weights in each row of ``input``."""

def multiply(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input * other``."""

def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of a matrix and a vector."""

def mvlgamma(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``p``."""

def nan_to_num(
    input: Tensor,
    nan: _float | None = None,
    posinf: _float | None = None,
    neginf: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Replace NaN (by 0) and the infinities (by the dtype's largest and smallest number), or by the given numbers."""

def nan_to_num_(
    input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None
) -> Tensor:
    """In-place version of `nan_to_num`."""

@overload
def nanmean(
    input: Tensor,
    dim: _Sizes | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The mean over ``dim`` of the values that are not NaN."""

@overload
def nanmean(
    input: Tensor,
    *,
    axis: _Sizes | None,
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nanmedian(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`median` of the elements that are not NaN."""

@overload
def nanmedian(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: Sequence[Tensor] | None = None
) -> return_types.nanmedian: ...
@overload
def nanquantile(
    input: Tensor,
    q: Tensor | _Number,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: _str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """`quantile` of the elements that are not NaN."""

@overload
def nanquantile(
    input: Tensor,
    q: Tensor | _Number,
    *,
    axis: _int | None,
    keepdims: _bool = False,
    interpolation: _str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nansum(
    input: Tensor,
    dim: _Sizes | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The sum over ``dim``, with NaN counted as 0."""

@overload
def nansum(
    input: Tensor,
    *,
    axis: _Sizes | None,
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def narrow(
    input: Tensor, dim: _int, start: Tensor | _Number, length: _int, *, out: Tensor | None = None
) -> Tensor:
    """A view of ``length`` elements along ``dim``, from ``start`` on."""

def narrow_copy(input: Tensor, dim: _int, start: _int, length: _int) -> Tensor:
    """A copy of the `narrow` view."""

def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: _bool,
    momentum: _float,
    eps: _float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch normalization, with its mean and reciprocal standard deviation (empty in evaluation mode)."""

def native_channel_shuffle(input: Tensor, groups: _int, *, out: Tensor | None = None) -> Tensor:
    """Move channel ``g * n + i`` to ``i * groups + g``, where n is the number of channels per group."""

def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: _int,
    C: _int,
    HxW: _int,
    group: _int,
    eps: _float,
) -> tuple[Tensor, Tensor, Tensor]:
    """`group_norm`, with its mean and its reciprocal standard deviation."""

def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None, bias: Tensor | None, eps: _float
) -> tuple[Tensor, Tensor, Tensor]:
    """`layer_norm`, with its mean and its reciprocal standard deviation."""

def ne(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input != other``."""

def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``-input``."""

def neg_(input: Tensor) -> Tensor:
    """In-place version of `neg`."""

def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``-input``."""

def negative_(input: Tensor) -> Tensor:
    """In-place version of `neg`."""

def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The next representable number from ``input`` towards ``other``."""

@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor:
    """The indices of nonzero elements: the rows of a matrix, or with ``as_tuple`` one vector per dimension."""

@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
def nonzero_static(input: Tensor, *, size: _int, fill_value: _int = -1, out: Tensor | None = None) -> Tensor:
    """The indices of the first ``size`` nonzero elements, as rows; missing ones are ``fill_value``."""

@overload
def norm(
    input: Tensor,
    p: Any = "fro",
    dim: _Sizes | None = None,
    keepdim: _bool = False,
    dtype: _dtype | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The p-norm over ``dim``, or the nuclear norm of a matrix."""

@overload
def norm(
    input: Tensor,
    p: Any = "fro",
    *,
    axis: _Sizes | None,
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def norm_except_dim(v: Tensor, pow: _int = 2, dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """The norms of the slices along ``dim``, broadcastable to ``v``; the norm of all elements for -1."""

@overload
def norm_except_dim(v: Tensor, pow: _int = 2, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def normal(
    mean: Tensor | _float,
    std: Tensor | _float = 1.0,
    size: Sequence[_int] | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """Draw normal numbers with these means and standard deviations."""

def not_equal(input: Tensor, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input != other``."""

def nuclear_norm(input: Tensor, dim: Any = None, keepdim: _bool = False) -> Tensor:
    """The sum of the singular values of matrices in the dimensions ``dim``."""

def numel(input: Tensor) -> _int:
    """The number of elements."""

@overload
def ones(
    size: Sequence[_int],
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """Create a tensor of ones; the arguments are those of `zeros`."""

@overload
def ones(
    *size: _int,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor: ...
def ones_like(
    input: Tensor,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
    memory_format: _memory_format | None = None,
) -> Tensor:
    """Create a tensor of ones with the shape, dtype and device of ``input``."""

def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of Householder reflections, such as `geqrf` returns."""

def ormqr(
    input: Tensor,
    input2: Tensor,
    input3: Tensor,
    left: _bool = True,
    transpose: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply a matrix by the Q of `geqrf` (or its adjoint) from the left or the right."""

def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The outer product of two vectors."""

def pairwise_distance(
    x1: Tensor,
    x2: Tensor | _Number,
    p: _float = 2.0,
    eps: _float = 1e-06,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension."""

def pca_lowrank(
    A: Tensor, q: _int | None = None, center: _bool = True, niter: _int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Principal component analysis of samples (rows): `svd_lowrank` of the centered matrix."""

def pdist(input: Tensor, p: _float = 2, *, out: Tensor | None = None) -> Tensor:
    """The p-norm distances of all pairs of rows: (0, 1), (0, 2), ..., (1, 2), ..."""

def permute(input: Tensor, dims: _Sizes, *, out: Tensor | None = None) -> Tensor:
    """Reorder the dimensions: dimension ``dims[i]`` becomes dimension ``i``."""

def permute_copy(input: Tensor, dims: _Sizes, *, out: Tensor | None = None) -> Tensor:
    """Reorder the dimensions: dimension ``dims[i]`` becomes dimension ``i``."""

def pinverse(input: Tensor, rcond: _float = 1e-15, *, out: Tensor | None = None) -> Tensor:
    """The pseudo-inverse; singular values up to ``rcond * largest`` count as 0."""

def pixel_shuffle(input: Tensor, upscale_factor: _int, *, out: Tensor | None = None) -> Tensor:
    """Rearrange (..., C * r * r, H, W) to (..., C, H * r, W * r)."""

def pixel_unshuffle(input: Tensor, downscale_factor: _int, *, out: Tensor | None = None) -> Tensor:
    """Rearrange (..., C, H * r, W * r) to (..., C * r * r, H, W)."""

def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw Poisson numbers with the rates in ``input``."""

def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex numbers with the absolute values ``abs`` and the angles ``angle``."""

def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The ``n``-th derivative of `digamma`."""

def positive(input: Any) -> Any:
    """The tensor itself."""

def pow(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input`` to the power of ``exponent``; either may be a number."""

def prelu(input: Tensor, weight: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input`` where it is positive, else ``weight * input``, with one weight for all or for each channel."""

@overload
def prod(
    input: Tensor,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The product over ``dim`` (all dimensions by default)."""

@overload
def prod(
    input: Tensor,
    *,
    axis: _int | None,
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def put(
    input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False, *, out: Tensor | None = None
) -> Tensor:
    """A copy with ``source`` written (or added) at positions of the flattened input."""

def qr(input: Tensor, some: _bool = True, *, out: Sequence[Tensor] | None = None) -> return_types.qr:
    """The QR decomposition ``input = Q R``: the reduced one, or with ``some=False`` the complete one."""

@overload
def quantile(
    input: Tensor,
    q: Tensor | _Number,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: _str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The quantiles ``q`` (between 0 and 1) along ``dim``, or of all elements."""

@overload
def quantile(
    input: Tensor,
    q: Tensor | _Number,
    *,
    axis: _int | None,
    keepdims: _bool = False,
    interpolation: _str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Convert radians to degrees."""

def rad2deg_(input: Tensor) -> Tensor:
    """In-place version of `rad2deg`."""

@overload
def rand(
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """Draw uniform numbers in [0, 1)."""

@overload
def rand(
    *size: _int,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor: ...
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    pin_memory: _bool = False,
    requires_grad: _bool = False,
    memory_format: _memory_format | None = None,
) -> Tensor:
    """`rand` with the shape, dtype and device of ``input``."""

@overload
def randint(
    high: _int,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """Draw integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``."""

@overload
def randint(
    low: _int,
    high: _int,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor: ...
@overload
def randint_like(
    input: Tensor,
    high: _int,
    *,
    generator: Generator | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    memory_format: _memory_format | None = None,
) -> Tensor:
    """`randint` with the shape, dtype and device of ``input``; called as ``(input, [low,] high)``."""

@overload
def randint_like(
    input: Tensor,
    low: _int,
    high: _int,
    *,
    generator: Generator | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    memory_format: _memory_format | None = None,
) -> Tensor: ...
@overload
def randn(
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """Draw standard normal numbers; the arguments are those of `rand`."""

@overload
def randn(
    *size: _int,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor: ...
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    pin_memory: _bool = False,
    requires_grad: _bool = False,
    memory_format: _memory_format | None = None,
) -> Tensor:
    """`randn` with the shape, dtype and device of ``input``."""

def randperm(
    n: _int,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    pin_memory: _bool = False,
    requires_grad: _bool = False,
) -> Tensor:
    """The integers from 0 to ``n - 1`` in random order."""

def range(
    start: Tensor | _Number,
    end: Tensor | _Number,
    step: Tensor | _Number = 1,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """Deprecated: like `arange`, but ``end`` is included, and the default dtype is a float dtype."""

def ravel(input: Tensor) -> Tensor:
    """All elements as a vector."""

def real(input: Tensor) -> Tensor:
    """The real part, as a view; a real tensor is returned itself."""

def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 / input``."""

def reciprocal_(input: Tensor) -> Tensor:
    """In-place version of `reciprocal`."""

def relu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``max(input, 0)``; the gradient at 0 is 0."""

def relu_(input: Tensor) -> Tensor:
    """In-place version of `relu`."""

def remainder(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The remainder of `floor_divide`; it has the sign of ``other``."""

def renorm(input: Tensor, p: _float, dim: _int, maxnorm: _float, *, out: Tensor | None = None) -> Tensor:
    """Scale each slice along ``dim`` whose p-norm is above ``maxnorm`` down to it."""

def repeat_interleave(
    input: Any, repeats: Any = None, dim: _int | None = None, *, output_size: _int | None = None
) -> Tensor:
    """Repeat each element along ``dim``, by default of the flattened input."""

def reshape(input: Tensor, shape: Sequence[_int]) -> Tensor:
    """The tensor in another shape: a view if its strides allow one, else a copy."""

def resize_as_(
    self: Tensor, /, the_template: Tensor, *, memory_format: _memory_format | None = None
) -> Tensor:
    """Resize in place to the size of another tensor; with `preserve_format`, to its format too."""

def resolve_conj(input: Tensor) -> Tensor:
    """A copy of a conjugate view (see `is_conj`); any other tensor unchanged."""

def resolve_neg(input: Tensor) -> Tensor:
    """A copy of a negated view (see `is_neg`); any other tensor unchanged."""

def result_type(tensor1: Any, tensor2: Any) -> _dtype:
    """The dtype of the result of an operation on two tensors or numbers."""

def rms_norm(
    input: Tensor,
    normalized_shape: _Sizes,
    weight: Tensor | _Number | None = None,
    eps: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``input`` divided by its root mean square over the last dimensions; the default ``eps`` is that of the dtype."""

def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """The layers of `nn.RNN` with weights given as a list."""

def rnn_relu_cell(
    input: Tensor | _Number,
    hx: Tensor | _Number,
    w_ih: Tensor | _Number,
    w_hh: Tensor | _Number,
    b_ih: Tensor | _Number | None = None,
    b_hh: Tensor | _Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """One step of an RNN layer with `relu`."""

def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """The layers of `nn.RNN` with weights given as a list."""

def rnn_tanh_cell(
    input: Tensor | _Number,
    hx: Tensor | _Number,
    w_ih: Tensor | _Number,
    w_hh: Tensor | _Number,
    b_ih: Tensor | _Number | None = None,
    b_hh: Tensor | _Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """One step of an RNN layer with `tanh`."""

def roll(
    input: Tensor, shifts: _int | _Sizes, dims: _int | _Sizes | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Shift the elements cyclically along ``dims``, by default in the flattened tensor."""

def rot90(input: Tensor, k: _int = 1, dims: _Sizes = ..., *, out: Tensor | None = None) -> Tensor:
    """Rotate ``k`` times by 90 degrees, from the first of ``dims`` towards the second."""

def round(input: Tensor, *, decimals: _int = 0, out: Tensor | None = None) -> Tensor:
    """Round to ``decimals`` places; a half goes to the even neighbour."""

def round_(input: Tensor, *, decimals: _int = 0) -> Tensor:
    """In-place version of `round`."""

def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along dimension 0; a vector counts as a row."""

def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 / sqrt(input)``."""

def rsqrt_(input: Tensor) -> Tensor:
    """In-place version of `rsqrt`."""

def rsub(
    input: Tensor, other: Tensor | _Number, *, alpha: Tensor | _Number = 1, out: Tensor | None = None
) -> Tensor:
    """``other - alpha * input``."""

def scalar_tensor(
    s: Any,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """A 0-dim tensor with the value ``s``, by default of the default dtype."""

def scatter(
    input: Tensor,
    dim: _int,
    index: Tensor,
    src: Tensor | _Number | None = None,
    *,
    value: Tensor | _Number | None = None,
    reduce: _str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with ``out[index[i][j]][j] = src[i][j]`` for ``dim=0``, and so on; ``src`` may be a number."""

def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy with ``out[index[i][j]][j] += src[i][j]`` for ``dim=0``, and so on."""

def scatter_reduce(
    input: Tensor,
    dim: _int,
    index: Tensor,
    src: Tensor,
    reduce: _str,
    *,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy into which `scatter` reduces ``src``: by "sum", "prod", "mean", "amax" or "amin"."""

def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | _Number,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    side: _str | None = None,
    sorter: Tensor | _Number | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The indices at which to insert values into the last dimension of ``sorted_sequence``, to keep it sorted."""

def segment_reduce(
    data: Tensor,
    reduce: _str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: _int = 0,
    unsafe: _bool = False,
    initial: Tensor | _Number | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Reduce consecutive segments of a dimension."""

def select(input: Tensor, dim: _int, index: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """A view of the slice ``index`` along ``dim``, without that dimension."""

def select_copy(input: Tensor, dim: _int, index: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """A view of the slice ``index`` along ``dim``, without that dimension."""

def select_scatter(
    input: Tensor, src: Tensor, dim: _int, index: _int, *, out: Tensor | None = None
) -> Tensor:
    """A copy with ``src`` in the place of the slice ``index`` along ``dim``."""

def selu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`elu` with constants that preserve mean 0 and variance 1."""

def selu_(input: Tensor) -> Tensor:
    """In-place version of `selu`."""

def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by an old class or its name (deprecated in PyTorch: use `set_default_dtype`)."""

def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`sign`; a complex number is divided by its absolute value, and 0 stays 0."""

def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 / (1 + exp(-input))``."""

def sigmoid_(input: Tensor) -> Tensor:
    """In-place version of `sigmoid`."""

def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-1, 0 or 1, by the sign of each element."""

def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether the sign bit is set: for negative numbers and -0.0."""

def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sine."""

def sin_(input: Tensor) -> Tensor:
    """In-place version of `sin`."""

def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``sin(pi x) / (pi x)``, 1 at 0."""

def sinc_(input: Tensor) -> Tensor:
    """In-place version of `sinc`."""

def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Hyperbolic sine."""

def sinh_(input: Tensor) -> Tensor:
    """In-place version of `sinh`."""

@overload
def slice_copy(
    input: Tensor,
    dim: _int = 0,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of ``input[start:end:step]`` along ``dim``."""

@overload
def slice_copy(
    input: Tensor,
    *,
    axis: _int,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: _int = 0,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with ``src`` in the place of ``input[start:end:step]`` along ``dim``."""

@overload
def slice_scatter(
    input: Tensor,
    src: Tensor,
    *,
    axis: _int,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def slogdet(input: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.slogdet:
    """The determinant's sign and the logarithm of its absolute value."""

@overload
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """``exp(input)`` divided by its sum along ``dim``."""

@overload
def softmax(
    input: Tensor, *, axis: _int, dtype: _dtype | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def sort(
    input: Tensor,
    dim: _int = -1,
    descending: _bool = False,
    stable: _bool = False,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.sort:
    """Sort along ``dim``: the values and their indices. The sort is always stable; NaN is the largest value."""

@overload
def sort(
    input: Tensor,
    *,
    axis: _int,
    descending: _bool = False,
    stable: _bool = False,
    out: Sequence[Tensor] | None = None,
) -> return_types.sort: ...
def split(tensor: Tensor, split_size_or_sections: _Sizes, dim: _int = 0) -> tuple[Tensor, ...]:
    """Split along ``dim`` into parts of one size (the last may be smaller), or of the sizes in a list."""

def split_copy(input: Tensor, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """Copies of the parts that `split` returns."""

def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """Split along ``dim`` into parts of these sizes."""

def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """Copies of the parts that `split_with_sizes` returns."""

def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The square root."""

def sqrt_(input: Tensor) -> Tensor:
    """In-place version of `sqrt`."""

def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * input``."""

def square_(input: Tensor) -> Tensor:
    """In-place version of `square`."""

@overload
def squeeze(input: Tensor, dim: _int | _Sizes | None = None, *, out: Tensor | None = None) -> Tensor:
    """Remove all dimensions of size 1, or those in ``dim``."""

@overload
def squeeze(input: Tensor, *, axis: _int | _Sizes | None, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, dim: _int | _Sizes | None = None, *, out: Tensor | None = None) -> Tensor:
    """Remove all dimensions of size 1, or those in ``dim``."""

@overload
def squeeze_copy(input: Tensor, *, axis: _int | _Sizes | None, out: Tensor | None = None) -> Tensor: ...
@overload
def stack(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """Stack tensors of one shape along a new dimension ``dim``."""

@overload
def stack(tensors: Sequence[Tensor], *, axis: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def std(
    input: Tensor,
    dim: _Sizes | None = None,
    unbiased: _bool | None = None,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The square root of `var`; its gradient is 0 where it is 0."""

@overload
def std(
    input: Tensor,
    *,
    axis: _Sizes | None,
    unbiased: _bool | None = None,
    keepdims: _bool = False,
    correction: _float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def std_mean(
    input: Tensor,
    dim: _Sizes | None = None,
    unbiased: _bool | None = None,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """`std` and `mean`."""

@overload
def std_mean(
    input: Tensor,
    *,
    axis: _Sizes | None,
    unbiased: _bool | None = None,
    keepdims: _bool = False,
    correction: _float | None = None,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
def stft(
    input: Tensor,
    n_fft: _int,
    hop_length: _int | None = None,
    win_length: _int | None = None,
    window: Tensor | _Number | None = None,
    center: _bool = True,
    pad_mode: _str = "reflect",
    normalized: _bool = False,
    onesided: _bool | None = None,
    return_complex: _bool | None = None,
    align_to_window: _bool | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The Fourier transforms of a signal's windowed frames, one per column."""

def sub(
    input: Tensor | _Number,
    other: Tensor | _Number,
    *,
    alpha: Tensor | _Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``input - alpha * other``."""

def subtract(
    input: Tensor | _Number,
    other: Tensor | _Number,
    *,
    alpha: Tensor | _Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``input - alpha * other``."""

@overload
def sum(
    input: Tensor,
    dim: _Sizes | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The sum over ``dim`` (all dimensions by default)."""

@overload
def sum(
    input: Tensor,
    *,
    axis: _Sizes | None,
    keepdims: _bool = False,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def svd(
    input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: Sequence[Tensor] | None = None
) -> return_types.svd:
    """The singular value decomposition ``U diag(S) V^H``."""

def svd_lowrank(
    A: Tensor, q: _int | None = 6, niter: _int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Approximately the ``q`` largest singular values S of ``A - M``, and their vectors: ``(U, S, V)``."""

def swapaxes(input: Tensor, axis0: _int, axis1: _int) -> Tensor:
    """`transpose` with numpy's names of the parameters."""

def swapdims(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None) -> Tensor:
    """Swap two dimensions."""

def t(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Transpose a matrix; a tensor with fewer dimensions is unchanged."""

def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Transpose a matrix; a tensor with fewer dimensions is unchanged."""

def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements of the flattened input at the positions ``index``."""

@overload
def take_along_dim(
    input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """`gather`, with input and indices broadcast; without ``dim``, from the flattened input."""

@overload
def take_along_dim(
    input: Tensor, indices: Tensor, *, axis: _int | None, out: Tensor | None = None
) -> Tensor: ...
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Tangent."""

def tan_(input: Tensor) -> Tensor:
    """In-place version of `tan`."""

def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Hyperbolic tangent."""

def tanh_(input: Tensor) -> Tensor:
    """In-place version of `tanh`."""

def tensor(
    data: Any,
    *,
    dtype: _dtype | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """Create a tensor from a copy of ``data``."""

def tensor_split(
    input: Tensor,
    indices_or_sections: Any = None,
    dim: _int = 0,
    *,
    indices: Any = None,
    sections: Any = None,
) -> tuple[Tensor, ...]:
    """Split along ``dim`` into a number of parts, whose sizes differ by at most 1, or at the indices in a list."""

def tensordot(a: Tensor, b: Tensor, dims: Any = 2, *, out: Tensor | None = None) -> Tensor:
    """The product, summed over the last ``dims`` of ``a`` and the first of ``b``, or over two lists of dimensions."""

def threshold(input: Tensor, threshold: _float, value: _float, *, out: Tensor | None = None) -> Tensor:
    """``input`` where it is above ``threshold``, else ``value``."""

def threshold_(input: Tensor, threshold: _float, value: _float) -> Tensor:
    """In-place version of `threshold`."""

def tile(input: Tensor, dims: _Sizes, *, out: Tensor | None = None) -> Tensor:
    """`repeat`, but a number that is missing for a leading dimension counts as 1."""

@overload
def topk(
    input: Tensor,
    k: _int,
    dim: _int = -1,
    largest: _bool = True,
    sorted: _bool = True,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.topk:
    """The ``k`` largest (or smallest) values along ``dim``, always sorted, and their indices."""

@overload
def topk(
    input: Tensor,
    k: _int,
    *,
    axis: _int,
    largest: _bool = True,
    sorted: _bool = True,
    out: Sequence[Tensor] | None = None,
) -> return_types.topk: ...
def trace(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sum of a matrix's diagonal."""

def transpose(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None) -> Tensor:
    """Swap two dimensions."""

def transpose_copy(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None) -> Tensor:
    """Swap two dimensions."""

@overload
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Tensor | _Number = 1, dim: _int = -1, out: Tensor | None = None
) -> Tensor:
    """The integral along ``dim`` by the trapezoidal rule, at the points ``x`` or at points ``dx`` apart."""

@overload
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Tensor | _Number = 1, axis: _int, out: Tensor | None = None
) -> Tensor: ...
@overload
def trapz(
    y: Tensor, x: Tensor | None = None, *, dx: Tensor | _Number = 1, dim: _int = -1, out: Tensor | None = None
) -> Tensor:
    """The integral along ``dim`` by the trapezoidal rule, at the points ``x`` or at points ``dx`` apart."""

@overload
def trapz(
    y: Tensor, x: Tensor | None = None, *, dx: Tensor | _Number = 1, axis: _int, out: Tensor | None = None
) -> Tensor: ...
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: _bool = True,
    transpose: _bool = False,
    unitriangular: _bool = False,
    *,
    out: Sequence[Tensor] | None = None,
) -> return_types.triangular_solve:
    """The solution X of ``A X = input`` with a triangular A, and a copy of A."""

def tril(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """The lower triangle up to ``diagonal``, with zeros above it."""

def tril_indices(
    row: _int,
    col: _int,
    offset: _int = 0,
    *,
    dtype: _dtype | None = None,
    device: _Device = None,
    layout: _layout | None = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """The indices of the lower triangle of a matrix: a row of row indices, and a row of column indices."""

def triu(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """The upper triangle from ``diagonal`` on, with zeros below it."""

def triu_indices(
    row: _int,
    col: _int,
    offset: _int = 0,
    *,
    dtype: _dtype | None = None,
    device: _Device = None,
    layout: _layout | None = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """The indices of the upper triangle of a matrix: a row of row indices, and a row of column indices."""

def true_divide(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input / other`` as a float."""

def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Round towards zero."""

def trunc_(input: Tensor) -> Tensor:
    """In-place version of `trunc`."""

def typename(obj: Any) -> _str:
    """The name of an object's type; for tensors the legacy name, such as ``torch.FloatTensor``."""

def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """Views of all slices along ``dim``, without that dimension."""

def unbind_copy(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """Copies of all slices along ``dim``."""

def unflatten(input: Tensor, dim: _int, sizes: Sequence[_int]) -> Tensor:
    """Split dimension ``dim`` into dimensions of ``sizes``, one of which may be -1."""

def unfold_copy(
    input: Tensor, dimension: _int, size: _int, step: _int, *, out: Tensor | None = None
) -> Tensor:
    """A view of windows of ``size`` elements, ``step`` apart, along a dimension; each is in the last dimension."""

def unique(
    input: Tensor,
    sorted: _bool = True,
    return_inverse: _bool = False,
    return_counts: _bool = False,
    dim: _int | None = None,
) -> Any:
    """The distinct values, or the distinct slices along ``dim``; always sorted."""

def unique_consecutive(
    input: Tensor, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None
) -> Any:
    """The values, with each run of equal neighbours reduced to one."""

def unravel_index(indices: Tensor, shape: _int | Sequence[_int]) -> tuple[Tensor, ...]:
    """The coordinates, one tensor per dimension, of positions in a flattened tensor of ``shape``."""

def unsafe_chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """`chunk`, whose parts autograd lets you change in place."""

def unsafe_split(tensor: Tensor, split_size: _Sizes, dim: _int = 0) -> tuple[Tensor, ...]:
    """`split`, whose parts autograd lets you change in place."""

def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`, whose parts autograd lets you change in place."""

@overload
def unsqueeze(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor:
    """Insert a dimension of size 1 at position ``dim``."""

@overload
def unsqueeze(input: Tensor, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
@overload
def unsqueeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor:
    """Insert a dimension of size 1 at position ``dim``."""

@overload
def unsqueeze_copy(input: Tensor, *, axis: _int, out: Tensor | None = None) -> Tensor: ...
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor:
    """The Vandermonde matrix of a vector with ``N`` columns; the highest power is first unless ``increasing``."""

@overload
def var(
    input: Tensor,
    dim: _Sizes | None = None,
    unbiased: _bool | None = None,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The variance over ``dim``; its divisor is ``count - correction``, and ``correction`` is 1 by default."""

@overload
def var(
    input: Tensor,
    *,
    axis: _Sizes | None,
    unbiased: _bool | None = None,
    keepdims: _bool = False,
    correction: _float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var_mean(
    input: Tensor,
    dim: _Sizes | None = None,
    unbiased: _bool | None = None,
    keepdim: _bool = False,
    *,
    correction: _float | None = None,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """`var` and `mean`."""

@overload
def var_mean(
    input: Tensor,
    *,
    axis: _Sizes | None,
    unbiased: _bool | None = None,
    keepdims: _bool = False,
    correction: _float | None = None,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, Tensor]: ...
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inner product of two vectors, the first one conjugated."""

def view_as_complex(input: Tensor) -> Tensor:
    """A view of the pairs in the last dimension as complex numbers."""

def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Pairs in the last dimension as complex numbers."""

def view_as_real(input: Tensor) -> Tensor:
    """A view of complex numbers as pairs, in a new last dimension of size 2."""

def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex numbers as pairs in a last dimension."""

def view_copy(input: Tensor, size: Sequence[_int]) -> Tensor:
    """A copy in another shape, or of the same bytes in another dtype."""

def vsplit(
    input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """`tensor_split` along dimension 0; a number must divide it."""

def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along dimension 0; a vector counts as a row."""

@overload
def where(condition: Tensor) -> tuple[Tensor, ...]:
    """``input`` where ``condition`` is True, else ``other``; without these, `nonzero` as a tuple."""

@overload
def where(
    condition: Tensor, input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None
) -> Tensor: ...
def xlogy(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """``input * log(other)``; 0 where ``input`` is 0, unless ``other`` is NaN."""

def xlogy_(input: Tensor, other: Tensor | _Number) -> Tensor:
    """In-place version of `xlogy`."""

def zero_(self: Tensor, /) -> Tensor:
    """Fill with zeros, in place."""

@overload
def zeros(
    size: Sequence[_int],
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor:
    """Create a tensor of zeros."""

@overload
def zeros(
    *size: _int,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
) -> Tensor: ...
def zeros_like(
    input: Tensor,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: _Device = None,
    requires_grad: _bool = False,
    pin_memory: _bool = False,
    memory_format: _memory_format | None = None,
) -> Tensor:
    """Create a tensor of zeros with the shape, dtype and device of ``input``."""
