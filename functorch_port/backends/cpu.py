"""``torch.backends.cpu``."""

from __future__ import annotations

import functools

__all__ = ["get_cpu_capability"]

#: what the processor must have, the widest instructions first
_NEEDED = {"AVX512": {"avx512vl", "avx512bw", "avx512dq", "fma"}, "AVX2": {"avx2", "fma"}}


@functools.cache
def get_cpu_capability() -> str:
    """The widest vector instructions of the processor: "AVX512", "AVX2", or "DEFAULT" for any other.

    XLA uses them. torchvision resizes bytes as bytes where this is not "DEFAULT".
    """
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line.partition(":")[2].split() for line in file if line.startswith("flags")), [])
    except OSError:
        return "DEFAULT"
    return next((name for name, needed in _NEEDED.items() if needed <= {*flags}), "DEFAULT")
