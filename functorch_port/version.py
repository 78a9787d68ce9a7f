"""``torch.version``: the package's own version, and the PyTorch release whose behaviour it follows."""

from __future__ import annotations

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

__version__ = "0.1.0"
torch_release = "2.13.0"  # the tests compare with this release
# `torch.__version__` under the launcher, for scripts that require a release of PyTorch
torch_version = f"{torch_release}+functorch.port.{__version__}"

# PyTorch's build information. This package is built without CUDA, ROCm and XPU: JAX brings its own.
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version = "unknown"
