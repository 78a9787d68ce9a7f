"""`autocast`: run matrix products and convolutions in lower precision, and sensitive operations in float32."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .._base import contexts, dtypes
from .._base.device import device as Device
from .._run import autocast as lists
from .._tensor.tensor import Tensor
from ..accelerator import jax_devices

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_SUPPORTED = (dtypes.bfloat16, dtypes.float16)


class autocast:
    """Context manager and decorator for automatic mixed precision.

    Matrix products, convolutions and attention run in ``dtype``; losses and other sensitive operations run in
    float32; the rest runs in the dtype of its inputs. float64 tensors are not cast. As in PyTorch, the CPU
    and the accelerators have different lists of operations, and the backward pass should run outside of the block
    (its operations use the dtypes of the forward pass).

    Args:
        device_type: the devices whose tensors are cast: ``"cpu"``, ``"cuda"`` or ``"tpu"``. PyTorch's other types with
            autocast are accepted, without effect. In a trace all tensors count as those of the devices that the program
            is for (see `compiler.for_platform`).
        dtype: bfloat16 or float16. Default: bfloat16 for CPU and TPU, float16 for CUDA.
        enabled: False turns autocast off within the block, also inside another one.
        cache_enabled: accepted, without effect; XLA merges the casts of a compiled program.

    Raises:
        ValueError: if ``device_type`` is not a string.
        RuntimeError: for a device type without autocast.

    Example:
        >>> import functorch_port as torch
        >>> a = torch.ones(2, 2)
        >>> with torch.autocast("cpu"):
        ...     b = a @ a
        >>> b.dtype
        torch.bfloat16

    Reference: https://docs.pytorch.org/docs/stable/amp.html#torch.autocast
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtypes.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        if enabled and device_type == "cuda" and not _may_compute("cuda"):
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2)
            enabled = False
        elif enabled and self.fast_dtype not in _SUPPORTED:
            name = device_type.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of {', '.join(map(str, _SUPPORTED))} currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._before: list[tuple[bool, Any]] = []

    def __enter__(self) -> autocast:
        if self._enabled and self.device == "tpu" and not _may_compute("tpu"):
            warnings.warn(
                "autocast('tpu') has no effect: no TPU is available. Trace a program for one under "
                "torch.compiler.for_platform('tpu').",
                stacklevel=2,
            )
        self._before.append(tuple(lists.setting(self.device)))  # type: ignore[arg-type]
        lists.switch(self.device, self._enabled, self.fast_dtype)
        return self

    def __exit__(self, *exc: object) -> None:
        lists.switch(self.device, *self._before.pop())

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. "
                "Did you mean to use autocast as a context manager? For example:\n"
                "    with torch.autocast(device_type=...):\n"
                "        output = model(input)"
            )

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return wrapper


def _may_compute(kind: str) -> bool:
    """Whether there are such devices, or what is traced now is for them."""
    return kind in (contexts.state.platform, lists.platform()) or bool(jax_devices(kind))


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` supports the device type, whether or not such a device exists."""
    return Device(device_type).type in lists.state.settings


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for tensors of a device type."""
    return lists.setting(device_type)[0]


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """The autocast dtype of a device type."""
    return lists.setting(device_type)[1]


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(
        f"torch.{name} is deprecated. Please use torch.{instead} instead.", DeprecationWarning, stacklevel=3
    )


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled` for the CPU; deprecated."""
    _deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype() -> dtypes.dtype:
    """`get_autocast_dtype` for the CPU; deprecated."""
    _deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> dtypes.dtype:
    """`get_autocast_dtype` for CUDA; deprecated."""
    _deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Turn autocast on or off until the next call; prefer the context manager `autocast`."""
    lists.switch(device_type, enabled)


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Set the autocast dtype of a device type."""
    lists.switch(device_type, lists.setting(device_type)[0], dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether PyTorch would cache the casts of weights; without effect here."""
    return lists.state.caches


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set the result of `is_autocast_cache_enabled`."""
    lists.state.caches = enabled


def clear_autocast_cache() -> None:
    """Does nothing: there is no cache of casts."""


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    """Casts the eligible tensors in nested containers."""
    if isinstance(value, Tensor):
        eligible = (
            value.is_floating_point()
            and lists.is_on(value, device_type)
            and value.dtype is not dtypes.float64
        )
        return value.to(dtype) if eligible else value  # type: ignore[attr-defined]
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and not hasattr(value, "dtype"):
        return (_cast(v, device_type, dtype) for v in value)
    return value


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorator for ``forward`` of an `autograd.Function` used under autocast.

    Args:
        fwd: the method.
        device_type: as in `autocast`.
        cast_inputs: where autocast is on, cast floating point inputs to this dtype and run ``forward`` with autocast
            off. Default: None, no change.

    Reference: https://docs.pytorch.org/docs/stable/amp.html#torch.amp.custom_fwd
    """
    _check_string(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        args[0]._dtype = get_autocast_dtype(device_type)
        on = is_autocast_enabled(device_type)
        if cast_inputs is None or not on:
            args[0]._fwd_used_autocast = on if cast_inputs is None else False
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        with autocast(device_type=device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorator for ``backward`` of an `autograd.Function`; it runs under the autocast state of ``forward``.

    Reference: https://docs.pytorch.org/docs/stable/amp.html#torch.amp.custom_bwd
    """
    _check_string(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type=device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return backward


def _check_string(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
