"""`Parameter` and `Buffer`, tensors that a `Module` registers on assignment, and their uninitialized forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._array import placed, tracing
from .._base import inside
from .._tensor.creation import empty
from .._tensor.overriding import WithoutAll, disabled, is_overriding
from .._tensor.tensor import Tensor, View, bare

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class _ParameterType(type):
    """Makes `isinstance` accept tensors of a subclass that are marked as parameters."""

    def __instancecheck__(cls, instance: Any) -> bool:
        marked = cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)
        return marked or super().__instancecheck__(instance)


class Parameter(Tensor, metaclass=_ParameterType):
    """A trainable Tensor: assigned to an attribute of a module, it becomes one of `Module.parameters()`.

    Args:
        data: the tensor; the parameter shares its Storage. For a Tensor subclass the result keeps that class, and
            ``isinstance(result, Parameter)`` is True.
        requires_grad: whether the parameter requires a gradient.

    Raises:
        RuntimeError: for an integer or bool tensor, unless ``requires_grad=False``; for a subclass whose ``detach()``
            returns another class.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.Parameter(torch.ones(2))
        Parameter containing:
        tensor([1., 1.], requires_grad=True)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Parameter.html
    """

    __torch_function__ = disabled  # type: ignore[assignment]
    _is_param = True

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        kind = type(data)
        if (
            kind is not Tensor
            and data is not None
            and (is_overriding(kind) or getattr(kind, "_sparse", False))
        ):
            return _marked(data, requires_grad)
        with WithoutAll():
            if data is None:
                data = empty(0)
            # what is no tensor lacks `detach`, as PyTorch's error says
            return cls._of(data._alias() if isinstance(data, Tensor) else data.detach(), requires_grad)

    @classmethod
    def _of(cls, data: Tensor, requires_grad: bool) -> Parameter:
        if requires_grad and not (data.is_floating_point() or data.is_complex()):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        self = bare(cls)
        self._storage, self._view = data._storage, data._view
        if requires_grad:
            data._check_requires_grad()
        self._requires_grad = bool(requires_grad)
        if tracing.in_jax():
            inside.note_handle(self)
        if tracing.overlay and not tracing.overlay.transforms:
            tracing.overlay.note_made(self)
        return self  # type: ignore[return-value]

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """Copy the values, but not the gradient, hooks and attributes, as in PyTorch."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(
                Tensor._wrap(placed.like(self._storage, self._value)), self.requires_grad
            )
        return memo[id(self)]

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Parameter containing:\n{super().__repr__()}"


def _marked(data: Any, requires_grad: bool) -> Any:
    """A tensor of a subclass, marked as a parameter."""
    made = data.detach().requires_grad_(requires_grad)
    kind = type(data).__name__
    if type(made) is not type(data):
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {kind} requires that detach() returns an instance of the "
            f"same type, but return type {type(made).__name__} was found instead. To use the type as a Parameter, "
            f"please correct the detach() semantics defined by its __torch_dispatch__() implementation."
        )
    made._is_param = True
    return made


class _BufferType(type):
    """Makes `isinstance` accept tensors that are marked as buffers."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(metaclass=_BufferType):
    """A Tensor of non-trainable state: assigned to an attribute of a module, it becomes one of `Module.buffers()`.

    Args:
        data: the tensor; the buffer shares its Storage.
        persistent: whether it is part of `Module.state_dict()`.

    Example:
        >>> import functorch_port as torch
        >>> isinstance(torch.nn.Buffer(torch.ones(2)), torch.nn.Buffer)
        True

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.Buffer.html
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Tensor:
        data = empty(0) if data is None else data
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


class _NotYet(View):
    """The view of an uninitialized tensor: any access to its value raises."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def _refuse(self, *_: Any) -> Any:
        raise ValueError(
            f"Attempted to use an uninitialized parameter. This error happens when you are using a `LazyModule` or "
            f"explicitly manipulating `torch.nn.parameter.{self.kind}` objects. When using LazyModules Call `forward` "
            f"with a dummy batch to initialize the parameters before calling torch functions"
        )

    get = look = peek = aval = host = put = layout = chain = is_traced = _refuse  # type: ignore[assignment]


def _converted(name: str) -> Callable[..., Any]:
    """A Tensor method that casts or moves, for uninitialized tensors: the result is uninitialized too."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        data = getattr(self.data, name)(*args, **kwargs)
        return type(self)(self._requires_grad, data.device, data.dtype)

    method.__name__ = name
    return method


class UninitializedTensorMixin:
    """The methods of uninitialized tensors: casts, moves, and `materialize`, which sets the shape."""

    cls_to_become: type[Tensor]
    _storage: Any
    _view: Any

    def _start(self, data: Tensor) -> None:
        self._storage, self._view = data._storage, _NotYet(type(self).__name__)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the tensor a shape; it becomes an ordinary Parameter or Tensor with arbitrary values.

        Args:
            shape: the shape.
            device: the device; default: unchanged.
            dtype: the dtype; default: unchanged.
        """
        made = empty(
            shape,
            device=self.data.device if device is None else device,
            dtype=self.data.dtype if dtype is None else dtype,
        )
        self._storage, self._view = made._storage, None
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        tracing.bump_epoch()

    @property
    def data(self) -> Tensor:
        """An empty tensor with the tensor's dtype and device."""
        made = bare(Tensor)
        made._storage = self._storage
        return made

    @data.setter
    def data(self, other: Tensor) -> None:
        self._storage = other._storage
        tracing.bump_epoch()

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def size(self, dim: int | None = None) -> Any:
        """The size of `data`, which is empty."""
        return self.data.size(dim)

    for _name in ("half", "float", "double", "char", "short", "int", "long", "bfloat16", "cuda", "cpu", "to"):
        locals()[_name] = _converted(_name)
    del _name

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        requires_grad = self._requires_grad  # type: ignore[attr-defined]
        return type(self), (requires_grad, self.data.device, self.dtype)


def is_lazy(param: Any) -> bool:
    """Whether `param` is an `UninitializedParameter` or an `UninitializedBuffer`."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter whose shape is not known yet, as in lazy modules before the first call.

    Args:
        requires_grad: whether the parameter requires a gradient.
        device, dtype: of the parameter.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.UninitializedParameter()
        >>> w
        <UninitializedParameter>
        >>> w.materialize((2, 3))
        >>> w.size()
        torch.Size([2, 3])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.UninitializedParameter.html
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        data = empty(0, device=device, dtype=dtype)
        self = super().__new__(cls, data, requires_grad)
        self._start(data)
        return self  # type: ignore[return-value]

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self._requires_grad, self.data.device, self.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc]
    """A buffer whose shape is not known yet.

    Args:
        requires_grad: whether the buffer requires a gradient.
        device, dtype: of the buffer.
        persistent: whether it is part of `Module.state_dict()`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.parameter.UninitializedBuffer.html
    """

    cls_to_become = Tensor
    __torch_function__ = disabled  # type: ignore[assignment]

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        self: Any = bare(cls)
        self._start(empty(0, device=device, dtype=dtype))
        self._requires_grad = bool(requires_grad)
        self.persistent, self._is_buffer = persistent, True
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedBuffer:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self._requires_grad, self.data.device, self.dtype, self.persistent)
        return memo[id(self)]
