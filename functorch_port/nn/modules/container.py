"""Containers: `Container`, `Sequential`, `ModuleList`, `ModuleDict`, `ParameterList`, `ParameterDict`."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain
from typing import Any, Self

from ..._array import tracing
from ..._tensor.tensor import Tensor
from .._conversion import typename
from .._module import Module, indent
from ..parameter import Parameter
from ._scanning import check_remat, scan

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _position(index: Any, length: int) -> int:
    """An index into `length` items; negative ones count from the end."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range")
    return index % length if length else index


class Container(Module):
    """Modules by name. Deprecated: subclass `Module`."""

    def __init__(self, **kwargs: Any) -> None:
        if type(self) is Container:
            warnings.warn(
                "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. "
                "Subclass that instead.",
                FutureWarning,
                stacklevel=2,
            )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """Base of `Sequential` and `ModuleList`: children in order; a change renumbers their keys '0', '1', ..."""

    def _set_children(self, modules: Iterable[Any]) -> None:
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(modules))
        tracing.bump_epoch()

    def _key(self, index: Any) -> str:
        return list(self._modules)[_position(index, len(self))]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            delattr(self, key)
        self._set_children(list(self._modules.values()))

    def append(self, module: Module) -> Self:
        """Append a module."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove and return the module at `key`."""
        module = self[key]
        del self[key]
        return module


class Sequential(_Numbered):
    """Modules called in sequence, each on the output of the one before.

    Args:
        args: the modules, or one `OrderedDict` of names to modules.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
        Sequential(
          (0): Linear(in_features=2, out_features=3, bias=True)
          (1): ReLU()
        )

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Sequential.html
    """

    #: what `scan_` was told; None where it was not called
    scanned: Any = None

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = (
            args[0]
            if len(args) == 1 and isinstance(args[0], OrderedDict)
            else {str(i): m for i, m in enumerate(args)}
        )
        for name, module in named.items():
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        if self.scanned is not None:
            return scan(self, input, remat=self.scanned)
        for module in self._modules.values():
            input = module(input)
        return input

    def scan_(self, remat: bool | str | Callable[..., Any] = False) -> Self:
        """Have compiled functions compute the modules, which must be equal, as one `scan`; returns the module itself.

        Parameters stay those of the modules, and so do the keys of ``state_dict``.

        Args:
            remat: what the backward pass computes again: False, True (all but the modules' inputs), or a policy of
                `jax.checkpoint`, or its name.

        Example:
            >>> import functorch_port as torch
            >>> layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(12))).scan_(remat=True)
            >>> torch.compile(lambda x: layers(x))(torch.ones(2, 4)).shape
            torch.Size([2, 4])
        """
        check_remat("scan_", remat)
        self.scanned = remat
        return self

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __add__(self, other: Any) -> Sequential:
        self._check_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        self._check_sequential(other)
        return self.extend(other)

    @staticmethod
    def _check_sequential(other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )

    def _check_factor(self, factor: Any) -> None:
        if not isinstance(factor, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(factor)}")
        if factor <= 0:
            raise ValueError(f"Non-positive multiplication factor {factor} for {type(self)}")

    def __mul__(self, other: int) -> Sequential:
        self._check_factor(other)
        return Sequential(*chain.from_iterable([list(self)] * other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        self._check_factor(other)
        return self.extend(list(self) * (other - 1))

    def insert(self, index: int, module: Module) -> Self:
        """Insert a module before position `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index + len(self) if index < 0 else index, module)
        self._set_children(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Append the modules of an iterable."""
        for module in list(sequential):
            self.append(module)
        return self


class ModuleList(_Numbered):
    """A list of modules, registered as submodules.

    Args:
        modules: the initial modules, an iterable.

    Example:
        >>> import functorch_port as torch
        >>> len(torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(3)]))
        3

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html
    """

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._key(index)]

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return type(self)(chain(self, other))

    def insert(self, index: int, module: Module) -> None:
        """Insert a module before position `index`."""
        modules = list(self)
        modules.insert(index, module)
        self._set_children(modules)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Append the modules of an iterable."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        """The repr of `Module`, with repeated modules shown once: ``(0-2): 3 x Linear(...)``."""
        runs: list[tuple[int, int, str]] = []  # first, last, text
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        if not runs:
            return f"{self._get_name()}()"
        shown = [
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in runs
        ]
        body = "\n  ".join(indent(line) for line in shown)
        return f"{self._get_name()}(\n  {body}\n)"


class ModuleDict(Module):
    """A dict of modules, registered as submodules, in insertion order.

    Args:
        modules: the initial modules, a mapping or an iterable of (name, module) pairs.

    Example:
        >>> import functorch_port as torch
        >>> list(torch.nn.ModuleDict({"conv": torch.nn.Identity(), "act": torch.nn.ReLU()}))
        ['conv', 'act']

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleDict.html
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]
        tracing.bump_epoch()

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()
        tracing.bump_epoch()

    def pop(self, key: str) -> Any:
        """Remove and return the module at `key`."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """(name, module) pairs."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace modules from a mapping or an iterable of (name, module) pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(modules).__name__}"
            )
        if isinstance(modules, (ModuleDict, Mapping)):
            pairs: Iterable = modules.items()
        else:
            pairs = _checked_pairs("ModuleDict", modules)
        for name, module in pairs:
            self[name] = module


def _checked_pairs(container: str, items: Iterable[Any]) -> Iterator[Any]:
    for i, item in enumerate(items):
        if not isinstance(item, Iterable):
            raise TypeError(
                f"{container} update sequence element #{i} should be Iterable; is{type(item).__name__}"
            )
        length = len(tuple(item))
        if length != 2:
            raise ValueError(f"{container} update sequence element #{i} has length {length}; 2 is required")
        yield item


def _shown(value: Any, kind_of: Callable[[Tensor], Any]) -> str:
    """The repr of one entry of a parameter container; ``kind_of`` names a tensor's type."""
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(n) for n in value.size())
    where = "" if value.device.type == "cpu" else f" ({value.device})"
    return f"{kind} containing: [{kind_of(value)} of size {size}{where}]"


class ParameterList(Module):
    """A list of parameters. Tensors become parameters; other objects are kept unchanged.

    Args:
        values: the initial values, an iterable.

    Example:
        >>> import functorch_port as torch
        >>> params = torch.nn.ParameterList([torch.zeros(2, 3)])
        >>> params
        ParameterList(  (0): Parameter containing: [torch.float32 of size 2x3])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ParameterList.html
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            out = type(self)()
            for i in range(*index.indices(len(self))):
                out.append(self[i])
            return out
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index: int, param: Any) -> None:
        key = str(_position(index, len(self)))
        if isinstance(param, Tensor) and not isinstance(param, Parameter):
            param = Parameter(param)
        setattr(self, key, param)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> Self:
        """Append a value."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Append the values of an iterable."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_shown(value, lambda t: t.dtype)}" for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of parameters in insertion order. Tensors become parameters; other objects are kept unchanged.

    Args:
        parameters: the initial values, a mapping or an iterable of (name, value) pairs; a plain dict is sorted first.

    Example:
        >>> import functorch_port as torch
        >>> params = torch.nn.ParameterDict({"left": torch.zeros(2)})
        >>> [name for name, _ in params.named_parameters()]
        ['left']

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ParameterDict.html
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, self._key_to_attr(key), value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new ParameterDict with the same parameters."""
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value at `key`; if there is none, `default` is stored first."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all entries."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return the value at `key`."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last (name, value) pair."""
        key, _ = self._keys.popitem()
        value = self[key]
        self._keys[key] = None  # for __delitem__ below
        del self[key]
        return key, value

    def get(self, key: str, default: Any = None) -> Any:
        """The value at `key`, or `default`."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new ParameterDict with the given keys, all with the value `default`."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(name, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add or replace entries from a mapping or pairs; a plain dict is sorted by name first."""
        if not isinstance(parameters, Iterable):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(parameters).__name__}"
            )
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs: Iterable = parameters.items()
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())
        else:
            pairs = _checked_pairs("ParameterDict", parameters)
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_shown(value, typename)}" for key, value in self.items())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        copy = self.copy()
        copy.update(other)
        return copy

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        copy = other.copy()
        copy.update(self)
        return copy

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self
