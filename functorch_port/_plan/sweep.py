"""Which mesh, recomputation and number of microbatches: candidates, and a ranking of those that were planned.

Nothing here compiles. A function that is given plans one candidate, and there is a budget of such calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from .._base.units import nbytes
from .rows import in_seconds

__all__ = [
    "Candidate", "Outcome", "Sweep", "candidates", "frontier", "helps", "layouts", "meshes", "outcome",
    "picture", "summary", "sweep",
]  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """A way to lay out a step.

    Attributes:
        mesh: sizes of the axes.
        remat: whether activations are computed again in the backward pass.
        microbatches: in how many parts the batch is computed, one after the other.
        change: what is other than in a plan that is known, in the words of the command line, in place of all this.
    """

    mesh: tuple[tuple[str, int], ...] = ()
    remat: bool = False
    microbatches: int = 1
    change: str = ""

    @property
    def name(self) -> str:
        """For people."""
        if self.change:
            return self.change
        parts = [f"{name}={size}" for name, size in self.mesh]
        parts += ["remat"] * self.remat
        parts += [f"{self.microbatches} microbatches"] * (self.microbatches > 1)
        return " ".join(parts) or "as it is"

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Candidate:
        """What `dataclasses.asdict` gave, also after JSON."""
        return cls(**{**found, "mesh": tuple((name, size) for name, size in found["mesh"])})


@dataclass(frozen=True)
class Outcome:
    """What a plan says of a candidate.

    Attributes:
        candidate: that was planned.
        needs: bytes of a device; None if it could not be planned.
        fits: whether a device has them; None if that is not known, as of virtual devices.
        seconds, waiting: of a step, see `Roofline`; None if they are not known.
        problem: why it does not fit or could not be planned.
        compiled: whether that took a compilation: it was not known, and got so far.
    """

    candidate: Candidate
    needs: int | None
    fits: bool | None
    seconds: float | None
    waiting: float | None
    problem: str = ""
    compiled: bool = True

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Outcome:
        """What `dataclasses.asdict` gave, also after JSON."""
        return cls(**{**found, "candidate": Candidate.from_dict(found["candidate"])})


@dataclass(frozen=True)
class Sweep:
    """Candidates that were planned, and others.

    Attributes:
        ranked: those that fit, or of which that is not known; the fastest first, by the time in which communication
            overlaps with nothing, or the smallest.
        failed: those that do not fit or could not be planned.
        implied: those that need not be planned, with the reason.
        left: those that were not planned: the budget was used up, or it was interrupted.
        interrupted: whether it was.
    """

    ranked: list[Outcome]
    failed: list[Outcome]
    implied: list[tuple[Candidate, str]]
    left: list[Candidate]
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Sweep:
        """What `to_dict` gave, also after JSON."""
        return cls(
            [Outcome.from_dict(one) for one in found["ranked"]],
            [Outcome.from_dict(one) for one in found["failed"]],
            [(Candidate.from_dict(one), why) for one, why in found["implied"]],
            [Candidate.from_dict(one) for one in found["left"]],
            found["interrupted"],
        )


def meshes(
    devices: int, axes: Sequence[str], divisors: Mapping[str, int] | None = None
) -> Iterator[dict[str, int]]:
    """The meshes of so many devices, those with the longest first axis first.

    Args:
        devices: of the mesh.
        axes: names, in their order.
        divisors: for an axis a number that its size has to divide: the batch for the first, heads for tensor
            parallelism, experts.

    Example:
        >>> [*meshes(8, ("fsdp", "tp"), {"tp": 4})]
        [{'fsdp': 8, 'tp': 1}, {'fsdp': 4, 'tp': 2}, {'fsdp': 2, 'tp': 4}]
    """
    if not axes:
        if devices == 1:
            yield {}
        return
    name, *rest = axes
    for size in range(devices, 0, -1):
        if devices % size == 0 and (divisors or {}).get(name, size) % size == 0:
            for others in meshes(devices // size, rest, divisors):
                yield {name: size, **others}


def candidates(
    shapes: Iterable[Mapping[str, int]],
    remats: Sequence[bool] = (False, True),
    microbatches: Sequence[int] = (1,),
) -> list[Candidate]:
    """All of these, in the order in which they are worth planning: of each mesh the ones in one part, with remat first,
    of which it depends whether anything fits; then those in more parts.

    Args:
        shapes: of the meshes, the most promising first; see `meshes`.
        remats: whether to compute activations again.
        microbatches: numbers of parts.
    """
    ways = sorted(
        {(remat, parts) for remat in remats for parts in microbatches}, key=lambda way: (way[1], not way[0])
    )
    shapes = list(shapes)
    return [Candidate(tuple(shape.items()), *way) for way in ways for shape in shapes]


def sweep(some: Iterable[Candidate], plan: Callable[[Candidate], Outcome], budget: int = 16) -> Sweep:
    """Plan candidates in their order, but none of which the answer follows from others of the same mesh.

    If one fits, those that compute more, or in more parts, save memory that there is; they are taken to be slower. If
    one does not fit, those that keep as much or more do not, either.

    Args:
        some: see `candidates`.
        plan: says what a candidate needs. `KeyboardInterrupt` ends the sweep with what there is.
        budget: of outcomes that took a compilation.

    Raises:
        ValueError: the budget is less than 1.
    """
    if budget < 1:
        raise ValueError(f"budget: expected at least 1 plan, got {budget}")
    done: list[Outcome] = []
    implied: list[tuple[Candidate, str]] = []
    left: list[Candidate] = []
    interrupted = False
    for candidate in some:
        reason = next(filter(None, (_follows(candidate, outcome) for outcome in done)), None)
        if reason is not None:
            implied.append((candidate, reason))
        elif interrupted or sum(one.compiled for one in done) >= budget:
            left.append(candidate)
        else:
            try:
                done.append(plan(candidate))
            except KeyboardInterrupt:
                interrupted = True
                left.append(candidate)
    ranked = sorted((one for one in done if one.fits is not False), key=_speed)
    return Sweep(ranked, [one for one in done if one.fits is False], implied, left, interrupted)


def _speed(one: Outcome) -> tuple[float, float, int]:
    unknown = math.inf
    return (
        unknown if one.waiting is None else one.waiting, unknown if one.seconds is None else one.seconds,
        one.needs or 0,
    )  # fmt: skip


def _follows(candidate: Candidate, known: Outcome) -> str | None:
    """Why a candidate need not be planned when another one was."""
    other = known.candidate
    if candidate.mesh != other.mesh or known.needs is None:
        return None
    saves = candidate.remat >= other.remat and candidate.microbatches >= other.microbatches
    keeps = candidate.remat <= other.remat and candidate.microbatches <= other.microbatches
    if known.fits and saves:
        return f"{other.name} fits and computes no more"
    return f"{other.name} does not fit and keeps no more" if known.fits is False and keeps else None


def outcome(candidate: Candidate, report: Mapping[str, Any]) -> Outcome:
    """The outcome in the report of a plan, see `page.page`."""
    analysis = report.get("analysis")
    limit = analysis["roofline"] if analysis else {"seconds": None, "waiting": None}
    return Outcome(
        candidate, report.get("needs"), report.get("fits"), limit["seconds"], limit["waiting"],
        report.get("problem") or "", not report.get("cached"),
    )  # fmt: skip


def layouts(found: Sweep) -> list[tuple[str, str, str, str]]:
    """Rows of a table, those that fit and then the others: name, memory, time, problem."""
    return [
        (f"{k}. {one.candidate.name}", *_cells(one))
        for k, one in enumerate((*found.ranked, *found.failed), 1)
    ]


def helps(report: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Rows of a table of what was tried where a step does not fit: the options, memory, time, and what that means."""
    found = [Outcome.from_dict(one) for one in report.get("tried", ())]
    return [(one.candidate.name, *_cells(one, "it fits" if one.fits else "")) for one in found]


def _cells(one: Outcome, good: str = "") -> tuple[str, str, str]:
    """Memory, time and problem; the time of what does not fit says nothing."""
    if one.needs is None:
        return "", "", one.problem.split("\n")[0]
    if one.fits is False:
        return nbytes(one.needs), "", "does not fit"
    known = one.seconds is not None and one.waiting is not None
    times = f"{in_seconds(one.seconds or 0)} to {in_seconds(one.waiting or 0)}" if known else ""
    return nbytes(one.needs), times, good


def summary(found: Sweep) -> str:
    """How many layouts there are, in a sentence."""
    planned = [one for one in (*found.ranked, *found.failed) if one.needs is not None]
    known = all(one.fits is not None for one in planned)
    counts = {
        "layouts planned": f"{len(planned)}, of which {len(found.ranked)} fit" if known else len(planned),
        "that could not be": len(found.ranked) + len(found.failed) - len(planned),
        "that need not be": len(found.implied),
        "left out": len(found.left),
    }
    words = "; ".join(f"{name}: {count}" for name, count in counts.items() if count)
    if not found.left:
        return f"{words}."
    return f"{words}, as it was interrupted." if found.interrupted else f"{words}, --sweep N plans more."


def frontier(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those than which none is both faster and smaller, the smallest first."""
    found: list[Outcome] = []
    known = [one for one in outcomes if one.needs is not None and one.waiting is not None]
    for one in sorted(known, key=lambda one: (one.needs or 0, _speed(one))):
        if not found or _speed(one)[0] < _speed(found[-1])[0]:
            found.append(one)
    return found


# ------------------------------------------------------------------ a picture


_WIDE, _HIGH, _LEFT, _BELOW = 640, 320, 64, 40


def picture(found: Sweep, hbm: int | None = None) -> str:
    """Memory and time of what was planned, as SVG for the page: a line joins those than which none is better in both.

    Numbers are places in the list of those that fit and then those that do not.

    Args:
        found: what `sweep` gave.
        hbm: bytes that a device has, for a line.

    Raises:
        ValueError: nothing was planned.
    """
    shown = [
        (number, one, one.needs, one.seconds or 0.0, one.waiting)
        for number, one in enumerate((*found.ranked, *found.failed), 1)
        if one.needs is not None and one.waiting is not None
    ]
    if not shown:
        raise ValueError("a picture of a sweep in which nothing could be planned")
    most = 1.05 * max(*(needs for _, _, needs, *_ in shown), hbm or 0)
    slowest = 1.1 * max(waiting for *_, waiting in shown)
    x = lambda size: _LEFT + (_WIDE - _LEFT - 12) * size / most
    y = lambda seconds: 12 + (_HIGH - _BELOW - 12) * (1 - seconds / slowest)
    lines = [
        f'<path d="M{_LEFT} 12V{_HIGH - _BELOW}H{_WIDE - 12}" fill="none" stroke="var(--quiet)"/>',
        _label(_LEFT, _HIGH - 8, f"memory of a device, to {nbytes(most)}"),
        _label(4, 24, in_seconds(slowest)),
    ]
    if hbm:
        lines.append(
            f'<path d="M{x(hbm):.1f} 12V{_HIGH - _BELOW}" stroke="var(--limit)" stroke-dasharray="4 3"/>'
        )
    best = frontier(found.ranked)
    corners = " ".join(f"{x(one.needs or 0):.1f},{y(one.waiting or 0):.1f}" for one in best)
    lines.append(f'<polyline points="{corners}" fill="none" stroke="var(--c0)" stroke-width="2"/>')
    for number, one, needs, seconds, waiting in shown:
        at = f'{x(needs):.1f}" {{}}y="{y(waiting):.1f}"'
        colour = "var(--c0)" if one in best else "var(--c9)" if one.fits else "var(--limit)"
        title = f"{one.candidate.name}: {nbytes(needs)}, {in_seconds(seconds)} to {in_seconds(waiting)}"
        lines += [
            f'<circle cx="{at.format("c")} r="9" fill="{colour}"><title>{escape(title)}</title></circle>',
            f'<text x="{at.format("")} dy="4" text-anchor="middle" fill="var(--ground)">{number}</text>',
        ]
    return (
        f'<svg viewBox="0 0 {_WIDE} {_HIGH}" width="100%" role="img" aria-label="memory and time of candidates" '
        f'font-size="12" font-family="system-ui, sans-serif">{"".join(lines)}</svg>'
    )


def _label(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="var(--text)">{escape(words)}</text>'
