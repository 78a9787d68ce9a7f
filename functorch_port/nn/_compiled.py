"""`OptimizedModule`, which `compile(module)` returns."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

from .._trace.compiled import Compiled
from ._module import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """A wrapper of a module, ``_orig_mod``, whose calls are compiled.

    The wrapper has the module's attributes: parameters, buffers, ``training`` and those of its class. As in PyTorch,
    the names in `state_dict` begin with ``_orig_mod.``. Hooks of the wrapper run around the compiled call, hooks of the
    module inside of it. A copy of the wrapper compiles again.

    Args:
        module: the module.
        options: the options of `functorch_port.compile`.

    Attributes:
        compiled: the compiled function, with its ``traces`` and ``explain()``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    """

    def __init__(self, module: Module, **options: Any) -> None:
        super().__init__()
        del self.__dict__["training"]
        self._orig_mod = module
        self.__dict__["_options"] = options
        self.__dict__["compiled"] = Compiled(type(module).__call__.__get__(module), **options)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.compiled(*args, **kwargs)

    @property
    def training(self) -> bool:  # type: ignore[override]
        """The module's mode."""
        return self._orig_mod.training

    @training.setter
    def training(self, mode: bool) -> None:
        self._orig_mod.training = mode

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__["_modules"]["_orig_mod"]
        return module if name == "_orig_mod" else getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_own(name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if self._is_own(name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def _is_own(self, name: str) -> bool:
        """Whether the wrapper itself has the attribute, as it has those of every `Module`."""
        return name == "_orig_mod" or name in self.__dict__ or hasattr(type(self), name)

    def __len__(self) -> int:
        module = self._orig_mod
        if isinstance(module, Sized):
            return len(module)
        raise TypeError(f"{type(module).__name__} does not support len()")

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _compiled, (self._orig_mod, self._options)


def _compiled(module: Module, options: dict[str, Any]) -> OptimizedModule:
    return OptimizedModule(module, **options)
