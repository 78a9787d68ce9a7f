"""``torch.version``: the package's own version, and the PyTorch release whose behaviour it follows."""

from __future__ import annotations

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

__version__ = "0.1.0"
torch_release = "2.13.0"  # the specification the tests compare with
# What `torch.__version__` reads under the launcher: scripts that ask for "at least 2.0" go on.
torch_version = f"{torch_release}+functorch.port.{__version__}"

# PyTorch's build information. There is no CUDA, ROCm or XPU toolkit of our own: JAX brings its own.
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version = "unknown"
