"""Schedules: in which order the stages of a pipeline compute their microbatches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor
from .stage import PipelineStage

__all__ = ["Schedule1F1B", "ScheduleGPipe"]


class ScheduleGPipe:
    """All microbatches go forward through the stages, then all go back.

    With S stages and M microbatches, a device computes in M of M + S - 1 steps. A stage keeps what its layers need for
    the backward pass for all M; a `ScanStack` with ``remat=True`` keeps the layers' inputs.

    Args:
        stage: a `PipelineStage`.
        n_microbatches: M; it divides the batch.
        loss_fn: ``loss_fn(output, target)`` of a microbatch, for `step`.
        args_chunk_spec, kwargs_chunk_spec, output_merge_spec: must be None: dimension 0 is split.
        scale_grads: divide gradients by ``n_microbatches``, which suits a loss that is a mean.

    Raises:
        NotImplementedError: for the chunk specs.

    Reference: GPipe, https://arxiv.org/abs/1811.06965
    """

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        if (args_chunk_spec, kwargs_chunk_spec, output_merge_spec) != (None, None, None):
            raise NotImplementedError(
                "ScheduleGPipe(args_chunk_spec=, kwargs_chunk_spec=, output_merge_spec=) is not supported: a stage has "
                "one input, which is split along dimension 0"
            )
        self._stage, self._n_microbatches, self._loss_fn = stage, n_microbatches, loss_fn
        self.scale_grads = scale_grads

    def __call__(self, x: Tensor) -> Tensor:
        """The output for a batch, differentiable: for models with more than the pipeline.

        Raises:
            ValueError: the batch is not divisible.
        """
        count = self._n_microbatches
        if x.size(0) % count:
            raise ValueError(f"a batch of {x.size(0)} cannot be split into {count} equal microbatches")
        # every count-th row: if the batch is split over devices, so is each microbatch
        outs = self._stage(x.unflatten(0, (-1, count)).transpose(0, 1))
        return outs.transpose(0, 1).flatten(0, 1)  # type: ignore[no-any-return]

    def step(
        self,
        *args: Tensor,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """The output for a batch; with ``loss_fn``, also the backward pass of the loss.

        Args:
            args: the input of the first stage.
            target: of the last stage.
            losses: the losses of the microbatches are put there.
            return_outputs: False returns None.
            loss_kwargs: for ``loss_fn``.

        Raises:
            NotImplementedError: for several inputs.
        """
        if len(args) != 1 or kwargs:
            raise NotImplementedError("a pipeline of equal layers has one input")
        out = self(*args)
        if self._loss_fn is not None:
            if target is None:
                raise ValueError("step() needs target=: the loss is computed by the same call")
            parts = zip(out.chunk(self._n_microbatches), target.chunk(self._n_microbatches), strict=True)
            found = [self._loss_fn(y, t, **(loss_kwargs or {})) for y, t in parts]
            total = sum(found[1:], found[0])
            (total / self._n_microbatches if self.scale_grads else total).backward()
            if losses is not None:
                losses[:] = [loss.detach() for loss in found]
        return out.detach() if return_outputs else None

    def eval(self, *args: Tensor, target: Any = None, losses: list[Any] | None = None, **kwargs: Any) -> Any:
        """As `step`, without a backward pass."""
        with no_grad():
            fn, self._loss_fn = self._loss_fn, None
            try:
                out = self.step(*args, **kwargs)
            finally:
                self._loss_fn = fn
            if fn is not None and target is not None and losses is not None:
                parts = zip(out.chunk(self._n_microbatches), target.chunk(self._n_microbatches), strict=True)
                losses[:] = [fn(y, t) for y, t in parts]
        return out


class Schedule1F1B(ScheduleGPipe):
    """Not supported.

    Raises:
        NotImplementedError: always. A program's backward pass begins when all of its forward pass is done.

    Reference: https://docs.pytorch.org/docs/stable/distributed.pipelining.html#torch.distributed.pipelining.schedules.Schedule1F1B
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "Schedule1F1B: the backward pass of a program begins when all of its forward pass is done. Use "
            "ScheduleGPipe, with ScanStack(remat=True) for memory, and accumulate the gradients of several steps"
        )
