"""The position of a `DataLoader` in its pass, for checkpoints."""

from __future__ import annotations

import weakref
from typing import Any

from functorch_port._random.generator import Generator
from functorch_port.utils.data._utils.random_state import RandomState

__all__ = ["Position"]


class Position:
    """The position of a loader in its current pass, which can be saved and resumed.

    The random states at the start of a pass determine its order. They are saved with the number of batches done and the
    current random states. A resumed run starts the pass again with the first states, skips the batches done, and
    restores the current states. This works for shuffling, workers and user-defined samplers, unless a sampler draws
    during the pass from a generator that other code uses too. The state of a dataset is not saved.

    Args:
        loader: a `DataLoader`.

    Raises:
        NotImplementedError: for persistent workers, whose datasets keep state from earlier passes.
    """

    def __init__(self, loader: Any) -> None:
        if loader.persistent_workers:
            raise NotImplementedError(
                "the position of a DataLoader(persistent_workers=True) cannot be saved, as its workers keep state from "
                "pass to pass; use persistent_workers=False"
            )
        self._loader = loader
        self._began: RandomState | None = None
        self._iterator: Any = lambda: None
        self._goes_on: tuple[RandomState, int, RandomState] | None = None
        loader._position = self

    @classmethod
    def of(cls, loader: Any) -> Position:
        """The position of a loader, created if there is none."""
        return loader._position or cls(loader)

    def _generators(self) -> list[Generator]:
        """The generators of the loader and its samplers."""
        places = [self._loader, self._loader.batch_sampler, self._loader.sampler]
        places += [getattr(place, "sampler", None) for place in places]
        found = [getattr(place, "generator", None) for place in places]
        return list({id(g): g for g in found if isinstance(g, Generator)}.values())

    def begin(self) -> Any:
        """An iterator over the next pass, or over the rest of a resumed one."""
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
        """The random states at the start of the pass and now, and the number of batches done.

        Raises:
            NotImplementedError: `prefetch_to_device` has taken batches ahead that no worker has loaded.
        """
        now, iterator = RandomState(self._generators()), self._iterator()
        if self._goes_on is not None:  # not resumed yet
            began, count, now = self._goes_on
        elif iterator is None or self._began is None or (iterator._ended and iterator._num_ahead is None):
            return {"began": None, "batches": 0, "now": now.plain()}
        else:
            ahead = iterator._num_ahead or 0
            began, count = self._began, iterator._num_yielded + iterator._num_failed - ahead
            if ahead and not self._loader.num_workers:
                raise NotImplementedError(
                    "the position of a DataLoader(num_workers=0) under prefetch_to_device cannot be saved within a "
                    "pass, as loading ahead may have drawn random numbers in this process; use num_workers=1"
                )
        return {"began": began.plain(), "batches": count, "now": now.plain()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Make the next pass the rest of the one that was in progress when `state_dict` was called.

        Raises:
            RuntimeError: if the loader has a different number of generators.
        """
        generators = self._generators()
        now = RandomState.of(state["now"], generators)
        self._goes_on = None
        if state["began"] is not None:
            self._goes_on = RandomState.of(state["began"], generators), state["batches"], now
        else:
            for generator, saved in now.generators[1:]:
                generator.__setstate__(saved)
