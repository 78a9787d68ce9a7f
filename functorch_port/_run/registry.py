"""The registry: an operation is a pure function of arrays, written once, with the decorator `@op`.

`@op` returns the function unchanged, and notes in `ops` how users may call it. From that table `bind` makes the public
function, the method of `Tensor`, its operators, and the in-place form; `call` runs them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from .._base.layout import joint_order
from .return_types import return_type_of

if TYPE_CHECKING:
    from .._array.fits import How

__all__ = [
    "ARRAY", "ARRAYS", "SCALAR", "STATIC", "Array", "Arrays", "OpSpec", "Scalar", "TensorOnly", "TensorsOnly",
    "composite", "composites", "op", "ops", "pointwise_op",
]  # fmt: skip

# The annotations of a pure function say what a caller may give. A parameter with another one is static: the value is
# part of the program.

#: a Tensor or a number; the function gets a `jax.Array` or a number
Array: TypeAlias = Any
#: a sequence of Tensors; a tuple of arrays
Arrays: TypeAlias = Sequence[Any]
#: a number or a 0-dim Tensor, which may change from call to call without a new compilation
Scalar: TypeAlias = Any
#: as `Array` and `Arrays`, but a number is refused
TensorOnly: TypeAlias = Any
TensorsOnly: TypeAlias = Sequence[Any]

ARRAY, ARRAYS, SCALAR, STATIC = "array", "arrays", "scalar", "static"
_KINDS = {"Array": ARRAY, "TensorOnly": ARRAY, "Arrays": ARRAYS, "TensorsOnly": ARRAYS, "Scalar": SCALAR}


@cache
def _kind(annotation: str) -> str:
    return _KINDS.get(annotation.split("|")[0].strip(), STATIC)


@dataclass(eq=False, slots=True)
class OpSpec:
    """What was registered about one operation.

    Attributes:
        fn: the pure function.
        names: public names, the first one is the operation's own.
        where: where the names appear, some of ``torch method F linalg special fft``.
        inplace: also derive ``name_``.
        dunder, rdunder: operators of Tensor that call it (``rdunder`` with swapped operands).
        view: the result is a view of the first argument.
        differentiable: False if it is never recorded.
        returns: field names; the tuple output becomes ``torch.return_types.<name>``.
        return_type: that type's name, where it is not the operation's.
        varargs: the tuple parameter that collects trailing positional arguments, as in ``x.permute(0, 1)``.
        node: the autograd node's name (default ``CamelCaseBackward0``), or a function of the static arguments.
        check: called with the pure function's arguments before an eager run, to raise on bad values.
        fits: the parameters whose numbers must fit a dtype, and how they are converted (see `_array.fits`).
        eager: what to use in ``compile``, where this is an error: the shape depends on values, so it is not jitted.
        edges: order of the node's ``next_functions`` by parameter name; ``t(weight)`` puts a ``TBackward0`` between.
        legacy: the keyword that a number in second place, one argument too many, is meant for: ``x.add_(2, y)``.
        parts: the same as a function of Tensors in several operations, those which PyTorch records. They are recorded
            in this one's place as soon as somebody looks at its node.
        numbers: numbers alone will do, as in ``torch.add(1, 2)``.
        keeps: of its arguments, whether a recorded eager call keeps more than these for the backward pass.
        after: of the result and the arguments of a call with keywords or of a view, what becomes of the result.
        lays: whether the result lies on a mesh that is among the arguments: it is never lazy.
        order: of the result's shape and the Tensors among the arguments, in which order of the dimensions the result
            lies in memory (see `_base.layout`). Without it, in their own.
        params, kinds: the parameters of the pure function, and for each what it takes: `ARRAY` and so on.
        positional: the number of parameters that may be given by position.
    """

    fn: Callable[..., Any]
    names: tuple[str, ...]
    where: tuple[str, ...]
    inplace: bool = False
    dunder: tuple[str, ...] = ()
    rdunder: tuple[str, ...] = ()
    view: bool = False
    differentiable: bool = True
    returns: tuple[str, ...] | None = None
    return_type: str | None = None
    varargs: str | None = None
    node: str | Callable[..., str] = ""
    check: Callable[..., None] | None = None
    fits: Mapping[str, How] = field(default_factory=dict)
    eager: str = ""
    edges: tuple[str, ...] | None = None
    legacy: str | None = None
    parts: Callable[..., Any] | None = None
    numbers: bool = False
    keeps: Callable[..., bool] | None = None
    after: Callable[..., Any] | None = None
    lays: bool = False
    order: Callable[[Sequence[int], Sequence[Any]], Sequence[int] | None] | None = None
    name: str = field(init=False)
    params: tuple[str, ...] = field(init=False)
    kinds: tuple[str, ...] = field(init=False)
    positional: int = field(init=False)

    def __post_init__(self) -> None:
        # `inspect.signature` tells the same, but takes long for 560 operations
        pure: Any = inspect.unwrap(self.fn)
        code, annotations = pure.__code__, pure.__annotations__
        self.params = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.kinds = tuple([_kind(annotations.get(name, "")) for name in self.params])
        self.positional = code.co_argcount
        self.name = self.names[0]
        parts = self.name.split("_")
        self.node = self.node or "".join([part[:1].upper() + part[1:] for part in parts]) + "Backward0"

    @property
    def defaults(self) -> dict[str, Any]:
        fn = inspect.unwrap(self.fn)
        last = fn.__defaults__ or ()
        names = self.params[self.positional - len(last) : self.positional]
        return {**dict(zip(names, last, strict=True)), **(fn.__kwdefaults__ or {})}

    @property
    def tuple_type(self) -> Any:
        """The type of its results, if they have names."""
        return return_type_of(self.return_type or self.name, self.returns) if self.returns else None


#: by name, with that of the module where two have the same
ops: dict[str, OpSpec] = {}


def op(
    *names: str, where: str = "torch method", **more: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a pure function of arrays as an operation.

    Args:
        names: public names. Default: the function's name without a trailing underscore.
        where, more: the attributes of `OpSpec`.
    """

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        spec = OpSpec(fn, names or (fn.__name__.removesuffix("_"),), tuple(where.split()), **more)
        key = spec.name if spec.name not in ops else f"{fn.__module__.rsplit('.', 1)[-1]}.{spec.name}"
        if key in ops and ops[key].fn.__module__ != fn.__module__:
            raise ValueError(f"op {key!r} is registered twice")
        ops[key] = spec
        return fn

    return register


#: `op` for what is computed element by element
pointwise_op = partial(op, order=joint_order)

#: (public name, where tokens, Python function of Tensors, dunders)
composites: list[tuple[str, tuple[str, ...], Callable[..., Any], tuple[str, ...]]] = []


def composite(
    *names: str, where: str = "torch method", dunder: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Publish a plain Python function of Tensors under ``names`` and as dunders of Tensor: it is made of other
    operations and needs no node of its own.
    """

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        for name in names or (fn.__name__.removesuffix("_"),):
            composites.append((name, tuple(where.split()), fn, dunder))
        return fn

    return register
