"""`export`: trace a module once, and make StableHLO of the trace."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.errors import ConcretizationTypeError, InconclusiveDimensionOperation

from .._array import tracing
from .._array.placed import sharding_of
from .._array.refusal import Check, unknown
from .._array.sizes import NeedsSize, SymSize
from .._array.storage import Storage
from .._base import alive, dtypes
from .._dynamo.exc import UserError
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor, wrap
from .._tensor.tree import flatten_call
from .._trace.functionalize import Pure
from ..nn._compiled import OptimizedModule
from ..nn._module import Module
from ._program import CHECKS, ExportedProgram, State
from ._signature import Input, InputKind, Output
from ._structure import LEAF, Structure, flattened, unflattened, unknown_input
from ._symbols import Declared, declared

__all__ = ["export"]

PLATFORMS = ("cpu", "cuda", "tpu")


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    platforms: Sequence[str] = PLATFORMS,
    weights: str = "beside",
) -> ExportedProgram:
    """Make a program of a module, which runs without its code: here, in another process, on another platform.

    The module is traced once, without gradients, in the mode it is in. Call ``eval()`` before for inference. What the
    module does to its buffers is part of the program. Python values that it reads are fixed.

    Args:
        mod: the module.
        args, kwargs: example arguments: tensors, plain values (which every call has to repeat), and lists, tuples,
            dicts, named tuples and registered dataclasses of them.
        dynamic_shapes: the sizes that may change, by argument: ``{"x": {0: Dim("batch")}}``, or a tuple. Default: none.
        strict: must be False, which is the default.
        preserve_module_call_signature, prefer_deferred_runtime_asserts_over_guards: must have their defaults.
        platforms: JAX's names of those that the program can run on. Default: cpu, cuda and tpu.
        weights: ``"beside"``: the program takes the weights as inputs, as PyTorch's does. ``"inside"``: they are
            constants of the program, and no parameters are left.

    Returns:
        The program. Its tensors are those of the module.

    Raises:
        UserError: ``dynamic_shapes`` does not fit the arguments, or the program does not hold for these sizes.
        NotImplementedError: the module draws random numbers, or writes to something else than buffers; or JAX has no
            such program for one of the platforms.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.export import Dim
        >>> model = torch.nn.Linear(4, 2).eval()
        >>> program = torch.export.export(model, (torch.ones(3, 4),), dynamic_shapes={"input": {0: Dim("batch")}})
        >>> program
        ExportedProgram:
            input   input: float32[batch, 4]
            output  output: float32[batch, 2]
            state   2 parameters
            runs on cpu, cuda, tpu
        Range constraints: {batch: VR[1, int_oo]}
        >>> program.module()(torch.ones(7, 4)).shape
        torch.Size([7, 2])

    Reference: https://docs.pytorch.org/docs/stable/export.html#torch.export.export
    """
    kwargs = dict(kwargs or {})
    _check(mod, args, strict, preserve_module_call_signature, prefer_deferred_runtime_asserts_over_guards)
    if weights not in ("beside", "inside"):
        raise ValueError(f"weights must be 'beside' or 'inside', got {weights!r}")
    if isinstance(platforms, str) or not platforms or not set(platforms) <= {*PLATFORMS, "rocm"}:
        raise ValueError(f"platforms must be some of {', '.join(PLATFORMS)}, got {platforms!r}")
    names, parameters = _bound(mod, args, kwargs)
    leaves, structure = _leaves(names, args, kwargs)
    tensors = [leaf for _, leaf in leaves if isinstance(leaf, Tensor)]
    order = {id(t): k for k, t in enumerate(tensors)}
    if len(order) < len(tensors):
        raise UserError("the same Tensor is given twice: export would take the two for one; give a clone()")
    sizes = declared(parameters, dynamic_shapes, order)
    traced = _traced(mod, leaves, structure, sizes)
    return _program(mod, traced, leaves, structure, (args, kwargs), tuple(platforms), weights == "inside")


def _check(mod: Any, args: Any, strict: Any, signature: Any, prefer: Any) -> None:
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise UserError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if isinstance(mod, OptimizedModule):
        raise NotImplementedError("export: what torch.compile(module) gave; export the module itself")
    for name, tensor in (*mod.named_parameters(), *mod.named_buffers()):
        if tensor.is_meta:
            raise ValueError(f"export: {name} is on the meta device, and has no values")
    for name, value in (
        ("strict", strict),
        ("preserve_module_call_signature", signature),
        ("prefer_deferred_runtime_asserts_over_guards", prefer),
    ):
        if value:
            raise NotImplementedError(
                f"export({name}={value!r}): there is no TorchDynamo and no FX graph here; leave it out"
            )


# ------------------------------------------------------------------ arguments


def _bound(mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The names of the positional arguments, and the arguments by parameter of ``forward``."""
    signature = inspect.signature(mod.forward)
    bound = signature.bind(*args, **kwargs).arguments
    names: list[str] = []
    for p in signature.parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}_{k}" for k in range(len(bound.get(p.name, ())))]
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name in bound:
            names.append(p.name)
    return names[: len(args)], bound


def _leaves(
    names: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[tuple[str, Any]], Structure]:
    """All leaves with their names, and the structure of ``(args, kwargs)``."""

    found: list[tuple[str, Any]] = []
    structures = []
    for name, value in (*zip(names, args, strict=True), *kwargs.items()):
        pairs, structure = flattened(value, unknown_input)
        found += [(f"{name}_{path}" if path else name, leaf) for path, leaf in pairs]
        structures.append(structure)
    found = [*zip(_unique([name for name, _ in found]), (leaf for _, leaf in found), strict=True)]
    for _, leaf in found:
        if not (isinstance(leaf, Tensor) or leaf is None or type(leaf) in (bool, int, float, str)):
            raise unknown_input(type(leaf))
    count = len(args)
    tree = ["tuple", None, [["tuple", None, structures[:count]], ["dict", list(kwargs), structures[count:]]]]
    return found, tree


def _unique(names: list[str]) -> list[str]:
    """The names, with a number after those that were there before."""
    found: list[str] = []
    for name in names:
        k = 1
        while (new := name if k == 1 else f"{name}_{k}") in found:
            k += 1
        found.append(new)
    return found


# ------------------------------------------------------------------ trace


class _Traced:
    """A module traced with some sizes as symbols.

    Attributes:
        pure: the pure function.
        outputs: the leaves of the result, by path: None for tensors, else a 1-tuple of the value.
    """

    def __init__(
        self, mod: Module, leaves: list[tuple[str, Any]], structure: Structure, sizes: Declared
    ) -> None:
        self.sizes = sizes
        self.outputs: list[tuple[str, tuple[Any] | None]] = []
        self.structure: Structure = LEAF

        def forward(*tensors: Tensor) -> list[Tensor]:
            left = iter(tensors)
            values = [next(left) if isinstance(leaf, Tensor) else leaf for _, leaf in leaves]
            args, kwargs = unflattened(structure, values)
            with no_grad():
                result = mod(*args, **kwargs)
            pairs, self.structure = flattened(result, _unknown_output)
            self.outputs = [(path, None if isinstance(x, Tensor) else (_plain(x),)) for path, x in pairs]
            return [x for _, x in pairs if isinstance(x, Tensor)]

        tensors = tuple(leaf.detach().clone() for _, leaf in leaves if isinstance(leaf, Tensor))
        for tensor in tensors:
            if tensor._sparse:
                raise NotImplementedError("export: an argument is a sparse tensor; give x.to_dense()")
        flat, tree = flatten_call(tensors, {})
        self.avals = [
            jax.ShapeDtypeStruct(sizes.shape(i, t.shape), t._value.dtype) for i, t in enumerate(flat)
        ]
        self.pure = _pure(forward, flat, tree, sizes)
        if sizes.ranges and self.pure.program.inputs.numbers.predicates:
            raise NeedsSize(
                "a number that follows from a size is tested, with another answer for other sizes"
            )


def _pure(fn: Any, leaves: list[Any], tree: Any, sizes: Declared) -> Pure:
    """The traced function, with errors that say what was going on."""
    try:
        return Pure(fn, leaves, tree, "jax", sizes, checks=True)
    except Exception as error:
        if sizes.ranges and _is_of_a_size(error):
            raise NeedsSize("an operation needs a size as a plain number") from error
        if isinstance(error, NotImplementedError):
            raise NotImplementedError(str(error).replace("functionalize:", "export:")) from error
        if sizes.ranges:
            error.add_note(
                f"torch.export traced the module with symbols for the sizes that may change: {', '.join(sizes.ranges)}"
            )
        raise


def _is_of_a_size(error: Exception) -> bool:
    """Whether JAX, or numpy, could not do with a symbol what it does with a number."""
    return isinstance(error, ConcretizationTypeError) or any(
        text in str(error) for text in ("dim_as_value", "_DimExpr")
    )


def _unknown_output(kind: Any) -> Exception:
    return RuntimeError(
        f"Found {kind} in output, which is not a known type. If this type holds tensors, register it with "
        "torch.export.register_dataclass, or return a tuple or dict"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, SymSize):
        raise NotImplementedError(
            f"export: the module returns the size {value.dim} as a number; return torch.tensor(size), or read it from "
            "the result's shape"
        )
    if value is not None and type(value) not in (bool, int, float, str):
        raise _unknown_output(type(value))
    return value


def _traced(mod: Module, leaves: list[tuple[str, Any]], structure: Structure, sizes: Declared) -> _Traced:
    """The module traced with these sizes, or as many of the automatic ones as it can have."""
    if not sizes.auto:
        return _with(mod, leaves, structure, sizes)
    tries = [sizes, joined] if (joined := sizes.joined()) else [sizes]
    tries += [tries[-1].without([name]) for name in sorted(tries[-1].auto) if len(tries[-1].auto) > 1]
    for one in tries:
        try:
            return _with(mod, leaves, structure, one)
        except Exception:  # what the module raises for a symbol may be anything; the last try shows it
            continue
    return _with(mod, leaves, structure, sizes.without([*sizes.auto]))


def _with(mod: Module, leaves: list[tuple[str, Any]], structure: Structure, sizes: Declared) -> _Traced:
    """The module traced with these sizes; from 2 on if it does not hold for 1 and the caller did not say 1."""
    fewer = sizes.from_two()
    for one in (sizes,) if fewer is None else (sizes, fewer):
        try:
            return _Traced(mod, leaves, structure, one)
        except (NeedsSize, InconclusiveDimensionOperation) as error:
            cause = error
    raise _does_not_hold(sizes, cause) from cause


def _does_not_hold(sizes: Declared, cause: Exception) -> UserError:
    why = str(cause).partition("\n")[0].rstrip(".")
    ranges = ", ".join(f"{name} in [{r.lower}, {r.upper or 'int_oo'}]" for name, r in sizes.ranges.items())
    return UserError(
        f"Constraints violated ({', '.join(sizes.ranges)})! The module does not hold for all sizes that are declared "
        f"({ranges}): {why}. Declare a smaller range, such as Dim(name, min=2, max=64), or leave out the dimension "
        "(None, Dim.STATIC)."
    )


# ------------------------------------------------------------------ program


def _program(
    mod: Module,
    traced: _Traced,
    leaves: list[tuple[str, Any]],
    structure: Structure,
    example: tuple[tuple[Any, ...], dict[str, Any]],
    platforms: tuple[str, ...],
    inside: bool,
) -> ExportedProgram:
    pure = traced.pure
    _refuse(pure)
    state, keys = _state(mod, pure.names)
    mutated = _mutated(pure, state, keys)
    values = {s.key: s.tensor._value for s in state if s.key is not None and s.key == s.target}
    fixed = {key: values.pop(key) for key in [*values] if inside and key not in mutated}
    names = {key: pure.names[cell] for cell, key in keys.items()}

    def forward(given: dict[str, Any], inputs: list[Any]) -> tuple[list[Any], dict[str, Any], list[Any]]:
        held = {**given, **fixed}
        outs, new, flags = pure.run({name: held[key] for key, name in names.items()}, inputs)
        return outs, {key: new[names[key]] for key in mutated}, [] if flags is None else [flags]

    avals = {key: jax.ShapeDtypeStruct(value.shape, value.dtype) for key, value in values.items()}
    try:
        with tracing.x64():
            exported = jax.export.export(jax.jit(forward), platforms=platforms)(avals, traced.avals)
    except InconclusiveDimensionOperation as error:
        raise _does_not_hold(traced.sizes, error) from error
    except (NotImplementedError, ValueError) as error:
        why = str(error).partition("\n")[0].partition(". ")[0]
        raise NotImplementedError(
            f"export: JAX makes no such program for {', '.join(platforms)}: {why}. platforms= chooses others"
        ) from error
    if inside:
        state = [s for s in state if s.key in mutated]
    return ExportedProgram(
        exported,
        state=state,
        inputs=traced.sizes.shapes([_input(name, leaf) for name, leaf in leaves]),
        outputs=_outputs(traced.outputs, exported),
        structures=(structure, traced.structure),
        mutated=mutated,
        checks=_checks(pure),
        ranges=traced.sizes.ranges,
        example=example,
    )


def _input(name: str, leaf: Any) -> Input:
    if isinstance(leaf, Tensor):
        return Input(name, leaf.dtype.name, tuple(map(int, leaf.shape)))
    return Input(name, None, value=leaf)


def _outputs(outputs: list[tuple[str, tuple[Any] | None]], exported: Any) -> list[Output]:
    avals = iter(exported.out_avals)
    found = []
    names = _unique([path or "output" for path, _ in outputs])
    for name, (_, value) in zip(names, outputs, strict=True):
        if value is not None:
            found.append(Output(name, None, value=value[0]))
            continue
        aval = next(avals)
        shape = tuple(n if isinstance(n, int) else str(n) for n in aval.shape)
        found.append(Output(name, dtypes.from_np(aval.dtype).name, shape))
    return found


def _state(mod: Module, cells: Collection[Storage]) -> tuple[list[State], dict[Storage, str]]:
    """The tensors beside the program, and the keys of those that it takes, which are those of ``cells``."""
    keys: dict[Storage, str] = {}
    state: list[State] = []

    def add(kind: InputKind, name: str, tensor: Tensor, persistent: bool | None = None) -> None:
        cell = tensor._storage
        if cell in cells and (tensor._view is not None or sharding_of(cell) is not None):
            raise NotImplementedError(
                f"export: {name} is a view of another tensor, has a memory format of its own, or is on several "
                "devices; make it a tensor of its own first: contiguous().clone(), or for a whole model "
                "model.to(memory_format=torch.contiguous_format)"
            )
        key = keys.setdefault(cell, name) if cell in cells else None
        state.append(State(kind, name, tensor, persistent, key))

    for name, parameter in mod.named_parameters(remove_duplicate=False):
        add(InputKind.PARAMETER, name, parameter)
    for name, buffer in mod.named_buffers(remove_duplicate=False):
        owner, _, last = name.rpartition(".")
        add(
            InputKind.BUFFER,
            name,
            buffer,
            last not in mod.get_submodule(owner)._non_persistent_buffers_set,
        )
    attributes = {
        tensor._storage: (f"{path}.{name}" if path else name, tensor)
        for path, one in mod.named_modules()
        for name, tensor in vars(one).items()
        if isinstance(tensor, Tensor) and tensor._view is None
    }
    for cell in cells:
        if cell not in keys:
            number = sum(s.target.startswith("lifted_tensor_") for s in state)
            name, tensor = attributes.get(cell) or (f"lifted_tensor_{number}", wrap(cell.array()))
            keys[cell] = name
            state.append(State(InputKind.CONSTANT_TENSOR, name, tensor, None, name))
    return state, keys


def _refuse(pure: Pure) -> None:
    """Raise for what only a Python function can do."""
    program = pure.program
    effects = program.effects
    if program.inputs.draws or any(generator._key in pure.names for generator in alive.generators):
        raise NotImplementedError(
            "export: the module draws random numbers, as dropout does in training mode; call module.eval() first"
        )
    if effects.args:
        raise NotImplementedError(
            "export: the module writes to one of its arguments; write to a clone() of it, and return that"
        )
    if effects.grads is not None or program.inputs.grads:
        raise NotImplementedError(
            "export: the module uses .grad; export what computes outputs, and train before"
        )
    if effects.places is not None:
        raise NotImplementedError(
            "export: the module assigns a tensor to an attribute. Such attributes must be registered as buffers, and "
            "written with copy_()"
        )


def _checks(pure: Pure) -> list[tuple[str, str]]:
    """What the program's checks raise: the type and the text, with question marks for what depends on values."""
    within = pure.program.within
    errors = [_error_of(check) for check, _ in ([] if within is None else within.checks)]
    names = [type(error).__name__ for error in errors]
    return [
        (name if name in CHECKS else "RuntimeError", str(e)) for name, e in zip(names, errors, strict=True)
    ]


def _error_of(check: Check) -> Exception:
    """An error that says what was checked, without the values that it failed for."""
    values = [np.zeros([n if isinstance(n, int) else 2 for n in v.shape], v.dtype) for v in check.values]
    try:
        return unknown(Check(check.bad, check.error, values))()
    except Exception:  # what is bad depends on a size that is not known
        return RuntimeError(
            "a check of values failed that eager mode makes too: an index, or another value, is out of range"
        )


def _mutated(pure: Pure, state: Sequence[State], keys: Mapping[Storage, str]) -> list[str]:
    """The keys of the buffers that the program writes to."""
    written = [keys[cell] for cell, _, _ in pure.program.effects.cells]
    kinds = {s.target: s.kind for s in state}
    for name in written:
        if kinds[name] is not InputKind.BUFFER:
            raise NotImplementedError(
                f"export: the module writes to {name}, which is no buffer; register it with register_buffer"
            )
    return written
