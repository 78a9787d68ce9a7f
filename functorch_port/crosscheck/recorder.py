"""Trajectories of real training scripts: written to a file, and run again through another library.

A recording has, for one optimizer of the script, the first parameters, and for every step the gradients, the
hyperparameters and the parameters after it. Replaying feeds the same gradients to another library's optimizer, so
the differences are those of the update alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .comparison import FIRST_ULPS, TOLERANCE, Report, Result, Track, judge
from .problems import Arrays
from .sides import OptaxRun, Run, TorchRun, library, missing
from .twins import make, twins

__all__ = ["Recording", "record_script", "recording", "replay"]

_FORMAT = 1
#: entries of a group that say how the step is computed, not what
_NOT_MATH = {"params", "param_names", "initial_lr", "foreach", "fused", "capturable", "differentiable"}


class Recording:
    """One optimizer's trajectory.

    Attributes:
        meta: names, shapes, dtypes, the optimizer's class and where it came from.
        groups: for every step, the hyperparameters of every group.
        start: the parameters before the first step.
        grads: for every step, the gradients by name; None where there was none.
        params: the parameters after every step.
    """

    def __init__(self, meta: dict[str, Any]) -> None:
        self.meta = meta
        self.groups: list[list[dict[str, Any]]] = []
        self.start: Arrays = {}
        self.grads: list[dict[str, np.ndarray | None]] = []
        self.params: list[Arrays] = []

    def save(self, path: str | Path) -> None:
        """Write a file that `load` reads: numpy's ``.npz`` with nothing pickled."""
        arrays = {f"start/{k}": v for k, v in self.start.items()}
        for i, (grads, params) in enumerate(zip(self.grads, self.params, strict=True)):
            arrays.update({f"grad/{i}/{k}": v for k, v in grads.items() if v is not None})
            arrays.update({f"param/{i}/{k}": v for k, v in params.items()})
        text = json.dumps({"format": _FORMAT, **self.meta, "groups": self.groups})
        partial = Path(f"{path}.part")
        with partial.open("wb") as file:
            np.savez_compressed(file, meta=np.array(text), **arrays)  # type: ignore[arg-type]
        os.replace(partial, path)

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read what `save` wrote.

        Raises:
            ValueError: if it is not a recording, or one of another version.
        """
        with np.load(path, allow_pickle=False) as file:
            if "meta" not in file:
                raise ValueError(f"{path} is not a recording of crosscheck")
            meta = json.loads(str(file["meta"]))
            if meta.pop("format", None) != _FORMAT:
                raise ValueError(f"{path} was written by another version of crosscheck; record it again")
            self = cls(meta)
            self.groups = meta.pop("groups")
            self.start = {k: file[f"start/{k}"] for k in meta["names"]}
            for i in range(len(self.groups)):
                stored = {k: f"grad/{i}/{k}" for k in meta["names"]}
                self.grads.append({k: _maybe(file, n) for k, n in stored.items()})
                self.params.append({k: file[f"param/{i}/{k}"] for k in meta["names"]})
        return self


def _maybe(file: Any, name: str) -> Any:
    return file[name] if name in file.files else None


class _Recorder:
    """Hooks on every optimizer's step; the one numbered ``which`` (in the order of first steps) is written down."""

    def __init__(self, lib: Any, which: int, limit: int | None) -> None:
        self.lib, self.which, self.limit = lib, which, limit
        self.seen: list[Any] = []
        self.recording: Recording | None = None
        self.params: dict[str, Any] = {}

    def before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not any(o is optimizer for o in self.seen):
            self.seen.append(optimizer)
        if self.seen[self.which : self.which + 1] != [optimizer]:
            return
        if self.recording is None:
            self.begin(optimizer)
        assert self.recording is not None
        if self.full():
            return
        if any(a is not None for a in args[1:]) or kwargs.get("closure") is not None:
            raise NotImplementedError(
                "crosscheck record: optimizer.step(closure) evaluates gradients inside the step, which cannot be "
                "recorded. Compute the gradients before the step and call optimizer.step()"
            )
        self.recording.groups.append([_options(g) for g in optimizer.param_groups])
        self.recording.grads.append(
            {k: None if p.grad is None else _array(p.grad) for k, p in self.params.items()}
        )

    def after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.seen[self.which : self.which + 1] == [optimizer] and self.recording is not None:
            if len(self.recording.params) < len(self.recording.grads):
                self.recording.params.append({k: _array(p) for k, p in self.params.items()})

    def full(self) -> bool:
        return (
            self.limit is not None and self.recording is not None and len(self.recording.params) >= self.limit
        )

    def begin(self, optimizer: Any) -> None:
        places: list[list[str]] = []
        for i, group in enumerate(optimizer.param_groups):
            names = group.get("param_names") or [f"{i}.{j}" for j in range(len(group["params"]))]
            places.append(list(names))
            self.params.update(zip(names, group["params"], strict=True))
        kinds = {str(p.dtype).removeprefix("torch.") for p in self.params.values()}
        if len(kinds) > 1:
            raise NotImplementedError(
                f"crosscheck record: parameters of several dtypes ({', '.join(sorted(kinds))})"
            )
        self.recording = Recording(
            {
                "optimizer": type(optimizer).__name__, "names": list(self.params), "places": places,
                "dtype": kinds.pop(), "library": self.lib.__name__, "version": str(self.lib.__version__),
            }
        )  # fmt: skip
        self.recording.start = {k: _array(p) for k, p in self.params.items()}


def _array(tensor: Any) -> np.ndarray:
    """Values as numpy can store them: half types in float32, which holds them exactly."""
    tensor = tensor.detach()
    if getattr(tensor, "is_sparse", False):
        tensor = tensor.to_dense()
    if tensor.itemsize < 4:
        tensor = tensor.float()
    return np.array(tensor.numpy())


def _options(group: dict[str, Any]) -> dict[str, Any]:
    return {k: _plain(v) for k, v in group.items() if k not in _NOT_MATH}


def _plain(value: Any) -> Any:
    if hasattr(value, "item") and hasattr(value, "detach"):
        return value.item()
    return list(map(_plain, value)) if isinstance(value, (list, tuple)) else value


@contextlib.contextmanager
def recording(
    path: str | Path, lib: Any = None, *, which: int = 0, steps: int | None = None
) -> Iterator[_Recorder]:
    """Write down what an optimizer does inside the ``with`` block.

    Args:
        path: the file to write, ending in ``.npz`` by custom.
        lib: the library that trains: the module ``torch`` or ``functorch_port`` (the default).
        which: number of the optimizer, in the order of first steps.
        steps: stop recording after so many.

    Raises:
        RuntimeError: at the end, if that optimizer never took a step.
        NotImplementedError: for a step with a closure, or parameters of several dtypes.

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
    lib = library("ours") if lib is None else lib
    hooks = _hooks(lib)
    recorder = _Recorder(lib, which, steps)
    handles = [hooks[0](recorder.before), hooks[1](recorder.after)]
    try:
        yield recorder
    finally:
        for handle in handles:
            handle.remove()
        if recorder.recording is not None:
            done = recorder.recording
            count = len(done.params)
            done.groups, done.grads = (
                done.groups[:count],
                done.grads[:count],
            )  # a step that failed is left out
            done.save(path)
    if recorder.recording is None:
        raise RuntimeError(
            f"nothing was recorded: {len(recorder.seen)} optimizers of {lib.__name__} took a step, and number {which} "
            "was asked for"
        )


def _hooks(lib: Any) -> Any:
    from importlib import import_module

    module = import_module(f"{lib.__name__}.optim.optimizer")
    return module.register_optimizer_step_pre_hook, module.register_optimizer_step_post_hook


def record_script(
    script: str,
    arguments: list[str],
    path: str,
    *,
    side: str = "torch",
    which: int = 0,
    steps: int | None = None,
) -> int:
    """Run a training script and record one of its optimizers.

    Args:
        script: path of the script; its ``import torch`` gets PyTorch, or this package for ``side="ours"``.
        arguments: what it finds in ``sys.argv[1:]``.
        path, which, steps: as for `recording`.
        side: ``torch`` or ``ours``.

    Returns:
        The exit status of the script.
    """
    lib = library(side)
    if side == "ours":
        from functorch_port import launcher

        with recording(path, lib, which=which, steps=steps):
            return launcher.run(script, arguments)
    saved = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [script, *arguments], os.path.dirname(os.path.abspath(script))
    try:
        with recording(path, lib, which=which, steps=steps):
            runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv, sys.path[0] = saved
    return 0


# ---------------------------------------------------------------------- replay


class _Replay(TorchRun):
    """An optimizer with the groups of a recording."""

    def __init__(self, lib: Any, tape: Recording) -> None:
        self.tape, self.at = tape, 0
        first = _arguments(lib, tape.meta["optimizer"], tape.groups[0][0])
        super().__init__(lib, tape.meta["optimizer"], first, tape.start, tape.meta["dtype"])
        self.sparse = False
        cls = type(self.optimizer)
        groups = [{"params": [self.values[n] for n in names]} for names in tape.meta["places"]]
        self.optimizer = cls(groups, **first)

    def play(self, i: int) -> None:
        """Take step ``i`` of the recording."""
        for group, options in zip(self.optimizer.param_groups, self.tape.groups[i], strict=True):
            group.update(
                {k: tuple(v) if isinstance(v, list) else v for k, v in options.items() if k in group}
            )
        self.feed(self.tape.grads[i])


def _arguments(lib: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    import inspect

    known = inspect.signature(getattr(lib.optim, name)).parameters
    return {k: tuple(v) if isinstance(v, list) else v for k, v in options.items() if k in known}


def replay(
    path: str | Path,
    through: Iterable[str] = ("ours", "torch", "optax"),
    *,
    tolerance: float | None = None,
    first_ulps: float = FIRST_ULPS,
    numbers: int = 2,
) -> Report:
    """Feed recorded gradients to other libraries, and compare with the recorded parameters.

    Args:
        path: from `recording` or ``functorch-port crosscheck record``.
        through: ``ours``, ``torch``, ``optax``: what is missing is left out and named. optax is only used with
            one group of constant hyperparameters and a gradient for every parameter.
        tolerance, first_ulps, numbers: as for `compare`.

    Returns:
        One result per library; its ``against`` says which.
    """
    tape = Recording.load(path)
    meta = tape.meta
    recorded = Track([tape.start, *tape.params], [{}] * (len(tape.params) + 1))
    limit = TOLERANCE[meta["dtype"]] if tolerance is None else tolerance
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in tape.groups[0][0].items()}
    results, skipped = [], []
    for side in through:
        why = missing(side) or (_not_for_optax(tape) if side == "optax" else None)
        if why is not None:
            skipped.append(f"{side}: {why}")
            continue
        for result, run in _runs(side, tape, options):
            track = Track([run.params()], [{}])
            for i in range(len(tape.params)):
                run.play(i) if isinstance(run, _Replay) else run.feed(tape.grads[i])
                track.params.append(run.params())
                track.states.append({})
            results.append(judge(result, track, recorded, limit, first_ulps, numbers))
    return Report(results, skipped)


def _not_for_optax(tape: Recording) -> str | None:
    if len(tape.groups[0]) > 1:
        return "the recording has several groups"
    if any(groups != tape.groups[0] for groups in tape.groups):
        return "the hyperparameters change along the way"
    if any(g is None for grads in tape.grads for g in grads.values()):
        return "some gradients are missing, which optax would take for zeros"
    return None


def _runs(side: str, tape: Recording, options: dict[str, Any]) -> Iterator[tuple[Result, Run]]:
    meta = tape.meta
    source = f"recording of {meta['library']} {meta['version']}"
    template: tuple[Any, ...] = (meta["optimizer"], options, meta["dtype"], source, len(tape.params))
    if side != "optax":
        yield Result(*template, against=side), _Replay(library(side), tape)
        return
    for twin in twins(meta["optimizer"], options):
        result = Result(*template, against="optax", call=twin.call, note=twin.note, flags=twin.flags)
        if twin.call is not None:
            with OptaxRun._settings():
                yield result, OptaxRun(make(twin), tape.start, meta["dtype"])
