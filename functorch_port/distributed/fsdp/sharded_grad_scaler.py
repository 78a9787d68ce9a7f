"""`ShardedGradScaler`, which is `GradScaler`: what a gradient has on any device counts."""

from __future__ import annotations

from typing import Any

from ...amp.grad_scaler import GradScaler

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """`amp.GradScaler` with the arguments in another order.

    Args:
        device, init_scale, backoff_factor, growth_factor, growth_interval, enabled: as there.
        process_group: must be None.

    Reference: https://docs.pytorch.org/docs/stable/fsdp.html
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        if process_group is not None:
            raise NotImplementedError("ShardedGradScaler(process_group=) is not supported: leave it out")
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
