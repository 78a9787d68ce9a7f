"""The libraries behind one interface: make a run, feed it gradients, read its parameters and state."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import functorch_port
from functorch_port._array import tracing

from ._problems import Arrays, WrongUse

__all__ = ["DTYPES", "OptaxRun", "Run", "TorchRun", "library", "missing", "state_of"]

#: dtype name -> numpy type
DTYPES: dict[str, Any] = {
    "float64": np.float64, "float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16,
}  # fmt: skip

Evaluate = Callable[[Arrays], tuple[float, Arrays]]


class Run(Protocol):
    """A run of one optimizer of one library."""

    def step(self, evaluate: Evaluate) -> None:
        """Take a step with the gradients of ``evaluate`` at the current parameters."""

    def feed(self, grads: Mapping[str, Any]) -> None:
        """Take a step with these gradients."""

    def params(self) -> Arrays:
        """The parameters in float64."""

    def state(self) -> dict[str, np.ndarray]:
        """The state in float64, as ``entry of parameter``."""


def library(name: str) -> Any:
    """Import ``functorch_port`` or PyTorch.

    Raises:
        ImportError: PyTorch is not installed, or ``torch`` is this package in this process.
    """
    if name == "ours":
        return functorch_port
    torch = importlib.import_module("torch")
    if torch is functorch_port or sys.modules.get("torch") is functorch_port:
        raise ImportError("in this process `torch` is functorch_port")
    return torch


def missing(name: str) -> str | None:
    """Why a library is not available; None if it is."""
    try:
        importlib.import_module("optax") if name == "optax" else library(name)
    except ImportError as error:
        return str(error)
    return None


class TorchRun:
    """An optimizer of PyTorch or of this package: the same code for both."""

    def __init__(self, lib: Any, optimizer: str, options: dict[str, Any], start: Arrays, dtype: str) -> None:
        self.lib, self.dtype = lib, getattr(lib, dtype)
        self.sparse = optimizer == "SparseAdam"
        self.values = {k: lib.nn.Parameter(self._tensor(v)) for k, v in start.items()}
        try:
            self.optimizer = getattr(lib.optim, optimizer)(list(self.values.values()), **options)
        except (TypeError, ValueError, RuntimeError) as error:
            written = ", ".join(f"{k}={v!r}" for k, v in options.items())
            known = list(inspect.signature(getattr(lib.optim, optimizer)).parameters)[1:]
            unknown = f" (its options: {', '.join(known)})" if not set(options) <= set(known) else ""
            raise WrongUse(f"{lib.__name__}.optim.{optimizer}({written}): {error}{unknown}") from error
        self.with_closure = optimizer == "LBFGS"

    def _tensor(self, value: np.ndarray) -> Any:
        return self.lib.tensor(np.array(value, np.float64)).to(self.dtype)

    def _gradient(self, value: np.ndarray) -> Any:
        if not self.sparse:
            return self._tensor(value)
        rows = np.arange(0, value.shape[0], 2)  # every other row
        values, indices = self._tensor(value[rows]), self.lib.tensor(rows[None])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that invariants are not checked
            return self.lib.sparse_coo_tensor(indices, values, value.shape)

    def step(self, evaluate: Evaluate) -> None:
        def closure() -> Any:
            loss, grads = evaluate(self.params())
            self.set_grads(grads)
            return self.lib.tensor(np.float64(loss)).to(self.dtype)

        if self.with_closure:
            self.optimizer.step(closure)
            return
        closure()
        self.optimizer.step()

    def feed(self, grads: Mapping[str, np.ndarray | None]) -> None:
        """Take a step with these gradients."""
        self.set_grads(grads)
        self.optimizer.step()

    def set_grads(self, grads: Mapping[str, np.ndarray | None]) -> None:
        """Set the gradients; None for a missing one."""
        for name, p in self.values.items():
            grad = grads[name]
            p.grad = None if grad is None else self._gradient(grad)

    def params(self) -> Arrays:
        return {k: _plain(p) for k, p in self.values.items()}

    def state(self) -> dict[str, np.ndarray]:
        return state_of(self.optimizer, self.values)


def state_of(optimizer: Any, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The tensors and numbers of an optimizer's state, as ``entry of parameter``."""
    found = {}
    for name, p in values.items():
        for key, value in optimizer.state.get(p, {}).items():
            if hasattr(value, "detach") and not getattr(value, "_sparse", False):
                found[f"{key} of {name}"] = _plain(value)
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                found[f"{key} of {name}"] = np.array(value, np.float64)
    return found


def _plain(tensor: Any) -> np.ndarray:
    return np.array(tensor.detach().to(dtype=_double(tensor)).numpy())


def _double(tensor: Any) -> Any:
    kind = type(tensor).__module__.split(".")[0]
    lib = functorch_port if kind == "functorch_port" else sys.modules[kind]
    return lib.complex128 if tensor.is_complex() else lib.float64


@contextlib.contextmanager
def optax_settings() -> Iterator[None]:
    """The settings of JAX under which optax runs."""
    with tracing.x64(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # optax's deprecation warnings
        yield


class OptaxRun:
    """An optax transformation, which ``make`` returns, jitted, on a dict of arrays."""

    def __init__(self, make: Callable[[], Any], start: Arrays, dtype: str) -> None:
        import optax

        self.kind = DTYPES[dtype]

        def update(params: Any, state: Any, grads: Any) -> Any:
            updates, state = tx.update(grads, state, params)
            return optax.apply_updates(params, updates), state

        with optax_settings():
            tx = make()
            self.values = {k: jnp.asarray(np.asarray(v), self.kind) for k, v in start.items()}
            self.inner = tx.init(self.values)
        self.update = jax.jit(update)

    def step(self, evaluate: Evaluate) -> None:
        self.feed(evaluate(self.params())[1])

    def feed(self, grads: Mapping[str, Any]) -> None:
        """Take a step with these gradients."""
        with optax_settings():
            slopes = {k: jnp.asarray(grads[k], self.kind) for k in self.values}
            self.values, self.inner = self.update(self.values, self.inner, slopes)

    def params(self) -> Arrays:
        return {k: np.asarray(v).astype(np.float64) for k, v in self.values.items()}

    def state(self) -> dict[str, np.ndarray]:
        return {}
