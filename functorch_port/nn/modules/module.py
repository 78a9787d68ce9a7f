"""`torch.nn.modules.module`: where PyTorch keeps `Module` and the process-wide hooks."""

# by which `typing.get_type_hints` understands the annotations of `Module`
from collections.abc import Callable as Callable
from typing import Any as Any

from ..._tensor.tensor import Tensor as Tensor
from .._hooks import register_module_backward_hook as register_module_backward_hook
from .._hooks import register_module_buffer_registration_hook as register_module_buffer_registration_hook
from .._hooks import register_module_forward_hook as register_module_forward_hook
from .._hooks import register_module_forward_pre_hook as register_module_forward_pre_hook
from .._hooks import register_module_full_backward_hook as register_module_full_backward_hook
from .._hooks import register_module_full_backward_pre_hook as register_module_full_backward_pre_hook
from .._hooks import register_module_module_registration_hook as register_module_module_registration_hook
from .._hooks import (
    register_module_parameter_registration_hook as register_module_parameter_registration_hook,
)
from .._module import Module as Module
from .._module import indent as _addindent
from .._state_dict import EXTRA_STATE_KEY as _EXTRA_STATE_KEY_SUFFIX
from .._state_dict import _IncompatibleKeys as _IncompatibleKeys
from ..parameter import Parameter as Parameter

__all__ = [
    "Module",
    "_EXTRA_STATE_KEY_SUFFIX",
    "_IncompatibleKeys",
    "_addindent",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]
