"""`FullyShardedDataParallel`, the wrapper that came before `fully_shard`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from functools import partial
from typing import Any, NoReturn

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from ..._array import executor, tracing
from ..._array.placed import place, sharding_of
from ..._base import agreement
from ..._base.dtypes import float32
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor, wrap
from ...nn._module import Module
from ...nn.modules.container import ModuleDict, ModuleList
from ...nn.parallel import _border
from ...nn.utils.clip_grad import clip_grad_norm_
from .. import device_mesh as meshes
from .._from_first import from_first
from .._wrapper import Wrapper
from ..tensor._api import found_sharding
from ._fully_shard import axes_of, default_mesh
from ._policies import MixedPrecisionPolicy
from ._unit import ATTRIBUTE, Unit, cast, unit_of
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from .wrap import _or_policy, _Policy, wrap_by

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig", "FullyShardedDataParallel",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig", "OptimStateKeyType",
    "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig",
    "StateDictSettings", "StateDictType",
]  # fmt: skip

_WRAPPED = "_fsdp_wrapped_module"
_PREFIX = f"{_WRAPPED}."
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_CONFIGS = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}


class OptimStateKeyType(Enum):
    """What the keys of an optimizer's state dict are: names of parameters, or numbers."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


class FullyShardedDataParallel(Wrapper):
    """Wrapper of a module whose parameters are split over devices, and whole only while the module runs.

    `fully_shard` does the same without a wrapper. Parameters stay as they are, each split along one of its dimensions:
    PyTorch makes one flat parameter of them unless ``use_orig_params=True``.

    Args:
        module: the module.
        process_group: must be None, or the group of all processes.
        sharding_strategy: see `ShardingStrategy`; ``FULL_SHARD`` unless given.
        cpu_offload: ``CPUOffload(True)`` keeps parameters, gradients and the optimizer's state on the hosts, in one
            process.
        auto_wrap_policy: chooses modules inside to be wrapped, too; see `fsdp.wrap`.
        mixed_precision: dtypes; see `MixedPrecision`.
        ignored_modules, ignored_states: modules, or parameters, that stay as they are.
        param_init_fn: initialises a module on the meta device, in place of its ``reset_parameters``.
        sync_module_states: in several processes, whether the values of the first count. Else each keeps its own part.
        backward_prefetch, device_id, forward_prefetch, limit_all_gathers, use_orig_params: how PyTorch communicates;
            XLA has its own ways.
        device_mesh: the devices, by default all of them; for hybrid strategies of two dimensions (by default machines,
            and the devices of each).

    Raises:
        NotImplementedError: for what must be None, and a mesh of some of several processes.
        ValueError: both ``ignored_modules`` and ``ignored_states``.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.fsdp import FullyShardedDataParallel as FSDP
        >>> list(FSDP(torch.nn.Linear(8, 8)).state_dict())
        ['weight', 'bias']

    Reference: https://docs.pytorch.org/docs/stable/fsdp.html
    """

    wrapped = _WRAPPED

    @agreement.telling("FullyShardedDataParallel")
    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None,
        device_mesh: Any = None,
    ) -> None:
        super().__init__()
        _border.check_group(process_group, "FullyShardedDataParallel")
        if mixed_precision is not None and mixed_precision.keep_low_precision_grads:
            _refuse("keep_low_precision_grads=True", "gradients have the dtype of their parameters")
        if isinstance(module, ModuleList | ModuleDict):
            warnings.warn(
                f"FSDP will not all-gather parameters for containers that do not implement forward: {module}",
                stacklevel=3,
            )
        modules, params = _ignored(ignored_modules, ignored_states)
        strategy = ShardingStrategy.FULL_SHARD if sharding_strategy is None else sharding_strategy
        mesh = _mesh(strategy, device_mesh)
        if auto_wrap_policy is not None:
            options = {
                "sharding_strategy": strategy, "mixed_precision": mixed_precision, "param_init_fn": param_init_fn,
                "ignored_states": params, "device_mesh": mesh, "sync_module_states": sync_module_states,
                "cpu_offload": cpu_offload,
            }  # fmt: skip
            _wrap_inside(module, auto_wrap_policy, modules, params, options, mixed_precision)
        #: as PyTorch has them
        self.sharding_strategy, self.mixed_precision = strategy, mixed_precision or MixedPrecision()
        self._use_orig_params = use_orig_params
        self._fsdp_wrapped_module = module
        replicated, split = axes_of(mesh, None)
        if strategy is ShardingStrategy.NO_SHARD:
            replicated, split = (*replicated, *split), ()
        reshard = None if strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD) else False
        wanted = self.mixed_precision
        policy = MixedPrecisionPolicy(
            wanted.param_dtype, wanted.reduce_dtype, cast_forward_inputs=wanted.cast_forward_inputs
        )
        unit = Unit(
            self, mesh, split, (*replicated, *split), policy, reshard, params, wanted.cast_root_forward_inputs
        )
        unit.members = [part for part in unit.members if part not in modules]
        unit.place(None, sync_module_states, cpu_offload is not None and cpu_offload.offload_params)
        self.__dict__[ATTRIBUTE] = unit
        _initialise(unit, param_init_fn)
        #: buffers' names in the modules that have them -> their dtypes in a state dict
        self._buffer_dtypes = _cast_buffers(unit, wanted.buffer_dtype)
        self._settings = StateDictSettings(
            StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig()
        )
        self._clean_names = False
        self._register_state_dict_hook(_after_state_dict)
        self.register_load_state_dict_pre_hook(_before_load)

    # ---------------------------------------------------------------- the module

    @property
    def module(self) -> Any:
        """The wrapped module."""
        inner: Any = self._modules[_WRAPPED]
        return getattr(inner, "_checkpoint_wrapped_module", inner)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inner: Any = self._modules[_WRAPPED]
        return self._unit().run(inner, args, kwargs)

    def _unit(self) -> Unit:
        found = unit_of(self)
        assert found is not None
        return found

    def check_is_root(self) -> bool:
        """Whether this is in no other one."""
        return self._unit().root

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """All of these in a module, or those that are in no other one."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        return [m for m in found if not root_only or m.check_is_root()]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """As of every module; in `summon_full_params` with the names of the wrapped module."""
        for name, param in super().named_parameters(*args, **kwargs):
            yield (name.replace(_PREFIX, "") if self._clean_names else name), param

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        """As of every module; in `summon_full_params` with the names of the wrapped module."""
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield (name.replace(_PREFIX, "") if self._clean_names else name), buffer

    # ---------------------------------------------------------------- training

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale the gradients of all parameters so that their norm is at most ``max_norm``; gives the norm before."""
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Changes nothing: gradients are added up over the devices in each backward pass."""
        yield

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Not supported.

        Raises:
            NotImplementedError: always.
        """
        _refuse("register_comm_hook", "XLA adds up the gradients")

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """Parameters have the names of the wrapped modules. They are the whole ones, inside of the block and outside.

        In several processes each has all their numbers inside, and all are to write the same.

        Args:
            module: a module that has these inside.
            recurse: whether those inside of others count, too.
            writeback: False: what is written to parameters is undone at the end.
            rank0_only, offload_to_cpu, with_grads: accepted; gradients stay where they are.

        Raises:
            NotImplementedError: both ``writeback`` and ``rank0_only``, as in PyTorch.
        """
        if writeback and rank0_only:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported yet")
        found = FullyShardedDataParallel.fsdp_modules(module, root_only=not recurse)
        before = [] if writeback else [(p, p.detach().clone()) for p in module.parameters()]
        for part in found:
            part._clean_names = True
        units = [part._unit() for part in found if part._unit().border is not None]
        cells = {id(p): p._storage for unit in units for _, _, p in unit.slots()}.values()
        split = [(cell, cell.held) for cell in cells if sharding_of(cell) is not None]
        for cell, held in split:
            place(cell, NamedSharding(held.sharding.mesh, PartitionSpec()), held.mesh)
        try:
            yield
        finally:
            for cell, held in split:
                place(cell, held.sharding, held.mesh)
            for part in found:
                part._clean_names = False
            with no_grad():
                for param, value in before:
                    param.copy_(value)

    # ---------------------------------------------------------------- state dicts

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Choose the kind of state dicts of all of these in a module; gives what was chosen before.

        Raises:
            NotImplementedError: for ``LOCAL_STATE_DICT``.
        """
        if state_dict_type not in _CONFIGS:
            _refuse("LOCAL_STATE_DICT", "use SHARDED_STATE_DICT")
        own, optim = _CONFIGS[state_dict_type]
        config = own() if state_dict_config is None else state_dict_config
        optim_config = optim() if optim_state_dict_config is None else optim_state_dict_config
        for given, kind in ((config, own), (optim_config, optim)):
            if type(given) is not kind:
                raise RuntimeError(f"Expected state_dict_config of type {kind} but got {type(given)}")
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for part in FullyShardedDataParallel.fsdp_modules(module):
            part._settings = StateDictSettings(state_dict_type, config, optim_config)
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """The kind of state dicts that a module gives."""
        found = FullyShardedDataParallel.fsdp_modules(module)
        if not found:
            return StateDictSettings(
                StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig()
            )
        return found[0]._settings

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """As `set_state_dict_type`, for a block."""
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            FullyShardedDataParallel.set_state_dict_type(
                module, before.state_dict_type, before.state_dict_config, before.optim_state_dict_config
            )

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: dict[str, Any] | None = None, group: Any = None
    ) -> dict[str, Any]:
        """The state dict of an optimizer of the model's parameters, with their names as keys.

        Args:
            model: the model.
            optim: the optimizer.
            optim_state_dict: its state dict; made unless given.
            group: must be None, or the group of all processes.
        """
        _border.check_group(group, "FullyShardedDataParallel")
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        names = _names_of(model, optim)
        given = optim.state_dict() if optim_state_dict is None else optim_state_dict
        offload = settings.optim_state_dict_config.offload_to_cpu
        whole = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        take = partial(_taken, whole=whole, offload=offload)
        state = {names[i]: {k: take(v) for k, v in entries.items()} for i, entries in given["state"].items()}
        groups = [{**g, "params": [names[i] for i in g["params"]]} for g in given["param_groups"]]
        if whole and settings.optim_state_dict_config.rank0_only and jax.process_index():  # type: ignore[attr-defined]
            return {}
        return {"state": state, "param_groups": groups}

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Any,
        optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:
        """What ``optim.load_state_dict`` takes, from what `optim_state_dict` gave.

        Args:
            model: the model.
            optim: the optimizer.
            optim_state_dict: the state dict with names as keys. With ``rank0_only``, that of the first process.
            is_named_optimizer: must be False.
            load_directly: load it.
            group: must be None, or the group of all processes.
        """
        _border.check_group(group, "FullyShardedDataParallel")
        if is_named_optimizer:
            _refuse("is_named_optimizer=", "optimizers have numbers as keys")
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        if getattr(settings.optim_state_dict_config, "rank0_only", False):
            optim_state_dict = from_first(optim_state_dict, {})
        number = {name: i for i, name in _names_of(model, optim).items()}
        state = {number[name]: entries for name, entries in optim_state_dict["state"].items()}
        groups = [{**g, "params": [number[n] for n in g["params"]]} for g in optim_state_dict["param_groups"]]
        made = {"state": state, "param_groups": groups}
        if load_directly:
            optim.load_state_dict(made)
        return made

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None
    ) -> dict[str, Any]:
        """`optim_state_dict` of whole tensors, in the first process alone unless ``rank0_only=False``."""
        kind, config = StateDictType.FULL_STATE_DICT, FullOptimStateDictConfig(rank0_only=rank0_only)
        with FullyShardedDataParallel.state_dict_type(model, kind, None, config):
            return FullyShardedDataParallel.optim_state_dict(model, optim, group=group)

    @staticmethod
    def sharded_optim_state_dict(model: Module, optim: Any, group: Any = None) -> dict[str, Any]:
        """`optim_state_dict` of tensors as they lie on the devices."""
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            return FullyShardedDataParallel.optim_state_dict(model, optim, group=group)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any], model: Module, optim_input: Any = None, optim: Any = None
    ) -> dict[str, Any]:
        """`optim_state_dict_to_load`: an optimizer splits what it loads."""
        return FullyShardedDataParallel.optim_state_dict_to_load(model, optim, full_optim_state_dict)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any] | None,
        model: Module,
        optim_input: Any = None,
        optim: Any = None,
        group: Any = None,
    ) -> dict[str, Any]:
        """`optim_state_dict_to_load` of what the first process has: an optimizer splits what it loads."""
        _border.check_group(group, "FullyShardedDataParallel")
        given = from_first(full_optim_state_dict or {}, {})
        return FullyShardedDataParallel.optim_state_dict_to_load(model, optim, given)

    @staticmethod
    def flatten_sharded_optim_state_dict(
        sharded_optim_state_dict: dict[str, Any], model: Module, optim: Any
    ) -> dict[str, Any]:
        """`optim_state_dict_to_load`."""
        return FullyShardedDataParallel.optim_state_dict_to_load(model, optim, sharded_optim_state_dict)


def _refuse(what: str, instead: str) -> NoReturn:
    raise NotImplementedError(f"FullyShardedDataParallel: {what} is not supported: {instead}")


def _ignored(modules: Any, states: Any) -> tuple[set[Module], set[Any]]:
    """The modules and the parameters that stay as they are."""
    if modules is not None and states is not None:
        raise ValueError(
            "Cannot pass both ignored_modules and ignored_states at the same time. Please just pass ignored_states."
        )
    given = list((modules if modules is not None else states) or ())
    chosen = {part for m in given if isinstance(m, Module) for part in m.modules()}
    params = {p for m in given if isinstance(m, Module) for p in m.parameters()}
    return chosen, params | {p for p in given if isinstance(p, Tensor)}


def _mesh(strategy: ShardingStrategy, mesh: Any) -> Any:
    if mesh is not None:
        mesh = meshes.mesh_of(mesh)
        if strategy in _HYBRID and mesh.ndim != 2:
            raise ValueError(f"{strategy} needs a device_mesh of two dimensions, not {mesh}")
        return mesh
    mesh = default_mesh()
    if strategy in _HYBRID and mesh.ndim == 1:
        hosts = jax.process_count() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        names = ("replicate", "shard")
        return meshes.init_device_mesh(mesh.device_type, (hosts, mesh.size() // hosts), mesh_dim_names=names)
    return mesh


def _wrap_inside(
    module: Module, policy: Any, ignored: set[Module], params: set[Any], options: dict[str, Any], mixed: Any
) -> None:
    """Wrap what a policy chooses, and what is not to compute in lower precision."""
    kinds = () if mixed is None else tuple(mixed._module_classes_to_ignore)
    apart = [m for m in module.modules() if isinstance(m, kinds) and m not in ignored] if kinds else []
    for part in apart:
        part._wrap_overrides = {"mixed_precision": None}  # type: ignore[assignment]
        part.register_forward_pre_hook(_as_float32)
        part.register_forward_hook(partial(_as_before, mixed.param_dtype))

    def with_these(chosen: dict[Module, dict[str, Any]]) -> None:
        for part in apart:
            chosen[part] = {**chosen.get(part, options), "mixed_precision": None}

    if kinds and apart and not isinstance(policy, _Policy):
        theirs = lambda module, recurse, nonwrapped_numel: recurse or isinstance(module, kinds)
        policy = partial(_or_policy, policies=[policy, theirs])
    wrap_by(module, policy, FullyShardedDataParallel, ignored, params, options, with_these)


def _as_float32(module: Module, args: Any) -> Any:
    return cast(args, float32)


def _as_before(dtype: Any, module: Module, args: Any, out: Any) -> Any:
    return out if dtype is None else cast(out, dtype)


def _initialise(unit: Unit, init: Callable[[Module], None] | None) -> None:
    """Have modules on the meta device get values, of which each device makes its part."""
    for module in () if unit.mesh.topology else unit.members:
        own = [t for table in (module._parameters, module._buffers) for t in table.values() if t is not None]
        if any(t.is_meta for t in own):
            module.to_empty(device=unit.mesh.device_type, recurse=False)
            if init is not None:
                init(module)
            else:
                module.reset_parameters()


def _cast_buffers(unit: Unit, dtype: Any) -> dict[tuple[Module, str], Any]:
    found = {}
    for module in unit.members if dtype is not None else ():
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.is_floating_point() and buffer.dtype != dtype:
                found[module, name] = buffer.dtype
                buffer.data = buffer.to(dtype)
    tracing.bump_epoch()
    return found


def _after_state_dict(module: Any, state: Any, prefix: str, metadata: Any) -> Any:
    """Names without those of wrappers, and tensors as they were chosen."""
    dtypes = {}
    for (owner, name), dtype in module._buffer_dtypes.items():
        path = next((path for path, part in module.named_modules() if part is owner), "")
        dtypes[prefix + (f"{path}.{name}" if path else name).replace(_PREFIX, "")] = dtype
    settings = module._settings
    whole = settings.state_dict_type is StateDictType.FULL_STATE_DICT
    leads = not (whole and settings.state_dict_config.rank0_only and jax.process_index())
    for key in [key for key in state if key.startswith(prefix)]:
        value = state.pop(key)
        clean = (
            prefix + key[len(prefix) :].replace(_PREFIX, "", 1)
            if key[len(prefix) :].startswith(_PREFIX)
            else key
        )
        if isinstance(value, Tensor):
            if clean in dtypes:
                value = value.to(dtypes[clean])
            if not value.requires_grad:  # keep_vars=True gives the parameters themselves
                value = _taken(value, whole, settings.state_dict_config.offload_to_cpu)
        if leads:
            state[clean] = value
    return state


def _before_load(module: Any, state: Any, prefix: str, *rest: Any) -> None:
    for key in [key for key in state if key.startswith(prefix)]:
        name = key[len(prefix) :]
        if not name.startswith(_PREFIX):
            state[prefix + _PREFIX + name] = state.pop(key)


def _taken(value: Any, whole: bool, offload: bool) -> Any:
    """An entry of a state dict: whole, or as it lies; on the host, if that is asked for."""
    if not isinstance(value, Tensor) or value.is_meta or found_sharding(value) is None:
        return value
    if not whole:
        return value
    if offload and not _border.is_global(value):
        return wrap(executor.current.place(np.array(value.detach()._value)))
    full = value.detach().full_tensor()  # type: ignore[attr-defined]
    return full.cpu() if offload else full


def _names_of(model: Module, optim: Any) -> dict[int, str]:
    """The names of an optimizer's parameters by their numbers."""
    names = {id(p): name.replace(_PREFIX, "") for name, p in model.named_parameters()}
    params = [p for group in optim.param_groups for p in group["params"]]
    return {i: names[id(p)] for i, p in enumerate(params)}
