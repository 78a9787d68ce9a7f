"""The optimizers for functional JAX code: each function here returns an `optax.GradientTransformation`.

Parameters are any pytree of arrays. As in optax, ``update`` returns the change to add, so ``optax.apply_updates``
and ``optax.chain`` work. The numbers equal those of the classes in `functorch_port.optim`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._tensor.tensor import Tensor
from ._adafactor import Adafactor
from ._muon import Muon
from ._ruled import Method, RuledOptimizer
from .adadelta import Adadelta
from .adagrad import Adagrad
from .adam import Adam
from .adamax import Adamax
from .adamw import AdamW
from .asgd import ASGD
from .lbfgs import curvature, flat_vector, parts, quasi_newton, slopes
from .nadam import NAdam
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD

__all__ = [
    "LBFGSState", "RuleState", "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "asgd",
    "lbfgs", "muon", "nadam", "radam", "rmsprop", "rprop", "sgd", "transformation",
]  # fmt: skip


class LBFGSState(NamedTuple):
    """State of `lbfgs`. Vectors are flat, over all parameters.

    Attributes:
        step: number of iterations.
        direction, step_length, grad: those of the last iteration.
        ys, ss, rhos: the stored changes of the gradient (y) and of the parameters (s), and ``1 / (y . s)``.
        used: number of changes stored so far; the next is stored at index ``used % history_size``.
        scale: scale of the initial estimate of the inverse Hessian.
    """

    step: jax.Array
    direction: jax.Array
    step_length: jax.Array
    grad: jax.Array
    ys: jax.Array
    ss: jax.Array
    rhos: jax.Array
    used: jax.Array
    scale: jax.Array


def lbfgs(
    lr: float | jax.Array | Callable[[jax.Array], Any] = 1,
    history_size: int = 100,
    tolerance_grad: float = 1e-7,
    tolerance_change: float = 1e-9,
) -> Any:
    """`functorch_port.optim.LBFGS` as an optax transformation: an update is one iteration, without line search.

    It equals the class with ``max_iter=1``.

    Args:
        lr: step length, or a function from the step count to it.
        history_size: number of stored changes.
        tolerance_grad: the update is zero if no element of the gradient is larger.
        tolerance_change: the update is zero if the descent along the direction is smaller.

    Returns:
        ``optax.GradientTransformation(init, update)``; ``update`` needs the gradients only.

    Example:
        >>> import jax.numpy as jnp
        >>> import optax
        >>> from functorch_port.optim import functional
        >>> optimizer = functional.lbfgs(history_size=4)
        >>> params = {"w": jnp.array([1.0, 2.0])}
        >>> state = optimizer.init(params)
        >>> for _ in range(4):
        ...     updates, state = optimizer.update({"w": 2 * params["w"]}, state)
        ...     params = optax.apply_updates(params, updates)
        >>> bool(abs(params["w"]).max() < 1e-5)
        True

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.LBFGS.html
    """
    import optax

    def init(params: Any) -> LBFGSState:
        zero = jnp.zeros_like(flat_vector(jax.tree.leaves(params)))
        history, number = jnp.zeros((history_size, *zero.shape), zero.dtype), jnp.zeros((), zero.dtype)
        count = jnp.zeros((), jnp.int32)
        return LBFGSState(count, zero, number, zero, history, history, history[:, 0], count, number + 1)

    def update(grads: Any, state: LBFGSState, params: Any = None) -> tuple[Any, LBFGSState]:
        leaves, tree = jax.tree.flatten(grads)
        grad, first = flat_vector(leaves), state.step == 0
        y, s, (product, scale, rho) = curvature(grad, state.grad, state.direction, state.step_length)
        keep = (product > 1e-10) & ~first
        at = state.used % history_size
        ys, ss, rhos = (
            table.at[at].set(jnp.where(keep, new, table[at]))
            for table, new in zip((state.ys, state.ss, state.rhos), (y, s, rho), strict=True)
        )
        used, scale = state.used + keep, jnp.where(keep, scale, state.scale)
        direction = jnp.where(first, -grad, quasi_newton(grad, ys, ss, rhos, scale, used))
        slope, total, _ = slopes(grad, direction)
        step_size = jnp.asarray(lr(state.step) if callable(lr) else lr, grad.dtype)
        length = jnp.where(first, jnp.minimum(1, 1 / total), 1).astype(grad.dtype) * step_size
        new = LBFGSState(state.step + 1, direction, length, grad, ys, ss, rhos, used, scale)
        go = (jnp.max(jnp.abs(grad)) > tolerance_grad) & (slope <= -tolerance_change)
        change = jnp.where(go, length * direction, 0)
        updates = [
            (jax.lax.complex(u[..., 0], u[..., 1]) if jnp.iscomplexobj(g) else u).astype(g.dtype)
            for g, u in zip(leaves, parts(change, leaves), strict=True)
        ]
        return tree.unflatten(updates), jax.tree.map(lambda a, b: jnp.where(go, a, b), new, state)

    return optax.GradientTransformation(init, update)


class RuleState(NamedTuple):
    """State of all transformations here except `lbfgs`.

    Attributes:
        step: number of steps taken.
        entries: PyTorch's state entries by name: pytrees like the parameters, or numbers.
    """

    step: jax.Array
    entries: dict[str, Any]


def transformation(method: Method, hyper: dict[str, Any]) -> Any:
    """An update rule as an optax transformation.

    Args:
        method: the rule and its factors.
        hyper: all hyperparameters by name; a number may also be an array, and ``lr`` a function of the number of
            steps taken.

    Returns:
        ``optax.GradientTransformationExtraArgs(init, update)``; ``update`` needs ``params`` and returns the change to
        add to them.
    """
    import optax

    flags = method.flags(hyper)
    slots, numbers = method.slots(flags), method.numbers[1:]

    def at(count: Any) -> dict[str, Any]:
        return {**hyper, "lr": hyper["lr"](count)} if callable(hyper["lr"]) else hyper

    def init(params: Any) -> RuleState:
        count = jnp.zeros((), jnp.int32)
        start = method.start(at(count))
        entries: dict[str, Any] = {k: jnp.asarray(start.get(k, 0.0), jnp.float32) for k in numbers}
        for slot in filter(None, slots):
            make = partial(_filled, slot, start.get(slot, 0.0), method.shape)
            entries[slot] = jax.tree.map(make, params)
        return RuleState(count, entries)

    def update(grads: Any, state: RuleState, params: Any = None, **extra_args: Any) -> tuple[Any, RuleState]:
        if params is None:
            raise ValueError("update needs params: call update(grads, state, params)")
        now, entries = at(state.step), dict(state.entries)
        count = (state.step + 1).astype(jnp.result_type(float))
        before = [entries[k] for k in numbers]
        scalars = method.scalars(now, count, *before)
        for k, old, new in zip(numbers, before, method.advance(now, count, *before), strict=True):
            entries[k] = jnp.asarray(new, old.dtype)
        leaves, tree = jax.tree.flatten(grads)
        flat = tree.flatten_up_to(params)
        columns = [[None] * len(leaves) if k is None else tree.flatten_up_to(entries[k]) for k in slots]
        new_params, new_states = [], []
        for p, g, *s in zip(flat, leaves, *columns, strict=True):
            new_p, new_s = method.rule(p, g, tuple(s), scalars, flags)
            new_params.append(new_p - p)
            new_states.append(new_s)
        for i, slot in enumerate(slots):
            if slot is not None:
                entries[slot] = tree.unflatten([s[i] for s in new_states])
        return tree.unflatten(new_params), RuleState(state.step + 1, entries)

    return optax.GradientTransformationExtraArgs(init, update)


def _filled(slot: str, value: Any, shape_of: Callable[..., Any], param: Any) -> Any:
    shape = shape_of(slot, jnp.shape(param))
    value = value + 1j * value if jnp.iscomplexobj(param) else value
    return None if shape is None else jnp.full_like(param, value, shape=shape)


#: what a constructor takes that has no meaning here
_FACE_ONLY = {"params", "foreach", "fused", "capturable", "differentiable"}


def _of_class(cls: type[RuledOptimizer] | type[Muon], ndim: int = 0) -> Callable[..., Any]:
    """The function that creates the optax transformation of an optimizer class, with the defaults of the class.

    ``ndim`` is a number of dimensions that the class accepts for a parameter.
    """
    parameters = inspect.signature(cls).parameters
    signature = inspect.Signature([p for name, p in parameters.items() if name not in _FACE_ONLY])

    def make(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        # The class checks the numbers; what is known only later (a schedule, a traced array) goes round it.
        plain = {k: v for k, v in given.items() if not (callable(v) or isinstance(v, jax.Array))}
        with jax.ensure_compile_time_eval():
            hyper = cls([Tensor._wrap(jnp.zeros((1,) * ndim))], **plain).defaults
        return transformation(cls.method, {**hyper, **given})

    make.__name__ = make.__qualname__ = name = cls.__name__.lower()
    make.__signature__ = signature  # type: ignore[attr-defined]
    make.__doc__ = _DOC.format(name=name, cls=cls.__name__)
    return make


_DOC = """`functorch_port.optim.{cls}` as an optax transformation.

    Args: the hyperparameters of the class, in its order and with its defaults; ``lr`` may be a function of the
        number of steps taken.

    Returns:
        ``optax.GradientTransformationExtraArgs(init, update)``; ``update`` needs ``params``, and its state is
        a `RuleState`.

    Raises:
        ValueError: as for the class.

    Example:
        >>> import jax.numpy as jnp
        >>> import optax
        >>> from functorch_port.optim import functional
        >>> optimizer = functional.{name}(lr=0.1)
        >>> params = {{"w": jnp.array([[1.0, 2.0]])}}
        >>> state = optimizer.init(params)
        >>> updates, state = optimizer.update({{"w": jnp.array([[2.0, 4.0]])}}, state, params)
        >>> params = optax.apply_updates(params, updates)
        >>> int(state.step)
        1

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.optim.{cls}.html
    """

adafactor = _of_class(Adafactor)
adadelta = _of_class(Adadelta)
adagrad = _of_class(Adagrad)
adam = _of_class(Adam)
adamax = _of_class(Adamax)
adamw = _of_class(AdamW)
asgd = _of_class(ASGD)
nadam = _of_class(NAdam)
radam = _of_class(RAdam)
rmsprop = _of_class(RMSprop)
rprop = _of_class(Rprop)
sgd = _of_class(SGD)
muon = _of_class(Muon, ndim=2)
