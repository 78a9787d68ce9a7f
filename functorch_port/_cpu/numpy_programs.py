"""Small operations on the host: the jaxpr of a plan written out as a Python function of numpy arrays.

Calling a compiled program costs 15 to 25 µs on a CPU whatever it does; numpy adds two small arrays in one. So what was
made on the host (from Python data, or by an operation on such values) and is small stays there, until something
asks for the `jax.Array`. There is no second definition of any operation: the pure function is traced as for `jax.jit`,
and its primitives are looked up in the table below. Whatever is not in the table, or would take
longer than the call of a program, is compiled as ever.
"""

from __future__ import annotations

import contextvars
import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

import jax
import numpy as np

from .._array import fits, storage
from .._array.storage import HOST
from .._base import device, dtypes, lowering, settings
from .._base.tuning import tuning
from .._tensor.plan import LEAST, MOST, NUMBERS

__all__ = [
    "enabled",
    "function",
    "is_only_cpu",
    "keeps",
    "on_cpu",
    "quiet",
    "run",
]


_DTYPES = frozenset(map(np.dtype, ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")))


def _cpu_is_default() -> bool:
    return not settings.PLAIN and device.platform() == "cpu"


def on_cpu() -> bool:
    """Whether new arrays come to be on a CPU without being told to."""
    return jax.config.jax_default_device is None and _cpu_is_default()


@functools.cache
def _only_cpu() -> set[Any]:
    """The CPU, if JAX computes on one alone."""
    return set(jax.devices()) if _cpu_is_default() and jax.device_count() == 1 else set()


def is_only_cpu(devices: Any) -> bool:
    """Whether these are the CPU on which JAX computes, and there is no second one."""
    return bool(devices) and devices == _only_cpu()


class _Enabled:
    """Whether small values live on the host: only where the CPU is what JAX computes on."""

    known: bool | None = None

    def __call__(self) -> bool:
        if self.known is None:
            self.known = tuning.numpy_elements > 0 and storage.X64 and _cpu_is_default()
        return self.known


enabled = _Enabled()


def keeps(array: Any) -> bool:
    """Whether a new array with this size and dtype is to stay on the host."""
    return (
        array.size <= tuning.numpy_elements
        and array.dtype in _DTYPES
        and not storage.overlay
        and enabled()
        and jax.config.jax_default_device is None
    )


def key_of(values: Sequence[Any]) -> tuple[Any, ...] | None:
    """What a program for numpy arrays and numbers depends on: shapes, dtypes and types. None if there are others."""
    key: list[Any] = []
    for v in values:
        cls = v.__class__
        if cls in HOST:
            key.append(v.shape)
            key.append(v.dtype)
        elif cls in NUMBERS:
            if cls is int and not LEAST <= v <= MOST:
                fits.fits(v, dtypes.int64.np)
            key.append(cls)
        else:
            return None
    return tuple(key)


def computed(plan: Any, key: tuple[Any, ...], values: Sequence[Any]) -> Any:
    """The results of a plan for values with this key, as numpy arrays; None if it must be compiled."""
    program = plan.backend.get(key)
    if program is None:
        program = plan.backend[key] = (enabled() and not plan.eager and function(plan.fn, values)) or False
    if program is False:
        return None
    try:
        return quiet.run(program, *values)
    except Exception:
        return run(program, values)


#: numpy's warnings about overflow, division by zero and NaN are off in here, and nowhere else
quiet = contextvars.Context()
quiet.run(np.seterr, all="ignore")


class Unsupported(Exception):
    """The program must be compiled."""


def function(
    fn: Callable[..., Any],
    args: Sequence[Any],
    most: int | None = None,
    time: float | None = None,
) -> Callable[..., Any] | None:
    """``fn`` for numpy arrays of these shapes and dtypes (and numbers), or None if it must be compiled.

    That is so with arrays of more than ``most`` elements, and if it would take more than ``time`` microseconds; the
    defaults are those of `tuning`.
    """
    try:
        avals = [jax.ShapeDtypeStruct(a.shape, a.dtype) if hasattr(a, "dtype") else a for a in args]
        with storage.x64():
            closed, shapes = jax.make_jaxpr(fn, return_shape=True)(*avals)
        if len(shapes if isinstance(shapes, tuple | list) else (shapes,)) != len(closed.out_avals):
            return None  # some of the results are None
        most = tuning.numpy_elements if most is None else most
        time = tuning.numpy_time if time is None else time
        program = _Writer(closed, type(shapes), most).function(time)
        outs = run(program, args)
        for out, aval in zip(outs if isinstance(outs, tuple) else (outs,), closed.out_avals, strict=True):
            if out.shape != aval.shape or out.dtype != aval.dtype:
                return None
    except (
        Exception
    ):  # an error in the operation itself is raised again, with its own words, by the compiled form
        return None
    return program


def run(program: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call what `function` returned; None if a number does not fit (the compiled form says it better)."""
    try:
        return quiet.run(program, *args)
    except Exception:
        pass
    try:  # another thread was in there
        return contextvars.copy_context().run(_in_quiet, program, args)
    except Exception:
        return None


def _in_quiet(program: Callable[..., Any], args: Sequence[Any]) -> Any:
    with np.errstate(all="ignore"):
        return program(*args)


class _Missing:
    """A value that cannot be computed here, which matters only if it is needed."""

    const = None

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __getattr__(self, name: str) -> Any:
        raise Unsupported(self.reason)


class _Value:
    """A value in the program that is being written.

    Attributes:
        text: how to write it.
        aval: shape and dtype.
        shape: the shape that the numpy array has; it broadcasts to the aval's.
        const: the value itself, where it does not depend on the arguments.
        line: number of the line that computes it.
        of: the value that this one has the elements of, in another shape.
    """

    __slots__ = ("aval", "const", "line", "of", "shape", "text")

    def __init__(self, text: str, aval: Any, shape: Any, const: Any = None, line: int | None = None) -> None:
        self.text = text
        self.aval = aval
        self.shape = tuple(shape)
        self.const = const
        self.line = line
        self.of: _Value | None = None


class _Writer:
    """Writes a jaxpr as the source of a Python function, one line per primitive."""

    def __init__(self, closed: Any, kind: type, most: int) -> None:
        self.most = most
        self.names: dict[str, Any] = dict(_HELPERS)
        self.lines: list[tuple[str, str, set[int]]] = []
        self.cost: list[float] = []
        #: what was computed already
        self.seen: dict[tuple[str, Any], _Value] = {}
        #: by the text of a value the primitive that it comes from, with its arguments and parameters
        self.made: dict[str, tuple[str, list[_Value], Any]] = {}
        self.env: dict[Any, _Value] = {}
        self.inputs: list[str] = []
        for var in closed.jaxpr.invars:
            value = _Value(f"a{len(self.inputs)}", self._checked(var.aval), var.aval.shape)
            self.inputs.append(value.text)
            self.env[var] = value
        if all(var.aval.weak_type for var in closed.jaxpr.invars):
            raise Unsupported("numbers alone")
        outs = self._run(closed.jaxpr, closed.consts)
        self.outs = [self._whole(out) for out in outs]
        self.kind = kind

    def function(self, time: float) -> Callable[..., Any]:
        """The function: positional arguments to an array or a tuple of them."""
        live: set[int] = set()
        for out in self.outs:
            if out.line is not None:
                live.add(out.line)
        for number in range(len(self.lines) - 1, -1, -1):
            if number in live:
                live |= self.lines[number][2]
        if sum(self.cost[n] for n in live) > time:
            raise Unsupported("too long")
        body = [f"    {name} = {text}" for n, (name, text, _) in enumerate(self.lines) if n in live]
        results = ", ".join(self._array(out) for out in self.outs)
        many = issubclass(self.kind, tuple | list)
        body.append(f"    return ({results},)" if many else f"    return {results}")
        source = "\n".join([f"def program({', '.join(self.inputs)}):", *body])
        made: dict[str, Any] = {}
        exec(compile(source, "<host program>", "exec"), made)
        code = made["program"].__code__  # most of the names are of what is computed already
        return FunctionType(code, {name: self.names[name] for name in code.co_names if name in self.names})

    # ------------------------------------------------------------- building

    def _checked(self, aval: Any) -> Any:
        if aval.dtype not in _DTYPES or math.prod(aval.shape) > self.most:
            raise Unsupported(str(aval))
        return aval

    def _constant(self, value: Any, aval: Any) -> _Value:
        value = np.asarray(value, aval.dtype)
        name = f"c{len(self.names)}"
        self.names[name] = value if value.shape else value[()]
        text = name
        if not value.shape and value.dtype.kind in "if" and np.isfinite(value):
            text = repr(value.item())  # a Python number is cheaper, and takes the dtype of what it meets
            text = f"({text})" if text[0] == "-" else text
        return _Value(text, aval, value.shape, self.names[name])

    def _read(self, atom: Any) -> _Value:
        if hasattr(atom, "val"):  # a `Literal` of `jax.extend.core`, which takes 20 ms to import
            if atom.aval.dtype not in _DTYPES:
                return _Missing("a constant")  # type: ignore[return-value]
            return self._constant(atom.val, self._checked(atom.aval))
        return self.env[atom]

    def _run(self, jaxpr: Any, consts: Sequence[Any], args: Sequence[_Value] | None = None) -> list[_Value]:
        for var, const in zip(jaxpr.constvars, consts, strict=True):
            self.env[var] = self._constant(const, self._checked(var.aval))
        if args is not None:
            self.env.update(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            ins = [self._read(atom) for atom in eqn.invars]
            name = eqn.primitive.name
            if name in _CALLS:
                inner = eqn.params[_CALLS[name]]
                outs = (
                    self._run(inner.jaxpr, inner.consts, ins)
                    if hasattr(inner, "consts")
                    else self._run(inner, (), ins)
                )
            elif (formula := lowering.formula_of(eqn.primitive)) is not None:
                given = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in ins]
                with storage.x64():
                    inner = jax.make_jaxpr(partial(formula, **eqn.params))(*given)
                outs = self._run(inner.jaxpr, inner.consts, ins)
            elif name == "cond" and ins[0].const is not None:
                branch = eqn.params["branches"][int(ins[0].const)]
                outs = self._run(branch.jaxpr, branch.consts, ins[1:])
            else:
                try:
                    for var in eqn.outvars:
                        self._checked(var.aval)
                    outs = self._primitive(name, eqn, ins)
                except Unsupported as why:
                    outs = [_Missing(str(why))] * len(eqn.outvars)  # type: ignore[list-item]
                if len(outs) == 1 and outs[0].const is None and outs[0].text not in self.made:
                    self.made[outs[0].text] = name, ins, eqn.params
            self.env.update(zip(eqn.outvars, outs, strict=True))
        return [self._read(atom) for atom in jaxpr.outvars]

    def _primitive(self, name: str, eqn: Any, ins: list[_Value]) -> list[_Value]:
        aval = eqn.outvars[0].aval
        ufunc = _UFUNCS.get(name)
        if name == "max" and any(
            v.const is not None and v.const.ndim == 0 and v.const == -np.inf for v in ins
        ):
            return [next(v for v in ins if v.const is None or v.const.ndim or v.const != -np.inf)]
        if ufunc is not None:
            kinds = _KINDS.get(name, "biuf")
            if any(v.aval.dtype.kind not in kinds for v in ins):
                raise Unsupported(name)
            shape = np.broadcast_shapes(*(v.shape for v in ins))
            return [self._emit(ufunc.format(*(self._operand(v, shape) for v in ins)), aval, shape, ins, 0.9)]
        rule = _RULES.get(name)
        if rule is None:
            raise Unsupported(name)
        found = rule(self, eqn, ins)
        return found if isinstance(found, list) else [found]

    def _emit(
        self, text: str, aval: Any, shape: Any, needs: Sequence[_Value], cost: float, like: str = ""
    ) -> _Value:
        """A line that computes a value; at once if it does not depend on the arguments."""
        if all(v.const is not None for v in needs):
            with np.errstate(all="ignore"):
                return self._constant_like(eval(text, self.names), aval)
        known = self.seen.get((text, aval.dtype))
        if known is not None:
            return _Value(known.text, aval, shape, None, known.line)
        lines = {v.line for v in needs if v.line is not None}
        name = f"v{len(self.lines)}"
        self.lines.append((name, text, lines))
        self.cost.append((cost if shape else min(cost, 0.5)) + math.prod(shape) * 0.4e-3)
        made = self.seen[text, aval.dtype] = _Value(name, aval, shape, None, len(self.lines) - 1)
        return made

    def _constant_like(self, value: Any, aval: Any) -> _Value:
        if np.ndim(value) and value.dtype != aval.dtype:
            raise Unsupported("dtype of a constant")
        return self._constant(value, aval)

    def _operand(self, value: _Value, shape: Any) -> str:
        """Text for the argument of a ufunc: beside an array numpy takes a 0-dim array faster than a Python number."""
        if not shape or value.const is None or np.ndim(value.const):
            return value.text
        const = np.array(value.const)
        name = f"z{const.dtype.name}{const.tobytes().hex()}"
        self.names[name] = const
        return name

    def _array(self, value: _Value) -> str:
        """Text of an array or numpy scalar: constants are written as Python numbers elsewhere."""
        if value.const is not None:
            name = f"k{len(self.names)}"
            self.names[name] = value.const
            return name
        return value.text

    def _whole(self, value: _Value) -> _Value:
        """The value with all the elements its shape says."""
        if value.shape == tuple(value.aval.shape):
            return value
        if value.const is not None:
            whole = np.broadcast_to(value.const, value.aval.shape)
            return self._constant(np.ascontiguousarray(whole), value.aval)
        self.names[dtype := f"d{value.aval.dtype.name}"] = value.aval.dtype
        text = f"_full({value.text}, {tuple(value.aval.shape)}, {dtype})"
        return self._emit(text, value.aval, value.aval.shape, [value], 1.2)

    def _dtype(self, dtype: Any) -> str:
        name = f"d{dtype.name}"
        self.names[name] = dtype
        return name


# ------------------------------------------------------------------- helpers


def _full(x: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    out = np.empty(shape, dtype)
    out[...] = x
    return out


def _masked(mask: Any, x: Any) -> np.ndarray:
    """``x`` where ``mask``, zero elsewhere; both of one shape. `numpy.where` takes longer."""
    out = np.zeros(x.shape, x.dtype)
    np.putmask(out, mask, x)
    return out


def _put_in(mask: Any, x: Any, value: Any) -> np.ndarray:
    """``value``, a number, where ``mask``, and ``x`` elsewhere."""
    out = x.copy()
    np.putmask(out, mask, value)
    return out


def _take_along(x: Any, axis: int, others: tuple[Any, ...], at: Any) -> Any:
    at = at.clip(0, x.shape[axis] - 1)
    return x[(*others[:axis], at, *others[axis:])]


def _add_along(x: Any, axis: int, others: tuple[Any, ...], at: Any, update: Any) -> Any:
    at = np.minimum(np.maximum(at, 0), x.shape[axis] - 1)
    out = x.copy()
    np.add.at(out, (*others[:axis], at, *others[axis:]), update)
    return out


def _start(at: Any, size: int, extent: int) -> int:
    return min(max(int(at), 0), extent - size)


def _put(x: Any, block: Any, *starts: Any) -> Any:
    begin = [_start(s, n, e) for s, n, e in zip(starts, block.shape, x.shape)]
    out = x.copy()
    out[tuple([slice(b, b + n) for b, n in zip(begin, block.shape)])] = block
    return out


def _pad(x: Any, value: Any, config: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    shape, place, source = [], [], []
    for n, (low, high, inner) in zip(x.shape, config):
        spread = n + max(n - 1, 0) * inner
        total = low + spread + high
        first = max(0, -(low // (inner + 1))) if low < 0 else 0
        last = min(n, -(-(total - low) // (inner + 1)))
        shape.append(total)
        source.append(slice(first, max(last, first)))
        begin = low + first * (inner + 1)
        place.append(slice(begin, begin + max(last - first, 0) * (inner + 1), inner + 1))
    out = np.empty(tuple(shape), x.dtype)
    out.fill(value)
    out[tuple(place)] = x[tuple(source)]
    return out


def _erf(x: Any) -> Any:
    from scipy.special import erf

    return erf(x)


_HELPERS = {
    "np": np, "_full": _full, "_masked": _masked, "_put_in": _put_in,
    "_take_along": _take_along, "_add_along": _add_along, "_start": _start, "_put": _put, "_pad": _pad, "_erf": _erf,
}  # fmt: skip

# -------------------------------------------------------------------- tables

#: primitives that are a jaxpr of their own, and the parameter that holds it
_CALLS = {
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "remat2": "jaxpr",
    "checkpoint": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr",
}  # fmt: skip

_TWO = {"max": "maximum", "min": "minimum", "pow": "power", "atan2": "arctan2", "rem": "fmod"}
_ONE = {
    "abs": "absolute", "sign": "sign", "exp": "exp", "exp2": "exp2", "log": "log", "log1p": "log1p",
    "expm1": "expm1", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "sqrt": "sqrt", "cbrt": "cbrt", "square": "square", "floor": "floor", "ceil": "ceil", "is_finite": "isfinite",
    "not": "logical_not",
}  # fmt: skip
#: written as operators: the same ufuncs for arrays, and much faster for numpy's scalars
_OPERATORS = {
    "add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/", "divide": "/", "and": "&", "or": "|",
    "xor": "^", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_UFUNCS = {
    **{name: f"{{}} {own} {{}}" for name, own in _OPERATORS.items()},
    **{name: f"np.{own}({{}}, {{}})" for name, own in _TWO.items()},
    **{name: f"np.{own}({{}})" for name, own in _ONE.items()},
    "neg": "-{}",
    "rsqrt": "1.0 / np.sqrt({})",
    "logistic": "1.0 / (1.0 + np.exp(-{}))",
    "erf": "_erf({})",
    "clamp": "np.minimum(np.maximum({1}, {0}), {2})",
}
#: kinds of dtype for which numpy and XLA mean the same; all real ones if not listed
_FLOATS = (
    "div divide rem pow atan2 sign abs floor ceil is_finite exp exp2 log log1p expm1 sin cos tan asin acos atan "
    "sinh cosh tanh asinh acosh atanh sqrt cbrt rsqrt logistic erf"
)
_KINDS = dict.fromkeys(_FLOATS.split(), "f") | {
    "neg": "if", "add": "iuf", "add_any": "iuf", "sub": "iuf", "mul": "iuf", "abs": "if", "sign": "if", "not": "b",
}  # fmt: skip


def _convert(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    (x,), aval = ins, eqn.outvars[0].aval
    old, new = x.aval.dtype, aval.dtype
    if (
        old.kind == "f" and new.kind in "iu" and x.const is None
    ):  # numpy leaves NaN and what is out of range open
        raise Unsupported("float to integer")
    if old == new and (not x.aval.weak_type or x.line is not None):
        return _Value(x.text, aval, x.shape, x.const, x.line)
    text = f"{w._dtype(new)}.type({w._array(x)})" if not x.shape else f"{w._array(x)}.astype({w._dtype(new)})"
    return w._emit(text, aval, x.shape, [x], 0.4)


def _broadcast(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    x, aval = ins[0], eqn.outvars[0].aval
    shape = [1] * len(aval.shape)
    padded = (1,) * (x.aval.ndim - len(x.shape)) + x.shape
    for dim, n in zip(eqn.params["broadcast_dimensions"], padded, strict=True):
        shape[dim] = n
    while shape and shape[0] == 1 and len(shape) > len(x.shape):
        shape.pop(0)
    return _in_shape(w, x, aval, tuple(shape))


def _in_shape(w: _Writer, x: _Value, aval: Any, shape: tuple[int, ...]) -> _Value:
    """The elements of an array in another shape."""
    x = x.of or x
    if shape == x.shape:
        return _Value(x.text, aval, x.shape, x.const, x.line)
    new = w._emit(f"{w._array(x)}.reshape({shape})", aval, shape, [x], 0.3)
    if new.const is None:
        new.of = x
    return new


def _reshape(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    x, aval = ins[0], eqn.outvars[0].aval
    if eqn.primitive.name == "reshape" and eqn.params["dimensions"] is not None:
        raise Unsupported("reshape in another order")
    if not x.shape and x.aval.shape:
        return _Value(x.text, aval, x.shape, x.const, x.line)
    return _in_shape(w, w._whole(x), aval, tuple(aval.shape))


def _indexed(w: _Writer, aval: Any, x: _Value, slices: Sequence[str]) -> _Value:
    x = w._whole(x)
    return w._emit(f"{w._array(x)}[{', '.join(slices)}]", aval, aval.shape, [x], 0.3)


def _slice(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    p, aval = eqn.params, eqn.outvars[0].aval
    steps = p["strides"] or (1,) * len(p["start_indices"])
    parts = [f"{a}:{b}:{s}" for a, b, s in zip(p["start_indices"], p["limit_indices"], steps, strict=True)]
    return _indexed(w, aval, ins[0], parts) if parts else ins[0]


def _split(w: _Writer, eqn: Any, ins: list[_Value]) -> list[_Value]:
    outs, at, axis = [], 0, eqn.params["axis"]
    for var, size in zip(eqn.outvars, eqn.params["sizes"], strict=True):
        outs.append(_indexed(w, var.aval, ins[0], [":"] * axis + [f"{at}:{at + size}"]))
        at += size
    return outs


def _reverse(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    aval = eqn.outvars[0].aval
    return _indexed(
        w, aval, ins[0], ["::-1" if d in eqn.params["dimensions"] else ":" for d in range(aval.ndim)]
    )


def _transpose(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    x, aval = w._whole(ins[0]), eqn.outvars[0].aval
    return w._emit(f"{w._array(x)}.transpose({tuple(eqn.params['permutation'])})", aval, aval.shape, [x], 0.3)


def _reducing(ufunc: str, kinds: str, typed: bool = False) -> Callable[..., _Value]:
    def rule(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
        x, aval = w._whole(ins[0]), eqn.outvars[0].aval
        axes = tuple(eqn.params["axes"])
        if x.aval.dtype.kind not in kinds:
            raise Unsupported(ufunc)
        if not axes:
            return _Value(x.text, aval, x.shape, x.const, x.line)
        if math.prod(x.aval.shape) == 0 and not typed:
            raise Unsupported("nothing to choose from")
        if all(x.aval.shape[d] == 1 for d in axes):
            return _in_shape(w, x, aval, tuple(aval.shape))
        if ufunc == "add" and aval.dtype.kind == "f":
            found = _sum(w, x, aval, axes)
            if found is not None:
                return found
        axis = "None" if len(axes) == x.aval.ndim else str(axes[0] if len(axes) == 1 else axes)
        kind = f", {w._dtype(aval.dtype)}" if typed else ""
        text = f"np.{ufunc}.reduce({w._array(x)}, {axis}{kind})"
        return w._emit(text, aval, aval.shape, [x], 2.2 + math.prod(x.aval.shape) * 1e-3)

    return rule


@functools.cache
def _ones(dtype: np.dtype, bits: int) -> np.ndarray:
    return np.ones(1 << bits, dtype)


def _sum(w: _Writer, x: _Value, aval: Any, axes: tuple[int, ...]) -> _Value | None:
    """A sum over the first or the last dimensions, as a product with ones: a third of `numpy.add.reduce`'s time."""
    shape, rank, out = tuple(x.aval.shape), x.aval.ndim, tuple(aval.shape)
    count, rest = math.prod(shape[d] for d in axes), math.prod(out)
    first, last = axes == tuple(range(len(axes))), axes == tuple(range(rank - len(axes), rank))
    if x.aval.dtype != aval.dtype or not (first or last):
        return None
    w.names[ones := f"ones{aval.dtype.name}{count}"] = _ones(aval.dtype, count.bit_length())[:count]
    flat = (count,) if first and last else (rest, count) if last else (count, rest)
    text = w._array(x) if flat == shape else f"{w._array(x)}.reshape({flat})"
    text = f"{text}.dot({ones})" if last else f"{ones}.dot({text})"
    if len(out) > 1:
        text += f".reshape({out})"
    return w._emit(text, aval, out, [x], 0.9 + count * rest * 0.2e-3)


def _arg(name: str) -> Callable[..., _Value]:
    def rule(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
        x, aval = w._whole(ins[0]), eqn.outvars[0].aval
        (axis,) = eqn.params["axes"]
        text = f"np.{name}({w._array(x)}, {axis}).astype({w._dtype(aval.dtype)})"
        return w._emit(text, aval, aval.shape, [x], 2.5)

    return rule


def _cumulative(ufunc: str) -> Callable[..., _Value]:
    def rule(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
        x, aval, axis = w._whole(ins[0]), eqn.outvars[0].aval, eqn.params["axis"]
        turn = f"[{', '.join([':'] * axis + ['::-1'])}]" if eqn.params["reverse"] else ""
        text = f"np.{ufunc}.accumulate({w._array(x)}{turn}, {axis}, {w._dtype(aval.dtype)}){turn}"
        return w._emit(text, aval, aval.shape, [x], 3.0)

    return rule


def _is_made(w: _Writer, value: _Value, *names: str) -> list[_Value] | None:
    """The arguments of the primitive that a value comes from, if it is one of these."""
    name, ins, _ = w.made.get(value.text, ("", [], None))
    return ins if name in names else None


def _is_nan_of(w: _Writer, value: _Value) -> str | None:
    """The text of the array of which this tells where it is NaN."""
    ins = _is_made(w, value, "ne")
    return ins[0].text if ins and ins[0].text == ins[1].text else None


def _extreme(w: _Writer, which: _Value, no: _Value, yes: _Value) -> str | None:
    """A choice that is a maximum or a minimum, both with NaN where there is one, as numpy says it."""
    if yes.const is not None and yes.const.ndim == 0:
        over = _is_made(w, which, "reduce_or")
        of = _is_made(w, no, "reduce_max", "reduce_min")
        if np.isnan(yes.const) and over and of and _is_nan_of(w, over[0]) == of[0].text:
            same = w.made[which.text][2]["axes"] == w.made[no.text][2]["axes"]
            return no.text if same else None
        compared = _is_made(w, which, "le")
        if yes.const == 0 and compared and compared[0].text == no.text and compared[1].const is not None:
            if compared[1].const.ndim == 0 and compared[1].const == 0:
                return f"np.maximum({no.text}, {w._operand(yes, no.shape)})"
        return None
    either = _is_made(w, which, "or")
    if either and _is_nan_of(w, either[1]) == yes.text:
        for name, ufunc in (("gt", "maximum"), ("lt", "minimum")):
            compared = _is_made(w, either[0], name)
            if compared and [v.text for v in compared] == [yes.text, no.text]:
                return f"np.{ufunc}({no.text}, {yes.text})"
    return None


def _select(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    which, *cases = ins
    aval = eqn.outvars[0].aval
    if which.aval.dtype != np.bool_ or len(cases) != 2:
        raise Unsupported("a choice of many")
    no, yes = cases
    shape = np.broadcast_shapes(which.shape, no.shape, yes.shape)
    extreme = _extreme(w, which, no, yes) if aval.dtype.kind == "f" and shape == no.shape else None
    if extreme is not None:
        return w._emit(extreme, aval, shape, [no, yes], 0.9)
    if yes.shape == which.shape == shape and shape and no.const is not None and no.const.ndim == 0:
        if no.const == 0 and not np.signbit(no.const) and yes.const is None:
            return w._emit(f"_masked({which.text}, {yes.text})", aval, shape, ins, 2.5)
    text = f"np.where({w._array(which)}, {w._array(yes)}, {w._array(no)})"
    if not shape:
        text = f"{w._array(yes)} if {which.text} else {w._array(no)}"
    elif no.shape == which.shape == shape and yes.const is not None and yes.const.ndim == 0:
        return w._emit(f"_put_in({which.text}, {no.text}, {w._array(yes)})", aval, shape, ins, 2.5)
    return w._emit(text, aval, shape, ins, 3.5)


def _iota(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    aval, dim = eqn.outvars[0].aval, eqn.params["dimension"]
    column = np.arange(aval.shape[dim], dtype=aval.dtype).reshape(
        [-1 if d == dim else 1 for d in range(aval.ndim)]
    )
    return w._constant(np.broadcast_to(column, aval.shape), aval)


def _concatenate(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    parts, aval = [w._whole(v) for v in ins], eqn.outvars[0].aval
    text = f"np.concatenate(({', '.join(w._array(v) for v in parts)},), {eqn.params['dimension']})"
    return w._emit(text, aval, aval.shape, parts, 1.2)


def _product(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    (contract, batch), aval = eqn.params["dimension_numbers"], eqn.outvars[0].aval
    wanted = eqn.params["preferred_element_type"]
    if any(v.aval.dtype != aval.dtype for v in ins) or (
        wanted is not None and np.dtype(wanted) != aval.dtype
    ):
        raise Unsupported("a product of mixed types")
    if aval.dtype.kind != "f":
        raise Unsupported("a product of integers")
    a, b = (w._whole(v) for v in ins)
    inner = math.prod(a.aval.shape[d] for d in contract[0])
    if math.prod(aval.shape) * inner > tuning.numpy_products:
        raise Unsupported("a large product")
    free = [
        [d for d in range(v.aval.ndim) if d not in c and d not in t]
        for v, c, t in zip((a, b), contract, batch, strict=True)
    ]
    outer = [a.aval.shape[d] for d in batch[0]]
    rows, columns = (math.prod(v.aval.shape[d] for d in f) for v, f in zip((a, b), free, strict=True))
    left = _ordered(w, a, (*batch[0], *free[0], *contract[0]), (*outer, rows, inner))
    right = _ordered(w, b, (*batch[1], *contract[1], *free[1]), (*outer, inner, columns))
    flat = (*outer, rows, columns)
    text = f"np.matmul({left}, {right})" if outer else f"{left}.dot({right})"
    if flat != tuple(aval.shape):
        text += f".reshape({tuple(aval.shape)})"
    if not aval.shape:
        text += "[()]"
    return w._emit(text, aval, aval.shape, [a, b], 2.5 + math.prod(flat) * inner * 3e-5)


def _ordered(w: _Writer, x: _Value, order: tuple[int, ...], shape: tuple[int, ...]) -> str:
    text = w._array(x)
    if order != tuple(range(len(order))):
        text += f".transpose({order})"
    if shape != tuple(x.aval.shape[d] for d in order):
        text += f".reshape({shape})"
    return text


def _power(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    (x,), y, aval = ins, eqn.params["y"], eqn.outvars[0].aval
    if y == 2:
        text = f"np.square({x.text})"
    elif y == 3:
        text = f"np.multiply(np.square({x.text}), {x.text})"
    elif y == -1 and aval.dtype.kind == "f":
        text = f"np.divide(1.0, {x.text})"
    elif y == -2 and aval.dtype.kind == "f":
        text = f"np.divide(1.0, np.square({x.text}))"
    else:
        raise Unsupported("integer_pow")
    return w._emit(text, aval, x.shape, [x], 1.8)


def _round(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    if int(eqn.params["rounding_method"]) != 1:
        raise Unsupported("round")
    return w._emit(f"np.rint({ins[0].text})", eqn.outvars[0].aval, ins[0].shape, ins, 0.9)


def _padding(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    if not any(n for c in eqn.params["padding_config"] for n in c):
        return ins[0]
    x, value, aval = w._whole(ins[0]), ins[1], eqn.outvars[0].aval
    config = tuple(tuple(int(n) for n in c) for c in eqn.params["padding_config"])
    return w._emit(f"_pad({w._array(x)}, {value.text}, {config})", aval, aval.shape, [x, value], 4.0)


def _dynamic_slice(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    x, aval = w._whole(ins[0]), eqn.outvars[0].aval
    slices, needs = [], [x]
    for start, size, extent in zip(ins[1:], eqn.params["slice_sizes"], x.aval.shape, strict=True):
        if size == extent:
            slices.append(":")
            continue
        given = (_is_made(w, start, "convert_element_type") or [start])[0]  # whatever its type
        begin = w._emit(f"_start({given.text}, {size}, {extent})", start.aval, (), [given], 0.3)
        slices.append(f"{begin.text}:{begin.text} + {size}")
        needs.append(begin)
    return w._emit(f"{w._array(x)}[{', '.join(slices)}]", aval, aval.shape, needs, 0.3) if slices else x


def _dynamic_update_slice(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    x, block, aval = w._whole(ins[0]), w._whole(ins[1]), eqn.outvars[0].aval
    text = f"_put({', '.join([w._array(x), w._array(block), *(v.text for v in ins[2:])])})"
    return w._emit(text, aval, aval.shape, [x, block, *ins[2:]], 2.5)


def _along(w: _Writer, eqn: Any, x: _Value, at: _Value) -> tuple[int, str, _Value]:
    """The dimension in which a gather or scatter looks up single elements or whole slices, as an index of numpy's."""
    d = eqn.params["dimension_numbers"]
    scatter = hasattr(d, "update_window_dims")
    batch = tuple(d.operand_batching_dims)
    where = tuple(d.scatter_dims_to_operand_dims if scatter else d.start_index_map)
    gone = tuple(d.inserted_window_dims if scatter else d.collapsed_slice_dims)
    offset = tuple(d.update_window_dims if scatter else d.offset_dims)
    rows = tuple(d.scatter_indices_batching_dims if scatter else d.start_indices_batching_dims)
    mode = str(eqn.params["mode"])
    if len(where) != 1 or gone != where or not ("CLIP" in mode or "PROMISE" in mode):
        raise Unsupported("gather")
    (axis,), rank, count = where, x.aval.ndim, at.aval.ndim - 1
    if at.aval.shape[-1] != 1 or x.aval.shape[axis] == 0:
        raise Unsupported("gather")
    at = w._whole(at)
    index = _in_shape(w, at, at.aval, tuple(at.aval.shape[:-1]))
    rest = [dim for dim in range(rank) if dim != axis]
    if not batch:
        if not scatter and any(eqn.params["slice_sizes"][dim] != x.aval.shape[dim] for dim in rest):
            raise Unsupported("gather")
        if offset != (*range(axis), *range(axis + count, rank - 1 + count)):
            raise Unsupported("gather")
        others = "(" + "slice(None), " * axis + ")"
    else:
        if offset or count != rank or list(batch) != rest or list(rows) != rest:
            raise Unsupported("gather")
        grids = [
            np.arange(x.aval.shape[dim]).reshape([-1 if k == dim else 1 for k in range(rank)]) for dim in rest
        ]
        w.names[name := f"g{len(w.names)}"] = tuple(grids)
        others = name
    return axis, others, index


def _gather(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    x, aval = w._whole(ins[0]), eqn.outvars[0].aval
    axis, others, at = _along(w, eqn, x, ins[1])
    if eqn.params["dimension_numbers"].operand_batching_dims:
        return w._emit(
            f"_take_along({w._array(x)}, {axis}, {others}, {w._array(at)})", aval, aval.shape, [x, at], 5.0
        )
    return w._emit(f"{w._array(x)}.take({w._array(at)}, {axis}, mode='clip')", aval, aval.shape, [x, at], 1.0)


def _scatter_add(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    x, update, aval = w._whole(ins[0]), w._whole(ins[2]), eqn.outvars[0].aval
    axis, others, at = _along(w, eqn, x, ins[1])
    text = f"_add_along({w._array(x)}, {axis}, {others}, {w._array(at)}, {w._array(update)})"
    return w._emit(text, aval, aval.shape, [x, at, update], 8.0 + math.prod(update.aval.shape) * 0.01)


def _stack(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    parts, aval = [w._whole(v) for v in ins], eqn.outvars[0].aval
    axis = eqn.params["axis"]
    index = ", ".join([":"] * axis + ["None"])
    text = f"np.concatenate(({', '.join(f'{w._array(v)}[{index}]' for v in parts)},), {axis})"
    return w._emit(text, aval, aval.shape, parts, 1.5)


def _unstack(w: _Writer, eqn: Any, ins: list[_Value]) -> list[_Value]:
    axis = eqn.params["axis"]
    return [_indexed(w, var.aval, ins[0], [":"] * axis + [str(i)]) for i, var in enumerate(eqn.outvars)]


def _sort(w: _Writer, eqn: Any, ins: list[_Value]) -> list[_Value]:
    if len(ins) != 1:
        raise Unsupported("sorting by keys")
    x, aval = w._whole(ins[0]), eqn.outvars[0].aval
    text = f"np.sort({w._array(x)}, {eqn.params['dimension']})"
    return [w._emit(text, aval, aval.shape, [x], 4.0 + math.prod(aval.shape) * 0.01)]


def _platform(w: _Writer, eqn: Any, ins: list[_Value]) -> _Value:
    for index, names in enumerate(eqn.params["platforms"]):
        if names is None or "cpu" in names:
            return w._constant(index, eqn.outvars[0].aval)
    raise Unsupported("platform_index")


def _same(w: _Writer, eqn: Any, ins: list[_Value]) -> list[_Value]:
    return ins


_RULES: dict[str, Callable[..., Any]] = {
    "argmax": _arg("argmax"),
    "argmin": _arg("argmin"),
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "convert_element_type": _convert,
    "copy": _same,
    "copy_p": _same,
    "cummax": _cumulative("maximum"),
    "cummin": _cumulative("minimum"),
    "cumprod": _cumulative("multiply"),
    "cumsum": _cumulative("add"),
    "dot_general": _product,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "expand_dims": _reshape,
    "gather": _gather,
    "integer_pow": _power,
    "iota": _iota,
    "optimization_barrier": _same,
    "pad": _padding,
    "platform_index": _platform,
    "reduce_and": _reducing("logical_and", "b"),
    "reduce_max": _reducing("maximum", "biuf"),
    "reduce_min": _reducing("minimum", "biuf"),
    "reduce_or": _reducing("logical_or", "b"),
    "reduce_prod": _reducing("multiply", "iuf", typed=True),
    "reduce_sum": _reducing("add", "iuf", typed=True),
    "reshape": _reshape,
    "rev": _reverse,
    "round": _round,
    "scatter-add": _scatter_add,
    "select_n": _select,
    "slice": _slice,
    "sort": _sort,
    "split": _split,
    "squeeze": _reshape,
    "stack": _stack,
    "stop_gradient": _same,
    "transpose": _transpose,
    "unstack": _unstack,
}
