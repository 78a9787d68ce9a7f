"""Operations on sparse tensors (``torch.sparse``)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ._base.dtypes import bool_ as _bool
from ._run.bind import function
from ._run.legacy import CLASSES as _OLD
from ._run.sparse import making as _making
from ._run.sparse.operations import added as _added
from ._run.sparse.operations import in_layout as _in_layout
from ._run.sparse.operations import masked_mm as _masked_mm
from ._run.sparse.operations import sum_over as _sum_over
from ._run.sparse.tensor import SparseTensor as _SparseTensor
from ._tensor.tensor import Tensor

__all__ = ["addmm", "check_sparse_tensor_invariants", "mm", "sum"]

_dense_mm = function("mm")


def mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The matrix product of a sparse and a dense matrix, or of two sparse ones.

    Args:
        mat1: (n, m), sparse or dense.
        mat2: (m, p), sparse or dense.

    Returns:
        A matrix (n, p), sparse if both are; differentiable in the entries of sparse matrices and in dense ones.

    Raises:
        RuntimeError: the shapes do not fit.
        IndexError: ``mat2`` is not a matrix.
    Example:
        >>> import functorch_port as torch
        >>> a = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
        >>> torch.sparse.mm(a, torch.ones(3, 2))
        tensor([[3., 3.],
                [4., 4.]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.sparse.mm.html
    """
    if mat2.dim() < 2:
        raise IndexError(f"Dimension out of range (expected to be in range of [-1, 0], but got {mat2.dim()})")
    if isinstance(mat1, _SparseTensor) or isinstance(mat2, _SparseTensor):
        return _in_layout("mm", _masked_mm, (mat1, mat2), {})  # type: ignore[no-any-return]
    return _dense_mm(mat1, mat2)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """``beta * mat + alpha * (mat1 @ mat2)`` with a sparse ``mat1``; differentiable as `mm`.

    Args:
        mat: dense, (n, p) or broadcastable to it.
        mat1: sparse, (n, m).
        mat2: dense, (m, p).
        beta, alpha: numbers.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.sparse.addmm.html
    """
    return _added(mat, mm(mat1, mat2), beta, alpha)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of a sparse tensor's elements.

    Args:
        input: sparse.
        dim: an int or a tuple of ints; None for all.
        dtype: the dtype of the result.

    Returns:
        Sparse and coalesced if sparse dimensions are left, else dense; differentiable in the values.

    Raises:
        RuntimeError: ``input`` is dense, or a dimension occurs twice.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.sparse.sum.html
    """
    if not isinstance(input, _SparseTensor):
        raise RuntimeError("coalesce expected sparse coordinate tensor layout but got Strided")
    if dim is None:
        return input._trim()._vals.sum(dtype=dtype)
    input = input if dtype is None else input.to(dtype)
    return _sum_over(input, (dim,) if isinstance(dim, int) else dim)


class check_sparse_tensor_invariants:
    """Sets whether `sparse_coo_tensor` checks ``is_coalesced`` by default; a context manager and a decorator.

    The indices are always checked.

    Args:
        enable: whether to check.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.sparse.check_sparse_tensor_invariants.html
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable

    @staticmethod
    def is_enabled() -> bool:
        """Whether the default is to check."""
        return _making.check_invariants_by_default

    @staticmethod
    def enable() -> None:
        """Check by default."""
        _making.check_invariants_by_default = True

    @staticmethod
    def disable() -> None:
        """Do not check by default."""
        _making.check_invariants_by_default = False

    def __enter__(self) -> None:
        self._before = self.is_enabled()
        _making.check_invariants_by_default = self.state

    def __exit__(self, *exception: Any) -> None:
        _making.check_invariants_by_default = self._before

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return wrapped


class _OldClass(type):
    """``torch.sparse.FloatTensor`` and its like: constructors and checks of the dtype, no classes of their own."""

    dtype: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _SparseTensor) and instance.dtype is cls.dtype

    def __call__(cls, *args: Any) -> Tensor:
        if args and isinstance(args[0], Tensor):  # indices, values and perhaps the size
            return _making.sparse_coo_tensor(*args)
        size = args if args and isinstance(args[0], int) else (args[0] if args else (0,))
        return _making.sparse_coo_tensor(tuple(size), dtype=cls.dtype)

    def __repr__(cls) -> str:
        return f"<class 'torch.sparse.{cls.__name__}'>"


for _name, _class in _OLD.items():
    if _class.dtype is not _bool:
        _members = {
            "dtype": _class.dtype,
            "__doc__": f"The old constructor of sparse {_class.dtype!r} tensors.",
        }
        globals()[_name] = _OldClass(_name, (), _members)
for _name in ("log_softmax", "sampled_addmm", "softmax", "spdiags", "spsolve"):
    globals()[_name] = _making.refused(f"sparse.{_name}")
