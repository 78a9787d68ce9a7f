"""Schedules: in which order the stages of a pipeline compute their microbatches."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..._tensor.grad_mode import is_grad_enabled, no_grad
from ..._tensor.tensor import Tensor
from ..._trace.compiled import compile
from ._step import Step
from .stage import PipelineStage

__all__ = ["Schedule1F1B", "ScheduleGPipe"]


class _Schedule:
    """What both schedules have: microbatches, and calls of a whole batch."""

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
                f"{type(self).__name__}(args_chunk_spec=, kwargs_chunk_spec=, output_merge_spec=) is not supported: a "
                "stage has one input, which is split along dimension 0"
            )
        if n_microbatches < 1:
            raise ValueError(f"n_microbatches must be at least 1, not {n_microbatches}")
        self._stage, self._n_microbatches, self._loss_fn = stage, n_microbatches, loss_fn
        self.scale_grads = scale_grads
        self._begin()

    def _begin(self) -> None:
        """What a schedule has beside this."""

    def __call__(self, x: Tensor) -> Tensor:
        """The output for a batch, differentiable: for models with more than the pipeline.

        Raises:
            ValueError: the batch is not divisible.
        """
        return self._stage.together(self._stage(self._split("a batch", x)))

    def step(
        self,
        *args: Tensor,
        target: Tensor | None = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Tensor | None:
        """The output for a batch; with ``loss_fn``, also the backward pass of the losses.

        Gradients are added to those of the layers, of the input if that requires grad, and of what ``loss_fn`` computes
        with. With ``scale_grads`` they are those of the mean of the losses. (PyTorch divides all that ``.grad`` of the
        layers holds, also what an earlier step has left there, and no other gradient.)

        Args:
            args: the input of the first stage.
            target: of the last stage; its rows are split as those of the input.
            losses: the losses of the microbatches are put there.
            return_outputs: False returns None.
            loss_kwargs: for ``loss_fn``, the same for all microbatches.

        Raises:
            NotImplementedError: for several inputs.
            RuntimeError: gradients are disabled: `eval` is for that.
            ValueError: a batch is not divisible, or ``target`` or ``loss_fn`` is missing.
        """
        x = self._checked(args, kwargs, target, losses)
        if self._loss_fn is None:
            with no_grad():
                out = self._stage(x)
        else:
            if not is_grad_enabled():
                raise RuntimeError(
                    "step() requires gradients to be enabled for backward computation; it should not be used under "
                    "torch.no_grad() context. Please call eval() instead."
                )
            total, found, out = self._losses(
                x, self._split("a target", target), loss_kwargs or {}, self.scale_grads, return_outputs
            )
            total.backward()
            if losses is not None:
                losses[:] = found
        return self._stage.together(out.detach()) if return_outputs else None

    def eval(
        self,
        *args: Tensor,
        target: Tensor | None = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Tensor | None:
        """As `step`, without a backward pass. The layers stay in the mode they are in."""
        x = self._checked(args, kwargs, target, losses, needs_target=losses is not None)
        with no_grad():
            out = self._stage(x)
            if losses is not None:
                losses[:] = self._each(out, self._split("a target", target), loss_kwargs or {})
            return self._stage.together(out) if return_outputs else None

    def _losses(
        self, x: Tensor, target: Tensor, loss_kwargs: dict[str, Any], mean: bool, with_outputs: bool
    ) -> tuple[Tensor, list[Tensor], Any]:
        """The sum or the mean of the losses, to be differentiated; the losses; the outputs. All of microbatches."""
        raise NotImplementedError

    def _each(self, out: Tensor, target: Tensor, loss_kwargs: dict[str, Any]) -> list[Tensor]:
        """The losses of microbatches."""
        parts = zip(out.unbind(0), target.unbind(0), strict=True)
        return [self._loss_fn(y, t, **loss_kwargs) for y, t in parts]  # type: ignore[misc]

    def _checked(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Any,
        losses: Any,
        needs_target: bool = True,
    ) -> Tensor:
        """The input as microbatches."""
        if len(args) != 1 or kwargs:
            raise NotImplementedError("a pipeline of equal layers has one input")
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"losses must be a list but got a {type(losses)}")
        x = self._split("a batch", args[0])
        if self._loss_fn is None:
            if losses is not None or target is not None:
                raise ValueError(f"target= and losses= are for a {type(self).__name__} that has a loss_fn")
        elif needs_target and target is None:
            raise ValueError("step() and eval(losses=) need target=: the loss is computed by the same call")
        return x

    def _split(self, what: str, x: Any) -> Tensor:
        """Rows as microbatches (count, n, ...)."""
        if not isinstance(x, Tensor) or x.ndim == 0:
            raise TypeError(f"{what} of a pipeline must be a Tensor with rows, not {type(x).__name__}")
        count = self._n_microbatches
        if x.size(0) % count or not x.size(0):
            raise ValueError(
                f"{what} of {x.size(0)} cannot be split into {count} equal microbatches: leave "
                "rows out (drop_last=True of a DataLoader), or choose another n_microbatches"
            )
        return self._stage.apart(x, count)


class ScheduleGPipe(_Schedule):
    """All microbatches go forward through the stages, then all go back.

    With S stages and M microbatches, a device computes in M of M + S - 1 ticks. A stage keeps what its layers need for
    the backward pass for all M; a `ScanStack` with ``remat=True`` keeps the layers' inputs.

    Args:
        stage: a `PipelineStage`.
        n_microbatches: M; it divides the batch. Microbatches are rows that are neighbours, as in PyTorch.
        loss_fn: ``loss_fn(output, target)`` of a microbatch, for `step`.
        args_chunk_spec, kwargs_chunk_spec, output_merge_spec: must be None: dimension 0 is split.
        scale_grads: divide gradients by ``n_microbatches``, which suits a loss that is a mean.

    Raises:
        NotImplementedError: for the chunk specs.

    Reference: GPipe, https://arxiv.org/abs/1811.06965
    """

    def _losses(
        self, x: Tensor, target: Tensor, loss_kwargs: dict[str, Any], mean: bool, with_outputs: bool
    ) -> tuple[Tensor, list[Tensor], Any]:
        out = self._stage(x)
        found = self._each(out, target, loss_kwargs)
        total: Any = sum(found[1:], found[0])
        return total / len(found) if mean else total, [loss.detach() for loss in found], out


class Schedule1F1B(_Schedule):
    """Microbatches go forward and back in turn, so that a stage keeps those alone that are on the way.

    Beside M microbatches of inputs, targets and outputs a stage has the inputs of its layers for 2 S - 1 microbatches,
    however large M is, and what the backward pass of one microbatch needs: that computes the layers of the stage again
    (with ``remat=True`` of the `ScanStack` each layer once more). S stages take M + 2 (S - 1) ticks of a forward and a
    backward pass. In each tick all of them compute the loss, and that of the last one counts.

    ``loss_fn`` is a part of the program. It may have parameters, as a head of the model; it may not write to tensors.

    Args:
        stage: a `PipelineStage`.
        n_microbatches: M, at least the number of stages; it divides the batch. Microbatches are rows that are
            neighbours, as in PyTorch.
        loss_fn: ``loss_fn(output, target)`` of a microbatch, a scalar, for `step`.
        args_chunk_spec, kwargs_chunk_spec, output_merge_spec: must be None: dimension 0 is split.
        scale_grads: divide gradients by ``n_microbatches``, which suits a loss that is a mean.

    Raises:
        NotImplementedError: for the chunk specs; in `step`, where ``target`` requires grad, or a tensor in a layer that
            is no parameter of it; in a call where gradients are enabled.
        ValueError: there are fewer microbatches than stages.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.distributed.pipelining import PipelineStage, Schedule1F1B
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
        >>> stack = torch.nn.ScanStack([torch.nn.Linear(4, 4) for _ in range(2)])
        >>> stage = PipelineStage(stack, 0, 1, "cpu", group=mesh)
        >>> pipe = Schedule1F1B(stage, n_microbatches=3, loss_fn=torch.nn.functional.mse_loss)
        >>> losses = []
        >>> pipe.step(torch.ones(6, 4), target=torch.zeros(6, 4), losses=losses).shape, len(losses)
        (torch.Size([6, 4]), 3)

    Reference: https://docs.pytorch.org/docs/stable/distributed.pipelining.html#torch.distributed.pipelining.schedules.Schedule1F1B
    """

    def _begin(self) -> None:
        if self._n_microbatches < self._stage.num_stages:
            raise ValueError(
                f"Number of microbatches ({self._n_microbatches}) must be greater than or equal to the number of "
                f"stages ({self._stage.num_stages})."
            )
        self._compiled = compile(self._traced, rng="torch")

    def __call__(self, x: Tensor) -> Tensor:
        """The output for a batch, without gradients.

        Raises:
            NotImplementedError: gradients are enabled, and are asked for.
            ValueError: the batch is not divisible.
        """
        asked = x.requires_grad or any(p.requires_grad for p in self._stage.parameters())
        if is_grad_enabled() and asked:
            raise NotImplementedError(
                "Schedule1F1B is called where gradients are enabled: the backward pass would begin when all of the "
                "forward pass is done. Use step(), with the rest of the model in loss_fn, or ScheduleGPipe"
            )
        return super().__call__(x)

    def _losses(
        self, x: Tensor, target: Tensor, loss_kwargs: dict[str, Any], mean: bool, with_outputs: bool
    ) -> tuple[Tensor, list[Tensor], Any]:
        if target.requires_grad:
            raise NotImplementedError(
                "Schedule1F1B.step: the target requires grad. detach() it, or use ScheduleGPipe"
            )
        total, found, out = self._compiled(x, target, loss_kwargs, mean, with_outputs)
        return total, list(found.unbind(0)), out

    def _traced(
        self, x: Tensor, target: Tensor, loss_kwargs: dict[str, Any], mean: bool, with_outputs: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        loss_fn = functools.partial(self._loss_fn, **loss_kwargs)  # type: ignore[arg-type]
        return Step(self._stage, loss_fn, x, target, mean, with_outputs).losses()
