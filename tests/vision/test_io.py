"""Images and files: what torchvision's decoders give, where they can be loaded, and its refusals."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image
from real_torchvision import compiled, torchvision

import functorch_port as ft
from functorch_port.vision import io as ours

theirs = torchvision.io
COMPILED = pytest.mark.skipif(not compiled, reason="torchvision's C++ decoders cannot be loaded")

RNG = np.random.default_rng(0)
RGBA = RNG.integers(0, 256, (13, 17, 4)).astype(np.uint8)
RGB, GRAY = np.ascontiguousarray(RGBA[..., :3]), np.ascontiguousarray(RGBA[..., 0])


def encoded(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return np.frombuffer(out.getvalue(), np.uint8)


def turned(kind):
    """An image whose EXIF data say that it lies on its side."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(Image.fromarray(RGB), kind, exif=exif)


FILES = {
    "png rgb": encoded(Image.fromarray(RGB), "PNG"),
    "png gray": encoded(Image.fromarray(GRAY), "PNG"),
    "png rgba": encoded(Image.fromarray(RGBA), "PNG"),
    "png gray alpha": encoded(Image.fromarray(np.ascontiguousarray(RGBA[..., :2])), "PNG"),
    "png palette": encoded(Image.fromarray(RGB).convert("P"), "PNG"),
    "png bits": encoded(Image.fromarray(GRAY).convert("1"), "PNG"),
    "png 16": encoded(Image.fromarray(GRAY.astype(np.uint16) * 257), "PNG"),
    "png turned": turned("PNG"),
    "jpeg rgb": encoded(Image.fromarray(RGB), "JPEG"),
    "jpeg gray": encoded(Image.fromarray(GRAY), "JPEG"),
    "jpeg cmyk": encoded(Image.fromarray(RGBA).convert("CMYK"), "JPEG"),
    "jpeg turned": turned("JPEG"),
}
#: what torchvision reads as something else: its alpha of palettes and bits is left over from other pixels, and of 16
#: bits Pillow reads gray images alone
OTHERWISE = {
    (name, mode) for name in ("png palette", "png bits", "png 16") for mode in ("GRAY_ALPHA", "RGB_ALPHA")
}
OTHERWISE |= {("png 16", "RGB")}


def outcome(fn, *args, **kwargs):
    try:
        out = fn(*args, **kwargs)
    except Exception as error:
        text = str(error).splitlines()[0]
        return type(error), text.rpartition(", ")[2].rpartition(": ")[2].split(",")[0][:30]
    return np.asarray(out) if isinstance(out, ft.Tensor) else out.numpy()


@COMPILED
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("mode", ["UNCHANGED", "GRAY", "GRAY_ALPHA", "RGB", "RGB_ALPHA"])
def test_decoded_as_by_torchvision(name, mode):
    if (name, mode) in OTHERWISE:
        pytest.skip("torchvision has other values")
    data, short = FILES[name], f"decode_{name.split()[0]}"
    for fn in ("decode_image", short):
        for upright in (False, True) if "turned" in name else (False,):
            given = {"apply_exif_orientation": upright}
            want = outcome(getattr(theirs, fn), torch.tensor(data), theirs.ImageReadMode[mode], **given)
            got = outcome(getattr(ours, fn), ft.tensor(data), ours.ImageReadMode[mode], **given)
            if isinstance(want, tuple):
                assert isinstance(got, tuple) and got[0] is want[0]
            else:
                assert want.dtype == got.dtype
                np.testing.assert_array_equal(got, want)


def test_alpha_of_palettes_and_bits_is_that_of_the_file():
    for name in ("png palette", "png bits"):
        assert (np.asarray(ours.decode_png(ft.tensor(FILES[name]), "rgb_alpha"))[3] == 255).all()
    with pytest.raises(NotImplementedError, match="gray ones alone"):
        ours.decode_png(ft.tensor(FILES["png 16"]), "RGB")


def test_written_and_read_again(tmp_path):
    image = ft.tensor(RGB.transpose(2, 0, 1).copy())
    for given in (image, image[:1]):
        ours.write_png(given, tmp_path / "a.png", compression_level=9)
        assert ft.equal(ours.read_image(tmp_path / "a.png"), given)
        ours.write_jpeg(given, str(tmp_path / "a.jpg"), quality=90)
        data = ours.encode_jpeg(given, 90)
        assert ft.equal(ours.read_file(tmp_path / "a.jpg"), data)
        if compiled:
            assert data.tolist() == theirs.encode_jpeg(torch.tensor(np.asarray(given)), 90).tolist()
    ours.write_file(tmp_path / "b", data)
    assert ft.equal(ours.read_file(tmp_path / "b"), data) and sorted(p.name for p in tmp_path.iterdir()) == [
        "a.jpg",
        "a.png",
        "b",
    ]
    assert ft.equal(ours.encode_jpeg([image, image])[1], ours.encode_jpeg(image))
    assert ft.equal(ours.decode_jpeg([data])[0], ours.decode_jpeg(data))


WRONG = [
    lambda o, T: o.decode_png(T.tensor(FILES["jpeg rgb"])), lambda o, T: o.decode_jpeg(T.tensor(FILES["png rgb"])),
    lambda o, T: o.decode_image(T.zeros(9, dtype=T.uint8)), lambda o, T: o.decode_image(T.zeros(0, dtype=T.uint8)),
    lambda o, T: o.decode_image(T.zeros(9)), lambda o, T: o.decode_image(T.zeros(9, 2, dtype=T.uint8)),
    lambda o, T: o.decode_png(T.tensor(FILES["png rgb"][:200])),
    lambda o, T: o.decode_jpeg(T.tensor(FILES["jpeg rgb"][:400])),
    lambda o, T: o.encode_png(T.zeros(4, 3, 3, dtype=T.uint8)), lambda o, T: o.encode_png(T.zeros(3, 3, 3)),
    lambda o, T: o.encode_png(T.zeros(3, 3, dtype=T.uint8)), lambda o, T: o.encode_png(T.zeros(3, 3, 3).byte(), 12),
    lambda o, T: o.encode_jpeg(T.zeros(2, 3, 3, dtype=T.uint8)), lambda o, T: o.encode_jpeg(T.zeros(3, 3, 3)),
    lambda o, T: o.encode_jpeg(T.zeros(3, 3, 3).byte(), 0), lambda o, T: o.read_file("/no/such"),
    lambda o, T: o.read_image("/no/such.png"), lambda o, T: o.write_file("/no/such/x", T.zeros(3, dtype=T.uint8)),
    lambda o, T: o.write_file("/tmp/x", T.zeros(3)), lambda o, T: o.decode_png(T.tensor(FILES["png rgb"]), "foo"),
]  # fmt: skip


@COMPILED
@pytest.mark.parametrize("i", range(len(WRONG)))
def test_refused_as_by_torchvision(i):
    want, got = outcome(lambda: WRONG[i](theirs, torch)), outcome(lambda: WRONG[i](ours, ft))
    assert isinstance(want, tuple) and isinstance(got, tuple) and want[0] is got[0]


def test_errors_say_what_is_wrong():
    for i, text in (
        (0, "not png"),
        (2, "Only jpeg and png"),
        (4, "should be uint8"),
        (6, "the image is broken"),
    ):
        with pytest.raises(RuntimeError, match=text):
            WRONG[i](ours, ft)
    for kind in ("gif", "webp", "avif", "heic"):
        with pytest.raises(
            NotImplementedError, match=f"decode_{kind} is not supported: open the file by PIL"
        ):
            getattr(ours, f"decode_{kind}")(ft.zeros(3, dtype=ft.uint8))
    with pytest.raises(NotImplementedError, match="the CPU decodes"):
        ours.decode_jpeg(ft.tensor(FILES["jpeg rgb"]), device="cuda")
    assert [*ours.ImageReadMode.__members__] == [*theirs.ImageReadMode.__members__]
    assert not [n for n in theirs.__all__ if not hasattr(ours, n)]
