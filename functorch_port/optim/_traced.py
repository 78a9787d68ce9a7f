"""What a trace has to know of optimizers (see `_trace.stateful`)."""

from __future__ import annotations

from collections.abc import Iterator

from .._tensor.tensor import Tensor
from .._trace.stateful import Kind, register
from .optimizer import Optimizer, _step_post_hooks, _step_pre_hooks

_TABLES = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


def _guards(name: str) -> bool:
    return name in ("state", "param_groups", "defaults") or name.startswith("_")


def _tensors(optimizer: Optimizer) -> Iterator[tuple[str, str, Tensor]]:
    for i, group in enumerate(optimizer.param_groups):
        for j, p in enumerate(group["params"]):
            yield "", f"param_groups[{i}]['params'][{j}]", p
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for i, p in enumerate(params):
        for key, value in (optimizer.state.get(p) or {}).items():
            if isinstance(value, Tensor):
                yield "", f"state[{i}].{key}", value


register(Kind(Optimizer, _guards, _tensors, _TABLES, (_step_pre_hooks, _step_post_hooks), steps=True))
