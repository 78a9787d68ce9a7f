"""`Generator`: where random numbers come from.

A generator has two sources. Eagerly it is PyTorch's CPU stream (`_random.mersenne`): the same seed gives the
same numbers. Under `compile`, and for generators of an accelerator, it is a JAX key kept in a `Storage`, so
that it is state of the compiled program like any other.
"""

from __future__ import annotations

import math
import secrets
import struct
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import executor, tracing
from .._array.storage import Storage
from .._base import alive, inside, memory
from .._base import device as devices
from .._base.dtypes import dtype
from .._tensor.tensor import Tensor, wrap
from . import keyed, mersenne

__all__ = ["Generator", "HostDraw", "default_generator", "draw", "drawing"]

_SIZE_TEXT = "Expected a CPUGeneratorImplState of size {} but found the input RNG state size to be {}"


class Generator:
    """A stream of random numbers with a state of its own.

    Args:
        device: ``"cpu"`` reproduces PyTorch's CPU generator; an accelerator's generator draws from a JAX key.

    Example:
        >>> import functorch_port as torch
        >>> g = torch.Generator().manual_seed(0)
        >>> torch.rand(2, generator=g)
        tensor([0.4963, 0.7682])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.Generator.html
    """

    _key: Storage | None = None

    def __init__(self, device: Any = "cpu") -> None:
        self._start(device)
        if tracing.in_jax():
            inside.note(self)

    def _start(self, device: Any) -> None:
        self._device = devices.as_device(device, "Generator")
        if self._device.type == "meta":
            raise RuntimeError("META device type not an accelerator.")
        self.stream = mersenne.Stream()
        alive.generators.enter(self)

    @property
    def device(self) -> devices.device:
        """The device it was made for."""
        return self._device

    @property
    def keyed(self) -> bool:
        """Whether it draws from a JAX key in eager mode too."""
        return self._device.type != "cpu"

    # seeds

    def manual_seed(self, seed: int) -> Generator:
        """Start from a seed in [-2**63, 2**64); negative ones count from 2**64 down. Returns itself."""
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        self._reseed(unsigned_seed(int(seed)))
        return self

    def seed(self) -> int:
        """Start from a seed that the operating system draws; returns it."""
        self._reseed(secrets.randbits(64))
        return self.stream.seed

    def initial_seed(self) -> int:
        """The seed it started from."""
        return self.stream.seed

    def _reseed(self, seed: int) -> None:
        if tracing.overlay and tracing.overlay.rng == "torch" and not self.keyed:
            raise NotImplementedError(
                "manual_seed inside a function compiled with the torch random stream; seed before calling it"
            )
        if not tracing.overlay:
            self.may_move()
            self.stream.reseed(seed)
        if self._key is not None or tracing.overlay:
            self.key_storage.value = keyed.key_data(seed)

    def may_move(self) -> None:
        """Refuse to move the host's stream on where a transform of JAX would do so once for many calls."""
        if tracing.in_jax():
            inside.may_draw(self)

    # the JAX key

    @property
    def key_storage(self) -> Storage:
        """The Storage of the JAX key's data, made from the seed when first asked for."""
        if self._key is None:
            with tracing.outside():  # it belongs to the generator, and is state that a trace finds, not makes
                self._key = Storage(keyed.key_data(self.stream.seed))
        return self._key

    def split_key(self) -> jax.Array:
        """A fresh JAX key; the stored one moves on."""
        with tracing.turn:
            cell = self.key_storage
            cell.value, key = keyed.split(cell.value)
        return key

    # state

    def get_state(self) -> Tensor:
        """The state as a uint8 tensor.

        For a CPU generator it has PyTorch's layout, and PyTorch can load it. Inside a trace it is the key's
        data.
        """
        if tracing.overlay:
            return wrap(
                jax.lax.bitcast_convert_type(jnp.asarray(self.key_storage.value), np.uint8).reshape(-1)
            )
        key = self._key_bytes()
        if self.keyed:
            key = key or keyed.key_data(self.stream.seed).tobytes()
            return _bytes_tensor(struct.pack("<Q", self.stream.seed) + key)
        return _bytes_tensor(self.stream.state_bytes(key))

    def _key_bytes(self) -> bytes:
        """The key's data, if it has moved on from the seed's."""
        data = None if self._key is None else np.asarray(self._key.value)
        at_start = data is None or np.array_equal(data, keyed.key_data(self.stream.seed))
        return b"" if at_start else data.astype("<u4").tobytes()  # type: ignore[union-attr]

    def set_state(self, new_state: Tensor) -> None:
        """Take over a state that `get_state` (or PyTorch's) returned.

        Raises:
            TypeError: if it is not a uint8 tensor.
            RuntimeError: if it has the wrong size.
        """
        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        value = new_state._value
        if value.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if isinstance(value, jax.core.Tracer) or (tracing.overlay and value.size in (8, 16)):
            self.key_storage.value = jax.lax.bitcast_convert_type(value.reshape(-1, 4), np.uint32)
        else:
            self._load(np.asarray(value).tobytes())

    def _load(self, data: bytes) -> None:
        self.may_move()
        if self.keyed:
            if len(data) not in (16, 24):
                raise RuntimeError("RNG state is wrong size")
            self.stream.reseed(*struct.unpack_from("<Q", data))
            self.key_storage.value = np.frombuffer(data, "<u4", offset=8).astype(np.uint32)
            return
        if len(data) != mersenne.STATE_SIZE:
            raise RuntimeError(_SIZE_TEXT.format(mersenne.STATE_SIZE, len(data)))
        extra = self.stream.load_state_bytes(data)
        if any(extra):
            cell = self.key_storage
            width = 4 if any(extra[8:]) else 2
            cell.value = np.frombuffer(extra, "<u4", width).astype(np.uint32)
        elif self._key is not None:
            self._key.value = keyed.key_data(self.stream.seed)

    graphsafe_get_state = clone_state = lambda self: self.__deepcopy__({})

    def graphsafe_set_state(self, other: Generator) -> None:
        """Take over the state of another generator."""
        self.set_state(other.get_state())

    def get_offset(self) -> int:
        """CPU generators have no offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> None:
        """CPU generators have no offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def __deepcopy__(self, memo: dict[int, Any]) -> Generator:
        twin = Generator(self._device)
        twin._load(self.__getstate__())
        memo[id(self)] = twin
        return twin

    __copy__ = clone_state

    def __getstate__(self) -> bytes:
        with tracing.outside():
            return np.asarray(self.get_state()._value).tobytes()

    def __setstate__(self, state: bytes) -> None:
        self._load(state)

    def __reduce__(self) -> tuple[Any, ...]:
        return Generator, (str(self._device),), self.__getstate__()

    def __repr__(self) -> str:
        return f"<functorch_port.Generator device={self._device} seed={self.stream.seed}>"


#: Held while numbers are drawn from a stream: its state is read, and written.
drawing = threading.RLock()


def unsigned_seed(seed: int) -> int:
    """A seed in [0, 2**64); negative ones count from the top.

    Raises:
        ValueError: if it fits neither a signed nor an unsigned 64-bit integer.
    """
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError("Overflow when unpacking long long")
    return seed % (1 << 64)


def _bytes_tensor(data: bytes) -> Tensor:
    return wrap(jnp.asarray(np.frombuffer(data, np.uint8).copy()))


#: the generator that is used where none is given
default_generator = Generator.__new__(Generator)
default_generator._start("cpu")  # without a question to JAX, which takes 20 ms at the import


class HostDraw:
    """One draw from the host stream, to be made when called: what a trace with the torch stream records.

    Attributes:
        shape, dtype: of the numpy array that a call returns.
        generator: whose stream moves on.
        params: the distribution's parameters; those that are arrays must be known when it is called.
    """

    __slots__ = ("dtype", "generator", "kind", "params", "shape")

    def __init__(
        self, generator: Generator, kind: str, shape: tuple[int, ...], d: dtype, params: Any
    ) -> None:
        self.generator, self.kind, self.shape, self.dtype, self.params = generator, kind, shape, d, params

    @property
    def unknown(self) -> bool:
        """Whether a parameter is a tracer: how far the stream moves on depends on it."""
        return any(isinstance(p, jax.core.Tracer) for p in self.params.values())

    def __call__(self) -> np.ndarray[Any, Any]:
        with drawing:
            return self._draw()

    def _draw(self) -> np.ndarray[Any, Any]:
        method = getattr(self.generator.stream, self.kind)
        if self.kind == "permutation":  # one after the other
            rows = [method(self.shape[-1], self.dtype) for _ in range(math.prod(self.shape[:-1]))]
            return np.array(rows, self.dtype.np).reshape(self.shape)
        return method(math.prod(self.shape), self.dtype, **self.params).reshape(self.shape)


def draw(generator: Generator | None, kind: str, shape: tuple[int, ...], d: dtype, **params: Any) -> Any:
    """An array of random numbers.

    Args:
        generator: the source; None is the default generator.
        kind: a distribution, by its name in `mersenne.Stream` and `keyed`: "uniform", "normal", "integers",
            ...
        shape: the array's shape.
        d: its dtype.
        params: the distribution's parameters: numbers, or arrays of that shape.
    """
    if generator is None:
        generator = default_generator
    elif not isinstance(generator, Generator):
        raise TypeError(f"argument 'generator' must be torch.Generator, not {type(generator).__name__}")
    memory.room(shape, d.np)
    overlay = tracing.current()
    if not generator.keyed:
        host = HostDraw(generator, kind, shape, d, params)
        if overlay is None:
            generator.may_move()
            with tracing.x64():
                return executor.current.place(host())
        if overlay.rng == "torch":
            return overlay.host_draw(host)
    with tracing.x64():
        return keyed.draw(kind, generator.split_key(), shape, d, **params)
