"""Reading pickles: `Safe` builds only what its tables allow; Python's own unpickler reads trusted files.

`Safe` knows few of pickle's instructions, and resolves names and calls functions only by its tables. The memory that it
takes is at most proportional to the bytes that it has read.
"""

from __future__ import annotations

import functools
import importlib
import io
import operator
import pickle
import pickletools
import struct
import sys
import warnings
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError, decode_long
from typing import Any

from .._base.tuning import tuning
from .._tensor.tensor import Tensor
from ..nn.parameter import Parameter
from ._tables import CALLED, CLASSES_CALLED, NAMES, STORAGES, TRUSTED, UNKNOWN, checked_key
from ._tensors import Tensors

__all__ = ["Safe", "allowed", "globals_in", "trusting"]

_PACKAGE = __name__.partition(".")[0]
#: modules whose names are always refused
BLOCKED = ("sys", "os", "posix", "nt")
#: the objects that the user has allowed, or pairs of an object and its full name
allowed: list[Any] = []
#: bytes of an empty container of each type and of a reference to it
_WEIGHTS: dict[Any, int] = {
    list: 64,
    dict: 72,
    set: 224,
    tuple: 48,
    frozenset: 224,
    OrderedDict: 280,
    Counter: 280,
    bytearray: 64,
}
#: bytes of the tuples and the dict that describe a tensor
_OF_A_TENSOR = 600


def allowed_names() -> dict[str, Any]:
    """The objects that the user has allowed, by full name."""
    names = {}
    for item in allowed:
        if isinstance(item, tuple):
            if len(item) != 2:
                raise ValueError(
                    "Expected tuple of length 2 (global, str of callable full path), but got tuple of length: "
                    f"{len(item)}"
                )
            if type(item[1]) is not str:
                raise TypeError(
                    f"Expected second item in tuple to be str of callable full path, but got: {type(item[1])}"
                )
            names[item[1]] = item[0]
        else:
            names[f"{item.__module__}.{item.__qualname__}"] = item
    return names


def _python3(module: str, name: str) -> tuple[str, str]:
    """Python 3's module and name for those of Python 2."""
    if (module, name) in NAME_MAPPING:
        return NAME_MAPPING[module, name]
    return IMPORT_MAPPING.get(module, module), name


class Safe:
    """Unpickles one object from the classes and functions that are allowed.

    Args:
        file: the file, read to the end of the pickle and no further.
        tensors: makes the tensors.
        size: the number of bytes there are.
        room: the size of the whole file, which limits the number of lists and dicts.
        encoding: the encoding of Python 2's strings; ``"bytes"`` keeps them as bytes.

    Attributes:
        read_so_far: the number of bytes read.
    """

    def __init__(self, file: Any, tensors: Tensors, size: int, room: int, encoding: str = "utf-8") -> None:
        self._file, self._tensors, self._encoding = file, tensors, encoding
        self._left = self._size = size
        self._room = room + tuning.file_slack
        self._deepest = self._room // 16
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._names = allowed_names()
        self._yours = {id(v) for v in self._names.values()}
        self._own = {full: functools.partial(call, tensors) for full, call in CALLED.items()}
        self._calls: dict[int, Any] = {id(v): v for v in (*self._own.values(), *self._names.values())}
        for cls, make in CLASSES_CALLED.values():
            self._calls[id(cls)] = functools.partial(make, tensors)

    @property
    def read_so_far(self) -> int:
        return self._size - self._left

    def load(self) -> Any:
        """Read the pickle and return its object.

        Raises:
            pickle.UnpicklingError: it names something that is not allowed, or is damaged.
            EOFError: it ends too early.
        """
        try:
            return self._load()
        except (UnpicklingError, RuntimeError, EOFError, MemoryError, OSError):
            raise
        except Exception as error:  # any error that a damaged pickle causes
            raise UnpicklingError(f"{type(error).__name__}: {str(error)[:200]}") from error

    def _load(self) -> Any:
        read, stack = self._file.read, self._stack
        while True:
            code = read(1)
            if not code:
                raise EOFError(f"Ran out of input after {self.read_so_far} bytes")
            self._left -= 1
            if code == b".":
                (out,) = stack
                return out
            step = _STEPS.get(code)
            if step is None:
                raise UnpicklingError(f"Unsupported operand {code[0]}")
            step(self)
            if len(stack) > self._deepest:
                raise UnpicklingError("it nests deeper than any saved file")

    # ------------------------------------------------------------- reading

    def _bytes(self, count: int) -> bytes:
        if count > self._left:
            raise UnpicklingError(f"pickle data was truncated: {count} bytes were expected")
        data: bytes = self._file.read(count)
        if len(data) != count:
            raise UnpicklingError(f"pickle data was truncated: {count} bytes were expected")
        self._left -= count
        return data

    def _number(self, form: str) -> int:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    def _line(self) -> str:
        line = self._file.readline(1024)
        self._left -= len(line)
        if not line.endswith(b"\n"):
            raise UnpicklingError("a name is too long, or the pickle ends within it")
        return str(line[:-1], "utf-8")

    def _text(self, form: str) -> None:
        self._stack.append(str(self._bytes(self._number(form)), "utf-8", "surrogatepass"))

    def _string(self, form: str) -> None:
        data = self._bytes(self._number(form))
        self._stack.append(data if self._encoding == "bytes" else data.decode(self._encoding, "strict"))

    def _raw(self, form: str, kind: Callable[[bytes], Any]) -> None:
        self._stack.append(kind(self._bytes(self._number(form))))

    # ------------------------------------------------------------- the stack

    def _mark(self) -> None:
        self._marks.append(len(self._stack))

    def _since_mark(self) -> list[Any]:
        at = self._marks.pop()
        items = self._stack[at:]
        del self._stack[at:]
        return items

    def _pop(self, count: int) -> list[Any]:
        if self._marks and len(self._stack) - count < self._marks[-1]:
            raise UnpicklingError("unexpected MARK found")
        items = self._stack[-count:]
        if len(items) < count:
            raise UnpicklingError("the stack is empty")
        del self._stack[-count:]
        return items

    def _made(self, value: Any) -> None:
        """Push a container, unless the file's size does not warrant so many: one byte suffices to make one."""
        self._room -= _WEIGHTS.get(type(value), 64) + (8 * len(value) if type(value) is tuple else 0)
        if self._room < 0:
            raise UnpicklingError("its lists, dicts and tuples need far more memory than the file has bytes")
        self._stack.append(value)

    def _tuple(self, count: int) -> None:
        self._made(tuple(self._pop(count) if count else ()))

    def _put(self, form: str) -> None:
        self._memo[self._number(form)] = self._stack[-1]

    def _get(self, form: str) -> None:
        self._stack.append(self._memo[self._number(form)])

    def _memoize(self) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    # ------------------------------------------------------------ containers

    def _append(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise UnpicklingError(f"Can only append to lists, but got {type(target)}")
        target.extend(items)

    def _add(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not set:
            raise UnpicklingError(f"Can only add to sets, but got {type(target)}")
        for item in items:
            checked_key(item)
            target.add(item)

    def _set(self, items: list[Any], name: str) -> None:
        target = self._stack[-1]
        if type(target) not in (dict, OrderedDict, Counter):
            raise UnpicklingError(
                f"Can only {name} for dict, collections.OrderedDict, collections.Counter, but got {type(target)}"
            )
        if len(items) % 2:
            raise UnpicklingError("a key has no value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) is not str:
                checked_key(key)
            target[key] = value

    def _frozen(self) -> None:
        items = self._since_mark()
        for item in items:
            checked_key(item)
        self._made(frozenset(items))

    # ---------------------------------------------------------- what has names

    def _global(self) -> None:
        self._find(self._line(), self._line())

    def _stack_global(self) -> None:
        module, name = self._pop(2)
        if type(module) is not str or type(name) is not str:
            raise UnpicklingError("STACK_GLOBAL requires str")
        self._find(module, name)

    def _find(self, module: str, name: str) -> None:
        module, name = _python3(module, name)
        full = f"{module}.{name}"
        if module in BLOCKED:
            raise UnpicklingError(
                f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked."
            )
        if full in NAMES:
            self._stack.append(NAMES[full])
        elif full in self._own:
            self._stack.append(self._own[full])
        elif full in self._names:
            self._stack.append(self._names[full])
        elif full in UNKNOWN:
            raise unknown(full)
        else:
            full = full.removeprefix("builtins.")
            raise UnpicklingError(
                f"Unsupported global: GLOBAL {full} was not an allowed global by default. "
                f"Please use `torch.serialization.add_safe_globals([{full}])` or the "
                f"`torch.serialization.safe_globals([{full}])` context manager to allowlist this global "
                "if you trust this class/function."
            )

    def _reduce(self) -> None:
        function, args = self._pop(2)
        call = self._calls.get(id(function))
        if call is None:
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {_named(function)}")
        made = call(*_arguments(args))
        if isinstance(made, Tensor):
            self._room += _OF_A_TENSOR
            self._stack.append(made)
        else:
            self._made(made)

    def _new(self) -> None:
        cls, args = self._pop(2)
        args = _arguments(args)
        if cls is Parameter:
            data, requires_grad = (*args, True)[:2]
            self._stack.append(self._tensors.parameter(data, requires_grad, None))
        elif id(cls) in self._yours and isinstance(cls, type):
            self._stack.append(cls.__new__(cls, *args))
        elif id(cls) in self._calls and isinstance(cls, type):
            self._made(self._calls[id(cls)](*args))
        else:
            raise UnpicklingError(
                "Can only create new object for nn.Parameter or classes allowlisted via `add_safe_globals` but got "
                f"{_named(cls)}"
            )

    def _build(self) -> None:
        (state,) = self._pop(1)
        made = self._stack[-1]
        if type(made) is OrderedDict:
            if type(state) is not dict or any(type(k) is not str for k in state):
                raise UnpicklingError(f"the attributes of an OrderedDict are {type(state)}, not a dict")
            made.__dict__.update(state)
        elif id(type(made)) in self._yours:
            _restore(made, state)
        else:
            raise UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got "
                f"{type(made)}"
            )

    def _persistent(self) -> None:
        (pid,) = self._pop(1)
        if type(pid) is not tuple and type(pid) is not int:
            raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(pid)}")
        self._stack.append(self._tensors.storage(pid))

    def _frame(self) -> None:
        self._bytes(8)  # its length, which is not needed

    def _protocol(self) -> None:
        protocol = self._number("<B")
        if protocol > pickle.HIGHEST_PROTOCOL:
            raise UnpicklingError(f"unsupported pickle protocol: {protocol}")


def _arguments(args: Any) -> tuple[Any, ...]:
    if type(args) is not tuple:
        raise UnpicklingError(f"the arguments of a call are {type(args)}, not a tuple")
    return args


def _named(value: Any) -> str:
    """A value's name in an error; the value may be too large to show."""
    return repr(value) if isinstance(value, type) or callable(value) else str(type(value))


def unknown(full: str) -> NotImplementedError:
    return NotImplementedError(
        f"the file has {full}, which this package has no tensors for: convert them with PyTorch (for example "
        "dequantize(), or .to() a dtype that is supported) and save them again"
    )


def _restore(made: Any, state: Any) -> None:
    """Set the state of an object of a class that the user has allowed."""
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        made.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(made, name, value)


_STEPS: dict[bytes, Callable[[Safe], None]] = {
    pickle.PROTO: Safe._protocol,
    pickle.FRAME: Safe._frame,
    pickle.NONE: lambda s: s._stack.append(None),
    pickle.NEWTRUE: lambda s: s._stack.append(True),
    pickle.NEWFALSE: lambda s: s._stack.append(False),
    pickle.BININT: lambda s: s._stack.append(s._number("<i")),
    pickle.BININT1: lambda s: s._stack.append(s._number("<B")),
    pickle.BININT2: lambda s: s._stack.append(s._number("<H")),
    pickle.LONG1: lambda s: s._raw("<B", decode_long),
    pickle.LONG4: lambda s: s._raw("<I", decode_long),
    pickle.BINFLOAT: lambda s: s._stack.append(s._number(">d")),
    pickle.BINUNICODE: lambda s: s._text("<I"),
    pickle.SHORT_BINUNICODE: lambda s: s._text("<B"),
    pickle.BINUNICODE8: lambda s: s._text("<Q"),
    pickle.SHORT_BINSTRING: lambda s: s._string("<B"),
    pickle.BINSTRING: lambda s: s._string("<I"),
    pickle.BINBYTES: lambda s: s._raw("<I", bytes),
    pickle.SHORT_BINBYTES: lambda s: s._raw("<B", bytes),
    pickle.BINBYTES8: lambda s: s._raw("<Q", bytes),
    pickle.BYTEARRAY8: lambda s: s._raw("<Q", bytearray),
    pickle.EMPTY_TUPLE: lambda s: s._tuple(0),
    pickle.TUPLE1: lambda s: s._tuple(1),
    pickle.TUPLE2: lambda s: s._tuple(2),
    pickle.TUPLE3: lambda s: s._tuple(3),
    pickle.TUPLE: lambda s: s._made(tuple(s._since_mark())),
    pickle.EMPTY_LIST: lambda s: s._made([]),
    pickle.EMPTY_DICT: lambda s: s._made({}),
    pickle.EMPTY_SET: lambda s: s._made(set()),
    pickle.FROZENSET: Safe._frozen,
    pickle.APPEND: lambda s: s._append(s._pop(1)),
    pickle.APPENDS: lambda s: s._append(s._since_mark()),
    pickle.SETITEM: lambda s: s._set(s._pop(2), "SETITEM"),
    pickle.SETITEMS: lambda s: s._set(s._since_mark(), "SETITEMS"),
    pickle.ADDITEMS: lambda s: s._add(s._since_mark()),
    pickle.MARK: Safe._mark,
    pickle.BINPUT: lambda s: s._put("<B"),
    pickle.LONG_BINPUT: lambda s: s._put("<I"),
    pickle.BINGET: lambda s: s._get("<B"),
    pickle.LONG_BINGET: lambda s: s._get("<I"),
    pickle.MEMOIZE: Safe._memoize,
    pickle.GLOBAL: Safe._global,
    pickle.STACK_GLOBAL: Safe._stack_global,
    pickle.REDUCE: Safe._reduce,
    pickle.NEWOBJ: Safe._new,
    pickle.BUILD: Safe._build,
    pickle.BINPERSID: Safe._persistent,
}


# ------------------------------------------------------------------ trusted files


def trusting(module: Any, tensors: Tensors, own_classes: bool, name: Any) -> type:
    """An unpickler class that builds anything that a file names.

    Args:
        module: the module with its base class, ``pickle`` or one like it.
        tensors: makes the tensors.
        own_classes: whether PyTorch's classes resolve to this package's.
        name: the file's name.
    """

    class Unpickler(module.Unpickler):  # type: ignore[misc]
        def persistent_load(self, pid: Any) -> Any:
            if type(pid) is tuple and len(pid) == 4 and pid[0] == "module":
                return pid[1]  # and its source, in files before PyTorch 1.6
            return tensors.storage(pid)

        def find_class(self, where: str, what: str) -> Any:
            full = f"{where}.{what}"
            call = CALLED.get(full) or TRUSTED.get(full)
            if call is not None and where != "_codecs":
                return functools.partial(call, tensors)
            if full in NAMES and where != "builtins":
                return NAMES[full]
            if what in STORAGES and where.startswith("torch"):
                return STORAGES[what]
            if full in UNKNOWN:
                raise unknown(full)
            if where == "torch" or where.startswith("torch."):
                return _own_class(where, what, own_classes, name)
            if where.startswith(f"{_PACKAGE}."):
                return _found(where, what)
            return super().find_class(where, what)

    return Unpickler


def _own_class(where: str, what: str, wanted: bool, name: Any) -> Any:
    """This package's object under PyTorch's name."""
    if not wanted and sys.modules.get("torch") is not sys.modules[_PACKAGE]:
        raise UnpicklingError(
            f"{name} names PyTorch's {where}.{what}: load(torch_classes=True) uses this package's class "
            "instead"
        )
    return _found(_PACKAGE + where.removeprefix("torch"), what)


def _found(where: str, what: str) -> Any:
    """An object of this package. PyTorch has more modules; what one does not have is in the package above it."""
    try:
        return operator.attrgetter(what)(importlib.import_module(where))
    except (AttributeError, ModuleNotFoundError):
        above = importlib.import_module(where.rpartition(".")[0] or where)
        if not hasattr(above, what):
            raise
        return getattr(above, what)


# ------------------------------------------------------------- what is in a file


def globals_in(data: bytes) -> set[str]:
    """The full names that a pickle looks up, without building anything."""
    found: set[str] = set()
    texts: list[str] = []
    try:
        for code, argument, _ in pickletools.genops(io.BytesIO(data)):
            if code.name == "GLOBAL":
                found.add(".".join(_python3(*str(argument).split(" ", 1))))
            elif code.name == "STACK_GLOBAL" and len(texts) > 1:
                found.add(".".join(_python3(texts[-2], texts[-1])))
            elif isinstance(argument, str):
                texts.append(argument)
    except (ValueError, UnicodeDecodeError, struct.error) as error:
        raise UnpicklingError(str(error)) from error
    return found


def safe_names() -> set[str]:
    """All full names that `Safe` accepts."""
    return {*NAMES, *CALLED, *UNKNOWN, *allowed_names()}


def warn_ignored(arguments: dict[str, Any]) -> None:
    if arguments:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=3)
