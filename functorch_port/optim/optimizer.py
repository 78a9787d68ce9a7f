"""The `Optimizer` base class: parameter groups, per-parameter state, hooks, `state_dict`."""

from __future__ import annotations

import functools
import time
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any, Self, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from .._array import executor, placed, placing, tracing
from .._array.donation import Before, whole
from .._array.storage import Storage
from .._base import alive, dtypes, inside, modes, progress, scopes, watch
from .._tensor import grad_mode
from .._tensor.node import RemovableHandle
from .._tensor.tensor import Tensor
from ..nn._hooks import register
from ._small import join_state

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT: TypeAlias = Iterable[Tensor | dict[str, Any] | tuple[str, Tensor]]
StateDict: TypeAlias = dict[str, Any]


class _RequiredParameter:
    """Marker of an entry of ``defaults`` that every group must set."""

    def __repr__(self) -> str:
        return "<required parameter>"

    def __deepcopy__(self, memo: dict[int, Any]) -> _RequiredParameter:
        return self

    def __reduce__(self) -> str:
        return "required"


required = _RequiredParameter()

_step_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_step_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
_HOOK_TABLES = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before the step of every optimizer.

    Args:
        hook: may return None or a new ``(args, kwargs)``.

    Returns:
        A handle whose ``remove()`` removes the hook.
    """
    return register(_step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after the step of every optimizer; returns a handle."""
    return register(_step_post_hooks, hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """``step`` with its pre-hooks and post-hooks; a trace in progress is notified."""

    @functools.wraps(step)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        self = args[0]
        run = step
        if tracing.overlay:
            tracing.overlay.note_stateful(self)
            self._once_traced = True
            run = scopes.naming(f"{type(self).__name__}.step", step)
        else:
            if watch.on and watch.state.profile is not None:
                run = watch.state.profile.naming(f"Optimizer.step#{type(self).__name__}.step", step, self)
            if tracing.in_jax():
                inside.may_step(self)
        if _step_pre_hooks or self._optimizer_step_pre_hooks:
            for hook in (*_step_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
                changed = hook(self, args, kwargs)
                if isinstance(changed, tuple) and len(changed) == 2:
                    args, kwargs = changed
                elif changed is not None:
                    raise RuntimeError(
                        f"<function {type(self).__qualname__}.step at {id(step):#x}> must return None or a tuple of "
                        f"(new_args, new_kwargs), but got {changed}."
                    )
        before = modes.now()
        try:
            if len(args) > 1 or kwargs:  # a closure may wait for other threads
                out = run(*args, **kwargs)
            else:
                with tracing.turn:
                    out = run(*args)
        except BaseException:
            modes.put_back(before)
            raise
        progress.made("an optimizer's step")
        if _step_post_hooks or self._optimizer_step_post_hooks:
            for hook in (*self._optimizer_step_post_hooks.values(), *_step_post_hooks.values()):
                hook(self, args, kwargs)
        return out

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


def switch_grad(step: Callable[..., Any]) -> Callable[..., Any]:
    """Run ``step`` with autograd disabled, or enabled if the optimizer has ``differentiable=True``."""

    @functools.wraps(step)
    def switched(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        before = grad_mode.state.flag
        try:
            grad_mode.switch(bool(self.defaults.get("differentiable")))
            return step(self, *args, **kwargs)
        finally:  # without a call, at which an exception could come between
            mode = grad_mode.state
            mode.flag, mode.enabled = before, before and not mode.inference

    return switched


def typename(x: object) -> str:
    """The name of the type of ``x`` in PyTorch's messages, such as ``torch.FloatTensor``."""
    if isinstance(x, Tensor):
        return str(x.type())
    kind = x if isinstance(x, type) else type(x)
    prefix = "" if kind.__module__ in ("builtins", "__builtin__", None) else kind.__module__ + "."
    return prefix + kind.__qualname__


class Optimizer:
    r"""Base class of all optimizers.

    A subclass calls ``super().__init__(params, defaults)`` and defines ``step``, which may loop over
    ``self.param_groups`` and write to the parameters with tensor operations, or do the whole update in one jitted
    call.

    Args:
        params: parameters, ``(name, parameter)`` pairs, or dicts with a ``"params"`` entry and the
            hyperparameters of a group.
        defaults: hyperparameters for groups that do not set them.

    Attributes:
        defaults: the default hyperparameters.
        param_groups: the list of groups, plain dicts that may be edited at any time.
        state: the state of each parameter, a dict with the parameters as keys.

    Raises:
        TypeError: if ``params`` is a tensor, or holds something that is not a tensor.
        ValueError: if there are no parameters, one is not a leaf, or one is in two groups.

    Example:
        >>> import functorch_port as torch
        >>> class SignDescent(torch.optim.Optimizer):
        ...     def __init__(self, params, lr=0.1):
        ...         super().__init__(params, {"lr": lr})
        ...
        ...     @torch.no_grad()
        ...     def step(self, closure=None):
        ...         for group in self.param_groups:
        ...             for p in group["params"]:
        ...                 if p.grad is not None:
        ...                     p.sub_(p.grad.sign(), alpha=group["lr"])
        >>> w = torch.nn.Parameter(torch.tensor([1.0, -1.0]))
        >>> optimizer = SignDescent([w], lr=0.5)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.5000, -0.5000])

    Reference:
        https://docs.pytorch.org/docs/stable/optim.html#torch.optim.Optimizer
    """

    defaults: dict[str, Any]
    state: defaultdict[Any, Any]
    param_groups: list[dict[str, Any]]
    # State that `compile` makes ahead of the first step; `take_premade` moves it to `state`.
    _premade: dict[Any, dict[str, Any]]
    # How `steady` takes the next step, which parameters took part in the last one, whether a compiled function ever
    # took one, and how often there was something that `steady` does not cover.
    _steady: Any = None
    _took_part: list[int] | None = None
    _once_traced = False
    _refusals = 0
    # Names of 0-dim state entries that a step computes on the host.
    _numbers: Sequence[str] = ()
    # Whether loaded state keeps its dtypes, and does not take that of its parameter.
    _keeps_dtypes = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        alive.optimizers.enter(self)  # here, as one that wraps another may not call __init__
        return self

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._prepare()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be "
                f"an iterable of Tensors or dicts, but got {typename(params)}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _prepare(self) -> None:
        """Create the hook tables of the instance, and once per class a `step` that runs the hooks."""
        for name in _HOOK_TABLES:
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_premade", {})
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """``func`` with this class's step hooks around it."""
        return _with_hooks(func)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("state", "param_groups"):
            tracing.bump_epoch()
        object.__setattr__(self, name, value)

    def _count_cells(self) -> list[list[tuple[Storage, ...]]]:
        """For each group and parameter, the Storages of the 0-dim state that counts steps."""
        return []

    def _enter_trace(self, join: bool, described: bool = False) -> None:
        """Make the state that a lazy first step would make, where the general rule then gives the first step's numbers.
        With ``join`` have small state joined. Parameters on the meta device get state if they are to be ``described``.
        """
        self._prepare()  # one that wraps another may not have called __init__
        make = getattr(self, "_init_state", None)
        for group in [] if make is None else self.param_groups:
            for p in group["params"]:
                if not self.state.get(p) and p not in self._premade and (described or not p.is_meta):
                    with tracing.x64():
                        state = make(p, group)
                    if state is not None:
                        self._premade[p] = state
        if join:
            join_state(self)

    def _kind_of(self, group: dict[str, Any]) -> Any:
        """The update of a group's parameters as a `steady.Kind`, if it is elementwise."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()
        self._premade.clear()
        self.defaults.setdefault("differentiable", False)
        tracing.bump_epoch()

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    # ------------------------------------------------------------------ hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return new ``(args, kwargs)``."""
        return register(self._optimizer_step_pre_hooks, hook)  # type: ignore[attr-defined]

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return register(self._optimizer_step_post_hooks, hook)  # type: ignore[attr-defined]

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` before `state_dict`; with ``prepend``, before all other hooks."""
        return register(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)  # type: ignore[attr-defined]

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` on the result of `state_dict`; it may return another dict."""
        return register(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading, on a shallow copy; it may return another dict."""
        return register(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return register(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)  # type: ignore[attr-defined]

    # ------------------------------------------------------------------ saving and loading

    def state_dict(self) -> StateDict:
        """The optimizer's state and groups, with an index in place of each parameter.

        Returns:
            ``{"state": {index: dict}, "param_groups": [dict]}``; the tensors are not copies.
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            hook(self)
        place: dict[int, int] = {}
        start = 0
        groups = []
        for group in self.param_groups:
            for i, p in enumerate(group["params"], start):
                place.setdefault(id(p), i)
            start += len(group["params"])
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [place[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {place[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        state_dict: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        return state_dict

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load a state dict.

        Parameters are matched by order. Hyperparameters are overwritten. State tensors get the dtype and device of
        their parameter, except ``step``.

        Args:
            state_dict: the result of `state_dict` of an optimizer of the same kind; it is not changed.

        Raises:
            ValueError: if the groups differ in number or size; the optimizer is then unchanged.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed

        saved = deepcopy(state_dict["param_groups"])
        if len(self.param_groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(self.param_groups, saved, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's "
                "group"
            )
        saved_ids = chain.from_iterable(s["params"] for s in saved)
        params = chain.from_iterable(g["params"] for g in self.param_groups)
        by_id = dict(zip(saved_ids, params, strict=True))
        hosted = {i for s in saved if s.get("fused") or s.get("capturable") for i in s["params"]}

        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_id:
                param = by_id[key]
                old = self.state.get(param)
                state[param] = _fit(param, value, None, key in hosted, old, self._keeps_dtypes)
            else:
                state[key] = value
        for group, new in zip(self.param_groups, saved, strict=True):
            new["params"] = group["params"]
            if "param_names" in group:
                new.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            hook(self)

    # ------------------------------------------------------------------ training

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters.

        Args:
            set_to_none: set ``grad`` to None (the default) instead of zero. An optimizer skips a parameter whose
                gradient is None, but takes a step with a gradient of zero.
        """
        profile = watch.state.profile if watch.on else None
        start = 0.0 if profile is None else time.perf_counter()
        if tracing.overlay:
            tracing.overlay.note_stateful(self)
        if tracing.in_jax():
            inside.may_forget(p for group in self.param_groups for p in group["params"])
        for group in self.param_groups:
            for p in group["params"]:
                # Not read first: a compiled step then need not take the old gradient in.
                if set_to_none:
                    p._set_grad(None)
                elif p.grad is not None:
                    if p.grad.grad_fn is not None:
                        p.grad.detach_()
                    else:
                        p.grad.requires_grad_(False)
                    p.grad.zero_()
        if profile is not None:
            name = type(self).__name__
            profile.note(f"Optimizer.zero_grad#{name}.zero_grad", start, annotation=True)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once.

        Args:
            closure: recomputes the loss (with autograd enabled) and returns it; optional for most optimizers.

        Returns:
            The result of the closure, or None.
        """
        raise NotImplementedError

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group, for instance when layers are unfrozen.

        Args:
            param_group: ``"params"`` and hyperparameters; missing ones are taken from ``defaults``.

        Raises:
            TypeError: if ``param_group`` is not a dict, its params are a set, or one of them is not a tensor.
            ValueError: if a parameter is not a leaf or is in two groups, some names are missing, or a required
                option is missing.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but "
                "the ordering of tensors in sets will change between runs. Please use a list instead."
            )
        _separate_names(param_group, [params] if isinstance(params, Tensor) else list(params))
        params = param_group["params"]
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {typename(p)}"
                )
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {name}"
                )
            param_group.setdefault(name, default)
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause "
                "an error; see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        named = "param_names" in param_group
        if any(named != ("param_names" in group) for group in self.param_groups):
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {'with names' if named else 'without names'} to the optimizer"
            )
        if not set(params).isdisjoint(p for group in self.param_groups for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)
        tracing.bump_epoch()


def _separate_names(group: dict[str, Any], params: Sequence[Any]) -> None:
    """Store plain parameters under ``params`` and the names of pairs under ``param_names``."""
    names = [p[0] for p in params if isinstance(p, tuple)]
    group["params"] = [p[1] if isinstance(p, tuple) else p for p in params]
    if names:
        if len(names) != len(params):
            raise ValueError(
                "all optimizer params should be with/without names. Some param names are missing"
            )
        group["param_names"] = names


def _fit(param: Tensor, value: Any, key: Any, hosted: bool, old: Any = None, keeps: bool = False) -> Any:
    """A loaded state value, with its tensors (except ``step``) in the dtype of the parameter unless it ``keeps`` its
    own, and where the ``old`` ones were placed, or where the parameter is.
    """
    if isinstance(value, Tensor):
        if key == "step":
            return value.to(dtype=dtypes.float32, device=param.device) if hosted else value
        dtype = param.dtype if param.is_floating_point() and not keeps else value.dtype
        if placed.sharding_of(param._storage) is None or value.is_meta:
            return value.to(dtype=dtype, device=param.device)
        fit = value._alias().to(dtype=dtype)
        if (
            isinstance(old, Tensor)
            and old.shape == fit.shape
            and placed.sharding_of(old._storage) is not None
        ):
            return Tensor._wrap(old._storage.held.new(fit._look()))
        own = placed.sharding_of(fit._storage) is not None
        if not own and placed.is_shared(param._storage):
            placed.agreed("what is loaded for a parameter on the devices of all", fit._look())
        return fit if own else Tensor._wrap(placed.like(param._storage, fit._look()))
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        return {k: _fit(param, v, k, hosted, before.get(k), keeps) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_fit(param, v, None, hosted, keeps=keeps) for v in value)  # type: ignore[call-arg]
    return value


class _Before(Before):
    """A snapshot of an optimizer's state and parameters before a step; values are those of `Optimizer._numbers`."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        tables = [
            (key, table, dict(table)) for key, table in optimizer.state.items() if isinstance(table, dict)
        ]
        self.keys, self.tables = list(optimizer.state), tables
        params = (p for group in optimizer.param_groups for p in group["params"])
        values = chain(params, *(items.values() for _, _, items in tables))
        numbers = [items.get(name) for _, _, items in tables for name in optimizer._numbers]
        super().__init__(list(filter(_is_dense, values)), list(filter(_is_dense, numbers)))

    def undo(self) -> None:
        state = self.optimizer.state
        for key in set(state).difference(self.keys):
            del state[key]
        for key, table, items in self.tables:
            table.clear()
            table.update(items)
            state[key] = table
        super().undo()


def _is_dense(value: Any) -> bool:
    return isinstance(value, Tensor) and not value._sparse


def whole_step(optimizer: Optimizer, work: Callable[[], Any]) -> None:
    """Run a step atomically: an interrupt leaves the optimizer unchanged (see `_array.donation`).

    In a trace, the trace takes care of that; a recorded step (``differentiable=True``) behaves as in PyTorch.
    """
    if tracing.overlay or grad_mode.state.enabled:
        work()
    else:
        whole(work, _Before(optimizer).undo)


def settled_step(
    optimizer: Any, find: Callable[[], Any], settles: Callable[[Any], bool], rest: Callable[[Any], Any]
) -> None:
    """Run a step atomically; the optimizer may become `steady` by it.

    Args:
        find: returns the parameters and gradients of the step, with their state initialized.
        settles: whether the step on the result of ``find`` was done in the way of `steady`.
        rest: does the step otherwise.
    """
    if tracing.overlay or grad_mode.state.enabled:
        rest(find())
        return
    before = _Before(optimizer)
    try:
        found = [find()]
        if settles(found[0]):
            return
    except BaseException:
        if optimizer._steady is None or not optimizer._steady.stepped:
            optimizer._steady = None
            before.undo()
        raise
    whole(lambda: rest(found.pop() if found else find()), before.undo)


def take_premade(optimizer: Optimizer, param: Tensor) -> dict[str, Any]:
    """The state of ``param``; during a trace, an empty state is first filled with the one `compile` created."""
    state: dict[str, Any] = optimizer.state[param]
    if not state and tracing.overlay and param in optimizer._premade:
        state.update(optimizer._premade.pop(param))
    return state


def zero_state(param: Tensor) -> Tensor:
    """Zeros with the shape, dtype and device of the parameter."""
    return filled_state(param, 0)


def filled_state(param: Tensor, value: Any, shape: tuple[int, ...] | None = None) -> Tensor:
    """A tensor like the parameter, filled with one value (for a complex parameter, in both parts).

    ``shape`` overrides the shape. It is created on the host: nothing is compiled for it.
    """
    like = param._look()
    if isinstance(like, jax.ShapeDtypeStruct):
        made = jax.ShapeDtypeStruct(like.shape if shape is None else shape, like.dtype)
        return Tensor._wrap(placed.like(param._storage, made))
    value = placing.as_array(value)
    if like.dtype.kind == "c":
        value = value + 1j * value
    if isinstance(like, jax.core.Tracer) or isinstance(value, jax.Array):
        return Tensor._wrap(placed.like(param._storage, jnp.full_like(like, value, shape=shape)))
    filled = np.full(like.shape if shape is None else shape, value, like.dtype)
    if placed.sharding_of(param._storage) is not None:
        return Tensor._wrap(placed.like(param._storage, filled))
    if isinstance(like, jax.Array) and like.committed:  # XLA would compile again if only this were not
        return Tensor._wrap(placing.put(filled, like.sharding))
    return Tensor._wrap(filled if executor.current.leaves(filled) else placing.put(filled))


def to_scalar(x: Any) -> Any:
    """A one-element tensor as a 0-dim tensor; anything else unchanged."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def check_fused(param: Tensor) -> None:
    """Raise PyTorch's error for parameters that its fused kernels do not support."""
    if not param.is_floating_point():
        devices = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of "
            f"supported devices: {devices} but {param.dtype} and {param.device.type}"
        )
