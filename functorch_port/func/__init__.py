"""`torch.func`: JAX's function transforms on Tensors, and structured control flow."""

from .compatibility import debug_unwrap as debug_unwrap
from .compatibility import functionalize as functionalize
from .compatibility import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from .control import associative_scan as associative_scan
from .control import cond as cond
from .control import scan as scan
from .control import while_loop as while_loop
from .functional_call import functional_call as functional_call
from .functional_call import stack_module_state as stack_module_state
from .pytree import Pure as Pure
from .pytree import load_pytree as load_pytree
from .pytree import pure as pure
from .rearrange import rearrange as rearrange
from .transforms import grad as grad
from .transforms import grad_and_value as grad_and_value
from .transforms import hessian as hessian
from .transforms import jacfwd as jacfwd
from .transforms import jacrev as jacrev
from .transforms import jvp as jvp
from .transforms import linearize as linearize
from .transforms import value_and_grad as value_and_grad
from .transforms import vjp as vjp
from .vmap import vmap as vmap

__all__ = [
    "Pure",
    "associative_scan",
    "cond",
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "load_pytree",
    "pure",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "scan",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]
