"""Devices: PyTorch's `device` objects, and which JAX device each one means."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import jax

__all__ = [
    "current_device", "device", "from_jax", "get_default_device", "platform", "set_default_device", "to_jax",
]  # fmt: skip

_TORCH_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla",
    "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip
_TYPES = (*_TORCH_TYPES, "tpu")
_SYNONYMS = {"gpu": "cuda"}
_JAX_PLATFORMS = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu"}
_SIGNATURES = " * (torch.device device)\n{} * (str type, int index = -1)\n"


@cache
def platform() -> str:
    """What JAX computes on if it is not told: ``"cpu"``, ``"gpu"`` or ``"tpu"``.

    To ask it starts JAX, unless it is configured to have the CPU alone.
    """
    return "cpu" if jax.config.jax_platforms == "cpu" else jax.default_backend()


class device:
    """Where a tensor lives: a device type and, where it matters, an index.

    ``"cpu"`` and ``"meta"`` are as in PyTorch, ``"cuda"`` (or ``"gpu"``) is JAX's GPU, ``"tpu"`` its TPU.
    The other types that PyTorch knows can be named but hold no tensors. As a context manager it sets where
    factory functions put new tensors.

    Args:
        type: ``"cuda"``, ``"cuda:1"``, another device, or an index of the accelerator in use.
        index: the device's number, when ``type`` names none.

    Raises:
        RuntimeError: for a string that is not a device.

    Example:
        >>> import functorch_port as torch
        >>> torch.device("cuda", 1)
        device(type='cuda', index=1)

    Reference:
        https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.device
    """

    __slots__ = ("_index", "_type")

    _type: str
    _index: int | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._type, self._index = _parse_arguments(*args, **kwargs)

    @property
    def type(self) -> str:
        """The device type: ``"cpu"``, ``"cuda"``, ``"tpu"``, ``"meta"``."""
        return self._type

    @property
    def index(self) -> int | None:
        """The device's number, or None."""
        return self._index

    def __repr__(self) -> str:
        return f"device(type='{self._type}'" + ("" if self._index is None else f", index={self._index}") + ")"

    def __str__(self) -> str:
        return self._type if self._index is None else f"{self._type}:{self._index}"

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, device):
            return NotImplemented
        return self._type == other._type and self._index == other._index

    def __hash__(self) -> int:
        return hash((self._type, self._index))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, ((self._type,) if self._index is None else (self._type, self._index))

    def __enter__(self) -> device:
        _state.stack.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _state.stack.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def on_this_device(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return on_this_device


def _parse_arguments(*args: Any, **kwargs: Any) -> tuple[str, int | None]:
    given = dict(zip(("type", "index"), args, strict=False)) | kwargs
    if "device" in given:
        given["type"] = given.pop("device")
    kind = given.get("type")
    known = len(args) <= 2 and set(given) <= {"type", "index"}
    if not known or not isinstance(kind, (str, int, device)) or isinstance(kind, bool):
        raise TypeError(_bad_arguments(args, kwargs))
    if isinstance(kind, device):
        return kind.type, kind.index
    if isinstance(kind, int):
        index = _checked_index(kind)
        return _accelerator_type(), index
    name, own_index = _parse_string(kind)
    if given.get("index") is None:
        return name, own_index
    if own_index is not None:
        raise RuntimeError(
            f"type (string) must not include an index because index was passed explicitly: {kind}"
        )
    return name, _checked_index(given["index"])


def _bad_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    names = [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
    why = (
        f"      didn't match because some of the arguments have invalid types: (!{names[0]}!)\n"
        if names
        else ""
    )
    return (
        f"device() received an invalid combination of arguments - got ({', '.join(names)}), "
        "but expected one of:\n" + _SIGNATURES.format(why if len(names) == 1 else "")
    )


def _checked_index(index: Any) -> int:
    if isinstance(index, bool) or not isinstance(index, int):
        raise TypeError(f"device(): argument 'index' (position 2) must be int, not {type(index).__name__}")
    if index < 0:
        raise RuntimeError("Device index must not be negative")
    return index


@cache
def _parse_string(text: str) -> tuple[str, int | None]:
    if not text:
        raise RuntimeError("Device string must not be empty")
    name, colon, digits = text.partition(":")
    name = _SYNONYMS.get(name, name)
    if name not in _TYPES:
        raise RuntimeError(
            f"Expected one of {', '.join(_TORCH_TYPES)} device type at start of device string: {name}. "
            "(This package also takes gpu and tpu.)"
        )
    if not colon:
        return name, None
    if not (digits.isascii() and digits.isdigit()) or (len(digits) > 1 and digits[0] == "0"):
        raise RuntimeError(f"Invalid device string: '{text}'")
    return name, int(digits)


def _accelerator_type() -> str:
    """The device type of JAX's default backend, for a device given by a bare number."""
    name = device_type_of_platform(platform())
    if name == "cpu":
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return name


def device_type_of_platform(platform: str) -> str:
    """PyTorch's name for a JAX platform."""
    return "cuda" if platform in ("gpu", "cuda", "rocm") else platform


def as_device(value: Any, where: str = "device") -> device:
    """A device from what users pass as ``device=``: a device, a string or a number."""
    if isinstance(value, device):
        return value
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise TypeError(f"{where}(): argument 'device' must be torch.device, not {type(value).__name__}")
    return device(value)


@cache
def to_jax(where: device) -> jax.Device:
    """The JAX device that ``where`` means.

    Raises:
        RuntimeError: if there is no such device; NotImplementedError for types JAX does not have.
    """
    if where.type == "meta":
        raise RuntimeError("the meta device holds shapes and no data, so it is no JAX device")
    if where.type not in _JAX_PLATFORMS:
        raise NotImplementedError(
            f"device type {where.type!r} has no JAX backend; use cpu, cuda, tpu or meta"
        )
    devices = numbered(where.type)
    if not where.index:
        return next(iter(devices.values()))
    if where.index in devices:
        return devices[where.index]
    have = f"JAX has {len(devices)} {where.type} here"
    if is_own(where.type):
        have = f"this process has {where.type}:{next(iter(devices))} alone, that of its LOCAL_RANK"
    raise RuntimeError(f"invalid device ordinal: {where} was asked for, and {have}")


def local_rank() -> int | None:
    """The number of this process where several share a machine, as torchrun and the launcher say; else None."""
    if int(os.environ.get("LOCAL_WORLD_SIZE", "1")) == 1:
        return None
    return int(os.environ.get("LOCAL_RANK", "0"))


@cache
def is_own(kind: str) -> bool:
    """Whether this process has one accelerator of several on its machine, as the processes of torchrun do."""
    alone = kind != "cpu" and local_rank() is not None and jax.process_count() > 1
    return alone and len(_local_devices(kind)) == 1


@cache
def numbered(kind: str) -> dict[int, jax.Device]:
    """The devices of a type that this process has, by number: from 0, or the local rank of one that `is_own`."""
    found = _local_devices(kind)
    return {local_rank() or 0: found[0]} if is_own(kind) else dict(enumerate(found))


def count(kind: str) -> int:
    """The number of devices of a type, of this process or its machine; 0 if JAX has no such backend."""
    try:
        found = numbered(kind)
    except (AssertionError, RuntimeError):
        return 0
    return int(os.environ["LOCAL_WORLD_SIZE"]) if is_own(kind) else len(found)


def is_only(where: jax.Device) -> bool:
    """Whether JAX computes on this device, and there is no other."""
    return jax.device_count() == 1 and jax.devices()[0] == where


def _local_devices(kind: str) -> list[jax.Device]:
    try:
        return jax.local_devices(backend=_JAX_PLATFORMS[kind])
    except RuntimeError as error:
        if kind == "cuda":  # as PyTorch without CUDA
            raise AssertionError(
                f"Torch not compiled with CUDA enabled: JAX has no GPU here, it runs on {jax.default_backend()}"
            ) from None
        raise RuntimeError(
            f"No {kind.upper()} is available: JAX runs on {jax.default_backend()} ({error})"
        ) from None


@cache
def from_jax(where: jax.Device) -> device:
    """The device object of a JAX device. The first CPU device has no index, as PyTorch's CPU, and none has one that is
    described alone.
    """
    kind = device_type_of_platform(where.platform)
    try:
        siblings = [d for d in jax.devices(where.platform) if d.process_index == where.process_index]
    except RuntimeError:
        siblings = []
    if where not in siblings:
        return device(kind)
    own = where.process_index == jax.process_index()
    numbers = [*numbered(kind)] if own and kind in _JAX_PLATFORMS else range(len(siblings))
    index = numbers[siblings.index(where)]
    return device(kind) if kind == "cpu" and index == 0 else device(kind, index)


class _State(threading.local):
    """The calling thread's ``with`` blocks, the innermost last, and the default that it has set."""

    default: device | None = None

    def __init__(self) -> None:
        self.stack: list[device] = []


_state = _State()


def current_device() -> device | None:
    """Where new tensors go: the innermost ``with`` block, the default set, or None (JAX's choice)."""
    stack = _state.stack
    return stack[-1] if stack else _state.default


def _jax_default() -> device:
    """Where JAX puts new arrays."""
    chosen = jax.config.jax_default_device
    if isinstance(chosen, jax.Device):
        return from_jax(chosen)
    return from_jax(jax.local_devices(backend=chosen)[0])


def get_default_device() -> device:
    """The device that factory functions use when told none: JAX's own choice, where nothing else is set.

    Example:
        >>> import functorch_port as torch
        >>> with torch.device("meta"):
        ...     torch.get_default_device()
        device(type='meta')

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.get_default_device.html
    """
    return current_device() or _jax_default()


def set_default_device(device: Any) -> None:
    """Set the device that factory functions use when told none.

    Args:
        device: a device, a string, a number, or None to go back to the start.

    Example:
        >>> import functorch_port as torch
        >>> torch.set_default_device("cpu")
        >>> torch.set_default_device(None)

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.set_default_device.html
    """
    _state.default = None if device is None else as_device(device, "set_default_device")
