"""`compile`: run a function that mutates state as one XLA program."""

from __future__ import annotations

import functools
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import jax

from .._array import tracing
from .._array.limits import Latest, tidy
from .._array.placed import sharding_of
from .._array.sizes import SmallSize
from .._array.value import VALUES
from .._base import config, contexts, dtypes, inside, modes, progress, settings, watch
from .._base.bounded import Bounded
from .._base.jaxprs import count_of
from .._base.tuning import tuning
from .._run import autocast
from .._tensor import grad_mode, overriding, stand_ins
from .._tensor.tensor import Tensor
from .._tensor.tree import flatten_call
from .checking import are_on
from .effects import FirstCall
from .ends import told
from .inputs import Stale
from .names import variables_cells
from .options import read
from .overlay import Overlay
from .program import Program, Unclear
from .sizes import Changing, Sizes, argument_names
from .slots import DataSlot, Slot, find, tensors_of
from .stateful import kind_of
from .trace import forget_described, trace
from .tree import beside_views, by_identity, cell_of
from .variables import Variable, plain_number

__all__ = ["Compiled", "compile", "compiled_of"]

_grad = grad_mode.state
_STATIC = (int, bool, str, bytes, type(None), complex)


#: in place of a result: the function is to run as it is
_PLAINLY: Any = object()


class _Programs(list["Program"]):
    """The programs for one kind of call, the latest used first.

    Attributes:
        key: of the calls.
        sizes: those of the arguments that they take as numbers.
        plainly: whether such a call runs uncompiled.
    """

    plainly = False

    def __init__(self, key: Any, sizes: Sizes | None = None) -> None:
        self.key, self.sizes = key, sizes


class Described(NamedTuple):
    """A traced call that was not made: its program, the leaves of its arguments, and what the call would do."""

    program: Program
    leaves: list[Any]
    first: FirstCall


class Compiled:
    """A function that runs as one XLA program, state and all. Made by `compile`.

    Attributes:
        traces: how often the Python function was traced.
        reasons: why each trace was made.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        rng: str = "jax",
        keep_grads: bool = True,
        checks: bool | None = None,
        dynamic: bool | None = None,
        buckets: Sequence[int] | None = None,
        xla: dict[str, Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self._fn = fn
        self._options = (rng, keep_grads, checks, dynamic, buckets, xla)
        self._xla = xla
        #: by the places where tensors stand in for others, what takes these as arguments
        self._standing: Bounded[Any, Compiled] = Bounded(tuning.cached_programs)
        self._rng = rng
        self._keep_grads = keep_grads
        self._checks = checks
        self._changing = Changing(dynamic, buckets)
        self._programs: Bounded[Any, _Programs] = Bounded(tuning.cached_programs)
        #: the last call's key, and the programs under it
        self._last: tuple[Any, _Programs] = (None, _Programs(None))
        self._kept: Latest[Program] = Latest(lambda: tuning.cached_traces, self._drop)
        self._dropped = 0
        self._watched: list[Slot] = []
        #: places where the caller put other tensors between calls
        self._input_slots: dict[Slot, Slot] = {}
        #: numbers that changed between calls, and are inputs of the programs since
        self._lifted: dict[Any, Variable] = {}
        self._may_lift = True
        self._again: Counter[str] = Counter()
        self.traces = 0
        self.reasons: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # inside another compiled function, or a transform of JAX: part of that one; under a mode, its to see
        if tracing.overlay or inside.top_trace(None) is not inside.NO_TRACE or overriding.state.modes:
            return self._fn(*args, **kwargs)
        if watch.on:
            if watch.state.level is not None:  # a program has no tangents
                return self._fn(*args, **kwargs)
            if watch.state.profile is not None:
                return watch.state.profile.run_compiled(self, args, kwargs)
        if stand_ins.state.swaps:
            return self._with_stand_ins(args, kwargs)
        wide = jax.config.jax_enable_x64
        try:
            leaves, tree, signature = _arguments(args, kwargs)
        except _HasAttributes:
            return self._fn(*args, **kwargs)
        except BaseException:  # it may have come while an argument went to the device
            modes.put_back_jax(wide)
            raise
        under = (
            _grad.enabled,
            _grad.inference,
            dtypes._default,
            config.key,
            config.kernels,
            autocast.key() if autocast.enabled else None,
            contexts.state.attention,
            contexts.state.parts,
            contexts.state.split,
            contexts.state.platform,
        )
        key = (tree, under, *signature)
        progress.made("a compiled call")
        last = self._last
        if key != last[0]:  # to compare takes less than a hash
            last = self._find(key, leaves)
        try:
            if not tracing.others():
                result = self._run(last, leaves, tree)
            else:
                for program in tuple(last[1]):  # a pass writes nothing: it waits for nobody
                    quick = program.quick
                    if quick is not None and quick.allows(leaves):
                        self._kept.use(program)
                        return quick.run(leaves)
                with tracing.turn:
                    result = self._run(last, leaves, tree)
        except BaseException:
            modes.put_back_jax(wide)
            raise
        return self._fn(*args, **kwargs) if result is _PLAINLY else result

    def _with_stand_ins(self, args: Any, kwargs: Any) -> Any:
        """A call while tensors stand in for parameters and buffers of modules: they are arguments of a program."""
        swaps = [swap for swap, _ in stand_ins.state.swaps]
        places = tuple((id(table), key) for swap in swaps for table, key in swap.slots)
        standing = self._standing.get(places)
        if standing is None:
            fn = stand_ins.Standing(self._fn, swaps)
            standing = self._standing[places] = Compiled(fn, *self._options)
        traces = standing.traces
        with stand_ins.lifted() as tensors:
            out, after = standing(tensors, args, kwargs)
            for old, new in zip(tensors, after, strict=True):
                old[:] = [a if b is None else b for a, b in zip(old, new, strict=True)]
        if standing.traces > traces:
            self.traces += standing.traces - traces
            self.reasons += standing.reasons[traces:]
        return out

    def _find(self, key: Any, leaves: list[Any]) -> tuple[Any, _Programs]:
        """The programs for a call, beside its key."""
        exact = self._programs.get(key)
        if exact:
            self._last = key, exact
            return self._last
        own, sizes, loan = self._changing.find(key, leaves)
        programs = self._programs.setdefault(own, _Programs(own, sizes))
        if loan is None:
            self._last = key, programs
        elif not loan.may_go_on(sum(program.calls for program in programs)):
            return self._find(key, leaves)
        return key, programs

    def _run(self, found: tuple[Any, _Programs], leaves: list[Any], tree: Any) -> Any:
        """The result of a program, or `_PLAINLY` if the function is to run as it is."""
        key, programs = found
        try:
            return self._run_one(key, programs, leaves, tree)
        except Unclear:
            exact = self._programs.setdefault(key, _Programs(key))
            return self._trace(key, exact, leaves, tree, "a check of values failed")

    def _run_one(self, key: Any, programs: _Programs, leaves: list[Any], tree: Any) -> Any:
        if programs.plainly:
            return _PLAINLY
        why = ""
        for program in programs:
            try:
                quick = program.quick
                if quick is not None and quick.allows(leaves):
                    self._kept.use(program)
                    return quick.run(leaves)
                env = program.inputs.numbers.check(leaves)
                why = env if isinstance(env, str) else program.guards.check(leaves)
                if why:
                    self._lift(program)
                if not why and isinstance(env, dict):
                    if program is not programs[0]:
                        programs.remove(program)
                        programs.insert(0, program)
                    self._kept.use(program)
                    return program.run(leaves, env)
            except Stale:
                why = "a tensor changed its shape or dtype"
                programs.remove(program)
                self._kept.remove(program)
                break
        return self._trace(key, programs, leaves, tree, why or self._new(key, leaves, tree))

    def _new(self, key: Any, leaves: list[Any], tree: Any) -> str:
        """Why there is no program to try."""
        changed = self._changing.changed(key, leaves)
        if not changed:
            return (
                "arguments of new shapes, dtypes or values"
                if any(self._programs.values())
                else "the first call"
            )
        names = argument_names(self._fn, tree)
        sizes = [f"{names[i]}.shape[{d}]" for (i, d), _, _ in changed]
        if self._changing.dynamic is None:
            often = [(names[i], d) for (i, d), _, _ in changed if self._changing.changes[i, d] == _MANY - 1]
            if often:
                self._warn_of_sizes(often)
        return "; ".join(f"{s} is {now}, not {old}" for s, (_, old, now) in zip(sizes, changed, strict=True))

    def _lift(self, program: Program) -> None:
        """Numbers and tensors that changed since a program was traced become inputs of the next one."""
        values = program.guards.values
        for place in values.changed():
            before, now = place.before, place.get()
            if plain_number(before) and plain_number(now) and self._may_lift and values.may_lift:
                self._lifted[id(place.owner), place.key] = place
            elif _is_data(before) and _is_data(now) and isinstance(place.owner, dict | list | types.CellType):
                slot = Slot(place.owner, place.key, is_input=True)
                self._input_slots[slot] = slot

    def _trace(self, key: Any, programs: _Programs, leaves: list[Any], tree: Any, why: str) -> Any:
        begun: list[Overlay] = []
        program = None
        try:
            before = variables_cells(self._fn)
            (program, first, overlay), sizes = self._traced_with(programs.sizes, leaves, tree, begun)
            if sizes is not programs.sizes:
                if self._why_closed:
                    kept = () if sizes is None else sizes.all
                    left_out = [size for size in programs.sizes.all if size not in kept]  # type: ignore[union-attr]
                    self._changing.close(key, leaves, left_out, self._why_closed)
                    _, programs = self._find(key, leaves)
                else:  # for this call alone
                    programs = self._programs.setdefault(key, _Programs(key))
            sharing = beside_views(leaves)
            apart = sharing.isdisjoint(i for i, _, _ in program.effects.args)
            apart = apart and not _writes_beside_views(program, leaves)
            if not apart or first.changes_containers:
                # a program has one input for each argument: what it writes to one, the others would not see
                overlay.undo()
                begun.clear()
                if first.changes_containers:
                    programs.plainly = True
                    self._warn_of_containers()
                return _PLAINLY
            stayed = {cell for cell in before & variables_cells(self._fn) if cell not in overlay.inside}
            program.guards.bind(leaves, stayed.union(*(p.guards.states for p in self.programs())))
            self.traces += 1
            self.reasons.append(why)
            self._warn_of(why.partition(" changed")[0] if " changed" in why else "")
            result = program.run(leaves, cast(Any, program.inputs.numbers.check(leaves)), first)
        except BaseException:
            if program is None or not program.calls:
                _take_back(begun)
            raise
        if not first.why_once:
            programs.insert(0, program)
            self._programs[programs.key] = programs  # all of these programs may have been let go of meanwhile
            self._warn_of_many(self._kept.add(program, count_of(program.executable.jaxpr)))
        else:
            self.reasons[-1] += f"; to be traced again: {first.why_once}"
            self._warn_of(first.why_once)
            self._watched = _places_to_watch(program, first, overlay, leaves)
        for slot in overlay.watched:
            slot.forget()
        tidy()
        return result

    def _drop(self, program: Program) -> None:
        """Forget a program."""
        for key, programs in list(self._programs.items()):
            if program in programs:
                programs.remove(program)
                if not programs:
                    del self._programs[key]

    def _traced_with(
        self, sizes: Sizes | None, leaves: list[Any], tree: Any, begun: list[Overlay]
    ) -> tuple[tuple[Program, FirstCall, Overlay], Sizes | None]:
        """A new program that takes sizes as numbers, or those of them with which the function can be traced."""
        if sizes is None:
            return self._traced(leaves, tree, begun), None
        self._why_closed = ""
        for fewer in (sizes, *sizes.fewer()):
            try:
                return self._traced(leaves, tree, begun, fewer), fewer
            except SmallSize:
                _take_back(begun)
                begun.clear()
                break
            except Exception as error:
                self._why_closed = self._why_closed or told(error)
                _take_back(begun)
                begun.clear()
        return self._traced(leaves, tree, begun), None

    def _traced(
        self, leaves: list[Any], tree: Any, begun: list[Overlay], sizes: Sizes | None = None
    ) -> tuple[Program, FirstCall, Overlay]:
        """A new program; without symbolic numbers if the function's Python does not get through with them."""
        watched = [*dict.fromkeys([*self._input_slots, *self._watched])]
        options = (self._rng, watched, self._keep_grads)
        checks = are_on(self._checks)
        numbers = [place for place in self._lifted.values() if plain_number(place.get())]
        try:
            return trace(
                self._fn,
                leaves,
                tree,
                *options,
                lifted=numbers,
                begun=begun,
                checks=checks,
                sizes=sizes,
                xla=self._xla,
            )
        except Exception:
            if not self._lifted or sizes is not None:
                raise
            _take_back(begun)
            begun.clear()
            self._lifted, self._may_lift = {}, False
            return trace(self._fn, leaves, tree, *options, begun=begun, checks=checks, xla=self._xla)

    def _warn_of(self, what: str) -> None:
        """Warn once when the same thing causes trace after trace."""
        self._again[what] += 1
        if what and self._again[what] == _MANY:
            warnings.warn(
                f"{getattr(self, '__qualname__', 'a compiled function')} was traced {_MANY} times for one reason: "
                f"{what}{'' if ' ' in what else ' changes'}. Each trace compiles the program again. Give what changes "
                "as a tensor, or do that part outside of the compiled function; explain() tells what it depends on.",
                stacklevel=4,
            )

    def _warn_of_sizes(self, often: Sequence[tuple[str, int]]) -> None:
        """Warn once when sizes of arguments cause trace after trace; given the names and dimensions of these."""
        what = " and ".join(f"{name}.shape[{d}]" for name, d in often)
        name, d = often[0]
        warnings.warn(
            f"{getattr(self, '__qualname__', 'a compiled function')} was traced {_MANY} times because {what} "
            f"{'change' if len(often) > 1 else 'changes'}. Each trace compiles the program again. compile(..., "
            f"dynamic=True), or torch._dynamo.mark_dynamic({name}, {d}) before the first call, has a few programs "
            "serve all sizes.",
            stacklevel=6,
        )

    def _warn_of_many(self, dropped: int) -> None:
        """Warn once when the programs are more than are kept."""
        before, self._dropped = self._dropped, self._dropped + dropped
        if before < _DROPPED <= self._dropped:
            warnings.warn(
                f"{_DROPPED} programs of {getattr(self, '__qualname__', 'a compiled function')!r} were compiled and "
                f"let go of: it keeps {tuning.cached_traces}, or fewer large ones, and is called with more shapes or "
                "values than that. Each new one is compiled. Pad batches to a few sizes, or compile(..., "
                "dynamic=True) to have that done.",
                stacklevel=5,
            )

    def _warn_of_containers(self) -> None:
        warnings.warn(
            f"{getattr(self, '__qualname__', 'a compiled function')} changes a list or dict that it was given, which "
            "a program cannot do: it runs uncompiled. Return what is new, or keep the container outside.",
            stacklevel=5,
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    @contextmanager
    def described(self, args: tuple[Any, ...], kwargs: dict[str, Any], where: Any) -> Iterator[Described]:
        """The program of a call that is not made: what is on the meta device stands for what would be there.

        Until the block ends state is as the trace has left it; then all is as it was before.

        Args:
            args, kwargs: of the call.
            where: the `device` that the program is for.

        Raises:
            NotImplementedError: sizes of arguments are marked to be numbers of the program.
        """
        leaves, tree, _ = _arguments(args, kwargs)
        if self._changing.marked(leaves):
            raise NotImplementedError(
                "a call with sizes that were marked by mark_dynamic cannot be described: give tensors of the size of "
                "the bucket, without a mark"
            )
        begun: list[Overlay] = []
        options = (self._rng, (), self._keep_grads)
        checks = bool(settings.get("CHECKS") if self._checks is None else self._checks)
        try:
            program, first, _ = trace(
                self._fn, leaves, tree, *options, begun=begun, checks=checks, described=where, xla=self._xla
            )
            yield Described(program, leaves, first)
        finally:
            _take_back(begun)
            forget_described()

    def programs(self) -> list[Program]:
        """The traced programs kept, the latest used first."""
        return self._kept.latest_first()

    def explain(self, analyse: bool = True) -> str:
        """What was captured, why it was traced, and what XLA says of cost and memory."""
        from .explain import explain

        return explain(self, analyse)

    def clear(self) -> None:
        """Forget every program; the next call traces again."""
        self._programs.clear()
        self._standing.clear()
        self._kept.clear()
        self._last = None, _Programs(None)


#: how many are let go of before there is a warning
_DROPPED = 16
#: traces for one reason, after which there is a warning
_MANY = 8


def _is_data(value: Any) -> bool:
    """Whether this is a tensor that may be given to a program as an argument would be."""
    return type(value) is Tensor and not value._requires_grad and not value._sparse


def _writes_beside_views(program: Program, leaves: Sequence[Any]) -> bool:
    """Whether it writes to an argument that is a view of what the function has from outside too, or to that."""
    states, effects = program.guards.states, program.effects
    views = {
        i: leaf._storage
        for i, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor) and leaf._view is not None
    }
    shared = {i: cell for i, cell in views.items() if cell in states and not by_identity(leaves[i])}
    if not shared:
        return False
    written = {cell for cell, _, _ in effects.cells}.union(*(joint.members for joint, _ in effects.joints))
    return not shared.keys().isdisjoint(i for i, _, _ in effects.args) or not written.isdisjoint(
        shared.values()
    )


def _take_back(begun: Sequence[Overlay]) -> None:
    """Undo traces whose program did not run, whatever comes between."""
    try:
        for overlay in reversed(begun):
            overlay.undo()
    except BaseException:
        for overlay in reversed(begun):
            overlay.undo()
        raise


def _places_to_watch(program: Program, first: FirstCall, overlay: Overlay, leaves: list[Any]) -> list[Slot]:
    """Where a trace replaced tensors or left arguments and those it made, but not where others held the old ones all
    along.
    """
    places, grads = program.inputs.places, program.effects.grads
    slots = [] if places is None else places.slots
    replaced = [slot for slot in slots if not isinstance(slot, DataSlot)]
    ours = (leaves, *overlay.notes(), *program.guards.values.slots, *(grads or ()))
    found = [
        slot
        for slot in find(tensors_of(first.kept), ours)
        if slot not in overlay.holders or any(t._storage in overlay.inside for t in slot.tensors())
    ]
    return list(dict.fromkeys([*replaced, *found]))


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any, Sequence[Any]]:
    """The leaves of the arguments, their structure, and what of each the program depends on."""
    if not kwargs:  # plain Tensors need no general treatment, which takes several times as long
        signature: list[Any] = []
        for a in args:
            if type(a) is not Tensor or a._view is not None or (a._requires_grad and by_identity(a)):
                break
            value = a._storage.held
            kind = (value.shape, value.dtype, a._requires_grad)
            placed = value.__class__ in VALUES and value.sharding is not None
            signature.append((*kind, value.sharding) if placed else kind)
        else:
            if len(args) > 1:
                _add_sharing(signature, args)
            return list(args), _flat_tree(len(args)), signature
    leaves, tree = flatten_call(args, kwargs)
    signature = [*map(_signature, leaves)]
    _add_sharing(signature, leaves)
    return leaves, tree, signature


def _add_sharing(signature: list[Any], leaves: Sequence[Any]) -> None:
    """Add which tensors are the same, or share memory: then what is written to one changes the other."""
    cells = list(map(cell_of, leaves))
    given = [cell for cell in cells if cell is not None]
    if len(set(given)) < len(given):
        handles = list(map(id, leaves))
        same = [
            (cells.index(c), handles.index(h)) for c, h in zip(cells, handles, strict=True) if c is not None
        ]
        signature.append((*same, *sorted(beside_views(leaves))))


@functools.cache
def _flat_tree(count: int) -> Any:
    return flatten_call((0,) * count, {})[1]


class _HasAttributes(Exception):
    """An argument is of a subclass and has attributes, which its functions may read: nothing is compiled."""


def _signature(leaf: Any) -> Any:
    """What of an argument the program depends on."""
    if isinstance(leaf, Tensor):
        value = leaf._value
        if by_identity(leaf):
            return (id(leaf), value.shape, value.dtype, leaf.requires_grad)
        kind: tuple[Any, ...] = (value.shape, value.dtype, leaf.requires_grad)
        if type(leaf) is not Tensor and overriding.is_overriding(type(leaf)):
            if leaf._own_attributes():
                raise _HasAttributes
            kind = (*kind, type(leaf))
        if leaf._view is not None and not leaf.is_contiguous():
            return (*kind, leaf._strides())
        sharding = sharding_of(leaf._storage)
        return kind if sharding is None else (*kind, sharding)
    if isinstance(leaf, jax.Array):
        return (leaf.shape, leaf.dtype, None)
    if type(leaf) is float:
        return float
    if isinstance(leaf, _STATIC):
        return (type(leaf), leaf)
    try:
        hash(leaf)
    except TypeError:
        raise TypeError(
            f"a compiled function got an argument of type {type(leaf).__name__}, which can neither be "
            f"traced nor compared; pass a "
            "Tensor, a number, a string, or a container of them"
        ) from None
    return (type(leaf), leaf)


def compiled_of(fn: Any) -> Compiled | None:
    """What a function or a module computes by, if it is compiled."""
    found = fn if isinstance(fn, Compiled) else getattr(fn, "compiled", None)
    return found if isinstance(found, Compiled) else None


def compile(
    model: Any = None,
    *,
    fullgraph: bool = True,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: Any = None,
    options: Any = None,
    disable: bool = False,
    rng: str | None = None,
    keep_grads: bool = True,
    checks: bool | None = None,
    buckets: Sequence[int] | None = None,
) -> Any:
    """Compile a function (or module) with everything it mutates into one XLA program.

    The function may be a whole training step: ``zero_grad``, forward, ``backward`` and ``step``. Parameters, buffers,
    gradients, optimizer state, random state and any other tensor it reads or writes are found by themselves.
    Python code
    runs only while tracing; a change of shapes, modes, flags or structure traces again, a change of ``lr`` does not.
    Called inside a transform of JAX (`jax.jit`, `jax.vmap`, ...) it is plain Python, a part of that: it may read state
    there, and not change any.

    Args:
        model: the function or `nn.Module`; None to use it as a decorator with arguments.
        rng: ``"jax"`` draws random numbers in the program from a JAX key that is part of the state; ``"torch"`` draws
            them on the host at every call, in PyTorch's stream, so that a compiled run gives PyTorch's numbers. None:
            what ``FUNCTORCH_PORT_RNG`` in the environment says, or ``"jax"``.
        keep_grads: whether ``.grad`` can be read after a call that made gradients and stepped their parameters, as in
            PyTorch. That takes memory of the parameters' size. False saves it: ``.grad`` of these parameters is None
            after the call, as if the function ended with ``zero_grad()``.
        checks: whether a call raises what eager mode raises for values: indices and targets that are out of range,
            matrices that are singular, integers divided by zero, and so on. State is then as before the call. None:
            on a CPU; ``FUNCTORCH_PORT_CHECKS=0`` or ``1`` in the environment says it for all. Elsewhere a call has to
            wait for the program to know. Without checks such values give NaN, or a number.
        dynamic: whether a size of an argument that differs from one call to another becomes a number of the program: it
            is padded to a bucket, and the numbers are those of the unpadded call (see ``docs/compile.md``). None: only
            sizes that were marked by ``torch._dynamo.mark_dynamic``. False: none; each shape has a program.
        buckets: sizes to pad to. Larger ones, and all without it, are padded to powers of two.
        disable: return the function as it is.
        options: of XLA, as ``{"xla_tpu_scoped_vmem_limit_kib": 65536}``; the names start with ``xla_``. Of PyTorch's
            ``"fallback_random"`` means ``rng="torch"``, and those that only say how to be fast have no effect
            (``"epilogue_fusion"``, ``"max_autotune"``, ``"shape_padding"``, ``"triton.cudagraphs"``).
        mode: one of PyTorch's, without effect.
        fullgraph, backend: accepted for PyTorch's sake.

    Raises:
        RuntimeError: for an unknown mode or option; at the first call, for an option that XLA does not know.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> opt = torch.optim.SGD([w], lr=0.5)
        >>> @torch.compile
        ... def step(x):
        ...     opt.zero_grad()
        ...     loss = (w * x).sum()
        ...     loss.backward()
        ...     opt.step()
        ...     return loss
        >>> step(torch.tensor([1., 2.])), w
        (tensor(3.), tensor([0.5000, 0.0000], requires_grad=True))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    """
    xla, asked = read(mode, options)
    if rng is None:
        rng = asked or settings.get("RNG")
    if rng not in ("jax", "torch"):
        raise ValueError(f'rng must be "jax" or "torch", got {rng!r}')
    if model is None:
        return functools.partial(
            compile,
            dynamic=dynamic,
            disable=disable,
            options=xla,
            rng=rng,
            keep_grads=keep_grads,
            checks=checks,
            buckets=buckets,
        )
    if disable or isinstance(model, Compiled):
        return model
    kind = kind_of(model)
    make = Compiled if kind is None or kind.compiled is None else kind.compiled
    return make(
        model, rng=rng, keep_grads=keep_grads, checks=checks, dynamic=dynamic, buckets=buckets, xla=xla
    )
