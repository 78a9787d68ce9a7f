"""``torch.random``: the seed and state of the default generator.

Reference: https://docs.pytorch.org/docs/stable/random.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ._random.generator import Generator as Generator
from ._random.generator import default_generator as default_generator
from ._tensor.tensor import Tensor

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


def manual_seed(seed: int) -> Generator:
    """Seed the default generator, which serves all devices.

    Args:
        seed: an integer in [-2**63, 2**64).

    Raises:
        ValueError: the seed is out of range.

    Example:
        >>> import functorch_port as torch
        >>> torch.manual_seed(0).initial_seed()
        0

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.manual_seed.html
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the operating system; returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state as a uint8 tensor of 5056 bytes, in PyTorch's layout.

    Example:
        >>> import functorch_port as torch
        >>> state = torch.get_rng_state()
        >>> first = torch.rand(3)
        >>> torch.set_rng_state(state)
        >>> torch.equal(first, torch.rand(3))
        True

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.get_rng_state.html
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the default generator's state.

    Args:
        new_state: the result of `get_rng_state`, here or in PyTorch.
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Iterable[Any] | None = None, enabled: bool = True, **kwargs: Any) -> Iterator[None]:
    """A context manager that restores the random state at its end.

    Args:
        devices: accepted, without effect; one generator serves all devices.
        enabled: False turns the context manager off.

    Example:
        >>> import functorch_port as torch
        >>> _ = torch.manual_seed(0)
        >>> with torch.random.fork_rng():
        ...     inside = torch.rand(1)
        >>> torch.equal(inside, torch.rand(1))
        True

    Reference: https://docs.pytorch.org/docs/stable/random.html#torch.random.fork_rng
    """
    if not enabled:
        yield
        return
    state = default_generator.get_state()
    try:
        yield
    finally:
        default_generator.set_state(state)
