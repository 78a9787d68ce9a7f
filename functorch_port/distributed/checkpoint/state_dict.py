"""The states of models and optimizers by the names of parameters: `get_state_dict`, `set_state_dict` and their parts.

The names are those that a parameter has in the model itself, without what wrappers add (``module.`` of
`DistributedDataParallel`, ``_orig_mod.`` of a compiled module).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import jax
import numpy as np

from ..._array import placed
from ..._tensor.creation import zeros_like
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor, wrap
from ...interchange._tree import changed
from ...nn._compiled import OptimizedModule
from ...nn._module import Module
from ...nn._state_dict import _IncompatibleKeys
from ...nn.parallel.distributed import DistributedDataParallel
from ...optim.optimizer import Optimizer
from ...serialization._tensors import tensor_at
from .._from_first import from_first
from ..tensor._api import _full_tensor, found_sharding

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

_STATE, _GROUPS, _PARAMS = "state", "param_groups", "params"
#: what wrappers call the module that they wrap
_WRAPPERS = ((DistributedDataParallel, "module"), (OptimizedModule, "_orig_mod"))
_HIDDEN = ("_checkpoint_wrapped_module", "_fsdp_wrapped_module")


@dataclass
class StateDictOptions:
    """How states are got and set.

    Attributes:
        full_state_dict: whether tensors on a mesh become ordinary ones with the whole value.
        cpu_offload: whether tensors go to the CPU. With ``full_state_dict``, only process 0 gets a state.
        ignore_frozen_params: whether parameters that require no gradient are left out.
        keep_submodule_prefixes: whether names of ``submodules`` begin with the name of the submodule.
        strict: as for `Module.load_state_dict`; also whether an optimizer must find the state of every parameter.
        broadcast_from_rank0: whether the others take the state that process 0 is given; needs ``full_state_dict``.
        flatten_optimizer_state_dict: whether an optimizer's state is one dict with dotted names.
        dsd_fqn_modifiers: the name of a method by which modules rename parts; only PyTorch's is taken.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict.StateDictOptions
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    if options.dsd_fqn_modifiers != "_fqn_modifiers":
        raise NotImplementedError(
            "StateDictOptions(dsd_fqn_modifiers=) is not supported: rename the entries of the state dict"
        )
    return options


def _listed(optimizers: Optimizer | Iterable[Optimizer]) -> tuple[Optimizer, ...]:
    return (optimizers,) if isinstance(optimizers, Optimizer) else tuple(optimizers)


# ------------------------------------------------------------------------- names


def _canonical(model: Module, name: str) -> str:
    """The name of a parameter, buffer or submodule without what wrappers add."""
    kept: list[str] = []
    at: Any = model
    for part in name.split("."):
        hidden = part in _HIDDEN or any(isinstance(at, kind) and part == inner for kind, inner in _WRAPPERS)
        if not hidden:
            kept.append(part)
        at = getattr(at, part, None)
    return ".".join(kept)


def _names(model: Module) -> dict[Tensor, list[str]]:
    """The names of each parameter; a tied one has several."""
    found: dict[Tensor, list[str]] = {}
    for name, param in model.named_parameters(remove_duplicate=False):
        found.setdefault(param, []).append(_canonical(model, name))
    return found


# ------------------------------------------------------------------------ getting


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of a model, by the names that it has without wrappers.

    Args:
        model: the model.
        submodules: deprecated: only the states of these parts of it.
        options: see `StateDictOptions`.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.checkpoint.state_dict import get_model_state_dict
        >>> list(get_model_state_dict(torch.compile(torch.nn.Linear(1, 1))))
        ['weight', 'bias']

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict.get_model_state_dict
    """
    options = _checked(options)
    state = cast(dict[str, Any], model.state_dict())
    for key in list(state):
        name = _canonical(model, key)
        if name != key:
            state[name] = state.pop(key)
    if submodules:
        state = _of_parts(model, state, submodules, options.keep_submodule_prefixes)
    if options.ignore_frozen_params:
        for key, param in model.named_parameters():
            if not param.requires_grad:
                state.pop(_canonical(model, key))
    return _moved(state, options)


def _of_parts(model: Module, state: dict[str, Any], parts: set[Module], keep: bool) -> dict[str, Any]:
    warnings.warn(
        "Getting submodules only model/optim state_dict is deprecated and will be removed in 2.5. This feature can be "
        "achieved by manually filtering out the state_dict returned from get_state_dict.",
        FutureWarning,
        stacklevel=3,
    )
    starts = [f"{_canonical(model, name)}." for name, part in model.named_modules() if part in parts]
    return {
        name if keep else name[len(start) :]: value
        for name, value in state.items()
        for start in starts
        if name.startswith(start)
    }


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of optimizers, by the names of the model's parameters.

    An optimizer that has made no step makes its state, as PyTorch's does, by a step with zero gradients and rates.

    Args:
        model: the model.
        optimizers: one or several, of its parameters.
        submodules: without effect, as in PyTorch; deprecated.
        options: see `StateDictOptions`.

    Raises:
        RuntimeError: there is no optimizer.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.checkpoint.state_dict import get_optimizer_state_dict
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> state = get_optimizer_state_dict(model, torch.optim.Adam(model.parameters()))
        >>> list(state["state"]), state["param_groups"][0]["params"]
        (['weight'], ['weight'])

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict.get_optimizer_state_dict
    """
    options, listed = _checked(options), _listed(optimizers)
    if not listed:
        raise RuntimeError("Optimizers are not passed in but optim_only is set to True.")
    return _moved(_named_state(model, listed, options), options)


def _named_state(
    model: Module, optimizers: tuple[Optimizer, ...], options: StateDictOptions
) -> dict[str, Any]:
    first = {param: names[0] for param, names in _names(model).items()}
    states: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in optimizers:
        made_state(optimizer)
        theirs = optimizer.state_dict()
        params = [*chain.from_iterable(group[_PARAMS] for group in optimizer.param_groups)]
        numbers = chain.from_iterable(group[_PARAMS] for group in theirs[_GROUPS])
        names = {number: first[param] for number, param in zip(numbers, params, strict=True)}
        states |= {names[number]: state for number, state in theirs[_STATE].items()}
        groups += [
            {**group, _PARAMS: [names[number] for number in group[_PARAMS]]} for group in theirs[_GROUPS]
        ]
    whole = {_STATE: states, _GROUPS: groups}
    return _flat(whole) if options.flatten_optimizer_state_dict else whole


def made_state(optimizer: Optimizer) -> None:
    """Have an optimizer that has made no step make its state, by a step with zero gradients and rates."""
    params = [p for group in optimizer.param_groups for p in group[_PARAMS]]
    if optimizer.state or any(p.grad is not None for p in params):
        return
    for param in params:
        if param.requires_grad:
            param.grad = zeros_like(param)
    rates = [group.get("lr") for group in optimizer.param_groups]
    for group, rate in zip(optimizer.param_groups, rates):
        if rate is not None:
            group["lr"] = zeros_like(rate) if isinstance(rate, Tensor) else 0.0
    try:
        with no_grad():
            optimizer.step(closure=None)
    finally:
        for group, rate in zip(optimizer.param_groups, rates):
            if rate is not None:
                group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)


_init_optim_state = made_state  # scripts import it


def _flat(state: Mapping[str, Any]) -> dict[str, Any]:
    """An optimizer's state as one dict, in which each parameter has the numbers of its group."""
    flat: dict[str, Any] = {}

    def put(values: Mapping[Any, Any], start: str) -> None:
        for key, value in values.items():
            name = f"{start}.{key}"
            if isinstance(value, Mapping):
                put(value, name)
            elif isinstance(value, Tensor | int | float):
                flat[name] = value
            else:
                raise NotImplementedError(
                    "Flattening optimizer state_dict only supports tensor, int, float, dict states now. "
                    f"Type is {type(value)}."
                )

    for name, values in state[_STATE].items():
        put(values, f"{_STATE}.{name}")
    for group in state[_GROUPS]:
        for name in group[_PARAMS]:
            flat |= {f"{_GROUPS}.{name}.{key}": value for key, value in group.items() if key != _PARAMS}
    return flat


def _moved(state: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """The state with its tensors where the options say."""
    if not (options.full_state_dict or options.cpu_offload):
        return state
    leads = jax.process_index() == 0 or not (options.full_state_dict and options.cpu_offload)
    moved = changed(state, lambda value: _one_moved(value, options, leads))
    return moved if leads else {}


def _one_moved(value: Any, options: StateDictOptions, leads: bool) -> Any:
    if not isinstance(value, Tensor) or value.is_meta:
        return value
    sharding = found_sharding(value)
    with no_grad():
        if options.full_state_dict:
            array = value._look()
            alone = isinstance(array, jax.Array) and not array.is_fully_addressable
            whole = (
                _full_tensor(value) if sharding is not None and (alone or not options.cpu_offload) else value
            )
            if not options.cpu_offload:
                return whole
            return tensor_at(np.asarray(whole.detach()._look()), "cpu") if leads else None
        if sharding is not None and value.device.type != "cpu":
            raise NotImplementedError(
                "StateDictOptions(cpu_offload=True) of tensors on a mesh needs full_state_dict=True; to save them, "
                "leave it out: each device's part is written from where it is"
            )
        return value.cpu()


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of a model and its optimizers: see `get_model_state_dict` and `get_optimizer_state_dict`.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict.get_state_dict
    """
    options, listed = _checked(options), _listed(optimizers)
    model_state = get_model_state_dict(model, submodules=submodules, options=options)
    return model_state, get_optimizer_state_dict(model, listed, options=options) if listed else {}


# ------------------------------------------------------------------------ setting


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load a state that `get_model_state_dict` returned, or one of the model without wrappers.

    Tensors of the model keep their placement. With ``full_state_dict``, those on the meta device are made.

    Args:
        model: the model.
        model_state_dict: the state.
        options: see `StateDictOptions`.

    Returns:
        ``missing_keys`` and ``unexpected_keys``, as `Module.load_state_dict`.

    Raises:
        RuntimeError: the state is empty, or does not fit.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict.set_model_state_dict
    """
    options = _checked(options)
    if any(isinstance(key, Module) for key in model_state_dict):
        raise NotImplementedError(
            "a state by modules is not supported: put the names of the modules before the names"
        )
    own = model.state_dict()
    if options.broadcast_from_rank0:
        by_name = {_canonical(model, key): value for key, value in own.items()}
        model_state_dict = from_first(model_state_dict, by_name)
    if not model_state_dict and options.strict and own and not options.ignore_frozen_params:
        raise RuntimeError(
            "The option indicates that model state_dict is required to save or load, but model state_dict is empty."
        )
    if not model_state_dict:
        return model.load_state_dict({}, strict=False)
    state = dict(model_state_dict)
    for key in own:
        name = _canonical(model, key)
        if name != key and name in state:
            state[key] = state.pop(name)
        elif name != key and options.strict:
            raise RuntimeError(f"Missing key: {name}.")
    on_meta = {key for key, value in own.items() if isinstance(value, Tensor) and value.is_meta}
    assign = bool(on_meta) and options.full_state_dict
    if assign:
        state |= {key: _like(own[key], state[key]) for key in own if key in state}
    return model.load_state_dict(state, strict=options.strict, assign=assign)


def _like(own: Any, value: Any) -> Any:
    """A value for a module that is to have it instead of its own: where that was placed."""
    if not isinstance(value, Tensor):
        return value
    sharding = placed.sharding_of(own._storage)
    if sharding is not None:
        placed.check(value.shape, sharding)
        return wrap(own._storage.held.new(value.detach()._look()))
    return value if own.is_meta else own.detach().clone().copy_(value)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load a state that `get_optimizer_state_dict` returned, also one of several optimizers.

    Args:
        model: the model.
        optimizers: one or several, of its parameters.
        optim_state_dict: the state, flat or not.
        options: see `StateDictOptions`.

    Raises:
        RuntimeError: there is no optimizer, or a parameter has no state in it (unless ``strict=False``).

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict.set_optimizer_state_dict
    """
    options, listed = _checked(options), _listed(optimizers)
    if not listed:
        raise RuntimeError("Optimizers are not passed in but optim_only is set to True.")
    if options.broadcast_from_rank0:
        optim_state_dict = from_first(optim_state_dict, _named_state(model, listed, StateDictOptions()))
    if not optim_state_dict:
        raise RuntimeError(
            "The option indicates that model state_dict is required to save, or load but optim state_dict is empty. "
            f"{optim_state_dict}"
        )
    names = _names(model)
    for optimizer in listed:
        made_state(optimizer)
        if _STATE in optim_state_dict:
            theirs = _part(optimizer, optim_state_dict, names, options.strict)
        else:
            theirs = _nested(optimizer, optim_state_dict, names)
        optimizer.load_state_dict(theirs)


def _part(
    optimizer: Optimizer, state: Mapping[str, Any], names: Mapping[Tensor, list[str]], strict: bool
) -> dict[str, Any]:
    """What belongs to one optimizer in a state of several."""
    if all(isinstance(key, int) for key in state[_STATE]):
        return dict(state)
    saved = {name: group for group in state[_GROUPS] for name in group[_PARAMS]}
    states: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        mine: list[str] = []
        for param in group[_PARAMS]:
            known = names[param]
            found = known if len(known) == 1 else [name for name in known if name in saved]
            mine += found
            for name in found if param.requires_grad else ():
                if name in state[_STATE]:
                    states[name] = state[_STATE][name]
                elif strict:
                    raise RuntimeError(
                        f"Missing optimizer state for parameter '{name}' in checkpoint. The parameter requires "
                        "gradients but has no saved optimizer state. To load anyway, use "
                        "StateDictOptions(strict=False)."
                    )
        theirs: Mapping[str, Any] = next((saved[name] for name in mine if name in saved), {})
        if not group[_PARAMS]:
            theirs = _without_parameters(state, optimizer)
        groups.append({_PARAMS: mine, **{key: value for key, value in theirs.items() if key != _PARAMS}})
    return {_STATE: states, _GROUPS: groups}


def _without_parameters(state: Mapping[str, Any], optimizer: Optimizer) -> Mapping[str, Any]:
    found = [group for group in state[_GROUPS] if not group[_PARAMS]]
    if len(found) != 1 or len(state[_GROUPS]) != len(optimizer.param_groups):
        raise ValueError(
            "There are param groups that have zero parameters. In such a case, DSD only support exactly one param "
            "group with zero parameters, and one optimizer."
        )
    return found[0]


def _nested(
    optimizer: Optimizer, flat: Mapping[str, Any], names: Mapping[Tensor, list[str]]
) -> dict[str, Any]:
    """One optimizer's state of the flat form."""
    states: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        keys = [key for key in group if key != _PARAMS]
        mine: list[str] = []
        for param in group[_PARAMS]:
            known = names[param]
            tied = len(known) > 1
            found = [n for n in known if not tied or any(f"{_GROUPS}.{n}.{key}" in flat for key in keys)]
            mine += found
            for name in found if param.requires_grad else ():
                states[name] = {key: _value(flat, f"{_STATE}.{name}.{key}") for key in optimizer.state[param]}
        made: dict[str, Any] = {_PARAMS: mine}
        for key in keys:
            made[key] = flat[f"{_GROUPS}.{mine[0]}.{key}"]
            for name in mine[1:]:
                other = flat.get(f"{_GROUPS}.{name}.{key}", made[key])
                if other != made[key]:
                    raise RuntimeError(
                        "All the parameters in the same parameter group should have the same saved param_group value. "
                        f"But {name}.{key} is {other} while other(s) is {made[key]}."
                    )
        groups.append(made)
    return {_STATE: states, _GROUPS: groups}


def _value(flat: Mapping[str, Any], name: str) -> Any:
    """A value of the flat form, or the dict that its parts make."""
    if name in flat:
        return flat[name]
    made: dict[str, Any] = {}
    for key, value in flat.items():
        if key.startswith(f"{name}."):
            *way, last = key[len(name) + 1 :].split(".")
            at = made
            for part in way:
                at = at.setdefault(part, {})
            at[last] = value
    return made


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Load the states of a model and its optimizers: see `set_model_state_dict` and `set_optimizer_state_dict`.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.state_dict.set_state_dict
    """
    listed = _listed(optimizers)
    if listed:
        set_optimizer_state_dict(model, listed, optim_state_dict, options=options)
    if not model_state_dict and not _checked(options).broadcast_from_rank0:
        return _IncompatibleKeys([], [])  # only the optimizers' is set
    return set_model_state_dict(model, model_state_dict, options=options)
