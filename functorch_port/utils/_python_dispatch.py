"""``torch.utils._python_dispatch``: dispatch modes are not supported."""

from __future__ import annotations

from typing import Any

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Always False: there are no wrapper subclasses."""
    return False


class TorchDispatchMode:
    """Not supported: operations are not dispatched through Python modes.

    Raises:
        NotImplementedError: on entry.
    """

    def __enter__(self) -> Any:
        raise NotImplementedError(
            "torch.utils._python_dispatch.TorchDispatchMode is not supported: operations are not dispatched through "
            "modes. To list operations, print the jaxpr of the JAX function from functorch_port.functionalize(fn)"
        )

    def __exit__(self, *exc: object) -> None:
        """Never reached."""
