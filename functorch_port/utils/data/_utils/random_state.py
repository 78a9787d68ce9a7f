"""The random states of Python, numpy and the default generator."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np

import functorch_port as torch
from functorch_port._random.generator import Generator, default_generator

__all__ = ["RandomState"]


class RandomState:
    """The current random states of Python, numpy and the default generator.

    Args:
        generators: further generators.
    """

    def __init__(self, generators: Iterable[Generator] = ()) -> None:
        self.python: Any = random.getstate()
        self.numpy: Any = np.random.get_state(legacy=False)
        self.generators = [(g, g.__getstate__()) for g in (default_generator, *generators)]

    def restore(self) -> None:
        """Set the current states to these."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        for generator, state in self.generators:
            generator.__setstate__(state)

    def plain(self) -> dict[str, Any]:
        """The states as numbers, strings and tensors, for a file."""
        words = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in self.numpy["state"].items()}
        return {
            "python": self.python,
            "numpy": {**self.numpy, "state": words},
            "generators": [torch.tensor(list(state), dtype=torch.uint8) for _, state in self.generators],
        }

    @classmethod
    def of(cls, plain: dict[str, Any], generators: Iterable[Generator] = ()) -> RandomState:
        """The states from the result of `plain`.

        Raises:
            RuntimeError: the number of generators differs.
        """
        self = cls(generators)
        words = plain["numpy"]["state"].items()
        state = {k: np.array(v, np.uint32) if isinstance(v, list) else v for k, v in words}
        self.python, self.numpy = plain["python"], {**plain["numpy"], "state": state}
        states = [bytes(saved.tolist()) for saved in plain["generators"]]
        if len(states) != len(self.generators):
            raise RuntimeError(
                f"the checkpoint has the states of {len(states)} generators, but this run has {len(self.generators)}"
            )
        self.generators = [(g, saved) for (g, _), saved in zip(self.generators, states, strict=True)]
        return self
