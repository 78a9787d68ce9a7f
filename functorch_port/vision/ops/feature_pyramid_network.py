"""Feature pyramid networks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..._tensor.tensor import Tensor
from ...nn import Conv2d, Module, ModuleList, init
from ...nn import functional as F
from .misc import Conv2dNormActivation

__all__ = ["ExtraFPNBlock", "FeaturePyramidNetwork", "LastLevelMaxPool", "LastLevelP6P7"]


class ExtraFPNBlock(Module):
    """The base of what adds levels to a `FeaturePyramidNetwork`: ``forward`` gives all results and their names."""

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        raise NotImplementedError(f"{type(self).__name__} must have a forward(results, x, names)")


class FeaturePyramidNetwork(Module):
    """Features of several sizes at one number of channels; each also has what the smaller ones tell.

    Args:
        in_channels_list: channels of the features, from the largest ones to the smallest.
        out_channels: of the results.
        extra_blocks: adds levels. Default: none.
        norm_layer: makes a normalization of so many channels. Default: none.

    Raises:
        ValueError: a number of channels is 0.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.ops import FeaturePyramidNetwork
        >>> levels = {"low": torch.rand(1, 4, 8, 8), "high": torch.rand(1, 8, 4, 4)}
        >>> out = FeaturePyramidNetwork([4, 8], 6)(levels)
        >>> [(name, tuple(value.shape)) for name, value in out.items()]
        [('low', (1, 6, 8, 8)), ('high', (1, 6, 4, 4))]

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.ops.FeaturePyramidNetwork.html
    """

    _version = 2

    def __init__(
        self,
        in_channels_list: list[int],
        out_channels: int,
        extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Callable[..., Module] | None = None,
    ) -> None:
        super().__init__()
        self.inner_blocks = ModuleList()
        self.layer_blocks = ModuleList()
        for channels in in_channels_list:
            if channels == 0:
                raise ValueError("in_channels=0 is currently not supported")
            for blocks, inputs, kernel in (
                (self.inner_blocks, channels, 1),
                (self.layer_blocks, out_channels, 3),
            ):
                blocks.append(
                    Conv2dNormActivation(
                        inputs, out_channels, kernel, norm_layer=norm_layer, activation_layer=None
                    )
                )
        for module in self.modules():
            if isinstance(module, Conv2d):
                init.kaiming_uniform_(module.weight, a=1)
                if module.bias is not None:
                    init.constant_(module.bias, 0)
        if extra_blocks is not None and not isinstance(extra_blocks, ExtraFPNBlock):
            raise TypeError(f"extra_blocks should be of type ExtraFPNBlock not {type(extra_blocks)}")
        self.extra_blocks = extra_blocks

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        version = local_metadata.get("version")
        if version is None or version < 2:  # the convolutions were not in a `Conv2dNormActivation`
            for name, blocks in (("inner_blocks", self.inner_blocks), ("layer_blocks", self.layer_blocks)):
                for i in range(len(blocks)):
                    for kind in ("weight", "bias"):
                        value = state_dict.pop(f"{prefix}{name}.{i}.{kind}", None)
                        if value is not None:
                            state_dict[f"{prefix}{name}.{i}.0.{kind}"] = value
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def forward(self, x: dict[str, Tensor]) -> dict[str, Tensor]:
        names, levels = list(x), list(x.values())
        results: list[Tensor] = []
        above: Tensor | None = None
        for i in reversed(range(len(levels))):
            inner = self.inner_blocks[i](levels[i])
            if above is not None:
                inner = inner + F.interpolate(above, size=inner.shape[-2:], mode="nearest")
            results.insert(0, self.layer_blocks[i](inner))
            above = inner
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, levels, names)
        return OrderedDict(zip(names, results, strict=True))


class LastLevelMaxPool(ExtraFPNBlock):
    """A level of half the size, of every other pixel of the last one; its name is "pool"."""

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        return [*results, F.max_pool2d(results[-1], kernel_size=1, stride=2, padding=0)], [*names, "pool"]


class LastLevelP6P7(ExtraFPNBlock):
    """Two levels by convolutions of stride 2, with the names "p6" and "p7".

    Args:
        in_channels: of the last level; where they are not ``out_channels``, that of the input is taken.
        out_channels: of the results.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.p6 = Conv2d(in_channels, out_channels, 3, 2, 1)
        self.p7 = Conv2d(out_channels, out_channels, 3, 2, 1)
        for module in (self.p6, self.p7):
            init.kaiming_uniform_(module.weight, a=1)
            init.constant_(module.bias, 0)
        self.use_P5 = in_channels == out_channels

    def forward(
        self, results: list[Tensor], x: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        p6 = self.p6(results[-1] if self.use_P5 else x[-1])
        return [*results, p6, self.p7(F.relu(p6))], [*names, "p6", "p7"]
