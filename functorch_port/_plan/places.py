"""Where an operation comes from: its phase and its module, by the stack of names that JAX gives it."""

from __future__ import annotations

import re

from .._base import flops, scopes

__all__ = ["PHASES", "module_of", "of_hlo", "phase_of"]

PHASES = ("forward", "backward", "recomputed", "update")

#: what JAX adds to names when it lowers loops, branches and calls
_ADDED = re.compile(
    r"jit\(.*\)|pjit\(.*\)|while|body|cond|closed_call|eval_jaxpr|remat2|shard_map|call_exported|branch_\d+_fun|custom_[jv]\w+"
)


#: what `Optimizer.step` names its operations
_STEP = re.compile(r"[A-Z]\w*\.step")


def phase_of(place: str) -> str:
    """forward, backward, recomputed or update, by a stack of names, ours or of `jax.grad`."""
    names = flops.parts(place)
    if scopes.RECOMPUTED in names:
        return "recomputed"
    if _backward(flops.split(place)) is not None or "transpose(" in place:
        return "backward"
    return "update" if any(map(_STEP.fullmatch, names)) else "forward"


def _backward(stack: list[str]) -> int | None:
    """Where our name of a backward pass is in a stack, maybe within a region; a module may be called so, too."""
    transposed = next((k for k, part in enumerate(stack) if part.startswith("transpose(")), None)
    for k, part in enumerate(stack[:transposed]):
        if scopes.is_backward(part):
            again = stack[k + 1 : k + 2] == [scopes.RECOMPUTED]
            return k if k == 0 or again or transposed is not None else None
    return None


def module_of(place: str) -> str:
    """The module in a stack of names, the same for all phases; `einsum`'s names are left out."""
    stack = flops.split(place)
    back = [k for k, part in enumerate(stack) if part.startswith("transpose(")]
    again = [k for k, part in enumerate(stack) if back and k > back[-1] and part.startswith("jvp(")]
    if again:  # `jax.checkpoint` has the names twice
        stack[back[0] : again[0]] = []
    ours = _backward(flops.split(place))
    if ours is not None:
        del stack[ours]
    names = flops.parts("/".join(stack))
    return "/".join(
        name for name in names if name not in (scopes.RECOMPUTED, "checkpoint") and "->" not in name
    )


def of_hlo(place: str) -> str:
    """The stack of names in a name of HLO (``op_name``), whose last part is the operation."""
    found = flops.split(place)
    names = found[:-1] if len(found) > 1 else found
    return "/".join(part for part in names if not _ADDED.fullmatch(part))
