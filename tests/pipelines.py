"""Layers for tests of pipelines."""

from __future__ import annotations

from typing import Any

import functorch_port as ft

nn, F = ft.nn, ft.nn.functional


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def stack(count: int = 8, **how: Any) -> Any:
    """The same layers at each call."""
    ft.manual_seed(0)
    return nn.ScanStack([Layer() for _ in range(count)], **how).double()
