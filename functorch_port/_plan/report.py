"""`Plan`: what a step needs on each device of a pod, by cause and by module."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from .._base.units import nbytes
from . import rows
from .page import page
from .sweep import Sweep, helps, layouts, summary
from .tables import tables

__all__ = ["ACTIVATIONS", "CAUSES", "Cause", "Plan", "Value"]

ACTIVATIONS, TEMPORARY, OUTPUTS, PADDING = "activations saved", "temporary", "outputs", "padding"
#: in the order in which they are shown, with what each is
CAUSES = {
    "parameters": "weights that an optimizer or a module has",
    "buffers": "of modules",
    "optimizer state": "such as Adam's averages",
    "gradients": "those that the step leaves behind, and those that live at its worst moment",
    "inputs": "arguments of the step, and numbers such as lr",
    "other": "other tensors that the step reads",
    OUTPUTS: "what the step returns",
    PADDING: "what the devices' layout adds to what the step is given",
    ACTIVATIONS: "made in the forward pass, read in the backward pass",
    TEMPORARY: "the rest of what is needed while the step runs",
}
_WIDTH = 46


@dataclass(frozen=True)
class Value:
    """A tensor that takes memory.

    Attributes:
        name: as the source has it, or the operation's scope.
        module: whose it is.
        shape: with its dtype.
        bytes: of one device.
    """

    name: str
    module: str
    shape: str
    bytes: int


@dataclass(frozen=True)
class Cause:
    """What takes memory for one reason.

    Attributes:
        name: of `CAUSES`.
        bytes: of one device.
        largest: the largest tensors of it.
    """

    name: str
    bytes: int
    largest: list[Value] = field(default_factory=list)


@dataclass
class Plan:
    """What a training step needs on each device, as the compiler of these devices says.

    The causes add up to ``needs``, which is the compiler's arguments + outputs - what it reuses + temporary memory.

    Attributes:
        topology: what was asked for.
        device: the kind of the devices.
        devices: how many the step runs on.
        mesh: dimension -> size.
        fits: whether a device has the memory; None if that is not known.
        needs: bytes of one device.
        hbm: bytes that a device has for a program; None if that is not known.
        causes: bytes by cause.
        modules: module -> cause -> bytes.
        compiler: the compiler's own numbers; and what the values at the worst moment add up to, which it calls
            temporary.
        hosts: bytes of one device's part in the memory of the hosts.
        problem: why it does not fit, and what helps; empty if it fits.
        notes: what one should know of these numbers.
        seconds: phase -> how long it took.
        host_memory: bytes that the planning process took at most.
        versions: of what made this.
        cached: whether the compiler's part was read from the disk.
        analysis: what a step computes and communicates; None of virtual devices, and where the compiler gave up.
        sweep: the layouts among which this one was found, see `Sweep.to_dict`; None without a sweep.
        tried: outcomes with other options, of a step that does not fit.
    """

    topology: str
    device: str
    devices: int
    mesh: dict[str, int]
    fits: bool | None
    needs: int
    hbm: int | None
    causes: list[Cause]
    modules: dict[str, dict[str, int]]
    compiler: dict[str, int]
    hosts: int = 0
    problem: str = ""
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    host_memory: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    cached: bool = False
    analysis: dict[str, Any] | None = None
    sweep: dict[str, Any] | None = None
    tried: list[dict[str, Any]] = field(default_factory=list)

    def bytes_of(self, cause: str) -> int:
        """Bytes of one device that a cause takes."""
        return sum(one.bytes for one in self.causes if one.name == cause)

    def to_dict(self) -> dict[str, Any]:
        """All of it as dicts, lists, numbers and text."""
        return asdict(self)

    def to_json(self) -> str:
        """All of it as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def to_html(self) -> str:
        """All of it as one page, with pictures, that needs no other file."""
        return page(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """What `to_json` wrote."""
        found = json.loads(text)
        found["causes"] = [
            Cause(one["name"], one["bytes"], [Value(**value) for value in one["largest"]])
            for one in found["causes"]
        ]
        return cls(**found)

    # ------------------------------------------------------------------ for people

    def headline(self) -> str:
        """Whether it fits, in a line."""
        if self.hbm is None:
            return f"needs {nbytes(self.needs)} on each device"
        word = "fits" if self.fits else "DOES NOT FIT"
        share = f"{self.needs / self.hbm:.0%}"
        return f"{word}: needs {nbytes(self.needs)} of {nbytes(self.hbm)} on each device ({share})"

    def subject(self) -> str:
        """What was planned, in a line."""
        mesh = ", ".join(f"{name}={size}" for name, size in self.mesh.items())
        return f"{self.topology}: {self.devices} x {self.device}, mesh {mesh}"

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Of each cause: its name, bytes, share, and largest tensor."""
        shown = [one for one in self.causes if one.bytes]
        return [
            (one.name, nbytes(one.bytes), f"{one.bytes / max(self.needs, 1):.0%}", _largest(one))
            for one in shown
        ]

    def __str__(self) -> str:
        lines, report = [self.subject(), self.headline(), ""], self.to_dict()
        lines += [
            f"  {name:<18} {size:>11} {share:>5}  {largest}".rstrip()
            for name, size, share, largest in self.rows()
        ]
        lines += ["", "  modules that take most"]
        lines += [
            f"  {_short(name):<{_WIDTH}} {size:>11}  {most}" for name, size, most in rows.holders(report)
        ]
        notes = self.notes
        if self.analysis is not None:
            facts = rows.facts(report)[1:]  # without the memory
            lines += ["", *(f"  {name:<{_WIDTH}} {value}" for name, value in facts), ""]
            lines += [
                f"  {name:<18} {rows.in_seconds(s):>11}  {what}" for name, s, what in rows.limits(report)
            ]
            notes = [*notes, *self.analysis["warnings"]]
        if self.hosts:
            lines += ["", f"  in the hosts' memory, for each device: {nbytes(self.hosts)}"]
        lines += ["", *([self.problem, ""] if self.problem else []), *(f"  {note}" for note in notes)]
        lines += self._others(report)
        lines.append(f"  {self._work()}")
        return "\n".join(lines)

    def _others(self, report: dict[str, Any]) -> list[str]:
        """What other options and layouts lead to."""
        lines: list[str] = []
        if self.tried:
            lines += ["", "  what was tried against that", *map(_aligned, helps(report)), ""]
        if self.sweep is not None:
            found = Sweep.from_dict(self.sweep)
            lines += [
                "",
                "  layouts, the best first",
                *map(_aligned, layouts(found)),
                f"  {summary(found)}",
                "",
            ]
        return lines

    def _work(self) -> str:
        took = ", ".join(f"{phase} {seconds:.0f} s" for phase, seconds in self.seconds.items())
        again = "the compiler's answer is from the cache" if self.cached else ""
        memory = f"{nbytes(self.host_memory, 1)} of this machine's memory"
        return "; ".join(filter(None, (took, again, memory)))

    def __rich__(self) -> Any:
        """The same with tables and colours, for `rich`."""
        from rich.console import Group
        from rich.text import Text

        style = "bold green" if self.fits else "bold" if self.fits is None else "bold red"
        parts: list[Any] = [Text(self.subject()), Text(self.headline(), style), Text()]
        for table in tables(self.to_dict()):
            parts += [table, Text()]
        if self.hosts:
            parts.append(Text(f"in the hosts' memory, for each device: {nbytes(self.hosts)}"))
        return Group(*parts, Text(self._work(), "dim"))


def _largest(cause: Cause) -> str:
    if not cause.largest:
        return ""
    first = cause.largest[0]
    return f"{_short(first.name)} {first.shape} {nbytes(first.bytes, 1)}"


def _aligned(row: tuple[str, str, str, str]) -> str:
    name, memory, time, problem = row
    return f"  {name:<{_WIDTH}} {memory:>11}  {time:<20} {problem}".rstrip()


def _short(name: str) -> str:
    return name if len(name) <= _WIDTH else f"...{name[3 - _WIDTH :]}"
