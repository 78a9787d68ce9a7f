"""What a program takes and gives, in PyTorch's terms: `ExportGraphSignature`, and records of the inputs and outputs.

Reference: https://docs.pytorch.org/docs/stable/export.html#torch.export.ExportGraphSignature
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = [
    "ConstantArgument", "ExportGraphSignature", "Input", "InputKind", "InputSpec", "Output", "OutputKind", "OutputSpec",
    "Range", "Size", "TensorArgument", "shape_text", "size_text",
]  # fmt: skip

#: of an input's dimension: a number, or (factor, name, offset) of a size that changes
Size = int | tuple[int, str, int]


class Range(NamedTuple):
    """The sizes that a dimension may have.

    Attributes:
        lower: the least.
        upper: the most; None: there is no limit.
    """

    lower: int
    upper: int | None

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper is None else self.upper}]"


def size_text(size: Size) -> str:
    """A dimension as people write it: ``2*batch + 1``."""
    if isinstance(size, int):
        return str(size)
    factor, name, offset = size
    sign = f" {'+' if offset > 0 else '-'} {abs(offset)}" if offset else ""
    return (f"{factor}*" if factor != 1 else "") + name + sign


def shape_text(shape: Iterable[Any]) -> str:
    """A shape as people write it."""
    return f"[{', '.join(n if isinstance(n, str) else size_text(n) for n in shape)}]"


@dataclass(frozen=True)
class _Leaf:
    name: str
    dtype: str | None
    shape: tuple[Any, ...] = ()
    value: Any = None

    def __str__(self) -> str:
        what = repr(self.value) if self.dtype is None else f"{self.dtype}{shape_text(self.shape)}"
        return f"{self.name}: {what}"


@dataclass(frozen=True)
class Input(_Leaf):
    """An input that the user gives.

    Attributes:
        name: that of the argument, with the path in it.
        dtype: the name of the type; None for what is no tensor.
        shape: the sizes.
        value: of what is no tensor: every call has to give it.
    """

    shape: tuple[Size, ...] = ()


@dataclass(frozen=True)
class Output(_Leaf):
    """An output that the user gets.

    Attributes:
        name: the path in the result, or ``output``.
        dtype: the name of the type; None for what is no tensor.
        shape: numbers, and expressions of sizes as texts.
        value: of what is no tensor: every call gives it.
    """

    shape: tuple[int | str, ...] = ()


class InputKind(enum.Enum):
    """What an input of the program is."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()


class OutputKind(enum.Enum):
    """What an output of the program is."""

    USER_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()


class TensorArgument(NamedTuple):
    """A tensor among the inputs or outputs."""

    name: str


class ConstantArgument(NamedTuple):
    """A value that is no tensor, and the same in every call."""

    name: str
    value: Any


@dataclass(frozen=True)
class InputSpec:
    """An input of the program.

    Attributes:
        kind: what it is.
        arg: its name in the program.
        target: the name of a parameter, buffer or constant.
        persistent: whether a buffer is in `state_dict`.
    """

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None
    persistent: bool | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass(frozen=True)
class OutputSpec:
    """An output of the program.

    Attributes:
        kind: what it is.
        arg: its name in the program.
        target: the name of a buffer that gets it.
    """

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclass(frozen=True)
class ExportGraphSignature:
    """The inputs of a program in order, then its outputs."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> dict[str, str]:
        return {s.arg.name: s.target for s in self.input_specs if s.kind is kind and s.target is not None}

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of the buffers."""
        return tuple(self.inputs_to_buffers.values())

    @property
    def non_persistent_buffers(self) -> set[str]:
        """The names of the buffers that are not in `state_dict`."""
        return {s.target for s in self.input_specs if s.persistent is False and s.target is not None}

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """The names of the tensors that are neither parameters nor buffers."""
        return tuple(self.inputs_to_lifted_tensor_constants.values())

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        """By input of the program the parameter."""
        return self._targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        """By input of the program the buffer."""
        return self._targets(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        """By input of the program the constant."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """What the user gives: names of tensors, and values of the rest."""
        return tuple(_shown(s.arg) for s in self.input_specs if s.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """What the user gets: names of tensors, and values of the rest."""
        return tuple(_shown(s.arg) for s in self.output_specs if s.kind is OutputKind.USER_OUTPUT)

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        """By output of the program the buffer that gets it."""
        return {s.arg.name: s.target for s in self.output_specs if s.target is not None}

    def __str__(self) -> str:
        inputs, outputs = "\n".join(map(str, self.input_specs)), "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"


def _shown(arg: TensorArgument | ConstantArgument) -> Any:
    return arg.value if isinstance(arg, ConstantArgument) else arg.name
