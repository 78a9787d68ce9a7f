"""functorch_port: PyTorch's training stack on JAX.

Use it under PyTorch's name: ``import functorch_port as torch``.
"""

from __future__ import annotations

import importlib as _importlib
import sys as _sys
from typing import Any as _Any

from ._base import collector as _collector
from ._base import settings as _settings

if not _settings.PLAIN:
    from ._cpu import install as _cpu_install

    _cpu_install.install()  # before operations are registered
# isort: split
from . import autograd as autograd
from . import ops as _ops
from ._base import cache as _cache
from ._base import dtypes as _dtypes
from ._base import inside as _inside
from ._base import layout as _layout
from ._base.config import get_float32_matmul_precision as get_float32_matmul_precision
from ._base.config import set_float32_matmul_precision as set_float32_matmul_precision
from ._base.device import device as device
from ._base.device import get_default_device as get_default_device
from ._base.device import set_default_device as set_default_device
from ._base.dtypes import dtype as dtype
from ._base.dtypes import finfo as finfo
from ._base.dtypes import get_default_dtype as get_default_dtype
from ._base.dtypes import iinfo as iinfo
from ._base.dtypes import set_default_dtype as set_default_dtype
from ._base.memory import OutOfMemoryError as OutOfMemoryError
from ._base.promotion import can_cast as can_cast
from ._base.promotion import promote_types as promote_types
from ._base.size import Size as Size
from ._run import bind as _bind
from ._run import fork as _fork
from ._tensor import creation as _creation
from ._tensor.grad_mode import enable_grad as enable_grad
from ._tensor.grad_mode import inference_mode as inference_mode
from ._tensor.grad_mode import is_grad_enabled as is_grad_enabled
from ._tensor.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from ._tensor.grad_mode import no_grad as no_grad
from ._tensor.grad_mode import set_grad_enabled as set_grad_enabled
from ._tensor.tensor import Tensor as Tensor
from .version import __version__ as __version__

_NAME = __name__  # the launcher gives the module another
_cache.enable()
_inside.owner_of = lambda cell: _importlib.import_module(f"{_NAME}._trace.names").owner_of(cell)
autograd._complete()
for _table in (
    _bind.publish_functions({n: getattr(_creation, n) for n in _creation.__all__}, "torch"),
    {n: getattr(_layout, n) for n in _layout.__all__},
    _bind.namespaces["torch"],
    _dtypes.NAMES,
    _dtypes.ABSENT,
):
    globals().update(_table)

#: submodules and names in them, which are imported on first use
_SUBMODULES = [
    "_C",
    "_VF",
    "__config__",
    "__future__",
    "_custom_ops",
    "_dynamo",
    "_functorch",
    "_higher_order_ops",
    "_subclasses",
    "_inductor",
    "_prims_common",
    "_tensor_str",
    "_utils",
    "_vmap_internals",
    "accelerator",
    "amp",
    "ao",
    "autograd",
    "backends",
    "compiler",
    "cpu",
    "cuda",
    "distributed",
    "distributions",
    "export",
    "flax",
    "fft",
    "func",
    "futures",
    "functional",
    "functorch",
    "fx",
    "hub",
    "interchange",
    "jit",
    "library",
    "linalg",
    "masked",
    "mps",
    "mtia",
    "multiprocessing",
    "nested",
    "nn",
    "onnx",
    "optim",
    "overrides",
    "profiler",
    "quasirandom",
    "random",
    "return_types",
    "safetensors",
    "serialization",
    "signal",
    "sparse",
    "special",
    "storage",
    "testing",
    "torch_version",
    "types",
    "utils",
    "version",
    "vision",
    "viz",
    "xpu",
]
_LAZY = {
    "Generator": "_random.generator",
    "default_generator": "_random.generator",
    "GradScaler": "amp",
    "autocast": "amp",
    "compile": "compiler",
    "functionalize": "compiler",
    "get_rng_state": "random",
    "initial_seed": "random",
    "load": "serialization",
    "manual_seed": "random",
    "save": "serialization",
    "seed": "random",
    "set_printoptions": "_tensor.printing",
    "set_rng_state": "random",
    "cond": "func",
    "sparse_coo_tensor": "_run.sparse",
    **dict.fromkeys(
        [
            "hspmm",
            "smm",
            "sparse_bsc_tensor",
            "sparse_bsr_tensor",
            "sparse_compressed_tensor",
            "sparse_csc_tensor",
            "sparse_csr_tensor",
            "sspaddmm",
        ],
        "_run.sparse",
    ),
    "Event": "_streams",
    "Future": "futures",
    "PyTorchFileReader": "serialization._files",
    "ScriptFunction": "jit",
    "TensorType": "_C",
    "ScriptModule": "jit",
    "Stream": "_streams",
    "vmap": "func",
    "while_loop": "func",
    **dict.fromkeys(
        [
            "clear_autocast_cache",
            "get_autocast_cpu_dtype",
            "get_autocast_dtype",
            "get_autocast_gpu_dtype",
            "is_autocast_cache_enabled",
            "is_autocast_cpu_enabled",
            "is_autocast_enabled",
            "set_autocast_cache_enabled",
            "set_autocast_dtype",
            "set_autocast_enabled",
        ],
        "amp.autocast_mode",
    ),
    **dict.fromkeys(
        [
            "AcceleratorError",
            "SymBool",
            "SymFloat",
            "SymInt",
            "_assert",
            "_assert_async",
            "_check",
            "_check_index",
            "_check_is_size",
            "_check_not_implemented",
            "_check_tensor_all",
            "_check_tensor_all_with",
            "_check_type",
            "_check_value",
            "_check_with",
            "compiled_with_cxx11_abi",
            "e",
            "frombuffer",
            "get_device",
            "get_device_module",
            "inf",
            "is_distributed",
            "nan",
            "newaxis",
            "pi",
            "set_anomaly_enabled",
            "sym_float",
            "sym_int",
            "sym_ite",
            "sym_max",
            "sym_min",
            "sym_not",
            "sym_sum",
        ],
        "_checks",
    ),
    **dict.fromkeys(
        [
            "BFloat16Storage",
            "BoolStorage",
            "ByteStorage",
            "CharStorage",
            "ComplexDoubleStorage",
            "ComplexFloatStorage",
            "DoubleStorage",
            "FloatStorage",
            "HalfStorage",
            "IntStorage",
            "LongStorage",
            "ShortStorage",
            "Storage",
            "TypedStorage",
            "UntypedStorage",
        ],
        "storage",
    ),
    **dict.fromkeys(
        [
            "_cast_Byte",
            "_cast_Char",
            "_cast_Double",
            "_cast_Float",
            "_cast_Half",
            "_cast_Int",
            "_cast_Long",
            "_cast_Short",
            "_convert_indices_from_coo_to_csr",
            "_convert_indices_from_csr_to_coo",
            "_segment_reduce",
            "_shape_as_tensor",
            "_softmax_backward_data",
            "adaptive_max_pool1d",
            "alpha_dropout",
            "alpha_dropout_",
            "as_strided_",
            "batch_norm",
            "binary_cross_entropy_with_logits",
            "conv_tbc",
            "convolution",
            "cosine_embedding_loss",
            "ctc_loss",
            "dropout",
            "dropout_",
            "dsmm",
            "embedding",
            "embedding_bag",
            "embedding_renorm_",
            "feature_alpha_dropout",
            "feature_alpha_dropout_",
            "feature_dropout",
            "feature_dropout_",
            "hinge_embedding_loss",
            "instance_norm",
            "kl_div",
            "margin_ranking_loss",
            "max_pool1d_with_indices",
            "native_dropout",
            "poisson_nll_loss",
            "rrelu",
            "rrelu_",
            "spmm",
            "triplet_margin_loss",
        ],
        "_native",
    ),
    **dict.fromkeys(
        [
            "are_deterministic_algorithms_enabled",
            "get_deterministic_debug_mode",
            "get_num_interop_threads",
            "get_num_threads",
            "is_deterministic_algorithms_warn_only_enabled",
            "is_warn_always_enabled",
            "set_deterministic_debug_mode",
            "set_flush_denormal",
            "set_num_interop_threads",
            "set_num_threads",
            "set_warn_always",
            "use_deterministic_algorithms",
        ],
        "_stubs",
    ),
}


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        value = getattr(_importlib.import_module(f"{_NAME}.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    if name == "torch":
        return _sys.modules[_NAME]
    if name in _SUBMODULES:
        try:
            return _importlib.import_module(f"{_NAME}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{_NAME}.{name}":
                raise
    if name.startswith("_foreach_"):
        found = getattr(_importlib.import_module(f"{_NAME}._foreach"), name, None)
        if found is not None:
            return found
    raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_SUBMODULES})


_collector.pass_over_imports()
