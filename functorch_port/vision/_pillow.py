"""Pillow, which the extra ``vision`` installs: whatever reads or changes images imports it from here."""

from __future__ import annotations

from typing import Any

from functorch_port._base.optional import optional

__all__ = ["Image", "ImageColor", "ImageDraw", "ImageEnhance", "ImageFont", "ImageOps"]


def _part(name: str) -> Any:
    return optional(f"PIL.{name}", "functorch_port.vision", "vision", "pillow")


Image = _part("Image")
ImageColor = _part("ImageColor")
ImageDraw = _part("ImageDraw")
ImageEnhance = _part("ImageEnhance")
ImageFont = _part("ImageFont")
ImageOps = _part("ImageOps")
