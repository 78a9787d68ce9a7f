"""Batch normalization."""

from __future__ import annotations

from typing import Any

from ..._base import contexts, dtypes
from ..._run import sums
from ..._run.bind import function
from ..._tensor.creation import empty, ones, tensor, zeros
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor
from .. import functional as F
from .. import init
from .._module import Module
from ..parameter import Parameter, UninitializedBuffer, is_lazy
from .lazy import LazyModuleMixin, _wait_for_shapes

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
    "SyncBatchNorm",
]  # fmt: skip


class _NormBase(Module):
    """Base of batch and instance normalization: parameters and running statistics per channel."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = Parameter(empty(num_features, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        buffers: dict[str, Tensor | None] = dict.fromkeys(
            ("running_mean", "running_var", "num_batches_tracked")
        )
        if track_running_stats:
            buffers["running_mean"] = zeros(num_features, device=device, dtype=dtype)
            buffers["running_var"] = ones(num_features, device=device, dtype=dtype)
            buffers["num_batches_tracked"] = tensor(0, dtype=dtypes.int64, device=device)
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running statistics to mean 0, variance 1 and no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset the running statistics; set the weight to 1 and the bias to 0."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        version = local_metadata.get("version", None)
        if (version is None or version < 2) and self.track_running_stats:
            # state dicts without the counter, of old versions
            own = self.num_batches_tracked
            known = own is not None and not own.is_meta
            state_dict.setdefault(
                f"{prefix}num_batches_tracked", own if known else tensor(0, dtype=dtypes.int64)
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    """The base of the batch normalizations."""

    #: for `func.replace_all_batch_norm_modules_`
    _is_batch_norm = True

    def _momentum_now(self, counting: bool) -> Any:
        """The weight this batch gets in the running statistics."""
        if self.momentum is not None:
            return self.momentum
        return 1.0 / (self.num_batches_tracked + 1).double() if counting else 0.0  # a tensor, for traces

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        counting = self.training and self.track_running_stats and self.num_batches_tracked is not None
        momentum = self._momentum_now(counting)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if tracked else (None, None)
        out = F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)
        if counting:
            self.num_batches_tracked.add_(1)  # last: a batch of the wrong shape is not counted
        return out


class BatchNorm1d(_BatchNorm):
    """Batch normalization of vectors or sequences, (N, C) or (N, C, L).

    Each channel is normalized over the batch to mean 0 and variance 1, then scaled and shifted.
    Training uses the statistics of the batch and updates the running ones (with the unbiased variance); evaluation
    uses the running ones.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: weight of a batch in the running statistics; None averages over all batches.
        affine: whether to scale and shift.
        track_running_stats: False always uses the statistics of the batch.
        bias: whether to shift, with `affine`.
        device, dtype: of parameters and buffers.

    Example:
        >>> import functorch_port as torch
        >>> norm = torch.nn.BatchNorm1d(2)
        >>> norm(torch.tensor([[1., 0.], [3., 0.]])).detach().round(decimals=2)
        tensor([[-1.,  0.],
                [ 1.,  0.]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """Batch normalization of images, (N, C, H, W); the arguments are those of `BatchNorm1d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """Batch normalization of volumes, (N, C, D, H, W); the arguments are those of `BatchNorm1d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm3d.html
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class SyncBatchNorm(_BatchNorm):
    """Batch normalization of inputs of any dimension, with the statistics of the whole batch.

    Under `parallel.DistributedDataParallel` the others have those of each device's part.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: weight of a batch in the running statistics; None averages over all batches.
        affine: whether to scale and shift.
        track_running_stats: False always uses the statistics of the batch.
        process_group: accepted and ignored.
        bias: whether to shift, with `affine`.
        device, dtype: of parameters and buffers.

    Shape:
        (N, C, ...).

    Example:
        >>> import functorch_port as torch
        >>> net = torch.nn.Sequential(torch.nn.BatchNorm2d(3))
        >>> torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)[0]
        SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        if (self.training or self.running_mean is None) and sums.is_own(input):
            return self._of_all(input)
        with contexts.state.having(parts=1):
            return super().forward(input)

    def _of_all(self, input: Tensor) -> Tensor:
        """With the statistics of the batches of all processes, which may have different sizes."""
        self._check_input_dim(input)
        counting = self.training and self.track_running_stats and self.num_batches_tracked is not None
        momentum = self._momentum_now(counting)
        if counting:
            self.num_batches_tracked.add_(1)
        dims = [d for d in range(input.dim()) if d != 1]
        shape = [1, -1] + [1] * (input.dim() - 2)
        kind = dtypes.float64 if input.dtype == dtypes.float64 else dtypes.float32
        x = input.to(kind)
        totals = sums.summed(function("cat")([x.sum(dims), tensor([x.numel() / x.shape[1]], dtype=kind)]))
        count, mean = totals[-1:], totals[:-1] / totals[-1:]
        centred = x - mean.reshape(shape)
        var = sums.summed(centred.square().sum(dims)) / count
        if self.training and self.running_mean is not None:
            with no_grad():
                unbiased = var * count / (count - 1)
                for own, now in ((self.running_mean, mean), (self.running_var, unbiased)):
                    own.copy_(own * (1 - momentum) + now * momentum)
        out = centred * (var + self.eps).rsqrt().reshape(shape)
        if self.weight is not None:
            out = out * self.weight.reshape(shape)
        if self.bias is not None:
            out = out + self.bias.reshape(shape)
        return out.to(input.dtype)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace every BatchNorm in a module with a SyncBatchNorm that has its parameters and buffers.

        Args:
            module: the module; changed in place, or replaced if it is a BatchNorm itself.
            process_group: accepted and ignored.
        """
        out: Any = module
        if isinstance(module, _BatchNorm):
            old: Any = module
            out = cls(
                old.num_features,
                old.eps,
                old.momentum,
                old.affine,
                old.track_running_stats,
                process_group,
                bias=old.bias is not None,
            )
            out._parameters.update(old._parameters)
            out._buffers.update(old._buffers)
            out.training = old.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


class _LazyNorm(LazyModuleMixin):
    """Normalizations that take ``num_features`` from the first input."""

    num_features: int
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        _wait_for_shapes(self, {"weight": affine, "bias": affine and bias}, device, dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, dtype=dtypes.int64, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for _, value in self._own_tensors():
            if is_lazy(value):
                value.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):  # type: ignore[misc]
    """`BatchNorm1d` that takes ``num_features`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyBatchNorm1d.html
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):  # type: ignore[misc]
    """`BatchNorm2d` that takes ``num_features`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyBatchNorm2d.html
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):  # type: ignore[misc]
    """`BatchNorm3d` that takes ``num_features`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyBatchNorm3d.html
    """

    cls_to_become = BatchNorm3d
