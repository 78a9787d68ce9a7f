"""`Checkpoints`: stop a training run at any time and resume it with identical results."""

from __future__ import annotations

import math
import os
import pickle
import re
import signal
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from functorch_port._base.atomic import link
from functorch_port._random.generator import Generator
from functorch_port._tensor.tensor import Tensor
from functorch_port.serialization import load, save
from functorch_port.utils._pytree import tree_leaves, tree_map
from functorch_port.utils.data import DataLoader
from functorch_port.utils.data._position import Position
from functorch_port.utils.data._utils.random_state import RandomState

__all__ = ["Checkpoints"]

_FORMAT = 1
_DAMAGED = (RuntimeError, OSError, EOFError, pickle.UnpicklingError)


class Checkpoints:
    """Checkpoints of a training run in a folder.

    A checkpoint holds the states of all parts, the number of steps, and the random states of Python, numpy and the
    default generator with its JAX key. Files are written atomically; each is a dict that ``torch.load`` can read.
    A resumed run is bitwise identical to one that was never stopped. For eager steps this requires
    ``use_deterministic_algorithms(True)``: otherwise repeated operations become one program, which may round
    differently from single operations.

    Inside ``with checkpoints:`` a SIGTERM saves a checkpoint and ends the process at the next `after_step`, or at the
    end of the block. A second SIGTERM ends it at once.

    Args:
        folder: the folder of the files; created if missing.
        every: number of steps between checkpoints; 0 for no automatic checkpoints.
        keep: number of most recent checkpoints to keep.
        best: ``"min"`` or ``"max"``: keep the best checkpoint, by the ``metric`` of `save`, as ``best.pt``.
        signals: the signals that save and end the process; ``(SIGTERM, SIGINT)`` adds Ctrl-C.
        parts: named parts: modules, optimizers, schedulers, scalers and other objects with ``state_dict`` and
            ``load_state_dict``; a `Generator`; a `DataLoader`, whose current pass is resumed.

    Attributes:
        step: number of steps taken.
        notes: the notes passed to `after_step` and `save`.
        best_metric: the metric of ``best.pt``; None if there is none.

    Raises:
        TypeError: if a part has no ``state_dict`` and ``load_state_dict``.
        ValueError: if ``best`` is not one of its values, ``keep`` is below 1, or ``every`` is negative.

    Example:
        >>> import tempfile
        >>> import functorch_port as torch
        >>> from functorch_port.utils.resume import Checkpoints
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        >>> folder = tempfile.TemporaryDirectory()
        >>> checkpoints = Checkpoints(folder.name, every=2, model=model, optimizer=optimizer)
        >>> checkpoints.restore()
        False
        >>> with checkpoints:
        ...     while checkpoints.step < 5:
        ...         optimizer.zero_grad()
        ...         model(torch.ones(2)).sum().backward()
        ...         optimizer.step()
        ...         checkpoints.after_step()
        >>> [file.name for file in checkpoints.files()]
        ['step-00000002.pt', 'step-00000004.pt']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        every: int = 0,
        keep: int = 3,
        best: str | None = None,
        signals: Iterable[int] = (signal.SIGTERM,),
        **parts: Any,
    ) -> None:
        if best not in (None, "min", "max"):
            raise ValueError(f"best should be 'min', 'max' or None, but got {best!r}")
        if keep < 1 or every < 0:
            raise ValueError(f"keep should be positive, and every not negative, but got {keep} and {every}")
        self.folder, self.every, self.keep = Path(folder), every, keep
        self.step = 0
        self.notes: dict[str, Any] = {}
        self.best_metric: float | None = None
        self._sign = {"min": 1, "max": -1, None: 0}[best]
        self._parts = {name: _part(name, part) for name, part in parts.items()}
        self._signals = tuple(signals)
        self._handlers: dict[int, Any] = {}
        self._signal: int | None = None

    def files(self) -> list[Path]:
        """The checkpoint files of steps, the latest last."""
        found = self.folder.glob("step-*.pt")
        return sorted((f for f in found if _number(f) is not None), key=_number)

    @property
    def best_file(self) -> Path:
        """The file of the best checkpoint."""
        return self.folder / "best.pt"

    # ----------------------------------------------------------------- saving

    def after_step(self, **notes: Any) -> None:
        """Count a step, and save if it is due; call it at the end of each step.

        Args:
            notes: further data needed to resume, such as the epoch; numbers, text, tensors.

        Raises:
            SystemExit: after a signal, with the code 128 plus its number.
        """
        self.step += 1
        self.notes.update(notes)
        if self._signal is not None:
            self._stop()
        elif self.every and self.step % self.every == 0:
            self.save()

    def save(self, metric: Any = None, **notes: Any) -> Path:
        """Write a checkpoint of the current step.

        Args:
            metric: a number that determines the best checkpoint.
            notes: as in `after_step`.

        Raises:
            ValueError: if there is a metric, but `best` was not set.
            RuntimeError: if the file cannot be written; existing files are kept.
        """
        if metric is not None and not self._sign:
            raise ValueError("a metric needs Checkpoints(best='min') or Checkpoints(best='max')")
        self.notes.update(notes)
        states = {name: part.state_dict() for name, part in self._parts.items()}
        metric = None if metric is None else float(metric)
        is_best = metric is not None and self._is_better(metric)
        state = {
            "format": _FORMAT,
            "step": self.step,
            "notes": self.notes,
            "best metric": metric if is_best else self.best_metric,
            "is best": is_best,
            "random": RandomState().plain(),
            "parts": states,
            "on the host": {k: [_is_on_host(t) for t in _tensors(v)] for k, v in states.items()},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"step-{self.step:08d}.pt"
        save(state, path)
        if is_best:
            self.best_metric = metric
            link(path, self.best_file)
        for old in [f for f in self.files() if f != path][: 1 - self.keep or None]:
            old.unlink(missing_ok=True)
        return path

    def _is_better(self, metric: float) -> bool:
        old = math.inf if self.best_metric is None else self._sign * self.best_metric
        return self._sign * metric < old

    # ---------------------------------------------------------------- restoring

    def restore(self, file: str | os.PathLike[str] | None = None) -> bool:
        """Restore the latest readable checkpoint; return whether there was one.

        Damaged files are skipped with a warning.

        Args:
            file: the file to restore instead, such as `best_file`.

        Raises:
            RuntimeError: if no checkpoint can be read, or it does not match the parts; then nothing is changed.
        """
        files = self.files()[::-1] if file is None else [Path(file)]
        for path in files:
            try:
                state = load(path, map_location="cpu")
                if not isinstance(state, dict) or state.get("format") != _FORMAT:
                    raise RuntimeError("it was not written by Checkpoints, or by another version")
            except _DAMAGED as error:
                if path == files[-1]:
                    raise RuntimeError(
                        f"no checkpoint can be read; the last one was {path}: {error}"
                    ) from error
                warnings.warn(
                    f"{path} cannot be read, going back to the checkpoint before it ({error})", stacklevel=2
                )
            else:
                self._take(state, path)
                return True
        return False

    def _take(self, state: dict[str, Any], path: Path) -> None:
        saved = state["parts"]
        if saved.keys() != self._parts.keys():
            raise RuntimeError(
                f"{path} has the parts {sorted(saved)}, but this run has {sorted(self._parts)}"
            )
        streams, before = RandomState(), {}
        try:
            for name, part in self._parts.items():
                before[name] = tree_map(_frozen, part.state_dict())
                part.load_state_dict(saved[name])
            RandomState.of(state["random"]).restore()
        except Exception as error:
            for done, old in before.items():
                self._parts[done].load_state_dict(old)
            streams.restore()
            raise RuntimeError(
                f"{path} does not match this run, so nothing was changed. {name}: {type(error).__name__}: {error}"
            ) from error
        for name, part in self._parts.items():
            for tensor, on_host in zip(_tensors(part.state_dict()), state["on the host"][name]):
                if not on_host and _is_on_host(tensor):
                    tensor._storage.value = tensor._storage.value  # so that operations round as before
        self.step, self.notes, self.best_metric = state["step"], state["notes"], state["best metric"]
        if state["is best"] and path != self.best_file:  # the process may have ended before it wrote best.pt
            link(path, self.best_file)

    # ----------------------------------------------------------------- signals

    def __enter__(self) -> Checkpoints:
        self._signal = None
        for number in self._signals:
            self._handlers[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._release()
        if kind is None and self._signal is not None:
            self._stop()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        self._release()

    def _release(self) -> None:
        """Restore the previous signal handlers."""
        while self._handlers:
            signal.signal(*self._handlers.popitem())

    def _stop(self) -> None:
        assert self._signal is not None
        number, self._signal = self._signal, None
        self.save()
        raise SystemExit(128 + number)


class _Stream:
    """A generator as a part, with ``state_dict`` and ``load_state_dict``."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def state_dict(self) -> dict[str, Any]:
        return {"state": self._generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._generator.set_state(state["state"])


def _part(name: str, part: Any) -> Any:
    if isinstance(part, DataLoader):
        return Position.of(part)
    if isinstance(part, Generator):
        return _Stream(part)
    if hasattr(part, "state_dict") and hasattr(part, "load_state_dict"):
        return part
    raise TypeError(f"the part {name!r} has no state_dict and load_state_dict: {type(part).__name__}")


def _number(path: Path) -> Any:
    """The step in the name of a file, or None if it has another name."""
    found = re.fullmatch(r"step-(\d+)\.pt", path.name)
    return found and int(found[1])


def _tensors(states: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(states) if isinstance(leaf, Tensor)]


def _is_on_host(tensor: Tensor) -> bool:
    return tensor._storage.host() is not None


def _frozen(value: Any) -> Any:
    """A tensor that keeps the current value of ``value``."""
    return Tensor._wrap(value._value) if isinstance(value, Tensor) else value
