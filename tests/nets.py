"""A net with what placements are hard for: an embedding, batch statistics, dropout."""

from typing import Any

import functorch_port as ft

nn, F = ft.nn, ft.nn.functional


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 24)
        self.lift = nn.Linear(24, 32)
        self.norm = nn.BatchNorm1d(32)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(32, 8)

    def forward(self, x: Any) -> Any:
        return self.head(self.drop(self.norm(F.gelu(self.lift(self.embed(x).mean(1))))))
