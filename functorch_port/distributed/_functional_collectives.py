"""Collectives between the parts of tensors: for functions that `local_map` runs on each part.

They are differentiable: gradients are those of the whole, as XLA transposes collectives. Outside of `local_map` a
tensor is the whole one, and there is nothing to exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._run.call import Op
from .._run.registry import ops
from .._tensor.creation import zeros
from .._tensor.tensor import Tensor
from .device_mesh import DeviceMesh, local_axes

__all__ = [
    "all_gather_single", "all_gather_single_autograd", "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce",
    "all_reduce_coalesced", "all_to_all_single", "all_to_all_single_autograd", "axis_index", "broadcast",
    "permute_tensor", "reduce_scatter_single", "reduce_scatter_single_autograd", "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd", "wait_tensor",
]  # fmt: skip

_ops = {
    name: Op(ops[f"_{name}"])
    for name in (
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "permute",
        "broadcast_from",
        "axis_index",
    )
}
_REDUCTIONS = ("sum", "avg", "max", "min", "product")


def _axis(group: Any, what: str) -> str:
    """The axis of JAX's mesh that a group stands for.

    Raises:
        NotImplementedError: this is outside of `local_map`.
        AssertionError, ValueError: the group is none.
    """
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        mesh, dim = group, 0
    elif isinstance(group, tuple):
        if not (len(group) == 2 and isinstance(group[0], DeviceMesh) and isinstance(group[1], int)):
            raise ValueError("Invalid tuple for group must be (DeviceMesh, int)")
        mesh, dim = group
    else:
        raise ValueError(
            "Invalid type for group, must be one of List, Processgroup, DeviceMesh or (DeviceMesh, int)."
            " Here it is a DeviceMesh or (DeviceMesh, int)."
        )
    axis = mesh.axes[dim]
    if axis not in local_axes():
        raise NotImplementedError(
            f"{what}() over {axis!r} is for functions that local_map runs on the parts of tensors, over this dimension "
            "of the mesh. Elsewhere a tensor is the whole one: redistribute() says where it lies"
        )
    return axis


def _how(reduction: str) -> str:
    found = str(reduction).lower()
    if found not in _REDUCTIONS:
        raise NotImplementedError(f"the reduction {reduction!r}: there are {', '.join(_REDUCTIONS)}")
    return found


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The sum of the parts, or ``"avg"``, ``"max"``, ``"min"``, ``"product"``."""
    return _ops["all_reduce"].run((self, _axis(group, "all_reduce"), _how(reduceOp)), {})  # type: ignore[no-any-return]


def all_reduce_coalesced(self: Sequence[Tensor], reduceOp: str, group: Any, tag: str = "") -> list[Tensor]:
    """`all_reduce` of several tensors."""
    return [all_reduce(x, reduceOp, group, tag) for x in self]


def all_gather_single(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The parts one after the other along a dimension."""
    axis = _axis(group, "all_gather_single")
    return _ops["all_gather"].run((self, axis, gather_dim % self.dim()), {})  # type: ignore[no-any-return]


def reduce_scatter_single(self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Tensor:
    """This part's share, along a dimension, of the sum of the parts."""
    axis, how, dim = _axis(group, "reduce_scatter_single"), _how(reduceOp), scatter_dim % self.dim()
    parts = local_axes()[axis]
    if self.size(dim) % parts:
        raise AssertionError(f"input dimension 0 ({self.size(0)} must be a multiple of group_size {parts})")
    return _ops["reduce_scatter"].run((self, axis, how, dim), {})  # type: ignore[no-any-return]


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """The rows that the parts have for this one: each part's are split over all.

    Raises:
        NotImplementedError: the splits are of different sizes.
    """
    axis = _axis(group, "all_to_all_single")
    if (output_split_sizes is None) != (input_split_sizes is None):
        raise AssertionError(
            "output_split_sizes and input_split_sizes must either be specified together or both set to None"
        )
    for sizes in (output_split_sizes, input_split_sizes):
        if sizes is not None and len({*sizes}) > 1:
            raise NotImplementedError(
                "all_to_all_single() with splits of different sizes: programs have fixed shapes. Pad the splits to one"
            )
    return _ops["all_to_all"].run((self, axis), {})  # type: ignore[no-any-return]


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> Tensor:
    """The part of another: part ``m`` is sent to ``src_dst[m]``."""
    pairs = tuple([(m, int(n)) for m, n in enumerate(src_dst)])
    return _ops["permute"].run((self, _axis(group, "permute_tensor"), pairs), {})  # type: ignore[no-any-return]


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The part ``src``."""
    return _ops["broadcast_from"].run((self, _axis(group, "broadcast"), src), {})  # type: ignore[no-any-return]


def axis_index(group: Any) -> Tensor:
    """Where this part stands along a dimension of the mesh: a tensor, since one program serves all parts."""
    return _ops["axis_index"].run((zeros(()), _axis(group, "axis_index")), {})  # type: ignore[no-any-return]


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: XLA waits where a value is used."""
    return tensor


# the older names, and those with a derivative: all have one
all_gather_single_autograd = all_gather_tensor = all_gather_tensor_autograd = all_gather_single
reduce_scatter_single_autograd = reduce_scatter_tensor = reduce_scatter_tensor_autograd = (
    reduce_scatter_single
)
all_to_all_single_autograd = all_to_all_single
