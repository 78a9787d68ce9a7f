"""`functionalize`: a function that mutates state as a pure function of that state, for JAX users."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import tracing
from .._array.storage import Storage
from .._base import config, contexts
from .._base.bounded import Bounded
from .._base.tuning import tuning
from .._run import autocast
from .._tensor.overriding import is_overriding
from .._tensor.tensor import Tensor, wrap
from .._tensor.tree import Structure, flatten_call, flatten_up_to, unflatten
from .names import name_cells
from .program import Program
from .results import Argument, Computed, Constant
from .sizes import Sizes
from .trace import trace

__all__ = ["Functionalized", "Pure", "functionalize"]


class Functionalized:
    """The pure form of a function: ``pure(state, *args) -> (outputs, new_state)``. Made by `functionalize`."""

    def __init__(self, fn: Callable[..., Any], rng: str = "jax") -> None:
        self._fn = fn
        self._rng = rng
        self._programs: Bounded[Any, Pure] = Bounded(tuning.cached_traces)

    def state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The current state that a call with such arguments reads or writes, by name.

        Args:
            args, kwargs: example arguments: Tensors, arrays, or `jax.ShapeDtypeStruct`.

        Returns:
            ``{name: jax.Array or number}``: parameters, buffers, gradients that are read, optimizer state,
            random keys, and
            the optimizers' hyperparameters as numbers.
        """
        return self._pure(args, kwargs)[0].read()

    def __call__(self, state: dict[str, Any], *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Run on ``state``; nothing outside is read or changed. Outputs are `jax.Array`s where the function
        gives Tensors.
        """
        pure, leaves = self._pure(args, kwargs)
        return pure(state, leaves)

    def load(self, state: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """Write a state back into the tensors and optimizers it came from.

        Args:
            state: as `state` or a call returned it.
            args, kwargs: the arguments it was made for, if the function was used with several signatures.
        """
        pure = (
            self._pure(args, kwargs)[0]
            if args or kwargs or len(self._programs) != 1
            else next(iter(self._programs.values()))
        )
        pure.write(state)

    def jaxpr(self, *args: Any, **kwargs: Any) -> Any:
        """The traced program, a closed jaxpr."""
        return self._pure(args, kwargs)[0].program.executable.jaxpr

    def _pure(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Pure, list[Any]]:
        """What was traced for such arguments, and their leaves in its order."""
        leaves, tree = flatten_call(args, kwargs)
        modes = autocast.key(), contexts.state.platform, config.key, config.kernels
        key = (tree, modes, *map(_signature, leaves))
        pure = self._programs.get(key)
        if pure is None and any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            for (known, under, *signature), other in self._programs.items():
                found = flatten_up_to(known, (args, kwargs))  # JAX has sorted the keys of dicts
                if found is not None and under == modes and signature == [*map(_signature, found)]:
                    return other, found
        if pure is None or not pure.program.guards.values.match():
            pure = self._programs[key] = Pure(self._fn, leaves, tree, self._rng)
        return pure, leaves


def _signature(leaf: Any) -> Any:
    value = leaf._value if isinstance(leaf, Tensor) else leaf
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        kind = (tuple(value.shape), np.dtype(value.dtype), isinstance(leaf, Tensor) and leaf.requires_grad)
        overrides = isinstance(leaf, Tensor) and type(leaf) is not Tensor and is_overriding(type(leaf))
        if overrides and leaf._own_attributes():
            raise NotImplementedError(
                f"functionalize: an argument of class {type(leaf).__name__} with attributes, which its "
                "__torch_function__ may read; give tensors and their attributes as arguments of their own"
            )
        return (*kind, type(leaf)) if overrides else kind
    return (type(leaf), None if type(leaf) is float else leaf)


def _example(leaf: Any) -> Any:
    """An argument for the trace: a concrete Tensor of the right shape."""
    if isinstance(leaf, Tensor) and not isinstance(leaf._value, jax.core.Tracer):
        return leaf
    value = leaf._value if isinstance(leaf, Tensor) else leaf
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic):
        with tracing.x64(), jax.ensure_compile_time_eval():
            made = wrap(jnp.zeros(value.shape, value.dtype))
        made._requires_grad = isinstance(leaf, Tensor) and leaf._requires_grad
        return made
    return leaf


class Pure:
    """One traced signature.

    Args:
        fn: the function.
        leaves: of the arguments that it is traced with, and ``tree``, their structure.
        rng: as for `functionalize`.
        sizes: those of arguments that stay symbols.
        checks: whether the program makes the checks of values that eager mode makes.

    Attributes:
        program: what was traced.
        cells: the Storages that it reads.
        names: by Storage the name, also of those that it only writes.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        leaves: list[Any],
        tree: Structure,
        rng: str,
        sizes: Sizes | None = None,
        checks: bool = False,
    ) -> None:
        if rng == "torch":
            raise NotImplementedError(
                'functionalize(rng="torch"): random numbers from the host are not state; use compile(fn, rng="torch")'
            )
        self.sizes = sizes
        examples = [_example(leaf) for leaf in leaves]
        with jax.core.eval_context():  # a transform of JAX that is running has no part in it
            program, first, overlay = trace(fn, examples, tree, rng, join=False, sizes=sizes, checks=checks)
        if any(cell in overlay.inside for cell in first.kept):
            overlay.undo()
            raise NotImplementedError(
                f"functionalize: {first.why_once}; a pure function cannot do that. Return it, or call the "
                f"function once "
                "eagerly first if it only makes its state then"
            )
        overlay.undo(structure=False)
        self.program: Program = program
        inputs = program.inputs
        self.cells: list[Storage] = [*inputs.donated, *inputs.cells]
        extra = [cell for cell, _, _ in program.effects.cells if cell not in set(self.cells)]
        self.names: dict[Storage, str] = name_cells(fn, [*self.cells, *extra])
        self.grads = {
            id(t): f"{self.names.get(t._storage) or name_cells(fn, [t._storage])[t._storage]}.grad"
            for t in inputs.grads
        }
        self.numbers = {
            name: f"{_owner(program, table)}{key}" + ("" if index is None else f"[{index}]")
            for name, (table, key, index, _) in inputs.numbers.places.items()
        }

    def read(self) -> dict[str, Any]:
        inputs = self.program.inputs
        state = {name: cell.array() for cell, name in self.names.items()}
        state.update({self.grads[id(t)]: t._grad._value for t in inputs.grads})
        for name, (table, key, index, _) in inputs.numbers.places.items():
            state[self.numbers[name]] = table[key] if index is None else table[key][index]
        return state

    def __call__(self, state: dict[str, Any], leaves: list[Any]) -> tuple[Any, dict[str, Any]]:
        return self.run(state, leaves)[:2]

    def run(self, state: dict[str, Any], leaves: list[Any]) -> tuple[Any, dict[str, Any], Any]:
        """The outputs, the new state, and the flags of the program's checks; None if it makes none."""
        inputs, effects, executable = self.program.inputs, self.program.effects, self.program.executable
        names = [self.names[cell] for cell in self.cells]
        _check(state, [*names, *self.grads.values()], executable.input_avals)
        env = {name: state[self.numbers[name]] for name in self.numbers}
        env.update({name: leaves[i] for name, i, _ in inputs.numbers.arguments})
        if self.sizes is not None:
            env.update(self.sizes.values(leaves))
        with tracing.x64():
            values = [state[n] for n in names]
            values += [leaves[i]._value if isinstance(leaves[i], Tensor) else leaves[i] for i in inputs.args]
            values += [state[self.grads[id(t)]] for t in inputs.grads]
            avals = executable.input_avals[len(values) :]
            values += [
                jnp.asarray(env[name], aval.dtype)
                for name, aval in zip(inputs.numbers.inputs, avals, strict=True)
            ]
            outs = executable.pure(values[: executable.count], values[executable.count :])
        new = dict(state)
        for cell, index, _ in effects.cells:
            new[self.names[cell]] = outs[index]
        for target, index in () if effects.grads is None else effects.grads.in_place + effects.grads.computed:
            if id(target) in self.grads:
                new[self.grads[id(target)]] = outs[index]
        places = {
            (id(table), key): self.numbers[name]
            for name, (table, key, index, _) in inputs.numbers.places.items()
            if index is None
        }
        for table, key, rule in effects.numbers:
            if (id(table), key) in places:
                new[places[(id(table), key)]] = rule(env)
        results = self.program.results
        found = [self._leaf(out, outs, leaves, env, new) for out in results.outputs]
        within = self.program.within
        return unflatten(results.tree, found), new, None if within is None else outs[within.index]

    def _leaf(self, out: Any, outs: Any, leaves: Any, env: Any, new: dict[str, Any]) -> Any:
        if isinstance(out, Computed):
            return outs[out.index]
        if isinstance(out, Argument):
            written = {i: index for i, index, _ in self.program.effects.args}
            if out.position in written:
                return outs[written[out.position]]
        found = out.make(outs, leaves, env, None, ())
        if not isinstance(found, Tensor):
            return found
        name = self.names.get(found._storage) if isinstance(out, Constant) else None
        return new[name] if name in new and found._view is None else found._value

    def write(self, state: dict[str, Any]) -> None:
        inputs = self.program.inputs
        _check(state, self.names.values(), [cell.array() for cell in self.names])
        _check(state, [*self.grads.values(), *self.numbers.values()])
        for cell, name in self.names.items():
            cell.value = jnp.asarray(state[name])
        for t in inputs.grads:
            t._grad._set_value(state[self.grads[id(t)]])
        for name, (table, key, index, old) in inputs.numbers.places.items():
            value = type(old)(state[self.numbers[name]])
            table[key] = (
                value
                if index is None
                else tuple(value if k == index else v for k, v in enumerate(table[key]))
            )


def _check(state: Mapping[str, Any], names: Iterable[str], like: Iterable[Any] = ()) -> None:
    """Raise for what a state does not have, or has in another shape or dtype."""
    for name, want in zip_longest(names, like):
        if name is None:
            return
        why = ""
        if name not in state:
            why = f"the state has no {name!r}"
        elif want is not None and hasattr(has := state[name], "dtype"):
            kinds = [(tuple(array.shape), array.dtype) for array in (has, want)]
            if kinds[0] != kinds[1]:
                texts = [f"{dtype}{list(shape)}" for shape, dtype in kinds]
                why = f"{name!r} is {texts[0]} in the state, and should be {texts[1]}"
        if why:
            error = KeyError if name not in state else ValueError
            raise error(f"{why}; it must be what `state(...)` returned, changed at will in its values only")


def _owner(program: Program, table: dict[Any, Any]) -> str:
    optimizers = program.guards.optimizers
    for n, (_, _, (groups, states)) in enumerate(optimizers):
        prefix = "optimizer" if len(optimizers) == 1 else f"optimizer{n}"
        for i, group in enumerate(groups):
            if group is table:
                return f"{prefix}.param_groups[{i}]."
        for i, (_, state) in enumerate(states):
            if state is table:
                return f"{prefix}.state[{i}]."
    return "numbers."


def functionalize(fn: Callable[..., Any], *, rng: str = "jax") -> Functionalized:
    """Turn a function that mutates state into ``pure(state, *args) -> (outputs, new_state)``.

    The state it reads and writes is found by tracing it once: parameters, buffers, optimizer state, random
    keys, tensors in
    closures and globals, and the optimizers' numbers. The result is plain JAX: it may be given to `jax.jit`,
    `jax.vmap`,
    `jax.lax.scan`, `jax.export`, or lowered for another device.

    Args:
        fn: the function; its tensor arguments are Tensors when it is traced, and may be arrays when ``pure`` is called.

    Example:
        >>> import functorch_port as torch
        >>> count = torch.zeros(())
        >>> def bump(x):
        ...     count.add_(1)
        ...     return x * count
        >>> pure = torch.functionalize(bump)
        >>> state = pure.state(torch.ones(2))
        >>> out, state = pure(state, torch.ones(2))
        >>> {k: float(v) for k, v in state.items()}, count
        ({'count': 1.0}, tensor(0.))
    """
    return Functionalized(fn, rng)
