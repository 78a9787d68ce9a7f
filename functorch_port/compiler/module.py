"""What `compile(module)` returns."""

from __future__ import annotations

from typing import Any

from ..nn.module import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """A module whose call is compiled. Parameters, buffers and modes are those of the original, ``_orig_mod``.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    """

    def __init__(self, module: Module, compiled: Any) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["compiled"] = compiled
        self.training = module.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["compiled"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)
