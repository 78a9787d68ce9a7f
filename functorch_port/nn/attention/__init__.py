"""`torch.nn.attention`: the choice of attention kernel, and attention with a user-defined score function.

Reference:
    https://docs.pytorch.org/docs/stable/nn.attention.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from ...backends import cuda

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "activate_flash_attention_impl", "current_flash_attention_impl",
    "list_flash_attention_impls", "register_flash_attention_impl", "restore_flash_attention_impl", "sdpa_kernel",
]  # fmt: skip

#: Accepted; there is nothing to warn of.
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(Enum):
    """PyTorch's attention kernels.

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
    """Choose among PyTorch's attention kernels inside a ``with`` block.

    This sets the flags of `backends.cuda`. Without ``FLASH_ATTENTION`` a program for a TPU has no attention kernel,
    and without ``CUDNN_ATTENTION`` one for a GPU. What no kernel can do is always computed by XLA's operations.

    Args:
        backends: a kernel, or a list of kernels.
        set_priority: whether the order of the list is their priority.

    Raises:
        AssertionError: if ``backends`` is not a `SDPBackend` or a list of them.

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


def list_flash_attention_impls() -> list[str]:
    """Names of the flash attention kernels that can be activated. Empty: XLA chooses how attention is computed."""
    return []


def current_flash_attention_impl() -> str | None:
    """Name of the active flash attention kernel: always None."""
    return None


def restore_flash_attention_impl() -> None:
    """Restore the default kernel. Does nothing: it is the only one."""


def register_flash_attention_impl(impl: str, *, register_fn: Any = None) -> None:
    """Not supported.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"register_flash_attention_impl({impl!r}) is not supported: XLA chooses how scaled_dot_product_attention is "
        "computed. For a custom score function use nn.attention.flex_attention."
    )


def activate_flash_attention_impl(impl: str) -> None:
    """Not supported: there is no kernel to choose.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        f"activate_flash_attention_impl({impl!r}) is not supported: XLA chooses how scaled_dot_product_attention is "
        "computed. Remove the call."
    )


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The enabled kernels."""
    return [backend for backend, name in _SWITCHES.items() if cuda._sdp[name]]


from . import bias as bias
from . import flex_attention as flex_attention
