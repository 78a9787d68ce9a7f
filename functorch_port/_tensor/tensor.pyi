# Written by tools/stubs.py: `make stubs` writes it anew.

from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from builtins import type as _type
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Self, TypeAlias, overload

import numpy as np

from .. import return_types
from .._base.device import device as _device
from .._base.dtypes import dtype as _dtype
from .._base.layout import layout as _layout
from .._base.layout import memory_format as _memory_format
from .._base.size import Size as Size
from .._random.generator import Generator as Generator
from .node import RemovableHandle
from .view import View as View

_Device: TypeAlias = _device | _str | _int | None
_Number: TypeAlias = _complex | np.number[Any] | np.bool
_Sizes: TypeAlias = _int | Sequence[_int]

class Tensor:
    """A multi-dimensional array with PyTorch's semantics on JAX."""

    def __new__(cls, *args: Any, device: _Device = None) -> Self: ...
    def __hash__(self) -> _int: ...
    @property
    def H(self) -> Tensor: ...
    @property
    def T(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __add__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __and__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __array__(self, dtype: _dtype | None = None, copy: _bool | None = None) -> np.ndarray[Any, Any]: ...

    __array_priority__: _int

    def __array_wrap__(
        self, array: np.ndarray[Any, Any], context: Any = None, return_scalar: _bool = False
    ) -> Tensor:
        """What a numpy function of a Tensor gives: a Tensor again."""

    def __bool__(self) -> _bool: ...
    def __complex__(self) -> _complex: ...
    def __contains__(self, element: Any) -> _bool: ...
    def __deepcopy__(self, memo: dict[_int, Any]) -> Tensor: ...
    def __delattr__(self, name: _str) -> None: ...
    def __delitem__(self, index: Any) -> None:
        """Not supported."""

    def __dlpack__(self, *, copy: _bool | None = None, **kwargs: Any) -> Any:
        """The value for another library, which may write to it: in shared memory where `numpy` gives that, or a copy."""

    def __dlpack_device__(self) -> Any: ...
    def __eq__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...  # type: ignore[override]
    def __float__(self) -> _float: ...
    def __floordiv__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __format__(self, spec: _str) -> _str: ...
    def __ge__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor:
        """``x[raw]``."""

    def __gt__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __iadd__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Self: ...
    def __iand__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Self: ...
    def __ifloordiv__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Self: ...
    def __ilshift__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Self: ...
    def __imod__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Self: ...
    def __imul__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Self: ...
    def __index__(self) -> _int: ...
    def __int__(self) -> _int: ...
    def __invert__(self) -> Tensor: ...
    def __ior__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Self: ...
    def __ipow__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Self:
        """In-place version of `pow`."""

    def __irshift__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Self: ...
    def __isub__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Self: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __itruediv__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Self: ...
    def __ixor__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Self: ...
    def __jax_array__(self) -> Any:
        """The value as a `jax.Array` (an immutable snapshot; nothing is copied)."""

    def __le__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __len__(self) -> _int: ...
    def __lshift__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __lt__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __matmul__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __mod__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __mul__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __ne__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...  # type: ignore[override]
    def __neg__(self) -> Tensor: ...
    def __or__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __pow__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __radd__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __rand__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __repr__(self, *, tensor_contents: Any = None) -> _str: ...
    def __reversed__(self) -> Tensor: ...
    def __rfloordiv__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __rlshift__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __rmatmul__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __rmod__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __rmul__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __ror__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __rpow__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __rrshift__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __rshift__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __rsub__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __rtruediv__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __rxor__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __setitem__(self, index: Any, value: Tensor | _Number | np.ndarray[Any, Any]) -> None:
        """``x[raw] = value``."""

    def __sub__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any: ...
    def __truediv__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...
    def __xor__(self, other: Tensor | _Number | np.ndarray[Any, Any]) -> Tensor: ...

    _base: Any

    @staticmethod
    def _make_subclass(cls: _type[Tensor], data: Tensor, require_grad: _bool = False) -> Any: ...
    @staticmethod
    def _make_wrapper_subclass(cls: _type[Tensor], *args: Any, **kwargs: Any) -> Any: ...
    @property
    def _version(self) -> _int: ...
    def abs(self) -> Tensor:
        """The absolute value; its gradient at 0 is 0."""

    def abs_(self) -> Self:
        """In-place version of `abs`."""

    def absolute(self) -> Tensor:
        """The absolute value; its gradient at 0 is 0."""

    def absolute_(self) -> Self:
        """In-place version of `abs`."""

    def acos(self) -> Tensor:
        """Arc cosine."""

    def acos_(self) -> Self:
        """In-place version of `acos`."""

    def acosh(self) -> Tensor:
        """Inverse hyperbolic cosine."""

    def acosh_(self) -> Self:
        """In-place version of `acosh`."""

    def add(self, other: Tensor | _Number, *, alpha: Tensor | _Number = 1) -> Tensor:
        """``input + alpha * other``."""

    def add_(self, other: Tensor | _Number, *, alpha: Tensor | _Number = 1) -> Self:
        """In-place version of `add`."""

    def addbmm(
        self, batch1: Tensor, batch2: Tensor, *, beta: Tensor | _Number = 1, alpha: Tensor | _Number = 1
    ) -> Tensor:
        """``beta * input + alpha * bmm(batch1, batch2).sum(0)``."""

    def addbmm_(
        self, batch1: Tensor, batch2: Tensor, *, beta: Tensor | _Number = 1, alpha: Tensor | _Number = 1
    ) -> Self:
        """In-place version of `addbmm`."""

    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _Number = 1) -> Tensor:
        """``input + value * tensor1 / tensor2``."""

    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _Number = 1) -> Self:
        """In-place version of `addcdiv`."""

    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _Number = 1) -> Tensor:
        """``input + value * tensor1 * tensor2``."""

    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _Number = 1) -> Self:
        """In-place version of `addcmul`."""

    def addmm(
        self, mat1: Tensor, mat2: Tensor, *, beta: Tensor | _Number = 1, alpha: Tensor | _Number = 1
    ) -> Tensor:
        """``beta * input + alpha * mat1 @ mat2``."""

    def addmm_(
        self, mat1: Tensor, mat2: Tensor, *, beta: Tensor | _Number = 1, alpha: Tensor | _Number = 1
    ) -> Self:
        """In-place version of `addmm`."""

    def addmv(
        self, mat: Tensor | _Number, vec: Tensor, *, beta: Tensor | _Number = 1, alpha: Tensor | _Number = 1
    ) -> Tensor:
        """``beta * input + alpha * mat @ vec``."""

    def addmv_(
        self, mat: Tensor | _Number, vec: Tensor, *, beta: Tensor | _Number = 1, alpha: Tensor | _Number = 1
    ) -> Self:
        """In-place version of `addmv`."""

    def addr(
        self, vec1: Tensor, vec2: Tensor, *, beta: Tensor | _Number = 1, alpha: Tensor | _Number = 1
    ) -> Tensor:
        """``beta * input + alpha * outer(vec1, vec2)``."""

    def addr_(
        self, vec1: Tensor, vec2: Tensor, *, beta: Tensor | _Number = 1, alpha: Tensor | _Number = 1
    ) -> Self:
        """In-place version of `addr`."""

    def adjoint(self) -> Tensor:
        """The conjugate transpose of the last two dimensions."""

    @overload
    def all(self, dim: _Sizes | None = None, keepdim: _bool = False) -> Tensor:
        """Whether all values over ``dim`` are nonzero."""
    @overload
    def all(self, *, axis: _Sizes | None, keepdims: _bool = False) -> Tensor: ...
    def allclose(
        self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False
    ) -> _bool:
        """Whether `isclose` holds for all elements, as a Python bool."""

    @overload
    def amax(self, dim: _Sizes | None = (), keepdim: _bool = False) -> Tensor:
        """The maximum over ``dim``; ties share the gradient."""
    @overload
    def amax(self, *, axis: _Sizes | None, keepdims: _bool = False) -> Tensor: ...
    @overload
    def amin(self, dim: _Sizes | None = (), keepdim: _bool = False) -> Tensor:
        """The minimum over ``dim``; ties share the gradient."""
    @overload
    def amin(self, *, axis: _Sizes | None, keepdims: _bool = False) -> Tensor: ...
    @overload
    def aminmax(self, *, dim: _int | None = None, keepdim: _bool = False) -> return_types.aminmax:
        """The minimum and the maximum along ``dim``; ties share the gradient."""
    @overload
    def aminmax(self, *, axis: _int | None, keepdims: _bool = False) -> return_types.aminmax: ...
    def angle(self) -> Tensor:
        """The angle of complex numbers, in radians; pi for negative real numbers."""

    @overload
    def any(self, dim: _Sizes | None = None, keepdim: _bool = False) -> Tensor:
        """Whether any value over ``dim`` is nonzero."""
    @overload
    def any(self, *, axis: _Sizes | None, keepdims: _bool = False) -> Tensor: ...
    def apply_(self, callable: Any) -> Self:
        """Replace every element by ``callable(element)``; slow, for small CPU tensors."""

    def arccos(self) -> Tensor:
        """Arc cosine."""

    def arccos_(self) -> Self:
        """In-place version of `acos`."""

    def arccosh(self) -> Tensor:
        """Inverse hyperbolic cosine."""

    def arccosh_(self) -> Self:
        """In-place version of `acosh`."""

    def arcsin(self) -> Tensor:
        """Arc sine."""

    def arcsin_(self) -> Self:
        """In-place version of `asin`."""

    def arcsinh(self) -> Tensor:
        """Inverse hyperbolic sine."""

    def arcsinh_(self) -> Self:
        """In-place version of `asinh`."""

    def arctan(self) -> Tensor:
        """Arc tangent."""

    def arctan2(self, other: Tensor) -> Tensor:
        """The angle of the point (``other``, ``input``), in radians."""

    def arctan2_(self, other: Tensor) -> Self:
        """In-place version of `atan2`."""

    def arctan_(self) -> Self:
        """In-place version of `atan`."""

    def arctanh(self) -> Tensor:
        """Inverse hyperbolic tangent."""

    def arctanh_(self) -> Self:
        """In-place version of `atanh`."""

    @overload
    def argmax(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """The index of the first maximum along ``dim``, or in the flattened tensor."""
    @overload
    def argmax(self, *, axis: _int | None, keepdims: _bool = False) -> Tensor: ...
    @overload
    def argmin(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """The index of the first minimum along ``dim``, or in the flattened tensor."""
    @overload
    def argmin(self, *, axis: _int | None, keepdims: _bool = False) -> Tensor: ...
    @overload
    def argsort(self, dim: _int = -1, descending: _bool = False, stable: _bool = False) -> Tensor:
        """The indices that sort along ``dim``; see `sort`."""
    @overload
    def argsort(self, *, axis: _int, descending: _bool = False, stable: _bool = False) -> Tensor: ...
    def argwhere(self) -> Tensor:
        """The indices of nonzero elements, as rows."""

    def as_strided(
        self, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None
    ) -> Tensor:
        """A view of the elements that these strides reach in the tensor's Storage."""

    def as_strided_(self, *args: Any, **kwargs: Any) -> Self:
        """In-place version of `as_strided`."""

    def as_strided_scatter(
        self, src: Tensor, size: _Sizes, stride: _Sizes, storage_offset: _int | None = None
    ) -> Tensor:
        """A copy with ``src`` at the elements that these strides reach."""

    def as_subclass(self, cls: _type[Any]) -> Any:
        """Return this tensor as an instance of a subclass, with the same Storage."""

    def asin(self) -> Tensor:
        """Arc sine."""

    def asin_(self) -> Self:
        """In-place version of `asin`."""

    def asinh(self) -> Tensor:
        """Inverse hyperbolic sine."""

    def asinh_(self) -> Self:
        """In-place version of `asinh`."""

    def atan(self) -> Tensor:
        """Arc tangent."""

    def atan2(self, other: Tensor) -> Tensor:
        """The angle of the point (``other``, ``input``), in radians."""

    def atan2_(self, other: Tensor) -> Self:
        """In-place version of `atan2`."""

    def atan_(self) -> Self:
        """In-place version of `atan`."""

    def atanh(self) -> Tensor:
        """Inverse hyperbolic tangent."""

    def atanh_(self) -> Self:
        """In-place version of `atanh`."""

    def backward(
        self,
        gradient: Any = None,
        retain_graph: _bool | None = None,
        create_graph: _bool = False,
        inputs: Any = None,
    ) -> None:
        """Compute the gradients of this tensor with respect to the graph's leaves and add them to their ``.grad``."""

    def baddbmm(
        self, batch1: Tensor, batch2: Tensor, *, beta: Tensor | _Number = 1, alpha: Tensor | _Number = 1
    ) -> Tensor:
        """``beta * input + alpha * bmm(batch1, batch2)``."""

    def baddbmm_(
        self, batch1: Tensor, batch2: Tensor, *, beta: Tensor | _Number = 1, alpha: Tensor | _Number = 1
    ) -> Self:
        """In-place version of `baddbmm`."""

    def bernoulli(
        self, p: _float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
    ) -> Tensor:
        """Draw ones with the probabilities in ``input`` (or with probability ``p``), else zeros."""

    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Self:
        """Fill with ones with probability ``p`` (a number, or a tensor of probabilities), else with zeros."""

    def bfloat16(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor as ``torch.bfloat16``."""

    def bincount(self, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
        """The number of times that each integer from 0 on occurs, or the sum of its weights."""

    def bitwise_and(self, other: Tensor | _Number) -> Tensor:
        """The bits that are set in both."""

    def bitwise_and_(self, other: Tensor | _Number) -> Self:
        """In-place version of `bitwise_and`."""

    def bitwise_left_shift(self, other: Tensor | _Number) -> Tensor:
        """``input << other``."""

    def bitwise_left_shift_(self, other: Tensor | _Number) -> Self:
        """In-place version of `bitwise_left_shift`."""

    def bitwise_not(self) -> Tensor:
        """Invert all bits; for bools, the negation."""

    def bitwise_not_(self) -> Self:
        """In-place version of `bitwise_not`."""

    def bitwise_or(self, other: Tensor | _Number) -> Tensor:
        """The bits that are set in at least one."""

    def bitwise_or_(self, other: Tensor | _Number) -> Self:
        """In-place version of `bitwise_or`."""

    def bitwise_right_shift(self, other: Tensor | _Number) -> Tensor:
        """``input >> other``; the sign stays."""

    def bitwise_right_shift_(self, other: Tensor | _Number) -> Self:
        """In-place version of `bitwise_right_shift`."""

    def bitwise_xor(self, other: Tensor | _Number) -> Tensor:
        """The bits that are set in exactly one."""

    def bitwise_xor_(self, other: Tensor | _Number) -> Self:
        """In-place version of `bitwise_xor`."""

    def bmm(self, mat2: Tensor) -> Tensor:
        """The products of two batches of matrices."""

    def bool(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor as ``torch.bool``."""

    @overload
    def broadcast_to(self, size: Sequence[_int]) -> Tensor:
        """`expand` to ``size``."""
    @overload
    def broadcast_to(self, *size: _int) -> Tensor: ...
    def bucketize(self, boundaries: Tensor, *, out_int32: _bool = False, right: _bool = False) -> Tensor:
        """The index of the bucket that each value falls into, between sorted ``boundaries``."""

    def byte(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor as ``torch.uint8``."""

    def cauchy_(self, median: _float = 0, sigma: _float = 1, *, generator: Generator | None = None) -> Self:
        """Fill with Cauchy numbers of this ``median`` (0) and scale ``sigma`` (1)."""

    def ccol_indices(self) -> Any: ...
    def cdouble(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor as ``torch.complex128``."""

    def ceil(self) -> Tensor:
        """Round up."""

    def ceil_(self) -> Self:
        """In-place version of `ceil`."""

    def celu_(self, alpha: _float = 1.0) -> Self:
        """In-place version of `celu`."""

    def cfloat(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor as ``torch.complex64``."""

    def chalf(self, memory_format: _memory_format | None = None) -> Tensor:
        """Not supported: JAX has no complex numbers of half precision."""

    def char(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor as ``torch.int8``."""

    def cholesky(self, upper: _bool = False) -> Tensor:
        """The Cholesky factor of positive definite matrices."""

    def cholesky_inverse(self, upper: _bool = False) -> Tensor:
        """The inverse of A, given its Cholesky factor."""

    def cholesky_solve(self, L: Tensor, upper: _bool = False) -> Tensor:
        """The solution X of ``A X = input``, given A's Cholesky factor."""

    def chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Split along ``dim`` into at most ``chunks`` parts of one size; the last may be smaller."""

    def clamp(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        """``input`` limited to [``min``, ``max``], or ``max`` where ``min > max``; the gradient at a limit is 1."""

    def clamp_(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Self:
        """In-place version of `clamp`."""

    def clamp_max(self, max: Tensor | _Number) -> Tensor:
        """The smaller of ``input`` and ``max``."""

    def clamp_max_(self, max: Tensor | _Number) -> Self:
        """In-place version of `clamp_max`."""

    def clamp_min(self, min: Tensor | _Number) -> Tensor:
        """The larger of ``input`` and ``min``."""

    def clamp_min_(self, min: Tensor | _Number) -> Self:
        """In-place version of `clamp_min`."""

    def clip(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Tensor:
        """``input`` limited to [``min``, ``max``], or ``max`` where ``min > max``; the gradient at a limit is 1."""

    def clip_(self, min: Tensor | _Number | None = None, max: Tensor | _Number | None = None) -> Self:
        """In-place version of `clamp`."""

    def clone(self, memory_format: Any = None) -> Tensor:
        """A copy with its own Storage; the memory is copied only when one of the two is written."""

    def coalesce(self) -> Any: ...
    def col_indices(self) -> Any: ...
    def conj(self) -> Tensor:
        """The complex conjugate, as a view; a real tensor is returned itself."""

    def conj_physical(self) -> Tensor:
        """The complex conjugate."""

    def conj_physical_(self) -> Self:
        """In-place version of `conj_physical`."""

    def contiguous(self, memory_format: _memory_format | None = None) -> Tensor:
        """Return this tensor if it is contiguous, else a contiguous copy."""

    def copy_(self, src: Any, non_blocking: _bool = False) -> Self:
        """Copy ``src`` into this tensor, broadcast and cast to its shape and dtype."""

    def copysign(self, other: Tensor | _Number) -> Tensor:
        """The magnitude of ``input`` with the sign of ``other``."""

    def copysign_(self, other: Tensor | _Number) -> Self:
        """In-place version of `copysign`."""

    def corrcoef(self) -> Tensor:
        """The correlation coefficients of variables (rows) over observations (columns)."""

    def cos(self) -> Tensor:
        """Cosine."""

    def cos_(self) -> Self:
        """In-place version of `cos`."""

    def cosh(self) -> Tensor:
        """Hyperbolic cosine."""

    def cosh_(self) -> Self:
        """In-place version of `cosh`."""

    @overload
    def count_nonzero(self, dim: _Sizes | None = None) -> Tensor:
        """The number of values over ``dim`` that are not 0."""
    @overload
    def count_nonzero(self, *, axis: _Sizes | None) -> Tensor: ...
    def cov(
        self,
        *,
        correction: _int = 1,
        fweights: Tensor | _Number | None = None,
        aweights: Tensor | _Number | None = None,
    ) -> Tensor:
        """The covariance matrix of the variables (rows) over the observations (columns)."""

    def cpu(self, memory_format: _memory_format | None = None) -> Tensor:
        """Move to the CPU."""

    @overload
    def cross(self, other: Tensor, dim: _int | None = None) -> Tensor:
        """The cross product along a dimension of size 3 (default: the first one)."""
    @overload
    def cross(self, other: Tensor, *, axis: _int | None) -> Tensor: ...
    def crow_indices(self) -> Any: ...
    def cuda(
        self, device: _Device = None, non_blocking: _bool = False, memory_format: _memory_format | None = None
    ) -> Tensor:
        """Move to a GPU."""

    @overload
    def cummax(self, dim: _int) -> return_types.cummax:
        """The cumulative maximum along ``dim``, and its last index."""
    @overload
    def cummax(self, *, axis: _int) -> return_types.cummax: ...
    @overload
    def cummin(self, dim: _int) -> return_types.cummin:
        """The cumulative minimum along ``dim``, and its last index."""
    @overload
    def cummin(self, *, axis: _int) -> return_types.cummin: ...
    @overload
    def cumprod(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """The cumulative product along ``dim``."""
    @overload
    def cumprod(self, *, axis: _int, dtype: _dtype | None = None) -> Tensor: ...
    @overload
    def cumprod_(self, dim: _int, *, dtype: _dtype | None = None) -> Self:
        """In-place version of `cumprod`."""
    @overload
    def cumprod_(self, *, axis: _int, dtype: _dtype | None = None) -> Self: ...
    @overload
    def cumsum(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """The cumulative sum along ``dim``."""
    @overload
    def cumsum(self, *, axis: _int, dtype: _dtype | None = None) -> Tensor: ...
    @overload
    def cumsum_(self, dim: _int, *, dtype: _dtype | None = None) -> Self:
        """In-place version of `cumsum`."""
    @overload
    def cumsum_(self, *, axis: _int, dtype: _dtype | None = None) -> Self: ...
    @property
    def data(self) -> Tensor: ...
    @data.setter
    def data(self, value: Any) -> None: ...
    def data_ptr(self) -> _int:
        """The address of the first element; 0 if there is none."""

    def deg2rad(self) -> Tensor:
        """Convert degrees to radians."""

    def deg2rad_(self) -> Self:
        """In-place version of `deg2rad`."""

    def dense_dim(self) -> Any: ...
    def det(self) -> Tensor:
        """The determinant."""

    def detach(self) -> Tensor:
        """A tensor that shares this one's Storage and is cut off from its history, for JAX as for the tape."""

    def detach_(self) -> Self:
        """Cut this tensor off from its history, in place."""

    @property
    def device(self) -> _device: ...
    def diag(self, diagonal: _int = 0) -> Tensor:
        """The matrix with a vector on its diagonal, or a copy of a matrix's diagonal."""

    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
        """Matrices in ``dim1`` and ``dim2``, with the last dimension of ``input`` on a diagonal."""

    def diagflat(self, offset: _int = 0) -> Tensor:
        """The matrix with all elements of ``input`` on its diagonal."""

    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """A view of the diagonals of matrices in ``dim1`` and ``dim2``, as the last dimension."""

    def diagonal_scatter(self, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """A copy with ``src`` on a diagonal."""

    @overload
    def diff(
        self,
        n: _int = 1,
        dim: _int = -1,
        prepend: Tensor | _Number | None = None,
        append: Tensor | _Number | None = None,
    ) -> Tensor:
        """The ``n``-th difference along ``dim`` of ``prepend``, ``input`` and ``append``, joined."""
    @overload
    def diff(
        self,
        n: _int = 1,
        *,
        axis: _int,
        prepend: Tensor | _Number | None = None,
        append: Tensor | _Number | None = None,
    ) -> Tensor: ...
    def digamma(self) -> Tensor:
        """The derivative of `lgamma`."""

    def digamma_(self) -> Self:
        """In-place version of `digamma`."""

    def dim(self) -> _int:
        """Number of dimensions."""

    def dim_order(self, *, ambiguity_check: Any = False) -> _Sizes:
        """The dimensions in the order of memory, from outermost to innermost; ``ambiguity_check`` has no effect."""

    def dist(self, other: Tensor, p: _float = 2) -> Tensor:
        """The p-norm of ``input - other``."""

    def div(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """``input / other``, optionally rounded towards zero ("trunc") or down ("floor")."""

    def div_(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Self:
        """In-place version of `div`."""

    def divide(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Tensor:
        """``input / other``, optionally rounded towards zero ("trunc") or down ("floor")."""

    def divide_(self, other: Tensor | _Number, *, rounding_mode: _str | None = None) -> Self:
        """In-place version of `div`."""

    def dot(self, tensor: Tensor) -> Tensor:
        """The inner product of two vectors."""

    def double(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor as ``torch.float64``."""

    def dsplit(
        self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
    ) -> tuple[Tensor, ...]:
        """`tensor_split` along dimension 2; a number must divide it."""

    @property
    def dtype(self) -> _dtype: ...
    def element_size(self) -> _int:
        """Bytes per element."""

    def elu_(self, alpha: _float = 1.0, scale: _float = 1.0, input_scale: _float = 1.0) -> Self:
        """In-place version of `elu`."""

    def eq(self, other: Tensor | _Number) -> Tensor:
        """``input == other``."""

    def eq_(self, other: Tensor | _Number) -> Self:
        """In-place version of `eq`."""

    def equal(self, other: Tensor) -> _bool:
        """Whether the shapes and all elements are equal, as a Python bool."""

    def erf(self) -> Tensor:
        """The error function."""

    def erf_(self) -> Self:
        """In-place version of `erf`."""

    def erfc(self) -> Tensor:
        """``1 - erf(input)``."""

    def erfc_(self) -> Self:
        """In-place version of `erfc`."""

    def erfinv(self) -> Tensor:
        """The inverse of `erf`."""

    def erfinv_(self) -> Self:
        """In-place version of `erfinv`."""

    def exp(self) -> Tensor:
        """e to the power of ``input``."""

    def exp2(self) -> Tensor:
        """2 to the power of ``input``."""

    def exp2_(self) -> Self:
        """In-place version of `exp2`."""

    def exp_(self) -> Self:
        """In-place version of `exp`."""

    @overload
    def expand(self, size: _Sizes, *, implicit: _bool = False) -> Tensor:
        """A view with dimensions of size 1 repeated, and new leading dimensions; -1 keeps a size."""
    @overload
    def expand(self, *size: _int, implicit: _bool = False) -> Tensor: ...
    def expand_as(self, other: Tensor) -> Tensor:
        """`expand` to the shape of ``other``."""

    def expm1(self) -> Tensor:
        """``exp(input) - 1``, accurate near 0."""

    def expm1_(self) -> Self:
        """In-place version of `expm1`."""

    def exponential_(self, lambd: _float = 1.0, *, generator: Generator | None = None) -> Self:
        """Fill with exponentially distributed numbers of rate ``lambd``."""

    def fill_(self, value: Tensor | _Number) -> Self:
        """Fill with a number, in place."""

    def fill_diagonal_(self, fill_value: _float, wrap: _bool = False) -> Self:
        """Fill the main diagonal with a number, in place; ``wrap`` starts it again below a square."""

    def fix(self) -> Tensor:
        """Round towards zero."""

    def fix_(self) -> Self:
        """In-place version of `trunc`."""

    def flatten(self, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
        """Merge the dimensions from ``start_dim`` to ``end_dim`` into one."""

    @overload
    def flip(self, dims: _Sizes) -> Tensor:
        """Reverse the order of the elements along ``dims``."""
    @overload
    def flip(self, *dims: _int) -> Tensor: ...
    def fliplr(self) -> Tensor:
        """Reverse the columns (dimension 1)."""

    def flipud(self) -> Tensor:
        """Reverse the rows (dimension 0)."""

    def float(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor as ``torch.float32``."""

    def float_power(self, exponent: Tensor | _Number) -> Tensor:
        """`pow`, computed in float64 or complex128."""

    def float_power_(self, exponent: Tensor | _Number) -> Self:
        """In-place version of `float_power`."""

    def floor(self) -> Tensor:
        """Round down."""

    def floor_(self) -> Self:
        """In-place version of `floor`."""

    def floor_divide(self, other: Tensor | _Number) -> Tensor:
        """``input / other``, rounded down."""

    def floor_divide_(self, other: Tensor | _Number) -> Self:
        """In-place version of `floor_divide`."""

    def fmax(self, other: Tensor) -> Tensor:
        """The larger of two elements; NaN only if both are."""

    def fmin(self, other: Tensor) -> Tensor:
        """The smaller of two elements; NaN only if both are."""

    def fmod(self, other: Tensor | _Number) -> Tensor:
        """The remainder of division rounded towards zero; it has the sign of ``input``."""

    def fmod_(self, other: Tensor | _Number) -> Self:
        """In-place version of `fmod`."""

    def frac(self) -> Tensor:
        """The fractional part, with the sign of ``input``."""

    def frac_(self) -> Self:
        """In-place version of `frac`."""

    def frexp(self) -> return_types.frexp:
        """``input`` as ``mantissa * 2**exponent``, with ``0.5 <= |mantissa| < 1`` (both are 0 for 0)."""

    def gather(self, dim: _int, index: Tensor, *, sparse_grad: _bool = False) -> Tensor:
        """``out[i][j] = input[index[i][j]][j]`` for ``dim=0``, and so on. ``sparse_grad`` has no effect."""

    def gcd(self, other: Tensor) -> Tensor:
        """The greatest common divisor."""

    def gcd_(self, other: Tensor) -> Self:
        """In-place version of `gcd`."""

    def ge(self, other: Tensor | _Number) -> Tensor:
        """``input >= other``."""

    def ge_(self, other: Tensor | _Number) -> Self:
        """In-place version of `ge`."""

    def geometric_(self, p: _float, *, generator: Generator | None = None) -> Self:
        """Fill with numbers of trials until the first success, whose probability is ``p``."""

    def geqrf(self) -> return_types.geqrf:
        """The QR decomposition in LAPACK's form: R with the Householder vectors below it, and their factors tau."""

    def ger(self, vec2: Tensor) -> Tensor:
        """The outer product of two vectors."""

    def get_device(self) -> _int:
        """Index of the device, -1 on the CPU."""

    @property
    def grad(self) -> Tensor | None: ...
    @grad.setter
    def grad(self, value: Any) -> None: ...
    @property
    def grad_fn(self) -> Any: ...
    def greater(self, other: Tensor | _Number) -> Tensor:
        """``input > other``."""

    def greater_(self, other: Tensor | _Number) -> Self:
        """In-place version of `gt`."""

    def greater_equal(self, other: Tensor | _Number) -> Tensor:
        """``input >= other``."""

    def greater_equal_(self, other: Tensor | _Number) -> Self:
        """In-place version of `ge`."""

    def gt(self, other: Tensor | _Number) -> Tensor:
        """``input > other``."""

    def gt_(self, other: Tensor | _Number) -> Self:
        """In-place version of `gt`."""

    def half(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor as ``torch.float16``."""

    def hardshrink(self, lambd: _float = 0.5) -> Tensor:
        """``input`` where ``|input| > lambd``, else 0."""

    def hardsigmoid_(self) -> Self:
        """In-place version of `hardsigmoid`."""

    def hardswish_(self) -> Self:
        """In-place version of `hardswish`."""

    def hardtanh_(self, min_val: _float = -1.0, max_val: _float = 1.0) -> Self:
        """In-place version of `hardtanh`."""

    @overload
    def hash_tensor(self, dim: _Sizes | None = (), *, keepdim: _bool = False, mode: _int = 0) -> Tensor:
        """The exclusive or over ``dim`` of the bits of the elements, as float64, int64 or uint64."""
    @overload
    def hash_tensor(self, *, axis: _Sizes | None, keepdims: _bool = False, mode: _int = 0) -> Tensor: ...
    def heaviside(self, values: Tensor) -> Tensor:
        """0 where ``input`` is negative, 1 where it is positive, ``values`` where it is 0."""

    def heaviside_(self, values: Tensor) -> Self:
        """In-place version of `heaviside`."""

    def histc(self, bins: _int = 100, min: _float = 0, max: _float = 0) -> Tensor:
        """Count values in ``bins`` equal bins from ``min`` to ``max``; if these are equal, those of the data."""

    def histogram(
        self, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: _bool = False
    ) -> Any:
        """The number (or weight) of values in ``bins`` equal bins, or between the edges ``bins``; and the edges."""

    def hsplit(
        self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
    ) -> tuple[Tensor, ...]:
        """`tensor_split` along dimension 1 (vector: 0); a number must divide it."""

    def hypot(self, other: Tensor) -> Tensor:
        """``sqrt(input**2 + other**2)``."""

    def hypot_(self, other: Tensor) -> Self:
        """In-place version of `hypot`."""

    def i0(self) -> Tensor:
        """The modified Bessel function of the first kind of order 0."""

    def i0_(self) -> Self:
        """In-place version of `i0`."""

    def igamma(self, other: Tensor) -> Tensor:
        """The regularized lower incomplete gamma function P(``input``, ``other``)."""

    def igamma_(self, other: Tensor) -> Self:
        """In-place version of `igamma`."""

    def igammac(self, other: Tensor) -> Tensor:
        """The regularized upper incomplete gamma function Q(``input``, ``other``)."""

    def igammac_(self, other: Tensor) -> Self:
        """In-place version of `igammac`."""

    @property
    def imag(self) -> Tensor: ...
    @imag.setter
    def imag(self, value: Any) -> None: ...
    def index_add(self, dim: _int, index: Tensor, source: Tensor, *, alpha: Tensor | _Number = 1) -> Tensor:
        """A copy with ``alpha * source`` added to the slices at the positions ``index``."""

    def index_add_(self, dim: _int, index: Tensor, source: Tensor, *, alpha: Tensor | _Number = 1) -> Self:
        """In-place version of `index_add`."""

    def index_copy(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """A copy with the slices of ``source`` at the positions ``index``."""

    def index_copy_(self, dim: _int, index: Tensor, source: Tensor) -> Self:
        """In-place version of `index_copy`."""

    def index_fill(self, dim: _int, index: Tensor, value: Tensor | _Number) -> Tensor:
        """A copy with ``value`` in the slices at the positions ``index``."""

    def index_fill_(self, dim: _int, index: Tensor, value: Tensor | _Number) -> Self:
        """In-place version of `index_fill`."""

    def index_put(self, indices: Any, values: Any, accumulate: _bool = False) -> Tensor:
        """``input`` with ``values`` at the index tensors or masks; added up where positions repeat if ``accumulate``."""

    def index_put_(self, indices: Any, values: Any, accumulate: _bool = False) -> Self:
        """In-place version of `index_put`."""

    def index_reduce(
        self, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True
    ) -> Tensor:
        """A copy into which the slices of ``source`` are reduced by index: "prod", "mean", "amax" or "amin"."""

    def index_reduce_(
        self, dim: _int, index: Tensor, source: Tensor, reduce: _str, *, include_self: _bool = True
    ) -> Self:
        """In-place version of `index_reduce`."""

    def index_select(self, dim: _int, index: Tensor) -> Tensor:
        """The slices along ``dim`` at the positions ``index``."""

    def indices(self) -> Any: ...
    def inner(self, other: Tensor) -> Tensor:
        """Inner products along the last dimensions of both tensors."""

    def int(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor as ``torch.int32``."""

    def inverse(self) -> Tensor:
        """The inverse of (a batch of) square matrices."""

    def is_coalesced(self) -> Any: ...
    def is_complex(self) -> _bool: ...
    def is_conj(self) -> _bool:
        """Whether the tensor is a conjugate view."""

    def is_contiguous(self, memory_format: _memory_format | None = None) -> _bool:
        """Whether the elements lie in order, that of ``memory_format``, as PyTorch's layout of the same views would."""

    @property
    def is_cpu(self) -> _bool: ...
    @property
    def is_cuda(self) -> _bool: ...
    def is_floating_point(self) -> _bool: ...
    def is_inference(self) -> _bool:
        """Whether the tensor's memory was made in `inference_mode`."""

    @property
    def is_leaf(self) -> _bool: ...
    @property
    def is_meta(self) -> _bool: ...

    is_mkldnn: _bool

    is_mps: _bool

    def is_neg(self) -> _bool:
        """Whether the tensor is a negated view."""

    is_nested: _bool

    def is_nonzero(self) -> _bool:
        """Whether a one-element tensor is nonzero."""

    def is_pinned(self) -> _bool:
        """Whether it is kept in memory of the host that devices read: see `distributed.sharding.offload`."""

    is_quantized: _bool

    def is_same_size(self, other: Tensor) -> _bool:
        """Whether both have the same shape."""

    def is_set_to(self, tensor: Tensor) -> _bool:
        """Whether both look at the same elements of one Storage in the same way."""

    def is_shared(self) -> _bool: ...
    def is_signed(self) -> _bool: ...

    is_sparse: _bool

    is_sparse_csr: _bool

    is_xpu: _bool

    def isclose(
        self,
        other: Tensor,
        rtol: Tensor | _Number = 1e-05,
        atol: Tensor | _Number = 1e-08,
        equal_nan: _bool = False,
    ) -> Tensor:
        """Whether ``|input - other| <= atol + rtol * |other|``."""

    def isfinite(self) -> Tensor:
        """Whether each element is neither infinite nor NaN."""

    def isinf(self) -> Tensor:
        """Whether each element is infinite."""

    def isnan(self) -> Tensor:
        """Whether each element is NaN."""

    def isneginf(self) -> Tensor:
        """Whether each element is minus infinity."""

    def isposinf(self) -> Tensor:
        """Whether each element is plus infinity."""

    def isreal(self) -> Tensor:
        """Whether the imaginary part of each element is 0."""

    def istft(
        self,
        n_fft: _int,
        hop_length: _int | None = None,
        win_length: _int | None = None,
        window: Tensor | _Number | None = None,
        center: _bool = True,
        normalized: _bool = False,
        onesided: _bool | None = None,
        length: _int | None = None,
        return_complex: _bool = False,
    ) -> Tensor:
        """The signal whose `stft` is closest to ``input``."""

    def item(self) -> Any:
        """The value of a one-element tensor as a Python number."""

    @property
    def itemsize(self) -> _int: ...
    def jax(self) -> Any:
        """The value as a `jax.Array` (an immutable snapshot; nothing is copied)."""

    def kron(self, other: Tensor) -> Tensor:
        """The Kronecker product."""

    @overload
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False) -> return_types.kthvalue:
        """The ``k``-th smallest value along ``dim`` and its index."""
    @overload
    def kthvalue(self, k: _int, *, axis: _int, keepdims: _bool = False) -> return_types.kthvalue: ...
    @property
    def layout(self) -> _layout: ...
    def lcm(self, other: Tensor) -> Tensor:
        """The least common multiple."""

    def lcm_(self, other: Tensor) -> Self:
        """In-place version of `lcm`."""

    def ldexp(self, other: Tensor) -> Tensor:
        """``input * 2**other``; exact if ``other`` has an integer dtype."""

    def ldexp_(self, other: Tensor) -> Self:
        """In-place version of `ldexp`."""

    def le(self, other: Tensor | _Number) -> Tensor:
        """``input <= other``."""

    def le_(self, other: Tensor | _Number) -> Self:
        """In-place version of `le`."""

    def leaky_relu_(self, negative_slope: _float = 0.01) -> Self:
        """In-place version of `leaky_relu`."""

    def lerp(self, end: Tensor, weight: Tensor | _Number) -> Tensor:
        """``input + weight * (end - input)``."""

    def lerp_(self, end: Tensor, weight: Tensor | _Number) -> Self:
        """In-place version of `lerp`."""

    def less(self, other: Tensor | _Number) -> Tensor:
        """``input < other``."""

    def less_(self, other: Tensor | _Number) -> Self:
        """In-place version of `lt`."""

    def less_equal(self, other: Tensor | _Number) -> Tensor:
        """``input <= other``."""

    def less_equal_(self, other: Tensor | _Number) -> Self:
        """In-place version of `le`."""

    def lgamma(self) -> Tensor:
        """The logarithm of the absolute value of the gamma function."""

    def lgamma_(self) -> Self:
        """In-place version of `lgamma`."""

    def log(self) -> Tensor:
        """The natural logarithm."""

    def log10(self) -> Tensor:
        """The logarithm to base 10."""

    def log10_(self) -> Self:
        """In-place version of `log10`."""

    def log1p(self) -> Tensor:
        """``log(1 + input)``, accurate near 0."""

    def log1p_(self) -> Self:
        """In-place version of `log1p`."""

    def log2(self) -> Tensor:
        """The logarithm to base 2."""

    def log2_(self) -> Self:
        """In-place version of `log2`."""

    def log_(self) -> Self:
        """In-place version of `log`."""

    def log_normal_(self, mean: _float = 1, std: _float = 2, *, generator: Generator | None = None) -> Self:
        """Fill with exponentials of normal numbers of this ``mean`` (1) and standard deviation ``std`` (2)."""

    @overload
    def log_softmax(self, dim: _int, dtype: _dtype | None = None) -> Tensor:
        """The logarithm of `softmax`, computed without under- or overflow."""
    @overload
    def log_softmax(self, *, axis: _int, dtype: _dtype | None = None) -> Tensor: ...
    def logaddexp(self, other: Tensor) -> Tensor:
        """``log(exp(input) + exp(other))``, without overflow."""

    def logaddexp2(self, other: Tensor) -> Tensor:
        """``log2(2**input + 2**other)``, without overflow."""

    @overload
    def logcumsumexp(self, dim: _int) -> Tensor:
        """``log(cumsum(exp(input)))`` along ``dim``, without overflow."""
    @overload
    def logcumsumexp(self, *, axis: _int) -> Tensor: ...
    def logdet(self) -> Tensor:
        """The logarithm of the determinant; NaN if that is negative."""

    def logical_and(self, other: Tensor) -> Tensor:
        """Whether both elements are nonzero."""

    def logical_and_(self, other: Tensor) -> Self:
        """In-place version of `logical_and`."""

    def logical_not(self) -> Tensor:
        """Whether each element is zero."""

    def logical_not_(self) -> Self:
        """In-place version of `logical_not`."""

    def logical_or(self, other: Tensor) -> Tensor:
        """Whether at least one of two elements is nonzero."""

    def logical_or_(self, other: Tensor) -> Self:
        """In-place version of `logical_or`."""

    def logical_xor(self, other: Tensor) -> Tensor:
        """Whether exactly one of two elements is nonzero."""

    def logical_xor_(self, other: Tensor) -> Self:
        """In-place version of `logical_xor`."""

    def logit(self, eps: _float | None = None) -> Tensor:
        """``log(x / (1 - x))``; with ``eps``, x is limited to ``[eps, 1 - eps]`` first."""

    def logit_(self, eps: _float | None = None) -> Self:
        """In-place version of `logit`."""

    @overload
    def logsumexp(self, dim: _Sizes | None, keepdim: _bool = False) -> Tensor:
        """``log(sum(exp(input)))`` over ``dim``, without overflow."""
    @overload
    def logsumexp(self, *, axis: _Sizes | None, keepdims: _bool = False) -> Tensor: ...
    def long(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor as ``torch.int64``."""

    def lt(self, other: Tensor | _Number) -> Tensor:
        """``input < other``."""

    def lt_(self, other: Tensor | _Number) -> Self:
        """In-place version of `lt`."""

    def lu(self, pivot: _bool = True, get_infos: _bool = False) -> Any:
        """`lu_factor`; with ``get_infos`` also ``info`` instead of an error."""

    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """The solution X of ``A X = input``, from the `lu_factor` of A."""

    @property
    def mH(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    def map2_(self, x: Tensor, y: Tensor, callable: Any) -> Self:
        """Replace every element by ``callable(own, x, y)``; slow, for small CPU tensors."""

    def map_(self, tensor: Tensor, callable: Any) -> Self:
        """Replace every element by ``callable(own, other)``; slow, for small CPU tensors."""

    def masked_fill(self, mask: Tensor, value: Tensor | _Number) -> Tensor:
        """A copy with ``value`` where ``mask`` is True."""

    def masked_fill_(self, mask: Tensor, value: Tensor | _Number) -> Self:
        """In-place version of `masked_fill`."""

    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """A copy in which the elements where ``mask`` is True are, in order, those of ``source``."""

    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Self:
        """In-place version of `masked_scatter`."""

    def masked_select(self, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
        """A vector of the elements where ``mask`` is True."""

    def matmul(self, other: Tensor) -> Tensor:
        """The matrix product, or batches of it; a vector is a row on the left, and a column on the right."""

    def matrix_exp(self) -> Tensor:
        """The matrix exponential."""

    def matrix_power(self, n: _int) -> Tensor:
        """The ``n``-th power of square matrices; a negative ``n`` takes powers of the inverse."""

    @overload
    def max(self) -> Tensor:
        """The maximum of all elements, or along ``dim`` with its indices; or `maximum` of two tensors."""
    @overload
    def max(self, dim: _int, keepdim: _bool = False) -> return_types.max: ...
    @overload
    def max(self, *, axis: _int, keepdims: _bool = False) -> return_types.max: ...
    @overload
    def max(self, other: Tensor) -> Tensor: ...
    def maximum(self, other: Tensor) -> Tensor:
        """The larger of two elements, NaN if one of them is; equal elements share the gradient."""

    @overload
    def mean(
        self, dim: _Sizes | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None
    ) -> Tensor:
        """The mean over ``dim`` (all dimensions by default)."""
    @overload
    def mean(
        self, *, axis: _Sizes | None, keepdims: _bool = False, dtype: _dtype | None = None
    ) -> Tensor: ...
    @overload
    def median(self) -> Tensor:
        """The lower median of all elements, or along ``dim`` with its index; NaN if one element is."""
    @overload
    def median(self, dim: _int, keepdim: _bool = False) -> return_types.median: ...
    @overload
    def min(self) -> Tensor:
        """The minimum of all elements, or along ``dim`` with its indices; or `minimum` of two tensors."""
    @overload
    def min(self, dim: _int, keepdim: _bool = False) -> return_types.min: ...
    @overload
    def min(self, *, axis: _int, keepdims: _bool = False) -> return_types.min: ...
    @overload
    def min(self, other: Tensor) -> Tensor: ...
    def minimum(self, other: Tensor) -> Tensor:
        """The smaller of two elements, NaN if one of them is; equal elements share the gradient."""

    def mish_(self) -> Self:
        """In-place version of `mish`."""

    def mm(self, mat2: Tensor) -> Tensor:
        """The product of two matrices."""

    @overload
    def mode(self, dim: _int = -1, keepdim: _bool = False) -> return_types.mode:
        """The most frequent value along ``dim`` (the smallest of several), and its last index."""
    @overload
    def mode(self, *, axis: _int, keepdims: _bool = False) -> return_types.mode: ...
    def moveaxis(self, source: _int | _Sizes, destination: _int | _Sizes) -> Tensor:
        """Move the dimensions ``source`` to the positions ``destination``; the others keep their order."""

    def movedim(self, source: _int | _Sizes, destination: _int | _Sizes) -> Tensor:
        """Move the dimensions ``source`` to the positions ``destination``; the others keep their order."""

    def msort(self) -> Tensor:
        """Sort along the first dimension."""

    def mul(self, other: Tensor | _Number) -> Tensor:
        """``input * other``."""

    def mul_(self, other: Tensor | _Number) -> Self:
        """In-place version of `mul`."""

    def multinomial(
        self,
        num_samples: _int,
        replacement: _bool = False,
        *,
        generator: Generator | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Draw indices with probabilities proportional to the weights in each row of ``input``."""

    def multiply(self, other: Tensor | _Number) -> Tensor:
        """``input * other``."""

    def multiply_(self, other: Tensor | _Number) -> Self:
        """In-place version of `mul`."""

    def mv(self, vec: Tensor) -> Tensor:
        """The product of a matrix and a vector."""

    def mvlgamma(self, p: _int) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension ``p``."""

    def mvlgamma_(self, p: _int) -> Self:
        """In-place version of `mvlgamma`."""

    def nan_to_num(
        self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None
    ) -> Tensor:
        """Replace NaN (by 0) and the infinities (by the dtype's largest and smallest number), or by the given numbers."""

    def nan_to_num_(
        self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None
    ) -> Self:
        """In-place version of `nan_to_num`."""

    @overload
    def nanmean(
        self, dim: _Sizes | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None
    ) -> Tensor:
        """The mean over ``dim`` of the values that are not NaN."""
    @overload
    def nanmean(
        self, *, axis: _Sizes | None, keepdims: _bool = False, dtype: _dtype | None = None
    ) -> Tensor: ...
    @overload
    def nanmedian(self) -> Tensor:
        """`median` of the elements that are not NaN."""
    @overload
    def nanmedian(self, dim: _int, keepdim: _bool = False) -> return_types.nanmedian: ...
    @overload
    def nanquantile(
        self,
        q: Tensor | _Number,
        dim: _int | None = None,
        keepdim: _bool = False,
        *,
        interpolation: _str = "linear",
    ) -> Tensor:
        """`quantile` of the elements that are not NaN."""
    @overload
    def nanquantile(
        self,
        q: Tensor | _Number,
        *,
        axis: _int | None,
        keepdims: _bool = False,
        interpolation: _str = "linear",
    ) -> Tensor: ...
    @overload
    def nansum(
        self, dim: _Sizes | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None
    ) -> Tensor:
        """The sum over ``dim``, with NaN counted as 0."""
    @overload
    def nansum(
        self, *, axis: _Sizes | None, keepdims: _bool = False, dtype: _dtype | None = None
    ) -> Tensor: ...
    def narrow(self, dim: _int, start: Tensor | _Number, length: _int) -> Tensor:
        """A view of ``length`` elements along ``dim``, from ``start`` on."""

    def narrow_copy(self, dim: _int, start: _int, length: _int) -> Tensor:
        """A copy of the `narrow` view."""

    @property
    def nbytes(self) -> _int: ...
    @property
    def ndim(self) -> _int: ...
    def ndimension(self) -> _int:
        """Number of dimensions."""

    def ne(self, other: Tensor | _Number) -> Tensor:
        """``input != other``."""

    def ne_(self, other: Tensor | _Number) -> Self:
        """In-place version of `ne`."""

    def neg(self) -> Tensor:
        """``-input``."""

    def neg_(self) -> Self:
        """In-place version of `neg`."""

    def negative(self) -> Tensor:
        """``-input``."""

    def negative_(self) -> Self:
        """In-place version of `neg`."""

    def nelement(self) -> _int:
        """Number of elements."""

    def new(self, *args: Any, device: _Device = None) -> Tensor:
        """Legacy constructor: an empty tensor of the given sizes, or one with the given data, of this tensor's dtype."""

    @overload
    def new_empty(
        self,
        size: Sequence[_int],
        *,
        dtype: _dtype | None = None,
        layout: _layout | None = None,
        device: _Device = None,
        requires_grad: _bool = False,
        pin_memory: _bool = False,
    ) -> Tensor:
        """Like `empty`, with this tensor's dtype and device as defaults."""
    @overload
    def new_empty(
        self,
        *size: _int,
        dtype: _dtype | None = None,
        layout: _layout | None = None,
        device: _Device = None,
        requires_grad: _bool = False,
        pin_memory: _bool = False,
    ) -> Tensor: ...
    def new_empty_strided(
        self,
        size: Sequence[_int],
        stride: Sequence[_int],
        *,
        dtype: _dtype | None = None,
        layout: _layout | None = None,
        device: _Device = None,
        requires_grad: _bool = False,
        pin_memory: _bool = False,
    ) -> Tensor:
        """Like `empty_strided`, with this tensor's dtype and device as defaults."""

    def new_full(
        self,
        size: Sequence[_int],
        fill_value: Tensor | _Number,
        *,
        dtype: _dtype | None = None,
        layout: _layout | None = None,
        device: _Device = None,
        requires_grad: _bool = False,
        pin_memory: _bool = False,
    ) -> Tensor:
        """Like `full`, with this tensor's dtype and device as defaults."""

    @overload
    def new_ones(
        self,
        size: Sequence[_int],
        *,
        dtype: _dtype | None = None,
        layout: _layout | None = None,
        device: _Device = None,
        requires_grad: _bool = False,
        pin_memory: _bool = False,
    ) -> Tensor:
        """Like `ones`, with this tensor's dtype and device as defaults."""
    @overload
    def new_ones(
        self,
        *size: _int,
        dtype: _dtype | None = None,
        layout: _layout | None = None,
        device: _Device = None,
        requires_grad: _bool = False,
        pin_memory: _bool = False,
    ) -> Tensor: ...
    def new_tensor(
        self,
        data: Any,
        *,
        dtype: _dtype | None = None,
        layout: _layout | None = None,
        device: _Device = None,
        requires_grad: _bool = False,
        pin_memory: _bool = False,
    ) -> Tensor:
        """Like `new_from`, with this tensor's dtype and device as defaults."""

    @overload
    def new_zeros(
        self,
        size: Sequence[_int],
        *,
        dtype: _dtype | None = None,
        layout: _layout | None = None,
        device: _Device = None,
        requires_grad: _bool = False,
        pin_memory: _bool = False,
    ) -> Tensor:
        """Like `zeros`, with this tensor's dtype and device as defaults."""
    @overload
    def new_zeros(
        self,
        *size: _int,
        dtype: _dtype | None = None,
        layout: _layout | None = None,
        device: _Device = None,
        requires_grad: _bool = False,
        pin_memory: _bool = False,
    ) -> Tensor: ...
    def nextafter(self, other: Tensor) -> Tensor:
        """The next representable number from ``input`` towards ``other``."""

    def nextafter_(self, other: Tensor) -> Self:
        """In-place version of `nextafter`."""

    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> Tensor:
        """The indices of nonzero elements: the rows of a matrix, or with ``as_tuple`` one vector per dimension."""
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
    def nonzero_static(self, *, size: _int, fill_value: _int = -1) -> Tensor:
        """The indices of the first ``size`` nonzero elements, as rows; missing ones are ``fill_value``."""

    @overload
    def norm(
        self, p: Any = "fro", dim: _Sizes | None = None, keepdim: _bool = False, dtype: _dtype | None = None
    ) -> Tensor:
        """The p-norm over ``dim``, or the nuclear norm of a matrix."""
    @overload
    def norm(
        self, p: Any = "fro", *, axis: _Sizes | None, keepdims: _bool = False, dtype: _dtype | None = None
    ) -> Tensor: ...
    def normal_(self, mean: _float = 0, std: _float = 1, *, generator: Generator | None = None) -> Self:
        """Fill with normal numbers of this ``mean`` (0) and standard deviation ``std`` (1)."""

    def not_equal(self, other: Tensor | _Number) -> Tensor:
        """``input != other``."""

    def not_equal_(self, other: Tensor | _Number) -> Self:
        """In-place version of `ne`."""

    def numel(self) -> _int:
        """Number of elements."""

    def numpy(self, *, force: _bool = False) -> np.ndarray[Any, Any]:
        """The value as a numpy array."""

    def orgqr(self, input2: Tensor) -> Tensor:
        """The first columns of the product of Householder reflections, such as `geqrf` returns."""

    def ormqr(self, input2: Tensor, input3: Tensor, left: _bool = True, transpose: _bool = False) -> Tensor:
        """Multiply a matrix by the Q of `geqrf` (or its adjoint) from the left or the right."""

    def outer(self, vec2: Tensor) -> Tensor:
        """The outer product of two vectors."""

    @property
    def output_nr(self) -> _int: ...
    @overload
    def permute(self, dims: _Sizes) -> Tensor:
        """Reorder the dimensions: dimension ``dims[i]`` becomes dimension ``i``."""
    @overload
    def permute(self, *dims: _int) -> Tensor: ...
    def pin_memory(self, device: _Device = None) -> Tensor: ...
    def pinverse(self, rcond: _float = 1e-15) -> Tensor:
        """The pseudo-inverse; singular values up to ``rcond * largest`` count as 0."""

    def polygamma(self, n: _int) -> Tensor:
        """The ``n``-th derivative of `digamma`."""

    def polygamma_(self, n: _int) -> Self:
        """In-place version of `polygamma`."""

    def positive(self) -> Any:
        """The tensor itself."""

    def pow(self, exponent: Tensor | _Number) -> Tensor:
        """``input`` to the power of ``exponent``; either may be a number."""

    def pow_(self, exponent: Tensor | _Number) -> Self:
        """In-place version of `pow`."""

    def prelu(self, weight: Tensor | _Number) -> Tensor:
        """``input`` where it is positive, else ``weight * input``, with one weight for all or for each channel."""

    @overload
    def prod(self, dim: _int | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None) -> Tensor:
        """The product over ``dim`` (all dimensions by default)."""
    @overload
    def prod(self, *, axis: _int | None, keepdims: _bool = False, dtype: _dtype | None = None) -> Tensor: ...
    def put(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """A copy with ``source`` written (or added) at positions of the flattened input."""

    def put_(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Self:
        """In-place version of `put`."""

    def qr(self, some: _bool = True) -> return_types.qr:
        """The QR decomposition ``input = Q R``: the reduced one, or with ``some=False`` the complete one."""

    @overload
    def quantile(
        self,
        q: Tensor | _Number,
        dim: _int | None = None,
        keepdim: _bool = False,
        *,
        interpolation: _str = "linear",
    ) -> Tensor:
        """The quantiles ``q`` (between 0 and 1) along ``dim``, or of all elements."""
    @overload
    def quantile(
        self,
        q: Tensor | _Number,
        *,
        axis: _int | None,
        keepdims: _bool = False,
        interpolation: _str = "linear",
    ) -> Tensor: ...
    def rad2deg(self) -> Tensor:
        """Convert radians to degrees."""

    def rad2deg_(self) -> Self:
        """In-place version of `rad2deg`."""

    @overload
    def random_(self, *, generator: Generator | None = None) -> Self:
        """Fill with integers in [``from``, ``to``); by default from 0 to the dtype's largest (2**24 for float32)."""
    @overload
    def random_(self, to: _int, *, generator: Generator | None = None) -> Self: ...
    @overload
    def random_(self, from_: _int, /, to: _int | None, *, generator: Generator | None = None) -> Self: ...
    def ravel(self) -> Tensor:
        """All elements as a vector."""

    @property
    def real(self) -> Tensor: ...
    @real.setter
    def real(self, value: Any) -> None: ...
    def reciprocal(self) -> Tensor:
        """``1 / input``."""

    def reciprocal_(self) -> Self:
        """In-place version of `reciprocal`."""

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call ``hook(grad)`` whenever a gradient of this tensor is computed; what it returns replaces the gradient."""

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call ``hook(tensor)`` after a gradient was added to this leaf's ``.grad``."""

    def relu(self) -> Tensor:
        """``max(input, 0)``; the gradient at 0 is 0."""

    def relu6_(self) -> Self:
        """In-place version of `relu6`."""

    def relu_(self) -> Self:
        """In-place version of `relu`."""

    def remainder(self, other: Tensor | _Number) -> Tensor:
        """The remainder of `floor_divide`; it has the sign of ``other``."""

    def remainder_(self, other: Tensor | _Number) -> Self:
        """In-place version of `remainder`."""

    def renorm(self, p: _float, dim: _int, maxnorm: _float) -> Tensor:
        """Scale each slice along ``dim`` whose p-norm is above ``maxnorm`` down to it."""

    def renorm_(self, p: _float, dim: _int, maxnorm: _float) -> Self:
        """In-place version of `renorm`."""

    @overload
    def repeat(self, repeats: _Sizes) -> Tensor:
        """A copy, repeated along each dimension; extra numbers add leading dimensions."""
    @overload
    def repeat(self, *repeats: _int) -> Tensor: ...
    def repeat_interleave(
        self, repeats: Any = None, dim: _int | None = None, *, output_size: _int | None = None
    ) -> Tensor:
        """Repeat each element along ``dim``, by default of the flattened input."""

    @property
    def requires_grad(self) -> _bool: ...
    @requires_grad.setter
    def requires_grad(self, value: Any) -> None: ...
    def requires_grad_(self, requires_grad: _bool = True) -> Self:
        """Set `requires_grad` and return the tensor."""

    @overload
    def reshape(self, shape: Sequence[_int]) -> Tensor:
        """The tensor in another shape: a view if its strides allow one, else a copy."""
    @overload
    def reshape(self, *shape: _int) -> Tensor: ...
    def reshape_as(self, other: Tensor) -> Tensor:
        """`reshape` to the shape of ``other``."""

    @overload
    def resize_(self, size: Sequence[_int], *, memory_format: _memory_format | None = None) -> Self:
        """Resize in place; elements keep their order in memory, and new ones are 0."""
    @overload
    def resize_(self, *size: _int, memory_format: _memory_format | None = None) -> Self: ...
    def resize_as_(self, the_template: Tensor, *, memory_format: _memory_format | None = None) -> Self:
        """Resize in place to the size of another tensor; with `preserve_format`, to its format too."""

    def resolve_conj(self) -> Tensor:
        """A copy of a conjugate view (see `is_conj`); any other tensor unchanged."""

    def resolve_neg(self) -> Tensor:
        """A copy of a negated view (see `is_neg`); any other tensor unchanged."""

    def retain_grad(self) -> None:
        """Have ``.grad`` filled by backward although this tensor is not a leaf."""

    @property
    def retains_grad(self) -> _bool: ...
    def roll(self, shifts: _int | _Sizes, dims: _int | _Sizes | None = None) -> Tensor:
        """Shift the elements cyclically along ``dims``, by default in the flattened tensor."""

    def rot90(self, k: _int = 1, dims: _Sizes = ...) -> Tensor:
        """Rotate ``k`` times by 90 degrees, from the first of ``dims`` towards the second."""

    def round(self, *, decimals: _int = 0) -> Tensor:
        """Round to ``decimals`` places; a half goes to the even neighbour."""

    def round_(self, *, decimals: _int = 0) -> Self:
        """In-place version of `round`."""

    def row_indices(self) -> Any: ...
    def rsqrt(self) -> Tensor:
        """``1 / sqrt(input)``."""

    def rsqrt_(self) -> Self:
        """In-place version of `rsqrt`."""

    def scatter(
        self,
        dim: _int,
        index: Tensor,
        src: Tensor | _Number | None = None,
        *,
        value: Tensor | _Number | None = None,
        reduce: _str | None = None,
    ) -> Tensor:
        """A copy with ``out[index[i][j]][j] = src[i][j]`` for ``dim=0``, and so on; ``src`` may be a number."""

    def scatter_(
        self,
        dim: _int,
        index: Tensor,
        src: Tensor | _Number | None = None,
        *,
        value: Tensor | _Number | None = None,
        reduce: _str | None = None,
    ) -> Self:
        """In-place version of `scatter`."""

    def scatter_add(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """A copy with ``out[index[i][j]][j] += src[i][j]`` for ``dim=0``, and so on."""

    def scatter_add_(self, dim: _int, index: Tensor, src: Tensor) -> Self:
        """In-place version of `scatter_add`."""

    def scatter_reduce(
        self, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True
    ) -> Tensor:
        """A copy into which `scatter` reduces ``src``: by "sum", "prod", "mean", "amax" or "amin"."""

    def scatter_reduce_(
        self, dim: _int, index: Tensor, src: Tensor, reduce: _str, *, include_self: _bool = True
    ) -> Self:
        """In-place version of `scatter_reduce`."""

    def searchsorted(
        self,
        input: Tensor | _Number,
        *,
        out_int32: _bool = False,
        right: _bool = False,
        side: _str | None = None,
        sorter: Tensor | _Number | None = None,
    ) -> Tensor:
        """The indices at which to insert values into the last dimension of ``sorted_sequence``, to keep it sorted."""

    def select(self, dim: _int, index: Tensor | _Number) -> Tensor:
        """A view of the slice ``index`` along ``dim``, without that dimension."""

    def select_scatter(self, src: Tensor, dim: _int, index: _int) -> Tensor:
        """A copy with ``src`` in the place of the slice ``index`` along ``dim``."""

    def selu_(self) -> Self:
        """In-place version of `selu`."""

    def set_(
        self,
        source: Any = None,
        storage_offset: _int = 0,
        size: Sequence[_int] | None = None,
        stride: Sequence[_int] | None = None,
    ) -> Self:
        """Make this tensor a view of another tensor's Storage or of a Storage, in place."""

    def sgn(self) -> Tensor:
        """`sign`; a complex number is divided by its absolute value, and 0 stays 0."""

    def sgn_(self) -> Self:
        """In-place version of `sgn`."""

    @property
    def shape(self) -> Size: ...
    def share_memory_(self) -> Self: ...
    def short(self, memory_format: _memory_format | None = None) -> Tensor:
        """This tensor as ``torch.int16``."""

    def sigmoid(self) -> Tensor:
        """``1 / (1 + exp(-input))``."""

    def sigmoid_(self) -> Self:
        """In-place version of `sigmoid`."""

    def sign(self) -> Tensor:
        """-1, 0 or 1, by the sign of each element."""

    def sign_(self) -> Self:
        """In-place version of `sign`."""

    def signbit(self) -> Tensor:
        """Whether the sign bit is set: for negative numbers and -0.0."""

    def silu_(self) -> Self:
        """In-place version of `silu`."""

    def sin(self) -> Tensor:
        """Sine."""

    def sin_(self) -> Self:
        """In-place version of `sin`."""

    def sinc(self) -> Tensor:
        """``sin(pi x) / (pi x)``, 1 at 0."""

    def sinc_(self) -> Self:
        """In-place version of `sinc`."""

    def sinh(self) -> Tensor:
        """Hyperbolic sine."""

    def sinh_(self) -> Self:
        """In-place version of `sinh`."""

    @overload
    def size(self, dim: None = None) -> Size:
        """The shape, or the size of one dimension."""
    @overload
    def size(self, dim: _int) -> _int: ...
    @overload
    def slice_scatter(
        self, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1
    ) -> Tensor:
        """A copy with ``src`` in the place of ``input[start:end:step]`` along ``dim``."""
    @overload
    def slice_scatter(
        self, src: Tensor, *, axis: _int, start: _int | None = None, end: _int | None = None, step: _int = 1
    ) -> Tensor: ...
    def slogdet(self) -> return_types.slogdet:
        """The determinant's sign and the logarithm of its absolute value."""

    @overload
    def softmax(self, dim: _int, dtype: _dtype | None = None) -> Tensor:
        """``exp(input)`` divided by its sum along ``dim``."""
    @overload
    def softmax(self, *, axis: _int, dtype: _dtype | None = None) -> Tensor: ...
    @overload
    def sort(self, dim: _int = -1, descending: _bool = False, stable: _bool = False) -> return_types.sort:
        """Sort along ``dim``: the values and their indices. The sort is always stable; NaN is the largest value."""
    @overload
    def sort(self, *, axis: _int, descending: _bool = False, stable: _bool = False) -> return_types.sort: ...
    def sparse_dim(self) -> Any: ...
    def sparse_mask(self, mask: Tensor) -> Tensor:
        """The elements at the places of the sparse tensor ``mask``."""

    def sparse_resize_(self, *args: Any, **kwargs: Any) -> Self: ...
    def split(self, split_size: _Sizes, dim: _int = 0) -> tuple[Tensor, ...]:
        """Split along ``dim`` into parts of one size (the last may be smaller), or of the sizes in a list."""

    def split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Split along ``dim`` into parts of these sizes."""

    def sqrt(self) -> Tensor:
        """The square root."""

    def sqrt_(self) -> Self:
        """In-place version of `sqrt`."""

    def square(self) -> Tensor:
        """``input * input``."""

    def square_(self) -> Self:
        """In-place version of `square`."""

    @overload
    def squeeze(self, dim: _int | _Sizes | None = None) -> Tensor:
        """Remove all dimensions of size 1, or those in ``dim``."""
    @overload
    def squeeze(self, *, axis: _int | _Sizes | None) -> Tensor: ...
    @overload
    def squeeze_(self, dim: _int | _Sizes | None = None) -> Self:
        """In-place version of `squeeze`."""
    @overload
    def squeeze_(self, *, axis: _int | _Sizes | None) -> Self: ...
    @overload
    def std(
        self,
        dim: _Sizes | None = None,
        unbiased: _bool | None = None,
        keepdim: _bool = False,
        *,
        correction: _float | None = None,
    ) -> Tensor:
        """The square root of `var`; its gradient is 0 where it is 0."""
    @overload
    def std(
        self,
        *,
        axis: _Sizes | None,
        unbiased: _bool | None = None,
        keepdims: _bool = False,
        correction: _float | None = None,
    ) -> Tensor: ...
    def stft(
        self,
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
    ) -> Tensor:
        """The Fourier transforms of a signal's windowed frames, one per column."""

    def storage(self) -> Any:
        """The memory as a `TypedStorage`, which counts elements of the tensor's dtype."""

    def storage_offset(self) -> _int:
        """Position of the first element in the Storage."""

    @overload
    def stride(self, dim: None = None) -> tuple[_int, ...]:
        """Element strides, as PyTorch's layout of the same views would have them."""
    @overload
    def stride(self, dim: _int) -> _int: ...
    def sub(self, other: Tensor | _Number, *, alpha: Tensor | _Number = 1) -> Tensor:
        """``input - alpha * other``."""

    def sub_(self, other: Tensor | _Number, *, alpha: Tensor | _Number = 1) -> Self:
        """In-place version of `sub`."""

    def subtract(self, other: Tensor | _Number, *, alpha: Tensor | _Number = 1) -> Tensor:
        """``input - alpha * other``."""

    def subtract_(self, other: Tensor | _Number, *, alpha: Tensor | _Number = 1) -> Self:
        """In-place version of `sub`."""

    @overload
    def sum(
        self, dim: _Sizes | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None
    ) -> Tensor:
        """The sum over ``dim`` (all dimensions by default)."""
    @overload
    def sum(self, *, axis: _Sizes | None, keepdims: _bool = False, dtype: _dtype | None = None) -> Tensor: ...
    @overload
    def sum_to_size(self, size: Sequence[_int]) -> Tensor:
        """Sum over the dimensions that a tensor of ``size`` would be broadcast along."""
    @overload
    def sum_to_size(self, *size: _int) -> Tensor: ...
    def svd(self, some: _bool = True, compute_uv: _bool = True) -> return_types.svd:
        """The singular value decomposition ``U diag(S) V^H``."""

    def swapaxes(self, axis0: _int, axis1: _int) -> Tensor:
        """`transpose` with numpy's names of the parameters."""

    def swapaxes_(self, *args: Any, **kwargs: Any) -> Self:
        """In-place version of `swapaxes`."""

    def swapdims(self, dim0: _int, dim1: _int) -> Tensor:
        """Swap two dimensions."""

    def swapdims_(self, dim0: _int, dim1: _int) -> Self:
        """In-place version of `swapdims`."""

    def t(self) -> Tensor:
        """Transpose a matrix; a tensor with fewer dimensions is unchanged."""

    def t_(self) -> Self:
        """In-place version of `t`."""

    def take(self, index: Tensor) -> Tensor:
        """The elements of the flattened input at the positions ``index``."""

    @overload
    def take_along_dim(self, indices: Tensor, dim: _int | None = None) -> Tensor:
        """`gather`, with input and indices broadcast; without ``dim``, from the flattened input."""
    @overload
    def take_along_dim(self, indices: Tensor, *, axis: _int | None) -> Tensor: ...
    def tan(self) -> Tensor:
        """Tangent."""

    def tan_(self) -> Self:
        """In-place version of `tan`."""

    def tanh(self) -> Tensor:
        """Hyperbolic tangent."""

    def tanh_(self) -> Self:
        """In-place version of `tanh`."""

    def tensor_split(
        self, indices_or_sections: Any = None, dim: _int = 0, *, indices: Any = None, sections: Any = None
    ) -> tuple[Tensor, ...]:
        """Split along ``dim`` into a number of parts, whose sizes differ by at most 1, or at the indices in a list."""

    def threshold_(self, threshold: _float, value: _float) -> Self:
        """In-place version of `threshold`."""

    @overload
    def tile(self, dims: _Sizes) -> Tensor:
        """`repeat`, but a number that is missing for a leading dimension counts as 1."""
    @overload
    def tile(self, *dims: _int) -> Tensor: ...
    @overload
    def to(
        self,
        dtype: _dtype,
        non_blocking: _bool = False,
        copy: _bool = False,
        *,
        memory_format: _memory_format | None = None,
    ) -> Tensor:
        """Convert to another dtype or device; returns this tensor itself if nothing changes."""
    @overload
    def to(
        self,
        device: _Device = None,
        dtype: _dtype | None = None,
        non_blocking: _bool = False,
        copy: _bool = False,
        *,
        memory_format: _memory_format | None = None,
    ) -> Tensor: ...
    @overload
    def to(
        self,
        other: Tensor,
        non_blocking: _bool = False,
        copy: _bool = False,
        *,
        memory_format: _memory_format | None = None,
    ) -> Tensor: ...
    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: Any = None) -> Any: ...
    def to_sparse(
        self,
        sparse_dim: _int | None = None,
        *,
        layout: _layout | None = None,
        blocksize: Any = None,
        dense_dim: Any = None,
    ) -> Tensor:
        """The sparse tensor of the elements that are not zero; with ``sparse_dim``, of the slices that are not."""

    def to_sparse_bsc(self, *args: Any, **kwargs: Any) -> Any: ...
    def to_sparse_bsr(self, *args: Any, **kwargs: Any) -> Any: ...
    def to_sparse_coo(self) -> Any: ...
    def to_sparse_csc(self, dense_dim: _int | None = None) -> Any:
        """The matrix in layout ``torch.sparse_csc``; itself if it is."""

    def to_sparse_csr(self, dense_dim: _int | None = None) -> Any:
        """The matrix in layout ``torch.sparse_csr``; itself if it is."""

    def tolist(self) -> Any:
        """The value as nested lists of Python numbers (a number for a 0-dim tensor)."""

    @overload
    def topk(self, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True) -> return_types.topk:
        """The ``k`` largest (or smallest) values along ``dim``, always sorted, and their indices."""
    @overload
    def topk(
        self, k: _int, *, axis: _int, largest: _bool = True, sorted: _bool = True
    ) -> return_types.topk: ...
    def trace(self) -> Tensor:
        """The sum of a matrix's diagonal."""

    def transpose(self, dim0: _int, dim1: _int) -> Tensor:
        """Swap two dimensions."""

    def transpose_(self, dim0: _int, dim1: _int) -> Self:
        """In-place version of `transpose`."""

    def triangular_solve(
        self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False
    ) -> return_types.triangular_solve:
        """The solution X of ``A X = input`` with a triangular A, and a copy of A."""

    def tril(self, diagonal: _int = 0) -> Tensor:
        """The lower triangle up to ``diagonal``, with zeros above it."""

    def tril_(self, diagonal: _int = 0) -> Self:
        """In-place version of `tril`."""

    def triu(self, diagonal: _int = 0) -> Tensor:
        """The upper triangle from ``diagonal`` on, with zeros below it."""

    def triu_(self, diagonal: _int = 0) -> Self:
        """In-place version of `triu`."""

    def true_divide(self, other: Tensor | _Number) -> Tensor:
        """``input / other`` as a float."""

    def true_divide_(self, other: Tensor | _Number) -> Self:
        """In-place version of `true_divide`."""

    def trunc(self) -> Tensor:
        """Round towards zero."""

    def trunc_(self) -> Self:
        """In-place version of `trunc`."""

    @overload
    def type(self, dtype: None = None, non_blocking: _bool = False) -> _str:
        """Return the legacy type name, or convert to another dtype."""
    @overload
    def type(self, dtype: _dtype | _str | _type[Any], non_blocking: _bool = False) -> Tensor: ...
    def type_as(self, other: Tensor) -> Tensor:
        """Convert to the dtype and device of ``other``."""

    def unbind(self, dim: _int = 0) -> tuple[Tensor, ...]:
        """Views of all slices along ``dim``, without that dimension."""

    def unflatten(self, dim: _int, sizes: Sequence[_int]) -> Tensor:
        """Split dimension ``dim`` into dimensions of ``sizes``, one of which may be -1."""

    def unfold(self, dimension: _int, size: _int, step: _int) -> Tensor:
        """A view of windows of ``size`` elements, ``step`` apart, along a dimension; each is in the last dimension."""

    def uniform_(self, from_: _float = 0, /, to: _float = 1, *, generator: Generator | None = None) -> Self:
        """Fill with uniform numbers in [``from``, ``to``), by default [0, 1)."""

    def unique(
        self,
        sorted: _bool = True,
        return_inverse: _bool = False,
        return_counts: _bool = False,
        dim: _int | None = None,
    ) -> Any:
        """The distinct values, or the distinct slices along ``dim``; always sorted."""

    def unique_consecutive(
        self, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None
    ) -> Any:
        """The values, with each run of equal neighbours reduced to one."""

    def unsafe_chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """`chunk`, whose parts autograd lets you change in place."""

    def unsafe_split(self, split_size: _Sizes, dim: _int = 0) -> tuple[Tensor, ...]:
        """`split`, whose parts autograd lets you change in place."""

    def unsafe_split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """`split_with_sizes`, whose parts autograd lets you change in place."""

    @overload
    def unsqueeze(self, dim: _int) -> Tensor:
        """Insert a dimension of size 1 at position ``dim``."""
    @overload
    def unsqueeze(self, *, axis: _int) -> Tensor: ...
    @overload
    def unsqueeze_(self, dim: _int) -> Self:
        """In-place version of `unsqueeze`."""
    @overload
    def unsqueeze_(self, *, axis: _int) -> Self: ...
    def untyped_storage(self) -> Any:
        """The memory that holds the value, as bytes. It is the same object as long as somebody holds it."""

    def values(self) -> Any: ...
    @overload
    def var(
        self,
        dim: _Sizes | None = None,
        unbiased: _bool | None = None,
        keepdim: _bool = False,
        *,
        correction: _float | None = None,
    ) -> Tensor:
        """The variance over ``dim``; its divisor is ``count - correction``, and ``correction`` is 1 by default."""
    @overload
    def var(
        self,
        *,
        axis: _Sizes | None,
        unbiased: _bool | None = None,
        keepdims: _bool = False,
        correction: _float | None = None,
    ) -> Tensor: ...
    def vdot(self, other: Tensor) -> Tensor:
        """The inner product of two vectors, the first one conjugated."""

    @overload
    def view(self, dtype: _dtype) -> Tensor:
        """A view in another shape, or of the same bytes as another ``dtype``; it shares the Storage."""
    @overload
    def view(self, size: Sequence[_int]) -> Tensor: ...
    @overload
    def view(self, *size: _int) -> Tensor: ...
    def view_as(self, other: Tensor) -> Tensor:
        """`view` in the shape of ``other``."""

    def vsplit(
        self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
    ) -> tuple[Tensor, ...]:
        """`tensor_split` along dimension 0; a number must divide it."""

    def where(self, condition: Tensor, other: Tensor | _Number) -> Tensor:
        """This tensor where ``condition`` is True, else ``other``."""

    def xlogy(self, other: Tensor | _Number) -> Tensor:
        """``input * log(other)``; 0 where ``input`` is 0, unless ``other`` is NaN."""

    def xlogy_(self, other: Tensor | _Number) -> Self:
        """In-place version of `xlogy`."""

    def zero_(self) -> Self:
        """Fill with zeros, in place."""

def bare(cls: _type[Any]) -> Any: ...
def wrap(value: Any) -> Tensor: ...
