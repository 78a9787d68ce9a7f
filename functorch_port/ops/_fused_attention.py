"""Attention by a kernel that never holds all the scores: JAX's public ones for a TPU ("splash") and for a GPU.

Both take half precision, have their sums in float32, and round the weights to half precision before the second product,
as PyTorch's kernels do. That for a TPU takes scaled queries, rounded once more where the scale is no power of two. It
skips blocks of which a causal mask leaves nothing. Both are differentiated in reverse mode, once.

References: https://docs.jax.dev/en/latest/pallas/tpu/index.html,
https://docs.jax.dev/en/latest/_autosummary/jax.nn.dot_product_attention.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from .._base import config, device
from .._base.dtypes import bfloat16, float16
from .._base.meshes import within
from .attention import repeated

__all__ = ["Kernel", "flash", "kernel_for"]

#: rows or columns of the scores that a TPU has at a time, of which the first that divides the length is taken
_BLOCKS = (512, 256, 128)


@dataclass(frozen=True)
class Kernel:
    """A platform's kernel, and how the devices of a mesh share the work.

    Attributes:
        mesh: None for one device.
        batch: the axes that split the batch.
        heads: those that split the heads.
    """

    platform: str
    mesh: Any = None
    batch: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()

    def over(self, mesh: Any, axes: tuple[str, ...], query: tuple[int, ...]) -> Kernel | None:
        """The same on a mesh whose ``axes`` split the batch: the others split the heads, if they can."""
        if len(query) != 4 or query[0] % math.prod(mesh.shape[axis] for axis in axes):
            return None
        others = tuple([axis for axis in mesh.axis_names if axis not in axes and mesh.shape[axis] > 1])
        count = math.prod(mesh.shape[axis] for axis in others)
        return Kernel(self.platform, mesh, axes, others if query[1] % count == 0 else ())

    def way(self, is_causal: bool, scale: float) -> Callable[[Any, Any, Any], Any]:
        """What computes attention on the platform. Groups of heads of the queries may share keys and values."""
        how = {"tpu": flash, "cuda": cudnn}[self.platform]
        run = lambda query, key, value: how(query, key, value, is_causal, float(scale))
        if self.mesh is None:
            return run
        spec = PartitionSpec(self.batch or None, self.heads or None)
        parts = math.prod(self.mesh.shape[axis] for axis in self.heads)
        on_each = jax.shard_map(
            run, mesh=within(self.mesh), in_specs=(spec,) * 3, out_specs=spec, check_vma=False
        )

        def on_all(query: Any, key: Any, value: Any) -> Any:
            if key.shape[1] % parts:
                key, value = (repeated(x, query.shape[1]) for x in (key, value))
            return on_each(query, key, value)

        return on_all


def kernel_for(
    platform: str,
    dtype: Any,
    query: tuple[Any, ...],
    key: tuple[Any, ...],
    value: tuple[Any, ...],
    is_causal: bool,
    enable_gqa: bool,
) -> Kernel | None:
    """The platform's kernel for tensors of these shapes, without mask and dropout, on one device; None without one."""
    (*batch, length, size), (*others, count, _) = query, key
    known = all(type(n) is int and n for n in (*query, *key))
    if not known or key != value or key[-1] != size or (is_causal and length != count):
        return None
    if batch != others:
        grouped = enable_gqa and batch[:-1] == others[:-1] and batch[-1] % others[-1] == 0
        if not grouped:
            return None
    suits = {"tpu": _suits_tpu, "cuda": _suits_gpu}.get(platform)
    return Kernel(platform) if suits is not None and suits(dtype, length, count, size) else None


def _suits_tpu(dtype: Any, length: int, count: int, size: int) -> bool:
    fits = length % _BLOCKS[-1] == 0 and count % _BLOCKS[-1] == 0 and size % 64 == 0 and size <= 256
    return "flash" in config.kernels and dtype is bfloat16 and fits


def _suits_gpu(dtype: Any, length: int, count: int, size: int) -> bool:
    fits = length % 2 == 0 and count % 2 == 0 and size % 8 == 0 and size <= 128
    # JAX asks the GPU's cuDNN for its version while it traces
    return "cudnn" in config.kernels and dtype in (bfloat16, float16) and fits and device.platform() == "gpu"


@contextmanager
def _as_kernels_are() -> Iterator[None]:
    """A kernel has no 64-bit numbers, and a TPU multiplies numbers of half precision in one way."""
    with jax.enable_x64(False), jax.default_matmul_precision("default"):
        yield


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def flash(query: jax.Array, key: jax.Array, value: jax.Array, is_causal: bool, scale: float) -> jax.Array:
    """By the kernel for a TPU."""
    return _flash_forward(query, key, value, is_causal, scale)[0]


def _flash_forward(query: Any, key: Any, value: Any, is_causal: bool, scale: float) -> tuple[Any, Any]:
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    rows, columns = (next(b for b in _BLOCKS if x.shape[-2] % b == 0) for x in (query, key))
    sizes = splash.BlockSizes(
        block_q=rows,
        block_kv=columns,
        block_q_dkv=rows,
        block_kv_dkv=columns,
        block_q_dq=rows,
        block_kv_dq=columns,
    )
    mask = (splash.CausalMask if is_causal else splash.FullMask)((query.shape[-2], key.shape[-2]))

    def attend(query: Any, key: Any, value: Any) -> Any:
        scaled, *others = map(_four, (query * jnp.asarray(scale, query.dtype), key, value))
        heads = splash.MultiHeadMask([mask] * scaled.shape[1])
        kernel = splash.make_splash_mha_single_device(heads, block_sizes=sizes)
        return jax.vmap(kernel)(scaled, *others).reshape(query.shape)

    with _as_kernels_are():
        return jax.vjp(attend, query, key, value)


def _flash_backward(is_causal: bool, scale: float, pull: Any, slope: Any) -> Any:
    with _as_kernels_are():
        return pull(slope)


flash.defvjp(_flash_forward, _flash_backward)


def cudnn(query: jax.Array, key: jax.Array, value: jax.Array, is_causal: bool, scale: float) -> jax.Array:
    """By cuDNN."""
    heads = query.shape[-3] if query.ndim > 2 else 1
    given = (jnp.swapaxes(repeated(_four(x), heads), 1, 2) for x in (query, key, value))
    out = jax.nn.dot_product_attention(*given, scale=scale, is_causal=is_causal, implementation="cudnn")
    return jnp.swapaxes(out, 1, 2).reshape(query.shape)


def _four(x: jax.Array) -> jax.Array:
    """With one dimension for the batch, and one for the heads."""
    lead: Sequence[int] = x.shape[:-2]
    heads = lead[-1] if lead else 1
    return x.reshape(-1, heads, *x.shape[-2:])
