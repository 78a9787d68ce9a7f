"""Runs recordings through other libraries, with the same gradients, so that only the updates can differ."""

from __future__ import annotations

import contextlib
import inspect
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._comparison import (
    FIRST_ULPS,
    TOLERANCE,
    Report,
    Result,
    Track,
    check_numbers,
    judge,
    libraries,
    rounding,
)
from ._problems import Arrays, WrongUse, found
from ._recorder import Recording
from ._sides import DTYPES, OptaxRun, TorchRun, library, missing, optax_settings
from ._twins import Twin, make, own, twins

__all__ = ["replay"]


class _OtherWay(Exception):
    """A step needs more evaluations of its closure than were recorded."""


class _Replay(TorchRun):
    """An optimizer with the parameter groups of a recording.

    Args:
        lib: PyTorch or this package.
        tape: the recording.
        cls: the optimizer's class.
    """

    def __init__(self, lib: Any, tape: Recording, cls: Any) -> None:
        self.lib, self.tape, self.dtype, self.sparse = lib, tape, getattr(lib, tape.meta["dtype"]), False
        self.values = {k: lib.nn.Parameter(self._tensor(v)) for k, v in tape.start.items()}
        groups = [{"params": [self.values[n] for n in names]} for names in tape.meta["places"]]
        first = known_options(cls, tape.groups[0][0])
        try:
            self.optimizer = cls(groups, **first)
        except (TypeError, ValueError, RuntimeError) as error:
            raise WrongUse(
                f"{cls.__name__} cannot be made with the recorded options {first}: {error}"
            ) from error

    def play(self, i: int) -> None:
        """Take step ``i`` of the recording."""
        for group, options in zip(self.optimizer.param_groups, self.tape.groups[i], strict=True):
            group.update({k: v for k, v in _tuples(options).items() if k in group})
        evaluations = self.tape.evaluations[i]
        if evaluations[0].loss is None:
            self.feed(evaluations[0].grads)
            return
        rest = iter(evaluations)

        def closure() -> Any:
            evaluation = next(rest, None)
            if evaluation is None:
                raise _OtherWay(f"needs more evaluations than the {len(evaluations)} recorded")
            self.set_grads(evaluation.grads)
            return self.lib.tensor(evaluation.loss, dtype=self.dtype)

        self.optimizer.step(closure)


class _OptaxReplay:
    """The optax call of the table, rebuilt for every step with the recorded hyperparameters.

    Each parameter has a transformation of its own, so groups and missing gradients need no special treatment.

    Args:
        name: the optimizer's name.
        which: the index of the call in the table.
        tape: the recording.
    """

    def __init__(self, name: str, which: int, tape: Recording) -> None:
        self.name, self.which, self.tape, self.kind = name, which, tape, DTYPES[tape.meta["dtype"]]
        self.values = {k: self._array(v) for k, v in tape.start.items()}
        self.inner = {k: self._tx(0, k).init(v) for k, v in self.values.items()}
        self.constant = all(groups == tape.groups[0] for groups in tape.groups)
        self.update = jax.jit(self._update, static_argnums=0) if self.constant else self._update

    def _array(self, value: np.ndarray) -> Any:
        return jnp.asarray(value, self.kind)

    def _tx(self, i: int, name: str) -> Any:
        group = next(j for j, names in enumerate(self.tape.meta["places"]) if name in names)
        return make(twins(self.name, _tuples(self.tape.groups[i][group]))[self.which])

    def _update(self, i: int, values: Any, inner: Any, grads: Any) -> Any:
        import optax

        new, states = {}, {}
        for name, grad in grads.items():
            tx = self._tx(i, name)
            updates, states[name] = tx.update(grad, inner[name], values[name])
            if jax.tree.structure(states[name]) != jax.tree.structure(inner[name]):
                raise NotImplementedError(
                    f"the state of {self.name} in optax changes its structure at step {i + 1}"
                )
            new[name] = optax.apply_updates(values[name], updates)
        return new, states

    def play(self, i: int) -> None:
        """Take step ``i`` of the recording."""
        grads = {k: self._array(v) for k, v in self.tape.grads[i].items() if v is not None}
        new, states = self.update(0 if self.constant else i, self.values, self.inner, grads)
        self.values, self.inner = {**self.values, **new}, {**self.inner, **states}

    def params(self) -> Arrays:
        return {k: np.asarray(v).astype(np.float64) for k, v in self.values.items()}

    def state(self) -> dict[str, np.ndarray]:
        return {}


class _OwnOptaxReplay(OptaxRun):
    """A user's transformation, on a dict of all parameters by name."""

    def __init__(self, transformation: Any, called: str, tape: Recording) -> None:
        options = _tuples(tape.groups[0][0])
        super().__init__(lambda: own(transformation, called, options), tape.start, tape.meta["dtype"])
        self.tape = tape

    def play(self, i: int) -> None:
        """Take step ``i`` of the recording."""
        self.feed(self.tape.grads[i])


def _tuples(options: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}


def known_options(cls: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options that are among the parameters of an optimizer's class."""
    known = inspect.signature(cls).parameters
    return {k: v for k, v in _tuples(options).items() if k in known}


def replay(
    path: str | Path,
    through: str | Iterable[str] = ("ours", "torch", "optax"),
    *,
    optimizer: str | None = None,
    optax: Any = None,
    tolerance: float | None = None,
    first_ulps: float = FIRST_ULPS,
    numbers: int = 2,
) -> Report:
    """Run recorded gradients through other libraries, and compare with the recorded parameters.

    Args:
        path: the file of `recording` or ``functorch-port crosscheck record``.
        through: ``ours``, ``torch``, ``optax``; the report names those that are missing or cannot run the recording.
        optimizer: another optimizer of `optim` than the recorded one, or a class of your own as ``module:Class``. For
            this package such a class runs in a process of its own, where ``import torch`` imports this package.
        optax: a transformation of your own on a dict of all parameters, or a function that makes it from the
            hyperparameters (of the first group and step) that are among its parameters.
        tolerance, first_ulps, numbers: as in `compare`.

    Returns:
        One result for each library, which is its ``against``.

    Raises:
        ValueError: the file is not a recording, an optimizer or library is unknown, or a number is out of range.
    """
    tape = Recording.load(path)
    check_numbers(len(tape.params), tolerance, first_ulps, numbers)
    limit = TOLERANCE[tape.meta["dtype"]] if tolerance is None else tolerance
    recorded = Track([tape.start, *tape.params], [{}, *tape.states])
    results, skipped = [], []
    for side in libraries(through, ("ours", "torch", "optax")):
        try:
            why = missing(side)
            if why is not None:
                raise NotImplementedError(why)
            if side == "ours" and optimizer and ":" in optimizer and not _is_torch():
                results += _elsewhere(path, optimizer, tolerance, first_ulps, numbers)
                continue
            for result, begin in _runs(side, tape, optimizer, optax):
                results.append(_played(result, begin, tape, recorded, limit, first_ulps, numbers))
        except NotImplementedError as error:
            skipped.append(f"{side}: {error}")
    return Report(results, skipped)


def _is_torch() -> bool:
    return sys.modules.get("torch") is library("ours")


def _played(
    result: Result,
    begin: Callable[[], Any] | None,
    tape: Recording,
    recorded: Track,
    limit: float,
    first_ulps: float,
    numbers: int,
) -> Result:
    """Play the recording and fill in the result."""
    if begin is None:
        return result
    other: str | None = None
    with optax_settings() if result.against == "optax" else contextlib.nullcontext():
        run = begin()
        track = Track([run.params()], [run.state()])
        for i in range(len(tape.params)):
            try:
                run.play(i)
            except _OtherWay as error:
                other = f"{result.against} {error}"
                break
            track.params.append(run.params())
            track.states.append(run.state())
    passing = max(first_ulps, rounding(result.optimizer, result.dtype)[0])
    judge(result, track, recorded, limit, passing, numbers)
    if other is not None:
        result.verdict = "differs"
        if result.first_beyond is None:
            result.first_beyond, result.first_where = len(track.params), other
    return result


def _runs(
    side: str, tape: Recording, optimizer: str | None, transformation: Any
) -> Iterator[tuple[Result, Callable[[], Any] | None]]:
    """The runs of a library: a result to fill in, and a function that makes the run."""
    meta = tape.meta
    if side == "optax" and transformation is not None:
        if any(len(evaluations) > 1 for evaluations in tape.evaluations):
            raise NotImplementedError("the recorded steps evaluate their closure several times")
        if any(g is None for grads in tape.grads for g in grads.values()):
            raise NotImplementedError(
                "some gradients are missing (None), which your transformation would take for zeros"
            )
        called = getattr(transformation, "__name__", "yours")
        result = _result(
            tape, meta["optimizer"], tape.groups[0][0], against="optax", call=called, flags=called
        )
        yield result, lambda: _OwnOptaxReplay(transformation, called, tape)
        return
    name = optimizer or meta["optimizer"]
    is_own = ":" in name or (optimizer is None and meta["home"] is not None)
    if side == "optax":
        if is_own:
            raise NotImplementedError(
                f"{name} is a class of your own; name its counterpart: --optax module:function"
            )
        yield from _by_table(name, tape)
        return
    if is_own and optimizer is None:
        raise NotImplementedError(
            f"{name} is a class of your own (in {meta['home']}). Put it in a module that can be imported without "
            f"training, and name it: --optimizer module:{name}"
        )
    lib = library(side)
    cls = found(name, "optimizer") if ":" in name else getattr(lib.optim, name, None)
    if not (isinstance(cls, type) and issubclass(cls, lib.optim.Optimizer)):
        raise WrongUse(
            f"{name!r} is not an optimizer of {lib.__name__}: pass a name of torch.optim, or module:Class"
        )
    result = _result(tape, cls.__name__, known_options(cls, tape.groups[0][0]), against=side)
    if meta["home"] is None:
        result.note = rounding(cls.__name__, meta["dtype"])[1]
    yield result, lambda: _Replay(lib, tape, cls)


def _by_table(name: str, tape: Recording) -> Iterator[tuple[Result, Callable[[], Any] | None]]:
    """The optax calls that the table has for an optimizer."""
    if any(len(evaluations) > 1 for evaluations in tape.evaluations):
        raise NotImplementedError(
            f"{name}'s steps evaluate their closure several times, which its counterparts cannot"
        )
    options = known_options(getattr(library("ours").optim, name, object), tape.groups[0][0])
    calls: list[Twin] = twins(name, options)
    changing = len(tape.groups[0]) > 1 or any(groups != tape.groups[0] for groups in tape.groups)
    for which, twin in enumerate(calls):
        call = (
            f"{twin.call}, with what was recorded for each group and step"
            if changing and twin.call
            else twin.call
        )
        result = _result(tape, name, options, against="optax", call=call, note=twin.note, flags=twin.flags)
        if twin.call is None:
            result.verdict, result.why = "skipped", twin.note
        yield result, None if twin.call is None else lambda which=which: _OptaxReplay(name, which, tape)


def _result(tape: Recording, name: str, options: dict[str, Any], **rest: Any) -> Result:
    source = f"recording of {tape.meta['library']} {tape.meta['version']}"
    return Result(name, _tuples(options), tape.meta["dtype"], source, len(tape.params), recorded=True, **rest)


def _elsewhere(
    path: str | Path, optimizer: str, tolerance: float | None, first_ulps: float, numbers: int
) -> list[Result]:
    """Replay through this package in a process where ``import torch`` imports it, for a user's class.

    Raises:
        WrongUse: the process failed; the message is its output.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "report.json")
        words = [
            "crosscheck",
            "replay",
            str(path),
            "--through",
            "ours",
            "--optimizer",
            optimizer,
            "--json",
            str(out),
        ]
        words += ["--ulps", repr(first_ulps), "--numbers", str(numbers)]
        words += [] if tolerance is None else ["--tolerance", repr(tolerance)]
        code = (
            "import sys; from functorch_port import cli, launcher; launcher.install(); cli.main(sys.argv[1:])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
        )
        if not out.exists():
            raise WrongUse(f"{optimizer} through this package: {done.stderr.strip() or done.stdout.strip()}")
        (report,) = json.loads(out.read_text())["reports"]
        return [Result(**{**result, "options": _tuples(result["options"])}) for result in report["results"]]
