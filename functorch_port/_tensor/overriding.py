"""``__torch_function__``: classes and modes that decide what a function of Tensors does.

A program without them pays nothing for them. The first class of Tensors that has a ``__torch_function__``, the first
mode, and the first other object of that kind in an argument that is refused call `activate`: it gives every public
function (`publish`) other code, which asks the arguments first. Functions stay the objects they were, so a table that
has them as keys holds. What the library calls inside is not published and asks nobody.
"""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from .._base.modes import OfThread
from . import errors

__all__ = [
    "Public", "Without", "WithoutAll", "activate", "asked", "copied", "default", "disabled", "has_override",
    "is_overriding", "noticed", "noticing", "overriding_args", "publish", "state",
]  # fmt: skip


class _State(OfThread):
    """Of a thread: the modes that are on, and what is asked."""

    def __init__(self) -> None:
        self.modes: tuple[Any, ...] = ()
        self.subclasses = True
        self.enabled = True


state = _State()
_lock = threading.RLock()
_active = False
_BASIC = frozenset({int, float, bool, complex, str, type(None), slice, type(...)})


@dataclass(eq=False)
class Public:
    """A public function of Tensors, or the getter or setter of a property.

    Attributes:
        code_of: the function that gets other code.
        given: what ``__torch_function__`` is given as ``func``.
        path: where it is found.
        spelled: whether PyTorch's is written in Python: there keywords are spelled out and Tensors are asked, too.
        alone: whether only the first argument is asked, and also if it is a Tensor: properties, methods without
            arguments.
        asks: whether arguments are asked; a factory asks modes only.
        operator: whether a TypeError is for the other operand to hear of.
    """

    code_of: FunctionType
    given: Callable[..., Any]
    path: str
    spelled: bool = False
    alone: bool = False
    asks: bool = True
    operator: bool = False
    #: what error texts call it, if not by its path
    label: str = ""


#: by what ``func`` is
published: dict[Any, Public] = {}
_waiting: list[Public] = []


def publish(public: Public) -> None:
    """Have a function ask whoever overrides it, from `activate` on."""
    published.setdefault(public.given, public)
    with _lock:
        if _active:
            _give_code(public)
        else:
            _waiting.append(public)


def activate() -> None:
    """Have all public functions ask."""
    global _active
    with _lock:
        _active = True
        while _waiting:
            _give_code(_waiting.pop())


def copied(fn: FunctionType, name: str, module: str) -> FunctionType:
    """A function of its own with the same code."""
    copy = FunctionType(fn.__code__, fn.__globals__, name, fn.__defaults__, fn.__closure__)
    functools.update_wrapper(copy, fn)
    copy.__kwdefaults__ = fn.__kwdefaults__
    copy.__name__ = copy.__qualname__ = name
    copy.__module__ = module
    if getattr(fn, "__wrapped__", None) is None:
        del copy.__wrapped__  # type: ignore[attr-defined]
    else:
        copy.__wrapped__ = fn.__wrapped__  # type: ignore[attr-defined]
    return copy


def _give_code(public: Public) -> None:
    fn = public.code_of
    run = _overridden(public, copied(fn, fn.__name__, fn.__module__))
    if not hasattr(fn, "__wrapped__"):  # where `inspect` finds the signature
        fn.__wrapped__ = copied(fn, fn.__name__, fn.__module__)  # type: ignore[attr-defined]
    fn.__kwdefaults__ = {**(fn.__kwdefaults__ or {}), "_run": run}
    fn.__code__ = _code(len(fn.__closure__ or ()))


@functools.cache
def _code(cells: int) -> CodeType:
    """The code that hands over to ``_run``, for a function whose closure has so many cells."""
    names = "".join(f"c{i}, " for i in range(cells))
    made: dict[str, Any] = {}
    exec(
        f"def outer({names}):\n"
        f" def overridden(*args, _run=None, **kwargs):\n"
        f"  if False: ({names})\n"
        f"  return _run(args, kwargs)\n"
        f" return overridden",
        made,
    )
    return made["outer"](*[None] * cells).__code__


def _overridden(public: Public, usual: Callable[..., Any]) -> Callable[..., Any]:
    """A call of a public function: whoever overrides it is asked, and if nobody does it goes the usual way."""
    asks, alone, spelled = public.asks, public.alone, public.spelled
    tensor = tensor_class()
    quiet = not asks or getattr(public.given, "__name__", "") == "__set__"

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if state.enabled and (asks or state.modes):
            found: list[Any] = []
            if asks and state.subclasses:
                _find(args[:1] if alone else args, found, tensor)
                if kwargs:
                    _find(kwargs.values(), found, tensor)
            if found or state.modes:
                if alone:
                    found = list(args[:1])
                elif spelled and state.subclasses:
                    found = overriding_args(_relevant(args, kwargs))
                return _ask(public, found, args, kwargs)
        if quiet:
            with Without():
                return usual(*args, **kwargs)
        return usual(*args, **kwargs)

    return run


def _find(args: Iterable[Any], found: list[Any], tensor: type) -> None:
    """Add those that override functions, of one class the first, subclasses before what they are subclasses of."""
    for a in args:
        cls = a.__class__
        if cls is tensor or cls in _BASIC:
            continue
        if cls is tuple or cls is list:
            for item in a:
                if item.__class__ is not tensor and is_overriding(type(item)):
                    _insert(item, found)
        elif is_overriding(type(a)):
            _insert(a, found)


def _insert(a: Any, found: list[Any]) -> None:
    cls = type(a)
    if any(type(b) is cls for b in found):
        return
    at = next((i for i, b in enumerate(found) if issubclass(cls, type(b))), len(found))
    found.insert(at, a)


def _relevant(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    flat: list[Any] = []
    for a in (*args, *kwargs.values()):
        flat += a if a.__class__ is list or a.__class__ is tuple else (a,)
    return flat


def is_overriding(cls: type) -> bool:
    """Whether a class has a ``__torch_function__`` that is not switched off."""
    return getattr(cls, "__torch_function__", disabled) is not disabled


def overriding_args(args: Iterable[Any]) -> list[Any]:
    """The arguments to ask, Tensors among them, of each class the first, subclasses before their bases."""
    found: list[Any] = []
    for a in args:
        if is_overriding(type(a)):
            _insert(a, found)
    return found


def has_override(args: Iterable[Any]) -> bool:
    """Whether a function of these arguments is somebody else's to decide: of one of them, or of a mode."""
    if not state.enabled:
        return False
    tensor = tensor_class()
    return bool(state.modes) or (
        state.subclasses and any(type(a) is not tensor and is_overriding(type(a)) for a in args)
    )


def _ask(public: Public, found: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if public.spelled:
        args, kwargs = _spelled_out(public.given, args, kwargs)
    try:
        return asked(public.given, found, args, kwargs, public)
    except TypeError:
        if public.operator:
            return NotImplemented
        raise


def asked(
    given: Callable[..., Any],
    found: list[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    public: Public | None = None,
) -> Any:
    """What the innermost mode, or else one of ``found``, makes of a call.

    Raises:
        TypeError: nobody takes it.
    """
    types = tuple(map(type, found))
    compact = public is not None and not public.spelled and not kwargs
    words: tuple[Any, ...] = (given, types, args) if compact else (given, types, args, kwargs)
    modes = state.modes
    if modes:
        state.modes = modes[:-1]
        try:
            result = modes[-1].__torch_function__(*words)
        finally:
            state.modes = modes
        if result is not NotImplemented:
            return result
    for a in found:
        function = a.__torch_function__
        if getattr(function, "__self__", None) is a:
            warnings.warn(
                "Defining your `__torch_function__` as a plain method is deprecated and will be an error in future, "
                "please define it as a classmethod.",
                DeprecationWarning,
                stacklevel=4,
            )
        result = function(*words)
        if result is not NotImplemented:
            return result
    if public is not None and not public.spelled:
        name = public.label or public.path
        tried = [f"\n  - mode object {modes[-1]!r}"] if modes else []
        tried += [f"\n  - tensor subclass {cls!r}" for cls in types]
        raise TypeError(
            f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented:\n"
            f"{''.join(tried)}\n\nFor more information, try re-running with TORCH_LOGS=not_implemented"
        )
    name = public.path if public is not None else f"{given.__module__}.{given.__name__}"
    mode = f" nor in mode {modes[-1]!r}" if modes else ""
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: {list(types)}{mode}"
    )


def _spelled_out(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as PyTorch's Python functions hand them on: what has a default by name, defaults too."""
    signature = _signature(fn)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # which the function itself says better
        return args, kwargs
    bound.apply_defaults()
    first: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        value = bound.arguments[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            first += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            first.append(value)
        else:
            named[name] = value
    return tuple(first), named


_signature = functools.cache(inspect.signature)


# ------------------------------------------------------- what is no Tensor


def noticed(args: Iterable[Any], kwargs: Mapping[str, Any] = {}) -> bool:
    """Whether something among arguments that were refused overrides functions; if so these ask from now on."""
    if not (state.enabled and state.subclasses):
        return False
    tensor = tensor_class()
    found = any(is_overriding(type(a)) and not isinstance(a, tensor) for a in _relevant(tuple(args), kwargs))
    if found:
        activate()
    return found


def noticing(fn: Callable[..., Any], name: str, module: str) -> FunctionType:
    """A function under its public name, which looks whether arguments that it refuses override functions."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = fn(*args, **kwargs)
            if result is not NotImplemented or not noticed(args, kwargs):
                return result
        except Exception as error:
            if not noticed(args, kwargs):
                new = None
                if error.__class__ is AttributeError and not module.endswith("functional"):
                    new = errors.not_a_tensor(error, name, args, kwargs, _tensor)  # type: ignore[arg-type]
                if new is None:
                    raise
                raise new from None
        return call(*args, **kwargs)  # it has other code now

    call.__name__ = call.__qualname__ = name
    call.__module__ = module
    return call  # type: ignore[return-value]


# ---------------------------------------------------- what a subclass does


#: the class `Tensor`, which sets it
_tensor: Any = None


def tensor_class() -> Any:
    """The class `Tensor`."""
    return _tensor


def disabled(func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The ``__torch_function__`` of classes that do not override anything."""
    with Without():
        return func(*args, **(kwargs or {}))


def no_dispatch(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The ``__torch_dispatch__`` of classes that say that they have none."""
    return func(*args, **(kwargs or {}))


def default(cls: type, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """`Tensor.__torch_function__`: the function itself, and what it returns as instances of the class."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with Without():
        result = func(*args, **(kwargs or {}))
        return result if func in unwrapped() else _as_instances(result, cls)


def _as_instances(result: Any, cls: Any) -> Any:
    tensor = tensor_class()
    if cls is tensor:
        return result
    if isinstance(result, tensor):
        return result if isinstance(result, cls) or result._sparse else result.as_subclass(cls)
    if isinstance(result, tuple | list):
        items = [_as_instances(r, cls) for r in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


@functools.cache
def unwrapped() -> frozenset[Any]:
    """The functions whose results stay what they are."""
    tensor = tensor_class()
    return frozenset({tensor.grad.__get__, tensor._grad.__get__})


class Without:
    """A context in which no arguments are asked."""

    modes = True

    def __enter__(self) -> None:
        self.before = state.subclasses, state.enabled
        state.subclasses, state.enabled = False, state.enabled and self.modes

    def __exit__(self, *exc: object) -> None:
        state.subclasses, state.enabled = self.before


class WithoutAll(Without):
    """A context in which nobody is asked, no modes either."""

    modes = False


# ------------------------------------------------------- what `torch.overrides` shows


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is active or one of the arguments overrides ``__torch_function__``.

    Example:
        >>> import functorch_port as torch
        >>> class Mine(torch.Tensor):
        ...     pass
        >>> torch.overrides.has_torch_function((Mine(2), 1)), torch.overrides.has_torch_function((torch.ones(2), 1))
        (True, False)
    """
    return has_override(relevant_args)


def has_torch_function_unary(a: Any) -> bool:
    """`has_torch_function` for one argument."""
    return has_override((a,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function` for several arguments."""
    return has_override(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Call ``__torch_function__`` of the innermost mode or of ``relevant_args`` for ``public_api``.

    Raises:
        TypeError: every ``__torch_function__`` returns NotImplemented.

    Example:
        >>> import functorch_port as torch
        >>> class Mine:
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         return func.__name__, args[1]
        >>> mine = Mine()
        >>> torch.overrides.handle_torch_function(torch.add, (mine,), mine, 3)
        ('add', 3)
    """
    found = overriding_args(relevant_args)
    return asked(public_api, found, args, kwargs)


for _function in (
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    handle_torch_function,
):
    _function.__module__ = "functorch_port.overrides"
