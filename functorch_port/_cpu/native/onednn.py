"""Convolutions and products by oneDNN, the library that PyTorch's own convolutions are computed with on a CPU.

XLA:CPU needs 2 to 10 times as long for a convolution and its gradients: for (16, 64, 32, 32) by (64, 64, 3, 3)
18 ms, and 55 ms for the gradient of the weight, where oneDNN takes 10 and 9 with the copies to its own layout and back.
Each thread of XLA's pool takes some images through the copies and the convolution while they are in its cache: a
training step of a U-Net takes 0.6 of the time that it takes with oneDNN's own threads, and DCGAN's 0.65.
For products of matrices it needs 1.1 to 2.5 times as long ((64, 784) by (784, 512) on two cores: 0.27 ms and 0.15).
oneDNN's own threads are no help there: they sleep between products, and one that wakes finds XLA's on its core. So each
thread of XLA's pool computes a part of a product. A training step of a GPT of 0.8M parameters takes 0.82 of the time
of one whose large products have oneDNN's threads and the others are XLA's, a pass without gradients 0.72.

`plan` and `plan_product` prepare one: oneDNN's primitives, and a handler of the foreign function interface that runs
them (onednn.ll).
The library is optional (``pip install 'functorch-port[cpu]'``, on Linux and x86-64), and found where pip puts it.
Without it or llvmlite convolutions are XLA's. The gradients are PyTorch's to the last bit, where that uses oneDNN too.

Reference: https://uxlfoundation.github.io/oneDNN/, C API version 3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from ctypes import c_int, c_void_p
from functools import cache, lru_cache
from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._array import tracing
from ..._base.tuning import tuning
from ...ops._convolution import Convolution
from . import dnnl, ffi
from .dnnl import Ints
from .epilogue import Epilogue
from .ffi import cores

__all__ = [
    "Matmuls", "Plan", "Planned", "Product", "available", "blocks", "by_matmul", "by_sgemm", "call", "cores", "engine",
    "in_parts", "kept", "known_to_xla", "matmuls", "parts_of", "plan", "plan_convolution", "plan_packing",
    "plan_product", "takes",
]  # fmt: skip


class Product(NamedTuple):
    """Products of matrices, in batches.

    Attributes:
        batch: how many of them.
        rows, inner, columns: of a product (rows, inner) by (inner, columns).
        left, right: whether the first and the second one are given as their transposes.
    """

    batch: int
    rows: int
    inner: int
    columns: int
    left: bool
    right: bool


@cache
def available() -> bool:
    """Whether oneDNN and what calls it are there."""
    return ffi.available() and dnnl.library() is not None


def takes(*arrays: Any) -> bool:
    """Whether what is computed of such arrays, in this program, can be left to oneDNN."""
    return all(a.dtype == np.float32 for a in arrays) and tracing.is_local() and available()


# ------------------------------------------------------ a primitive of JAX


class Planned(NamedTuple):
    """What a program has of a plan.

    Attributes:
        name: that XLA knows the handler by.
        room: bytes of its second result, which it works in.
        words: what the handler is told by every call; empty if it has a plan of its own.
    """

    name: str
    room: int
    words: Ints = ()


def call(planned: Planned, shape: Ints, *arrays: Any) -> jax.Array:
    """What a plan makes of arrays, in a program for a CPU."""
    made = jax.ShapeDtypeStruct(shape, np.float32), jax.ShapeDtypeStruct((planned.room,), np.uint8)
    told = {"words": np.array(planned.words, np.int64)} if planned.words else {}
    return jax.ffi.ffi_call(planned.name, made)(*arrays, **told)[0]


# -------------------------------------------------------------------- a plan

#: kind -> for the arguments and for the result: whose shape it has, its role in a call, and its descriptor's number
_KINDS: dict[str, Any] = {
    "forward": (
        (("input", dnnl.SRC, dnnl.SRC_MD), ("weight", dnnl.WEIGHTS, dnnl.WEIGHTS_MD)),
        ("output", dnnl.DST, dnnl.DST_MD),
    ),
    "input": (
        (("output", dnnl.DIFF_DST, dnnl.DIFF_DST_MD), ("weight", dnnl.WEIGHTS, dnnl.WEIGHTS_MD)),
        ("input", dnnl.DIFF_SRC, dnnl.DIFF_SRC_MD),
    ),
    "weight": (
        (("input", dnnl.SRC, dnnl.SRC_MD), ("output", dnnl.DIFF_DST, dnnl.DIFF_DST_MD)),
        ("weight", dnnl.DIFF_WEIGHTS, dnnl.DIFF_WEIGHTS_MD),
    ),
}


class _Phase:
    """Words of a phase of a plan that ``onednn.ll`` describes, as they come together.

    Args:
        plan: that it belongs to.
        chunks: how many.
        alone: whether each is done by one thread, or the only one by all that OpenMP has.
    """

    def __init__(self, plan: Plan, chunks: int, alone: bool = True) -> None:
        self.plan, self.chunks, self.alone = plan, chunks, alone
        self.hands = min(chunks, cores())
        self.memories: list[int] = []
        self.steps: list[int] = []
        plan.phases.append(self)

    def memory(
        self,
        descriptor: c_void_p,
        result: bool,
        number: int,
        offset: int = 0,
        chunk: int = 0,
        thread: int = 0,
    ) -> int:
        """An argument or result, ``offset`` bytes into it, and for each ``chunk`` and ``thread`` so many more."""
        self.memories += [descriptor.value or 0, int(result), number, offset, chunk, thread]
        return len(self.memories) // 6 - 1

    def room(self, descriptor: c_void_p) -> int:
        """A memory in the second result, which is there for that; each thread has its own."""
        size = dnnl.size(descriptor)
        return self.memory(descriptor, True, 1, self.plan.reserve(size * self.hands), thread=size)

    def step(self, descriptions: Sequence[c_void_p], *roles: tuple[int, int]) -> None:
        """Run a primitive in every chunk: the same in all, or each chunk's own."""
        needed = [dnnl.descriptor(d, dnnl.SCRATCHPAD_MD) for d in descriptions]
        largest = max(needed, key=dnnl.size)
        if dnnl.size(largest):
            roles = (*roles, (dnnl.SCRATCHPAD, self.room(largest)))
        made = [dnnl.make("dnnl_primitive_create", d).value or 0 for d in descriptions]
        words = [kept(made), 8 * (len(made) > 1), len(roles)]
        words += [x for role in roles for x in role]
        self.steps += words + [0] * (11 - len(words))

    def finish(self, epilogue: Epilogue, images: int, shape: Ints) -> None:
        """Run an epilogue in every chunk, on the images of this shape: the memory before them is its result, unless it
        overwrites them, and those after them are its other arrays.
        """
        count, channels, *sizes = shape
        groups = channels // epilogue.block
        words = [count * groups, groups, *sizes, *(epilogue.sizes or sizes)]
        self.steps += [0, epilogue.address, images - 1, *words, 0, 0]

    def reorder(self, source: c_void_p, at: int, target: c_void_p, to: int) -> None:
        """From one layout to another."""
        self.step([dnnl.reorder(source, target)], (dnnl.SRC, at), (dnnl.DST, to))

    def words(self) -> list[int]:
        """All of it."""
        count, steps = len(self.memories) // 6, len(self.steps) // 11
        return [self.chunks, int(self.alone), self.hands, count, steps, *self.memories, *self.steps]


class Plan:
    """The words of a plan, and the bytes that it works in."""

    def __init__(self) -> None:
        self.phases: list[_Phase] = []
        self.scratch = 0

    def reserve(self, size: int) -> int:
        """Room in the second result; returns where."""
        offset, self.scratch = self.scratch, self.scratch + size
        return offset

    def words(self) -> list[int]:
        """All of it."""
        return [
            engine(),
            len(self.phases),
            *(word for phase in self.phases for word in phase.words()),
        ]


def kept(words: Sequence[int]) -> int:
    """Where the words of a plan stay: as long as its owner, if it has one."""
    owner = dnnl.owner.get()
    return ffi.kept(words, None if owner is None else owner.words)


@lru_cache(tuning.handlers)
def plan(
    kind: str, convolution: Convolution, blocks: tuple[int, int] = (0, 0), epilogue: Epilogue | None = None
) -> Planned | None:
    """The plan of a convolution of two dimensions and of float32.

    Args:
        kind: ``"forward"`` of input and weight; ``"input"``, the gradient of the input, of that of the output and the
            weight; ``"weight"``, the gradient of the weight, of the input and the gradient of the output.
        blocks: how many channels the blocks of the first array and of the result have; 0 for PyTorch's layout.
        epilogue: of what the convolution gives, where that is `in_parts` and in blocks; its arrays are further ones,
            and the plan's result is its.

    Returns:
        None if oneDNN does not have it, or there are enough.
    """
    if ffi.are_enough() and not any(blocks) and epilogue is None:  # a program in blocks has all of its plans
        return None
    try:
        made = plan_convolution(kind, convolution, parts_of(kind, convolution), blocks, epilogue)
    except dnnl.NoPrimitive:
        return None
    what = f"convolution_{kind}" + "_in_blocks" * any(blocks) + "_with_epilogue" * (epilogue is not None)
    description = (
        (convolution, *blocks) if epilogue is None else (convolution, *blocks, epilogue.name, epilogue.sizes)
    )
    return known_to_xla(what, description, made)


def in_parts(kind: str, how: Convolution) -> bool:
    """Whether XLA's threads compute parts of it, or it is left to oneDNN's."""
    return parts_of(kind, how) > 0


@lru_cache(tuning.handlers)
def blocks(kind: str, how: Convolution) -> tuple[int, int]:
    """The ``blocks`` that oneDNN itself would have; 0 where they are not full, too."""
    try:
        part, description = _describe(kind, how, parts_of(kind, how))
    except dnnl.NoPrimitive:
        return 0, 0
    arguments, result = _KINDS[kind]
    return _block(part, description, arguments[0]), _block(part, description, result)


def _block(c: Convolution, description: c_void_p, of: tuple[str, int, int]) -> int:
    name, _, which = of
    shape, wanted = _shapes(c)[name], dnnl.descriptor(description, which)
    return next(
        (
            block
            for block in dnnl.BLOCKS
            if shape[1] % block == 0
            and dnnl.library().dnnl_memory_desc_equal(dnnl.in_blocks(shape, block), wanted)
        ),
        0,
    )


@lru_cache(tuning.handlers)
def plan_product(product: Product) -> Planned:
    """As `plan`, for products of float32: each thread of XLA's pool computes a part of one, or some of them."""
    made = None if ffi.are_enough() else by_matmul(product)
    if made is not None:
        return known_to_xla("product", product, made)
    name = "functorch_port.product"
    ffi.register(name, "onednn.ll", 0)
    words, scratch = by_sgemm(product)
    return Planned(name, max(scratch, dnnl.ALIGNMENT), tuple(words))


def by_matmul(product: Product) -> Plan | None:
    """A plan of oneDNN's matmul, whose loops are made for the shape, for products that it suits."""
    if not _suits_matmul(product):
        return None
    try:
        with dnnl.one_thread():
            return _by_matmul(product)
    except dnnl.NoPrimitive:
        return None


def _suits_matmul(product: Product) -> bool:
    batch, rows, inner, columns, left, right = product
    if left or not right:
        return False
    if batch > 1:
        return batch >= cores()
    # parts of columns are copied in the end, which should be less than there is to multiply by
    return inner >= tuning.product_deep and (rows >= columns or rows <= inner)


def _by_matmul(product: Product) -> Plan:
    """Of a second matrix that is a transpose, with oneDNN's matmul, whose loops are made for the shape.

    Its ``sgemm`` takes up to 3 times as long for few rows: (64, 9216) by the transpose of (64, 9216) 2.0 ms on one core
    and not 0.7, (64, 512) by that of (256, 512) 0.20 and not 0.16; for hundreds of rows it takes as long.
    """
    batch, rows, inner, columns, *_ = product
    by_rows = batch > 1 or rows >= columns
    whole, size = _parted(product, by_rows)
    sizes = [min(size, whole - start) for start in range(0, whole, size)]
    shapes = {n: (n, columns) if by_rows else (rows, n) for n in sizes}
    sources = {n: dnnl.plain((m, inner)) for n, (m, _) in shapes.items()}
    weights = {n: dnnl.strided((inner, k), (1, inner)) for n, (_, k) in shapes.items()}
    results = {n: dnnl.plain(shape) for n, shape in shapes.items()}
    made = {n: dnnl.matmul(sources[n], weights[n], results[n]) for n in shapes}
    plan = Plan()
    phase = _Phase(plan, batch * len(sizes))
    a = phase.memory(sources[size], False, 0, chunk=4 * size * inner if by_rows else 0)
    further = columns if batch > 1 else 0 if by_rows else size
    b = phase.memory(weights[size], False, 1, chunk=4 * inner * further)
    c = (
        phase.memory(results[size], True, 0, chunk=4 * size * columns)
        if by_rows
        else phase.room(results[size])
    )
    phase.step([made[n] for n in sizes], (dnnl.SRC, a), (dnnl.WEIGHTS, b), (dnnl.DST, c))
    if not by_rows:  # its loops are for results that lie together
        targets = {n: dnnl.strided(shape, (columns, 1)) for n, shape in shapes.items()}
        d = phase.memory(targets[size], True, 0, chunk=4 * size)
        phase.step([dnnl.reorder(results[n], targets[n]) for n in sizes], (dnnl.SRC, c), (dnnl.DST, d))
    return plan


def _parted(product: Product, by_rows: bool) -> tuple[int, int]:
    """How many rows or columns it has, and how many of them a thread takes."""
    batch, rows, inner, columns, *_ = product
    whole, multiple = (rows, _ROWS) if by_rows else (columns, _COLUMNS)
    wanted = min(-(-tuning.product_parts * cores() // batch), rows * inner * columns // tuning.product_part)
    size = -(-whole // max(wanted, 1))
    return whole, min(-(-size // multiple) * multiple, whole)


def by_sgemm(product: Product) -> tuple[list[int], int]:
    """The words of a call that computes products with ``sgemm``, and the bytes that it works in."""
    batch, rows, inner, columns, left, right = product
    by_rows = rows >= columns
    # the columns of such a matrix fall upon few places of the cache, so a part is copied to where they do not
    copies = left and by_rows and rows >= tuning.product_wide and rows % (tuning.product_wide // 2) == 0
    whole, size = _parted(product, by_rows)
    parts = -(-whole // size)
    words = [0, batch * parts, parts, size, whole, int(by_rows), rows, columns, inner]
    words += [ord("T"), rows] if left else [ord("N"), inner]
    words += [ord("T"), inner] if right else [ord("N"), columns]
    words += [rows * inner, (1 if left else inner) if by_rows else 0]
    words += [inner * columns, 0 if by_rows else inner if right else 1]
    words += [rows * columns, columns if by_rows else 1]
    copied = size + _COLUMNS if copies else 0
    words.append(copied)
    return words, 4 * copied * inner * batch * parts


#: rows and columns of a part are multiples of what oneDNN's innermost loops compute together
_ROWS, _COLUMNS = 8, 16


class Matmul(NamedTuple):
    """A primitive that multiplies rows with weights, and words that tell how it is called.

    Attributes:
        primitive, source, product, scratchpad: the primitive, and descriptors of its memories.
        room: bytes of the scratchpad.
    """

    primitive: int
    source: int
    product: int
    scratchpad: int
    room: int


class Matmuls(NamedTuple):
    """Primitives for several numbers of rows and the same weights.

    Attributes:
        weights: the descriptor of the weights' layout.
        arity: how many memories a primitive takes: source, weights, product, and a scratchpad if it has one.
    """

    primitives: list[Matmul]
    weights: c_void_p
    arity: int


def matmuls(rows: Sequence[int], inner: int, columns: int) -> Matmuls | None:
    """For one thread, products (rows, inner) by (inner, columns), whose weights have the layout that oneDNN chooses for
    the first number of rows; None if it does not have them.
    """
    weights, made, arity = dnnl.any_layout((inner, columns)), {}, 3
    try:
        with dnnl.one_thread():
            for count in dict.fromkeys(rows):
                source, product = dnnl.plain((count, inner)), dnnl.plain((count, columns))
                description = dnnl.matmul(source, weights, product)
                weights, pad = (
                    dnnl.descriptor(description, dnnl.WEIGHTS_MD),
                    dnnl.descriptor(description, dnnl.SCRATCHPAD_MD),
                )
                room = dnnl.size(pad)
                arity = 4 if room else arity
                primitive = dnnl.make("dnnl_primitive_create", description)
                places = (source, product, pad if room else product)
                made[count] = Matmul(primitive.value or 0, *(x.value or 0 for x in places), room=room)
    except dnnl.NoPrimitive:
        return None
    return Matmuls([made[count] for count in rows], weights, arity)


@lru_cache(tuning.handlers)
def plan_unblocking(count: int, block: int, pixels: Ints) -> Planned:
    """The plan that takes arrays out of blocks: of shape (count, H, W, block) to (count, block, H, W)."""
    most = max(1, min(4 * cores(), 4 * count * block * prod(pixels) // tuning.weights_alone))
    parts = max(n for n in range(1, most + 1) if count % n == 0)
    shape = count // parts, block, *pixels
    given, target, plan = dnnl.in_blocks(shape, block), dnnl.plain(shape), Plan()
    phase = _Phase(plan, parts)
    size = 4 * prod(shape)
    with dnnl.one_thread():
        phase.reorder(
            given,
            phase.memory(given, False, 0, chunk=size),
            target,
            phase.memory(target, True, 0, chunk=size),
        )
    return known_to_xla("unblocking", (count, block, *pixels), plan)


def plan_packing(shape: Ints, strides: Ints, wanted: c_void_p) -> Plan:
    """A plan that puts weights of this shape and with such strides into the layout that `matmuls` wants."""
    given = dnnl.strided(shape, strides)
    plan = Plan()
    (made,) = _by_slices(shape, given, wanted)
    phase = _Phase(plan, len(made))
    phase.step(made, (dnnl.SRC, phase.memory(given, False, 0)), (dnnl.DST, phase.memory(wanted, True, 0)))
    return plan


def engine() -> int:
    """oneDNN's engine, as a word of a plan."""
    return dnnl.engine().value or 0


def known_to_xla(what: str, description: Any, plan: Plan) -> Planned:
    """The plan, for programs; the same kind and description means the same plan."""
    digest = hashlib.sha256(repr(description).encode()).hexdigest()[:16]
    name = f"functorch_port.{what}.{digest}"
    ffi.register(name, "onednn.ll", kept(plan.words()))
    return Planned(name, max(plan.scratch, dnnl.ALIGNMENT))


def _shapes(c: Convolution) -> dict[str, Ints]:
    """Those of its arrays, as oneDNN has them."""
    weight = c.weight if c.groups == 1 else (c.groups, c.weight[0] // c.groups, *c.weight[1:])
    return {"input": c.input, "weight": weight, "output": c.output}


def _given(shape: Ints, block: int) -> c_void_p:
    return dnnl.in_blocks(shape, block) if block else dnnl.plain(shape)


def parts_of(kind: str, c: Convolution) -> int:
    """Into how many parts of its images a convolution is cut, for threads that take one after the other; 0 to leave it
    to oneDNN, as it has too few images for the cores.
    """
    images, hands = c.input[0], cores()
    sizes = [s for s in range(1, images + 1) if images % s == 0]
    waits = {s: -(-images // s // hands) * s for s in sizes}  # images that one thread has in a row
    if min(waits.values()) * hands > 1.4 * images:
        return 0
    good = [s for s in sizes if waits[s] <= 1.1 * min(waits.values())]
    weights, per_image = prod(c.weight), prod(c.input[1:]) + prod(c.output[1:])
    if kind == "weight":  # every part has a gradient of its own, and they are added up in the end
        # of (16, 512, 4, 4) by (512, 512, 3, 3), whose images are fewer numbers, 9.7 ms that way and 6.7 by oneDNN
        return 0 if weights > images * per_image else images // max(good)
    work = prod(c.output[1:]) * prod(c.weight[1:])
    enough = (s for s in good if s * work >= tuning.convolution_part and s * per_image >= weights)
    return images // next(enough, max(good))


def plan_convolution(
    kind: str,
    c: Convolution,
    parts: int,
    blocks: tuple[int, int] = (0, 0),
    epilogue: Epilogue | None = None,
) -> Plan:
    """As `plan`, of so many parts of the images; 0 leaves them to oneDNN's threads.

    Raises:
        dnnl.NoPrimitive: if oneDNN does not have it.
    """
    with dnnl.one_thread(parts > 0):
        return _in_parts(kind, c, blocks, parts, epilogue)


def _in_parts(
    kind: str, c: Convolution, blocks: tuple[int, int], parts: int, epilogue: Epilogue | None
) -> Plan:
    part, description = _describe(kind, c, parts)
    shapes, plan = _shapes(part), Plan()
    alone, parts = parts > 0, max(parts, 1)
    arguments, (name, role, which) = _KINDS[kind]
    roles = []
    weights = None
    if kind != "weight":
        weights = _weights(plan, shapes["weight"], dnnl.descriptor(description, arguments[1][2]))
    phase = _Phase(plan, parts, alone)
    for number, (argument, argument_role, argument_which) in enumerate(arguments):
        wanted = dnnl.descriptor(description, argument_which)
        if argument == "weight":
            at = phase.memory(wanted, *weights) if weights else phase.memory(wanted, False, number)
        else:
            given = _given(shapes[argument], 0 if number else blocks[0])
            at = phase.memory(given, False, number, chunk=4 * prod(shapes[argument]))
            if not dnnl.same(given, wanted):
                to = phase.room(wanted)
                phase.reorder(given, at, wanted, to)
                at = to
        roles.append((argument_role, at))
    made = dnnl.descriptor(description, which)
    if kind == "weight" and (parts > 1 or not dnnl.same(dnnl.plain(shapes[name]), made)):
        first = plan.reserve(dnnl.size(made) * parts)
        phase.step([description], *roles, (role, phase.memory(made, True, 1, first, chunk=dnnl.size(made))))
        _add_up(plan, shapes["weight"], made, first, parts)
        return plan
    shape, last = shapes[name], made
    if epilogue and epilogue.sizes:
        shape = (*shape[:2], *epilogue.sizes)
        last = dnnl.in_blocks(shape, epilogue.block)
    target = _given(shape, blocks[1])

    def result() -> int:
        return phase.memory(target, True, 0, chunk=4 * prod(shape))

    at = result() if dnnl.same(last, target) else phase.room(last)
    images = at if last is made else phase.room(made)
    for number, kind_of_other in enumerate(epilogue.kinds if epilogue else (), len(arguments)):
        each = 4 * prod(shapes[name]) if kind_of_other == "images" else 0
        phase.memory(made, False, number, chunk=each)
    phase.step([description], *roles, (role, images))
    if epilogue:
        phase.finish(epilogue, images, shapes[name])
    if not dnnl.same(last, target):
        phase.reorder(last, at, target, result())
    return plan


def _weights(plan: Plan, shape: Ints, wanted: c_void_p) -> tuple[bool, int, int] | None:
    """A phase that puts weights into the layout wanted; returns where they are then, None if they have it."""
    given = dnnl.plain(shape)
    if dnnl.same(given, wanted):
        return None
    place = plan.reserve(dnnl.size(wanted))
    (made,) = _by_slices(shape, given, wanted)
    phase = _Phase(plan, len(made))
    phase.step(
        made, (dnnl.SRC, phase.memory(given, False, 1)), (dnnl.DST, phase.memory(wanted, True, 1, place))
    )
    return True, 1, place


def _add_up(plan: Plan, shape: Ints, made: c_void_p, first: int, parts: int) -> None:
    """A phase that adds the parts of a weight's gradient and puts them into XLA's layout."""
    target = dnnl.plain(shape)
    reorders = _by_slices(shape, made, target, parts)
    phase = _Phase(plan, len(reorders[0]))
    to = phase.memory(target, True, 0)
    for k, descriptions in enumerate(reorders):
        at = phase.memory(made, True, 1, first + k * dnnl.size(made))
        phase.step(descriptions, (dnnl.SRC, at), (dnnl.DST, to))


def _by_slices(shape: Ints, source: c_void_p, target: c_void_p, sources: int = 1) -> list[list[c_void_p]]:
    """For each source, the first of which is written and the others added to it: reorders of slices of the first
    dimension, one for each core; of the whole if it is small or cannot be cut.
    """
    count = min(cores(), 4 * prod(shape) // tuning.weights_alone)
    size = -(-shape[0] // max(count, 1))
    size = -(-size // 16) * 16
    slices = [(start, min(size, shape[0] - start)) for start in range(0, shape[0], size)]
    try:
        with dnnl.one_thread():
            cut = [[dnnl.submemory(d, shape, *part) for part in slices] for d in (source, target)]
            return [[dnnl.reorder(a, b, k > 0) for a, b in zip(*cut, strict=True)] for k in range(sources)]
    except dnnl.NoPrimitive:
        return [[dnnl.reorder(source, target, k > 0)] for k in range(sources)]


def _describe(kind: str, c: Convolution, parts: int) -> tuple[Convolution, c_void_p]:
    """One of the parts of a convolution, and oneDNN's description of it."""
    n = c.input[0] // max(parts, 1)
    c = c._replace(input=(n, *c.input[1:]))
    before, after = zip(*c.pads, strict=True)
    geometry = [
        dnnl.dims(c.strides),
        dnnl.dims([d - 1 for d in c.dilations]),
        dnnl.dims(before),
        dnnl.dims(after),
    ]
    x, w, y = (dnnl.any_layout(_shapes(c)[name]) for name in ("input", "weight", "output"))
    with dnnl.one_thread(parts > 0):
        forward = dnnl.make(
            "dnnl_convolution_forward_primitive_desc_create",
            *(
                dnnl.engine(),
                c_int(dnnl.TRAINING),
                c_int(dnnl.DIRECT),
                x,
                w,
                None,
                y,
                *geometry,
                dnnl.attributes(),
            ),
        )
        if kind == "input":
            forward = dnnl.make(
                "dnnl_convolution_backward_data_primitive_desc_create",
                *(dnnl.engine(), c_int(dnnl.DIRECT), x, w, y, *geometry, forward, dnnl.attributes()),
            )
        elif kind == "weight":
            forward = dnnl.make(
                "dnnl_convolution_backward_weights_primitive_desc_create",
                *(dnnl.engine(), c_int(dnnl.DIRECT), x, w, None, y, *geometry, forward, dnnl.attributes()),
            )
    return c, forward
