"""``torch.utils._python_dispatch``: there is no dispatcher to put modes on."""

from __future__ import annotations

from typing import Any

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """False: there are no wrapper subclasses."""
    return False


class TorchDispatchMode:
    """Refused when it is entered: operations are not dispatched through Python modes.

    Raises:
        NotImplementedError: on entry.
    """

    def __enter__(self) -> Any:
        raise NotImplementedError(
            "torch.utils._python_dispatch.TorchDispatchMode: operations are not dispatched through modes; "
            "functorch_port.functionalize(fn) gives the JAX function, whose jaxpr lists the operations"
        )

    def __exit__(self, *exc: object) -> None:
        """Never reached."""
