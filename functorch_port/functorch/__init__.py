"""``functorch``, which ``import functorch`` gets in a launched script: the old names of `torch.func`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .. import func
from .._functorch import make_functional as _modules
from ..func import debug_unwrap as debug_unwrap

__all__ = [
    "combine_state_for_ensemble", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip


def _deprecated(fn: Callable[..., Any], instead: str) -> Callable[..., Any]:
    """A function that warns as PyTorch's does, and then does what ``fn`` does."""

    @functools.wraps(fn)
    def warning(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            "We've integrated functorch into PyTorch. As the final step of the integration, "
            f"`functorch.{fn.__name__}` is deprecated as of PyTorch 2.0 and will be deleted in a future version of "
            f"PyTorch >= 2.3. Please use `torch.func.{instead}` instead; see the PyTorch 2.0 release notes and/or the "
            "`torch.func` migration guide for more details https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning,
            stacklevel=2,
        )
        return fn(*args, **kwargs)

    return warning


vmap = _deprecated(func.vmap, "vmap")
grad = _deprecated(func.grad, "grad")
grad_and_value = _deprecated(func.grad_and_value, "grad_and_value")
vjp = _deprecated(func.vjp, "vjp")
jvp = _deprecated(func.jvp, "jvp")
jacrev = _deprecated(func.jacrev, "jacrev")
jacfwd = _deprecated(func.jacfwd, "jacfwd")
hessian = _deprecated(func.hessian, "hessian")
functionalize = _deprecated(func.functionalize, "functionalize")
make_functional = _deprecated(_modules.make_functional, "functional_call")
make_functional_with_buffers = _deprecated(_modules.make_functional_with_buffers, "functional_call")
combine_state_for_ensemble = _deprecated(_modules.combine_state_for_ensemble, "stack_module_state")
