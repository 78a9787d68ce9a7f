"""`PipelineStage`: a stack of layers that is split over a dimension of a mesh."""

from __future__ import annotations

import copy
from typing import Any

from ..._run.bind import function
from ..._tensor.tensor import Tensor
from ...func._control import scan
from ...func._functional_call import functional_call
from ...func._level import DRAWN
from ...nn._module import Module
from ...nn.modules._scan import ScanStack
from .._functional_collectives import axis_index, permute_tensor
from ..device_mesh import DeviceMesh
from ..tensor._api import distribute_in_place
from ..tensor.experimental import local_map
from ..tensor.placement_types import Replicate, Shard

__all__ = ["PipelineStage"]

_cat, _where = function("cat"), function("where")


class PipelineStage(Module):
    """All stages of a pipeline: a `ScanStack` whose layers are split over a dimension of a mesh.

    Args:
        submodule: a `ScanStack`. Its parameters are put on the mesh in place; each device has those of its layers.
        stage_index: where this process is along the mesh: 0 in one process.
        num_stages: the size of the mesh; it divides the number of layers.
        device: accepted: the mesh says where the layers are.
        group: the mesh, of one dimension, as ``mesh["pp"]``.
        input_args, output_args, output_grads, input_grads: accepted: shapes are found when a program is traced.
        dw_builder, get_mesh: must be None.

    Raises:
        NotImplementedError: the module is no `ScanStack`, or for ``dw_builder`` and ``get_mesh``.
        ValueError: the group is no mesh of one dimension, or the numbers do not fit.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.pipelining import PipelineStage, ScheduleGPipe
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
        >>> stack = torch.nn.ScanStack([torch.nn.Linear(4, 4) for _ in range(2)])
        >>> pipe = ScheduleGPipe(PipelineStage(stack, 0, 1, "cpu", group=mesh), n_microbatches=2)
        >>> pipe(torch.ones(6, 4)).shape
        torch.Size([6, 4])

    Reference: https://docs.pytorch.org/docs/stable/distributed.pipelining.html#torch.distributed.pipelining.stage.PipelineStage
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Any = None,
        output_args: Any = None,
        output_grads: Any = None,
        input_grads: Any = None,
        group: DeviceMesh | None = None,
        dw_builder: Any = None,
        get_mesh: Any = None,
    ) -> None:
        super().__init__()
        if not isinstance(submodule, ScanStack):
            raise NotImplementedError(
                f"PipelineStage takes an nn.ScanStack of all layers, not {type(submodule).__name__}: the stages of a "
                "program compute the same, on different parameters. Put equal layers into ScanStack, and what is "
                "before and behind them outside of it"
            )
        if (dw_builder, get_mesh) != (None, None):
            raise NotImplementedError(
                "PipelineStage(dw_builder=, get_mesh=) is not supported: XLA makes the backward pass"
            )
        if not isinstance(group, DeviceMesh) or group.ndim != 1:
            raise ValueError(
                f'PipelineStage needs group=, a DeviceMesh of one dimension, as mesh["pp"], not {group}'
            )
        if num_stages != group.size() or stage_index != group.get_local_rank():
            raise ValueError(
                f"this is stage {group.get_local_rank()} of {group.size()} by the mesh, not {stage_index} of "
                f"{num_stages}"
            )
        if len(submodule) % num_stages:
            raise ValueError(f"{len(submodule)} layers cannot be split into {num_stages} equal stages")
        self.submodule, self.num_stages, self.mesh = submodule, num_stages, group
        for param in (*submodule.parameters(), *submodule.buffers()):
            distribute_in_place(param, group, [Shard(0)])
        tensors = self._tensors()
        replicated, split = [Replicate()], [Shard(0)]
        self._mapped = local_map(
            self._on_stage, split, (replicated, *[split] * len(tensors)), device_mesh=group
        )

    def _tensors(self) -> dict[str, Tensor]:
        return {**dict(self.submodule.named_parameters()), **dict(self.submodule.named_buffers())}

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Microbatches (count, ...) through all stages."""
        return self._mapped(x, *self._tensors().values())[-1]  # type: ignore[no-any-return]

    def _on_stage(self, x: Tensor, *tensors: Tensor) -> Tensor:
        """What this stage computes for every microbatch: those of the last one are the results."""
        last = self.num_stages - 1
        stack = copy.copy(self.submodule)
        stack.count = len(stack) // self.num_stages
        own = dict(zip(self._tensors(), tensors, strict=True))
        is_first = axis_index(self.mesh) == 0
        on = [*range(1, self.num_stages), 0]

        def step(arrived: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
            out = functional_call(stack, own, (_where(is_first, given, arrived),), tie_weights=False)
            return permute_tensor(out, on, self.mesh), out

        # the first stage takes its microbatches, and the last one has the last result so many steps later. Meanwhile
        # the others compute what nobody needs: of a real microbatch, since zeros may have no derivative
        given = _cat([x, x[:1].expand(last, *x.shape[1:])]) if last else x
        try:
            _, outs = scan(step, x[0], given)
        except NotImplementedError as error:
            if str(error) == DRAWN:
                raise NotImplementedError(
                    "PipelineStage: a layer draws random numbers. Set its dropout to 0, or apply it behind the stack"
                ) from None
            raise
        return outs[last:].unsqueeze(0)  # type: ignore[no-any-return]
