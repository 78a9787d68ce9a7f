"""Automatic mixed precision: which operations `amp.autocast` runs in a lower precision, and which in float32.

`Op.run` asks for `cast_inputs` while autocast is on (see `_base.watch`). The lists follow PyTorch's, which differ
between CPU and accelerators: on the CPU softmax and the norms keep the type they are given.
"""

from __future__ import annotations

import threading
from typing import Any

from .._array import tracing
from .._base import contexts, dtypes, watch
from .._base.device import get_default_device
from .._tensor.tensor import Tensor

__all__ = ["cast_inputs", "enabled", "key", "state"]


class _State(threading.local):
    """
    Attributes:
        on: whether autocast is on for any device type.
        settings: device type -> [on, lower precision type].
        caches: what `amp.is_autocast_cache_enabled` says.
    """

    on = False
    caches = True

    def __init__(self) -> None:
        self.settings: dict[str, list[Any]] = {
            **{name: [False, dtypes.bfloat16] for name in ("cpu", "tpu", "xla", "hpu")},
            **{name: [False, dtypes.float16] for name in ("cuda", "mps", "xpu", "mtia", "ipu")},
        }

    def __bool__(self) -> bool:
        return self.on


#: The calling thread's modes.
state = _State()

#: False until autocast is first turned on in any thread, which makes ``if autocast.enabled:`` cheap for the others;
#: from then on `state`, which is true in a thread where it is on. Ask for its truth alone.
enabled: Any = False


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LOWER = _names(
    """
    addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d einsum
    inner linear_2d linear_2d_unbiased linear_nd linear_nd_unbiased linear_vector lstm_layer matmul
    matrix_power mm multi_dot prelu scaled_dot_product_attention tensordot vecdot
    """
)
_LOWER_ACCELERATOR = _LOWER | _names(
    """
    addmv addr bilinear dot gru_cell lstm_gates lstm_output lstm_state mv recurrent_layer rnn_relu_cell
    rnn_tanh_cell vdot
    """
)

_LOSSES = _names(
    """
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy
    hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss
    multilabel_margin_loss nll_loss nll_loss_nd nll_loss_smoothed poisson_nll_loss smooth_l1_loss
    soft_cross_entropy soft_margin_loss triplet_margin_loss
    """
)
_FLOAT32 = _LOSSES | _names(
    """
    adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d cdist cholesky cholesky_solve ctc_loss eig eigh
    eigvals eigvalsh fft fft2 fftn fractional_max_pool2d fractional_max_pool3d geqrf grid_sample hfft
    householder_product ifft ifft2 ifftn ihfft inv irfft irfft2 irfftn lstsq lu_solve matrix_rank max_pool3d
    max_unpool2d max_unpool3d nanquantile ormqr polar prod qr quantile reflect_pad1d reflect_pad2d
    replicate_pad1d replicate_pad2d replicate_pad3d rfft rfft2 rfftn solve stft svd svdvals tensorinv
    tensorsolve trace triangular_solve view_as_complex
    """
)
_FLOAT32_ACCELERATOR = _LOSSES | _names(
    """
    acos asin cdist cosh cosine_similarity cumprod cumsum dist erfinv exp expm1 group_norm layer_norm log
    log10 log1p log2 log_softmax logsumexp matrix_norm norm pairwise_distance pdist pow prod reciprocal
    renorm rms_norm rsqrt sinh softmax softplus sum tan vector_norm
    """
)
_WIDEST = _names("cat stack index_copy")
_WIDEST_ACCELERATOR = _names("addcdiv addcmul atan2 cat cross grid_sample index_put scatter_add stack")

_POLICY = {"cpu": (_LOWER, _FLOAT32, _WIDEST)}
_ACCELERATOR = (_LOWER_ACCELERATOR, _FLOAT32_ACCELERATOR, _WIDEST_ACCELERATOR)


def setting(device_type: str) -> list[Any]:
    """The mutable ``[on, lower precision type]`` of a device type."""
    found = state.settings.get(device_type)
    if found is None:
        raise RuntimeError("unsupported scalarType")
    return found


def switch(device_type: str, on: bool, dtype: Any = None) -> None:
    """Turn autocast on or off for a device type, and set its lower precision type."""
    global enabled
    mine = setting(device_type)
    mine[0] = on
    if dtype is not None:
        mine[1] = dtype
    state.on = any(s[0] for s in state.settings.values())
    watch.state.autocast = state.on
    if state.on:
        enabled = state
        watch.begin()


def key() -> tuple[Any, ...] | None:
    """The whole state in hashable form, for guards; None when autocast is off."""
    return tuple((name, *s) for name, s in state.settings.items()) if enabled else None


def cast_inputs(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of operation ``name`` with their tensors in the type that autocast wants for it."""
    tensors = [t for a in (*args, *kwargs.values()) for t in _items(a) if isinstance(t, Tensor)]
    kind = platform() or (tensors[0].device.type if tensors else "")
    settings = state.settings
    if kind not in settings or not settings[kind][0]:
        return args, kwargs
    lower, float32, widest = _POLICY.get(kind, _ACCELERATOR)
    name = name.removeprefix("_").removesuffix(
        "_with_indices"
    )  # as the ops inside a public function are called
    if name in lower:
        target = settings[kind][1]
    elif name in float32:
        target = dtypes.float32
    elif name in widest:
        target = _widest(tensors, settings[kind][1])
    else:
        return args, kwargs
    return tuple(_cast(a, target, kind) for a in args), {k: _cast(v, target, kind) for k, v in kwargs.items()}


def platform() -> str | None:
    """The device type that a trace is for: its program has all tensors there. None where nothing is traced."""
    if not tracing.overlay:
        return None
    return contexts.state.platform or (tracing.overlay.device() or get_default_device()).type


def lower_type(own: Any, kind: str) -> Any:
    """What autocast makes of a dtype, on devices of a type, for an operation that it runs in lower precision."""
    on, lower = state.settings.get(kind, (False, None))
    return lower if on and own.is_floating_point and own is not dtypes.float64 else own


def _items(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else (value,)


def _widest(tensors: list[Tensor], lower: Any) -> Any:
    """float32 if one of the tensors has it, else the lower precision type."""
    return dtypes.float32 if any(t.dtype is dtypes.float32 for t in tensors) else lower


def _cast(value: Any, target: Any, kind: str) -> Any:
    if isinstance(value, Tensor):
        own = value.dtype
        eligible = own.is_floating_point and own is not dtypes.float64 and is_on(value, kind)
        return value.to(target) if eligible and own is not target else value  # type: ignore[attr-defined]
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, target, kind) for v in value)
    return value


def is_on(tensor: Tensor, kind: str) -> bool:
    """Whether what a tensor goes into is computed on devices of this type."""
    return (platform() or tensor.device.type) == kind
