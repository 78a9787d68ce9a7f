"""What `FullyShardedDataParallel` is told: strategies, dtypes, kinds of state dicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ...nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig", "LocalOptimStateDictConfig",
    "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig", "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType",
]  # fmt: skip


class ShardingStrategy(Enum):
    """What is split over the devices: parameters, gradients and the optimizer's state, or nothing.

    ``FULL_SHARD`` gathers parameters again in the backward pass, ``SHARD_GRAD_OP`` keeps them whole until then,
    ``NO_SHARD`` splits nothing. ``HYBRID_SHARD`` splits over the second dimension of a mesh and has the same along the
    first, and so does ``_HYBRID_SHARD_ZERO2``, which keeps them whole.
    """

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When PyTorch gathers parameters in the backward pass; XLA orders communication itself."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


@dataclass
class MixedPrecision:
    """The dtypes of a unit; see `MixedPrecisionPolicy`.

    Attributes:
        param_dtype, reduce_dtype: as there.
        buffer_dtype: that of floating-point buffers, but not in a state dict.
        keep_low_precision_grads: must be False.
        cast_forward_inputs: whether floating-point inputs of the unit are converted to ``param_dtype``.
        cast_root_forward_inputs: the same, for a unit that no other one is around.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parameters, gradients and the optimizer's state are kept in the memory of the hosts, which is pinned.

    Attributes:
        offload_params: whether.
    """

    offload_params: bool = False


class StateDictType(Enum):
    """Tensors of a state dict: whole ones, or as they lie on the devices."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class StateDictConfig:
    """How a state dict is made.

    Attributes:
        offload_to_cpu: whether its tensors are on the host.
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Of whole tensors; ``rank0_only``: other processes get none."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Not supported."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Of tensors as they lie on the devices."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """How the state dict of an optimizer is made."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Of whole tensors."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Not supported."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Of tensors as they lie on the devices."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """The kind of state dicts that modules give."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
