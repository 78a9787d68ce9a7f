"""Several plans of one script: a sweep over its layouts, and what helps where its step does not fit.

Each plan is made in a process of its own (`worker.run`), so that each has the time limit, and one that fails is an
outcome as others are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from . import chips, worker
from .report import Plan
from .sweep import Candidate, Outcome, Sweep, candidates, meshes, outcome, sweep
from .topology import BadTopology, known, mesh_text, parsed_mesh, virtual_devices
from .worker import Question

__all__ = ["changes", "space", "swept", "tried"]

Tell = Callable[[str], None]

#: in how many parts a sweep computes the batch
_PARTS = (1, 2, 4, 8)
_OFF = ("none", "false", "no", "off")


# ------------------------------------------------------------------------------------------------------------ a sweep


def space(question: Question, takes: Mapping[str, str]) -> list[Candidate]:
    """The layouts among which a sweep looks: what is not given, and what the function asks for.

    Args:
        question: ``mesh`` may have names without sizes (``"fsdp,tp"``); those with sizes keep them.
        takes: see `worker.takes`.

    Raises:
        BadTopology: there is no such topology, or no such mesh.
        ValueError: there is nothing to vary.
    """
    given = question.options
    shapes = list(_shapes(question)) if "mesh" in takes else [dict[str, int]()]
    remats = (False, True) if "remat" in takes and "remat" not in given else (False,)
    parts = _PARTS if "microbatches" in takes and "microbatches" not in given else (1,)
    found = candidates(shapes, remats, parts)
    if len(found) < 2:
        raise ValueError(
            "there is nothing to vary: a sweep tries sizes of the mesh (--mesh fsdp,tp without numbers), remat and "
            f"microbatches, where the function asks for them and no option gives them. It asks for {_listed(takes)}"
        )
    return found


def _listed(takes: Mapping[str, str]) -> str:
    return ", ".join(takes) or "nothing"


def _devices(topology: str) -> int:
    there = known(topology)
    return virtual_devices(topology) if there is None else there.devices


def _shapes(question: Question) -> Iterator[dict[str, int]]:
    """The meshes; of an axis whose size is given there is that size."""
    text, devices = question.options.get("mesh", "fsdp"), _devices(question.topology)
    names = [part.partition("=")[0].strip() for part in text.split(",")]
    sized = ",".join(part for part in text.split(",") if "=" in part)
    fixed = parsed_mesh(sized) if sized else {}
    free = [name for name in names if name not in fixed]
    if not all(map(str.isidentifier, names)) or len(set(names)) < len(names):
        raise BadTopology(f"a mesh to sweep over is like fsdp,tp or dp=2,fsdp,tp; got {text!r}")
    rest, left = divmod(devices, math.prod(fixed.values()))
    if left or (not free and rest != 1):
        raise BadTopology(f"the mesh {text} cannot have the {devices} devices of {question.topology}")
    for shape in meshes(rest, free):
        yield {name: {**fixed, **shape}[name] for name in names}


def _options(candidate: Candidate, question: Question, takes: Mapping[str, str]) -> dict[str, str]:
    """The options of a candidate's plan."""
    found = dict(question.options)
    if candidate.mesh:
        found["mesh"] = mesh_text(dict(candidate.mesh))
    if "remat" in takes and "remat" not in found:
        found["remat"] = str(candidate.remat).lower()
    if "microbatches" in takes and "microbatches" not in found:
        found["microbatches"] = str(candidate.microbatches)
    return found


def swept(
    question: Question, takes: Mapping[str, str], budget: int, tell: Tell, seconds: float | None = None
) -> tuple[Sweep, Plan | None]:
    """Plan layouts of a step, and rank them.

    Args:
        question: what is planned.
        takes: see `worker.takes`.
        budget: of compilations; answers from the cache do not count, nor layouts that the function refuses.
        tell: is called with what is done.
        seconds: for one plan at most; None: as long as it takes.

    Returns:
        the ranking, and the plan of the best layout: the fastest that fits, or else the one that needs least. None if
        none could be planned.

    Raises:
        ValueError: there is nothing to vary, or a budget of less than 1.
    """
    some, plans = space(question, takes), dict[Candidate, Plan]()

    def plan(candidate: Candidate) -> Outcome:
        what = f"layout {len(plans) + 1} of {len(some)} at most, {candidate.name}"
        asked = question._replace(options=_options(candidate, question, takes))
        found = _planned(asked, what, tell, seconds)
        if isinstance(found, str):
            return _refused(candidate, found)
        plans[candidate] = found
        return outcome(candidate, found.to_dict())

    found = sweep(some, plan, budget)
    known = [
        *found.ranked,
        *sorted((o for o in found.failed if o.needs is not None), key=lambda o: o.needs or 0),
    ]
    return found, plans[known[0].candidate] if known else None


def _planned(question: Question, what: str, tell: Tell, seconds: float | None) -> Plan | str:
    """A plan, or why there is none; ``what`` it is of is told with each phase."""
    try:
        return Plan.from_json(worker.run(question, lambda phase: tell(phase and f"{what}: {phase}"), seconds))
    except worker.Failed as error:
        return str(error)


def _refused(candidate: Candidate, why: str) -> Outcome:
    """An outcome without a plan; the last line of a traceback says why."""
    lines = why.strip().splitlines()
    short = lines[-1] if "Traceback" in why else lines[0]
    return Outcome(candidate, None, False, None, None, short, why.startswith("out of time"))


# ------------------------------------------------------------------------------------------------------- what helps


def changes(
    question: Question, takes: Mapping[str, str], mesh: dict[str, int]
) -> Iterator[tuple[str, Question]]:
    """What may help a step that does not fit, what costs least first: options, and the question with them."""
    given = {**takes, **question.options}
    parts = int(given["microbatches"]) if given.get("microbatches", "").isdecimal() else 1
    less: dict[str, str] = {}
    if "remat" in takes and given["remat"].lower() in _OFF:
        less["remat"] = "true"
        yield _with(question, less)
    if "dtype" in takes and given["dtype"] in ("none", "float32", "fp32", "f32"):
        yield _with(question, {"dtype": "bf16"})
    if "microbatches" in takes:
        yield _with(question, {"microbatches": str(4 * parts)})
        if less:
            yield _with(question, {**less, "microbatches": str(4 * parts)})
    if "mesh" in takes:
        for source, to in ((0, -1), (-1, 0)):
            moved = _moved(mesh, source, to)
            if moved is not None:
                yield _with(question, {**less, "mesh": moved})
    larger = _larger(question.topology)
    if larger is not None:
        first = "fsdp" if "fsdp" in mesh else next(iter(mesh))
        wider = {name: size * (2 if name == first else 1) for name, size in mesh.items()}
        more = {**less, "mesh": mesh_text(wider)} if "mesh" in takes else less
        change, there = _with(question, more)
        yield f"--topology {larger} {change}".strip(), there._replace(topology=larger)


def _with(question: Question, more: dict[str, str]) -> tuple[str, Question]:
    change = " ".join(f"--{name} {text}" for name, text in more.items())
    return change, question._replace(options={**question.options, **more})


def _moved(mesh: dict[str, int], source: int, to: int) -> str | None:
    """The mesh with half of one axis given to another; None if that cannot be."""
    names = list(mesh)
    if len(names) < 2 or mesh[names[source]] % 2:
        return None
    return mesh_text({**mesh, names[source]: mesh[names[source]] // 2, names[to]: mesh[names[to]] * 2})


def _larger(topology: str) -> str | None:
    """The smallest slice of twice as many chips; None if there is none."""
    there = known(topology)
    if there is None or not there.chip.is_tpu or there.slices > 1:
        return None
    some = (name for name in chips.names(there.chip.name) if chips.topology(name).chips == 2 * there.chips)
    return next(some, None)


def tried(
    question: Question,
    takes: Mapping[str, str],
    plan: Plan,
    most: int,
    tell: Tell,
    seconds: float | None = None,
) -> Iterator[Outcome]:
    """What helps a step that does not fit: each is planned, until two fit or ``most`` were compiled.

    Args:
        question: what was planned.
        takes: see `worker.takes`.
        plan: what was found.
        most: of compilations.
        tell, seconds: see `swept`.
    """
    compiled = fit = 0
    for change, asked in changes(question, takes, plan.mesh):
        if compiled >= most or fit == 2:
            return
        what = Candidate(change=change)
        found = _planned(asked, f"with {change}", tell, seconds)
        one = _refused(what, found) if isinstance(found, str) else outcome(what, found.to_dict())
        compiled, fit = compiled + one.compiled, fit + (one.fits is True)
        yield one
