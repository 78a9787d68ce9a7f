"""`torch.nn.utils.rnn`: sequences of different lengths, padded to one tensor or packed without padding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._array import executor, tracing
from ..._array.fits import fits
from ..._base import dtypes
from ..._run.bind import function
from ..._tensor.creation import full
from ..._tensor.grad_mode import is_grad_enabled
from ..._tensor.tensor import Tensor, wrap
from ...ops.recurrent_stack import constant, host_integers

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence_(NamedTuple):
    """The fields of a `PackedSequence`."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def _maybe(value: Any, fn: Callable[[Any], Any]) -> Any:
    return None if value is None else fn(value)


class PackedSequence(PackedSequence_):
    """A batch of sequences without padding: the first steps of all sequences, then the second steps, and so on.

    The longest sequence comes first. Create one with `pack_padded_sequence` or `pack_sequence`; recurrent modules
    accept and return it.

    Args:
        data: (sum of lengths, ...).
        batch_sizes: the number of sequences at each step, int64.
        sorted_indices: the permutation that sorted the sequences, or None if they were sorted.
        unsorted_indices: its inverse.

    Example:
        >>> import functorch_port as torch
        >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])])
        >>> packed.data, packed.batch_sizes
        (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.PackedSequence.html
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Apply `Tensor.to` to the data and move the indices too; return `self` if nothing changes."""
        data = self.data.to(*args, **kwargs)  # type: ignore[attr-defined]
        if data is self.data:
            return self

        def moved(indices: Any) -> Any:
            return _maybe(indices, lambda t: t.to(data.device))

        return type(self)(data, self.batch_sizes, moved(self.sorted_indices), moved(self.unsorted_indices))

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move to a GPU."""
        return self.to(*args, **{"device": "cuda", **kwargs} if not args else kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move to the CPU."""
        return self.to(*args, **{"device": "cpu", **kwargs})

    def pin_memory(self) -> PackedSequence:
        """Return a copy; there is no pinned memory in JAX."""
        return type(self)(*self)

    def is_pinned(self) -> bool:
        """Always False; there is no pinned memory in JAX."""
        return False

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return self.data.device.type == "cuda"

    def double(self) -> PackedSequence:
        """Cast to float64."""
        return self.to(dtype=_dtype("float64"))

    def float(self) -> PackedSequence:
        """Cast to float32."""
        return self.to(dtype=_dtype("float32"))

    def half(self) -> PackedSequence:
        """Cast to float16."""
        return self.to(dtype=_dtype("float16"))

    def long(self) -> PackedSequence:
        """Cast to int64."""
        return self.to(dtype=_dtype("int64"))

    def int(self) -> PackedSequence:
        """Cast to int32."""
        return self.to(dtype=_dtype("int32"))

    def short(self) -> PackedSequence:
        """Cast to int16."""
        return self.to(dtype=_dtype("int16"))

    def char(self) -> PackedSequence:
        """Cast to int8."""
        return self.to(dtype=_dtype("int8"))

    def byte(self) -> PackedSequence:
        """Cast to uint8."""
        return self.to(dtype=_dtype("uint8"))


def _dtype(name: str) -> Any:
    return getattr(dtypes, name)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation; None for None."""
    if permutation is None:
        return None
    order = permutation._look()
    if isinstance(order, jax.core.Tracer):
        return function("argsort")(permutation)
    return constant(np.argsort(np.asarray(order))).to(permutation.device)  # type: ignore[attr-defined]


def _lengths(lengths: Any) -> np.ndarray[Any, Any]:
    """Lengths on the host, as int64."""
    if isinstance(lengths, Tensor):
        values = host_integers(lengths, "lengths in a Tensor").astype(np.int64)
    else:
        values = np.asarray(lengths).astype(np.int64)
    if values.ndim != 1:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {values.ndim}D cpu Long tensor"
        )
    return values


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences: remove the padding.

    Args:
        input: (T, N, ...), or (N, T, ...) with ``batch_first``.
        lengths: the lengths of the sequences, a list or an integer tensor; inside ``compile`` a list.
        batch_first: the batch is dimension 0 rather than 1.
        enforce_sorted: require the longest sequence first; False sorts the sequences and stores the permutation.

    Raises:
        RuntimeError: if lengths are not positive, not sorted, or do not match the input.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html
    """
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    sizes = _lengths(lengths)
    order = None
    if not enforce_sorted:
        order = np.argsort(-sizes, kind="stable")
        sizes = sizes[order]
    if input.ndim < 2:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-input.ndim}, 0], but got 1)")
    padded: Any = input.transpose(0, 1) if batch_first else input  # type: ignore[attr-defined]
    steps, n = padded.shape[:2]
    if len(sizes) != n:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={n})"
        )
    if sizes[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if np.any(np.diff(sizes) > 0):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    if sizes[0] > steps:
        raise RuntimeError(
            f"pack_padded_sequence: got a length of {sizes[0]}, but the padded sequences have only {steps} steps"
        )
    inside = np.arange(sizes[0])[:, None] < sizes
    columns = np.arange(n) if order is None else order
    rows = (np.arange(sizes[0])[:, None] * n + columns)[inside]
    data = padded.reshape(steps * n, *padded.shape[2:]).index_select(0, constant(rows))
    return PackedSequence(data, constant(inside.sum(1)), _maybe(order, constant))


def _spread(data: Any, rows: np.ndarray, inside: np.ndarray, padding_value: float) -> Tensor:
    """Gather the rows of ``data`` at a matrix of indices; the padding value where ``inside`` is False."""
    padded = data.index_select(0, constant(rows.reshape(-1))).reshape(*rows.shape, *data.shape[1:])
    keep: Any = constant(inside)
    filler = full((), padding_value, dtype=data.dtype, device=data.device)
    return function("where")(keep.bool().reshape(*rows.shape, *(1,) * (data.ndim - 1)), padded, filler)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Pad packed sequences to one length, in their original order, and return their lengths too.

    Args:
        sequence: the packed sequences.
        batch_first: put the batch in dimension 0 rather than 1.
        padding_value: the value of the padding.
        total_length: pad to this length instead of that of the longest sequence.

    Shape:
        (T, N, ...), or (N, T, ...) with ``batch_first``; and the lengths (N), int64.

    Raises:
        ValueError: if ``total_length`` is too small.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_packed_sequence.html
    """
    sizes = host_integers(sequence.batch_sizes, "the batch_sizes of a PackedSequence")
    longest, n = len(sizes), int(sizes[0])
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}"
        )
    inside = np.arange(n) < sizes[:, None]
    rows, lengths = np.where(inside, np.cumsum(inside).reshape(inside.shape) - 1, 0), inside.sum(0)
    more = 0 if total_length is None else total_length - longest
    rows, inside = np.pad(rows, ((0, more), (0, 0))), np.pad(inside, ((0, more), (0, 0)))
    if sequence.unsorted_indices is not None:
        order = host_integers(sequence.unsorted_indices, "the order of a PackedSequence")
        rows, inside, lengths = rows[:, order], inside[:, order], lengths[order]
    if batch_first:
        rows, inside = rows.T, inside.T
    return _spread(sequence.data, rows, inside, padding_value), constant(lengths)


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Pad sequences of different lengths and stack them in one tensor.

    Args:
        sequences: tensors (length, ...).
        batch_first: put the batch in dimension 0 rather than 1.
        padding_value: the value of the padding.
        padding_side: "right" or "left".

    Shape:
        (T, N, ...), or (N, T, ...) with ``batch_first``.

    Raises:
        RuntimeError: if there are no sequences, their sizes do not match, or the padding side is unknown.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.utils.rnn.pad_sequence([torch.tensor([1, 2]), torch.tensor([3])], batch_first=True)
        tensor([[1, 2],
                [3, 0]])

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    given = list(sequences)
    for i, x in enumerate(given):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(x).__name__}")
    if not given:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    if given[0].ndim == 0:
        raise RuntimeError("ArrayRef: invalid slice, N = 1; size = 0")
    for x in given:
        for d, (a, b) in enumerate(zip(given[0].shape[1:], x.shape[1:], strict=False), 1):
            if a != b:
                raise RuntimeError(
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension {d}"
                )
    fits(float(padding_value), given[0].dtype.np)
    sizes = np.array([len(x) for x in given])
    steps = int(sizes.max())
    starts = steps - sizes if padding_side == "left" else np.zeros_like(sizes)
    place = np.arange(steps) - starts[:, None]
    inside = (place >= 0) & (place < sizes[:, None])
    if not tracing.overlay and not (is_grad_enabled() and any(x.requires_grad for x in given)):
        fill = np.asarray(padding_value).astype(given[0].dtype.np)
        host = np.full((len(given), steps, *given[0].shape[1:]), fill)
        host[inside] = np.concatenate([np.asarray(x._look()) for x in given])
        with tracing.x64():
            return wrap(
                executor.current.place(host if batch_first else np.ascontiguousarray(host.swapaxes(0, 1)))
            )
    first = np.cumsum(sizes) - sizes
    rows = np.where(inside, first[:, None] + place, 0)
    if not batch_first:
        rows, inside = rows.T, inside.T
    return _spread(function("cat")([x.to(given[0].dtype) for x in given]), rows, inside, padding_value)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Split a padded tensor into a list of sequences: the inverse of `pad_sequence`.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.unpad_sequence.html
    """
    sizes = _lengths(lengths)
    padded = padded_sequences if batch_first else padded_sequences.transpose(0, 1)  # type: ignore[attr-defined]
    return [padded[i, : int(n)] for i, n in enumerate(sizes)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences, each (length, ...); see `pack_padded_sequence`.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_sequence.html
    """
    sizes = [x.size(0) for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), sizes, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Split packed sequences into a list: the inverse of `pack_sequence`.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.unpack_sequence.html
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
