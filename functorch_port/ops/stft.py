"""The short-time Fourier transform and its inverse."""

from __future__ import annotations

import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._array.refusal import refuse, xp_of
from .._base.promotion import promote
from .._run.registry import Array, TensorOnly, op
from ._common import is_inexact, type_name
from .fft import floating
from .padding import constant_pad_nd, pad_with

_UNWINDOWED = "A window was not provided. A rectangular window will be applied"
_HOW = (
    "To suppress this warning and use a rectangular window, explicitly set "
    "`window=torch.ones(n_fft, device=<device>)`."
)


def _described(x: jax.Array) -> str:
    return f"CPU{type_name(x)}Type" if x.dtype.kind == "c" else f"torch.{type_name(x)}Tensor"


def _window_text(window: jax.Array | None) -> str:
    return "None" if window is None else f"{_described(window)}{{{list(window.shape)}}}"


def _flag(value: Any) -> str:
    return "None" if value is None else str(int(value))


def _positions(frames: int, size: int, hop: int) -> np.ndarray:
    """The indices of every frame's samples in the signal."""
    return np.arange(frames)[:, None] * hop + np.arange(size)


def _widened(window: jax.Array | None, length: int, size: int, like: jax.Array) -> jax.Array:
    """The window, centred in zeros of length ``size``; the default window is ones."""
    window = jnp.ones((length,), like.dtype) if window is None else window
    left = (size - length) // 2
    return jnp.pad(window, (left, size - length - left)) if length < size else window


def _centered(x: jax.Array, pad: int, mode: str) -> jax.Array:
    """The signal, padded by half a frame on both sides."""
    shape = [1] * (3 - x.ndim) + list(x.shape)
    if mode in ("reflect", "replicate") and not math.prod(shape[1:]):
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {shape}"
        )
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    wide = x.reshape(shape)
    padded = constant_pad_nd(wide, (pad, pad)) if mode == "constant" else pad_with(mode, wide, (pad, pad))
    return padded.reshape(padded.shape[3 - x.ndim :] if x.ndim else ())


@op(node="SqueezeBackward4")
def stft(
    input: TensorOnly,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Array | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
):
    """The Fourier transforms of a signal's windowed frames, one per column."""
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    x = _centered(input, n_fft // 2, pad_mode) if center else input
    if window is None:
        warnings.warn(
            f"{_UNWINDOWED},which is known to cause spectral leakage. Other windows such as torch.hann_window or "
            f"torch.hamming_window are recommended to reduce spectral leakage.{_HOW}",
            UserWarning,
            stacklevel=2,
        )
    is_complex = x.dtype.kind == "c" or (window is not None and window.dtype.kind == "c")
    as_complex = is_complex if return_complex is None else return_complex
    if not as_complex:
        _deprecate_pairs(return_complex)

    def fail(why: str) -> RuntimeError:
        return RuntimeError(
            f"stft({_described(x)}{list(x.shape)}, n_fft={n_fft}, hop_length={hop}, win_length={length}, "
            f"window={_window_text(window)}, normalized={_flag(normalized)}, onesided={_flag(onesided)}, "
            f"return_complex={_flag(return_complex)}, align_to_window={_flag(align_to_window)}) : expected {why}"
        )

    if not is_inexact(x.dtype):
        raise fail("a tensor of floating point or complex values")
    if x.ndim not in (1, 2):
        raise fail("a 1D or 2D tensor")
    if not 0 < n_fft <= x.shape[-1]:
        raise fail(f"0 < n_fft < {x.shape[-1]}, but got n_fft={n_fft}")
    if hop <= 0:
        raise fail(f"hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise fail(f"0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and window.shape != (length,):
        raise fail(
            f"a 1D window tensor of size equal to win_length={length}, but got window with size {list(window.shape)}"
        )
    half = not is_complex if onesided is None else onesided
    if half and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if align_to_window:
        left = (n_fft - length) // 2
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(left, n_fft - length - left)])
    x, weights = promote(floating(x), _widened(window, length, n_fft, x))
    frames = 1 + (x.shape[-1] - n_fft) // hop
    cut = x[..., _positions(frames, n_fft, hop)] * weights  # (..., frames, n_fft)
    norm = "ortho" if normalized else None
    spectrum = (jnp.fft.rfft if half else jnp.fft.fft)(cut, norm=norm)
    out = jnp.swapaxes(spectrum, -1, -2)
    return out if as_complex else jnp.stack([out.real, out.imag], -1)


def _deprecate_pairs(return_complex: bool | None) -> None:
    if return_complex is None:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future PyTorch release."
        )
    warnings.warn(
        "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex tensors "
        "for all inputs, and return_complex=False will raise an error.\nNote: you can still call torch.view_as_real "
        "on the complex output to recover the old return format.",
        UserWarning,
        stacklevel=3,
    )


class _Inverse:
    """The checked arguments of `istft`."""

    def __init__(
        self,
        input: Any,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Any = None,
        center: bool = True,
        normalized: bool = False,
        onesided: bool | None = None,
        length: int | None = None,
        return_complex: bool = False,
    ) -> None:
        self.n_fft, self.window, self.length = n_fft, window, length
        self.hop = n_fft // 4 if hop_length is None else hop_length
        self.size = n_fft if win_length is None else win_length
        self.text = (
            f"istft({_described(input)}{list(input.shape)}, n_fft={n_fft}, hop_length={self.hop}, "
            f"win_length={self.size}, window={_window_text(window)}, center={_flag(center)}, "
            f"normalized={_flag(normalized)}, onesided={_flag(onesided)}, length={length}, "
            f"return_complex={_flag(return_complex)}) "
        )
        self._check_input(input, onesided, return_complex)
        self.frames = input.shape[-1]
        self.total = n_fft + self.hop * (self.frames - 1)
        self.start = n_fft // 2 if center else 0
        self.end = self.total - self.start if length is None else self.start + length

    def _fail(self, why: str) -> RuntimeError:
        return RuntimeError(f"{self.text}: {why}")

    def _check_input(self, input: Any, onesided: bool | None, return_complex: bool) -> None:
        if input.dtype.kind != "c":
            raise RuntimeError(
                "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
            )
        if input.ndim < 2:
            raise IndexError("Dimension out of range (expected to be in range of [-2, 1], but got -3)")
        if not math.prod(input.shape):
            raise self._fail("input tensor cannot be empty.")
        if input.ndim > 3:
            raise self._fail(f"expected a tensor with 3 or 4 dimensions, but got {input.ndim + 1}")
        bins, n_fft, window = input.shape[-2], self.n_fft, self.window
        half = bins != n_fft if onesided is None else onesided
        if bins != (n_fft // 2 + 1 if half else n_fft):
            wanted = "n_fft / 2 + 1 when onesided=True" if half else "n_fft when onesided=False"
            raise self._fail(
                "expected the frequency dimension (3rd to the last) of the input tensor to match "
                f"{wanted}, but got {bins}"
            )
        if not 0 < self.hop <= self.size:
            raise self._fail("expected 0 < hop_length <= win_length")
        if not 0 < self.size <= n_fft:
            raise self._fail("expected 0 < win_length <= n_fft")
        if window is not None and window.shape != (self.size,):
            raise self._fail("Invalid window shape. window has to be 1D and length of `win_length`")
        if window is not None and window.dtype.kind == "c" and not return_complex:
            raise RuntimeError("Complex windows are incompatible with return_complex=False")
        if return_complex and half:
            raise RuntimeError("Cannot have onesided output if window or input is complex")

    def overlaps_too_little(self, window: Any = None) -> Any:
        """Whether some sample of the result has a zero window in all frames."""
        window = np.ones(self.size) if window is None else window
        window = window.astype(complex if window.dtype.kind == "c" else float)
        first = (self.n_fft - self.size) // 2
        envelope: Any = xp_of(window).zeros(self.total, window.dtype)
        for at in range(first, first + self.frames * self.hop, self.hop):
            if isinstance(envelope, np.ndarray):
                envelope[at : at + self.size] += window**2
            else:
                envelope = envelope.at[at : at + self.size].add(window**2)
        kept = abs(envelope[self.start : self.end])
        if not kept.size:
            raise RuntimeError(
                "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                "with the 'dim' argument."
            )
        return kept.min() < 1e-11


def _check_overlap(input: Any, *args: Any, **kwargs: Any) -> None:
    found = _Inverse(input, *args, **kwargs)
    window, found.window, text = found.window, None, found.text
    refuse(
        found.overlaps_too_little,
        lambda *window: RuntimeError(f"{text}window overlap add min: 1\n[ CPUBoolType{{}} ]"),
        *(() if window is None else (window,)),
    )


@op(node="DivBackward0", check=_check_overlap)
def istft(
    input: TensorOnly,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Array | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
):
    """The signal whose `stft` is closest to ``input``."""
    if window is None:
        warnings.warn(
            f"{_UNWINDOWED}.Please provide the same window used by stft to make the inversion lossless.{_HOW}",
            UserWarning,
            stacklevel=2,
        )
    asked = _Inverse(
        input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
    )
    columns, norm = jnp.swapaxes(input, -1, -2), "ortho" if normalized else None  # (..., frames, bins)
    if return_complex:
        cut = jnp.fft.ifft(columns, norm=norm)
    else:
        cut = jnp.fft.irfft(columns[..., : n_fft // 2 + 1], n_fft, norm=norm)
    return _overlapped(asked, *promote(cut, _widened(window, asked.size, n_fft, input.real)))


def _overlapped(asked: _Inverse, cut: jax.Array, weights: jax.Array) -> jax.Array:
    """The overlap-add of the windowed frames, divided by that of the squared windows."""
    places, total, start, end = (
        _positions(cut.shape[-2], cut.shape[-1], asked.hop),
        asked.total,
        asked.start,
        asked.end,
    )
    signal = jnp.zeros((*cut.shape[:-2], total), cut.dtype).at[..., places].add(cut * weights)
    squares = jnp.broadcast_to(weights * weights, cut.shape[-2:])
    envelope = jnp.zeros((total,), weights.dtype).at[places].add(squares)
    out = signal[..., start:end] / envelope[start:end]
    if end <= total:
        return out
    warnings.warn(
        "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. "
        "Please check your center and hop_length settings.",
        UserWarning,
        stacklevel=2,
    )
    return lax.pad(out, jnp.zeros((), out.dtype), [(0, 0, 0)] * (out.ndim - 1) + [(0, end - total, 0)])
