"""Images as tensors and files, by Pillow.

An image is a tensor ``[C, H, W]`` of uint8. Pillow is imported by what needs it.
"""

from __future__ import annotations

import io
import os
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..._base.atomic import atomic
from ..._base.device import device as Device
from ..._base.optional import optional
from ..._tensor.creation import from_numpy
from ..._tensor.tensor import Tensor

__all__ = [
    "ImageReadMode", "decode_avif", "decode_gif", "decode_heic", "decode_image", "decode_jpeg", "decode_png",
    "decode_webp", "encode_jpeg", "encode_png", "read_file", "read_image", "write_file", "write_jpeg", "write_png",
]  # fmt: skip


class ImageReadMode(Enum):
    """Which channels an image is read with.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.io.ImageReadMode.html
    """

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4
    RGBA = RGB_ALPHA  # another name


_M = ImageReadMode
#: what Pillow calls them
_MODES = {_M.GRAY: "L", _M.GRAY_ALPHA: "LA", _M.RGB: "RGB", _M.RGB_ALPHA: "RGBA"}
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
#: libpng's weights of red, green and blue, in parts of 2**15
_GRAY = np.array([9794, 19234, 3740], np.int32)


def _pillow(part: str = "Image") -> Any:
    return optional(f"PIL.{part}", "torchvision.io", "vision", "pillow")


def read_file(path: str | os.PathLike[str]) -> Tensor:
    """The bytes of a file.

    Args:
        path: of the file.

    Returns:
        A vector of uint8.

    Raises:
        RuntimeError: the file cannot be read.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.io.read_file.html
    """
    try:
        return _tensor(np.frombuffer(Path(path).read_bytes(), np.uint8))
    except OSError as error:
        raise RuntimeError(str(error)) from error


def write_file(filename: str | os.PathLike[str], data: Tensor) -> None:
    """Write bytes to a file, all of them or none.

    Args:
        filename: the path of the file.
        data: a vector of uint8.

    Raises:
        RuntimeError: ``data`` is something else, or the file cannot be written.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.io.write_file.html
    """
    _write(filename, _bytes(data, "write_file"))


def _write(filename: str | os.PathLike[str], content: bytes) -> None:
    try:
        with atomic(filename) as file:
            file.write(content)
    except OSError as error:
        raise RuntimeError(f"write_file: cannot write {os.fspath(filename)}: {error}") from error


def _bytes(data: Tensor, name: str) -> bytes:
    if data.dtype.name != "uint8":
        raise RuntimeError(f"{name}: Input tensor dtype should be uint8, got {data.dtype}")
    if data.ndim != 1 or not data.numel():
        raise RuntimeError(f"{name}: Expected a non empty 1-dimensional tensor, got {tuple(data.shape)}")
    return np.asarray(data).tobytes()


def _tensor(array: np.ndarray) -> Tensor:
    return from_numpy(array.copy())


def _mode(mode: ImageReadMode | str) -> ImageReadMode:
    return ImageReadMode[mode.upper()] if isinstance(mode, str) else mode


def _opened(content: bytes, name: str, upright: bool, draft: str = "") -> Any:
    """The image in ``content``.

    Args:
        name: of the function that asks.
        upright: whether it is turned as its EXIF data say.
        draft: the mode that a JPEG is decoded to, if it can be.
    """
    try:
        image = _pillow().open(io.BytesIO(content))
        if draft:
            image.draft(draft, image.size)
        image.load()
    except (OSError, SyntaxError, ValueError) as error:
        raise RuntimeError(f"{name}: the image is broken: {error}") from error
    return _pillow("ImageOps").exif_transpose(image) if upright else image


def _channels_first(image: Any) -> np.ndarray:
    array = np.asarray(image)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def decode_png(
    input: Tensor,
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
) -> Tensor:
    """The image in the bytes of a PNG file.

    Args:
        input: the bytes, a vector of uint8.
        mode: its channels, or their name. Default: those of the file; a palette's numbers are one channel.
        apply_exif_orientation: whether the image is turned as its EXIF data say. Default: False.

    Returns:
        ``[C, H, W]``, uint8; uint16 for a gray image of 16 bits.

    Raises:
        RuntimeError: these are not the bytes of a PNG file.
        NotImplementedError: for other images of 16 bits, of which Pillow keeps 8.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.io.decode_png.html
    """
    content, mode = _bytes(input, "decode_png"), _mode(mode)
    if not content.startswith(_PNG):
        raise RuntimeError("decode_png: Content is not png!")
    image = _opened(content, "decode_png", apply_exif_orientation)
    if content[24] == 16:  # bits of a channel
        if content[25] != 0 or mode not in (_M.UNCHANGED, _M.GRAY):
            raise NotImplementedError(
                "decode_png: of images of 16 bits, gray ones alone can be read, with mode UNCHANGED or GRAY: Pillow"
                " keeps 8 bits of others"
            )
        return _tensor(np.asarray(image).astype(np.uint16)[None])
    if mode is _M.UNCHANGED:
        return _tensor(_channels_first(image.convert("L") if image.mode == "1" else image))
    if image.mode in ("L", "LA", "1") or mode in (_M.RGB, _M.RGB_ALPHA):
        return _tensor(_channels_first(image.convert(_MODES[mode])))
    colors = _channels_first(image.convert("RGBA"))  # Pillow has other weights than libpng
    gray = (np.tensordot(_GRAY, colors[:3].astype(np.int32), 1) >> 15).astype(np.uint8)
    return _tensor(np.stack([gray, colors[3]] if mode is _M.GRAY_ALPHA else [gray]))


def decode_jpeg(
    input: Tensor | list[Tensor],
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    device: Any = "cpu",
    apply_exif_orientation: bool = False,
) -> Any:
    """The image in the bytes of a JPEG file.

    Args:
        input: the bytes, a vector of uint8; or a list of such.
        mode: its channels, or their name. Default: those of the file.
        device: must be the CPU, which decodes.
        apply_exif_orientation: whether the image is turned as its EXIF data say. Default: False.

    Returns:
        ``[C, H, W]``, uint8; or a list of such.

    Raises:
        RuntimeError: these are not the bytes of a JPEG file, or ``mode`` has alpha.
        NotImplementedError: for another device.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.io.decode_jpeg.html
    """
    if Device(device).type != "cpu":
        raise NotImplementedError(
            f"decode_jpeg: the CPU decodes, got device {device}: move the result by .to(device)"
        )
    if isinstance(input, list):
        return [decode_jpeg(one, mode, device, apply_exif_orientation) for one in input]
    content, mode = _bytes(input, "decode_jpeg"), _mode(mode)
    if not content.startswith(_JPEG[:2]):
        start = " ".join(f"0x{byte:02x}" for byte in content[:2])
        raise RuntimeError(f"decode_jpeg: Not a JPEG file: starts with {start}")
    if mode in (_M.GRAY_ALPHA, _M.RGB_ALPHA):
        raise RuntimeError("decode_jpeg: The provided mode is not supported for JPEG files")
    wanted = _MODES.get(mode, "")
    image = _opened(content, "decode_jpeg", apply_exif_orientation, wanted)
    if wanted:
        image = image.convert(wanted)
    array = _channels_first(image)
    return _tensor(255 - array if image.mode == "CMYK" else array)  # Pillow inverts what such files have


def decode_image(
    input: Tensor | str | os.PathLike[str],
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
) -> Tensor:
    """The image in the bytes of a PNG or JPEG file.

    Args:
        input: the bytes, a vector of uint8, or the path of the file.
        mode: its channels, or their name. Default: those of the file.
        apply_exif_orientation: whether the image is turned as its EXIF data say. Default: False.

    Returns:
        ``[C, H, W]``, uint8; uint16 for a gray PNG of 16 bits.

    Raises:
        RuntimeError: these are not the bytes of such a file.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.vision.io import decode_image, encode_png
        >>> image = torch.zeros(3, 4, 5, dtype=torch.uint8)
        >>> decode_image(encode_png(image), "gray").shape
        torch.Size([1, 4, 5])

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.io.decode_image.html
    """
    data = input if isinstance(input, Tensor) else read_file(input)
    content = _bytes(data, "decode_image")
    if content.startswith(_JPEG):
        return decode_jpeg(data, mode, apply_exif_orientation=apply_exif_orientation)  # type: ignore[no-any-return]
    if content.startswith(_PNG):
        return decode_png(data, mode, apply_exif_orientation)
    raise RuntimeError(
        "decode_image: Unsupported image file. Only jpeg and png are supported; PIL.Image.open reads many others"
    )


def read_image(
    path: str | os.PathLike[str],
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
) -> Tensor:
    """The image in a PNG or JPEG file.

    Args:
        path: of the file.
        mode: its channels, or their name. Default: those of the file.
        apply_exif_orientation: whether the image is turned as its EXIF data say. Default: False.

    Returns:
        ``[C, H, W]``, uint8; uint16 for a gray PNG of 16 bits.

    Raises:
        RuntimeError: there is no such file, or it has no such image.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.io.read_image.html
    """
    return decode_image(read_file(path), mode, apply_exif_orientation)


def _image(input: Tensor, name: str) -> Any:
    if input.dtype.name != "uint8":
        raise RuntimeError(f"{name}: Input tensor dtype should be uint8, got {input.dtype}")
    if input.ndim != 3:
        raise RuntimeError(
            f"{name}: Input data should be a 3-dimensional tensor, got {input.ndim} dimensions"
        )
    if input.shape[0] not in (1, 3):
        raise RuntimeError(f"{name}: The number of channels should be 1 or 3, got: {input.shape[0]}")
    array = np.asarray(input)
    return _pillow().fromarray(
        array[0] if len(array) == 1 else np.ascontiguousarray(array.transpose(1, 2, 0))
    )


def _encoded(input: Tensor, name: str, kind: str, **options: int) -> bytes:
    image, out = _image(input, name), io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def _as_png(input: Tensor, compression_level: int) -> bytes:
    if not 0 <= compression_level <= 9:
        raise RuntimeError(
            f"encode_png: Compression level should be between 0 and 9, got {compression_level}"
        )
    return _encoded(input, "encode_png", "PNG", compress_level=compression_level)


def _as_jpeg(input: Tensor, quality: int) -> bytes:
    if not 1 <= quality <= 100:
        raise ValueError("Image quality should be a positive number between 1 and 100")
    return _encoded(input, "encode_jpeg", "JPEG", quality=quality)


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """An image as the bytes of a PNG file.

    Args:
        input: ``[C, H, W]``, uint8, with 1 or 3 channels.
        compression_level: 0 to 9. Default: 6.

    Returns:
        A vector of uint8.

    Raises:
        RuntimeError: ``input`` is no such image, or for another level.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.io.encode_png.html
    """
    return _tensor(np.frombuffer(_as_png(input, compression_level), np.uint8))


def encode_jpeg(input: Tensor | list[Tensor], quality: int = 75) -> Any:
    """An image as the bytes of a JPEG file.

    Args:
        input: ``[C, H, W]``, uint8, with 1 or 3 channels; or a list of such.
        quality: 1 to 100. Default: 75.

    Returns:
        A vector of uint8; or a list of such.

    Raises:
        RuntimeError: ``input`` is no such image.
        ValueError: for another quality.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.io.encode_jpeg.html
    """
    if isinstance(input, list):
        return [encode_jpeg(one, quality) for one in input]
    return _tensor(np.frombuffer(_as_jpeg(input, quality), np.uint8))


def write_png(input: Tensor, filename: str | os.PathLike[str], compression_level: int = 6) -> None:
    """Write an image to a PNG file.

    Args:
        input, compression_level: as in `encode_png`.
        filename: the path of the file.

    Raises:
        RuntimeError: as in `encode_png`, or the file cannot be written.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.io.write_png.html
    """
    _write(filename, _as_png(input, compression_level))


def write_jpeg(input: Tensor, filename: str | os.PathLike[str], quality: int = 75) -> None:
    """Write an image to a JPEG file.

    Args:
        input, quality: as in `encode_jpeg`.
        filename: the path of the file.

    Raises:
        RuntimeError, ValueError: as in `encode_jpeg`; RuntimeError if the file cannot be written.

    Reference: https://docs.pytorch.org/vision/stable/generated/torchvision.io.write_jpeg.html
    """
    _write(filename, _as_jpeg(input, quality))


def _refused(kind: str) -> Any:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"torchvision.io.decode_{kind} is not supported: open the file by PIL.Image.open, and make a tensor of the"
            " image by torchvision.transforms.functional.pil_to_tensor"
        )

    refused.__name__ = refused.__qualname__ = f"decode_{kind}"
    refused.__doc__ = "Not supported.\n\n    Raises:\n        NotImplementedError: always.\n    "
    return refused


decode_avif, decode_gif, decode_heic, decode_webp = map(_refused, ("avif", "gif", "heic", "webp"))
