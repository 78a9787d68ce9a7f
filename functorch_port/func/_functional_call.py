"""Modules as functions of their parameters: `functional_call`, `stack_module_state`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .._run import bind
from .._tensor import stand_ins
from .._tensor.tensor import Tensor

__all__ = ["functional_call", "stack_module_state"]


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call ``module`` with other parameters and buffers in place of its own.

    Args:
        module: an `nn.Module`.
        parameter_and_buffer_dicts: a dict from qualified names to Tensors, or a tuple of such dicts.
        args: the arguments, a tuple or a single value.
        kwargs: keyword arguments.
        tie_weights: a tensor for one name of a shared parameter replaces it under all its names.
        strict: require exactly the names of the module's parameters and buffers.

    Raises:
        ValueError: if a name is in two dicts.
        RuntimeError: with ``strict``, for missing and unexpected names.

    Example:
        >>> import functorch_port as torch
        >>> net = torch.nn.Linear(2, 1)
        >>> state = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
        >>> torch.func.functional_call(net, state, torch.tensor([1., 2.]))
        tensor([3.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.functional_call.html
    """
    given = _merged(parameter_and_buffer_dicts)
    for value in given.values():
        if not isinstance(value, Tensor):
            raise TypeError(f"{value} is not an instance of torch.Tensor")
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with swapped(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def _merged(dicts: Any) -> dict[str, Any]:
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    if not all(isinstance(d, dict) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for d in dicts for name in d]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous"
        )
    return {name: value for d in dicts for name, value in d.items()}


def _slots(module: Any) -> dict[str, tuple[dict[str, Any], str]]:
    """Qualified name -> (the dict that holds the parameter or buffer, its key); shared ones under all names."""
    found = {}
    for prefix, child in module.named_modules(remove_duplicate=False):
        for table in (child._parameters, child._buffers):
            for key, value in table.items():
                if value is not None:
                    found[f"{prefix}.{key}" if prefix else key] = (table, key)
    return found


@contextmanager
def swapped(module: Any, given: dict[str, Any], tie_weights: bool, strict: bool) -> Iterator[None]:
    slots, asked = _slots(module), given
    if tie_weights:
        given = _tied(slots, given)
    if strict:
        _check_names(module, slots, given)
    slots.update((name, _attribute(module, name)) for name in given if name not in slots)
    swap = stand_ins.Swap([*module.modules()], [slots[name] for name in given])
    with stand_ins.put(swap, [*given.values()]):
        try:
            yield
        finally:
            for name in asked:  # what the module put in their place is seen by the caller
                table, key = slots[name]
                asked[name] = table[key]


def _attribute(module: Any, name: str) -> tuple[dict[str, Any], str]:
    """The dict and key of a name that is None or an attribute (possibly missing), not a parameter or buffer."""
    path, _, key = name.rpartition(".")
    for i, part in enumerate(parts := path.split(".") if path else []):
        if not hasattr(module, part):
            raise AttributeError(f"{module._get_name()} has no attribute `{part}`")
        module = getattr(module, part)
        if not hasattr(module, "_parameters"):
            found = f"submodule `{'.'.join(parts[: i + 1])}`: {module}"
            raise TypeError(f"{found} is not an instance of torch.nn.Module")
    if not key:
        raise KeyError('tensor name can\'t be empty string ""')
    for table in (module._parameters, module._buffers):
        if key in table:
            return table, key
    value = getattr(module, key, None)
    if value is not None and not isinstance(value, Tensor):
        raise TypeError(f"attribute `{key}`: {value} is not an instance of torch.Tensor")
    return module.__dict__, key


def _tied(slots: dict[str, tuple[dict[str, Any], str]], given: dict[str, Any]) -> dict[str, Any]:
    """Extend ``given`` to all names of each shared tensor."""
    by_tensor: dict[int, list[str]] = {}
    for name, (table, key) in slots.items():
        by_tensor.setdefault(id(table[key]), []).append(name)
    out = dict(given)
    for names in by_tensor.values():
        values = [given[name] for name in names if name in given]
        if len(names) < 2 or not values:
            continue
        if any(v is not values[0] for v in values):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(n for n in names if n in given)}, "
                "which are tied. Consider using tie_weights=False"
            )
        out.update(dict.fromkeys(names, values[0]))
    return out


def _check_names(module: Any, slots: dict[str, Any], given: dict[str, Any]) -> None:
    missing = sorted(name for name in slots if name not in given)
    unexpected = sorted(name for name in given if name not in slots)
    lines = []
    if unexpected:
        lines.append("Unexpected key(s): " + ", ".join(map(repr, unexpected)) + ".")
    if missing:
        lines.append("Missing key(s): " + ", ".join(map(repr, missing)) + ".")
    if lines:
        raise RuntimeError(
            "Error(s) in reparametrizing for {}:\n\t{}".format(type(module).__name__, "\n\t".join(lines))
        )


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Stack the parameters and buffers of several modules of one class, for `vmap` over an ensemble.

    Args:
        models: modules of the same class, structure and training mode.

    Returns:
        ``(params, buffers)``: dicts from names to stacked Tensors; the parameters are new leaves.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.func.stack_module_state.html
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    params = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    stacked = {name: _stacked(name, [p[name] for p in params]) for name in params[0]}
    return stacked, {name: _stacked(name, [b[name] for b in buffers]) for name in buffers[0]}


def _stacked(name: str, tensors: Sequence[Tensor]) -> Tensor:
    stack = bind.function("stack")
    requires = [t.requires_grad for t in tensors]
    if any(r != requires[0] for r in requires):
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    if not requires[0]:
        return stack(tuple(tensors))
    if all(t.is_leaf for t in tensors):
        return stack(tuple(t.detach() for t in tensors)).requires_grad_()
    return stack(tuple(tensors))
