"""Data types: PyTorch's `dtype` objects, each the twin of one numpy (or ml_dtypes) dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from . import config

__all__ = [
    "dtype",
    "finfo",
    "iinfo",
    "from_np",
    "from_name",
    "as_dtype",
    "get_default_dtype",
    "set_default_dtype",
    "get_default_complex_dtype",
]


class dtype:
    """The element type of a tensor.

    There is one object per type, so identity is equality; copying and unpickling give the same object.

    Attributes:
        name: the bare name, e.g. ``"float32"``.
        np: the numpy dtype that arrays of this type have.
        itemsize: bytes per element.

    Example:
        >>> import functorch_port as torch
        >>> torch.float32, torch.float32.itemsize, torch.complex64.to_real()
        (torch.float32, 4, torch.float32)

    Reference:
        https://docs.pytorch.org/docs/stable/tensor_attributes.html#torch.dtype
    """

    __slots__ = ("is_complex", "is_floating_point", "is_signed", "itemsize", "name", "np", "scalar_name")

    name: str
    np: np.dtype[Any]
    itemsize: int
    is_floating_point: bool
    is_complex: bool
    is_signed: bool
    scalar_name: str  # ATen's name of the type, used in error texts ("Float", "Long")

    def __new__(cls, *args: object, **kwargs: object) -> dtype:
        raise TypeError("cannot create 'torch.dtype' instances")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return from_name, (self.name,)

    @property
    def abbr(self) -> str:
        """The short spelling, e.g. ``"f32"``."""
        return _abbreviate(self.name)

    def to_real(self) -> dtype:
        """The real type whose pairs make this complex type; other types are returned unchanged."""
        return _TO_REAL.get(self, self)

    def to_complex(self) -> dtype:
        """The complex type made of pairs of this type."""
        if self is float16:
            raise NotImplementedError("complex32 is not supported: JAX has no such type; use complex64")
        if self not in _TO_COMPLEX:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.scalar_name}")
        return _TO_COMPLEX[self]


_BY_NAME: dict[str, dtype] = {}
_FROM_NP: dict[np.dtype[Any], dtype] = {}


def _make(name: str, np_type: Any, scalar_name: str, kind: str) -> dtype:
    new = object.__new__(dtype)
    new.name, new.np, new.scalar_name = name, np.dtype(np_type), scalar_name
    new.itemsize = new.np.itemsize
    new.is_floating_point, new.is_complex, new.is_signed = kind == "f", kind == "c", kind in "ifc"
    _BY_NAME[name] = _FROM_NP[new.np] = new
    return new


bool_ = _make("bool", np.bool_, "Bool", "b")
uint8 = _make("uint8", np.uint8, "Byte", "u")
int8 = _make("int8", np.int8, "Char", "i")
int16 = _make("int16", np.int16, "Short", "i")
int32 = _make("int32", np.int32, "Int", "i")
int64 = _make("int64", np.int64, "Long", "i")
uint16 = _make("uint16", np.uint16, "UInt16", "u")
uint32 = _make("uint32", np.uint32, "UInt32", "u")
uint64 = _make("uint64", np.uint64, "UInt64", "u")
float16 = _make("float16", np.float16, "Half", "f")
bfloat16 = _make("bfloat16", ml_dtypes.bfloat16, "BFloat16", "f")
float32 = _make("float32", np.float32, "Float", "f")
float64 = _make("float64", np.float64, "Double", "f")
complex64 = _make("complex64", np.complex64, "ComplexFloat", "c")
complex128 = _make("complex128", np.complex128, "ComplexDouble", "c")
float8_e4m3fn = _make("float8_e4m3fn", ml_dtypes.float8_e4m3fn, "Float8_e4m3fn", "f")
float8_e5m2 = _make("float8_e5m2", ml_dtypes.float8_e5m2, "Float8_e5m2", "f")

ALL: tuple[dtype, ...] = tuple(_BY_NAME.values())


class _Absent(dtype):
    """The name of a type that JAX does not have: no tensor has it, and using it raises NotImplementedError."""

    __slots__ = ()

    @property
    def np(self) -> Any:  # type: ignore[override]
        raise NotImplementedError(f"{self} is not supported: JAX has no such type{self.scalar_name}")


def _name(name: str, itemsize: int, kind: str, instead: str = "", signed: bool = True) -> dtype:
    new = object.__new__(_Absent)
    new.name, new.itemsize, new.scalar_name = name, itemsize, instead and f"; use {instead}"
    new.is_floating_point, new.is_complex = kind == "f", kind == "c"
    new.is_signed = signed and kind in "ifc"
    return new


complex32 = _name("complex32", 4, "c", "complex64")
#: names of types that no tensor has here
ABSENT: dict[str, dtype] = {
    "chalf": complex32,
    "complex32": complex32,
    **{
        f"{kind}{bits}": _name(f"{kind}{bits}", 1, kind[0])
        for kind in ("int", "uint")
        for bits in range(1, 8)
    },
    **{name: _name(name, 1, "f") for name in ("float8_e4m3fnuz", "float8_e5m2fnuz")},
    "float8_e8m0fnu": _name("float8_e8m0fnu", 1, "f", signed=False),
    "float4_e2m1fn_x2": _name("float4_e2m1fn_x2", 1, "f"),
    **{name: _name(name, 1, name[0]) for name in ("qint8", "quint8", "quint4x2", "quint2x4")},
    "qint32": _name("qint32", 4, "i"),
    **{f"bits{n}": _name(f"bits{n}", max(1, int(n[0]) // 8), "u") for n in ("1x8", "2x4", "4x2", "8")},
    "bits16": _name("bits16", 2, "u"),
}

# These names are reached through NAMES or the module's __getattr__: as globals they would hide Python's own.
ALIASES: dict[str, dtype] = {
    "short": int16, "int": int32, "long": int64, "half": float16, "float": float32, "double": float64,
    "cfloat": complex64, "cdouble": complex128,
}  # fmt: skip

NAMES: dict[str, dtype] = {**_BY_NAME, **ALIASES}  # every public spelling, for the package's namespace


def __getattr__(name: str) -> dtype:
    if name in NAMES:
        return NAMES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _abbreviate(name: str) -> str:
    for word, letter in (
        ("bool", "b8"),
        ("float", "f"),
        ("complex", "c"),
        ("uint", "u"),
        ("int", "i"),
        ("_", ""),
    ):
        name = name.replace(word, letter)
    return name


_TO_REAL = {complex64: float32, complex128: float64}
_TO_COMPLEX = dict.fromkeys((bfloat16, float32, complex64), complex64) | dict.fromkeys(
    (float64, complex128), complex128
)


def _type_text(np_dtype: Any) -> str:
    kind = np.dtype(np_dtype).type
    return f"{kind.__module__}.{kind.__name__}"


def from_np(np_dtype: np.dtype[Any]) -> dtype:
    """The dtype object of a numpy dtype (what ``x.dtype`` of a JAX or numpy array gives)."""
    try:
        return _FROM_NP[np_dtype]
    except KeyError:
        pass
    found = _FROM_NP.get(np.dtype(np_dtype).newbyteorder("="))
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type {_type_text(np_dtype)}. The only supported types are: "
            "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, "
            "uint16, uint8, and bool."
        )
    return found


def from_name(name: str) -> dtype:
    """The dtype object called ``name`` ("float32", or an alias such as "long")."""
    return NAMES[name] if name in NAMES else ABSENT[name]


def as_dtype(value: object, where: str, argument: str = "'dtype'") -> dtype:
    """A dtype, or one of Python's number types as a dtype; else PyTorch's TypeError for ``where(): argument ...``."""
    value = PYTHON.get(value, value) if isinstance(value, type) else value
    if not isinstance(value, dtype):
        raise TypeError(f"{where}(): argument {argument} must be torch.dtype, not {type(value).__name__}")
    return value


#: Python's number types, which PyTorch accepts as dtypes
PYTHON = {float: float64, int: int64, bool: bool_, complex: complex128}

_default: dtype = float32


def get_default_dtype() -> dtype:
    """The floating point type that Python floats and factory functions get.

    Example:
        >>> import functorch_port as torch
        >>> torch.get_default_dtype()
        torch.float32

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.get_default_dtype.html
    """
    return _default


def set_default_dtype(d: dtype, /) -> None:
    """Set the floating point type that Python floats and factory functions get.

    Args:
        d: float16, bfloat16, float32 or float64.

    Raises:
        TypeError: if ``d`` is not such a type.

    Example:
        >>> import functorch_port as torch
        >>> torch.set_default_dtype(torch.float64)
        >>> torch.tensor(1.0).dtype
        torch.float64
        >>> torch.set_default_dtype(torch.float32)

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.set_default_dtype.html
    """
    global _default
    if not isinstance(d, dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if d.itemsize == 1:
        raise TypeError(f"couldn't find storage object {d.scalar_name}Storage")
    _default = d
    config.forget()


def get_default_complex_dtype() -> dtype:
    """The complex type that Python complex numbers get (that of the default floating point type)."""
    return complex128 if _default is float64 else complex64


def _type_argument(value: object, where: str) -> dtype:
    if value is None:
        return _default
    return as_dtype(value, where, "'type' (position 1)")


class finfo:
    """Limits of a floating point (or complex) type.

    Args:
        type: the dtype; the default dtype when left out.

    Raises:
        TypeError: for integer types and bool.

    Example:
        >>> import functorch_port as torch
        >>> torch.finfo(torch.float32).eps
        1.1920928955078125e-07

    Reference:
        https://docs.pytorch.org/docs/stable/type_info.html#torch.torch.finfo
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, type: dtype | None = None) -> None:
        given = _type_argument(type, "finfo")
        if not (given.is_floating_point or given.is_complex):
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"
            )
        real = given.to_real()
        info = ml_dtypes.finfo(real.np)
        self.bits = real.itemsize * 8
        self.dtype = real.name
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.smallest_normal = self.tiny = float(info.smallest_normal)
        self.resolution = _RESOLUTION[real.name]

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return "finfo(" + ", ".join(f"{n}={getattr(self, n):g}" for n in names) + f", dtype={self.dtype})"

    def __eq__(self, other: object) -> Any:
        return self.dtype == other.dtype if isinstance(other, finfo) else NotImplemented


# decimal digits that survive a round trip, as a power of ten
_RESOLUTION = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-15} | dict.fromkeys(
    ("float8_e4m3fn", "float8_e5m2"), 1.0
)


class iinfo:
    """Limits of an integer type.

    Args:
        type: the dtype.

    Raises:
        TypeError: for types that are not integers.

    Example:
        >>> import functorch_port as torch
        >>> torch.iinfo(torch.int8)
        iinfo(min=-128, max=127, dtype=int8)

    Reference:
        https://docs.pytorch.org/docs/stable/type_info.html#torch.torch.iinfo
    """

    __slots__ = ("bits", "dtype", "max", "min")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, type: dtype) -> None:
        given = _type_argument(type, "iinfo")
        if given.is_floating_point or given.is_complex:
            raise TypeError(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'"
            )
        if given.np.kind == "b":
            raise TypeError("torch.bool is not supported by torch.iinfo")
        info = np.iinfo(given.np)
        self.bits, self.dtype = given.itemsize * 8, given.name
        self.min, self.max = int(info.min), int(info.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> Any:
        return self.dtype == other.dtype if isinstance(other, iinfo) else NotImplemented
