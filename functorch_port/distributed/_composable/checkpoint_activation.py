"""`checkpoint`, which has a module not keep its activations."""

from __future__ import annotations

import functools
from typing import Any

from ...nn._module import Module
from ...utils.checkpoint import checkpoint as run

__all__ = ["checkpoint"]


def checkpoint(module: Module, **kwargs: Any) -> Module:
    """Have a module not keep its activations, in place: the backward pass computes them again.

    Args:
        module: the module.
        kwargs: keyword arguments of `utils.checkpoint.checkpoint`.

    Raises:
        NotImplementedError: for ``use_reentrant=True``.
    """
    if kwargs.pop("use_reentrant", False):
        raise NotImplementedError(
            "use_reentrant=True is not supported in composable checkpoint. "
            "Please use torch.utils.checkpoint.checkpoint instead."
        )
    forward = module.forward

    @functools.wraps(forward)
    def checkpointed(*args: Any, **given: Any) -> Any:
        return run(forward, *args, use_reentrant=False, **kwargs, **given)

    module.forward = checkpointed
    return module
