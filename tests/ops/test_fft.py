"""torch.fft, stft, istft and window functions against torch."""

import warnings

import jax
import numpy as np
import pytest
import torch
from compare import case, check_case, sample, to_numpy, to_ours

import functorch_port as ft

c128 = torch.complex128
REAL, COMPLEX = sample(4, 5), sample(4, 5, dtype=c128)
CUBE = sample(2, 3, 4)
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
NORMS = ("forward", "backward", "ortho")


cases = [
    *(case(f"torch.fft.{n}", x) for n in ONE for x in (REAL, COMPLEX)),
    *(case(f"torch.fft.{n}", REAL, norm=norm, dim=0) for n, norm in zip(ONE, NORMS * 2)),
    *(case(f"torch.fft.{n}", REAL, k) for n, k in zip(ONE * 2, (1, 3, 8, 1, 3, 8, 8, 1, 3, 8, 1, 3))),
    *(case(f"torch.fft.{n}2", x) for n in ONE for x in (REAL, COMPLEX)),
    *(case(f"torch.fft.{n}n", CUBE, norm=norm) for n in ONE for norm in NORMS),
    *(case(f"torch.fft.{n}n", CUBE, (3, -1), (2, 0)) for n in ONE),
    *(case(f"torch.fft.{n}n", CUBE, (2, 6)) for n in ONE),
    *(case(f"torch.fft.{n}n", sample(2, 2, 3, 2, 3)) for n in ("fft", "rfft", "irfft", "ihfft")),
    *(
        case(f"torch.fft.{n}", sample(6, dtype=d))
        for n in ONE
        for d in (torch.int64, torch.bool, torch.float32)
    ),
    case("torch.fft.fftn", sample()),
    # errors
    *(case(f"torch.fft.{n}", x) for n in ONE for x in (sample(), sample(3, dtype=torch.float16))),
    *(case(f"torch.fft.{n}", REAL, n_) for n in ONE for n_ in (0, -1)),
    *(case(f"torch.fft.{n}", REAL, norm="x") for n in ("fft", "irfft")),
    *(case(f"torch.fft.{n}", REAL, dim=2) for n in ONE),
    case("torch.fft.fft", 3),
    case("torch.fft.fft", REAL, 2.5),
    case("torch.fft.fft", REAL, dim=(0,)),
    case("torch.fft.fft"),
    case("torch.fft.fft2", REAL, dim=None),
    *(case(f"torch.fft.{n}2", x) for n in ONE for x in (sample(), sample(3))),
    *(case(f"torch.fft.{n}n", sample(), dim=(0,)) for n in ONE),
    *(case(f"torch.fft.{n}n", REAL, dim=()) for n in ONE),
    *(case(f"torch.fft.{n}n", REAL, (1, 2), (0, 0)) for n in ("fft", "irfft")),
    *(case(f"torch.fft.{n}n", REAL, (1, 2), (0,)) for n in ("fft", "rfft")),
    *(case(f"torch.fft.{n}n", REAL, s) for n in ("fft", "hfft") for s in ((1, 2, 3), (0, 1), (-2, 3))),
    # order and frequencies
    *(
        case(f"torch.fft.{n}", x)
        for n in ("fftshift", "ifftshift")
        for x in (REAL, sample(5, dtype=torch.int64))
    ),
    *(case(f"torch.fft.{n}", CUBE, d) for n in ("fftshift", "ifftshift") for d in (1, (0, 2), (0, 0), 3)),
    case("torch.fft.fftshift", sample()),
    *(
        case(f"torch.fft.{n}", *a)
        for n in ("fftfreq", "rfftfreq")
        for a in ((5,), (4, 0.5), (0,), (1,), (4.5,))
    ),
    case("torch.fft.fftfreq", -1),
    case("torch.fft.fftfreq", 4, dtype=torch.float64),
    case("torch.fft.rfftfreq", 4, dtype=torch.int64),
    case("torch.fft.fftfreq", 4, dtype=torch.complex64),
]

SIGNAL, STEREO, WAVE = sample(20), sample(2, 20), sample(2, 20, dtype=c128)
WINDOW, SHORT = sample(8, low=0.5), sample(6, low=0.5)
SPECTRUM = torch.stft(STEREO, 8, window=WINDOW, return_complex=True)
WAVE_SPECTRUM = torch.stft(WAVE, 8, window=WINDOW, return_complex=True)
yes = {"return_complex": True}

short_time = [
    *(case("torch.stft", x, 8, window=WINDOW, return_complex=c) for x in (SIGNAL, STEREO) for c in (True, False)),
    case("torch.stft", WAVE, 8, window=WINDOW),
    case("torch.stft", SIGNAL, 8),
    case("torch.stft", SIGNAL, 7, 3, **yes),
    case("torch.stft", SIGNAL, 8, window=WINDOW + 0j),
    *(case("torch.stft", STEREO, 8, window=WINDOW, pad_mode=m, normalized=True, **yes)
      for m in ("constant", "reflect", "replicate", "circular", "bad")),
    *(case("torch.stft", STEREO, 8, win_length=6, window=SHORT, center=False, align_to_window=a, **yes)
      for a in (None, False, True)),
    case("Tensor.stft", STEREO, 8, window=WINDOW, onesided=False, **yes),
    case("torch.stft", STEREO.float(), 8, window=WINDOW, **yes),
    case("torch.stft", WAVE, 8, window=WINDOW, onesided=True),
    case("torch.stft", STEREO, 8, window=WINDOW, align_to_window=True, **yes),
    *(case("torch.stft", STEREO, 8, window=WINDOW, **k, **yes) for k in ({"hop_length": 0}, {"win_length": 9})),
    *(case("torch.stft", STEREO, n, center=False, **yes) for n in (0, 21)),
    *(case("torch.stft", x, 8, window=WINDOW, **yes)
      for x in (sample(), sample(1, 2, 20), sample(0, 20), sample(20, dtype=torch.int64))),
    case("torch.stft", STEREO, 8, window=SHORT, **yes),
    *(case("torch.istft", SPECTRUM, 8, window=WINDOW, **k)
      for k in ({}, {"center": False}, {"length": 15}, {"length": 30}, {"normalized": True}, {"hop_length": 4},
                {"length": 0}, {"hop_length": 0}, {"hop_length": 9}, {"win_length": 9}, {"onesided": False}, yes)),
    case("torch.istft", SPECTRUM, 9),
    case("Tensor.istft", SPECTRUM[0], 8, win_length=6, window=SHORT),
    case("torch.istft", WAVE_SPECTRUM, 8, window=WINDOW, **yes),
    case("torch.istft", WAVE_SPECTRUM, 8, window=WINDOW + 1j, **yes),
    case("torch.istft", WAVE_SPECTRUM, 8, window=WINDOW + 0j),
    case("torch.istft", SPECTRUM, 8, window=torch.zeros(8)),
    case("torch.istft", SPECTRUM, 8, window=SHORT),
    *(case("torch.istft", x, 8)
      for x in (SPECTRUM.real, SPECTRUM[:, :3], SPECTRUM[None], SPECTRUM[:0], SPECTRUM[0, 0])),
]  # fmt: skip

LENGTHS = (0, 1, 2, 5, 6, -1)
NAMES = ("bartlett", "blackman", "cosine", "exponential", "gaussian", "hamming", "hann", "kaiser", "nuttall")
windows = [
    *(case(f"torch.signal.windows.{n}", m, sym=s, dtype=torch.float64)
      for n in NAMES for m in LENGTHS for s in (True, False)),
    *(case(f"torch.signal.windows.{n}", 3, dtype=d)
      for n in NAMES for d in (torch.float32, torch.float16, torch.int64)),
    *(case("torch.signal.windows.exponential", 4, **k)
      for k in ({"tau": 3.0}, {"tau": -1}, {"center": 1, "sym": False}, {"center": 1})),
    case("torch.signal.windows.exponential", 1, center=2, sym=False),
    *(case("torch.signal.windows.gaussian", 4, std=s) for s in (0.5, -1)),
    *(case("torch.signal.windows.kaiser", 4, beta=b) for b in (0.5, 0, -1)),
    *(case("torch.signal.windows.general_cosine", 4, a=a) for a in ([0.5], (1, 2, 3), [], None)),
    case("torch.signal.windows.general_hamming", 4, alpha=0.3),
    *(case(f"torch.{n}_window", m, *p, dtype=torch.float64)
      for n in ("hann", "hamming", "blackman", "bartlett", "kaiser") for m in (0, 1, 5, 6, -1) for p in ((), (False,))),
    *(case(f"torch.{n}_window", 2.5) for n in ("hann", "kaiser")),
    case("torch.hamming_window", 5, True, 0.4, 0.6),
    case("torch.kaiser_window", 5, True, 3.0, dtype=torch.float64),
    case("torch.hann_window", 5, dtype=torch.complex64),
]  # fmt: skip


@pytest.mark.parametrize("case", [*cases, *short_time], ids=str)
def test_like_torch(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_case(case)


@pytest.mark.parametrize("case", windows, ids=str)
def test_windows(case):
    check_case(case)


@pytest.mark.parametrize("call", ["stft", "istft", "stft_pairs", "longer"])
def test_warnings(call):
    def run(lib, x, s):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if call == "stft":
                lib.stft(x, 6, return_complex=True)
            elif call == "istft":
                lib.istft(s, 8, length=19)
            elif call == "longer":
                lib.istft(s, 8, window=lib.ones(8), length=40)
            else:
                lib.stft(x, 5, window=lib.ones(5), return_complex=False)
        return [str(w.message).split(" (Triggered")[0] for w in caught]

    jax.clear_caches()  # ours warn where a program is traced
    theirs, ours = run(torch, SIGNAL, SPECTRUM), run(ft, to_ours(SIGNAL), to_ours(SPECTRUM))
    assert ours and (not theirs or theirs == ours)  # torch warns once in a process


def test_out_and_layout():
    x = to_ours(REAL)
    out = ft.empty(0, dtype=ft.complex128)
    assert ft.fft.rfft(x, out=out) is out
    np.testing.assert_allclose(to_numpy(out), np.fft.rfft(REAL), atol=1e-12)
    for name, shown, wrong in (
        ("fft", "fft expects a complex output tensor, but got Double", ft.float64),
        ("ihfft2", "ihfftn expects a complex output tensor, but got Long", ft.int64),
        ("irfft", "irfft expects a floating point output tensor, but got ComplexFloat", ft.complex64),
    ):
        with pytest.raises(RuntimeError, match=shown):
            getattr(ft.fft, name)(x, out=ft.empty(0, dtype=wrong))
    with pytest.raises(ValueError, match=r"strided tensors only, got: torch\.sparse_coo"):
        ft.signal.windows.hann(3, layout=ft.sparse_coo)
    assert ft.signal.windows.hann(3, requires_grad=True).requires_grad


def test_round_trip_in_a_compiled_function():
    x, window = to_ours(STEREO), to_ours(WINDOW)

    @ft.compile
    def there_and_back(x):
        spectrum = ft.stft(x, 8, window=window, return_complex=True)
        return ft.istft(spectrum, 8, window=window), ft.fft.ifft(ft.fft.fft(x)).real

    for back in there_and_back(x):
        np.testing.assert_allclose(to_numpy(back), STEREO.numpy(), atol=1e-12)


def test_second_order():
    def run(lib, x):
        x = x.requires_grad_()
        y = lib.fft.irfft(lib.fft.rfft(x) ** 3, 7)
        (g,) = lib.autograd.grad((y**2).sum(), x, create_graph=True)
        (h,) = lib.autograd.grad((g**2).sum(), x)
        return h

    theirs, ours = run(torch, REAL.clone()), run(ft, to_ours(REAL))
    np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), rtol=1e-10)
