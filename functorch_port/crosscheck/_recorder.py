"""Records an optimizer of a training script to a file.

A recording has the initial parameters and, for every step, the gradients, the hyperparameters, and the parameters and
the state after it. `player` runs it through other libraries.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from functorch_port import launcher

from .._base.atomic import atomic
from ._problems import Arrays, WrongUse
from ._sides import DTYPES, library, state_of

__all__ = ["Recording", "record_script", "recording"]

_FORMAT = 2
#: entries of a group that do not change the numbers of a step
_NOT_MATH = {"params", "param_names", "initial_lr", "foreach", "fused", "capturable", "differentiable"}

Gradients = dict[str, np.ndarray | None]


class NothingRecorded(WrongUse, RuntimeError):
    """The requested optimizer took no step."""


class Evaluation(NamedTuple):
    """The gradients of an evaluation, and the loss if a closure computed them."""

    loss: float | None
    grads: Gradients


class Recording:
    """One optimizer's trajectory.

    Attributes:
        meta: the parameters' names and dtype, and the optimizer's class and library.
        groups: for every step, the hyperparameters of every group.
        start: the parameters before the first step.
        evaluations: for every step, the gradients by name (None for a missing one): one entry, or one for each call of
            the closure.
        params: the parameters after every step.
        states: the optimizer's state after every step, as ``entry of parameter``.
    """

    def __init__(self, meta: dict[str, Any]) -> None:
        self.meta = meta
        self.groups: list[list[dict[str, Any]]] = []
        self.start: Arrays = {}
        self.evaluations: list[list[Evaluation]] = []
        self.params: list[Arrays] = []
        self.states: list[dict[str, np.ndarray]] = []

    @property
    def grads(self) -> list[Gradients]:
        """The gradients of the first evaluation of every step."""
        return [evaluations[0].grads for evaluations in self.evaluations]

    def save(self, path: str | Path) -> None:
        """Write a file that `load` reads, atomically: numpy's ``.npz`` without pickled objects."""
        arrays = {f"start/{k}": v for k, v in self.start.items()}
        for i, evaluations in enumerate(self.evaluations):
            for j, evaluation in enumerate(evaluations):
                arrays.update({f"grad/{i}/{j}/{k}": v for k, v in evaluation.grads.items() if v is not None})
            arrays.update({f"param/{i}/{k}": v for k, v in self.params[i].items()})
            arrays.update({f"state/{i}/{k}": v for k, v in self.states[i].items()})
        losses = [[e.loss for e in evaluations] for evaluations in self.evaluations]
        text = json.dumps({"format": _FORMAT, **self.meta, "groups": self.groups, "losses": losses})
        with atomic(str(Path(path).resolve())) as file:
            np.savez_compressed(file, meta=np.array(text), **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read a file of `save`.

        Raises:
            ValueError: the file does not exist, is not a recording, or is of another version.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                meta = json.loads(str(file["meta"]))
                if meta.pop("format", None) != _FORMAT:
                    raise WrongUse(f"{path} was written by another version of crosscheck; record it again")
                return cls._of(meta, file)
        except FileNotFoundError:
            raise WrongUse(f"{path}: there is no such file; `crosscheck record SCRIPT` writes one") from None
        except WrongUse:
            raise
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError, EOFError, OSError) as error:
            raise WrongUse(f"{path} is not a recording of crosscheck, or it is damaged: {error}") from error

    @classmethod
    def _of(cls, meta: dict[str, Any], file: Any) -> Recording:
        self = cls(meta)
        self.groups, losses, names = meta.pop("groups"), meta.pop("losses"), meta["names"]
        self.start = {k: file[f"start/{k}"] for k in names}
        there = set(file.files)
        for i, of_step in enumerate(losses):
            grads = lambda at: {k: file[at + k] if at + k in there else None for k in names}
            self.evaluations.append([Evaluation(x, grads(f"grad/{i}/{j}/")) for j, x in enumerate(of_step)])
            self.params.append({k: file[f"param/{i}/{k}"] for k in names})
            mark = f"state/{i}/"
            self.states.append({k.removeprefix(mark): file[k] for k in file.files if k.startswith(mark)})
        return self


class _Recorder:
    """Hooks on every optimizer's step that record number ``which``, in the order of first steps."""

    def __init__(self, lib: Any, which: int, limit: int | None) -> None:
        if which < 0:
            raise WrongUse(f"which must be the index of an optimizer, at least 0, got {which}")
        if limit is not None and limit < 1:
            raise WrongUse(f"the number of steps to record must be at least 1, got {limit}")
        self.lib, self.which, self.limit = lib, which, limit
        self.seen: list[Any] = []
        self.recording: Recording | None = None
        self.params: dict[str, Any] = {}
        #: the evaluations of the current step; None outside of recorded steps
        self.now: list[Evaluation] | None = None
        self.options: list[dict[str, Any]] = []

    def before(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        if not any(o is optimizer for o in self.seen):
            self.seen.append(optimizer)
        if not self.is_the_one(optimizer):
            return None
        self.now = None
        if self.full():
            return None
        if self.lib.compiler.is_compiling():
            raise NotImplementedError(
                "crosscheck record: this step is part of a traced function (functionalize), whose values cannot be "
                "recorded. Call optimizer.step() outside of it"
            )
        if self.recording is None:
            self.begin(optimizer)
        self.options = [_options(g) for g in optimizer.param_groups]
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            self.now = [Evaluation(None, self.grads())]
            return None
        self.now = []
        if len(args) > 1:
            return (args[0], self.watched(closure), *args[2:]), kwargs
        return args, {**kwargs, "closure": self.watched(closure)}

    def is_the_one(self, optimizer: Any) -> bool:
        """Whether this optimizer is recorded."""
        return any(o is optimizer for o in self.seen[self.which : self.which + 1])

    def watched(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """The closure, with its evaluations recorded."""

        def noted() -> Any:
            loss = closure()
            if self.now is not None:
                value = loss.detach() if hasattr(loss, "detach") else loss
                self.now.append(Evaluation(None if value is None else float(value), self.grads()))
            return loss

        return noted

    def after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self.is_the_one(optimizer):
            return
        if self.now and self.recording is not None:
            self.recording.groups.append(self.options)
            self.recording.evaluations.append(self.now)
            self.recording.params.append({k: _array(p) for k, p in self.params.items()})
            self.recording.states.append(state_of(optimizer, self.params))
        self.now = None

    def grads(self) -> Gradients:
        return {k: None if p.grad is None else _array(p.grad) for k, p in self.params.items()}

    def full(self) -> bool:
        return self.limit is not None and self.steps() >= self.limit

    def steps(self) -> int:
        """The number of recorded steps."""
        return len(self.recording.params) if self.recording is not None else 0

    def begin(self, optimizer: Any) -> None:
        places = _names(optimizer, self.lib)
        for names, group in zip(places, optimizer.param_groups, strict=True):
            self.params.update(zip(names, group["params"], strict=True))
        kinds = {str(p.dtype).removeprefix("torch.") for p in self.params.values()}
        if len(kinds) > 1 or not kinds <= set(DTYPES):
            raise NotImplementedError(
                f"crosscheck record: parameters of dtype {' and '.join(sorted(kinds))}; all must have one "
                f"dtype of {', '.join(DTYPES)}"
            )
        cls = type(optimizer)
        if cls.__name__ == "SparseAdam":
            raise NotImplementedError(
                "crosscheck record: a recording cannot distinguish missing rows of a sparse gradient from zeros, as "
                "SparseAdam does; `crosscheck --optimizer SparseAdam` compares it on a problem"
            )
        standard = getattr(self.lib.optim, cls.__name__, None) is cls
        self.recording = Recording(
            {
                "optimizer": cls.__name__, "home": None if standard else cls.__module__, "places": places,
                "names": list(self.params), "dtype": kinds.pop(), "library": self.lib.__name__,
                "version": str(self.lib.__version__),
            }
        )  # fmt: skip
        self.recording.start = {k: _array(p) for k, p in self.params.items()}

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Record steps within the block, where compiled functions run eagerly, so that the hooks see each step."""
        pre, post = _hooks(self.lib)
        handles = [pre(self.before), post(self.after)]
        try:
            with self.lib.compiler.set_stance("force_eager"):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def finish(self, path: str | Path, whole: bool) -> bool:
        """Write the file unless the recording is incomplete; returns whether it is written."""
        if self.recording is None or not self.steps() or not (whole or self.full()):
            return False
        self.recording.save(path)
        return True

    def nothing(self) -> NothingRecorded:
        """The error for an optimizer that took no step."""
        return NothingRecorded(
            f"nothing was recorded: {len(self.seen)} optimizers of {self.lib.__name__} took a step, and the "
            f"requested index is {self.which}"
        )


def _names(optimizer: Any, lib: Any) -> list[list[str]]:
    """The names of each group's parameters: those in a live module, else the group and index."""
    wanted = {id(p) for group in optimizer.param_groups for p in group["params"]}
    tables: list[tuple[int, int, int, str, dict[int, str]]] = []
    for thing in gc.get_objects():
        if issubclass(type(thing), lib.nn.Module):
            table = {id(p): name for name, p in thing.named_parameters() if id(p) in wanted}
            kind = type(thing).__name__
            tables.append((-len(table), sum(map(len, table.values())), len(tables), kind, table))
    found: dict[int, str] = {}
    for *_, kind, table in sorted(
        tables
    ):  # the module with the most parameters first, then the shortest names
        new = {key: name for key, name in table.items() if key not in found}
        taken = set(new.values()) & set(found.values())
        found |= {key: f"{kind}.{name}" if taken else name for key, name in new.items()}
    places = []
    for i, group in enumerate(optimizer.param_groups):
        given = group.get("param_names") or [None] * len(group["params"])
        pairs = enumerate(zip(given, group["params"], strict=True))
        places.append([name or found.get(id(p), f"{i}.{j}") for j, (name, p) in pairs])
    names = [n for group in places for n in group]
    if len(set(names)) == len(names):
        return places
    return [[f"{i}.{j}" for j in range(len(group))] for i, group in enumerate(places)]


def _array(tensor: Any) -> np.ndarray:
    """The values as an array that numpy can store; half types as float32, which is exact."""
    tensor = tensor.detach()
    if getattr(tensor, "is_sparse", False):
        tensor = tensor.to_dense()
    if tensor.itemsize < 4:
        tensor = tensor.float()
    return np.array(tensor.cpu().numpy())


def _options(group: dict[str, Any]) -> dict[str, Any]:
    """The hyperparameters of a group that the file can hold."""
    plain = {k: _plain(v) for k, v in group.items() if k not in _NOT_MATH}
    return {k: v for k, v in plain.items() if v is not _NOT_PLAIN}


_NOT_PLAIN: Any = object()


def _plain(value: Any) -> Any:
    if hasattr(value, "item") and hasattr(value, "dtype"):
        return value.item() if value.ndim == 0 else _NOT_PLAIN
    if isinstance(value, (list, tuple)):
        entries = list(map(_plain, value))
        return _NOT_PLAIN if _NOT_PLAIN in entries else entries
    return value if isinstance(value, (bool, int, float, str, type(None))) else _NOT_PLAIN


@contextlib.contextmanager
def recording(
    path: str | Path, lib: Any = None, *, which: int = 0, steps: int | None = None
) -> Iterator[_Recorder]:
    """Record an optimizer inside the ``with`` block, where compiled functions run eagerly.

    After an exception no file is written, unless all ``steps`` are recorded.

    Args:
        path: the file to write, usually ``*.npz``.
        lib: the library that trains: the module ``torch`` or ``functorch_port`` (the default).
        which: the index of the optimizer, in the order of first steps.
        steps: the number of steps to record; None records all.

    Raises:
        RuntimeError: at the end, if that optimizer never took a step.
        ValueError: ``which`` or ``steps`` is out of range.
        NotImplementedError: the parameters have several dtypes, or a step is inside of `functionalize`.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port import crosscheck
        >>> w = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = torch.optim.Adam([w], lr=0.1)
        >>> with crosscheck.recording("run.npz", torch):  # doctest: +SKIP
        ...     (w**2).sum().backward()
        ...     optimizer.step()
        >>> crosscheck.replay("run.npz", through=["torch"]).ok  # doctest: +SKIP
        True
    """
    recorder = _Recorder(library("ours") if lib is None else lib, which, steps)
    whole = False
    try:
        with recorder.at_work():
            yield recorder
        whole = True
    finally:
        written = recorder.finish(path, whole)
    if not written:
        raise recorder.nothing()


def _hooks(lib: Any) -> Any:
    module = import_module(f"{lib.__name__}.optim.optimizer")
    return module.register_optimizer_step_pre_hook, module.register_optimizer_step_post_hook


def record_script(
    script: str,
    arguments: list[str],
    path: str,
    how: str = "script",
    *,
    side: str = "torch",
    which: int = 0,
    steps: int | None = None,
) -> tuple[Any, bool, str]:
    """Run a training script and record one of its optimizers.

    Args:
        script, arguments, how: as in `launcher.run`.
        path, which, steps: as in `recording`.
        side: the library that ``import torch`` imports: ``torch`` or ``ours``.

    Returns:
        The exit status of the script, whether the recording is written, and a message about it.
    """
    recorder = _Recorder(library(side), which, steps)
    saved = sys.argv, sys.path[0], sys.modules["__main__"]
    status: Any
    try:
        with recorder.at_work():
            status = (launcher.run if side == "ours" else launcher.execute)(script, arguments, how)
        whole = status == 0
    except SystemExit as end:  # the script has called sys.exit
        status, whole = end.code, True
    finally:
        sys.argv, sys.path[0], sys.modules["__main__"] = saved
    written = recorder.finish(path, whole)
    count, tape = recorder.steps(), recorder.recording
    if written:
        assert tape is not None
        name = tape.meta["optimizer"]
        return status, True, f"{path}: {count} steps of {name}, {len(tape.start)} parameters"
    if not count:
        return status or 2, False, str(recorder.nothing())
    hint = f"--first {count} records them"
    return status, False, f"the script failed after {count} steps; {path} is not written. {hint}"
