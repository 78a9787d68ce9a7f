"""``torch.library``: custom operators as Python functions, as they are in eager mode.

`custom_op` and `Library` make operators that can be called, also as ``torch.ops.<namespace>.<name>``, differentiated
and compiled. PyTorch's own operators are not registered, and functions that need its dispatcher raise
NotImplementedError.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any

from ._base.refused import refused_function
from .autograd import Function

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "get_kernel",
    "impl", "impl_abstract", "infer_schema", "register_autograd", "register_autocast", "register_fake",
    "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip


class CustomOpDef:
    """A custom operator, which can be called.

    Args:
        name: the qualified name, ``"namespace::name"``.
        fn: the implementation.
    """

    def __init__(self, name: str, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self._qualname = name
        self._fn = fn
        self._function: type[Function] | None = None
        self.default = self  # operators have no overloads here

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._function is None:
            return self._fn(*args, **kwargs)
        return self._function.apply(*args, *kwargs.values())

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Set the operator's gradient.

        Args:
            backward: ``backward(ctx, *grads)``, which returns a gradient for every argument.
            setup_context: ``setup_context(ctx, inputs, output)``, which saves on ``ctx`` what ``backward`` needs.
        """

        def remember(ctx: Any, inputs: Any, output: Any) -> None:
            if setup_context is not None:
                setup_context(ctx=ctx, inputs=inputs, output=output)

        members = {
            "forward": staticmethod(self._fn),
            "setup_context": staticmethod(remember),
            "backward": staticmethod(backward),
        }
        self._function = type(self._qualname.split("::")[-1], (Function,), members)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Return ``fn`` unchanged: shapes come from the operator itself."""
        return fn

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Not supported: the operator runs the same on every device.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"{self._qualname}: one implementation runs on all devices: write it with operations of this package"
        )

    def register_vmap(self, func: Any = None, /) -> Any:
        """Return ``func`` unchanged: `vmap` traces the operator itself."""
        return (lambda f: f) if func is None else func

    register_autocast = register_torch_dispatch = register_kernel


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str] = (),
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function a custom operator; also a decorator.

    Args:
        name: the qualified name, ``"namespace::name"``.
        fn: the function; without it, a decorator is returned.
        mutates_args, device_types, schema, tags: accepted, without effect.

    Example:
        >>> import functorch_port as torch
        >>> @torch.library.custom_op("mine::double", mutates_args=())
        ... def double(x: torch.Tensor) -> torch.Tensor:
        ...     return x * 2
        >>> double(torch.ones(2))
        tensor([2., 2.])

    Reference: https://docs.pytorch.org/docs/stable/library.html#torch.library.custom_op
    """
    if "::" not in name:
        raise ValueError(f"Expected `name` to be of the form `namespace::name`, got {name}")
    if fn is None:
        return lambda function: custom_op(name, function)
    space, _, short = name.partition("::")
    made = _namespaces.setdefault(space, {})[short] = CustomOpDef(name, fn)
    return made


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, **kwargs: Any) -> Any:
    """Return ``func`` unchanged, or a decorator that does: shapes come from the operators themselves."""
    return (lambda f: f) if func is None else func


impl_abstract = register_vmap = register_fake


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None
) -> None:
    """Set the gradient of an operator of `custom_op`; see `CustomOpDef.register_autograd`."""
    if isinstance(op, str):
        space, _, name = op.partition("::")
        op = getattr(OpNamespace(space), name)
    op.register_autograd(backward, setup_context=setup_context)


_WHY = (
    "PyTorch's operator registry and dispatcher do not exist here. Make the operator with torch.library.custom_op and "
    "call its result"
)


class Library:
    """A namespace of operators; those with an implementation are ``torch.ops.<ns>.<name>``.

    An implementation is a Python function that runs on every device. Of several implementations the first is used,
    unless a later one has the dispatch key "CompositeImplicitAutograd" or "CPU". Those for "Meta" and "Autograd" are
    ignored.

    Args:
        ns: the namespace.
        kind: "DEF", "IMPL" or "FRAGMENT".
        dispatch_key: the default dispatch key of the implementations.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns == "aten":
            raise NotImplementedError(f"torch.library.Library: {_WHY}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Return the name in ``schema``; operators need no declaration."""
        return schema.split("(")[0].split(".")[0]

    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False
    ) -> None:
        """Set an operator's implementation."""
        key = dispatch_key or self.dispatch_key
        name = str(op_name).split("::")[-1].split(".")[0]
        if key in ("Meta", "Autograd", "AutogradCPU", "AutogradCUDA"):
            return
        table = _namespaces.setdefault(self.ns, {})
        if name not in table or key in ("CompositeImplicitAutograd", "CPU"):
            table[name] = CustomOpDef(f"{self.ns}::{name}", fn)

    def _destroy(self) -> None:
        """Does nothing."""


#: modules with operators in place of those of a compiled library, by the end of its path without the suffix; each has
#: a function `register`
replacements: dict[str, str] = {}

#: namespace -> name -> operator
_namespaces: dict[str, dict[str, CustomOpDef]] = {}


class OpOverload:
    """One form of an operator of PyTorch's: the public function, which finds the form by the arguments.

    Args:
        packet: the operator.
        overload: the name of the form, such as "Tensor".
    """

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self.overloadpacket, self._overloadname = packet, overload
        self.__name__ = f"{packet.__name__}.{overload}"
        self.namespace = packet.namespace

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.overloadpacket(*args, **kwargs)

    def name(self) -> str:
        """As "aten::add.Tensor"; the form "default" is left out."""
        end = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.namespace}::{self.overloadpacket.__name__}{end}"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self.overloadpacket.__name__}', overload='{self._overloadname}')>"


class OpOverloadPacket:
    """An operator of PyTorch's, which calls the public function; its forms are attributes.

    Args:
        namespace: "aten".
        name: of the operator.
        fn: the function of ``torch``, or the method of tensors.
    """

    def __init__(self, namespace: str, name: str, fn: Callable[..., Any]) -> None:
        self.namespace, self.__name__, self._fn = namespace, name, fn
        self._forms: dict[str, OpOverload] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._fn(*args, **kwargs)

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._forms.setdefault(name, OpOverload(self, name))

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"


def _to_copy(
    self: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Any:
    kind = {} if memory_format is None else {"memory_format": memory_format}
    return self.to(device=device, dtype=dtype, non_blocking=non_blocking, copy=True, **kind)


def _index(self: Any, indices: Any) -> Any:
    return self[tuple(slice(None) if index is None else index for index in indices)]


def _slice(self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return self[(slice(None),) * (dim % self.ndim) + (slice(start, end, step),)]


def _functional() -> Any:
    return importlib.import_module(f"{__package__}.nn.functional")


def _padding(mode: str, dims: int) -> Callable[..., Any]:
    def pad(self: Any, padding: Any) -> Any:
        widths = (padding,) * 2 * dims if isinstance(padding, int) else tuple(padding)
        if len(widths) != 2 * dims:
            got = f", but got: {len(widths)}" if mode == "reflect" else ""
            raise RuntimeError(f"padding size is expected to be {2 * dims}{got}")
        return _functional().pad(self, widths, mode)

    return pad


def _convolution(name: str, dims: int, wrong: str) -> Callable[..., Any]:
    def convolution(
        self: Any, weight: Any, kernel_size: Any, bias: Any = None, stride: Any = 1, padding: Any = 0
    ) -> Any:
        for what, value in (("kernel_size", kernel_size), ("stride", stride), ("padding", padding)):
            if not isinstance(value, int) and len(value) != dims:
                raise RuntimeError(wrong.format(what, len(value)))
        sizes = (kernel_size,) * dims if isinstance(kernel_size, int) else tuple(kernel_size)
        if sizes != tuple(weight.shape[2:]):
            raise RuntimeError(f"kernel_size is {sizes}, and the weight has the shape {tuple(weight.shape)}")
        return getattr(_functional(), name)(self, weight, bias, stride, padding)

    return convolution


#: operators that are functions of `nn.functional` with the same arguments
_FUNCTIONAL = frozenset({
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "gelu", "glu", "hardsigmoid", "hardswish",
    "hardtanh", "leaky_relu", "linear", "mish", "one_hot", "pad", "relu6", "scaled_dot_product_attention", "silu",
    "softplus", "softshrink",
})  # fmt: skip


#: operators that are nothing of these, and neither functions of torch nor methods of tensors
_NATIVE: dict[str, Callable[..., Any]] = {
    "_pin_memory": lambda self, device=None: self.pin_memory(device),
    "_to_copy": _to_copy,
    "alias": lambda self: self.view_as(self),
    "index": _index,
    "log_sigmoid": lambda self: _functional().logsigmoid(self),
    "slice": _slice,
    "slow_conv3d": _convolution("conv3d", 3, "It is expected {} equals to 3, but got size {}"),
    "thnn_conv2d": _convolution("conv2d", 2, "2D {} expected"),
    **{f"reflection_pad{n}d": _padding("reflect", n) for n in (1, 2, 3)},
    **{f"replication_pad{n}d": _padding("replicate", n) for n in (1, 2, 3)},
}


@functools.cache
def _of_pytorch(namespace: str, name: str) -> OpOverloadPacket | None:
    torch = importlib.import_module(__package__ or "")
    fn = _NATIVE.get(name) or getattr(torch, name, None) or getattr(torch.Tensor, name, None)
    if name in _FUNCTIONAL:
        fn = getattr(_functional(), name)
    if fn is None and name.startswith("_"):  # libraries have such operators in tables
        fn = refused_function(
            f"torch.ops.{namespace}.{name}", "it is a part of PyTorch: call a public function"
        )
    return OpOverloadPacket(namespace, name, fn) if callable(fn) and not isinstance(fn, type) else None


class OpNamespace:
    """The operators registered as ``torch.ops.<name>``.

    Args:
        name: the namespace.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found: Any = _namespaces.get(self._name, {}).get(name)
        if found is None and self._name in ("aten", "prims") and not name.startswith("__"):
            found = _of_pytorch(self._name, name)
        if found is None:
            raise AttributeError(
                f"torch.ops.{self._name}.{name}: no such operator. Of PyTorch's own operators those are here that are "
                "functions of torch or of torch.nn.functional with the same arguments, or methods of tensors. Compiled "
                "extensions cannot be loaded"
            )
        return found


fallthrough_kernel, get_ctx, get_kernel, infer_schema = (
    refused_function(f"torch.library.{n}", _WHY)
    for n in ("fallthrough_kernel", "get_ctx", "get_kernel", "infer_schema")
)


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Does nothing: operators need no declaration."""


def impl(qualname: str, types: Any, func: Callable[..., Any] | None = None, *, lib: Any = None) -> Any:
    """Set an operator's implementation, a Python function that runs on every device; also a decorator."""
    if func is None:
        return lambda f: impl(qualname, types, f)
    ns, _, name = qualname.partition("::")
    Library(ns, "IMPL").impl(name, func, "CPU" if types in ("cpu", "default") else "")
    return func


register_kernel, register_autocast, register_torch_dispatch, triton_op, wrap_triton = (
    refused_function(f"torch.library.{n}", _WHY)
    for n in ("register_kernel", "register_autocast", "register_torch_dispatch", "triton_op", "wrap_triton")
)
