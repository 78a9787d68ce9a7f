"""`plan`: a step is traced, lowered and compiled for a pod, and what it needs there is told by cause."""

from __future__ import annotations

import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import jax

from .._array import tracing
from .._base import jaxprs
from .._base.device import device_type_of_platform
from .._base.units import nbytes
from .._tensor.tensor import Tensor
from ..distributed.device_mesh import DeviceMesh
from ..profiler._compiled_memory import saved_for_backward
from ..profiler._eager_memory import INPUTS
from ..profiler._owners import GRADIENTS, NO_MODULE
from . import cache, roofline
from .analysis import analyse
from .chips import Topology
from .lowering import Argument, Lowered, lowered
from .memory import Kept, at_the_peak, scope_of
from .report import ACTIVATIONS, CAUSES, OUTPUTS, PADDING, TEMPORARY, Cause, Plan, Value
from .texts import compiled_with_text
from .topology import known as known_topology
from .wires import coordinates_of

__all__ = ["plan"]

#: so many tensors are named for a cause; bytes above which one is worth a remark
_LARGEST, _LARGE = 8, 1 << 20
BACKWARD = "backward/"
#: the names of dtypes in the text of a program
_HLO = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "float64": "f64"}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def plan(
    step: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    topology: str | None = None,
    mesh: DeviceMesh | None = None,
    tokens: int | None = None,
    price: float | None = None,
    tell: Callable[[str], None] = lambda phase: None,
) -> Plan:
    """What a training step needs on each device of a pod that is not here. The step is compiled for it, and not run.

    Modules, optimizers and arguments are on the meta device: ``with torch.device("meta"): net = Net()``. They lie as
    `fully_shard`, `parallelize_module` or `sharding.shard` say, on a mesh of `described_mesh`.

    Args:
        step: a function, or what `compile` has made of it: that of a whole training step, or of a forward pass.
        args, kwargs: what it is to be called with, on the meta device, too.
        topology: such as ``"v5e:16x16"``. What lies on no mesh is on its first device.
        mesh: a mesh of `described_mesh`. What lies nowhere is whole on each device.
        tokens: (or pictures) of a step, for rates. Default: how many numbers the first argument has, if these are
            integers in two dimensions.
        price: of a chip for an hour, for the price of tokens.
        tell: is called with the name of each phase when that begins.

    Returns:
        a `Plan`. That a step does not fit is one, too.

    Raises:
        ValueError: there is no such topology, tensors lie on other devices, or ``tokens`` is less than 1, or ``price``
            than 0.
        TypeError: ``args`` is no list or tuple, or ``mesh`` no `DeviceMesh`.
        ModuleNotFoundError: the TPU compiler is not installed.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed import described_mesh, plan
        >>> mesh = described_mesh("cpu:1")
        >>> with torch.device("meta"):
        ...     net, x = torch.nn.Linear(256, 64), torch.zeros(32, 256)
        >>> found = plan(net, [x], mesh=mesh)
        >>> found.bytes_of("parameters")
        65792
    """
    _check(args, mesh, tokens, price)
    clock = _Clock(tell)
    ready = lowered(step, args, dict(kwargs or {}), topology, mesh, clock)
    where = ready.mesh.devices.flat[0]
    name = topology or (mesh.topology if mesh is not None else "") or f"{where.platform}:{ready.mesh.size}"
    mesh_sizes = {str(axis): int(size) for axis, size in ready.mesh.shape.items()}
    key = cache.key_of(
        ready.program.as_text(), ready.inputs, ready.returned, ready.once, ready.options, name, mesh_sizes,
        where.device_kind,
    )  # fmt: skip
    known = cache.look(key)
    if known is None:
        clock("compiling")
        made = _compiled(ready, name, mesh_sizes)
        cache.put(key, made.to_json())
    else:
        made = Plan.from_json(known)
        made.cached = True
    clock("")
    made.seconds, made.host_memory = clock.seconds, _host_memory()
    _set_price(made, _tokens_of(args) if tokens is None else tokens, price)
    return made


def _check(args: object, mesh: object, tokens: int | None, price: float | None) -> None:
    if not isinstance(args, (list, tuple)):
        raise TypeError(f"plan: expected a list of the step's arguments, got {type(args).__name__}")
    if mesh is not None and not isinstance(mesh, DeviceMesh):
        raise TypeError(f"plan: expected a mesh of described_mesh, got {type(mesh).__name__}")
    if tokens is not None and tokens < 1:
        raise ValueError(f"plan: tokens of a step are at least 1, got {tokens}")
    if price is not None and not 0 <= price < math.inf:
        raise ValueError(f"plan: a price is a number that is not negative, got {price}")


def _tokens_of(args: Sequence[Any]) -> int | None:
    first = next((arg for arg in args if isinstance(arg, Tensor)), None)
    counts = first is not None and first.dim() == 2 and not (first.is_floating_point() or first.is_complex())
    return first.numel() if counts and first is not None else None


def _set_price(made: Plan, tokens: int | None, hour: float | None) -> None:
    if made.analysis is None and hour is not None:
        made.notes.append("No price: the time of a step is not known here.")
    elif tokens is None and hour is not None:
        made.notes.append(
            "No price: the first argument has no tokens to count. tokens=N (--tokens N) says how many."
        )
    if made.analysis is not None and tokens is not None:
        limits = roofline.Roofline(**made.analysis["roofline"])
        made.analysis["price"] = asdict(roofline.price(limits, made.analysis["chips"], tokens, hour))


class _Clock:
    """Notes how long each phase takes."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell, self.seconds = tell, dict[str, float]()
        self._now, self._since = "", 0.0

    def __call__(self, phase: str) -> None:
        now = time.perf_counter()
        if self._now:
            self.seconds[self._now] = round(now - self._since, 2)
        self._now, self._since = phase, now
        if phase:
            self.tell(phase)


def _host_memory() -> int:
    """Bytes that this process has taken at most; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _compiled(ready: Lowered, topology: str, mesh: dict[str, int]) -> Plan:
    """The plan of a program that nothing is known of yet."""
    where, chips = ready.mesh.devices.flat[0], known_topology(topology)
    notes, text = _notes(ready, chips), None
    try:
        with tracing.x64(), _not_kept():
            compiled, text = compiled_with_text(ready.program, where.platform)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        compiler, kept, problem = _refused(ready, str(error))
        notes.append("Saved activations are an estimate by the jaxpr: as if all devices shared them equally.")
    else:
        compiler, kept, problem = _numbers(compiled), at_the_peak(text), ""
    causes, modules = _sorted(ready, compiler, kept)
    compiler["temporary, read from the program"] = sum(one.nbytes for one in kept)
    needs = sum(one.bytes for one in causes)
    hbm = None if chips is None else chips.chip.usable // chips.chip.devices
    fits = False if problem else None if hbm is None else needs <= hbm
    if fits is False:
        problem = "\n".join(filter(None, (problem, _largest(causes, modules), _advice(causes))))
    return Plan(
        topology, where.device_kind, ready.mesh.size, mesh, fits, needs, hbm, causes, modules, compiler,
        hosts=sum(one.nbytes for one in ready.inputs if one.on_hosts),
        problem=problem, notes=notes, versions=cache.versions(),
        analysis=None if chips is None or text is None else _analysed(ready, text, mesh, chips),
    )  # fmt: skip


def _analysed(ready: Lowered, text: str, mesh: dict[str, int], chips: Topology) -> dict[str, Any]:
    """What the step computes and communicates, and the time that it takes at least."""
    places = coordinates_of(ready.mesh.devices.flat, chips) if chips.chip.is_tpu else None
    return analyse(ready.jaxpr, text, mesh, chips.name, coordinates=places).to_dict()


@contextmanager
def _not_kept() -> Iterator[None]:
    """JAX writes nothing to its cache: it could not read programs for devices that are not here."""
    name = "jax_persistent_cache_min_compile_time_secs"
    before = getattr(jax.config, name)
    jax.config.update(name, 1e9)
    try:
        yield
    finally:
        jax.config.update(name, before)


def _numbers(compiled: Any) -> dict[str, int]:
    """The compiler's numbers of a program."""
    analysis = compiled.memory_analysis()
    if analysis is None:
        raise NotImplementedError("plan: XLA has no analysis of memory on this platform")
    return {
        "arguments": int(analysis.argument_size_in_bytes),
        "outputs": int(analysis.output_size_in_bytes),
        "reused in place": int(analysis.alias_size_in_bytes),
        "temporary": int(analysis.temp_size_in_bytes),
        "program": int(analysis.generated_code_size_in_bytes),
        "peak": int(analysis.peak_memory_in_bytes),
    }


def _sorted(
    ready: Lowered, compiler: dict[str, int], kept: Sequence[Kept]
) -> tuple[list[Cause], dict[str, dict[str, int]]]:
    """The causes, which add up to the compiler's numbers, and the bytes of modules by cause."""
    values: dict[str, list[Value]] = {}
    modules: dict[str, Counter[str]] = {}
    for one in (*ready.inputs, *ready.returned):
        if one.on_hosts:
            continue
        values.setdefault(one.cause, []).append(Value(one.name, one.module, one.text, one.nbytes))
        modules.setdefault(one.module, Counter())[one.cause] += one.nbytes
    sizes = {cause: sum(value.bytes for value in found) for cause, found in values.items()}
    given = sum(one.nbytes for one in ready.inputs if not one.on_hosts)
    returned = sum(one.nbytes for one in ready.returned if not one.on_hosts)
    sizes[PADDING] = compiler["arguments"] - given
    sizes[OUTPUTS] = compiler["outputs"] - compiler["reused in place"] - returned
    left = compiler["temporary"]
    for cause, value in _living(ready, kept):
        values.setdefault(cause, []).append(value)
        share = value.bytes
        if cause != TEMPORARY:
            share = min(left, value.bytes)
            sizes[cause] = sizes.get(cause, 0) + share
            left -= share
        if share:  # modules have no more of a cause than there is
            modules.setdefault(value.module, Counter())[cause] += share
    sizes[TEMPORARY] = left
    causes = [
        Cause(name, sizes.get(name, 0), sorted(values.get(name, []), key=lambda v: -v.bytes)[:_LARGEST])
        for name in CAUSES
    ]
    return causes, {name: dict(costs) for name, costs in modules.items()}


def _living(ready: Lowered, kept: Sequence[Kept]) -> Iterator[tuple[str, Value]]:
    """What lives at the worst moment, with its cause.

    Of what no forward pass of a module has made, that with the shape of a parameter is its gradient, or with another
    dtype the parameter itself, converted.
    """
    params: dict[str, list[Argument]] = {}
    for one in ready.inputs:
        if one.cause == "parameters" and len(one.part) > 1:
            params.setdefault(",".join(map(str, one.part)), []).append(one)
    found: set[Argument] = set()
    for value in kept:
        dtype, _, sizes = value.shape.removesuffix("]").partition("[")
        module, cause = value.scope.removeprefix(BACKWARD), ACTIVATIONS if value.for_backward else TEMPORARY
        name = value.scope or NO_MODULE
        like = params.get(sizes, []) if not value.scope or value.scope.startswith(BACKWARD) else []
        same = [one for one in like if _HLO.get(one.dtype) == dtype and one not in found]
        other = [one for one in like if _HLO.get(one.dtype) != dtype]
        if same or other:
            param = min(same or other, key=lambda one: not one.module.startswith(module))
            module = param.module
            if same:  # there is one of each
                found.add(param)
                name, cause = f"the gradient of {param.name}", GRADIENTS
            else:
                name, cause = f"{param.name}, converted", TEMPORARY
        yield cause, Value(name, module or NO_MODULE, value.shape, value.nbytes)


# ---------------------------------------------------------------------- what does not fit


def _refused(ready: Lowered, text: str) -> tuple[dict[str, int], list[Kept], str]:
    """What the compiler says where it gives up: its numbers as far as it has any, what is large, and why."""
    given = sum(one.nbytes for one in ready.inputs if not one.on_hosts)
    returned = sum(one.nbytes for one in ready.returned if not one.on_hosts)
    # a sum that is called that of "HLO temporaries" has what the program is given and returns, too
    held = given + returned if "HLO temporaries" in text else 0
    temporary = max(0, _said(text) - held)
    compiler = {"arguments": given, "outputs": returned, "reused in place": 0, "temporary": temporary}
    kept = _allocations(text) or _saved(ready)
    first = next((line for line in text.splitlines() if "Ran out of memory" in line), text.splitlines()[0])
    return compiler, kept, f"The compiler gave up: {first[first.find('Ran out of memory') :].strip()}"


def _said(text: str) -> int:
    """Bytes that the compiler says it would need in all.

    Raises:
        NotImplementedError: it says so in other words.
    """
    found = re.search(r"(?:required for HLO temporaries \(|Used )([\d.]+)([KMGT]?)", text)
    if found is None:
        raise NotImplementedError(f"plan: the compiler's message about memory is not understood: {text}")
    return int(float(found.group(1)) * _UNITS[found.group(2)])


def _allocations(text: str) -> list[Kept]:
    """The largest allocations that the compiler lists, if it does."""
    kept = []
    for part in re.split(r"\n\s*\d+\. Size: ", text)[1:]:
        size = re.match(r"([\d.]+)([KMGT]?)", part)
        name = re.search(r'op_name="([^"]*)"', part)
        shape = re.search(r"Shape: (\w+\[[\d,]*\])", part)
        if size is None or "Allocation type: HLO temp" not in part:
            continue
        scope = scope_of(name.group(1)) if name else ""
        nbytes = int(float(size.group(1)) * _UNITS[size.group(2)])
        forward = bool(scope) and scope.split("/")[0] != "backward"
        kept.append(Kept(nbytes, shape.group(1) if shape else "?", scope, forward))
    return kept


def _saved(ready: Lowered) -> list[Kept]:
    """What the backward pass reads of the forward pass. How that is split over devices is not known before the compiler
    has run: bytes are those of an equal share.
    """
    saved = saved_for_backward(
        getattr(ready.jaxpr, "jaxpr", ready.jaxpr),
        device_type_of_platform(ready.mesh.devices.flat[0].platform),
    )
    found = [
        Kept(jaxprs.nbytes(v) // ready.mesh.size, f"{v.aval.str_short()} on all devices", scope, True)
        for v, scope in saved.items()
    ]
    return sorted(found, key=lambda value: -value.nbytes)


def _largest(causes: Iterable[Cause], modules: dict[str, dict[str, int]]) -> str:
    """What is largest, and of which modules."""
    cause = max(causes, key=lambda cause: cause.bytes)
    counts = Counter({name: costs.get(cause.name, 0) for name, costs in modules.items()}).most_common(3)
    named = ", ".join(f"{name} {nbytes(count)}" for name, count in counts if count)
    return f"Most is {cause.name}, {nbytes(cause.bytes)}{f': {named}' if named else ''}."


def _advice(causes: Iterable[Cause]) -> str:
    """What helps against what is largest."""
    largest = max(causes, key=lambda cause: cause.bytes).name
    return "What helps most: " + {
        ACTIVATIONS: "compute activations again (torch.utils.checkpoint of each block), split the batch over more "
        "devices or take fewer rows for each, or use bfloat16 (torch.autocast)",
        TEMPORARY: "fewer rows for each device, a loss in parts, activations that are split (parallelize_module, "
        "sharding.constrain), torch.utils.checkpoint of each block",
        "parameters": "split parameters over more devices (fully_shard, parallelize_module)",
        "optimizer state": "split the state over more devices (fully_shard), keep it on the hosts "
        "(sharding.offload(optimizer)), or take an optimizer that has less of it",
        "gradients": "compile(step, keep_grads=False), or optimizer.zero_grad() at the end of the step",
        "inputs": "split the batch: sharding.shard(x, P('fsdp'), mesh)",
    }.get(largest, "split what is large over more devices")


def _undivided(ready: Lowered) -> Iterator[str]:
    """A remark where a part of the parameters and of their state is split, and a part that is worth it is not."""
    state = [
        one for one in ready.inputs if one.cause in ("parameters", "optimizer state") and not one.on_hosts
    ]
    whole = sorted((one for one in state if one.is_whole), key=lambda one: -one.nbytes)
    size = sum(one.nbytes for one in whole)
    if (
        ready.mesh.size > 1
        and len(whole) < len(state)
        and size > max(_LARGE, sum(one.nbytes for one in state) // 10)
    ):
        yield (
            f"{nbytes(size)} of parameters and optimizer state are whole on each device, as {whole[0].name} "
            f"{whole[0].text}: fully_shard splits a dimension that is a multiple of the number of devices. A mesh of "
            "two dimensions splits them over the second alone."
        )


def _notes(ready: Lowered, chips: Topology | None) -> list[str]:
    """What one should know of the numbers."""
    found = []
    if chips is not None and not chips.chip.is_tpu:
        found.append(
            "An estimate: nothing was compiled for these GPUs. Memory and collectives are those of a program for CPUs."
        )
    if any(one.cause == GRADIENTS for one in (*ready.inputs, *ready.returned)):
        found.append("The step leaves gradients behind, which compile(step, keep_grads=False) does not.")
    for one in ready.inputs:
        if one.cause == INPUTS and one.nbytes > _LARGE and ready.mesh.size > 1 and one.is_whole:
            found.append(f"{one.name} {one.text} is whole on each device: shard(x, P(...), mesh) splits it.")
    found += _undivided(ready)
    if ready.once:
        found.append(f"This is the first call's program. Later calls have another, as {ready.once}.")
    return found
