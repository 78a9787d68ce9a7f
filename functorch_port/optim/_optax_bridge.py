"""`from_optax` turns an optax transformation into an `Optimizer`; `as_optax` does the reverse.

An optax state is a pytree. Here its leaves are stored in ``optimizer.state``: those of a parameter under the
parameter, the others (mostly step counts) under the name of the group. optax receives the parameters of a group as a
dict whose keys are of the type `_Key`, so that the path of a leaf identifies its parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache, partial, wraps
from operator import is_not
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import placing, tracing
from .._array.donation import Donating, call, lent, own
from .._base.tuning import tuning
from .._tensor.grad_mode import enable_grad, no_grad
from .._tensor.tensor import Tensor
from ._engine import arrays_of, write
from ._rules import axpy
from .optimizer import Optimizer, ParamsT, take_premade, to_scalar, whole_step

__all__ = ["OptaxOptimizer", "as_optax", "from_optax"]


class _Key(str):
    """The key of a parameter in the dict that optax receives."""

    __slots__ = ()


class _Plan:
    """The layout of one group's optax state.

    Attributes:
        tx: the transformation, with support for extra arguments.
        keys: the keys of the parameters.
        tree: the tree structure of the state.
        owners: for each leaf, the index of its parameter, or None.
        names: for each leaf, its name in the table of its owner.
        hyper: names of the hyperparameters in the state that the user can change.
    """

    def __init__(self, tx: Any, keys: tuple[_Key, ...], params: dict[_Key, Any]) -> None:
        import optax

        self.tx, self.keys = optax.with_extra_args_support(tx), keys
        self.shapes = {key: p.shape for key, p in params.items()}
        state = jax.eval_shape(self.tx.init, params)
        if _has_lookahead(state):
            self.tx = _with_slow(self.tx)
            state = jax.eval_shape(self.tx.init, params)
        leaves, self.tree = jax.tree_util.tree_flatten_with_path(state)
        place = {key: i for i, key in enumerate(keys)}
        self.owners = [_owner(path, place) for path, _ in leaves]
        self.names = [".".join(map(_text, path)) for path, _ in leaves]
        self.hyper = sorted({name for node in _injected(state) for name in _free(node)})

    def hyperparameters(self) -> dict[str, float]:
        """The initial values of the hyperparameters."""
        if not self.hyper:
            return {}

        def values() -> dict[str, Any]:
            # optax keeps its numbers in the widest type of the parameters: in float64 they are exact.
            wide = {
                k: jnp.zeros(s, jnp.float64 if tracing.X64 else jnp.float32) for k, s in self.shapes.items()
            }
            return {n: node.hyperparams[n] for node in _injected(self.tx.init(wide)) for n in _free(node)}

        with tracing.x64():
            return {name: value.item() for name, value in jax.jit(values)().items()}

    def apply(
        self,
        live: tuple[bool, ...],
        params: Any,
        grads: Any,
        leaves: Any,
        numbers: dict[str, Any],
        extra: Any,
    ) -> tuple[list[Any], list[Any]]:
        """One step: the new parameters and leaves of the state. Those that are not ``live`` stay unchanged."""
        tree = dict(zip(self.keys, params, strict=True))
        slopes = [jnp.zeros_like(p) if g is None else g for p, g in zip(params, grads, strict=True)]
        state = _with_numbers(self.tree.unflatten(leaves), numbers)
        updates, state = self._update(dict(zip(self.keys, slopes, strict=True)), state, tree, dict(extra))
        factor = 1.0 if "learning_rate" in self.hyper else numbers["lr"]
        new = [
            axpy(p, factor, updates[key]) if on else p
            for p, key, on in zip(params, self.keys, live, strict=True)
        ]
        flat = jax.tree.leaves(state)
        kept = [
            old if owner is not None and not live[owner] else jnp.asarray(value, old.dtype)
            for old, value, owner in zip(leaves, flat, self.owners, strict=True)
        ]
        return new, kept

    def _update(
        self, grads: dict[_Key, Any], state: Any, params: dict[_Key, Any], extra: dict[str, Any]
    ) -> tuple[Any, Any]:
        """optax's update, whose results must be what parameters and state can take."""
        loss = extra.pop(_LOSS, None)
        if loss is not None and _takes(self.tx.update, "value"):
            extra.setdefault("value", loss)
        if "value_fn" in extra:
            extra.setdefault("grad", grads)
        extra = {name: _typed(x, params) if callable(x) else x for name, x in extra.items()}
        try:
            updates, state = self.tx.update(grads, state, params, **extra)
        except (TypeError, ValueError) as error:
            error.add_note(
                "from_optax: extra arguments of an optax update are keywords of step(), as in "
                "step(value=loss, value_fn=fn); step(closure) gives the loss of the closure as value"
            )
            raise
        for key, p in params.items():
            if jnp.shape(updates[key]) != p.shape:
                raise ValueError(
                    f"from_optax: the update of parameter {str(key)!r} of shape {p.shape} has the shape "
                    f"{jnp.shape(updates[key])}. A transformation that takes a gradient of each example "
                    "(optax.contrib.dpsgd) cannot be an optimizer, as .grad is their sum: call it in a loop of JAX "
                    "on the arrays of func.pure(module)"
                )
        if jax.tree.structure(state) != self.tree:
            raise NotImplementedError(
                "from_optax: the first update gives the state of the transformation another structure (as "
                f"optax.monitor does), so it cannot be the state of an optimizer: it was {self.tree}, and is "
                f"{jax.tree.structure(state)}. Of the measurements of optax, use optax.snapshot"
            )
        return updates, state


def _typed(fn: Callable[..., Any], like: Any) -> Callable[..., Any]:
    """A function of parameters that gets them in their own types: a line search with 64 bits widens them. A value is
    of the type of Python's numbers, as which the line search has its slope.
    """

    @wraps(fn)
    def typed(params: Any, *args: Any, **kwargs: Any) -> Any:
        out = fn(jax.tree.map(lambda new, p: jnp.asarray(new, p.dtype), params, like), *args, **kwargs)
        return jnp.asarray(out, float) if isinstance(out, jax.Array) and jnp.ndim(out) == 0 else out

    return typed


#: the loss of a closure among the extra arguments: ``value``, unless the transformation takes none
_LOSS = "loss of the closure"


def _takes(update: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(update).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _has_lookahead(state: Any) -> bool:
    import optax

    def found(node: Any) -> bool:
        return isinstance(node, optax.LookaheadState)

    return any(map(found, jax.tree.leaves(state, is_leaf=found)))


def _with_slow(tx: Any) -> Any:
    """A transformation that contains `optax.lookahead`, with the slow parameters in the state.

    The parameters of the model are the fast ones.
    """
    import optax

    def init(params: Any) -> Any:
        return {"lookahead": tx.init(optax.LookaheadParams.init_synced(params)), "slow": params}

    def update(updates: Any, state: Any, params: Any, **extra: Any) -> Any:
        both = optax.LookaheadParams(params, state["slow"])
        updates, inner = tx.update(updates, state["lookahead"], both, **extra)
        return updates.fast, {"lookahead": inner, "slow": optax.apply_updates(both.slow, updates.slow)}

    return optax.GradientTransformationExtraArgs(init, update)


def _owner(path: Any, place: dict[_Key, int]) -> int | None:
    found = [place[k.key] for k in path if isinstance(getattr(k, "key", None), _Key)]
    return found[0] if found else None


def _text(entry: Any) -> str:
    """The text of one path entry; ``*`` for the key of a parameter, which is the owner."""
    for attribute in ("name", "idx", "key"):
        if hasattr(entry, attribute):
            value = getattr(entry, attribute)
            return "*" if isinstance(value, _Key) else str(value)
    return str(entry)


def _is_injected(node: Any) -> bool:
    return hasattr(node, "hyperparams") and hasattr(node, "_replace")


def _injected(state: Any) -> list[Any]:
    """The parts of a state that come from `optax.inject_hyperparams`."""
    return [x for x in jax.tree.leaves(state, is_leaf=_is_injected) if _is_injected(x)]


def _free(node: Any) -> list[str]:
    """The hyperparameters of such a part that no optax schedule sets."""
    return [name for name in node.hyperparams if name not in getattr(node, "hyperparams_states", ())]


def _with_numbers(state: Any, numbers: dict[str, Any]) -> Any:
    def change(node: Any) -> Any:
        if not _is_injected(node):
            return node
        values = dict(node.hyperparams)
        for name in _free(node):
            new = numbers["lr" if name == "learning_rate" else name]
            values[name] = jnp.asarray(new, values[name].dtype)
        return node._replace(hyperparams=values)

    return jax.tree.map(change, state, is_leaf=_is_injected)


@lru_cache(tuning.cached_programs)
def _plan(tx: Any, keys: tuple[_Key, ...], avals: tuple[tuple[tuple[int, ...], Any], ...]) -> _Plan:
    params = {k: jax.ShapeDtypeStruct(*aval) for k, aval in zip(keys, avals, strict=True)}
    return _Plan(tx, keys, params)


def _apply(structure: Any, params: Any, grads: Any, leaves: Any, numbers: Any, extra: Any) -> list[Any]:
    groups = zip(structure, params, grads, leaves, numbers, strict=True)
    return [plan.apply(live, p, g, s, n, extra) for (plan, live), p, g, s, n in groups]


def _owned(structure: Any, params: Any, grads: Any, leaves: Any, numbers: Any, extra: Any) -> tuple[Any, ...]:
    """The arguments of a program; `own` prepares the donated ones."""
    given = list(map(own, params)) if _all_live(structure) else params
    return given, grads, list(map(own, leaves)), (numbers, extra)


@lru_cache(tuning.cached_programs)
def _program(structure: Any, types: Any) -> Donating:
    """The program for parameters and state of these shapes and dtypes."""
    return Donating(_compiled(structure), _given(structure))


def _given(structure: Any) -> tuple[int, ...]:
    return (0, 2) if _all_live(structure) else (2,)


@lru_cache(tuning.cached_programs)
def _compiled(structure: Any) -> Callable[..., Any]:
    def optax_step(params: Any, grads: Any, leaves: Any, others: Any) -> Any:
        return _apply(structure, params, grads, leaves, *others)

    return jax.jit(optax_step, donate_argnums=_given(structure))


def _all_live(structure: Any) -> bool:
    return all(all(live) for _, live in structure)


class OptaxOptimizer(Optimizer):
    """An optax transformation as an optimizer; create one with `from_optax`."""

    _keeps_dtypes = True

    def __init__(self, tx: Any, params: ParamsT, lr: Any = None, **hyper: Any) -> None:
        if not _is_transformation(tx):
            tx, lr, hyper = _inject(tx, lr, hyper), None, {}
        self.tx = tx.gradient_transformation() if hasattr(tx, "gradient_transformation") else tx
        super().__init__(params, {})
        found = self._layout(self.param_groups[0]).hyperparameters()
        defaults = {"lr": found.pop("learning_rate", 1.0), **found}
        unknown = [name for name in hyper if name not in defaults]
        if unknown:
            raise TypeError(
                f"from_optax: the transformation has no hyperparameter {unknown[0]!r}; those that can be set are "
                f"{list(defaults)}"
            )
        defaults.update(hyper if lr is None else {"lr": lr, **hyper})
        if not 0.0 <= defaults["lr"]:  # noqa: SIM300
            raise ValueError(f"Invalid learning rate: {defaults['lr']}")
        self.defaults = defaults
        for group in self.param_groups:
            for name, value in defaults.items():
                group.setdefault(name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "tx": self.tx}

    def _values(self, group: dict[str, Any]) -> dict[_Key, Any]:
        names = group.get("param_names") or ()
        if len(set(names)) < len(group["params"]):
            names = map(str, range(len(group["params"])))
        return {_Key(name): value for name, value in zip(names, arrays_of(group["params"]), strict=True)}

    def _prepare(self) -> None:
        super()._prepare()
        self._plans: dict[int, tuple[list[Tensor], _Plan]] = {}

    def _layout(self, group: dict[str, Any]) -> _Plan:
        params, plan = self._plans.get(id(group), ((), None))
        if plan is None or len(params) != len(group["params"]) or any(map(is_not, params, group["params"])):
            values = self._values(group)
            with tracing.x64():
                plan = _plan(self.tx, tuple(values), tuple((v.shape, v.dtype) for v in values.values()))
            self._plans[id(group)] = (list(group["params"]), plan)
        return plan

    def _tables(self, group: dict[str, Any], plan: _Plan) -> list[tuple[dict[str, Any], str]]:
        """For each leaf of the group's state, its table and its name there; missing leaves are created first."""
        place = f"group {next(i for i, g in enumerate(self.param_groups) if g is group)}"
        shared = take_premade(self, place)  # type: ignore[arg-type]
        own = [take_premade(self, p) for p in group["params"]]
        where = [
            (shared if owner is None else own[owner], name)
            for owner, name in zip(plan.owners, plan.names, strict=True)
        ]
        if not shared and not any(own):
            for (table, name), leaf in zip(where, self._first_leaves(group, plan), strict=True):
                table[name] = leaf
        missing = [name for table, name in where if name not in table]
        if missing:
            raise RuntimeError(
                f"the optimizer's state has no entry {missing[0]!r}, as it was saved with another transformation; "
                "load a state dict of the same transformation"
            )
        return where

    def _first_leaves(self, group: dict[str, Any], plan: _Plan) -> list[Tensor]:
        with tracing.x64():
            # An array of its own for every leaf: optax starts some from the parameters themselves.
            leaves = jax.tree.leaves(plan.tx.init(self._values(group)))
            return [Tensor._wrap(jnp.array(leaf)) for leaf in leaves]

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The initial state of the whole group, created before a trace."""
        if param is not group["params"][0]:
            return self._premade.get(param, {})
        plan = self._layout(group)
        place = f"group {next(i for i, g in enumerate(self.param_groups) if g is group)}"
        tables: dict[Any, dict[str, Any]] = {p: {} for p in group["params"]}
        shared: dict[str, Any] = {}
        for owner, name, leaf in zip(plan.owners, plan.names, self._first_leaves(group, plan), strict=True):
            (shared if owner is None else tables[group["params"][owner]])[name] = leaf
        self._premade.update({**tables, place: shared})
        return tables[param]

    def optax_state(self, group: int = 0) -> Any:
        """The state of a group as optax's pytree of arrays, for functions of optax such as `optax.tree.get`.

        Args:
            group: the index of the group.

        Example:
            >>> import functorch_port as torch
            >>> import optax
            >>> w = torch.nn.Parameter(torch.ones(2))
            >>> optimizer = torch.optim.from_optax(optax.adam(0.1), [w])
            >>> (w * 2).sum().backward()
            >>> optimizer.step()
            >>> print(optax.tree.get(optimizer.optax_state(), "count"))
            1
        """
        table = self.param_groups[group]
        plan = self._layout(table)
        return plan.tree.unflatten([state[name]._value for state, name in self._tables(table, plan)])

    def step(self, closure: Callable[[], Any] | None = None, **extra: Any) -> Any:
        """Update the parameters once.

        Args:
            closure: recomputes the loss and returns it. Transformations receive the loss as ``value``.
            **extra: other extra arguments of the transformation's update, such as ``value=loss``: tensors, arrays,
                numbers, or functions of arrays. A function receives the parameters of a group as a dict of arrays, by
                name, or by number if they have no names. With a ``value_fn`` the transformation also receives the
                gradients as ``grad``. Eagerly, an update with a function is not compiled: compile the whole step.

        Example:
            >>> import functorch_port as torch
            >>> import jax.numpy as jnp
            >>> import optax
            >>> w = torch.nn.Parameter(torch.tensor([4.0, -3.0]))
            >>> optimizer = torch.optim.from_optax(optax.lbfgs, [("w", w)])
            >>> def step():
            ...     optimizer.zero_grad()
            ...     loss = ((w - 1) ** 2).sum()
            ...     loss.backward()
            ...     optimizer.step(value=loss, value_fn=lambda params: jnp.sum((params["w"] - 1) ** 2))
            ...     return loss
            >>> step = torch.compile(step)
            >>> [round(step().item(), 3) for _ in range(3)]
            [25.0, 16.0, 0.0]
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
            extra[_LOSS] = loss
        extra = {
            name: x._alias()._value if isinstance(x, Tensor) else x
            for name, x in extra.items()
            if x is not None
        }
        with no_grad():
            whole_step(self, lambda: self._update(extra))
        return loss

    def _update(self, extra: dict[str, Any]) -> None:
        batch: list[tuple[Any, ...]] = []
        for group in self.param_groups:
            grads = [p.grad for p in group["params"]]
            live = tuple(g is not None for g in grads)
            if not any(live):
                continue
            plan = self._layout(group)
            where = self._tables(group, plan)
            batch.append(((plan, live), group["params"], grads, where, self._group_numbers(group)))
        if not batch:
            return
        cells = [t._storage for _, ps, _, where, _ in batch for t in (*ps, *(d[name] for d, name in where))]
        with lent(cells):
            self._apply(batch, extra)

    def _apply(self, batch: list[tuple[Any, ...]], extra: dict[str, Any]) -> None:
        structure, all_params, all_grads, tables, numbers = zip(*batch, strict=True)
        params = [arrays_of(ps) for ps in all_params]
        grads = [arrays_of(gs) for gs in all_grads]
        leaves = [arrays_of([table[name] for table, name in where]) for where in tables]
        if tracing.overlay:
            out = _apply(structure, params, grads, leaves, numbers, extra)
        elif any(map(callable, extra.values())):
            with tracing.x64():  # what a function reads may change from step to step
                out = _apply(structure, params, grads, leaves, numbers, extra)
        else:
            with tracing.x64():
                types = (*extra, *[(a.shape, a.dtype) for a in jax.tree.leaves((params, leaves))])
                out = call(
                    _program(structure, types),
                    lambda: _owned(structure, params, grads, leaves, numbers, extra),
                )
        for (_, live), ps, where, (new, kept) in zip(structure, all_params, tables, out, strict=True):
            write(ps, [value if on else None for value, on in zip(new, live, strict=True)])
            write([table[name] for table, name in where], kept)

    def _group_numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        values = {name: to_scalar(group[name]) for name in self.defaults if name != "differentiable"}
        if tracing.overlay:
            return {k: placing.as_array(v) for k, v in values.items()}
        return {k: v._value if isinstance(v, Tensor) else np.float64(v) for k, v in values.items()}


def _is_transformation(tx: Any) -> bool:
    return hasattr(tx, "init") and hasattr(tx, "update")


def _inject(factory: Any, lr: Any, hyper: dict[str, Any]) -> Any:
    """The transformation from a function such as `optax.adam`, with hyperparameters that can be changed."""
    import optax

    if not callable(factory):
        raise TypeError(
            f"from_optax needs an optax transformation or a function that returns one, but got {factory!r}"
        )
    parameters = inspect.signature(factory).parameters
    if lr is not None:
        if "learning_rate" not in parameters:
            raise TypeError(
                f"{getattr(factory, '__name__', factory)} takes no learning_rate, but got lr={lr!r}; omit lr"
            )
        hyper = {"learning_rate": lr, **hyper}
    fixed = [name for name, p in parameters.items() if _is_fixed(name, hyper.get(name, p.default), p.default)]
    return optax.inject_hyperparams(factory, fixed)(**hyper)


def _is_fixed(name: str, value: Any, default: Any) -> bool:
    """Whether an argument shapes the transformation: a size, a key or a function, not a number or a schedule of it."""
    if isinstance(value, jax.Array):
        return not jnp.issubdtype(value.dtype, jnp.inexact)
    if callable(value):
        return callable(default) or name.endswith(("_fn", "mask", "dimension_numbers"))
    return isinstance(value, int) and not isinstance(default, float) and name != "learning_rate"


def from_optax(tx: Any, params: ParamsT | None = None, lr: Any = None, **hyper: Any) -> Any:
    """Turn an optax transformation into an optimizer, with groups, schedules, hooks, `state_dict` and `compile`.

    The transformation receives the parameters of one group as a dict, with their names if they are named, so a
    global norm is the norm of the group. A parameter without gradient keeps its value and its state; its gradient
    counts as zero in such reductions. An update has 64-bit types, whatever ``jax_enable_x64`` says. Its extra arguments
    are keywords of ``step`` (see there).

    Args:
        tx: one of

            - a function that returns a transformation, such as ``optax.adamw``: ``lr`` is its ``learning_rate``,
              ``hyper`` holds its other arguments, and all its numbers become entries of the groups, but for whole
              numbers such as a memory size;
            - a transformation from `optax.inject_hyperparams`: the same;
            - any other transformation: its updates are multiplied by ``lr``, by default 1. Leave it at 1 where optax
              says that updates must be applied as they are (`optax.lookahead`, ``schedule_free``, ``sam``);
            - an `optax.MultiSteps`.

            With `optax.lookahead` the parameters are the fast ones, and the slow ones are in the state.
        params: parameters, ``(name, parameter)`` pairs, or dicts that define groups. If omitted, return a function of
            the parameters, to use in place of an optimizer class.
        lr: learning rate; see above.
        **hyper: hyperparameters by optax's names.

    Returns:
        The optimizer. Its state entries are named by the paths of optax's leaves, such as ``inner_state.0.mu.*``.

    Raises:
        TypeError: if ``tx`` is not a transformation, or has no hyperparameter of a given name.
        ValueError: if ``lr`` is negative.

    Example:
        >>> import optax
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.from_optax(optax.lion, [w], lr=0.5, weight_decay=0.0)
        >>> schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        >>> for _ in range(2):
        ...     optimizer.zero_grad()
        ...     (w**2).sum().backward()
        ...     optimizer.step()
        ...     schedule.step()
        >>> w.detach(), optimizer.param_groups[0]["lr"]
        (tensor([ 0.2500, -1.2500]), 0.125)
        >>> clipped = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1))
        >>> optimizer = torch.optim.from_optax(clipped, [w])

    Reference:
        https://optax.readthedocs.io/en/latest/api/transformations.html
    """
    if params is None:
        return partial(OptaxOptimizer, tx, lr=lr, **hyper)
    return OptaxOptimizer(tx, params, lr, **hyper)


def as_optax(optimizer: type[Optimizer], *args: Any, **hyper: Any) -> Any:
    """Turn an optimizer class into an optax transformation, for pytrees of JAX arrays and `jax.jit`.

    Args:
        optimizer: the class, such as ``optim.AdamW``.
        *args, **hyper: the arguments of the class without the parameters; ``lr`` may be a function of the number of
            steps taken.

    Returns:
        An ``optax.GradientTransformationExtraArgs``, the one in `functorch_port.optim.functional`. Its ``update``
        needs ``params``.

    Raises:
        NotImplementedError: for a user-defined class, or an optimizer without such a transformation.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import optax
        >>> import functorch_port as torch
        >>> tx = optax.chain(optax.clip(1.0), torch.optim.as_optax(torch.optim.SGD, lr=0.5))
        >>> params = {"w": jnp.array([1.0, 3.0])}
        >>> state = tx.init(params)
        >>> updates, state = jax.jit(tx.update)({"w": jnp.array([0.5, 6.0])}, state, params)
        >>> print(optax.apply_updates(params, updates)["w"])
        [0.75 2.5 ]

    Reference:
        https://optax.readthedocs.io/en/latest/api/transformations.html
    """
    import optax

    from . import functional

    name = getattr(optimizer, "__name__", str(optimizer))
    make = getattr(functional, name.lower(), None)
    if make is None or name.lower() not in functional.__all__:
        raise NotImplementedError(
            f"as_optax of {name} is not supported, only of {', '.join(_convertible())}. Write your own rule as an "
            "optax transformation, and use it here with from_optax."
        )
    return optax.with_extra_args_support(make(*args, **hyper))


def _convertible() -> Sequence[str]:
    from . import functional

    return [name for name in functional.__all__ if name.islower() and name != "transformation"]
