"""`PipelineStage`: a stack of layers that is split over a dimension of a mesh."""

from __future__ import annotations

from typing import Any

import jax
from jax import lax

from ..._array.refusal import Check
from ..._base import agreement
from ..._random import keyed
from ..._run.bind import function
from ..._run.call import Op
from ..._run.registry import ops
from ..._tensor.tensor import Tensor, wrap
from ..._trace.compiled import compile
from ...func._functional_call import functional_call
from ...func._level import Keyed, Source, arrays_of, refuse_collected, rehearsed, run_in
from ...func._session import Session
from ...nn._module import Module
from ...nn.modules._scan import ScanStack
from ..device_mesh import DeviceMesh
from ..tensor._api import distribute_in_place, whole
from ..tensor.experimental import local_map
from ..tensor.placement_types import Replicate, Shard
from . import _ticks

__all__ = ["PipelineStage"]

_randint = function("randint")
_apart, _together = Op(ops["_to_microbatches"]), Op(ops["_from_microbatches"])
#: how tensors lie along the dimension of the stages
EVERYWHERE, SPLIT = [Replicate()], [Shard(0)]

_HOOKED = (
    "PipelineStage: a layer draws random numbers from several generators, or has hooks and draws some. Draw from one, "
    "and remove the hooks"
)


class PipelineStage(Module):
    """All stages of a pipeline: a `ScanStack` whose layers are split over a dimension of a mesh.

    Layers may draw random numbers, as dropout does. Each call then draws a key for all of them, as two numbers of the
    generator, and a layer has one for each microbatch. So the numbers do not depend on the number of stages, on the
    schedule or on the mesh (on a TPU they may depend on how a batch is split), and are not those of PyTorch.

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
        RuntimeError: one of these happens in another process.

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
        with agreement.telling("PipelineStage"):
            stack, mesh = _checked(submodule, stage_index, num_stages, group, (dw_builder, get_mesh))
            for param in (*stack.parameters(), *stack.buffers()):
                distribute_in_place(param, mesh, SPLIT)
        self.submodule, self.num_stages, self.mesh = stack, num_stages, mesh
        #: eagerly, too, a pipeline is one program
        self._compiled = compile(self._whole, rng="torch")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_compiled"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._compiled = compile(self._whole, rng="torch")

    def tensors(self) -> dict[str, Tensor]:
        """The parameters and buffers of all layers."""
        return {**dict(self.submodule.named_parameters()), **dict(self.submodule.named_buffers())}

    def apart(self, x: Tensor, count: int) -> Tensor:
        """The rows of a batch as microbatches (count, n, ...). In several processes it is the whole batch, in each."""
        return _apart.run((whole(x, self.mesh), count, self.mesh.jax_mesh), {})  # type: ignore[no-any-return]

    def together(self, x: Tensor) -> Tensor:
        """The rows of microbatches."""
        return _together.run((x, self.mesh.jax_mesh), {})  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Microbatches (count, n, ...) through all stages."""
        return self._compiled(x)  # type: ignore[no-any-return]

    def _whole(self, x: Tensor) -> Tensor:
        own = self.tensors()
        source, _, _ = self.rehearsed(x)
        words = words_of(source)
        places = [EVERYWHERE] * (1 + len(words)) + [SPLIT] * len(own)
        run = local_map(self._all_forward, SPLIT, (None, *places), device_mesh=self.mesh)
        return run(source, x, *words, *own.values())[-1]  # type: ignore[no-any-return]

    def _all_forward(self, source: Source, x: Tensor, *tensors: Tensor) -> Tensor:
        """What one stage computes for every microbatch: those of the last one are the results."""
        key, own = key_in(source, tensors)
        checks: list[Check] = []
        layers = Layers(self.of_stage(), [*self.tensors()], source, key, checks)
        y, rows = _ticks.all_forward(layers, [t._value for t in own], x._value, self.mesh.axes[0])
        refuse_collected(checks, rows)
        return wrap(y[None])

    def of_stage(self) -> ScanStack:
        """The layers of the stage that a part of a program is."""
        stack = ScanStack.__new__(ScanStack)  # not a unit, if the whole one is: its layers are
        vars(stack).update(vars(self.submodule))
        stack.count = len(stack) // self.num_stages
        stack.first = lax.axis_index(self.mesh.axes[0]) * stack.count
        return stack

    def rehearsed(self, x: Tensor) -> tuple[Source, Session, Any]:
        """What the layers of one microbatch draw from, what they capture, and the shape of the result."""
        own, source = self.tensors(), Source()
        layers = Layers(self.submodule, [*own], source, None, [])
        session, out = rehearsed(
            lambda x, *own: layers(own, x[0], 0)[0], [x._aval(), *(t._aval() for t in own.values())]
        )
        return source, session, out


class Layers:
    """The layers of a stage as a function of arrays: of their parameters, a microbatch and its number.

    Args:
        stack: the layers.
        names: of the parameters.
        source, key: where random numbers come from.
        checks: the checks of values are put there; their arrays are the rows of the result.
        mode: "reverse" to differentiate the function.
    """

    def __init__(
        self,
        stack: Module,
        names: list[str],
        source: Source,
        key: Any,
        checks: list[Check],
        mode: str | None = None,
    ) -> None:
        self.stack, self.names, self.source, self.key = stack, names, source, key
        self.checks, self.mode = checks, mode

    def __call__(self, own: Any, x: Any, number: Any) -> tuple[Any, list[list[Any]]]:
        def call(tensors: list[Tensor]) -> Any:
            given = dict(zip(self.names, tensors[1:], strict=True))
            return functional_call(self.stack, given, (tensors[0],), tie_weights=False)._value

        level = _OfStack(self.source, of_microbatch(self.key, number), self.checks, self.mode)
        return run_in(level, call, [x, *own]), arrays_of(self.checks)


class _OfStack(Keyed):
    """The level around a stack, which takes a key for all of its layers."""

    def draw(self, draw: Any) -> Any:
        raise NotImplementedError(_HOOKED)


def words_of(source: Source) -> list[Tensor]:
    """Two random numbers for the key of a call, if anything is drawn."""
    return [] if source.generator is None else [_randint(0, 1 << 32, (2,), generator=source.generator)]


def key_in(source: Source, tensors: tuple[Tensor, ...]) -> tuple[Any, tuple[Tensor, ...]]:
    """The key that `words_of` has put first; and the other tensors."""
    if source.generator is None:
        return None, tensors
    return keyed.key_of(tensors[0]._value), tensors[1:]


def of_microbatch(key: Any, number: Any) -> Any:
    """The key for a microbatch."""
    return None if key is None else jax.random.fold_in(key, number)


def _checked(
    submodule: Module, stage_index: int, num_stages: int, group: Any, others: Any
) -> tuple[ScanStack, DeviceMesh]:
    if not isinstance(submodule, ScanStack):
        raise NotImplementedError(
            f"PipelineStage takes an nn.ScanStack of all layers, not {type(submodule).__name__}: the stages of a "
            "program compute the same, on different parameters. Put equal layers into ScanStack, and what is "
            "before and behind them outside of it"
        )
    if others != (None, None):
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
    return submodule, group
