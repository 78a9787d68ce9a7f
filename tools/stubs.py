"""Writes the type stubs: for names that the package makes when it is imported, which no static tool can see.

An import is what it reads: the table of operations gives the parameters of an operation, `inspect` those of any other
function. What has several forms, as ``x.view(2, 3)`` and ``x.view((2, 3))``, is spelled out in `FORMS`.

    make stubs                        writes the files
    python tools/stubs.py --check     says whether they are what this would write now
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import functorch_port as torch
import functorch_port._run.sparse  # which gives Tensor the methods of sparse tensors
from functorch_port._base import dtypes, layout
from functorch_port._run.arguments import Arguments
from functorch_port._run.legacy import CLASSES
from functorch_port._run.registry import OpSpec, ops

PACKAGE = Path(torch.__file__).parent
MARK = "# Written by tools/stubs.py: `make stubs` writes it anew.\n"
#: PyTorch's functions take these names of numpy's for their own
ALIASES = {"dim": "axis", "keepdim": "keepdims"}

# ------------------------------------------------------------------------- types

#: Python's names of types, under names that no function, method or dtype here has
BUILTINS = """\
from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str, type as _type
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Self, TypeAlias, overload

import numpy as np
"""
OWN = """
from {base}._base.device import device as _device
from {base}._base.dtypes import dtype as _dtype
from {base}._base.layout import layout as _layout
from {base}._base.layout import memory_format as _memory_format
from {base}._base.size import Size as {Size}
from {base}._random.generator import Generator as {Generator}
"""
SHORT = """
_Device: TypeAlias = _device | _str | _int | None
_Number: TypeAlias = _complex | np.number[Any] | np.bool
_Sizes: TypeAlias = _int | Sequence[_int]
"""

#: what an annotation in the source is called in a stub
WORDS = {
    "Array": "Tensor | _Number", "TensorOnly": "Tensor", "Arrays": "Sequence[Tensor | _Number]",
    "TensorsOnly": "Sequence[Tensor]", "Scalar": "Tensor | _Number", "Dims": "_Sizes | None", "Ints": "_Sizes",
    "tuple[int, ...]": "_Sizes", "int": "_int", "float": "_float", "bool": "_bool", "complex": "_complex",
    "str": "_str", "type": "_type", "DType": "_dtype", "dtypes.dtype": "_dtype", "dtype": "_dtype",
    "devices.device": "_device", "device": "_device", "np.ndarray": "np.ndarray[Any, Any]", "jax.Array": "Any",
    "Storage": "Any", "UntypedStorage": "Any", "SparseTensor": "Tensor", "_Size": "Sequence[_int] | None",
}  # fmt: skip
WORD = re.compile(
    "|".join(rf"(?<![\w.]){re.escape(w)}(?![\w.])" for w in sorted(WORDS, key=len, reverse=True))
)
#: parameters that are annotated with Any, by name
BY_NAME = {
    "device": "_Device", "dtype": "_dtype | None", "layout": "_layout | None", "out": "Tensor | None",
    "memory_format": "_memory_format | None", "other": "Tensor | _Number", "exponent": "Tensor | _Number",
    "fill_value": "Tensor | _Number", "value": "Tensor | _Number", "split_size": "_Sizes", "size": "Sequence[_int]",
    "stride": "Sequence[_int]", "split_size_or_sections": "_Sizes", "start": "Tensor | _Number",
    "end": "Tensor | _Number", "steps": "Tensor | _Number", "step": "Tensor | _Number", "base": "Tensor | _Number",
}  # fmt: skip


def in_stub(annotation: Any) -> str:
    """An annotation of the source, as a stub says it."""
    if annotation is inspect.Parameter.empty:
        return "Any"
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    text = WORD.sub(lambda found: WORDS[found[0]], text)
    return " | ".join(dict.fromkeys(text.split(" | "))) if "[" not in text else text


# -------------------------------------------------------------------- signatures


@dataclass(frozen=True)
class Parameter:
    """One parameter: how it is given (``""``, ``"*"`` or ``"**"``), its type and default, where it has one."""

    name: str
    type: str
    default: str | None = None
    stars: str = ""
    by_name: bool = False

    def __str__(self) -> str:
        text = self.stars + self.name + (f": {self.type}" if self.type else "")
        return text if self.default is None else f"{text} = {self.default}"


@dataclass(frozen=True)
class Form:
    """One way to call a function."""

    parameters: tuple[Parameter, ...]
    returns: str

    def __str__(self) -> str:
        texts: list[str] = []
        for parameter in self.parameters:
            if parameter.by_name and not any(t.startswith("*") for t in texts):
                texts.append("*")
            texts.append(str(parameter))
            if parameter.name == "self" and parameter.type:
                texts.append("/")
        return f"({', '.join(texts)}) -> {self.returns}"


def shown(default: Any) -> str:
    """A default, if it is one that can be written down."""
    plain = default is None or isinstance(default, bool | int | float | str) or default == ()
    return repr(default) if plain and repr(default) not in ("inf", "-inf", "nan") else "..."


#: operations by their pure function: several may have the same one
SPECS: dict[Any, list[OpSpec]] = {}
for _spec in ops.values():
    SPECS.setdefault(_spec.fn, []).append(_spec)


def spec_of(fn: Any, name: str) -> OpSpec | None:
    """The operation that a public function of this name calls."""
    while fn is not None:
        found = SPECS.get(fn, []) if inspect.isfunction(fn) else []
        if found:
            return next((spec for spec in found if name in spec.names), found[0])
        fn = getattr(fn, "__wrapped__", None)
    return None


def form_of_op(spec: OpSpec, out: bool) -> Form:
    """How an operation is called, from what was registered."""
    parameters = []
    takes = Arguments(spec)
    for index, name in enumerate(spec.params):
        text = " | ".join(takes.words[name])
        if name in takes.strict:
            text = re.sub(r"\bArray\b", "TensorOnly", text)
        default = shown(spec.defaults[name]) if name in spec.defaults else None
        parameters.append(Parameter(name, in_stub(text or "Any"), default, by_name=index >= spec.positional))
    returns = in_stub(inspect.unwrap(spec.fn).__annotations__.get("return", "Tensor"))
    returns = "Tensor" if returns == "Any" else returns.replace("Tensor | _Number", "Tensor")
    if spec.returns:
        returns = f"return_types.{spec.tuple_type.__name__}"
    if out:
        written = "Tensor | None" if returns == "Tensor" else "Sequence[Tensor] | None"
        parameters.append(Parameter("out", written, "None", by_name=True))
    return Form(tuple(parameters), returns)


def form_of(fn: Callable[..., Any]) -> Form:
    """How any other function is called, from its annotations."""
    signature = inspect.signature(fn)
    parameters = []
    for p in signature.parameters.values():
        text = in_stub(p.annotation)
        if text == "Any" and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            text = BY_NAME.get(p.name, text)
        # an object that is nothing else is the mark of an argument that must be there
        missing = p.default is p.empty or type(p.default) is object
        default = None if missing else shown(p.default)
        if default == "None" and text != "Any" and not text.endswith("None") and text != "_Device":
            text += " | None"
        stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        parameters.append(Parameter(p.name, text, default, stars, p.kind is p.KEYWORD_ONLY))
    return Form(tuple(parameters), in_stub(signature.return_annotation))


def forms_of(name: str, fn: Any, where: str) -> list[str]:
    """Every way to call a function, ``where`` it is: Tensor, torch, F, linalg, special or fft."""
    if (known := FORMS.get(f"{where}.{name}")) is not None:
        return known
    method, in_place = where == "Tensor", name.endswith("_") and not name.endswith("__")
    spec = spec_of(fn, name)
    if spec is None and in_place and is_twin(fn):
        spec = spec_of(getattr(torch.Tensor, name[:-1], None), name[:-1]) or ops.get(name[:-1])
    out = not in_place and where not in ("Tensor", "F")
    form = form_of(fn) if spec is None else form_of_op(spec, out)
    first = form.parameters[0] if form.parameters else None
    if method:
        rest = form.parameters if first is None or first.stars else form.parameters[1:]
        form = replace(form, parameters=(Parameter("self", ""), *rest))
    elif in_place and first is not None:
        form = replace(form, parameters=(replace(first, type="Tensor"), *form.parameters[1:]))
    if in_place:
        form = replace(form, returns="Self" if method else "Tensor")
    forms = [form]
    alone = spec is not None and first is not None and first.name == spec.varargs
    if spec is not None and spec.varargs and (method or alone):
        one = "Tensor" if alone else "_int"
        several = [
            replace(p, type=one, stars="*", default=None) if p.name == spec.varargs else p
            for p in form.parameters
        ]
        forms.append(replace(form, parameters=tuple(several)))
    if spec is not None and (renamed := by_numpy(form)) is not None:
        forms.append(renamed)
    return [str(f) for f in forms]


def by_numpy(form: Form) -> Form | None:
    """The form with numpy's names, ``axis`` and ``keepdims``, where dimensions are what comes last."""
    at = next((at for at, p in enumerate(form.parameters) if p.name == "dim"), None)
    if at is None or any(p.default is None for p in form.parameters[at + 1 :]):
        return None
    before, later = list(form.parameters[:at]), [replace(p, by_name=True) for p in form.parameters[at:]]
    named = [replace(p, name=ALIASES.get(p.name, p.name)) for p in later]
    return replace(form, parameters=(*before, replace(named[0], default=None), *named[1:]))


def is_twin(fn: Any) -> bool:
    """Whether a function is the in-place form of another, which has its parameters."""
    kinds = [p.kind for p in inspect.signature(fn).parameters.values()]
    return inspect.Parameter.VAR_POSITIONAL in kinds and inspect.Parameter.VAR_KEYWORD in kinds


# ------------------------------------------------------------------ several forms

_WHERE = "dtype: _dtype | None = None, layout: _layout | None = None, device: _Device = None"
_FORMAT = "memory_format: _memory_format | None = None"
_PINNED = f"{_WHERE}, requires_grad: _bool = False, pin_memory: _bool = False"
_DRAWN = f"generator: Generator | None = None, out: Tensor | None = None, {_PINNED}"
_LIKE = f"generator: Generator | None = None, {_WHERE}, requires_grad: _bool = False, {_FORMAT}"
_OTHER = "other: Tensor | _Number"
_OPERAND = f"{_OTHER} | np.ndarray[Any, Any]"
_MEAN = "mean: Tensor | _float, std: Tensor | _float = 1.0"
_COPIED = "non_blocking: _bool = False, copy: _bool = False, *, memory_format: _memory_format | None = None) -> Tensor"


def sized(before: str, name: str, after: str, returns: str = "Tensor") -> list[str]:
    """Sizes as a sequence and one by one."""
    first = f"({before}, " if before else "("
    return [
        f"{first}{name}: Sequence[_int]{', *, ' if after else ''}{after}) -> {returns}",
        f"{first}*{name}: _int{', ' if after else ''}{after}) -> {returns}",
    ]


def extreme(name: str, first: str, out: str) -> list[str]:
    """`max` and `min`: of all elements, along a dimension, and of two tensors."""
    tensors = out.replace("Tensor", "Sequence[Tensor]")
    return [
        f"({first}{', *' if out else ''}{out}) -> Tensor",
        f"({first}, dim: _int, keepdim: _bool = False{', *' if out else ''}{tensors}) -> return_types.{name}",
        f"({first}, *, axis: _int, keepdims: _bool = False{tensors}) -> return_types.{name}",
        f"({first}, other: Tensor{', *' if out else ''}{out}) -> Tensor",
    ]


def middle(name: str, first: str, out: str) -> list[str]:
    """`median` and `nanmedian`: of all elements, and along a dimension."""
    return extreme(name, first, out)[:2]


def numbered(before: str, after: str) -> list[str]:
    """`randint` and `randint_like`: up to a number, and from one to another."""
    return [f"({before}high: _int, {after}) -> Tensor", f"({before}low: _int, high: _int, {after}) -> Tensor"]


def ranged() -> list[str]:
    """`arange`: up to a number, and from one to another."""
    rest = f"*, out: Tensor | None = None, {_PINNED}) -> Tensor"
    both = "start: Tensor | _Number, end: Tensor | _Number, step: Tensor | _Number = 1"
    return [f"(end: Tensor | _Number, {rest}", f"({both}, {rest}"]


def operator(*names: str) -> dict[str, list[str]]:
    """Operators that are functions of their own, not published by an operation."""
    return {f"Tensor.__{name}__": [f"(self, {_OPERAND}) -> Tensor"] for name in names}


_INDEX = "index: Any"
#: what `inspect` does not tell, by where it is and what it is called
FORMS: dict[str, list[str]] = {
    "torch.zeros": sized("", "size", f"out: Tensor | None = None, {_PINNED}"),
    "torch.ones": sized("", "size", f"out: Tensor | None = None, {_PINNED}"),
    "torch.empty": sized("", "size", f"out: Tensor | None = None, {_PINNED}, {_FORMAT}"),
    "torch.rand": sized("", "size", _DRAWN),
    "torch.randn": sized("", "size", _DRAWN),
    "torch.randint": numbered("", f"size: Sequence[_int], *, {_DRAWN}"),
    "torch.randint_like": numbered("input: Tensor, ", f"*, {_LIKE}"),
    "torch.arange": ranged(),
    "torch.range": ranged()[1:],
    "torch.normal": [f"({_MEAN}, size: Sequence[_int] | None = None, *, {_DRAWN}) -> Tensor"],
    "torch.einsum": ["(equation: Any, *operands: Any) -> Tensor"],
    "torch.broadcast_to": ["(input: Tensor, size: Sequence[_int]) -> Tensor"],
    "torch.where": [
        "(condition: Tensor) -> tuple[Tensor, ...]",
        f"(condition: Tensor, input: Tensor | _Number, {_OTHER}, *, out: Tensor | None = None) -> Tensor",
    ],
    "torch.pow": ["(input: Tensor | _Number, exponent: Tensor | _Number, *, out: Tensor | None = None) -> Tensor"],
    "Tensor.pow": ["(self, exponent: Tensor | _Number) -> Tensor"],
    "Tensor.view": ["(self, dtype: _dtype) -> Tensor", *sized("self", "size", "")],
    "Tensor.reshape": sized("self", "shape", ""),
    "Tensor.sum_to_size": sized("self", "size", ""),
    "Tensor.broadcast_to": sized("self", "size", ""),
    "Tensor.resize_": sized("self", "size", _FORMAT, "Self"),
    "Tensor.new_zeros": sized("self", "size", _PINNED),
    "Tensor.new_ones": sized("self", "size", _PINNED),
    "Tensor.new_empty": sized("self", "size", _PINNED),
    "Tensor.new_empty_strided": [f"(self, size: Sequence[_int], stride: Sequence[_int], *, {_PINNED}) -> Tensor"],
    "Tensor.new_full": [f"(self, size: Sequence[_int], fill_value: Tensor | _Number, *, {_PINNED}) -> Tensor"],
    "Tensor.new_tensor": [f"(self, data: Any, *, {_PINNED}) -> Tensor"],
    "Tensor.size": ["(self, dim: None = None) -> Size", "(self, dim: _int) -> _int"],
    "Tensor.stride": ["(self, dim: None = None) -> tuple[_int, ...]", "(self, dim: _int) -> _int"],
    "Tensor.to": [
        f"(self, dtype: _dtype, {_COPIED}",
        f"(self, device: _Device = None, dtype: _dtype | None = None, {_COPIED}",
        f"(self, other: Tensor, {_COPIED}",
    ],
    "Tensor.type": [
        "(self, dtype: None = None, non_blocking: _bool = False) -> _str",
        "(self, dtype: _dtype | _str | _type[Any], non_blocking: _bool = False) -> Tensor",
    ],
    "Tensor.nonzero": [
        "(self, *, as_tuple: Literal[False] = False) -> Tensor",
        "(self, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]",
    ],
    "torch.nonzero": [
        "(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor",
        "(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]",
    ],
    "Tensor.uniform_": ["(self, from_: _float = 0, /, to: _float = 1, *, generator: Generator | None = None) -> Self"],
    "Tensor.normal_": ["(self, mean: _float = 0, std: _float = 1, *, generator: Generator | None = None) -> Self"],
    "Tensor.log_normal_": ["(self, mean: _float = 1, std: _float = 2, *, generator: Generator | None = None) -> Self"],
    "Tensor.cauchy_": ["(self, median: _float = 0, sigma: _float = 1, *, generator: Generator | None = None) -> Self"],
    "Tensor.random_": [
        "(self, *, generator: Generator | None = None) -> Self",
        "(self, to: _int, *, generator: Generator | None = None) -> Self",
        "(self, from_: _int, /, to: _int | None, *, generator: Generator | None = None) -> Self",
    ],
    "Tensor.as_subclass": ["(self, cls: _type[Any]) -> Any"],
    "Tensor.numpy": ["(self, *, force: _bool = False) -> np.ndarray[Any, Any]"],
    "Tensor.__getitem__": [f"(self, {_INDEX}) -> Tensor"],
    "Tensor.__setitem__": [f"(self, {_INDEX}, value: Tensor | _Number | np.ndarray[Any, Any]) -> None"],
    "Tensor.__delitem__": [f"(self, {_INDEX}) -> None"],
    **operator("pow", "rpow", "matmul", "rmatmul"),
    "Tensor.__ipow__": [f"(self, {_OPERAND}) -> Self"],
    **{
        f"{where}.{name}": make(name, "self" if where == "Tensor" else "input: Tensor", out)
        for where, out in (("Tensor", ""), ("torch", ", out: Tensor | None = None"))
        for make, names in ((extreme, ("max", "min")), (middle, ("median", "nanmedian")))
        for name in names
    },
}  # fmt: skip

# -------------------------------------------------------------------- definitions


def told(fn: Any) -> str:
    """The first line of a docstring."""
    return inspect.cleandoc(fn.__doc__ or "").partition("\n")[0].replace("\\", "\\\\").replace('"""', "'''")


def definition(name: str, fn: Any, where: str) -> str:
    """A function in a stub, once for every form."""
    forms = forms_of(name, fn, where)
    mark = "@overload\n" if len(forms) > 1 else ""
    text = told(fn)
    body = f'\n    """{text}"""' if text and not text.endswith('"') else " ..."
    bodies = [body, *[" ..."] * (len(forms) - 1)]
    return "".join(f"{mark}def {name}{form}:{b}\n" for form, b in zip(forms, bodies, strict=True))


def indented(text: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())


def header(base: str, *more: str, size: str = "Size", generator: str = "Generator") -> str:
    own = OWN.format(base=base, Size=size, Generator=generator)
    return "\n".join([MARK, BUILTINS, own, *more, SHORT, ""])


# ------------------------------------------------------------------------ modules


def tensor_stub() -> str:
    """The class Tensor, with the methods that it is given."""
    shown_too = {"_base", "_version", "_make_subclass", "_make_wrapper_subclass"}
    hidden = {
        "__class__", "__dict__", "__dir__", "__doc__", "__init__", "__init_subclass__", "__module__", "__new__",
        "__reduce_ex__", "__slots__", "__weakref__", "__annotations__", "__hash__", "__div__", "__iabs__", "__idiv__",
        "__ieq__", "__ige__", "__igt__", "__ile__", "__ilt__", "__ine__", "__ineg__", "__long__", "__nonzero__",
        "__rdiv__", "__firstlineno__", "__static_attributes__", "__annotate_func__", "__annotations_cache__",
    }  # fmt: skip
    members = [
        "def __new__(cls, *args: Any, device: _Device = None) -> Self: ...\n",
        "def __hash__(self) -> _int: ...\n",
    ]
    for name, value in sorted(vars(torch.Tensor).items()):
        private = name.startswith("_") and not name.endswith("__")
        if name in hidden or (private and name not in shown_too):
            continue
        if isinstance(value, property):
            members.append(property_of(name, value))
        elif isinstance(value, bool | int):
            members.append(f"{name}: _{type(value).__name__}\n")
        elif isinstance(value, staticmethod | classmethod):
            given = str(form_of(value.__func__))
            if isinstance(value, classmethod):
                given = given.replace("(cls: Any", "(cls", 1)
            members.append(f"@{type(value).__name__}\ndef {name}{given}: ...\n")
        elif isinstance(value, FunctionType):
            members.append(dunder(name, value) or definition(name, value, "Tensor"))
        else:
            members.append(f"{name}: Any\n")
    functions = "def bare(cls: _type[Any]) -> Any: ...\ndef wrap(value: Any) -> Tensor: ...\n"
    more = "from .. import return_types\nfrom .node import RemovableHandle\nfrom .view import View as View\n"
    body = indented("\n".join(members))
    about = indented(f'"""{told(torch.Tensor)}"""')
    return f"{header('.', more)}class Tensor:\n{about}\n{body}\n{functions}"


def property_of(name: str, value: property) -> str:
    returns = in_stub(inspect.signature(value.fget).return_annotation)  # type: ignore[arg-type]
    returns = BY_NAME[name].removesuffix(" | None") if returns == "Any" and name in BY_NAME else returns
    if name in ("T", "H", "mT", "mH", "real", "imag"):
        returns = "Tensor"
    setter = f"@{name}.setter\ndef {name}(self, value: Any) -> None: ...\n" if value.fset else ""
    return f"@property\ndef {name}(self) -> {returns}: ...\n{setter}"


def dunder(name: str, fn: FunctionType) -> str:
    """An operator that an operation was published as."""
    kind = fn.__code__.co_name
    if not name.startswith("__") or f"Tensor.{name}" in FORMS or kind not in ("unary", "binary", "method"):
        return ""
    returns = "Self" if kind == "method" else "Tensor"
    # an operand of another type than `object.__eq__` takes
    ignored = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
    return f"def {name}(self{'' if kind == 'unary' else f', {_OPERAND}'}) -> {returns}: ...{ignored}\n"


def package_stub() -> str:
    """``torch`` itself."""
    here = static_imports(PACKAGE / "__init__.py", keep=lambda name: not name.startswith("_"))
    here |= {"__version__": "from .version import __version__ as __version__"}
    here |= {n: f"from ._base.layout import {n} as {n}" for n in layout.__all__}
    here |= {n: f"from .{home} import {n} as {n}" for n, home in torch._LAZY.items()}
    here |= {n: f"from . import {n} as {n}" for n in ("ops", *torch._SUBMODULES)}
    here |= {n: f"{n}: _dtype" for n in (*dtypes.NAMES, *dtypes.ABSENT)}
    here |= {n: f"class {n}(Tensor): ..." for n in CLASSES}
    public = [n for n, v in vars(torch).items() if not n.startswith("_") and isinstance(v, FunctionType)]
    functions = [definition(n, vars(torch)[n], "torch") for n in sorted(public) if n not in here]
    imports = sorted(line for line in here.values() if line.startswith("from"))
    names = sorted(line for line in here.values() if not line.startswith("from"))
    return f"{header('', *imports)}{chr(10).join(names)}\n\n{chr(10).join(functions)}"


def static_imports(path: Path, keep: Callable[[str], bool]) -> dict[str, str]:
    """The imports that a module has written out, by the name that they give."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            for name in node.names:
                given = name.asname or name.name
                if keep(given):
                    found[given] = ast.unparse(ast.ImportFrom(node.module, [name], node.level))
    return found


def functional_stub() -> str:
    """``torch.nn.functional``: most of it is written out, the rest are operations."""
    module = torch.nn.functional
    made = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType)
        and not name.startswith("_")
        and (spec_of(value, name) or is_twin(value))
    }
    made = {n: f for n, f in made.items() if spec_of(f, n) or n.endswith("_")}
    given = static_imports(
        PACKAGE / "nn/functional/__init__.py", keep=lambda name: name not in made and name != "_publish"
    )
    imports = ["from ..._tensor.tensor import Tensor as Tensor", *given.values()]
    functions = [definition(n, f, "F") for n, f in sorted(made.items())]
    return f"{header('..', *imports, size='_Size', generator='_Generator')}{chr(10).join(functions)}"


def namespace_stub(module: Any) -> str:
    """``torch.linalg``, ``torch.special`` and ``torch.fft``: nothing but operations."""
    where = module.__name__.rpartition(".")[2]
    more = ["from . import return_types", "from ._tensor.tensor import Tensor as Tensor"]
    more += static_imports(Path(module.__file__), keep=lambda name: not name.startswith("_")).values()
    public = {n: f for n, f in vars(module).items() if n in module.__all__ and isinstance(f, FunctionType)}
    functions = [definition(n, f, where) for n, f in sorted(public.items())]
    return f"{header('', *more, size='_Size', generator='_Generator')}{chr(10).join(functions)}"


def return_types_stub() -> str:
    """``torch.return_types``: the named tuples of results."""
    classes = []
    for name in torch.return_types.__all__:
        fields = getattr(torch.return_types, name)._fields
        classes.append(f"class {name}(NamedTuple):\n" + "".join(f"    {field}: Tensor\n" for field in fields))
    return f"{MARK}\nfrom typing import NamedTuple\n\nfrom ._tensor.tensor import Tensor\n\n{chr(10).join(classes)}"


def stubs() -> Iterator[tuple[Path, str]]:
    """The files and what is in them."""
    for where, name in (key.split(".") for key in FORMS):
        getattr(torch.Tensor if where == "Tensor" else torch, name)  # which fails for a name that is no more
    yield PACKAGE / "__init__.pyi", package_stub()
    yield PACKAGE / "_tensor/tensor.pyi", tensor_stub()
    yield PACKAGE / "nn/functional/__init__.pyi", functional_stub()
    yield PACKAGE / "return_types.pyi", return_types_stub()
    for module in (torch.linalg, torch.special, torch.fft):
        yield PACKAGE / f"{module.__name__.rpartition('.')[2]}.pyi", namespace_stub(module)


def tidied(path: Path, text: str) -> str:
    """As ruff has it: without the imports that are not needed, and formatted."""
    for words in (["check", "--fix", "--quiet", "--select", "F401,I"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", str(path), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main(args: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is not up to date"
    )
    check = parser.parse_args(None if args is None else list(args)).check
    old = []
    for path, text in stubs():
        text = tidied(path, text)
        if not path.exists() or path.read_text() != text:
            old.append(path.relative_to(PACKAGE.parent))
            if not check:
                path.write_text(text)
    if old:
        print(f"{'not up to date, run `make stubs`' if check else 'written'}: {', '.join(map(str, old))}")
    return int(check and bool(old))


if __name__ == "__main__":
    sys.exit(main())
