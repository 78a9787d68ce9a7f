"""The comparison itself: the same problem through this package, PyTorch and optax."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ._grids import DIMENSIONS, ROUNDING, configurations, names
from ._measure import Place, element, gap, ulps, worst
from ._problems import Arrays, Problem, WrongUse, load
from ._sides import DTYPES, OptaxRun, Run, TorchRun, library, missing
from ._twins import make, own, twins

__all__ = ["FIRST_ULPS", "Report", "Result", "TOLERANCE", "compare"]

#: largest relative error of a parameter over a run that counts as the same, by dtype
TOLERANCE = {"float64": 1e-9, "float32": 1e-2, "bfloat16": 0.2, "float16": 5e-2}
#: largest difference in the first step that counts as the same, in units in the last place. A few roundings differ, as
#: one library rounds between a multiplication and an addition, where another does both in one operation
FIRST_ULPS = 4.0
#: the path of L-BFGS doubles rounding differences every few steps
STEP_LIMIT = {"LBFGS": 100}
#: optimizers that evaluate gradients themselves
CLOSURES = {"LBFGS"}


@dataclass
class Result:
    """The result for one configuration and one other library.

    Attributes:
        optimizer, options, dtype, problem, steps: the configuration.
        against: ``torch`` or ``optax``; for a replay, the library that the recording was run through.
        recorded: whether this is a replay, whose other side is the recording.
        call: for optax, the expression.
        note: the reason for a known difference, or None.
        flags: for optax, the arguments that make the numbers agree.
        first_ulps, first_relative: the differences after the first step.
        run_ulps, run_relative: the largest differences over all steps.
        first_beyond: the first step with a difference above the tolerance, or None.
        first_where: the largest difference of that step: the entry of the state or the parameter, the index in it, and
            the two values.
        verdict: ``equal``, ``differs`` (a failure), ``known`` (a known difference), ``skipped``, or ``empty`` (there
            was nothing to compare, a failure, too).
        why: the reason for ``empty`` or ``skipped``, or the part that was left out.
        ulps_by_step, relative_by_step: the differences after every step, as long as the numbers are finite.
        numbers: the updates of the first step side by side, for some elements.
    """

    optimizer: str
    options: dict[str, Any]
    dtype: str
    problem: str
    steps: int
    against: str
    call: str | None = None
    note: str | None = None
    flags: str | None = None
    first_ulps: float = 0.0
    first_relative: float = 0.0
    run_ulps: float = 0.0
    run_relative: float = 0.0
    first_beyond: int | None = None
    first_where: str | None = None
    verdict: str = "equal"
    why: str | None = None
    recorded: bool = False
    ulps_by_step: list[float] = field(default_factory=list)
    relative_by_step: list[float] = field(default_factory=list)
    numbers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def labels(self) -> tuple[str, str]:
        """The names of the two sides, which are ``ours`` and ``theirs`` in `numbers`."""
        return (self.against, "recorded") if self.recorded else ("ours", self.against)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "options": {k: _json(v) for k, v in self.options.items()}}


def _json(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, bool, list, tuple, type(None))) else repr(value)


@dataclass
class Report:
    """All results of a comparison.

    Attributes:
        results: one for each configuration and other library.
        skipped: what could not be compared, and why.
        seconds: the duration.
    """

    results: list[Result]
    skipped: list[str]
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether something was compared, and nothing differs unless it is a known difference."""
        verdicts = {r.verdict for r in self.results}
        return bool(verdicts & {"equal", "known"}) and not verdicts & {"differs", "empty"}

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        results = [r.as_dict() for r in self.results]
        return {"ok": self.ok, "skipped": self.skipped, "seconds": self.seconds, "results": results}


@dataclass
class Track:
    """The record of a run: parameters and state before the first step and after every step, and the gradients."""

    params: list[Arrays]
    states: list[dict[str, np.ndarray]]
    grads: list[Arrays] = field(default_factory=list)


def follow(run: Run, steps: int, advance: Callable[[Run, int], Arrays | None]) -> Track:
    """Record ``steps`` steps; ``advance(run, i)`` takes one and returns the gradients that it used."""
    track = Track([run.params()], [run.state()])
    for i in range(steps):
        track.grads.append(advance(run, i) or {})
        track.params.append(run.params())
        track.states.append(run.state())
    return track


def judge(
    result: Result,
    ours: Track,
    theirs: Track,
    tolerance: float,
    first_ulps: float,
    show: int,
) -> Result:
    """Fill in the differences of two tracks and the verdict."""
    moved = False
    for i in range(1, len(ours.params)):
        before = ours.params[i - 1]
        if not _finite(ours.params[i]) and not _finite(theirs.params[i]):
            result.why = f"from step {i} on both are infinite or NaN"
            break  # nothing is left to compare
        moved = moved or any(
            (after[k] != v).any() for after in (ours.params[i], theirs.params[i]) for k, v in before.items()
        )
        found = gap(theirs.params[i], ours.params[i], before, result.dtype)
        result.ulps_by_step.append(found.ulps)
        result.relative_by_step.append(found.relative)
        if i == 1:
            result.first_ulps, result.first_relative = found.ulps, found.relative
            result.numbers = side_by_side(before, ours.params[1], theirs.params[1], result.dtype, show)
        off = found.relative > tolerance or (i == 1 and found.ulps > first_ulps)
        if result.first_beyond is None:
            error, entry = _worst_entry(theirs.states[i], ours.states[i])
            if off or error > tolerance:
                result.first_beyond = i
                place = entry if error > tolerance else found.at if found.relative > tolerance else found.most
                assert place is not None
                result.first_where = place.text(result.labels, result.dtype)
    result.run_ulps = max(result.ulps_by_step, default=0.0)
    result.run_relative = max(result.relative_by_step, default=0.0)
    within = result.run_relative <= tolerance and result.first_ulps <= first_ulps
    if not within:
        result.verdict = "known" if result.note else "differs"
    elif not moved:
        result.verdict, result.why = "empty", result.why or "no parameter changed in any step"
    return result


def _finite(params: Arrays) -> bool:
    return all(bool(np.isfinite(v).all()) for v in params.values())


def _worst_entry(theirs: dict[str, np.ndarray], ours: dict[str, np.ndarray]) -> tuple[float, Place | None]:
    """The largest relative difference of a state tensor, and its place; infinite if one side lacks the tensor."""
    if not theirs or not ours:
        return 0.0, None
    names = dict.fromkeys([*theirs, *ours])
    return max((worst(n, theirs.get(n), ours.get(n)) for n in names), key=lambda pair: pair[0])


def side_by_side(before: Arrays, ours: Arrays, theirs: Arrays, dtype: str, show: int) -> list[dict[str, Any]]:
    """The updates of the first ``show`` elements of every parameter."""
    rows = []
    for name, start in before.items():
        apart = ulps(ours[name], theirs[name], start, dtype)
        for index in list(np.ndindex(start.shape))[:show]:
            rows.append(
                {
                    "element": element(name, index),
                    "before": float(start[index]),
                    "ours": float(ours[name][index] - start[index]),
                    "theirs": float(theirs[name][index] - start[index]),
                    "ulps": float(apart[index]),
                }
            )
    return rows


def compare(
    optimizer: str | Iterable[str] = "all",
    *,
    steps: int = 100,
    dtype: str = "float64",
    against: Iterable[str] = ("torch", "optax"),
    problem: str | Callable[[int], Any] = "convex",
    seed: int = 0,
    own_gradients: bool = False,
    tolerance: float | None = None,
    first_ulps: float = FIRST_ULPS,
    numbers: int = 2,
    options: dict[str, Any] | None = None,
    optax: Any = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Report:
    """Run this package's optimizers beside PyTorch's and optax's, and measure the differences of their parameters.

    Every library starts from the same parameters and gets the gradients along this package's path, so that only the
    updates can differ (L-BFGS, which evaluates gradients itself, gets them at its own parameters). PyTorch and optax
    are imported if they are installed; the report names what is missing.

    Args:
        optimizer: names as in `functorch_port.optim`, or ``"all"``.
        steps: the number of steps.
        dtype: ``float64``, ``float32``, ``bfloat16`` or ``float16``.
        against: ``torch``, ``optax`` or both.
        problem: ``convex``, ``rosenbrock``, ``digits``, ``module:function``, or a function of the seed that returns
            the initial parameters by name and a function from parameters to loss and gradients.
        seed: the problem's seed.
        own_gradients: give every library the gradients at its own parameters, as in training. Then the problem
            amplifies rounding errors, without bound where an optimizer oscillates around a minimum.
        tolerance: the largest relative error over the run that passes; the default depends on ``dtype``.
        first_ulps: the largest difference in the first step that passes, in units in the last place.
        numbers: the number of elements of each parameter whose first updates are kept.
        options: the configuration to compare instead of the built-in ones.
        optax: a transformation of your own to compare one optimizer with, or a function that makes it from the
            optimizer's options that are among its parameters.
        progress: a function that is called with the name of each configuration.

    Returns:
        The results; see `Report.ok`.

    Raises:
        ValueError: an optimizer, option, dtype, library or problem is unknown, or a number is out of range.

    Example:
        >>> from functorch_port import crosscheck
        >>> report = crosscheck.compare("SGD", steps=3, against=["optax"], options={"lr": 0.1, "momentum": 0.9})
        >>> report.ok, report.results[0].call
        (True, 'optax.sgd(0.1, momentum=0.9, nesterov=False)')
    """
    started = time.perf_counter()
    wanted = optimizers(optimizer)
    if dtype not in DTYPES:
        raise WrongUse(f"unknown dtype {dtype!r}: must be one of {', '.join(DTYPES)}")
    check_numbers(steps=steps, tolerance=tolerance, first_ulps=first_ulps, numbers=numbers)
    for key, value in (options or {}).items():
        parts = value if isinstance(value, (tuple, list)) else [value]
        if any(isinstance(part, float) and not np.isfinite(part) for part in parts):
            raise WrongUse(f"option {key}={value!r}: must be finite, or there is nothing to compare")
    if optax is not None:
        if len(wanted) > 1:
            raise WrongUse(
                f"an optax transformation of your own needs one optimizer to compare with, got {len(wanted)}"
            )
        options = options or {}
    sides, skipped = _sides(against)
    limit = TOLERANCE[dtype] if tolerance is None else tolerance
    given = load(problem, seed)
    label = problem if isinstance(problem, str) else getattr(problem, "__name__", "yours")
    results = []
    for name in wanted:
        task = _for(name, given)
        if not task.start:
            skipped.append(f"{name}: {label} has no parameters of {DIMENSIONS[name]} dimensions")
            continue
        for choice in configurations(name) if options is None else [options]:
            progress(f"{name} {show_options(choice)}")
            count = min(steps, STEP_LIMIT.get(name, steps))
            template = (name, choice, dtype, label, count)
            run = TorchRun(library("ours"), name, choice, task.start, dtype)
            every = {k: v for k, v in run.optimizer.param_groups[0].items() if k != "params"}
            ours = follow(run, count, _at_own(task))
            advance = _at_own(task) if own_gradients or name in CLOSURES else _as(ours)
            for side in sides:
                for result, begin in _others(side, template, task, dtype, optax, every):
                    if begin is None:
                        results.append(result)
                        continue
                    theirs = follow(begin(), count, advance)
                    passing = max(first_ulps, rounding(name, dtype)[0])
                    results.append(judge(result, ours, theirs, limit, passing, numbers))
    return Report(results, skipped, time.perf_counter() - started)


def optimizers(wanted: str | Iterable[str]) -> list[str]:
    every = names()
    chosen = every if wanted == "all" else [wanted] if isinstance(wanted, str) else list(wanted)
    by_lower = {n.lower(): n for n in every}
    unknown = [n for n in chosen if n.lower() not in by_lower]
    if unknown:
        raise WrongUse(f"unknown optimizer {unknown[0]!r}: must be one of {', '.join(every)}")
    return [by_lower[n.lower()] for n in chosen]


def _sides(against: Iterable[str]) -> tuple[list[str], list[str]]:
    sides, skipped = [], []
    for side in libraries(against, ("torch", "optax")):
        why = missing(side)
        if why is None:
            sides.append(side)
        else:
            skipped.append(f"{side}: {why}")
    return sides, skipped


def libraries(chosen: str | Iterable[str], known: tuple[str, ...]) -> list[str]:
    """The distinct names of libraries.

    Raises:
        WrongUse: a name is unknown, or there is none.
    """
    names = list(dict.fromkeys([chosen] if isinstance(chosen, str) else chosen))
    for name in names or [""]:
        if name not in known:
            raise WrongUse(f"cannot compare with {name!r}: must be one of {', '.join(known)}")
    return names


def check_numbers(steps: int, tolerance: float | None, first_ulps: float, numbers: int) -> None:
    """Raise WrongUse for numbers that would make a comparison meaningless."""
    if not isinstance(steps, int) or steps < 1:
        raise WrongUse(f"steps must be an integer of at least 1, got {steps!r}")
    if not isinstance(numbers, int) or numbers < 0:
        raise WrongUse(f"numbers must be a non-negative integer, got {numbers!r}")
    for name, value in (("tolerance", tolerance), ("ulps", first_ulps)):
        if value is not None and not 0 <= value < float("inf"):
            raise WrongUse(f"{name} must be a finite, non-negative number, got {value!r}")


def rounding(name: str, dtype: str) -> tuple[float, str | None]:
    """The least limit of an optimizer's first step, and why its whole run may exceed the tolerance (or None)."""
    known = ROUNDING.get(name)
    if known is None:
        return 0.0, None
    return known.first_ulps, known.reason if dtype in known.dtypes else None


def _for(name: str, problem: Problem) -> Problem:
    """The problem without the parameters that the optimizer does not take."""
    if name not in DIMENSIONS:
        return problem
    start = {k: v for k, v in problem.start.items() if v.ndim in DIMENSIONS[name]}
    fixed = {k: v for k, v in problem.start.items() if k not in start}

    def evaluate(params: Arrays) -> tuple[float, Arrays]:
        loss, grads = problem.evaluate({**fixed, **params})
        return loss, {k: grads[k] for k in start}

    return Problem(start, evaluate)


def _at_own(task: Problem) -> Callable[[Run, int], Arrays]:
    """Steps with the gradients at the run's own parameters."""

    def advance(run: Run, i: int) -> Arrays:
        used: list[Arrays] = []

        def evaluate(params: Arrays) -> tuple[float, Arrays]:
            loss, grads = task.evaluate(params)
            used.append(grads)
            return loss, grads

        run.step(evaluate)
        return used[-1]

    return advance


def _as(track: Track) -> Callable[[Run, int], None]:
    """Steps with the gradients of another run."""
    return lambda run, i: run.feed(track.grads[i])


def _others(
    side: str, template: Sequence[Any], task: Problem, dtype: str, optax: Any, every: dict[str, Any]
) -> list[tuple[Result, Any]]:
    """The runs of another library for one configuration: a result to fill in, and a function that makes the run."""
    name, choice = template[0], template[1]
    if side == "torch":
        result = Result(*template, against="torch", note=rounding(name, dtype)[1])
        return [(result, lambda: TorchRun(library("torch"), name, choice, task.start, dtype))]
    if optax is not None:
        called = getattr(optax, "__name__", "yours")
        result = Result(*template, against="optax", call=called, flags=called)
        return [(result, lambda: OptaxRun(lambda: own(optax, called, every), task.start, dtype))]
    found: list[tuple[Result, Any]] = []
    for twin in twins(name, choice):
        result = Result(*template, against="optax", call=twin.call, note=twin.note, flags=twin.flags)
        if twin.call is None:
            result.verdict = "skipped"
            found.append((result, None))
        else:
            found.append((result, lambda twin=twin: OptaxRun(lambda: make(twin), task.start, dtype)))
    return found


def show_options(options: dict[str, Any]) -> str:
    """Options as in a call: ``lr=0.1, betas=(0.9, 0.95)``."""
    return ", ".join(f"{k}={v!r}" for k, v in options.items())
