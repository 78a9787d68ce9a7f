"""The protocol `Stateful`: objects that give their state, and take it back."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """An object with ``state_dict`` and ``load_state_dict``, such as a module, an optimizer or a schedule.

    In what is given to `save` and `load`, such an object stands for its state.

    Reference: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html#torch.distributed.checkpoint.stateful.Stateful
    """

    def state_dict(self) -> dict[str, Any]:
        """The state; `load` calls this, too, and reads the saved values into what it returns."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state back."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
