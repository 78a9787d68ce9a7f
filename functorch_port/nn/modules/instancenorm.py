"""Instance normalization."""

from __future__ import annotations

import warnings
from typing import Any

from ..._tensor.tensor import Tensor
from .. import functional as F
from .batchnorm import _LazyNorm, _NormBase

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]  # fmt: skip


class _InstanceNorm(_NormBase):
    """The base of the instance normalizations."""

    _dimensions: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        return self._dimensions + 1

    def _check_input_dim(self, input: Tensor) -> None:
        n = self._get_no_batch_dim()
        if input.dim() not in (n, n + 1):
            raise ValueError(f"expected {n}D or {n + 1}D input (got {input.dim()}D input)")

    def _check_channels(self, input: Tensor) -> None:
        dim = input.dim() - self._get_no_batch_dim()
        if input.size(dim) == self.num_features:
            return
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: "
                f"{input.size(dim)}."
            )
        warnings.warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing in "
            "num_features, which is not used because affine=False",
            stacklevel=3,
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        self._check_channels(input)
        if input.dim() == self._get_no_batch_dim():
            return self._normalized(input.unsqueeze(0)).squeeze(0)
        return self._normalized(input)

    def _normalized(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            self._refuse_statistics(state_dict, prefix, rest[-1])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _refuse_statistics(self, state_dict: Any, prefix: str, errors: list[str]) -> None:
        """Report the running statistics that state dicts of PyTorch before 0.4 hold."""
        found = [prefix + n for n in ("running_mean", "running_var") if prefix + n in state_dict]
        if not found:
            return
        names, own = " and ".join(f'"{k}"' for k in found), type(self).__name__
        errors.append(
            f"Unexpected running stats buffer(s) {names} for {own} with track_running_stats=False. If state_dict is a "
            f"checkpoint saved before 0.4.0, this may be expected because {own} does not track running stats by "
            "default since 0.4.0. Please remove these keys from state_dict. If the running stats are actually needed, "
            f"instead set track_running_stats=True in {own} to enable them. See the documentation of {own} for details."
        )
        for key in found:
            state_dict.pop(key)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of sequences, (N, C, L) or (C, L); the arguments are those of `InstanceNorm2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.InstanceNorm1d.html
    """

    _dimensions = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of images, (N, C, H, W) or (C, H, W).

    Each channel of each example is normalized to mean 0 and variance 1, then (with `affine`) scaled and shifted.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: weight of a batch in the running statistics.
        affine: whether to scale and shift.
        track_running_stats: keep running statistics, and use them in evaluation.
        bias: whether to shift, with `affine`.
        device, dtype: of parameters and buffers.

    Example:
        >>> import functorch_port as torch
        >>> torch.nn.InstanceNorm2d(1)(torch.tensor([[[[1., 3.]]]])).round(decimals=3)
        tensor([[[[-1.,  1.]]]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.InstanceNorm2d.html
    """

    _dimensions = 2


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of volumes, (N, C, D, H, W) or (C, D, H, W); see `InstanceNorm2d`.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.InstanceNorm3d.html
    """

    _dimensions = 3


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
