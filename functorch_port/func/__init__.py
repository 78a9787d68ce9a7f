"""`torch.func`: JAX's function transforms on Tensors, and structured control flow."""

from ._compatibility import debug_unwrap as debug_unwrap
from ._compatibility import functionalize as functionalize
from ._compatibility import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from ._control import associative_scan as associative_scan
from ._control import cond as cond
from ._control import scan as scan
from ._control import while_loop as while_loop
from ._from_jax import from_jax as from_jax
from ._functional_call import functional_call as functional_call
from ._functional_call import stack_module_state as stack_module_state
from ._pytree import Pure as Pure
from ._pytree import load_pytree as load_pytree
from ._pytree import pure as pure
from ._rearrange import rearrange as rearrange
from ._transforms import grad as grad
from ._transforms import grad_and_value as grad_and_value
from ._transforms import hessian as hessian
from ._transforms import jacfwd as jacfwd
from ._transforms import jacrev as jacrev
from ._transforms import jvp as jvp
from ._transforms import linearize as linearize
from ._transforms import value_and_grad as value_and_grad
from ._transforms import vjp as vjp
from ._vmap import vmap as vmap

__all__ = [
    "Pure",
    "associative_scan",
    "cond",
    "debug_unwrap",
    "from_jax",
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
