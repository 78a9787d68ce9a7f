"""`ExportedProgram`: a program without its Python code, its weights, and what it takes and gives.

Reference: https://docs.pytorch.org/docs/stable/export.html#torch.export.ExportedProgram
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .._array import tracing
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor, wrap
from ..nn._module import Module
from ..nn.parameter import Parameter
from ._calls import checked
from ._signature import (
    ConstantArgument,
    ExportGraphSignature,
    Input,
    InputKind,
    InputSpec,
    Output,
    OutputKind,
    OutputSpec,
    Range,
    TensorArgument,
)
from ._structure import Structure, unflattened

__all__ = ["CHECKS", "ExportedProgram", "State"]

#: what a check of a program may raise
CHECKS = {
    error.__name__: error for error in (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError)
}

_PREFIX = {InputKind.PARAMETER: "p_", InputKind.BUFFER: "b_", InputKind.CONSTANT_TENSOR: "c_"}


class State(NamedTuple):
    """A tensor that the program has beside it.

    Attributes:
        kind: parameter, buffer or constant.
        target: its name.
        tensor: the tensor.
        persistent: whether a buffer is in `state_dict`.
        key: the name by which the program takes it: tied weights have one. None: the program does not take it.
    """

    kind: InputKind
    target: str
    tensor: Tensor
    persistent: bool | None
    key: str | None


class ExportedProgram:
    """A program that was made of a module by `export`, or loaded from a file by `load`.

    Its tensors are those of the module that was exported, as in PyTorch: what is written to one is seen by the other.

    Attributes:
        exported: the StableHLO program, for JAX: ``exported.call(state, inputs)`` with arrays by name and a list of
            arrays gives a list of outputs, by name the new values of the buffers that the program writes to, and a list
            of the flags of its checks, such as that indices are within range: one array, or none if it has no checks.
        inputs, outputs: what the user gives and gets, in order.
        range_constraints: by name the sizes that a call may have.
        example_inputs: the arguments that the module was exported with.

    Reference: https://docs.pytorch.org/docs/stable/export.html#torch.export.ExportedProgram
    """

    def __init__(
        self,
        exported: jax.export.Exported,
        *,
        state: Sequence[State],
        inputs: Sequence[Input],
        outputs: Sequence[Output],
        structures: tuple[Structure, Structure],
        mutated: Sequence[str],
        checks: Sequence[tuple[str, str]],
        ranges: Mapping[str, Range],
        example: tuple[tuple[Any, ...], dict[str, Any]] | None,
    ) -> None:
        self.exported, self.inputs, self.outputs = exported, tuple(inputs), tuple(outputs)
        self.range_constraints, self.example_inputs = dict(ranges), example
        self._state, self._mutated, self._checks = tuple(state), tuple(mutated), tuple(checks)
        self._in, self._out = structures
        self._run = jax.jit(exported.call)

    # -------------------------------------------------------------- what it is

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """The inputs and outputs of the program."""
        ins = [
            InputSpec(
                s.kind, TensorArgument(_PREFIX[s.kind] + s.target.replace(".", "_")), s.target, s.persistent
            )
            for s in self._state
        ]
        ins += [InputSpec(InputKind.USER_INPUT, _argument(one), None) for one in self.inputs]
        outs = [
            OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(f"new_{name.replace('.', '_')}"), name)
            for name in self._mutated
        ]
        outs += [OutputSpec(OutputKind.USER_OUTPUT, _argument(one)) for one in self.outputs]
        return ExportGraphSignature(ins, outs)

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """The parameters and persistent buffers by name."""
        return {s.target: s.tensor for s in self._state if s.kind is InputKind.PARAMETER or s.persistent}

    @property
    def constants(self) -> dict[str, Tensor]:
        """The other tensors that the program has beside it, by name."""
        kept = self.state_dict
        return {s.target: s.tensor for s in self._state if s.target not in kept}

    tensor_constants = constants

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that the program runs on, in JAX's words."""
        return tuple(self.exported.platforms)

    def parameters(self) -> Iterator[Parameter]:
        """The parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their names."""
        yield from ((s.target, s.tensor) for s in self._state if s.kind is InputKind.PARAMETER)  # type: ignore[misc]

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their names."""
        yield from ((s.target, s.tensor) for s in self._state if s.kind is InputKind.BUFFER)

    def mlir_module(self) -> str:
        """The program as StableHLO text."""
        return self.exported.mlir_module()

    def __repr__(self) -> str:
        kinds = [s.kind for s in self._state]
        counts = [f"{kinds.count(k)} {_words[k]}" for k in _PREFIX if k in kinds]
        ranges = ", ".join(f"{name}: {r}" for name, r in self.range_constraints.items())
        lines = [
            "ExportedProgram:",
            *(f"    input   {one}" for one in self.inputs),
            *(f"    output  {one}" for one in self.outputs),
            *(f"    writes  {name}" for name in self._mutated),
            f"    state   {', '.join(counts) or 'none'}",
            f"    runs on {', '.join(self.platforms)}",
        ]
        return "\n".join([*lines, f"Range constraints: {{{ranges}}}"])

    # -------------------------------------------------------------- what it does

    def module(self, check_guards: bool = True) -> Module:
        """A module that runs the program, without gradients.

        Its parameters and buffers are those of this program. Its mode is that of the module that was exported, and
        cannot be changed.

        Args:
            check_guards: must be True: inputs are always compared with what the program is for.

        Raises:
            NotImplementedError: with ``check_guards=False``.
        """
        if not check_guards:
            raise NotImplementedError("ExportedProgram.module(check_guards=False): inputs are always checked")
        return _ExportedModule(self)

    def run_decompositions(self, decomp_table: Any = None) -> ExportedProgram:
        """The program itself: StableHLO has no operations that could be decomposed.

        Raises:
            NotImplementedError: with a table of decompositions.
        """
        if decomp_table:
            raise NotImplementedError(
                "ExportedProgram.run_decompositions(decomp_table): the program is StableHLO, which has no ATen "
                "operations to decompose; call it without a table"
            )
        return self

    def _arrays(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        return checked(self.inputs, self._in, self.range_constraints, args, kwargs)

    def _check_state(self, tensors: Mapping[str, Tensor | None]) -> None:
        """Raise for a tensor beside the program that is not of the type that it was exported with."""
        (wanted, _), _ = jax.tree.unflatten(self.exported.in_tree, self.exported.in_avals)
        for name, tensor in tensors.items():
            want, has = wanted[name], None if tensor is None else jax.typeof(tensor._value)
            if has is None or (has.shape, has.dtype) != (want.shape, want.dtype):
                texts = [f"{a.dtype}{list(a.shape)}" if a is not None else "None" for a in (want, has)]
                raise RuntimeError(
                    f"{name} is {texts[1]}, and the program was exported for {texts[0]}: its weights may be replaced "
                    "by others of the same shape and dtype"
                )

    def _check(self, flags: Sequence[Any]) -> None:
        """Raise the error of a check that failed."""
        failed = np.flatnonzero(np.asarray(flags[0])) if flags else ()
        if len(failed):
            name, text = self._checks[failed[0]]
            raise CHECKS[name](text)

    def _results(self, arrays: Sequence[Any], made: Callable[[Any], Any] = wrap) -> Any:
        """What the user gets, given the arrays that the program computed."""
        values = iter(arrays)
        return unflattened(
            self._out, [o.value if o.dtype is None else made(next(values)) for o in self.outputs]
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedProgram:
        made = object.__new__(type(self))
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    def __reduce__(self) -> Any:
        raise pickle.PicklingError(
            "a program of torch.export cannot be pickled: save it by torch.export.save"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    @property
    def graph_module(self) -> Any:
        raise NotImplementedError(
            "ExportedProgram.graph_module: there is no FX graph. The program is StableHLO: `mlir_module()` is its "
            "text, `exported` the object of jax.export"
        )

    graph = graph_module


_words = {
    InputKind.PARAMETER: "parameters",
    InputKind.BUFFER: "buffers",
    InputKind.CONSTANT_TENSOR: "constants",
}


def _argument(one: Input | Output) -> TensorArgument | ConstantArgument:
    return TensorArgument(one.name) if one.dtype is not None else ConstantArgument(one.name, one.value)


class _ExportedModule(Module):
    """The module that `ExportedProgram.module` gives."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        object.__setattr__(self, "_program", program)
        self._places: list[tuple[str, dict[str, Any], str]] = []
        self._others: dict[str, Tensor] = {}
        for one in program._state:
            if one.kind is InputKind.CONSTANT_TENSOR:
                table, name = self._others, one.target
                table[name] = one.tensor
            else:
                table, name = self._registered(one)
            if one.key is not None and one.key == one.target:
                self._places.append((one.key, table, name))

    def _registered(self, one: State) -> tuple[dict[str, Any], str]:
        *path, name = one.target.split(".")
        owner: Module = self
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, Module())
            owner = owner._modules[part]  # type: ignore[assignment]
        if one.kind is InputKind.PARAMETER:
            owner.register_parameter(name, one.tensor)  # type: ignore[arg-type]
            return owner._parameters, name
        owner.register_buffer(name, one.tensor, persistent=bool(one.persistent))
        return owner._buffers, name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        program: ExportedProgram = self._program
        arrays = program._arrays(args, kwargs)
        tensors = {key: table[name] for key, table, name in self._places}
        try:
            with tracing.x64():
                outs, new, flags = program._run({key: t._value for key, t in tensors.items()}, arrays)
        except (AttributeError, TypeError, ValueError):
            program._check_state(tensors)
            raise
        program._check(flags)
        with no_grad():
            for key, value in new.items():
                tensors[key].copy_(wrap(value))
        return program._results(outs)

    def train(self, mode: bool = True) -> Any:
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self) -> Any:
        raise NotImplementedError("Calling eval() is not supported yet.")

    def extra_repr(self) -> str:
        return ", ".join(map(str, self._program.inputs))
