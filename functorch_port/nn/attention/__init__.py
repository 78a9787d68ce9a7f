"""`torch.nn.attention`: which kernel computes attention, and attention with a score function of one's own.

Reference:
    https://docs.pytorch.org/docs/stable/nn.attention.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from ...backends import cuda

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]

#: Accepted; there is nothing to warn of.
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(Enum):
    """The kernels that PyTorch has for attention.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.attention.SDPBackend.html
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value

    __index__ = __int__


_SWITCHES = {
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "mem_efficient",
    SDPBackend.MATH: "math",
    SDPBackend.CUDNN_ATTENTION: "cudnn",
}


@contextmanager
def sdpa_kernel(
    backends: list[SDPBackend] | SDPBackend, set_priority: bool = False
) -> Iterator[dict[str, Any]]:
    """Choose among PyTorch's attention kernels inside a block.

    Accepted, and the switches of `backends.cuda` follow; the numbers do not depend on it, as XLA chooses how
    attention is computed.

    Args:
        backends: one kernel, or a list of them.
        set_priority: whether their order counts.

    Raises:
        AssertionError: for anything else than kernels.

    Example:
        >>> import functorch_port as torch
        >>> with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        ...     torch.backends.cuda.flash_sdp_enabled()
        False

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.attention.sdpa_kernel.html
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            + type(backends).__name__
        )
    chosen: Iterable[SDPBackend] = [backends] if isinstance(backends, SDPBackend) else backends
    with cuda.sdp_kernel(**{f"enable_{name}": backend in chosen for backend, name in _SWITCHES.items()}):
        yield {}


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The kernels that are switched on."""
    return [backend for backend, name in _SWITCHES.items() if cuda._sdp[name]]


from . import flex_attention as flex_attention
