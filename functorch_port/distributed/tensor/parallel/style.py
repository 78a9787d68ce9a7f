"""The styles of `parallelize_module`: how the parameters, inputs and outputs of a module lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from ...._tensor.tensor import Tensor
from ....nn._module import Module
from ....nn.modules.linear import Linear
from ....nn.modules.sparse import Embedding
from ...device_mesh import DeviceMesh
from .._api import distribute_in_place, laid
from ..placement_types import Placement, Replicate, Shard

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
    "RowwiseParallel", "SequenceParallel",
]  # fmt: skip

Layouts = Placement | tuple[Placement | None, ...] | None


class ParallelStyle(ABC):
    """How a module is split; `parallelize_module` applies it."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module: ...


class _Split(ParallelStyle):
    """A layer whose parameters are split.

    Attributes:
        parameters: for each class of layers, where its parameters are split, counted from the last dimension, which
            holds for stacked layers too.
        inside: for each class, how the input lies during the computation.
        result: how the result's gradient lies during the computation.
    """

    parameters: Mapping[type[Module], Mapping[str, Placement]]
    inside: Mapping[type[Module], Placement]
    result: Placement

    def __init__(self, input_layout: Placement, output_layout: Placement, use_local_output: bool) -> None:
        self.input_layouts, self.output_layouts = (input_layout,), (output_layout,)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        kind = next((kind for kind in self.parameters if isinstance(module, kind)), None)
        if kind is None:
            raise NotImplementedError(
                f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!"
            )
        for name, param in module.named_parameters():
            distribute_in_place(param, device_mesh, [self.parameters[kind][name]], self.src_data_rank)
        given, want = self.input_layouts[0], self.inside[kind]
        after, distributed = self.output_layouts[0], not self.use_local_output

        def before(_: Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            return laid(inputs[0], device_mesh, want, None if given == want else given), *inputs[1:]

        def behind(_: Module, inputs: Any, out: Any) -> Any:
            if (
                kind is Embedding and after != self.result
            ):  # else XLA may gather the table to make ``after`` at once
                out = laid(out, device_mesh, self.result)
            return laid(out, device_mesh, after, self.result, distributed)

        return _hooked(module, before, behind)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, output_layouts={self.output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class ColwiseParallel(_Split):
    """Split the outputs of a `Linear` or the columns of an `Embedding`.

    Args:
        input_layouts: how the input lies, by default `Replicate()`.
        output_layouts: how the output is to lie, by default ``Shard(-1)``: as it is computed.
        use_local_output: False marks the output as a `DTensor`. A tensor here is the whole one in both cases.

    Example:
        >>> from functorch_port.distributed.tensor.parallel import ColwiseParallel
        >>> ColwiseParallel()
        ColwiseParallel(input_layouts=(Replicate(),), output_layouts=(Shard(dim=-1),), use_local_output=True)

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html#torch.distributed.tensor.parallel.ColwiseParallel
    """

    parameters = {
        Linear: {"weight": Shard(-2), "bias": Shard(-1)},
        Embedding: {"weight": Shard(-1)},
    }
    inside = {Linear: Replicate(), Embedding: Replicate()}
    result = Shard(-1)

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)
        self.desired_input_layouts = (Replicate(),)


class RowwiseParallel(_Split):
    """Split the inputs of a `Linear` or the rows of an `Embedding`; the parts of the output are added up.

    Args:
        input_layouts: how the input lies, by default ``Shard(-1)``.
        output_layouts: how the output is to lie, by default `Replicate()`.
        use_local_output: False marks the output as a `DTensor`. A tensor here is the whole one in both cases.

    Example:
        >>> from functorch_port.distributed.tensor.parallel import RowwiseParallel
        >>> RowwiseParallel()
        RowwiseParallel(input_layouts=(Shard(dim=-1),), output_layouts=(Replicate(),), use_local_output=True)

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html#torch.distributed.tensor.parallel.RowwiseParallel
    """

    parameters = {
        Linear: {"weight": Shard(-1), "bias": Replicate()},
        Embedding: {"weight": Shard(-2)},
    }
    inside = {Linear: Shard(-1), Embedding: Replicate()}
    result = Replicate()

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)


class SequenceParallel(ParallelStyle):
    """Split the sequence that goes through a layer with small parameters (`LayerNorm`, `RMSNorm`, `Dropout`).

    Args:
        sequence_dim: the dimension of the input that is the sequence.
        use_local_output: False marks the output as a `DTensor`. A tensor here is the whole one in both cases.

    Example:
        >>> from functorch_port.distributed.tensor.parallel import SequenceParallel
        >>> SequenceParallel()
        SequenceParallel(sequence_dim=1, use_local_output=False)

    Reference: Reducing Activation Recomputation in Large Transformer Models, https://arxiv.org/abs/2205.05198
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        for param in module.parameters():
            distribute_in_place(param, device_mesh, [Replicate()], self.src_data_rank)
        split = self.sequence_sharding[0]

        def before(mod: Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            if not isinstance(inputs[0], Tensor):
                raise ValueError(
                    f"expecting input of {mod} to be a torch.Tensor or DTensor, but got {inputs[0]}"
                )
            return laid(inputs[0], device_mesh, split, split), *inputs[1:]

        after = lambda _, inputs, out: laid(out, device_mesh, split, split, not self.use_local_output)
        return _hooked(module, before, after)

    def __repr__(self) -> str:
        return (
            f"SequenceParallel(sequence_dim={self.sequence_sharding[0].dim}, "
            f"use_local_output={self.use_local_output})"
        )


class PrepareModuleInput(ParallelStyle):
    """Say how the inputs of a module lie.

    Args:
        input_layouts: how each input lies, None for one that stays as it is.
        desired_input_layouts: how each input is to lie; its gradient lies as it came.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same for inputs by name.
        use_local_output: True leaves the inputs without the mark of a `DTensor`.

    Raises:
        AssertionError: there are not as many desired layouts as layouts.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html#torch.distributed.tensor.parallel.PrepareModuleInput
    """

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts, self.desired_input_layouts = _tuple(input_layouts), _tuple(desired_input_layouts)
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        self.with_kwargs = input_kwarg_layouts is not None
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        if self.with_kwargs and len(self.input_kwarg_layouts) != len(self.desired_input_kwarg_layouts):
            raise AssertionError(
                "input_kwarg_layouts and desired_input_kwarg_layouts should have same length!"
            )

    def _prepare(self, mesh: DeviceMesh, inputs: Any) -> Any:
        if self.input_layouts is None:
            return inputs
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(inputs) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        assert self.desired_input_layouts is not None
        return tuple(
            [
                _prepared(x, mesh, have, want, not self.use_local_output, "input")
                for x, have, want in zip(inputs, self.input_layouts, self.desired_input_layouts, strict=True)
            ]
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def before(_: Module, inputs: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            named = {
                name: _prepared(
                    x,
                    device_mesh,
                    self.input_kwarg_layouts.get(name),
                    self.desired_input_kwarg_layouts.get(name),
                    not self.use_local_output,
                    "input",
                )
                for name, x in kwargs.items()
            }
            return self._prepare(device_mesh, inputs), named

        before.is_pure = True  # type: ignore[attr-defined]
        module.register_forward_pre_hook(before, with_kwargs=True)
        return module

    def __repr__(self) -> str:
        return (
            f"PrepareModuleInput(input_layouts={self.input_layouts}, "
            f"desired_input_layouts={self.desired_input_layouts}, "
            f"input_kwarg_layouts={self.input_kwarg_layouts}, "
            f"desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class PrepareModuleOutput(ParallelStyle):
    """Say how the outputs of a module lie.

    Args:
        output_layouts: how each output lies, None for one that stays as it is.
        desired_output_layouts: how each output is to lie; its gradient lies as it came.
        use_local_output: False marks the outputs as a `DTensor`. A tensor here is the whole one in both cases.

    Raises:
        AssertionError: there are not as many desired layouts as layouts.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html#torch.distributed.tensor.parallel.PrepareModuleOutput
    """

    def __init__(
        self, *, output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True
    ) -> None:
        self.output_layouts, self.desired_output_layouts = (
            _tuple(output_layouts) or (),
            _tuple(desired_output_layouts) or (),
        )
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def after(_: Module, inputs: Any, outputs: Any) -> Any:
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            if len(outputs) != len(self.output_layouts):
                raise ValueError("module outputs and output_layouts should have same length!")
            layouts = zip(self.output_layouts, self.desired_output_layouts, strict=True)
            made = [
                _prepared(x, device_mesh, have, want, not self.use_local_output, "output")
                for x, (have, want) in zip(outputs, layouts, strict=True)
            ]
            return made[0] if len(made) == 1 else tuple(made)

        return _hooked(module, None, after)

    def __repr__(self) -> str:
        return (
            f"PrepareModuleOutput(output_layouts={self.output_layouts}, "
            f"desired_output_layouts={self.desired_output_layouts}, use_local_output={self.use_local_output})"
        )


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput`, with the arguments of both.

    Args:
        use_local_input: that argument ``use_local_output`` of `PrepareModuleInput`.

    Reference: https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html#torch.distributed.tensor.parallel.PrepareModuleInputOutput
    """

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)

    def __repr__(self) -> str:
        given, made = self.prepare_module_input, self.prepare_module_output
        return (
            f"PrepareModuleInputOutput(input_layouts={given.input_layouts}, "
            f"desired_input_layouts={given.desired_input_layouts}, "
            f"input_kwarg_layouts={given.input_kwarg_layouts}, "
            f"desired_input_kwarg_layouts={given.desired_input_kwarg_layouts}, "
            f"use_local_input={given.use_local_output}, output_layouts={made.output_layouts}, "
            f"desired_output_layouts={made.desired_output_layouts}, use_local_output={made.use_local_output})"
        )


def _hooked(module: Module, before: Any, after: Any) -> Module:
    """The module with hooks that change nothing but where tensors lie: `ScanStack` may run them in a scan."""
    if before is not None:
        before.is_pure = True
        module.register_forward_pre_hook(before)
    after.is_pure = True
    module.register_forward_hook(after)
    return module


def _tuple(layouts: Layouts) -> tuple[Placement | None, ...] | None:
    return (layouts,) if isinstance(layouts, Placement) else layouts


def _prepared(
    x: Any, mesh: DeviceMesh, have: Placement | None, want: Placement | None, mark: bool, what: str
) -> Any:
    if have is None:
        return x
    if not isinstance(x, Tensor):
        raise AssertionError(f"expecting {what} to be a torch.Tensor!")
    return laid(x, mesh, have if want is None else want, None if want in (None, have) else have, mark)
