"""What `save` and `load` may be told beside the state: `DefaultSavePlanner`, `DefaultLoadPlanner`."""

from __future__ import annotations

from typing import Any

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]


def _refuse(name: str, **given: Any) -> None:
    for argument, (value, default) in given.items():
        if value != default:
            raise NotImplementedError(f"{name}({argument}={value!r}) is not supported: leave it out")


class DefaultSavePlanner:
    """The plan of a save: there is one, since a tensor on a mesh is saved by the devices that have its parts.

    Args:
        flatten_state_dict: must be True: every tensor of a nested state is stored for itself.
        flatten_sharded_tensors, dedup_replicated_tensors, dedup_save_to_lowest_rank, enable_plan_caching: how processes
            agree, which they need not here; only the defaults are taken.

    Raises:
        NotImplementedError: for other values.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.DefaultSavePlanner
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        _refuse(
            "DefaultSavePlanner",
            flatten_state_dict=(flatten_state_dict, True),
            flatten_sharded_tensors=(flatten_sharded_tensors, True),
            dedup_replicated_tensors=(dedup_replicated_tensors, None),
            dedup_save_to_lowest_rank=(dedup_save_to_lowest_rank, False),
            enable_plan_caching=(enable_plan_caching, False),
        )


class DefaultLoadPlanner:
    """The plan of a load.

    Args:
        flatten_state_dict, flatten_sharded_tensors: must be True.
        allow_partial_load: whether entries that the checkpoint does not have stay as they are, else they are an error.

    Raises:
        NotImplementedError: for other values of the first two.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.DefaultLoadPlanner
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        _refuse(
            "DefaultLoadPlanner",
            flatten_state_dict=(flatten_state_dict, True),
            flatten_sharded_tensors=(flatten_sharded_tensors, True),
        )
        self.allow_partial_load = allow_partial_load


def checked(planner: Any, kind: type) -> Any:
    """A planner, or the default one.

    Raises:
        NotImplementedError: it is of another class.
    """
    if planner is None:
        return kind()
    if type(planner) is not kind:
        raise NotImplementedError(
            f"the planner {type(planner).__name__} is not supported, only {kind.__name__}: change the state dict "
            "before it is saved, or after it is loaded"
        )
    return planner
