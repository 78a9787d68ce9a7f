"""The comparison itself: the same problem through this package, PyTorch and optax."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .grids import DIMENSIONS, ROUNDING, configurations, names
from .measure import gap, relative, ulps
from .problems import Arrays, Problem, load
from .sides import DTYPES, OptaxRun, Run, TorchRun, library, missing
from .twins import twins

__all__ = ["FIRST_ULPS", "Report", "Result", "TOLERANCE", "compare"]

#: largest relative error of a parameter over a run that counts as the same, by dtype
TOLERANCE = {"float64": 1e-9, "float32": 1e-2, "bfloat16": 0.2, "float16": 5e-2}
#: largest difference in the first step that counts as the same, in units in the last place: a few roundings, since
#: one library multiplies and adds in one operation where another rounds in between
FIRST_ULPS = 4.0
#: the path of L-BFGS doubles rounding differences every few steps
STEP_LIMIT = {"LBFGS": 100}
#: optimizers that evaluate gradients themselves
CLOSURES = {"LBFGS"}


@dataclass
class Result:
    """What came of one configuration against one other library.

    Attributes:
        optimizer, options, dtype, problem, steps: what was run.
        against: ``torch``, ``optax``, or the source of a recording.
        call: for optax, the expression.
        note: why the numbers must differ, if that is known.
        flags: for optax, the arguments that made the numbers agree.
        first_ulps, first_relative: differences after the first step.
        run_ulps, run_relative: the largest over all steps.
        first_beyond: the first step that is off by more than the tolerance; None if there is none.
        first_where: what is off in that step: an entry of the state, or a parameter.
        verdict: ``equal``, ``differs`` (which fails), ``known`` (a known difference) or ``skipped``.
        ulps_by_step, relative_by_step: the differences after every step, as long as the numbers are finite.
        numbers: of some elements, the updates of the first step side by side.
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
    ulps_by_step: list[float] = field(default_factory=list)
    relative_by_step: list[float] = field(default_factory=list)
    numbers: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "options": {k: _json(v) for k, v in self.options.items()}}


def _json(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, bool, list, tuple, type(None))) else repr(value)


@dataclass
class Report:
    """All results of a comparison.

    Attributes:
        results: one per configuration and other library.
        skipped: what could not be compared, and why.
        seconds: how long it took.
    """

    results: list[Result]
    skipped: list[str]
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether everything that must agree agrees."""
        return all(r.verdict != "differs" for r in self.results)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        results = [r.as_dict() for r in self.results]
        return {"ok": self.ok, "skipped": self.skipped, "seconds": self.seconds, "results": results}


@dataclass
class Track:
    """A run written down: parameters and state before the first step and after every one, and the gradients."""

    params: list[Arrays]
    states: list[dict[str, np.ndarray]]
    grads: list[Arrays] = field(default_factory=list)


def follow(run: Run, steps: int, advance: Callable[[Run, int], Arrays | None]) -> Track:
    """Take the steps; ``advance(run, i)`` takes one and returns the gradients that it used."""
    track = Track([run.params()], [run.state()])
    for i in range(steps):
        track.grads.append(advance(run, i) or {})
        track.params.append(run.params())
        track.states.append(run.state())
    return track


def judge(
    result: Result, ours: Track, theirs: Track, tolerance: float, first_ulps: float, show: int
) -> Result:
    """Fill in the differences of two tracks, and the verdict."""
    for i in range(1, len(ours.params)):
        before = ours.params[i - 1]
        if not _finite(ours.params[i]) and not _finite(theirs.params[i]):
            break  # both have left the numbers that can be compared
        found = gap(theirs.params[i], ours.params[i], before, result.dtype)
        result.ulps_by_step.append(found.ulps)
        result.relative_by_step.append(found.relative)
        if i == 1:
            result.first_ulps, result.first_relative = found.ulps, found.relative
            result.numbers = side_by_side(before, ours.params[1], theirs.params[1], result.dtype, show)
        off = found.relative > tolerance or (i == 1 and found.ulps > first_ulps)
        if result.first_beyond is None:
            entry, error = _worst_entry(theirs.states[i], ours.states[i])
            if off or error > tolerance:
                result.first_beyond = i
                result.first_where = entry if error > tolerance else found.where or _most_ulps(result)
    result.run_ulps = max(result.ulps_by_step, default=0.0)
    result.run_relative = max(result.relative_by_step, default=0.0)
    within = result.run_relative <= tolerance and result.first_ulps <= first_ulps
    if not within:
        result.verdict = "known" if result.note else "differs"
    return result


def _finite(params: Arrays) -> bool:
    return all(bool(np.isfinite(v).all()) for v in params.values())


def _most_ulps(result: Result) -> str:
    return max(result.numbers, key=lambda n: n["ulps"])["element"] if result.numbers else ""


def _worst_entry(theirs: dict[str, np.ndarray], ours: dict[str, np.ndarray]) -> tuple[str, float]:
    """The state tensor that is furthest off; one that only one side has is off without end."""
    if not theirs or not ours:
        return "", 0.0
    worst = ("", 0.0)
    for name in [*theirs, *(n for n in ours if n not in theirs)]:
        both = name in theirs and name in ours
        error = relative(theirs[name], ours[name]) if both else float("inf")
        worst = max(worst, (name, error), key=lambda pair: pair[1])
    return worst


def side_by_side(before: Arrays, ours: Arrays, theirs: Arrays, dtype: str, show: int) -> list[dict[str, Any]]:
    """The updates of the first ``show`` elements of every parameter."""
    rows = []
    for name, start in before.items():
        apart = ulps(ours[name], theirs[name], start, dtype)
        for index in list(np.ndindex(start.shape))[:show]:
            rows.append(
                {
                    "element": f"{name}[{', '.join(map(str, index))}]" if index else name,
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
    progress: Callable[[str], None] = lambda text: None,
) -> Report:
    """Run optimizers of this package beside those of PyTorch and optax, and measure how far apart they get.

    Every library starts from the same numbers and is given the gradients along this package's path, so that only
    the updates can differ (L-BFGS, which asks for gradients as it goes, gets them at its own parameters). PyTorch and
    optax are imported if they are installed; what is missing is left out and named in
    the report.

    Args:
        optimizer: names as in `functorch_port.optim`, or ``"all"``.
        steps: how many steps to take.
        dtype: ``float64``, ``float32``, ``bfloat16`` or ``float16``.
        against: ``torch``, ``optax`` or both.
        problem: ``convex``, ``rosenbrock``, ``digits``, ``module:function``, or a function of the seed that
            returns first parameters by name and a function that gives loss and gradients for such parameters.
        seed: of the problem.
        own_gradients: give every library the gradients at its own parameters, as in training. Then the problem
            magnifies rounding, without bound where an optimizer hops around a minimum.
        tolerance: largest relative error over the run that passes; default by dtype.
        first_ulps: largest difference in the first step that passes, in units in the last place.
        numbers: of how many elements of each parameter the first updates are kept.
        options: compare this configuration in place of the built-in ones.
        progress: is told what is being run.

    Returns:
        The results; ``report.ok`` says whether all that must agree does.

    Raises:
        ValueError: for an unknown optimizer, dtype, library or problem.

    Example:
        >>> from functorch_port import crosscheck
        >>> report = crosscheck.compare("SGD", steps=3, against=["optax"], options={"lr": 0.1, "momentum": 0.9})
        >>> report.ok, report.results[0].call
        (True, 'optax.sgd(0.1, momentum=0.9, nesterov=False)')
    """
    started = time.perf_counter()
    wanted = _optimizers(optimizer)
    if dtype not in DTYPES:
        raise ValueError(f"no dtype {dtype!r}: there are {', '.join(DTYPES)}")
    sides, skipped = _sides(against)
    limit = TOLERANCE[dtype] if tolerance is None else tolerance
    given = load(problem, seed)
    label = problem if isinstance(problem, str) else problem.__name__
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
            ours = follow(TorchRun(library("ours"), name, choice, task.start, dtype), count, _at_own(task))
            advance = _at_own(task) if own_gradients or name in CLOSURES else _as(ours)
            for side in sides:
                for result, make in _others(side, template, task, dtype):
                    if make is None:
                        results.append(result)
                        continue
                    theirs = follow(make(), count, advance)
                    passing = max(first_ulps, ROUNDING[name].first_ulps if name in ROUNDING else 0)
                    results.append(judge(result, ours, theirs, limit, passing, numbers))
    return Report(results, skipped, time.perf_counter() - started)


def _optimizers(wanted: str | Iterable[str]) -> list[str]:
    every = names()
    chosen = every if wanted == "all" else [wanted] if isinstance(wanted, str) else list(wanted)
    by_lower = {n.lower(): n for n in every}
    unknown = [n for n in chosen if n.lower() not in by_lower]
    if unknown:
        raise ValueError(f"no optimizer {unknown[0]!r}: there are {', '.join(every)}")
    return [by_lower[n.lower()] for n in chosen]


def _sides(against: Iterable[str]) -> tuple[list[str], list[str]]:
    sides, skipped = [], []
    for side in [against] if isinstance(against, str) else against:
        if side not in ("torch", "optax"):
            raise ValueError(f"cannot compare with {side!r}: there are torch and optax")
        why = missing(side)
        if why is None:
            sides.append(side)
        else:
            skipped.append(f"{side}: {why}")
    return sides, skipped


def _for(name: str, problem: Problem) -> Problem:
    """The problem, with those parameters left out that the optimizer does not take."""
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


def _others(side: str, template: Sequence[Any], task: Problem, dtype: str) -> list[tuple[Result, Any]]:
    """The runs of another library for one configuration: a result to fill in, and what makes the run."""
    name, choice = template[0], template[1]
    if side == "torch":
        make = lambda: TorchRun(library("torch"), name, choice, task.start, dtype)
        known = ROUNDING.get(name)
        note = known.reason if known and dtype in known.dtypes else None
        return [(Result(*template, against="torch", note=note), make)]
    found: list[tuple[Result, Any]] = []
    for twin in twins(name, choice):
        result = Result(*template, against="optax", call=twin.call, note=twin.note, flags=twin.flags)
        if twin.call is None:
            result.verdict = "skipped"
            found.append((result, None))
        else:
            found.append((result, lambda twin=twin: OptaxRun.of(twin, task.start, dtype)))
    return found


def show_options(options: dict[str, Any]) -> str:
    """Options as one would write them in a call."""
    return ", ".join(f"{k}={v!r}" for k, v in options.items())
