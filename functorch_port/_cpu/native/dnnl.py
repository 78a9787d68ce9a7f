"""oneDNN's own library: where it is, and the functions of its C API that `onednn` calls."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from ctypes import byref, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

__all__ = [
    "Ints", "NoPrimitive", "Owner", "any_layout", "attributes", "descriptor", "dims", "engine", "in_blocks", "library",
    "make", "matmul", "one_thread", "owner", "plain", "reorder", "same", "size", "strided", "submemory",
]  # fmt: skip

Ints = tuple[int, ...]

# dnnl_types.h
CPU, UNDEFINED, F32, ANY, TRAINING, DIRECT, USER = 1, 0, 3, 1, 64, 1, 1
SRC, DST, WEIGHTS, SCRATCHPAD, DIFF_SRC, DIFF_DST, DIFF_WEIGHTS = 1, 17, 33, 80, 129, 145, 161
SRC_MD, DIFF_SRC_MD, WEIGHTS_MD, DIFF_WEIGHTS_MD, DST_MD, DIFF_DST_MD, SCRATCHPAD_MD = (
    129, 130, 131, 132, 133, 134, 136,
)  # fmt: skip
ALIGNMENT = 64
#: tags of layouts whose channels are in blocks of so many, the first ones for a CPU with AVX-512
BLOCKS = {16: 78, 8: 102}


@cache
def library() -> Any:
    path = _path()
    if path is None:
        return None
    import llvmlite.binding as llvm

    waiting = os.environ.get("OMP_WAIT_POLICY")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that spin after their work would slow XLA's
    try:
        library = ctypes.CDLL(str(path))
        llvm.load_library_permanently(str(path))
        for name in ("omp_set_num_threads", "omp_get_max_threads"):
            # of its own OpenMP, as there may be several
            llvm.add_symbol(name, ctypes.cast(getattr(library, name), c_void_p).value)
    except (OSError, RuntimeError, AttributeError):
        return None
    finally:
        if waiting is None:
            os.environ.pop("OMP_WAIT_POLICY", None)
    library.dnnl_primitive_desc_query_md.restype = c_void_p
    library.dnnl_memory_desc_get_size.restype = c_size_t
    return library


def _path() -> Path | None:
    """Where pip has put the library."""
    try:
        files = importlib.metadata.files("onednn-cpu-gomp") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Path(file.locate()) for file in files if file.name == "libdnnl.so.3"]  # type: ignore[arg-type]
    return next((path for path in found if path.exists()), None)


class NoPrimitive(Exception):
    """oneDNN has no such primitive."""


class Owner:
    """What is made inside ``with`` lives as long as the owner; what nobody owns stays as long as the process."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, c_void_p]] = []
        self.words: list[Any] = []

    def __enter__(self) -> Owner:
        self._before = owner.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        owner.reset(self._before)

    def __del__(self) -> None:
        for destroy, what in reversed(self.made):
            destroy(what)


#: of what is being made in this context
owner: ContextVar[Owner | None] = ContextVar("owner", default=None)
#: what an owner destroys in the end; engines and attributes stay
_OWNED = ("primitive_desc", "primitive", "memory_desc")


def make(name: str, *args: Any) -> c_void_p:
    """What a function of the library makes."""
    made = c_void_p()
    if getattr(library(), name)(byref(made), *args):
        raise NoPrimitive(name)
    if (of := owner.get()) is not None:
        kind = name.partition("_create")[0]
        if owned := next((k for k in _OWNED if kind.endswith(k)), None):
            of.made.append((getattr(library(), f"dnnl_{owned}_destroy"), made))
    return made


@cache
def engine() -> c_void_p:
    return make("dnnl_engine_create", c_int(CPU), c_size_t(0))


@cache
def attributes(added: bool = False) -> c_void_p:
    """Of primitives whose scratchpad is given; ``added`` is whether the result is added to what is there."""
    made = make("dnnl_primitive_attr_create")
    library().dnnl_primitive_attr_set_scratchpad_mode(made, c_int(USER))
    if added:
        after = make("dnnl_post_ops_create")
        library().dnnl_post_ops_append_sum(after, c_float(1), c_int32(0), c_int(UNDEFINED))
        library().dnnl_primitive_attr_set_post_ops(made, after)
    return made


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Primitives made inside are for one thread; without ``wanted`` for those that OpenMP has."""
    before = library().omp_get_max_threads()
    library().omp_set_num_threads(1 if wanted else before)
    try:
        yield
    finally:
        library().omp_set_num_threads(before)


def dims(values: Sequence[int]) -> Any:
    return (c_int64 * 12)(*values)


def plain(shape: Ints) -> c_void_p:
    """The layout of XLA's arrays."""
    return strided(shape, [prod(shape[i + 1 :]) for i in range(len(shape))])


def strided(shape: Ints, strides: Sequence[int]) -> c_void_p:
    return make(
        "dnnl_memory_desc_create_with_strides", c_int(len(shape)), dims(shape), c_int(F32), dims(strides)
    )


def any_layout(shape: Ints) -> c_void_p:
    """A layout that oneDNN chooses."""
    return make("dnnl_memory_desc_create_with_tag", c_int(len(shape)), dims(shape), c_int(F32), c_int(ANY))


def in_blocks(shape: Ints, block: int) -> c_void_p:
    """Images of this shape, (N, C / block, H, W, block)."""
    return make("dnnl_memory_desc_create_with_tag", c_int(4), dims(shape), c_int(F32), c_int(BLOCKS[block]))


def descriptor(primitive: c_void_p, which: int) -> c_void_p:
    return c_void_p(library().dnnl_primitive_desc_query_md(primitive, c_int(which), c_int(0)))


def same(a: c_void_p, b: c_void_p) -> bool:
    return bool(library().dnnl_memory_desc_equal(a, b))


def size(descriptor: c_void_p) -> int:
    """Bytes of a memory, up to the next one's beginning."""
    size = library().dnnl_memory_desc_get_size(descriptor) if descriptor.value else 0
    return -(-size // ALIGNMENT) * ALIGNMENT


def submemory(descriptor: c_void_p, shape: Ints, start: int, size: int) -> c_void_p:
    if size == shape[0]:
        return descriptor
    sizes, offsets = (size, *shape[1:]), (start, *(0 for _ in shape[1:]))
    return make("dnnl_memory_desc_create_submemory", descriptor, dims(sizes), dims(offsets))


def reorder(source: c_void_p, target: c_void_p, added: bool = False) -> c_void_p:
    return make("dnnl_reorder_primitive_desc_create", source, engine(), target, engine(), attributes(added))


def matmul(source: c_void_p, weights: c_void_p, product: c_void_p) -> c_void_p:
    return make(
        "dnnl_matmul_primitive_desc_create",
        *(engine(), source, weights, None, product, attributes()),
    )
