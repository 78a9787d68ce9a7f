"""The optax counterparts of PyTorch's optimizers, and their known differences (optax 0.2.8).

A `Twin` holds the call as a string, which is both run and shown in the report.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from ._problems import WrongUse

__all__ = ["Twin", "make", "own", "twins"]


class Twin(NamedTuple):
    """An optax call for a configuration of one of PyTorch's optimizers.

    Attributes:
        call: the expression, or None if optax has no counterpart.
        note: why its numbers differ; None if they must agree.
        flags: the arguments that make the numbers agree, beyond those that translate PyTorch's.
    """

    call: str | None
    note: str | None = None
    flags: str | None = None


def make(twin: Twin) -> Any:
    """Make the transformation of a call."""
    import optax

    return eval(twin.call or "None", {"optax": optax, "jnp": jnp, "inf": jnp.inf, "nan": jnp.nan})


def own(given: Any, name: str, options: dict[str, Any]) -> Any:
    """Make a user's transformation.

    Args:
        given: the transformation, or a function that makes it from the options that are among its parameters.
        name: its name in errors.
        options: all options of the optimizer.

    Raises:
        WrongUse: ``given`` is neither, or the function has a required parameter that is not an option.

    Example:
        >>> import optax
        >>> from functorch_port.crosscheck import _twins as twins
        >>> tx = twins.own(lambda lr: optax.sgd(lr), "mine", {"lr": 0.1, "momentum": 0})
    """
    made = given
    if not _is_transformation(given):
        if not callable(given):
            raise WrongUse(f"{name} is neither an optax transformation nor a function that makes one")
        known = inspect.signature(given).parameters.values()
        takes_all = any(p.kind is p.VAR_KEYWORD for p in known)
        arguments = {k: v for k, v in options.items() if takes_all or any(p.name == k for p in known)}
        asked = [
            p.name for p in known if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        lacking = [n for n in asked if n not in arguments]
        if lacking:
            raise WrongUse(
                f"{name} has a required parameter {lacking[0]!r}, which is not among the options: "
                f"{', '.join(options)}"
            )
        made = given(**arguments)
    if not _is_transformation(made):
        raise WrongUse(f"{name} returned {type(made).__name__}, which is not an optax transformation")
    return made


def _is_transformation(given: Any) -> bool:
    return callable(getattr(given, "init", None)) and callable(getattr(given, "update", None))


def twins(name: str, options: dict[str, Any]) -> list[Twin]:
    """The optax calls for a configuration: the usual one and, if its numbers differ, one whose numbers agree."""
    found = _TABLE.get(name)
    if found is None:
        return [Twin(None, "optax has no counterpart of it")]
    return found({**_DEFAULTS.get(name, {}), **options}, options)


_ADAM = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False, "maximize": False}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False, "maximize": False},
    "Adam": _ADAM,
    "AdamW": {**_ADAM, "weight_decay": 1e-2},
    "Adamax": _ADAM,
    "NAdam": {**_ADAM, "decoupled_weight_decay": False},
    "RAdam": {**_ADAM, "decoupled_weight_decay": False},
    "Adagrad": {
        "lr_decay": 0, "weight_decay": 0, "initial_accumulator_value": 0, "eps": 1e-10, "maximize": False,
    },
    "Adadelta": {"rho": 0.9, "eps": 1e-6, "weight_decay": 0, "maximize": False},
    "RMSprop": {
        "alpha": 0.99, "eps": 1e-8, "weight_decay": 0, "momentum": 0, "centered": False, "maximize": False,
    },
    "Rprop": {"etas": (0.5, 1.2), "step_sizes": (1e-6, 50), "maximize": False},
    "Adafactor": {"beta2_decay": -0.8, "eps": (None, 1e-3), "d": 1.0, "weight_decay": 0, "maximize": False},
    "Muon": {
        "weight_decay": 0.1, "momentum": 0.95, "nesterov": True, "eps": 1e-7, "ns_steps": 5, "adjust_lr_fn": None,
    },
}  # fmt: skip


def _chain(o: dict[str, Any], core: str, decay: bool = True) -> str:
    """``core`` after PyTorch's ``maximize`` and L2 ``weight_decay``."""
    parts = ["optax.scale(-1.0)"] if o.get("maximize") else []
    if decay and o.get("weight_decay"):
        parts.append(f"optax.add_decayed_weights({o['weight_decay']})")
    return f"optax.chain({', '.join([*parts, core])})" if parts else core


def _b(o: dict[str, Any]) -> str:
    return f"b1={o['betas'][0]}, b2={o['betas'][1]}, eps={o['eps']}"


def _sgd(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    core = f"optax.sgd({o['lr']}, momentum={o['momentum'] or None}, nesterov={o['nesterov']})"
    note = "optax's momentum has no dampening" if o["momentum"] and o["dampening"] else None
    return [Twin(_chain(o, core), note)]


_AMSGRAD = "optax takes the maximum of the second moments after the bias correction, PyTorch before it"


def _adam(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    if o["amsgrad"]:
        return [Twin(_chain(o, f"optax.amsgrad({o['lr']}, {_b(o)})"), _AMSGRAD)]
    return [Twin(_chain(o, f"optax.adam({o['lr']}, {_b(o)})"))]


def _adamw(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    if o["amsgrad"]:
        parts = f"optax.scale_by_amsgrad({_b(o)}), optax.add_decayed_weights({o['weight_decay']})"
        core = f"optax.chain({parts}, optax.scale_by_learning_rate({o['lr']}))"
        return [Twin(_chain(o, core, decay=False), _AMSGRAD)]
    agreeing = f"optax.adamw({o['lr']}, {_b(o)}, weight_decay={o['weight_decay']})"
    if "weight_decay" in given:
        return [Twin(_chain(o, agreeing, decay=False))]
    plain = _chain(o, f"optax.adamw({o['lr']}, {_b(o)})", decay=False)
    flags = f"weight_decay={o['weight_decay']}"
    return [
        Twin(plain, f"optax's default weight_decay is 1e-4, PyTorch's 1e-2: give {flags}"),
        Twin(_chain(o, agreeing, decay=False), flags=flags),
    ]


def _adamax(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    return [Twin(_chain(o, f"optax.adamax({o['lr']}, {_b(o)})"))]


def _decoupled(o: dict[str, Any], core: str) -> str:
    """``core`` (a ``scale_by``), then decoupled weight decay and the learning rate."""
    parts = f"{core}, optax.add_decayed_weights({o['weight_decay']}), optax.scale_by_learning_rate({o['lr']})"
    return _chain(o, f"optax.chain({parts})", decay=False)


def _nadam(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    note = (
        "PyTorch's momentum grows with the step (momentum_decay), optax's is constant: Dozat's later form, with "
        "the bias correction of the next step"
    )
    if o["decoupled_weight_decay"]:
        return [Twin(_decoupled(o, f"optax.scale_by_adam({_b(o)}, nesterov=True)"), note)]
    return [Twin(_chain(o, f"optax.nadam({o['lr']}, {_b(o)})"), note)]


def _radam(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    note = "PyTorch adds eps to the root of the uncorrected second moment, optax to that of the corrected one"
    if o["decoupled_weight_decay"]:
        return [Twin(_decoupled(o, f"optax.scale_by_radam({_b(o)})"), note)]
    return [Twin(_chain(o, f"optax.radam({o['lr']}, {_b(o)})"), note)]


def _adagrad(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    lr = f"lambda count: {o['lr']} / (1 + count * {o['lr_decay']})" if o["lr_decay"] else o["lr"]
    start = o["initial_accumulator_value"]
    note = (
        "optax adds eps (by default 1e-7) under the root, and its accumulator starts at 0.1, PyTorch's at 0: give "
        "initial_accumulator_value and eps=0.0"
    )
    flags = f"initial_accumulator_value={float(start)}, eps=0.0"
    rest = "with eps=0.0 what is left is PyTorch's eps of 1e-10 beside the root, where optax has none"
    return [
        Twin(_chain(o, f"optax.adagrad({lr})"), note),
        Twin(_chain(o, f"optax.adagrad({lr}, {flags})"), rest, flags),
    ]


def _adadelta(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    return [Twin(_chain(o, f"optax.adadelta({o['lr']}, rho={o['rho']}, eps={o['eps']})"))]


def _rmsprop(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    shape = f"centered={o['centered']}, momentum={o['momentum'] or None}"
    own = f"eps={o['eps']}, {shape}" + (f", decay={o['alpha']}" if "alpha" in given else "")
    flags = f"decay={o['alpha']}, eps_in_sqrt=False"
    note = (
        "optax's decay is 0.9 by default, PyTorch's alpha 0.99; optax adds eps under the root: give decay and "
        "eps_in_sqrt=False"
    )
    return [
        Twin(_chain(o, f"optax.rmsprop({o['lr']}, {own})"), note),
        Twin(_chain(o, f"optax.rmsprop({o['lr']}, eps={o['eps']}, {shape}, {flags})"), flags=flags),
    ]


def _rprop(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    (down, up), (low, high) = o["etas"], o["step_sizes"]
    numbers = f"eta_minus={down}, eta_plus={up}, min_step_size={low}, max_step_size={high}"
    note = "optax applies the step that it computed one call earlier; its first update is zero"
    return [Twin(_chain(o, f"optax.rprop({o['lr']}, {numbers})", decay=False), note)]


def _adafactor(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    numbers = f"decay_rate={-o['beta2_decay']}, clipping_threshold={o['d']}, min_dim_size_to_factor=1"
    decay = f", weight_decay_rate={o['weight_decay'] * o['lr']}" if o["weight_decay"] else ""
    note = (
        "PyTorch caps the rate at 1/sqrt(step) and takes both eps as arguments; optax has no cap, fixes the smallest "
        "scale of a parameter at 1e-3, and needs min_dim_size_to_factor=1 to factor small matrices"
    )
    return [Twin(_chain(o, f"optax.adafactor({o['lr']}, {numbers}{decay})", decay=False), note)]


def _muon(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    numbers = (
        f"beta={o['momentum']}, nesterov={o['nesterov']}, weight_decay={o['weight_decay']}, eps={o['eps']}"
    )
    note = (
        "PyTorch orthogonalizes in bfloat16 and scales by sqrt(max(1, rows / columns)); optax works in the "
        "parameter's dtype, corrects the momentum's bias and has its own scaling"
    )
    return [Twin(f"optax.contrib.muon({o['lr']}, {numbers})", note)]


def _lbfgs(o: dict[str, Any], given: dict[str, Any]) -> list[Twin]:
    return [
        Twin(
            None,
            "optax.lbfgs takes one step a call with a zoom search of its own, PyTorch up to max_iter steps",
        )
    ]


_TABLE: dict[str, Callable[[dict[str, Any], dict[str, Any]], list[Twin]]] = {
    "SGD": _sgd, "Adam": _adam, "AdamW": _adamw, "Adamax": _adamax, "NAdam": _nadam, "RAdam": _radam,
    "Adagrad": _adagrad, "Adadelta": _adadelta, "RMSprop": _rmsprop, "Rprop": _rprop, "Adafactor": _adafactor,
    "Muon": _muon, "LBFGS": _lbfgs,
}  # fmt: skip
