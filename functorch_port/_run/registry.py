"""Ops are written once, as pure functions of arrays; this file keeps them and derives their public forms.

`@op` returns the pure function unchanged. What it derives (the function, the `Tensor` method, dunders, the in-place
twin, `out=`) is installed by `_tensor.tensor` and the package's namespaces from the tables here.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from .._base.dtypes import dtype
from .._base.layout import joint_order

__all__ = [
    "ARRAY",
    "ARRAYS",
    "SCALAR",
    "STATIC",
    "Array",
    "Arrays",
    "Scalar",
    "TensorOnly",
    "TensorsOnly",
    "composite",
    "composites",
    "op",
    "ops",
    "pointwise_op",
]


if TYPE_CHECKING:  # a type checker sees what the pure functions get
    from .._array.fits import How

    Array: TypeAlias = Any
    Arrays: TypeAlias = Sequence[Any]
    Scalar: TypeAlias = Any
    TensorOnly: TypeAlias = Any
    TensorsOnly: TypeAlias = Sequence[Any]
else:

    class Array:
        """Annotation: a Tensor (or Python number) at the face, a `jax.Array` in the pure function."""

    class Arrays:
        """Annotation: a sequence of Tensors at the face, a tuple of arrays in the pure function."""

    class Scalar:
        """Annotation: a number or 0-dim Tensor that may change from call to call without a new compilation."""

    class TensorOnly:
        """Annotation: as `Array`, but a number is refused."""

    class TensorsOnly:
        """Annotation: as `Arrays`, but anything else than a list or tuple of Tensors is refused."""


ARRAY, ARRAYS, SCALAR, STATIC = "array", "arrays", "scalar", "static"


@dataclass(eq=False)
class OpSpec:
    """Everything `@op` was told about one operation.

    What follows from it is found when it is first asked for: an import registers 560 operations, and few are called.
    """

    fn: Callable[..., Any]
    name: str
    names: tuple[str, ...]
    where: tuple[str, ...]
    params: tuple[str, ...]
    kinds: tuple[str, ...]
    kind_of: dict[str, str]
    #: the number of parameters that may be given by position
    positional: int
    inplace: bool = False
    dunder: tuple[str, ...] = ()
    rdunder: tuple[str, ...] = ()
    view: bool = False
    differentiable: bool = True
    fields: tuple[str, ...] | None = None
    return_type: str | None = None
    varargs: str | None = None
    own_node: str | Callable[..., str] | None = None
    check: Callable[..., None] | None = None
    fits: Mapping[str, How] = field(default_factory=dict)
    eager: str = ""
    edges: tuple[str, ...] | None = None
    legacy: str | None = None
    parts: Callable[..., Any] | None = None
    numbers: bool = False
    keeps: Callable[..., bool] | None = None
    after: Callable[..., Any] | None = None
    order: Callable[[Sequence[int], Sequence[Any]], Sequence[int] | None] | None = None

    @cached_property
    def defaults(self) -> dict[str, Any]:
        fn = inspect.unwrap(self.fn)
        last = fn.__defaults__ or ()
        names = self.params[self.positional - len(last) : self.positional]
        return {**dict(zip(names, last, strict=True)), **(fn.__kwdefaults__ or {})}

    @cached_property
    def returns(self) -> Any:
        """The type of its results, if they have names."""
        return return_type_of(self.return_type or self.name, self.fields) if self.fields else None

    @cached_property
    def node(self) -> str | Callable[..., str]:
        """The autograd node's name, or a function of the static arguments."""
        parts = self.name.split("_")
        return self.own_node or "".join(part[:1].upper() + part[1:] for part in parts) + "Backward0"

    @cached_property
    def _words(self) -> dict[str, list[str]]:
        """The alternatives of each parameter's annotation: "int | None" is int or None."""
        annotations = inspect.unwrap(self.fn).__annotations__
        return {n: _text(annotations.get(n, "")).split(" | ") for n in self.params}

    @cached_property
    def strict(self) -> frozenset[str]:
        """The parameters that refuse numbers: those marked so, and what a function of one tensor works on."""
        words = {n: alternatives[0] for n, alternatives in self._words.items()}
        found = {n for n, word in words.items() if word in ("TensorOnly", "TensorsOnly")}
        if self.where and self.params and not self.numbers:
            first = self.params[0]
            alone = list(words.values()).count("Array") == 1 or "F" in self.where
            if words[first] == "Array" and alone and "None" not in self._words[first]:
                found.add(first)
        return frozenset(found)

    @cached_property
    def types(self) -> dict[str, tuple[tuple[type, ...], str]]:
        """What static parameters accept, for the ops that are PyTorch's own (its Python functions do not check).

        By name, the types and what the error calls them.
        """
        found: dict[str, tuple[tuple[type, ...], str]] = {}
        if self.where in ((), ("F",)):
            return found
        for name, words in self._words.items():
            accepted = _ACCEPTED.get(" | ".join(w for w in words if w != "None"))
            if accepted is not None:
                nothing = (type(None),) if "None" in words or "Dims" in words else ()
                found[name] = ((*accepted[0], *nothing), accepted[1])
        return found


#: op name -> OpSpec
ops: dict[str, OpSpec] = {}
#: (public name, where tokens, Python function of Tensors, dunders)
composites: list[tuple[str, tuple[str, ...], Callable[..., Any], tuple[str, ...]]] = []


_KINDS = {"Array": ARRAY, "TensorOnly": ARRAY, "Arrays": ARRAYS, "TensorsOnly": ARRAYS, "Scalar": SCALAR}


def _text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


@cache
def _kind(annotation: Any) -> str:
    return _KINDS.get(_text(annotation).split("|")[0].strip().split(".")[-1], STATIC)


_INTS = ((int, tuple), "tuple of ints")
_ACCEPTED: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "int"), "bool": ((bool,), "bool"), "float": ((int, float), "float"), "str": ((str,), "str"),
    "Dims": _INTS, "tuple[int, ...]": _INTS, "int | tuple[int, ...]": _INTS, "dtypes.dtype": ((dtype,), "torch.dtype"),
}  # fmt: skip


def op(
    *names: str,
    where: str = "torch method",
    inplace: bool = False,
    dunder: tuple[str, ...] = (),
    rdunder: tuple[str, ...] = (),
    view: bool = False,
    differentiable: bool = True,
    returns: tuple[str, ...] | None = None,
    return_type: str | None = None,
    varargs: str | None = None,
    node: str | Callable[..., str] | None = None,
    check: Callable[..., None] | None = None,
    fits: Mapping[str, How] | None = None,
    eager: str = "",
    edges: tuple[str, ...] | None = None,
    legacy: str | None = None,
    parts: Callable[..., Any] | None = None,
    numbers: bool = False,
    keeps: Callable[..., bool] | None = None,
    after: Callable[..., Any] | None = None,
    order: Callable[[Sequence[int], Sequence[Any]], Sequence[int] | None] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a pure function of arrays as an operation.

    Args:
        names: public names, the first one is the op's own. Default: the function's name without a trailing underscore.
        where: where the names appear, any of ``torch method F linalg special fft``.
        inplace: also derive ``name_``.
        dunder, rdunder: dunders of Tensor that call it (``rdunder`` with swapped operands).
        view: the result is a view of the first argument.
        differentiable: False if it is never recorded.
        returns: field names; the tuple output becomes ``torch.return_types.<name>``.
        return_type: that type's name, where it is not the op's.
        varargs: the tuple parameter that collects trailing positional arguments, as in ``x.permute(0, 1)``.
        node: the autograd node's name (default ``CamelCaseBackward0``), or a function of the static arguments.
        check: called with the pure function's arguments before an eager run, to raise on bad values.
        fits: the parameters whose numbers must fit a dtype, and how they are converted (see `_array.fits`).
        eager: the output's shape depends on values: not jitted, and an error inside ``compile`` that names
            this, what to use there.
        edges: order of the autograd node's ``next_functions`` by parameter name; ``t(weight)`` puts a
            ``TBackward0`` between.
        legacy: the keyword that a number in second place, one argument too many, is meant for: ``x.add_(2, y)``.
        parts: the same as a function of Tensors in several operations, those which PyTorch records. They are
            recorded in this one's place as soon as somebody looks at its node.
        numbers: numbers alone will do, as in ``torch.add(1, 2)``.
        keeps: of the pure function's arguments, whether a recorded eager call keeps what its backward pass would
            compute again. Without it only the inputs are kept.
        after: of the result and the arguments of a call with keywords or of a view, what becomes of the result.
        order: of the result's shape and the Tensors among the arguments, in which order of the dimensions the
            result lies in memory (see `_base.layout`). Without it, in their own.
    """

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        own = names or (fn.__name__.removesuffix("_"),)
        # `inspect.signature` tells the same, but takes long for 560 operations
        pure: Any = inspect.unwrap(fn)
        code, annotations = pure.__code__, pure.__annotations__
        params = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        kinds = tuple([_kind(annotations.get(name, "")) for name in params])
        key = own[0] if own[0] not in ops else f"{fn.__module__.rsplit('.', 1)[-1]}.{own[0]}"
        if key in ops and ops[key].fn.__module__ != fn.__module__:
            raise ValueError(f"op {key!r} is registered twice")
        ops[key] = OpSpec(
            fn=fn,
            name=own[0],
            names=own,
            where=tuple(where.split()),
            params=params,
            kinds=kinds,
            kind_of=dict(zip(params, kinds, strict=True)),
            positional=code.co_argcount,
            inplace=inplace,
            dunder=dunder,
            rdunder=rdunder,
            view=view,
            differentiable=differentiable,
            fields=returns,
            return_type=return_type,
            varargs=varargs,
            own_node=node,
            check=check,
            fits=fits or {},
            eager=eager,
            edges=edges,
            legacy=legacy,
            parts=parts,
            numbers=numbers,
            keeps=keeps,
            after=after,
            order=order,
        )
        return fn

    return register


#: `op` for what is computed element by element
pointwise_op = partial(op, order=joint_order)


#: torch.return_types
return_types: dict[str, type] = {}


def return_type_of(name: str, fields: tuple[str, ...]) -> type:
    base = namedtuple(name, fields)  # type: ignore[misc]

    def __repr__(self: Any) -> str:
        inner = ",\n".join(f"{f}={getattr(self, f)!r}" for f in fields)
        return f"torch.return_types.{name}(\n{inner})"

    made = type(name, (base,), {"__repr__": __repr__, "__module__": "torch.return_types", "__slots__": ()})
    return return_types.setdefault(name, made)


def composite(
    *names: str, where: str = "torch method", dunder: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Publish a plain Python function of Tensors under ``names`` and as dunders of Tensor: it is made of other
    ops and needs no node of its own.
    """

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        for name in names or (fn.__name__.removesuffix("_"),):
            composites.append((name, tuple(where.split()), fn, dunder))
        return fn

    return register
