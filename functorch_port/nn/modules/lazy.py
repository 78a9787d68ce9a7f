"""Lazy modules: they infer the size of their input from the first batch."""

from __future__ import annotations

import itertools
from typing import Any

from ..._array import tracing
from ..._base import dtypes
from ..._tensor.creation import tensor
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor
from ..module import Module
from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from .batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .linear import Linear

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "LazyModuleMixin",
]


class LazyModuleMixin:
    """Mixin for modules whose parameters get their shapes and initial values in the first call.

    A subclass of this mixin and a module creates its unknown parameters as `UninitializedParameter` or
    `UninitializedBuffer` and defines `initialize_parameters`, which receives the arguments of the first call. After
    the first call the object's class becomes ``cls_to_become``, if that is set. State dicts can be saved and loaded
    before it; loading known shapes initializes the parameters. Create the optimizer after the first call.

    Example:
        >>> import functorch_port as torch
        >>> net = torch.nn.LazyLinear(3)
        >>> net
        LazyLinear(in_features=0, out_features=3, bias=True)
        >>> _ = net(torch.ones(4, 5))
        >>> net
        Linear(in_features=5, out_features=3, bias=True)

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.modules.lazy.LazyModuleMixin.html
    """

    cls_to_become: type[Module] | None = None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        module: Any = self
        self._load_hook = module._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = module.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _own_tensors(self) -> list[tuple[str, Any]]:
        both = itertools.chain(self._parameters.items(), self._buffers.items())
        return [(name, value) for name, value in both if value is not None]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        skipped = self._non_persistent_buffers_set  # type: ignore[attr-defined]
        for name, value in self._own_tensors():
            if name not in skipped:
                destination[prefix + name] = value if is_lazy(value) or keep_vars else value.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *_: Any) -> None:
        """Materialize uninitialized tensors with the shapes in the dict, before the values are loaded."""
        for name, value in self._own_tensors():
            new = state_dict.get(prefix + name)
            if is_lazy(value) and new is not None and not is_lazy(new):
                value.materialize(new.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Initialize all parameters and buffers from the arguments of the first call."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module (not of its children) has no shape yet."""
        return any(is_lazy(value) for _, value in self._own_tensors())

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        """Forward pre-hook that runs once and removes itself."""
        with tracing.outside():  # also in a trace, the first values are real ones
            module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")  # type: ignore[attr-defined]
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
        if tracing.overlay:
            tracing.overlay.note_changed(module)

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )


def _wait_for_shapes(module: Any, wanted: dict[str, bool], device: Any, dtype: Any) -> None:
    """Register uninitialized parameters in place of the parameters."""
    for name, is_wanted in wanted.items():
        if is_wanted:
            setattr(module, name, UninitializedParameter(device=device, dtype=dtype))


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` that takes ``in_features`` from the first input.

    Args:
        out_features: size of the output's last dimension.
        bias: whether to add a bias.
        device, dtype: of the parameters.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyLinear.html
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        _wait_for_shapes(self, {"weight": True, "bias": bias}, device, dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        if self.has_uninitialized_params():
            with no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:  # the shapes came from a state dict
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from "
                    f"self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = input.shape[-1]


class _LazyConv(LazyModuleMixin):
    """Convolutions that take ``in_channels`` from the first input."""

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    groups: int
    transposed: bool
    weight: Any
    bias: Any

    def _start(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        _wait_for_shapes(self, {"weight": True, "bias": bias}, device, dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        channels = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            channels = (self.in_channels, self.out_channels // self.groups)
        self.weight.materialize((*channels, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        unbatched = len(self.kernel_size) + 1
        if input.dim() not in (unbatched, unbatched + 1):
            raise RuntimeError(
                f"Expected {unbatched}D (unbatched) or {unbatched + 1}D (batched) input to {type(self).__name__}, but "
                f"got input of size: {input.shape}"
            )
        return input.shape[-unbatched]


class _LazyPlainConv(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._start(out_channels, bias, device, dtype)


class LazyConv1d(_LazyPlainConv, Conv1d):  # type: ignore[misc]
    """`Conv1d` that takes ``in_channels`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConv1d.html
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyPlainConv, Conv2d):  # type: ignore[misc]
    """`Conv2d` that takes ``in_channels`` from the first input; its other arguments are the same.

    Example:
        >>> import functorch_port as torch
        >>> conv = torch.nn.LazyConv2d(8, 3)
        >>> conv(torch.ones(1, 4, 10, 10)).shape
        torch.Size([1, 8, 8, 8])
        >>> conv
        Conv2d(4, 8, kernel_size=(3, 3), stride=(1, 1))

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConv2d.html
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyPlainConv, Conv3d):  # type: ignore[misc]
    """`Conv3d` that takes ``in_channels`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConv3d.html
    """

    cls_to_become = Conv3d


class _LazyTransposedConv(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        given = (kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        super().__init__(0, 0, *given, device, dtype)
        self._start(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyTransposedConv, ConvTranspose1d):  # type: ignore[misc]
    """`ConvTranspose1d` that takes ``in_channels`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConvTranspose1d.html
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposedConv, ConvTranspose2d):  # type: ignore[misc]
    """`ConvTranspose2d` that takes ``in_channels`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConvTranspose2d.html
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposedConv, ConvTranspose3d):  # type: ignore[misc]
    """`ConvTranspose3d` that takes ``in_channels`` from the first input; its other arguments are the same.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConvTranspose3d.html
    """

    cls_to_become = ConvTranspose3d


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


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):  # type: ignore[misc]
    """`InstanceNorm1d` that takes ``num_features`` from the first input.

    Its other arguments are the same, but `affine` and `track_running_stats` default to True.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyInstanceNorm1d.html
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):  # type: ignore[misc]
    """`InstanceNorm2d` that takes ``num_features`` from the first input.

    Its other arguments are the same, but `affine` and `track_running_stats` default to True.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyInstanceNorm2d.html
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):  # type: ignore[misc]
    """`InstanceNorm3d` that takes ``num_features`` from the first input.

    Its other arguments are the same, but `affine` and `track_running_stats` default to True.

    Reference:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyInstanceNorm3d.html
    """

    cls_to_become = InstanceNorm3d
