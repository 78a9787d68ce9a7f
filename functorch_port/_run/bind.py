"""Gives the registered ops their public forms: functions by namespace, `Tensor` methods, dunders, in-place twins."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from .._array.symbolic import SymNumber
from .._base import dtypes
from .._tensor.creation import tensor
from .._tensor.overriding import Public, copied, noticed, noticing, publish, published
from .._tensor.registered import function, functions
from .._tensor.tensor import Tensor
from . import inplace as _inplace_methods  # noqa: F401  (methods of Tensor)
from .call import Op, caller
from .registry import OpSpec, composites, ops

__all__ = ["bind", "function", "function_of", "namespaces", "publish_functions", "publish_methods"]

#: public functions by namespace token ("torch", "F", "linalg", "special", "fft")
namespaces: dict[str, dict[str, Callable[..., Any]]] = {}


def _publish(name: str, where: tuple[str, ...], fn: Callable[..., Any]) -> None:
    functions.setdefault(name, fn)
    for token in where:
        if token != "method":
            namespaces.setdefault(token, {})[name] = fn


def _inplace(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        try:
            self._check_inplace(*args, *kwargs.values(), name=name)
            return self._take(fn(self, *args, **kwargs))
        except TypeError:
            if not noticed(args, kwargs):
                raise
        return method(self, *args, **kwargs)  # it has other code now

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of `{fn.__name__}`."
    return method


def _compared_inplace(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form of a comparison, which PyTorch records with a gradient of zero."""

    def method(self: Tensor, other: Any) -> Tensor:
        self._check_inplace(other)
        out = fn(self, other)
        inputs = [x for x in (self, other) if isinstance(x, Tensor)]
        if any(x.requires_grad for x in inputs):
            node = f"{name[:-1].capitalize()}Backward{len(inputs) - 1}"
            out = function("_compared")(out.to(self.dtype), inputs, node)
        return self._take(out)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of `{fn.__name__}`."
    return method


def _unrecorded_inplace(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form of a logical operation, which leaves the history as it was, as in PyTorch."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        self._check_inplace(*args)
        return self._take(fn(self, *args, **kwargs), recorded=False)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place version of `{fn.__name__}`."
    return method


def _twin(name: str, spec: OpSpec, fn: Callable[..., Any]) -> Callable[..., Any]:
    if spec.name in ("eq", "ne", "lt", "le", "gt", "ge"):
        return _compared_inplace(f"{spec.name}_", fn)
    return (_unrecorded_inplace if spec.name.startswith("logical_") else _inplace)(name, fn)


#: in-place forms that PyTorch has as functions too, not only as methods
_INPLACE_FUNCTIONS = frozenset({
    "abs_", "acos_", "acosh_", "addmv_", "arccos_", "arccosh_", "arcsin_", "arcsinh_", "arctan_", "arctanh_", "asin_",
    "asinh_", "atan_", "atanh_", "ceil_", "celu_", "clamp_", "clamp_max_", "clamp_min_", "clip_", "conj_physical_",
    "cos_", "cosh_", "deg2rad_", "elu_", "erf_", "erfc_", "exp2_", "exp_", "expm1_", "fix_", "floor_", "frac_",
    "gcd_", "hardtanh_", "i0_", "lcm_", "ldexp_", "leaky_relu_", "log10_", "log1p_", "log2_", "log_", "logit_",
    "nan_to_num_", "neg_", "negative_", "rad2deg_", "reciprocal_", "relu_", "round_", "rsqrt_", "selu_", "sigmoid_",
    "sin_", "sinc_", "sinh_", "sqrt_", "square_", "tan_", "tanh_", "threshold_", "trunc_", "xlogy_",
})  # fmt: skip


_OPERANDS = (Tensor, int, float, complex, SymNumber)


def _dunder(name: str, fn: Callable[..., Any], swap: bool) -> Callable[..., Any]:
    def unary(self: Tensor) -> Any:
        return fn(self)

    def binary(self: Tensor, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            if noticed((other,)):
                return getattr(self, name)(other)
            self, other = beside(self, other, name)
            if other is NotImplemented:
                return other
        return fn(other, self) if swap else fn(self, other)

    chosen = unary if name in ("__neg__", "__pos__", "__abs__", "__invert__") else binary
    chosen.__name__ = chosen.__qualname__ = name
    return chosen


def beside(self: Tensor, other: Any, name: str) -> tuple[Tensor, Any]:
    """Numpy scalars and arrays and JAX arrays may stand beside a Tensor in an expression.

    PyTorch leaves an expression with an array of numpy's to numpy, so its result has the dtype that numpy gives.
    """
    if isinstance(other, np.ndarray):
        if self.dtype is dtypes.bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        kind = np.result_type(self.dtype.np, other.dtype)
        if kind.kind in "biu" and name in ("__truediv__", "__rtruediv__"):
            kind = np.dtype(np.float64)
        found = dtypes.from_np(kind)
        return self.to(found), tensor(other).to(found)  # type: ignore[attr-defined]
    if type(other).__module__ == "numpy" and hasattr(other, "dtype"):
        return self, other.item()
    is_array = hasattr(other, "__jax_array__") or type(other).__module__.startswith("jax")
    return self, tensor(other) if is_array else NotImplemented


def _inplace_dunder(dunder: str) -> str:
    return "__i" + dunder[2:]


def _bind_op(spec: OpSpec) -> None:
    op = Op(spec)
    call = op.call
    for name in spec.names:
        _publish(name, spec.where, op)
        if "method" in spec.where and name not in vars(Tensor):
            setattr(Tensor, name, caller(op, name))
        if spec.inplace:
            twin = _twin(f"{name}_", spec, op)
            setattr(Tensor, f"{name}_", twin)
            if f"{name}_" in _INPLACE_FUNCTIONS:
                _publish(f"{name}_", tuple({"torch", "F"} & {*spec.where}), twin)
    for dunder in spec.dunder:
        setattr(Tensor, dunder, _dunder(dunder, call, swap=False))
        if spec.inplace:
            setattr(Tensor, _inplace_dunder(dunder), _inplace(_inplace_dunder(dunder), op))
    for dunder in spec.rdunder:
        setattr(Tensor, dunder, _dunder(dunder, call, swap=True))


def function_of(module: str, **more: Any) -> Callable[[Callable[..., Any]], FunctionType]:
    """As `op`, for a pure function that is no name of PyTorch: it becomes a function of Tensors, and nothing else.

    Args:
        module: where users find it.
        more: the attributes of `OpSpec`, without ``where``.
    """

    def make(fn: Callable[..., Any]) -> FunctionType:
        return caller(Op(OpSpec(fn, (fn.__name__,), (), **more)), fn.__name__, module)

    return make


def bind() -> None:
    """Install everything that was registered."""
    for spec in ops.values():
        _bind_op(spec)
    for name, where, fn, dunders in composites:
        _publish(name, where, fn)
        for dunder in dunders:
            setattr(Tensor, dunder, _dunder(dunder, fn, swap=False))
        if "method" in where:
            setattr(Tensor, name, fn)
    for token, table in namespaces.items():
        if token != "F":
            publish_functions(table, "torch" if token == "torch" else f"torch.{token}")


# ------------------------------------------------ what `__torch_function__` hears of

#: functions of tensors that are nobody else's to decide
_OWN = frozenset({
    "broadcast_shapes", "from_dlpack", "from_jax", "from_numpy", "frombuffer", "handle_torch_function",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_storage", "is_tensor",
    "set_default_tensor_type", "typename",
})  # fmt: skip
#: functions whose arguments are not asked: modes are
_OF_DATA = frozenset({
    "arange", "as_tensor", "asarray", "empty", "eye", "full", "ones", "scalar_tensor", "tensor", "zeros",
})  # fmt: skip
#: functions that PyTorch has in `torch.functional`, in Python
_IN_PYTHON = frozenset({
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_tensors", "cartesian_prod", "cdist",
    "chain_matmul", "einsum", "lu", "meshgrid", "norm", "split", "stft", "tensordot", "unique", "unique_consecutive",
    "unravel_index",
})  # fmt: skip
#: functions of `torch.nn.functional` that PyTorch has in C
_IN_C = frozenset({
    "adaptive_avg_pool1d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear", "celu_", "channel_shuffle", "conv1d",
    "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity",
    "elu_", "gelu", "hardshrink", "hardtanh_", "leaky_relu_", "linear", "logsigmoid", "native_channel_shuffle",
    "one_hot", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "rrelu_",
    "scaled_dot_product_attention", "selu_", "softplus", "softshrink", "threshold_",
})  # fmt: skip
#: methods that PyTorch has in Python
_METHODS_IN_PYTHON = frozenset({
    "__array__", "__array_wrap__", "__contains__", "__deepcopy__", "__dir__", "__dlpack__", "__dlpack_device__",
    "__floordiv__", "__format__", "__ipow__", "__len__", "__pow__", "__rdiv__", "__reduce_ex__", "__repr__",
    "__reversed__", "__rfloordiv__", "__rlshift__", "__rmatmul__", "__rmod__", "__rpow__", "__rrshift__", "__rsub__",
    "__rtruediv__", "backward", "dim_order", "is_shared", "istft", "lu", "norm", "register_hook",
    "register_post_accumulate_grad_hook", "share_memory_", "split", "stft", "storage", "unflatten", "unique",
    "unique_consecutive",
})  # fmt: skip
#: methods that go by another one's name
_KNOWN_AS = {
    "__abs__": "abs", "__add__": "add", "__div__": "div", "__ge__": "ge", "__gt__": "gt", "__iadd__": "add_",
    "__idiv__": "div_", "__ifloordiv__": "floor_divide_", "__imod__": "remainder_", "__imul__": "mul_",
    "__isub__": "sub_", "__itruediv__": "div_", "__le__": "le", "__long__": "__int__", "__lt__": "lt",
    "__matmul__": "matmul", "__mod__": "remainder", "__mul__": "mul", "__ne__": "ne", "__neg__": "neg",
    "__nonzero__": "__bool__", "__pos__": "positive", "__radd__": "add", "__rand__": "bitwise_and",
    "__rdiv__": "__rtruediv__", "__rmul__": "mul", "__ror__": "bitwise_or", "__rxor__": "bitwise_xor",
    "__sub__": "sub", "__truediv__": "div",
}  # fmt: skip
#: methods that ask nobody
_UNASKED = frozenset({
    "__array_priority__", "__hash__", "__init__", "__init_subclass__", "__iter__", "__jax_array__", "__new__",
    "__torch_function__", "as_subclass", "jax",
})  # fmt: skip


def publish_functions(table: dict[str, Any], module: str) -> dict[str, Any]:
    """Give the functions of a namespace their public form, in which ``__torch_function__`` may override them."""
    home = module.replace("torch", "functorch_port", 1)
    for name, fn in table.items():
        if name.startswith("_") or name in _OWN or not isinstance(fn, Op | FunctionType):
            continue
        if module == "torch.nn.functional" and name in ("sigmoid", "tanh"):
            continue  # methods
        spelled = name in _IN_PYTHON if module == "torch" else module in ("torch.autograd", "torch.nn.init")
        path, label = f"{'torch.functional' if spelled and module == 'torch' else module}.{name}", ""
        if module == "torch.nn.functional":
            shared = namespaces["torch"].get(name)
            if isinstance(fn, Op) and shared is not None and shared.__wrapped__ is fn.__wrapped__:
                table[name] = shared
                known = published[shared]
                known.path, known.label = f"{module}.{name}", known.path
                continue
            spelled = name not in _IN_C
            label = f"torch.nn.{name}"
        elif module in ("torch.linalg", "torch.fft", "torch.special"):
            label = f"{module}.{module.removeprefix('torch.')}_{name}"
        asks = name not in _OF_DATA or module != "torch"
        made = (
            caller(fn, name, home) if isinstance(fn, Op) else (noticing if asks else copied)(fn, name, home)
        )
        table[name] = made
        if label:
            made.__name__ = label.rpartition(".")[2]
        publish(Public(made, made, path, spelled, asks=asks, label=label))
    return table


def publish_methods() -> None:
    """As `publish_functions`, for the methods and properties of `Tensor` that were not there before."""
    new = [
        (name, value)
        for name, value in vars(Tensor).items()
        if isinstance(value, FunctionType | property)
        and _methods.get(name) is not value
        and name not in _UNASKED
        and (not name.startswith("_") or name.startswith("__"))
    ]
    for name, value in new:
        if isinstance(value, FunctionType):
            setattr(Tensor, name, _method_of_its_own(name, value))
        _methods[name] = vars(Tensor)[name]
    for name, _ in new:
        value = _methods[name]
        if isinstance(value, FunctionType):
            known_as = _KNOWN_AS.get(name, name)
            spelled = name in _METHODS_IN_PYTHON
            code = inspect.unwrap(value).__code__
            alone = code.co_argcount == 1 and not (
                code.co_kwonlyargcount or code.co_flags & inspect.CO_VARARGS
            )
            operator = value.__code__.co_name == "binary" or name.strip("_") in (
                "matmul",
                "pow",
                "rmatmul",
                "rpow",
            )
            where = f"torch.Tensor.{known_as}"
            publish(
                Public(value, _methods[known_as], where, spelled, alone and not spelled, operator=operator)
            )
            continue
        ways = (value.fget, value.__get__), (value.fset, value.__set__), (value.fdel, value.__delete__)
        for part, given in ways:
            if part is not None:
                publish(Public(part, given, f"torch.Tensor.{name}.{given.__name__}", alone=True))


#: the methods and properties that are public, as `Tensor` has them
_methods: dict[str, Any] = {}


def _method_of_its_own(name: str, fn: FunctionType) -> FunctionType:
    others = [a for n, a in fn.__annotations__.items() if n != "return"][1:]
    if name in _TAKE_ANY:
        return noticing(fn, name, "functorch_port")
    if fn.__qualname__ == f"Tensor.{name}" or (fn.__name__ == name and fn.__code__.co_name in _MADE_HERE):
        return fn
    made = noticing if any("Tensor" in str(a) for a in others) else copied
    return made(fn, name, "functorch_port")


#: methods of several tensors whose annotations do not say so
_TAKE_ANY = frozenset({
    "__getitem__", "__ipow__", "__matmul__", "__pow__", "__rmatmul__", "__rpow__", "__setitem__", "copy_", "fill_",
    "index_put", "index_put_", "pow", "pow_", "where",
})  # fmt: skip
#: the code of methods that belong to nobody else
_MADE_HERE = frozenset({"binary", "call", "method", "unary"})


# ------------------------------------------------ what needs sparse tensors, which are imported then


def _of_sparse(name: str) -> Callable[..., Any]:
    """A method that `sparse` has, which takes this one's place when it is imported."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        from . import sparse  # noqa: F401

        return getattr(self, name)(*args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


def _sparse_coo_tensor(*args: Any, **kwargs: Any) -> Tensor:
    from .sparse import sparse_coo_tensor

    return sparse_coo_tensor(*args, **kwargs)


functions["sparse_coo_tensor"] = _sparse_coo_tensor
for _name in (
    "ccol_indices", "coalesce", "col_indices", "crow_indices", "dense_dim", "indices", "is_coalesced", "row_indices",
    "sparse_dim", "sparse_mask", "sparse_resize_", "to_dense", "to_sparse", "to_sparse_bsc", "to_sparse_bsr",
    "to_sparse_coo", "to_sparse_csc", "to_sparse_csr", "values",
):  # fmt: skip
    setattr(Tensor, _name, _of_sparse(_name))
