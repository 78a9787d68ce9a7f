"""Discrete Fourier transforms: PyTorch's `torch.fft`.

Reference: https://docs.pytorch.org/docs/stable/fft.html
"""

from __future__ import annotations

from ._run.bind import namespaces as _namespaces

globals().update(_namespaces["fft"])

__all__ = sorted(_namespaces["fft"])
