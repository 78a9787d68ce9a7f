"""``torch.autograd.grad_mode``."""

from .._tensor.grad_mode import _force_original_view_tracking as _force_original_view_tracking
from .._tensor.grad_mode import enable_grad as enable_grad
from .._tensor.grad_mode import inference_mode as inference_mode
from .._tensor.grad_mode import no_grad as no_grad
from .._tensor.grad_mode import set_grad_enabled as set_grad_enabled
from .._tensor.grad_mode import set_multithreading_enabled as set_multithreading_enabled
