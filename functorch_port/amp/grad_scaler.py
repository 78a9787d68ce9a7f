"""`GradScaler`: scales the loss up and the gradients down, so that float16 gradients do not underflow."""

from __future__ import annotations

import inspect
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._array import executor, tracing
from .._array.symbolic import SymNumber
from .._base import dtypes, memory
from .._tensor.creation import full
from .._tensor.tensor import Tensor
from ..accelerator import jax_devices
from ..optim.optimizer import take_premade

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """An optimizer's stage in the current iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales the loss, unscales the gradients, skips steps with inf or NaN gradients, and adapts the scale.

    Args:
        device: the device type; with ``"cuda"`` and no GPU the scaler warns and disables itself.
        init_scale: the initial scale.
        growth_factor: factor on the scale after ``growth_interval`` steps in a row without inf or NaN.
        backoff_factor: factor on the scale after a skipped step.
        growth_interval: the number of steps after which the scale grows.
        enabled: False makes `scale` return its input, `step` call ``optimizer.step()``, and the rest do nothing.

    Example:
        >>> import functorch_port as torch
        >>> w = torch.nn.Parameter(torch.ones(2))
        >>> optimizer = torch.optim.SGD([w], lr=0.5)
        >>> scaler = torch.amp.GradScaler("cpu")
        >>> scaler.scale(w.sum()).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> w.detach()
        tensor([0.5000, 0.5000])

    Reference: https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not jax_devices("cuda"):
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_scale = init_scale
        self._init_growth_tracker = 0
        # Tensors, made at the first call of `scale` on the device of the loss.
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: defaultdict[int, dict[str, Any]] = defaultdict(_fresh_state)

    # ------------------------------------------------------------------ one iteration

    def scale(self, outputs: Any) -> Any:
        """Multiply the loss (or a nested list of losses) by the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._start(outputs)
            return outputs * self._scale.to(outputs.device)  # type: ignore[union-attr]
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled  # type: ignore[call-arg]
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _start(self, like: Tensor) -> None:
        self._scale = full((), self._init_scale, dtype=dtypes.float32, device=like.device)
        self._growth_tracker = full((), self._init_growth_tracker, dtype=dtypes.int32, device=like.device)

    def _started(self, name: str) -> tuple[Tensor, Tensor]:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        assert self._growth_tracker is not None
        return self._scale, self._growth_tracker

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        found: dict[Any, Tensor] = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divide the optimizer's gradients by the scale, for instance to clip them before `step`.

        Raises:
            RuntimeError: `unscale_` or `step` was called since the last `update`.
            ValueError: a gradient is float16.
        """
        if not self._enabled:
            return
        scale, _ = self._started("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        state["found_inf_per_device"] = _unscale_grads(optimizer, scale)
        state["stage"] = OptState.UNSCALED

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        """Check the scaled gradients for inf and NaN, for an optimizer that unscales them itself."""
        self._started("_check_inf_per_device")
        found = _unscale_grads(optimizer, None)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients if needed; call ``optimizer.step(...)`` unless one is inf or NaN.

        An optimizer with a true attribute ``_step_supports_amp_scaling`` does both itself: during the step it has the
        tensors ``grad_scale`` and ``found_inf`` as attributes.

        Raises:
            RuntimeError: a closure is passed, or `step` was called since the last `update`.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._started("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            out = self._step_by_itself(optimizer, state, args, kwargs)
            state["stage"] = OptState.STEPPED
            return out
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        found = state["found_inf_per_device"]
        if not found:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        if tracing.overlay:
            out = _step_unless(found.values(), optimizer, args, kwargs)
        else:
            skip = any(flag.item() for flag in found.values())
            out = None if skip else optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return out

    def _step_by_itself(self, optimizer: Any, state: dict[str, Any], args: Any, kwargs: Any) -> Any:
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed "
                "optimizer. In the near future GradScaler registers `grad_scale: Tensor` and "
                "`found_inf: Tensor` to the passed optimizer and let the optimizer use them directly.",
                FutureWarning,
                stacklevel=3,
            )
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        scale, _ = self._started("step")
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        flags = [flag.to(scale.device) for flag in state["found_inf_per_device"].values()]
        before = getattr(optimizer, "grad_scale", None)
        if state["stage"] is OptState.READY:
            before = scale * (1 if before is None else before)
        optimizer.grad_scale = before
        optimizer.found_inf = sum(flags)
        out = optimizer.step(*args, **kwargs)
        del optimizer.grad_scale
        del optimizer.found_inf
        return out

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale; call this at the end of every iteration.

        Args:
            new_scale: the scale to set instead.
        """
        if not self._enabled:
            return
        scale, tracker = self._started("update")
        if new_scale is not None:
            self._replace(scale, new_scale)
        else:
            flags = [
                flag.to(scale.device)
                for state in self._per_optimizer_states.values()
                for flag in state["found_inf_per_device"].values()
            ]
            if not flags:
                raise AssertionError("No inf checks were recorded prior to update.")
            run = _adapt if tracing.overlay else _adapt_compiled
            factors = (self._growth_factor, self._backoff_factor, self._growth_interval)
            given = (scale._value, tracker._value, [flag._value for flag in flags], *factors)
            with tracing.x64():
                new = memory.run(run, given)
            scale._set_value(new[0])
            tracker._set_value(new[1])
        self._per_optimizer_states = defaultdict(_fresh_state)

    def _replace(self, scale: Tensor, new: Any) -> None:
        if isinstance(new, float):
            scale.fill_(new)  # type: ignore[attr-defined]
            return
        if new.device.type != self._device or new.numel() != 1 or new.requires_grad:
            raise AssertionError(
                "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                "requires_grad=False."
            )
        scale.copy_(new)  # type: ignore[attr-defined]

    # ------------------------------------------------------------------ settings and state

    def get_scale(self) -> float:
        """The scale; 1.0 if the scaler is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def get_growth_factor(self) -> float:
        """The growth factor."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The backoff factor."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The growth interval."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the growth interval."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether the scaler is enabled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, factors, interval and count of steps without inf or NaN; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a `state_dict`.

        Raises:
            RuntimeError: ``state_dict`` is empty, as that of a disabled scaler is.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of "
                "GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(state_dict["scale"])  # type: ignore[attr-defined]
            self._growth_tracker.fill_(state_dict["_growth_tracker"])  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the "
                    "end after scaler.update()."
                )
            state.update(_init_scale=self.get_scale(), _init_growth_tracker=self._get_growth_tracker())
            state.update(_scale=None, _growth_tracker=None)
        return state


def _unscale_grads(optimizer: Any, scale: Tensor | None) -> dict[Any, Tensor]:
    """Divide the gradients by ``scale``, if not None; returns by device whether one is not finite."""
    by_device: dict[Any, list[Tensor]] = {}
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is None:
                continue
            if scale is not None and p.grad.dtype is dtypes.float16:
                raise ValueError("Attempting to unscale FP16 gradients.")
            values = p.grad._vals if p.grad._sparse else p.grad  # type: ignore[attr-defined]
            by_device.setdefault(p.grad.device, []).append(values)
    run = _unscale if tracing.overlay else _unscale_compiled
    found = {}
    for place, grads in by_device.items():
        by = None if scale is None else scale.to(place)._value  # type: ignore[attr-defined]
        values = [g._value for g in grads]
        spread = not tracing.overlay and any(not getattr(v, "is_fully_addressable", True) for v in values)
        if spread and by is not None:  # the processes have the same scale
            by = np.asarray(by)
        with tracing.x64():
            unscaled, flag = memory.run(run, (values, by))
            if spread:
                flag = executor.current.place(np.asarray(flag))
        if scale is not None:
            for grad, value in zip(grads, unscaled, strict=True):
                grad._set_value(value)
        found[place] = Tensor._wrap(flag)
    return found


def _step_unless(flags: Iterable[Tensor], optimizer: Any, args: Any, kwargs: Any) -> Any:
    """In a trace: take the step, then restore the old values where a flag is set."""
    found_inf = jnp.stack([flag._value for flag in flags]).sum() > 0
    for p in list(optimizer._premade):
        take_premade(optimizer, p)
    _check_first_state(optimizer)
    before = {t._storage: t._storage.value for t in _tensors(optimizer)}
    numbers = _numbers(optimizer)
    out = optimizer.step(*args, **kwargs)
    if any(value is not numbers.get(place) for place, value in _numbers(optimizer).items()):
        raise NotImplementedError(
            f"GradScaler.step in a compiled function: {type(optimizer).__name__} changes Python numbers in its state, "
            "which a skipped step cannot restore. Keep them as tensors, or call scaler.step() outside"
        )
    chosen: dict[tuple[int, int], tuple[Any, ...]] = {}  # Storages that share a value still share one
    for cell in {t._storage: None for t in _tensors(optimizer)}:
        new = cell.value
        old = before[cell] if cell in before else jnp.zeros_like(new)
        if (id(old), id(new)) not in chosen:
            chosen[id(old), id(new)] = jnp.where(found_inf, old, new), old, new
        cell.value = chosen[id(old), id(new)][0]
    return out


def _check_first_state(optimizer: Any) -> None:
    """Refuse a first step whose new state depends on whether it is skipped."""
    first = getattr(optimizer, "_init_state", None)
    for group in optimizer.param_groups if first is not None else ():
        for p in group["params"]:
            if p.grad is not None and not optimizer.state.get(p) and first(p, group) is None:
                raise NotImplementedError(
                    f"GradScaler.step in a compiled function cannot be the first step of {type(optimizer).__name__} "
                    "with dampening, whose momentum starts as the first gradient: take the first step outside"
                )


def _numbers(optimizer: Any) -> dict[Any, Any]:
    """The Python numbers in the optimizer's state, by their place."""
    return {
        (id(p), key): value
        for p, state in optimizer.state.items()
        if isinstance(state, dict)
        for key, value in state.items()
        if isinstance(value, (int, float, SymNumber)) and not isinstance(value, bool)
    }


def _tensors(optimizer: Any) -> list[Tensor]:
    """The parameters and the tensors of their state."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    states = [v for state in optimizer.state.values() if isinstance(state, dict) for v in state.values()]
    return params + [v for v in states if isinstance(v, Tensor)]


def _unscale(grads: Sequence[Any], scale: Any) -> tuple[list[Any], Any]:
    """The gradients divided by the scale, if not None, and 1.0 if one of them was not finite, else 0.0."""
    found = jnp.any(jnp.stack([~jnp.isfinite(g).all() for g in grads]))
    if scale is None:
        return [], found.astype(jnp.float32)
    inverse = (1.0 / scale.astype(jnp.float64)).astype(jnp.float32)
    return [(g * inverse).astype(g.dtype) for g in grads], found.astype(jnp.float32)


def _adapt(
    scale: Any, tracker: Any, flags: Sequence[Any], growth: Any, backoff: Any, interval: Any
) -> tuple[Any, Any]:
    """The next scale and count of finite steps; the scale does not grow past the largest finite number."""
    bad = sum(flags) > 0
    good_steps = tracker + 1
    grown = (scale * jnp.asarray(growth, jnp.float64)).astype(jnp.float32)
    due = good_steps == interval
    kept = jnp.where(due & jnp.isfinite(grown), grown, scale)
    shrunk = (scale * jnp.asarray(backoff, jnp.float64)).astype(jnp.float32)
    return jnp.where(bad, shrunk, kept), jnp.where(bad | due, 0, good_steps).astype(tracker.dtype)


_unscale_compiled = jax.jit(_unscale)
_adapt_compiled = jax.jit(_adapt)
