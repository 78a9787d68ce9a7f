"""``torch.types``: type aliases for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import Any, Union

from ._base.device import device as _device_type
from ._base.dtypes import dtype as _dtype_type
from ._base.layout import layout as _layout_type
from ._base.size import Size
from ._tensor.tensor import Tensor

__all__ = ["Device", "FileLike", "IntLikeType", "Number", "Storage", "_bool", "_device", "_dtype", "_float", "_int",
           "_layout", "_size"]  # fmt: skip

_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_dtype, _device, _layout = _dtype_type, _device_type, _layout_type
_size = Union[Size, list[int], tuple[int, ...]]
_symsize, _dispatchkey = _size, str
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
IntLikeType, FloatLikeType, BoolLikeType = int, float, bool
PySymType = Any
Number = (int, float, bool)
_Number = Union[int, float, bool]
Device = Union[_device_type, str, int, None]
FileLike = Union[str, os.PathLike, Any]
Storage = Any
