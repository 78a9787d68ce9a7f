"""What `fully_shard` is told: dtypes, offloading, dimensions of the mesh."""

from __future__ import annotations

from dataclasses import dataclass

from ..._base.dtypes import dtype as DType

__all__ = ["CPUOffloadPolicy", "DataParallelMeshDims", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of a unit. Parameters, their gradients and the optimizer's state keep theirs.

    Attributes:
        param_dtype: parameters are converted to it before they are gathered, so the unit computes in it.
        reduce_dtype: gradients are converted to it where they are computed, before devices add them up; by default
            they have ``param_dtype`` there. Where a compiler puts the addition into the operation that computes a
            gradient, that has ``param_dtype``.
        output_dtype: floating-point results of the unit are converted to it.
        cast_forward_inputs: whether floating-point inputs are converted to ``param_dtype``.

    Reference: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    output_dtype: DType | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Nothing is offloaded.

    Reference: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters, gradients and the optimizer's state are kept in the memory of the hosts.

    Programs move them to the devices where they use them, the step of the optimizer too, and back. See
    `distributed.sharding.offload`.

    Attributes:
        pin_memory: whether that memory is pinned: True.

    Reference: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """

    pin_memory: bool = True


@dataclass
class DataParallelMeshDims:
    """The dimensions of a mesh that are data parallel, where it has others.

    Attributes:
        shard: names of those over which parameters are split.
        replicate: names of those along which they are the same.

    Raises:
        ValueError: there are none.

    Reference: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.shard is None and self.replicate is None:
            raise ValueError("At least one of shard or replicate must be set in DataParallelMeshDims")

    @property
    def shard_names(self) -> tuple[str, ...]:
        """``shard`` as a tuple."""
        return _names(self.shard)

    @property
    def replicate_names(self) -> tuple[str, ...]:
        """``replicate`` as a tuple."""
        return _names(self.replicate)


def _names(given: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)
