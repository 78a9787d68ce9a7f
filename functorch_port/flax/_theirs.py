"""`from_nnx`, `from_linen`: a flax module as an `nn.Module`.

The flax module is split into its structure, which is kept, and its arrays, which become parameters and buffers in a
tree of submodules with flax's names. A call is one operation on the tape: a function of arrays, which JAX traces and
differentiates, merges the arrays and the structure again.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import tracing
from .._base import dtypes, lowering
from .._base.bounded import Bounded
from .._base.jaxprs import pruned
from .._base.tuning import tuning
from .._random import generator as generators
from .._run.run import run
from .._tensor.plan import Plan
from .._tensor.tensor import Tensor, wrap
from .._tensor.tree import LEAF, Structure, flatten, flatten_call, unflatten
from .._tensor.tree import map as tree_map
from ..func._from_jax import as_input, is_array, narrowed
from ..nn._module import Module
from ..nn.parameter import Parameter
from ._load import linen, nnx

__all__ = ["FlaxModule", "from_linen", "from_nnx"]

Arrays = Sequence[Any]


class _Variables(Module):
    """One level of the tree of names."""

    def forward(self, *args: Any) -> Any:
        raise TypeError("this part of a wrapped flax module only holds its variables; call the whole module")


class FlaxModule(Module):
    """A flax module as an `nn.Module`; made by `from_nnx` and `from_linen`.

    ``train()`` and ``eval()`` set the flax module's mode. A call updates the buffers of the variables that it changes,
    such as running statistics. It draws a key from the generator if it uses random numbers.

    Attributes:
        generator: the `Generator` of its random numbers; None means the default one.
    """

    def __init__(self, parts: tuple[Any, Any], generator: Any = None) -> None:
        super().__init__()
        self.generator = generator
        self._places: list[tuple[dict[str, Any], str]] = []
        self._trees: list[Any] = []
        self._counts: list[int] = []
        #: whether the flax module has 64-bit types: the setting of JAX when it was wrapped
        self._x64 = jax.config.jax_enable_x64
        for tree, make in zip(parts, (Parameter, lambda t: t), strict=True):
            leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
            self._trees.append(structure)
            self._counts.append(len(leaves))
            for path, leaf in leaves:
                array = jnp.array(leaf)
                self._x64 = self._x64 or array.dtype != jax.dtypes.canonicalize_dtype(array.dtype)
                tensor = wrap(array)
                if make is Parameter:
                    tensor = Parameter(
                        tensor, requires_grad=tensor.is_floating_point() or tensor.is_complex()
                    )
                self._places.append(self._place(_names(path), tensor))
        self._calls: Bounded[Any, _Call] = Bounded(tuning.cached_plans)

    def _place(self, names: list[str], tensor: Tensor) -> tuple[dict[str, Any], str]:
        holder: Any = self
        for name in names[:-1]:
            holder = holder._modules.setdefault(name, _Variables())
        table = holder._parameters if isinstance(tensor, Parameter) else holder._buffers
        table[names[-1]] = tensor
        return table, names[-1]

    def _tensors(self) -> list[Tensor]:
        return [table[name] for table, name in self._places]

    def _parts(self, arrays: Arrays) -> list[Any]:
        """The parameters and the other variables, as flax's trees."""
        first = self._counts[0]
        return [t.unflatten(a) for t, a in zip(self._trees, (arrays[:first], arrays[first:]), strict=True)]

    def _apply_flax(
        self, parts: list[Any], key: Any, training: bool, args: Any, kwargs: Any
    ) -> tuple[Any, Any]:
        """Returns the output, and the tree of the other variables after the call."""
        raise NotImplementedError

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        state = self._tensors()
        leaves, tree = flatten_call(args, kwargs)
        given = [as_input(leaf) if is_array(leaf) else None for leaf in leaves]
        dynamic = [*state, *(t for t in given if t is not None)]
        static = tuple(None if t is not None else leaf for leaf, t in zip(leaves, given, strict=True))
        key = (self.training, tree, static, tuple((t._value.shape, t._value.dtype) for t in dynamic))
        try:
            call = self._calls.get(key)
        except TypeError:
            raise TypeError(
                f"{type(self).__name__}: arguments that are not tensors must be hashable, but got {static}"
            ) from None
        if call is None:
            where = [t is not None for t in given]
            call = self._calls[key] = _Call(self, self.training, tree, static, where, dynamic)
        words = [wrap(_words(self.generator))] if call.draws else []
        outs = run(call.plan, [*words, *dynamic])
        count = len(outs) - len(call.changed)
        for i, new in zip(call.changed, outs[count:], strict=True):
            state[i]._set_value(new._value)
        return unflatten(call.tree, outs[:count])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_calls": Bounded(tuning.cached_plans)}


class _Call:
    """The operation for one signature of calls.

    Attributes:
        plan: the operation. It takes the words of a key if ``draws``, the variables, and the tensors among the
            arguments; it returns the output's leaves and the variables that the call changes.
        tree: the structure of the output.
        draws: whether the call uses random numbers.
        changed: the indices of the variables that the call changes.
    """

    def __init__(
        self,
        module: FlaxModule,
        training: bool,
        tree: Structure,
        static: Any,
        where: list[bool],
        dynamic: Any,
    ) -> None:
        first, total = module._counts[0], sum(module._counts)
        self.tree = LEAF

        def whole(words: Any, *arrays: Any) -> tuple[list[Any], list[Any]]:
            values = iter(narrowed(arrays[total:], module._x64))
            leaves = [next(values) if dynamic else leaf for dynamic, leaf in zip(where, static, strict=True)]
            args, kwargs = unflatten(tree, leaves)
            with jax.enable_x64(module._x64), lowering.for_xla():
                key = _key(words)
                out, others = module._apply_flax(module._parts(arrays[:total]), key, training, args, kwargs)
            outs, self.tree = flatten(out)
            return outs, module._trees[1].flatten_up_to(others)

        words = jax.ShapeDtypeStruct((2,), np.uint32)
        avals = [jax.ShapeDtypeStruct(t._value.shape, t._value.dtype) for t in dynamic]
        with tracing.x64():
            jaxpr = jax.make_jaxpr(whole)(words, *avals)
        outvars, invars = jaxpr.jaxpr.outvars, jaxpr.jaxpr.invars
        count = self.tree.num_leaves
        self.changed = [
            first + i for i, new in enumerate(outvars[count:]) if new is not invars[1 + first + i]
        ]
        self.draws = pruned(jaxpr.jaxpr)[1][0]
        changed, draws = self.changed, self.draws

        def pure(*arrays: Any) -> tuple[Any, ...]:
            if draws:
                words, arrays = arrays[0], arrays[1:]
            else:
                words = np.zeros(2, np.uint32)
            outs, others = whole(words, *arrays)
            return (*outs, *(others[i - first] for i in changed))

        name = type(module).__name__
        self.plan = Plan(pure, name, f"{name}Backward0")


def _names(path: Any) -> list[str]:
    """A variable's names from its path in the tree, without the steps into the variable's box."""
    keys = [getattr(entry, "key", getattr(entry, "idx", None)) for entry in path]
    return [str(key).replace(".", "_") for key in keys if key is not None] or ["value"]


def _words(source: Any) -> Any:
    """Two random 32-bit numbers, from which `_key` makes a key."""
    return generators.draw(source, "integers", (2,), dtypes.int64, low=0, high=1 << 32)


def _key(words: Any) -> Any:
    words = words.astype(np.uint32)
    return jax.random.fold_in(jax.random.key(words[0]), words[1])


# ------------------------------------------------------------------------ NNX


class FromNnx(FlaxModule):
    def __init__(self, module: Any, generator: Any) -> None:
        parts = nnx().split(module, nnx().Param, nnx().RngState, ...)
        self._structure, params, self._rngs, others = parts
        super().__init__((params, others), generator)

    def _apply_flax(
        self, parts: list[Any], key: Any, training: bool, args: Any, kwargs: Any
    ) -> tuple[Any, Any]:
        module = nnx().merge(self._structure, parts[0], _reseeded(self._rngs, key), parts[1])
        module.train() if training else module.eval()
        out = module(*args, **kwargs)
        state = dict(nnx().to_flat_state(nnx().state(module)))
        others = [(path, state[path]) for path, _ in nnx().to_flat_state(parts[1])]
        return out, nnx().from_flat_state(others)

    def unwrap(self) -> Any:
        """A flax NNX module with copies of the current values."""
        parts = self._parts([jnp.array(t._value) for t in self._tensors()])
        return nnx().merge(self._structure, parts[0], self._rngs, parts[1])


def _reseeded(rngs: Any, key: Any) -> Any:
    """The state of the random streams, with keys derived from ``key``."""
    leaves, structure = jax.tree.flatten(rngs)
    keys = []
    for i, leaf in enumerate(leaves):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            own = jax.random.fold_in(key, i)
            keys.append(jax.random.split(own, leaf.shape) if leaf.shape else own)
        else:
            keys.append(jnp.zeros_like(leaf))  # the number of keys drawn so far
    return structure.unflatten(keys)


def from_nnx(module: Any, generator: Any = None) -> FlaxModule:
    """Wrap a flax NNX module as an `nn.Module`, for training loops as in PyTorch, eager and compiled.

    Its `nnx.Param`s become parameters, its other variables (running statistics, caches) buffers, named by their path,
    such as ``layers.0.kernel``. Values are copied: the flax module itself does not change, and ``unwrap()`` returns one
    with the current values. The generator replaces its random streams, so `manual_seed` governs them. ``train()`` and
    ``eval()`` set the mode of the whole module, which starts in training mode.

    Args:
        module: a `flax.nnx.Module`.
        generator: the `Generator` of its random numbers; None means the default one.

    Returns:
        The module. A call passes tensors to the flax module as arrays; other arguments must be hashable.

    Raises:
        TypeError: ``module`` is not an NNX module.
        ModuleNotFoundError: flax is not installed.

    Example:
        >>> import functorch_port as torch
        >>> from flax import nnx
        >>> model = torch.flax.from_nnx(nnx.Linear(2, 1, rngs=nnx.Rngs(0)))
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> model(torch.ones(3, 2)).sum().backward()
        >>> optimizer.step()
        >>> [(name, tuple(p.shape)) for name, p in model.named_parameters()]
        [('bias', (1,)), ('kernel', (2, 1))]

    Reference: https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/module.html
    """
    if not isinstance(module, nnx().Module):
        raise TypeError(f"from_nnx needs a flax.nnx.Module, but got {type(module).__name__}")
    return FromNnx(module, generator)


# ---------------------------------------------------------------------- Linen

#: arguments that tell a Linen module its mode, and their values in training mode
_MODE_ARGUMENTS = {
    "train": True,
    "training": True,
    "is_training": True,
    "deterministic": False,
    "use_running_average": False,
}


class FromLinen(FlaxModule):
    def __init__(self, module: Any, variables: Any, generator: Any) -> None:
        self._module = module
        self._signature = inspect.signature(type(module).__call__)
        variables = dict(variables)
        params = {"params": variables.pop("params", {})}
        super().__init__((params["params"], variables), generator)
        self._collections = list(variables)

    def _apply_flax(
        self, parts: list[Any], key: Any, training: bool, args: Any, kwargs: Any
    ) -> tuple[Any, Any]:
        variables = {"params": parts[0], **parts[1]}
        kwargs = _with_mode(self._signature, training, args, kwargs)
        out, others = self._module.apply(
            variables, *args, rngs={"params": key}, mutable=self._collections, **kwargs
        )
        return out, {**parts[1], **others}

    def unwrap(self) -> tuple[Any, dict[str, Any]]:
        """The Linen module, and its variables with copies of the current values."""
        params, others = self._parts([jnp.array(t._value) for t in self._tensors()])
        return self._module, {"params": params, **others}


def _with_mode(signature: inspect.Signature, training: bool, args: Any, kwargs: Any) -> Any:
    """The keyword arguments, with the mode added if the module takes it and the caller did not pass it."""
    given = {*signature.bind_partial(None, *args, **kwargs).arguments, *kwargs}
    mode = {name: training == on for name, on in _MODE_ARGUMENTS.items()}
    names = [name for name in mode if name in signature.parameters and name not in given]
    return {**kwargs, **{name: mode[name] for name in names}}


def from_linen(
    module: Any, *args: Any, variables: Any = None, generator: Any = None, **kwargs: Any
) -> FlaxModule:
    """Wrap a flax Linen module as an `nn.Module`, for training loops as in PyTorch, eager and compiled.

    The collection ``"params"`` becomes the parameters, named by their path, such as ``Dense_0.kernel``; the others
    become buffers (``batch_stats.BatchNorm_0.mean``), which are mutable in every call. The generator provides the keys
    of all random streams. A call sets ``train``, ``training``, ``deterministic`` or ``use_running_average`` from the
    module's mode, if the Linen module takes it and the caller does not pass it. ``unwrap()`` returns the Linen module
    and its current variables.

    Args:
        module: a `flax.linen.Module`.
        *args, **kwargs: example arguments of a call, to initialise the variables with, from the generator.
        variables: the variables, as ``module.init`` returns them; then no example is needed.
        generator: the `Generator` of its random numbers; None means the default one.

    Raises:
        TypeError: ``module`` is not a Linen module, or neither an example nor variables are passed.
        ModuleNotFoundError: flax is not installed.

    Example:
        >>> import functorch_port as torch
        >>> from flax import linen
        >>> model = torch.flax.from_linen(linen.Dense(1), torch.ones(3, 2))
        >>> model(torch.ones(3, 2)).sum().backward()
        >>> {name: tuple(p.grad.shape) for name, p in model.named_parameters()}
        {'bias': (1,), 'kernel': (2, 1)}

    Reference: https://flax-linen.readthedocs.io/en/latest/api_reference/flax.linen/module.html
    """
    if not isinstance(module, linen().Module):
        raise TypeError(f"from_linen needs a flax.linen.Module, but got {type(module).__name__}")
    if variables is None:
        if not args and not kwargs:
            raise TypeError(
                "from_linen needs an example of the module's arguments to initialise it, or its variables: pass either"
            )
        words = _words(generator)
        args, kwargs = tree_map(lambda x: x._value if isinstance(x, Tensor) else x, (args, kwargs))
        kwargs = _with_mode(inspect.signature(type(module).__call__), False, args, kwargs)
        variables = module.init(_key(words), *args, **kwargs)
    return FromLinen(module, variables, generator)
