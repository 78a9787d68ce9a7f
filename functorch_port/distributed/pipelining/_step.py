"""A step of `Schedule1F1B`: the losses of a batch, whose gradients its forward pass computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._array.refusal import Check
from ..._tensor.tensor import Tensor, wrap
from ...autograd.function import Function
from ...func._level import (
    Keyed,
    arrays_of,
    conj,
    refuse_collected,
    rehearsed,
    run_in,
    standing_in,
)
from ..tensor.experimental import local_map
from . import _ticks
from .stage import EVERYWHERE, SPLIT, Layers, PipelineStage, key_in, of_microbatch, words_of

__all__ = ["Step"]

_OUTSIDE = (
    "Schedule1F1B: a layer computes with a tensor that requires grad and is no parameter of it. Make it one, detach() "
    "it, or use ScheduleGPipe"
)
_OWN = (
    "Schedule1F1B: loss_fn computes with parameters of the pipeline's layers. Compute that part of the loss outside of "
    "it, and call its backward() too"
)
_VIEW = "Schedule1F1B: loss_fn computes with a tensor that requires grad and is a view of one that does not: copy it"
_SCALAR = "grad can be implicitly created only for scalar outputs"


class _Losses(Function):
    """An operation that computes its gradients at once."""

    @staticmethod
    def forward(ctx: Any, step: Step, x: Tensor, *tensors: Tensor) -> Any:
        total, losses, results, gradients = step(ctx.needs_input_grad[1:])
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(losses, *([] if results is None else [results]))
        return total, losses, results

    @staticmethod
    def backward(ctx: Any, slope: Tensor, *_: Any) -> Any:
        return None, *[None if g is None else g * slope for g in ctx.saved_tensors]


class Step:
    """One step, in a trace.

    Attributes:
        own: the parameters and buffers of all stages.
        shared: the tensors that ``loss_fn`` computes with and that require grad.
        source: where layers and loss draw random numbers from.
        needed: which of x, ``own`` and ``shared`` are to have a gradient.
    """

    def __init__(
        self,
        stage: PipelineStage,
        loss_fn: Callable[[Tensor, Tensor], Tensor],
        x: Tensor,
        target: Tensor,
        mean: bool,
        with_results: bool,
    ) -> None:
        self.stage, self.loss_fn, self.x, self.target = stage, loss_fn, x, target
        self.scale, self.with_results = 1 / x.size(0) if mean else 1.0, with_results
        self.own = stage.tensors()
        self.source, session, result = stage.rehearsed(x)
        if session.captured:
            raise NotImplementedError(_OUTSIDE)
        session, _ = rehearsed(
            lambda y, target: self._loss(None, y, target[0], 0, []), [result, target._aval()]
        )
        self.shared = [*session.captured]
        if any(tensor is param for tensor in self.shared for param in self.own.values()):
            raise NotImplementedError(_OWN)
        if not all(tensor.requires_grad for tensor in self.shared):
            raise NotImplementedError(_VIEW)
        self.needed: Sequence[bool] = ()

    def losses(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """The sum or the mean of the losses of microbatches (count, n, ...), to be differentiated; the losses; the
        results.

        What is differentiated is x, the parameters of the stages, and what ``loss_fn`` computes with.
        """
        return _Losses.apply(self, self.x, *self.own.values(), *self.shared)  # type: ignore[no-any-return]

    def _loss(self, key: Any, y: Any, target: Any, number: Any, checks: list[Check]) -> Any:
        """The loss of a microbatch."""

        def call(tensors: list[Tensor]) -> Any:
            loss = self.loss_fn(*tensors)
            if not isinstance(loss, Tensor):
                raise TypeError(f"loss_fn must return a Tensor, not {type(loss).__name__}")
            if loss.ndim or not loss.is_floating_point():
                raise RuntimeError(f"{_SCALAR}: loss_fn returns {loss.dtype} of shape {tuple(loss.shape)}")
            return loss._value

        key = of_microbatch(of_microbatch(key, number), 0)  # the first number makes that of the layers
        return run_in(Keyed(self.source, key, checks, "reverse"), call, [y, target])

    def __call__(self, needed: Sequence[bool]) -> Any:
        """The sum or mean of the losses, the losses, the results, and the gradients."""
        self.needed = needed
        words = words_of(self.source)
        tensors = [self.x, self.target, *words, *self.own.values(), *self.shared]
        shared = [EVERYWHERE] * len(self.shared)
        ins: list[Any] = [*[EVERYWHERE] * (2 + len(words)), *[SPLIT] * len(self.own), *shared]
        count = 1 + self.with_results + sum(needed)
        run = local_map(_on_stage, (SPLIT,) * count, (None, *ins), device_mesh=self.stage.mesh)
        losses, *rest = run(self, *tensors)
        losses, results = losses[-1], rest.pop(0)[-1] if self.with_results else None
        made = iter(rest)
        given: list[Any] = [next(made) if need else None for need in needed]
        own = 1 + len(self.own)
        gradients = [
            None if given[0] is None else given[0][0],
            *given[1:own],
            *(g[-1] for g in given[own:]),
        ]
        total = losses.sum()
        return total * self.scale, losses, results, gradients

    def on_stage(self, x: Any, target: Any, tensors: tuple[Tensor, ...]) -> list[Tensor]:
        """What one stage computes."""
        key, rest = key_in(self.source, tensors)
        names, arrays = [*self.own], [t._value for t in rest]
        is_trained = self.needed[1 : 1 + len(names)]
        own, shared = arrays[: len(names)], arrays[len(names) :]
        checks: tuple[list[Check], list[Check]] = [], []
        layers = Layers(self.stage.of_stage(), names, self.source, key, checks[0], "reverse")
        again = Layers(layers.stack, names, self.source, key, [], "reverse")

        def of_trained(layers: Layers) -> Any:
            return lambda some, x, number: layers(_joined(own, some, is_trained), x, number)

        def loss(shared: list[Any], y: Any, target: Any, number: Any) -> Any:
            with standing_in(self.shared, shared):
                return self._loss(key, y, target, number, checks[1]), arrays_of(checks[1])

        found = _ticks.one_forward_one_backward(
            of_trained(layers),
            of_trained(again),
            loss,
            [a for a, need in zip(own, is_trained, strict=True) if need],
            shared,
            x,
            target,
            self.stage.mesh.axes[0],
            self.scale,
            self.with_results,
            self.needed[0],
        )
        for some, rows in zip(checks, found.rows, strict=True):
            refuse_collected(some, rows)
        of_one_stage = [
            found.losses,
            *([found.results] if self.with_results else []),
            *([conj(found.given)] if self.needed[0] else []),
        ]
        made = [
            *(a[None] for a in of_one_stage),
            *map(conj, found.own),
            *(conj(a)[None] for a in found.shared),
        ]
        return [wrap(a) for a in made]


def _on_stage(step: Step, x: Tensor, target: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(step.on_stage(x._value, target._value, tensors))


def _joined(arrays: Sequence[Any], some: Sequence[Any], chosen: Sequence[bool]) -> list[Any]:
    """The arrays, with others for the chosen ones."""
    others = iter(some)
    return [next(others) if is_chosen else a for a, is_chosen in zip(arrays, chosen, strict=True)]
