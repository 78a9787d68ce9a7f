"""Where a loader's pass is: what a checkpoint keeps of a `DataLoader`."""

from __future__ import annotations

import weakref
from typing import Any

from functorch_port._random.generator import Generator
from functorch_port.utils.data._utils.worker import RandomState

__all__ = ["Position"]


class Position:
    """Notes where the passes of a loader are, and lets one go on in the middle.

    A pass is what the states of the random streams at its begin make of it. So these are what is kept, with the number
    of batches. To go on, the pass is begun again with them, as many batches are left out, and the streams continue
    where they were. That goes for shuffling, workers, and samplers of the user's own, unless those draw now and then
    from a stream that others draw from meanwhile. A dataset with a state of its own has to keep that itself.

    Args:
        loader: a `DataLoader`.

    Raises:
        NotImplementedError: it has persistent workers, whose datasets are as the passes before have left them.
    """

    def __init__(self, loader: Any) -> None:
        if loader.persistent_workers:
            raise NotImplementedError(
                "the position of a DataLoader(persistent_workers=True) cannot be kept: its workers go on from pass to "
                "pass; use persistent_workers=False"
            )
        self._loader = loader
        self._began: RandomState | None = None
        self._iterator: Any = lambda: None
        self._goes_on: tuple[RandomState, int, RandomState] | None = None
        loader._position = self

    @classmethod
    def of(cls, loader: Any) -> Position:
        """The one of this loader."""
        return loader._position or cls(loader)

    def _generators(self) -> list[Generator]:
        """What the order is drawn from, beside the streams of the process."""
        places = [self._loader, self._loader.batch_sampler, self._loader.sampler]
        places += [getattr(place, "sampler", None) for place in places]
        found = [getattr(place, "generator", None) for place in places]
        return list({id(g): g for g in found if isinstance(g, Generator)}.values())

    def begin(self) -> Any:
        """An iterator over the next pass, or over the rest of the one that goes on."""
        goes_on, self._goes_on = self._goes_on, None
        if goes_on is not None:
            goes_on[0].restore()
        self._began = RandomState(self._generators())
        iterator = self._loader._get_iterator()
        self._iterator = weakref.ref(iterator)
        if goes_on is not None:
            iterator._pass_over(goes_on[1])
            goes_on[2].restore()
        return iterator

    def state_dict(self) -> dict[str, Any]:
        """The streams at the begin of the pass and now, and how many batches of it have been."""
        now, iterator = RandomState(self._generators()), self._iterator()
        if self._goes_on is not None:  # it still is where it was
            began, count, now = self._goes_on
        elif iterator is None or iterator._ended or self._began is None:
            return {"began": None, "batches": 0, "now": now.plain()}
        else:
            began, count = self._began, iterator._num_yielded + iterator._num_failed
        return {"began": began.plain(), "batches": count, "now": now.plain()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Have the next pass be the rest of the one that was going on when `state_dict` was called.

        Raises:
            RuntimeError: the loader draws from more or fewer generators than that one did.
        """
        generators = self._generators()
        now = RandomState.of(state["now"], generators)
        self._goes_on = None
        if state["began"] is not None:
            self._goes_on = RandomState.of(state["began"], generators), state["batches"], now
        else:
            for generator, saved in now.generators[1:]:
                generator.__setstate__(saved)
