"""The arguments of a call by name, and PyTorch's refusals of wrong ones: asked once for each new signature."""

from __future__ import annotations

import inspect
from functools import cache, cached_property
from typing import Any

import jax

from .._array.symbolic import SymNumber
from .._base.dtypes import dtype
from .._base.sizes import is_symbolic_dim
from .._tensor.tensor import Tensor
from .registry import ARRAY, ARRAYS, OpSpec

__all__ = ["Arguments", "arguments_of"]

_ALIASES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "x1": "input", "x2": "other"}
_INTS = ((int, tuple), "tuple of ints")
_ACCEPTED: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "int"), "bool": ((bool,), "bool"), "float": ((int, float), "float"), "str": ((str,), "str"),
    "Dims": _INTS, "tuple[int, ...]": _INTS, "int | tuple[int, ...]": _INTS, "dtypes.dtype": ((dtype,), "torch.dtype"),
}  # fmt: skip


class Arguments:
    """What an operation takes.

    Attributes:
        label: what error texts call the operation.
        words: the alternatives of each parameter's annotation: "int | None" is int or None.
    """

    def __init__(self, spec: OpSpec) -> None:
        self.spec = spec
        space = spec.where[0] if spec.where else ""
        self.label = f"{space}_{spec.name}" if space in ("fft", "linalg", "special") else spec.name
        annotations = inspect.unwrap(spec.fn).__annotations__
        self.words = {n: annotations.get(n, "").split(" | ") for n in spec.params}
        self.kind_of = dict(zip(spec.params, spec.kinds, strict=True))
        self._arrays = [n for n, kind in self.kind_of.items() if kind is ARRAY]

    @cached_property
    def strict(self) -> frozenset[str]:
        """The parameters that refuse numbers: those marked so, and what a function of one tensor works on."""
        spec, words = self.spec, {n: alternatives[0] for n, alternatives in self.words.items()}
        found = {n for n, word in words.items() if word in ("TensorOnly", "TensorsOnly")}
        if spec.where and spec.params and not spec.numbers:
            first = spec.params[0]
            alone = list(words.values()).count("Array") == 1 or "F" in spec.where
            if words[first] == "Array" and alone and "None" not in self.words[first]:
                found.add(first)
        return frozenset(found)

    @cached_property
    def types(self) -> dict[str, tuple[tuple[type, ...], str]]:
        """What static parameters accept, for the ops that are PyTorch's own (its Python functions do not check).

        By name, the types and what the error calls them.
        """
        found: dict[str, tuple[tuple[type, ...], str]] = {}
        if self.spec.where in ((), ("F",)):
            return found
        for name, words in self.words.items():
            accepted = _ACCEPTED.get(" | ".join(w for w in words if w != "None"))
            if accepted is not None:
                nothing = (type(None),) if "None" in words or "Dims" in words else ()
                found[name] = ((*accepted[0], *nothing), accepted[1])
        return found

    def by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, in the order of the parameters, without those left out."""
        spec = self.spec
        params = spec.params[: spec.positional]
        given = args, kwargs
        if spec.varargs is not None:
            at = params.index(spec.varargs)
            rest = args[at:]
            if len(rest) > 1 or (rest and not isinstance(rest[0], list | tuple) and rest[0] is not None):
                args = (*args[:at], tuple(rest))
        one_more = len(args) == len(params) + 1
        if spec.legacy is not None and one_more and isinstance(args[1], int | float | SymNumber):
            args, kwargs = (args[0], *args[2:]), {**kwargs, spec.legacy: args[1]}
        if len(args) > len(params):
            raise TypeError(
                f"{self.label}() takes {len(params)} positional argument{'s' * (len(params) != 1)} but "
                f"{len(args)} were given"
            )
        bound = dict(zip(params, args, strict=False))
        for name, value in kwargs.items():
            target = name if name in self.kind_of else _ALIASES.get(name, name)
            if target not in self.kind_of:
                raise TypeError(f"{self.label}() got an unexpected keyword argument '{name}'")
            if target in bound:
                raise TypeError(f"{self.label}() got multiple values for argument '{name}'")
            bound[target] = value
        missing = [n for n in spec.params if n not in bound and n not in spec.defaults]
        if missing:
            listed = ", ".join(f'"{n}"' for n in missing)
            raise TypeError(f"{self.label}() missing {len(missing)} required positional arguments: {listed}")
        if spec.where and not spec.numbers:
            self._check_some_tensor(bound, *given)
        return {n: bound[n] for n in spec.params if n in bound}

    def _check_some_tensor(
        self, bound: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """PyTorch's refusal of numbers alone, and of a number in the place of the tensor to work on.

        It is that of an operation with several signatures: others than the first argument may be numbers.
        """
        arrays, strict = self._arrays, self.strict
        if all(n in strict or n in self.spec.defaults for n in arrays[1:]):
            return
        tensors = [n for n in arrays if isinstance(bound.get(n), Tensor | jax.Array)]
        first = bound[arrays[0]]
        if not tensors or (arrays[0] in strict and isinstance(first, int | float | complex)):
            given = [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
            raise TypeError(
                f"{self.label}() received an invalid combination of arguments - got ({', '.join(given)})"
            )

    def wrong(self, name: str, value: Any, wanted: str = "Tensor", positional: bool = True) -> str:
        """What an error says of a value of the wrong type."""
        place = f" (position {self.spec.params.index(name) + 1})" if positional else ""
        return f"{self.label}(): argument '{name}'{place} must be {wanted}, not {type(value).__name__}"

    def check(self, name: str, value: Any, positional: int) -> None:
        """PyTorch's refusal of an argument of the wrong type."""
        index = self.spec.params.index(name)
        if name in self.types:
            types, wanted = self.types[name]
            inside = value if isinstance(value, tuple) and tuple in types else ()
            if not is_symbolic_dim(value) and not (
                isinstance(value, types) and all(isinstance(v, int) or is_symbolic_dim(v) for v in inside)
            ):
                raise TypeError(self.wrong(name, value, wanted, index < positional))
        elif name not in self.strict:
            return
        elif self.kind_of[name] is ARRAYS:
            if not isinstance(value, list | tuple):
                raise TypeError(self.wrong(name, value, "tuple of Tensors"))
            for i, item in enumerate(value):
                if not isinstance(item, Tensor | jax.Array):
                    kind = type(item).__name__
                    raise TypeError(f"expected Tensor as element {i} in argument {index}, but got {kind}")
        elif not isinstance(value, Tensor | jax.Array) and (
            value is not None or name not in self.spec.defaults
        ):
            raise TypeError(self.wrong(name, value))


arguments_of = cache(Arguments)
