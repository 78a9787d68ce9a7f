"""Tensors as text, in PyTorch's format.

`format_tensor` is the pure part: a numpy array and the facts that follow it (dtype, device, gradient) in,
text out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import jax
import numpy as np

from .._array.offloaded import is_on_hosts
from .._array.placed import sharding_of
from .._base import dtypes, meshes, watch
from .._base.dtypes import dtype

__all__ = [
    "contents_text",
    "format_tensor",
    "get_printoptions",
    "printoptions",
    "set_printoptions",
    "tensor_repr",
]

NDArray = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Options:
    """How tensors are printed; see `set_printoptions`."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
_options = Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed.

    Args:
        precision: digits after the point (4).
        threshold: the number of elements above which only the edges are shown (1000).
        edgeitems: elements shown at each edge (3).
        linewidth: characters per line (80).
        profile: ``"default"``, ``"short"`` or ``"full"``; the other arguments override it.
        sci_mode: True or False for scientific notation or not; None decides by the values.

    Example:
        >>> import functorch_port as torch
        >>> torch.set_printoptions(precision=2)
        >>> torch.tensor([1.12345])
        tensor([1.12])
        >>> torch.set_printoptions(profile="default")

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.set_printoptions.html
    """
    global _options
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes: dict[str, Any] = dict(_PROFILES.get(profile or "", {}))
    changes |= {name: value for name, value in given.items() if value is not None}
    _options = replace(_options, sci_mode=sci_mode, **changes)


def get_printoptions() -> dict[str, Any]:
    """The options in force, by name."""
    return asdict(_options)


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """`set_printoptions` for a block."""
    global _options
    saved = _options
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        _options = saved


# ---------------------------------------------------------------- elements


def _formatter(values: NDArray) -> tuple[int, Callable[[Any], str]]:
    """The width of an element and the function that prints one, for an array of reals, integers or bools."""
    if values.dtype.kind in "biu":
        return max((len(str(v)) for v in _extremes(values)), default=1), str
    p = _options.precision
    finite = values[np.isfinite(values) & (values != 0)]
    if not finite.size:
        return 1, _whole
    size = np.abs(finite).astype(np.float64)
    smallest, largest = size.min(), size.max()
    scientific = _options.sci_mode
    if scientific is None:
        with np.errstate(over="ignore"):
            scientific = bool(largest / smallest > 1000 or largest > 1e8 or smallest < 1e-4)
    whole = bool(np.all(finite == np.ceil(finite)))
    show = _scientific(p) if scientific else _whole if whole else _fixed(p)
    return max(len(show(v)) for v in finite.tolist()), show


def _extremes(values: NDArray) -> Sequence[Any]:
    """The elements whose text is longest."""
    if values.dtype == np.bool_ or not values.size:
        return np.unique(values).tolist()
    return [values.min().item(), values.max().item()]


def _scientific(precision: int) -> Callable[[float], str]:
    return lambda x: f"{x:.{precision}e}"


def _fixed(precision: int) -> Callable[[float], str]:
    return lambda x: f"{x:.{precision}f}"


def _whole(x: float) -> str:
    return f"{x:.0f}." if math.isfinite(x) else f"{x:.0f}"


def _element_formatter(values: NDArray) -> tuple[int, Callable[[Any], str]]:
    """`_formatter` for arrays that may be complex."""
    if values.dtype.kind != "c":
        width, show = _formatter(values)
        return width, lambda x: show(x).rjust(width)
    real_width, show_real = _formatter(values.real)
    imag_width, show_imag = _formatter(values.imag)

    def show_complex(x: complex) -> str:
        imag = show_imag(x.imag) + "j"
        return show_real(x.real).rjust(real_width) + ("" if imag[0] in "+-" else "+") + imag

    return real_width + imag_width + 1, show_complex


# ------------------------------------------------------------------- arrays


def _edges(values: NDArray) -> NDArray:
    """The elements that a summary shows."""
    edge = _options.edgeitems
    for axis, size in enumerate(values.shape):
        if size > 2 * edge:
            values = np.take(values, [*range(edge), *range(size - edge, size)], axis)
    return values


def _summarised(items: Any, show: Callable[[Any], str], dots: str, summarise: bool) -> list[str]:
    edge = _options.edgeitems
    if not summarise or len(items) <= 2 * edge:
        return [show(x) for x in items]
    return [*map(show, items[:edge]), dots, *map(show, items[len(items) - edge :])]


def _vector(values: NDArray, indent: int, summarise: bool, width: int, show: Callable[[Any], str]) -> str:
    per_line = max(1, (_options.linewidth - indent) // (width + 2))
    dots = " ..." if _options.edgeitems else "..."
    texts = _summarised(values.tolist(), show, dots, summarise)
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested(values: NDArray, indent: int, summarise: bool, width: int, show: Callable[[Any], str]) -> str:
    if values.ndim == 0:
        return show(values.item())
    if values.ndim == 1:
        return _vector(values, indent, summarise, width, show)
    texts = _summarised(values, lambda x: _nested(x, indent + 1, summarise, width, show), "...", summarise)
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(texts) + "]"


def contents_text(values: NDArray, indent: int) -> str:
    """The numbers of a tensor, without prefix and suffixes."""
    if not values.size:
        return "[]"
    if values.dtype.kind == "V" or values.dtype == np.float16:  # ml_dtypes' types are of kind "V"
        values = values.astype(np.float32)
    summarise = values.size > _options.threshold
    width, show = _element_formatter(_edges(values) if summarise else values)
    return _nested(values, indent, summarise, width, show)


def with_suffixes(text: str, suffixes: Sequence[str], indent: int, new_line: bool = False) -> str:
    """Append ``, suffix`` to the last line while it fits, else on a new line; ``new_line``: the first is on one."""
    length = len(text) - text.rfind("\n") + 1
    for i, suffix in enumerate(suffixes):
        if (new_line and not i) or length + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"


def format_tensor(
    values: NDArray | None,
    d: dtype,
    *,
    shape: Sequence[int] | None = None,
    device: str | None = None,
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    prefix: str = "tensor(",
    contents: str | None = None,
    tangent: str | None = None,
    sharding: Any = None,
) -> str:
    """The text of a tensor.

    Args:
        values: the numbers; None shows ``...`` and the shape.
        d: the dtype.
        shape: the shape, if there are no values.
        device: the device, if it is to be shown.
        requires_grad: whether to say so (not shown beside ``grad_fn_name``).
        grad_fn_name: the name of the autograd node.
        prefix: the text before the numbers.
        contents: what to show in place of the numbers.
        tangent: the text of its tangent, if it has one.
        sharding: how it is placed on a mesh, if it is.
    """
    size = tuple(values.shape if shape is None and values is not None else shape or ())
    default = dtypes.get_default_dtype()
    usual: tuple[dtype, ...] = (default, dtypes.get_default_complex_dtype(), dtypes.int64, dtypes.bool_)
    suffixes = [f"device='{device}'"] if device is not None else []
    if values is None or not values.size:
        usual = (default,)  # no numbers that would show the type
        if values is None or len(size) != 1:
            suffixes.append(f"size={size}")
    elif not _options.edgeitems:
        suffixes.append(f"size={size}")
    if d not in usual:
        suffixes.append(f"dtype={d}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    if tangent is not None:
        suffixes.append(f"tangent={tangent}")
    if sharding is not None:
        suffixes += [f"mesh={dict(sharding.mesh.shape)}", f"spec={sharding.spec}"]
        suffixes += [f"memory_kind={sharding.memory_kind!r}"] if is_on_hosts(sharding) else []
    if contents is None:
        contents = "..." if values is None else contents_text(values, len(prefix))
    return with_suffixes(prefix + contents, suffixes, len(prefix))


def tensor_repr(tensor: Any, contents: str | None = None) -> str:
    """``repr`` of a Tensor; one that is being traced shows its shape and no numbers."""
    value = tensor._value
    if not hasattr(value, "dtype"):  # a node of a tree whose leaf `jax.tree.map` has replaced
        return f"{_class_name(tensor)}({value!r})"
    unknown = isinstance(value, jax.ShapeDtypeStruct | jax.core.Tracer) or not meshes.is_here(value)
    where = None if isinstance(value, jax.core.Tracer) else str(tensor.device)
    try:
        node = tensor.grad_fn
        made_by = None if node is None else type(node).__name__
    except RuntimeError:  # of a view made in no_grad mode whose base was written to
        made_by = "Invalid"
    name, is_param = _class_name(tensor), getattr(tensor, "_is_param", False)
    text = format_tensor(
        None if unknown else np.asarray(value),
        tensor.dtype,
        shape=value.shape,
        device=None if where == "cpu" else where,
        requires_grad=tensor.requires_grad,
        grad_fn_name=made_by,
        prefix=f"{name}(",
        contents=contents,
        tangent=_tangent(tensor),
        sharding=sharding_of(tensor._storage) if tensor._view is None else None,
    )
    return f"Parameter({text})" if is_param and name != "tensor" else text


def _tangent(tensor: Any) -> str | None:
    """The text of a tensor's tangent in an open dual level."""
    level = watch.state.level
    found = None if level is None else level.tangent_of(tensor)
    return None if found is None else repr(found)


def sparse_repr(tensor: Any) -> str:
    """``repr`` of a sparse tensor: its indices and values, and what it is."""
    indent = len("tensor(")
    lines = []
    is_coo = tensor.is_sparse
    if is_coo:
        parts = {"indices": tensor._indices(), "values": tensor._values()}
    else:
        names = ("crow_indices", "col_indices") if tensor.is_sparse_csr else ("ccol_indices", "row_indices")
        parts = {name: getattr(tensor, name)() for name in (*names, "values")}
    for name, part in parts.items():
        array = np.asarray(part.detach()._value)
        text = f"{name}=tensor("
        text += contents_text(array, indent + len(text))
        lines.append(text + (")" if array.size else f", size={array.shape})"))
    kind, default = tensor.dtype, dtypes.get_default_dtype()
    suffixes = [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    if not tensor.is_cpu:
        suffixes.insert(0, f"device='{tensor.device}'")
    if kind not in (default, dtypes.get_default_complex_dtype(), dtypes.int64, dtypes.bool_):
        suffixes.append(f"dtype={kind}")
    suffixes.append(f"layout={tensor.layout}")
    if not tensor.is_leaf:
        node = "SparseCooTensorWithDimsAndTensorsBackward0" if is_coo else tensor.grad_fn.name()
        suffixes.append(f"grad_fn=<{node}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    text = "tensor(" + (",\n" + " " * indent).join(lines)
    if not is_coo:
        return with_suffixes(text, suffixes, indent)
    text += ",\n" + " " * indent
    return with_suffixes(text + suffixes[0], suffixes[1:], indent)


def _class_name(tensor: Any) -> str:
    name = type(tensor).__name__
    return "tensor" if name in ("Tensor", "Parameter") else name
