"""The numbers that say when something pays. They were found by measuring, on two cores of an x86 processor.

`tuning` is what the whole package reads. `Tuning.having` tries other numbers.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import settings

__all__ = ["Tuning", "tuning"]


def _setting(name: str) -> Any:
    return field(default_factory=lambda: settings.get(name))


@dataclass(slots=True)
class Tuning:
    """
    Attributes:
        numpy_elements: tensors with more elements are not kept in numpy; 0 keeps none.
        numpy_time: microseconds, by an estimate, above which an operation is compiled instead.
        numpy_products: multiply-adds above which a product is compiled instead.
        numpy_leaves: gradients of more leaves than this go to a compiled optimizer next, so that they are not put into
            numpy.

        tier: "auto": what is new runs by numpy until compiling it pays; "numpy": always, where numpy has a program;
            "compiled": never, but for small tensors.
        background: whether a thread compiles what pays. If not, it is compiled before the program goes on.
        compilation_time, compilation_each: microseconds that it takes to compile a program, and for each operation in
            it.
        operation_time: microseconds that an operation on its own takes beside the arithmetic.
        update_time: microseconds that an optimizer's step without compilation takes longer for each element.
        compilation_share: of that time, what may be lost by numpy before a program is compiled.

        replay_after: how often eager operations run one by one before they become a program; 0: always, and nothing is
            lazy.
        waiting_elements: elements of lazy values, in all; beyond it operations run at once.
        program_calls: more operations than this run one by one.
        program_small: elements in the arguments and results of a program that is small.
        program_elements: elements beyond which no program is made.
        program_new: operations are compiled at once if there are fewer of them than so many for each that is new: up to
            16 layers that are alike. The first three steps of a GPT of 12 take 4.3 s then, not 6.4 (the first one 4.1,
            not 3.4); those of one of 24 take 7.4 instead of 8.7 (the first one 7.0 instead of 3.6).
        program_pays: programs that are not small, which take a second or so to compile, may be one more than every so
            many calls of them: shapes that come a few times each run one by one.

        joint_elements: elements of the largest parameter whose state is joined with others'.
        joint_least: how many small ones make that worth while.
        joint_members: parameters of one joint, and of one program of many parameters: equal programs share one.
        joint_parameters: from how many on a compiled program takes parameters joined, too.
        pending_elements: elements of an average gradient from which on a program returns it on one CPU. An array more
            takes 6 us, about as long as writing a parameter of this size elsewhere than where it was: for 670,000
            numbers in six arrays a step takes 2.3 ms with pending gradients and 1.9 with returned ones.

        update_parameters: parameters that one program updates. The more arrays a call has the more each costs, and
            equal parts share one program: many parameters in parts compile in a tenth of the time, and run faster.
        kernel_parameters: parameters that one call of a kernel updates: what XLA needs to compile a call grows with the
            square of its arrays.
        steady_tries: how often an optimizer that cannot be covered is looked at again.

        check_integers, check_others: elements of integers, and of others, that are checked before a program runs.
        check_time: microseconds that computing what is checked may take, by an estimate.

        kernel_chunk: elements that a thread takes at a time in an update: some 0.1 ms.
        loop_least: elements that a loop of updates makes before LLVM's passes make it fast: that takes 16 ms, and as
            much is lost by so many.
        row_least: rows shorter than this are not worth a loop of their own.
        row_chunk: elements that a thread takes at a time, in whole rows: some 20 us.
        row_part: elements of a row that are added up in its own type; sums of so many are added up in float64.
        convolution_least, product_least: multiply-adds below which the call of a library costs more than it gains.
        convolution_part: multiply-adds of a part, so that its calls cost little. Its arrays should stay in the cache
            from one step to the next, so it is no larger, unless its images are fewer numbers than the weights, which
            should not be read so often.
        convolution_shared: multiply-adds of a single convolution from which on threads share it.
        weights_alone: bytes of weights that one thread puts into another layout alone.
        small_product_least, small_product_rows: multiply-adds, and rows, from which on a smaller product is a kernel's.
        product_parts: parts for each core; with two of them, which leaves less to wait for, packing takes 2 % more.
        product_part: multiply-adds of a part, at least.
        product_wide: rows of a transpose from which on it is copied: (700, 1024) by (700, 256) takes 1.10 ms instead of
            1.23, (1024, 1536) by (1024, 384) 3.26 instead of 3.78; of 512 rows, or 1152, it would take longer.
        product_deep: inner dimension from which on a library's matmul is better for the transpose of the second one:
            for 128 rows of 128 numbers its calls cost 4 us more than they save, of 28; for 16 of 512 they take 25
            instead of 70.
        single_product: multiply-adds of a product, or of a batch of them, from which on oneDNN computes it at once, and
            numpy's library has threads.
        products_least: multiply-adds of such products by a process from which on oneDNN does it: to load it, and its
            first call, take 40 to 60 ms, and half as much is lost by so many.
        product_by_numpy: multiply-adds of a product from which on that is so at once.
        planned_product: multiply-adds from which on it makes loops for such a product's shape, in 1 ms and more:
            (32, 1024) by (1024, 1024) takes 0.40 ms with them instead of 0.55, (32, 512) by (512, 512) 0.11 and 0.125.
        recurrence_least, recurrence_steps: multiply-adds of a layer below which a scan is as good, and the steps below
            which the weights' layout does not pay.
        recurrence_part: multiply-adds that are worth a thread.
        normals_least: normal numbers drawn by a process from which on there is machine code for them; to make it takes
            as long as these do by numpy.
        vector_bits: bits that XLA makes loops of. By itself it takes 256 where a processor has AVX-512, as those of
            2017 slowed down for more. On an AMD EPYC the derivative of GELU then takes 0.54 ms instead of 0.78
            (1024, 1536), a sigmoid 0.30 instead of 0.39, a training step of ResNet-18 0.91 to 0.94 of the time; a
            ViT's (0.96 to 1.07), a U-Net's and an LSTM's as long.
        parts_after: calls of a large program after which it is compiled once more, to work in parts, where the first
            one comes from the cache on the disk: that takes as long as it saves in some 40 steps of a ResNet, or 12 of
            a ViT.
        compilations: after so many JAX is told to forget what it compiled.
        file_slack: bytes that what a file holds may take beyond the size of the file.
        checkpoint_part: bytes of a checkpoint that are read or written at once.

        cached_plans: of one operation, by its static arguments. A cache that is full forgets what is oldest.
        cached_kinds: of one operation, or one plan, by the shapes and dtypes of what it is called with.
        cached_programs: jitted functions of one purpose, by what they do: chains of views, an optimizer's step.
        cached_traces: programs of one function that is compiled or functionalized.
        cached_passes: programs of eager operations that come again and again.
        cached_operations, cached_least: operations in all programs of a function, or of eager operations, and so many
            programs stay however many operations they have.
        kept_traces: of an operation with arguments of one kind, traces that are kept on disk with symbols, and for
            single sizes; 0 keeps none.
        cached_primitives: plans of oneDNN's for single calls, as many as oneDNN itself keeps primitives.
        cached_facts: what is a few numbers, by shapes and other numbers: strides, orders, counts.
        cached_arrays: by shapes and values.
        handlers: machine code and plans of a library, which stay as long as the process: beyond it XLA computes.
    """

    numpy_elements: int = _setting("HOST_ELEMENTS")
    numpy_time: float = 40.0
    numpy_products: int = 1 << 18
    numpy_leaves: int = 2

    tier: str = _setting("TIER")
    background: bool = True
    compilation_time: float = 50_000.0
    compilation_each: float = 10_000.0
    operation_time: float = 20.0
    update_time: float = 5e-3
    compilation_share: float = 0.25

    replay_after: int = _setting("REPLAY_AFTER")
    waiting_elements: int = 1 << 28
    program_calls: int = 512
    program_small: int = 1 << 22
    program_elements: int = 1 << 28
    program_new: int = 16
    program_pays: int = 16

    joint_elements: int = 1024
    joint_least: int = 4
    joint_members: int = 64
    joint_parameters: int = 128
    pending_elements: int = 10_000

    update_parameters: int = 256
    kernel_parameters: int = 64
    steady_tries: int = 4

    check_integers: int = 1 << 20
    check_others: int = 1 << 13
    check_time: float = 500.0

    kernel_chunk: int = 65536
    loop_least: int = 1 << 23
    row_least: int = 16
    row_chunk: int = 32768
    row_part: int = 4096
    convolution_least: int = 1 << 18
    convolution_part: int = 1 << 24
    convolution_shared: int = 1 << 21
    weights_alone: int = 1 << 18
    product_least: int = 1 << 20
    product_parts: int = 1
    product_part: int = 1 << 19
    product_wide: int = 1024
    product_deep: int = 256
    small_product_least: int = 1 << 12
    small_product_rows: int = 4
    single_product: int = 1 << 18
    products_least: int = 1 << 30
    product_by_numpy: int = 1 << 23
    planned_product: int = 1 << 24
    recurrence_least: int = 1 << 12
    recurrence_steps: int = 4
    recurrence_part: int = 1 << 20
    normals_least: int = 1 << 20
    vector_bits: int = 512
    parts_after: int = 16
    compilations: int = 512
    file_slack: int = 64 << 20
    checkpoint_part: int = 256 << 20

    cached_plans: int = 1024
    cached_kinds: int = 512
    cached_programs: int = 1024
    cached_traces: int = 64
    cached_passes: int = 128
    cached_operations: int = 1 << 15
    cached_least: int = 8
    kept_traces: int = 8
    cached_primitives: int = 1024
    cached_facts: int = 4096
    cached_arrays: int = 256
    handlers: int = 2048

    def price(self, operations: int, share: float | None = None) -> float:
        """Microseconds that may be lost before so many operations are compiled as one program.

        Args:
            share: of what the compilation takes; by default `compilation_share`.
        """
        if self.tier == "numpy":
            return float("inf")
        share = self.compilation_share if share is None else share
        return share * (self.compilation_time + self.compilation_each * operations)

    @contextmanager
    def having(self, **numbers: Any) -> Iterator[None]:
        """Other numbers inside a ``with`` block, in all threads.

        What exists already, such as a cache or a compiled program, may keep the numbers it was made with.

        Raises:
            TypeError: for a name that is none of the attributes; nothing is changed then.

        Example:
            >>> from functorch_port._base.tuning import tuning
            >>> with tuning.having(replay_after=3, program_new=0):
            ...     print(tuning.replay_after, tuning.program_new)
            3 0
        """
        for name in numbers:
            if name not in self.__slots__:
                close = difflib.get_close_matches(name, self.__slots__, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise TypeError(f"tuning has no number {name!r}{hint}")
        before = {name: getattr(self, name) for name in numbers}
        try:
            for name, number in numbers.items():
                setattr(self, name, number)
            yield
        finally:
            for name, number in before.items():
                setattr(self, name, number)


#: what the package reads
tuning = Tuning()
