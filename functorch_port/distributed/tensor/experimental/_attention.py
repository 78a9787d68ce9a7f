"""`context_parallel`: attention of sequences that are split over devices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...._array import placed, tracing
from ...._base import contexts
from ...._run.bind import function
from ...._run.call import Op
from ...._run.registry import ops
from ...._tensor.grad_mode import no_grad
from ...._tensor.tensor import Tensor
from ...device_mesh import DeviceMesh, mesh_of
from .._api import check_alone, distribute_in_place, gathered, is_own, laid, whole
from ..placement_types import Replicate, Shard, sharding_for

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]

_ring, _randint = Op(ops["_ring_attention"]), function("randint")


@dataclass(frozen=True)
class _Attention:
    """What `scaled_dot_product_attention` does within `context_parallel`."""

    mesh: DeviceMesh

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Any,
        dropout_p: float,
        is_causal: bool,
        scale: float | None,
        enable_gqa: bool,
    ) -> Tensor:
        if attn_mask is not None:
            raise NotImplementedError(
                "scaled_dot_product_attention(attn_mask=) within context_parallel: only is_causal=True, or no mask"
            )
        (axis,), count = self.mesh.axes, self.mesh.size()
        for name, x in (("query", query), ("key", key)):
            if x.size(-2) % count:
                raise ValueError(
                    f"context_parallel: the sequence of the {name} has {x.size(-2)} elements, which {count} devices "
                    f"cannot share: pad it to a multiple of {count}"
                )
        own = is_own(query)
        query, key, value = (whole(x, self.mesh) for x in (query, key, value))
        seed = whole(_randint(0, 1 << 32, (2,)), self.mesh) if dropout_p > 0 else None
        how = self.mesh.jax_mesh, axis, bool(is_causal), scale, bool(enable_gqa), float(dropout_p)
        out = _ring.run((query, key, value, seed, *how), {})
        return gathered(out, self.mesh) if own else out


@contextmanager
def context_parallel(
    mesh: DeviceMesh,
    *,
    buffers: Sequence[Tensor] | None = None,
    buffer_seq_dims: Sequence[int] | None = None,
    no_restore_buffers: Collection[Tensor] | None = None,
) -> Iterator[None]:
    """``with context_parallel(mesh, ...):`` `scaled_dot_product_attention` is computed in a ring of devices.

    Each device has a part of the sequence: its queries meet the keys and values of all parts, which go round. The
    result is that of plain attention. Compute the backward pass within the context or after it.

    Args:
        mesh: a mesh of one dimension, as ``mesh["cp"]``.
        buffers: tensors that are split over the devices meanwhile; after it they are what they were before. A tensor
            here is the whole one all the time, and its order stays, so positions need not be among them.
        buffer_seq_dims: the dimension of each buffer that is the sequence.
        no_restore_buffers: buffers that stay as they are in the end.

    Raises:
        ValueError: there is not one dimension for each buffer, ``no_restore_buffers`` has others, the mesh has several
            dimensions, a sequence is not divisible, or a buffer is not the same in all of several processes.
        NotImplementedError: for attention with a mask, and for buffers in a compiled function.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.tensor.experimental import context_parallel
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
        >>> q = torch.randn(1, 2, 8, 4)
        >>> with context_parallel(mesh, buffers=[q], buffer_seq_dims=[2]):
        ...     torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).shape
        torch.Size([1, 2, 8, 4])

    Reference: https://docs.pytorch.org/tutorials/unstable/context_parallel.html
    """
    buffers = [] if buffers is None else [*buffers]
    dims = [] if buffer_seq_dims is None else [*buffer_seq_dims]
    kept = [] if no_restore_buffers is None else [*no_restore_buffers]
    if len(buffers) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    if not all(any(b is buffer for b in buffers) for buffer in kept):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    mesh = mesh_of(mesh)
    if mesh.ndim != 1:
        raise ValueError(
            f'context_parallel needs a mesh of one dimension, as mesh["cp"], not one of {mesh.ndim}'
        )
    if buffers and tracing.overlay:
        raise NotImplementedError(
            "context_parallel(buffers=) in a compiled function: enter the context around its call"
        )
    for buffer, dim in zip(buffers, dims, strict=True):
        placed.check(buffer.shape, sharding_for(mesh, [Shard(dim)], buffer.dim()))
        if is_own(buffer):
            check_alone(mesh)
            placed.agreed("a buffer of context_parallel", buffer._look())
    with no_grad():
        originals = [None if any(b is k for k in kept) else b.clone() for b in buffers]
        for buffer, dim in zip(buffers, dims, strict=True):
            distribute_in_place(buffer, mesh, [Shard(dim)], src_data_rank=None)
    try:
        with contexts.state.having(attention=_Attention(mesh)):
            yield
    finally:
        for buffer, original in zip(buffers, originals, strict=True):
            if original is not None:
                cell = buffer._storage
                tracing.bump_epoch()
                cell.held, cell.form = original._storage.held, None


def context_parallel_unshard(
    mesh: DeviceMesh, buffers: Sequence[Tensor], seq_dims: Sequence[int]
) -> list[Tensor]:
    """The tensors with the whole sequence on every device."""
    with no_grad():
        return [laid(buffer, mesh_of(mesh), Replicate()) for buffer in buffers]


def set_rotate_method(rotate_method: str) -> None:
    """How keys and values go round: ``"alltoall"``, from each device to the next one.

    Raises:
        NotImplementedError: for ``"allgather"``, which needs memory for the whole sequence, and other words.
    """
    if rotate_method != "alltoall":
        raise NotImplementedError(
            f'Context Parallel does not support using {rotate_method} for kv shards rotation: there is "alltoall"'
        )
