"""An exported program, compiled for a few numbers of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from .._array import tracing
from .._base import dtypes
from ..export import ExportedProgram
from ..export._calls import mismatch
from ..export._signature import Input, Output

__all__ = ["Model", "Wrong"]

#: compiled programs that are kept: one for each number of rows, and each size that is not that of the batch
KEPT = 64


class Wrong(ValueError):
    """A request that the program is not for.

    Attributes:
        field: the input that is wrong, or None.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Model:
    """A program that takes numpy arrays, for the rows of several requests at once if it may.

    Args:
        program: the program.
        max_batch: at most so many rows are computed together.

    Attributes:
        inputs, outputs: the tensors that it takes and gives.
        batch: the name of the size that counts rows; None: each request is computed by itself.
        why_alone: the reason for that.
        sizes: the numbers of rows that it is compiled for.

    Raises:
        ValueError: the program writes to buffers.
    """

    def __init__(self, program: ExportedProgram, max_batch: int) -> None:
        written = [*program.graph_signature.buffers_to_mutate.values()]
        if written:
            raise ValueError(
                f"the program writes to buffers ({', '.join(written)}), so that one request would change the answers "
                "to others. It was exported in training mode: call module.eval() before torch.export.export"
            )
        self.program = program
        self.inputs: list[Input] = [one for one in program.inputs if one.dtype is not None]
        self.outputs: list[Output] = [one for one in program.outputs if one.dtype is not None]
        self.dtypes = {one.name: dtypes.NAMES[one.dtype or ""].np for one in self.inputs}
        self.max_batch = max_batch
        self.why_alone = "--max-batch is 1" if max_batch == 1 else self._why_alone()
        self.batch: str | None = None if self.why_alone else self.inputs[0].shape[0][1]  # type: ignore[index]
        self.sizes = self._sizes()
        self._for = lru_cache(KEPT)(self._compiled)
        state = {s.key: s.tensor for s in program._state if s.key == s.target}
        with tracing.x64():
            self._state = {key: jax.device_put(t._value) for key, t in state.items()}

    # -------------------------------------------------------------- rows

    def _why_alone(self) -> str:
        """Why the requests cannot be computed together, as far as shapes tell; empty if they can."""
        first = {str(one.shape[:1]) for one in self.inputs}
        sizes = [size for one in self.inputs for size in one.shape[:1]]
        if len(first) != 1 or not sizes or isinstance(sizes[0], int) or sizes[0][0::2] != (1, 0):
            return "the inputs have no first dimension that changes and is the same in all"
        name = sizes[0][1]
        if any(name == n[1] for one in self.inputs for n in one.shape[1:] if not isinstance(n, int)):
            return f"the size {name!r} is not only that of the first dimension"
        for one in self.outputs:
            if not one.shape or one.shape[0] != name or any(name in str(n) for n in one.shape[1:]):
                return f"the output {one.name!r} does not have a row for each row of the inputs"
        return ""

    def _sizes(self) -> list[int]:
        if self.batch is None:
            return []
        lower, upper = self.program.range_constraints[self.batch]
        most = self.max_batch if upper is None else min(upper, self.max_batch)
        if most < lower:
            raise ValueError(
                f"--max-batch {self.max_batch} is less than the program's smallest batch, {lower}"
            )
        powers = (1 << k for k in range(most.bit_length()))
        return sorted({lower, most, *(n for n in powers if lower <= n <= most)})

    def rows(self, arrays: Sequence[np.ndarray]) -> int:
        """The rows of a request; 1 if those are not counted."""
        return 1 if self.batch is None else len(arrays[0])

    def key(self, arrays: Sequence[np.ndarray]) -> Any:
        """Requests that have the same may be computed together."""
        start = 0 if self.batch is None else 1
        return tuple(array.shape[start:] for array in arrays)

    def check(self, arrays: Sequence[np.ndarray]) -> None:
        """Raise `Wrong` for what the program is not for."""
        sizes: dict[str, tuple[int, str]] = {}
        for one, array in zip(self.inputs, arrays, strict=True):
            failed = mismatch(one, self.program.range_constraints, array.shape, one.dtype or "", sizes)
            if failed:
                test, _, has = failed.partition("; ")
                raise Wrong(f"{has} ({test})", one.name)
        if self.batch is not None and self.rows(arrays) > self.sizes[-1]:
            raise Wrong(
                f"{self.inputs[0].name} has {self.rows(arrays)} rows, and the server takes at most {self.sizes[-1]} in "
                "a request (--max-batch)",
                self.inputs[0].name,
            )

    # -------------------------------------------------------------- computing

    def __call__(self, requests: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """The outputs for each request; several only if they have the same `key`."""
        if self.batch is None:
            return [self._run(arrays) for arrays in requests]
        counts = [self.rows(arrays) for arrays in requests]
        total = sum(counts)
        size = next(n for n in self.sizes if n >= total)
        joined = [_joined(column, size) for column in zip(*requests, strict=True)]
        outputs = self._run(joined)
        ends = np.cumsum(counts)
        return [[out[end - n : end] for out in outputs] for n, end in zip(counts, ends, strict=True)]

    def _run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        with tracing.x64():
            outs, _, flags = self._for(tuple(array.shape for array in arrays))(self._state, list(arrays))
            found = [np.asarray(out) for out in outs]
        try:
            self.program._check(flags)
        except Exception as error:  # what the module would have raised
            raise Wrong(f"{type(error).__name__}: {error}") from None
        return found

    def _compiled(self, shapes: tuple[tuple[int, ...], ...]) -> Callable[..., Any]:
        """The program for inputs of these shapes."""
        avals = [
            jax.ShapeDtypeStruct(shape, self.dtypes[one.name])
            for one, shape in zip(self.inputs, shapes, strict=True)
        ]
        return jax.jit(self.program.exported.call).lower(self._state, avals).compile()

    # -------------------------------------------------------------- at the start

    def example(self, rows: int = 1) -> list[np.ndarray]:
        """The arrays of a request that works: the example that the program was exported with, with so many rows."""
        arrays = self._of_example()
        if self.batch is None:
            return arrays
        lower = self.program.range_constraints[self.batch].lower
        return [np.resize(array, (max(rows, lower), *array.shape[1:])) for array in arrays]

    def _of_example(self) -> list[np.ndarray]:
        program = self.program
        if program.example_inputs is not None:
            args, kwargs = program.example_inputs
            return [np.asarray(array) for array in program._arrays(tuple(args), dict(kwargs))]
        sizes = {name: max(r.lower, 1) for name, r in program.range_constraints.items()}
        return [
            np.zeros(
                [n if isinstance(n, int) else n[0] * sizes[n[1]] + n[2] for n in one.shape], self.dtypes[one.name]
            )
            for one in self.inputs
        ]  # fmt: skip

    def compile(self, tell: Callable[[str], None]) -> None:
        """Compile for all numbers of rows, with the example's other sizes; then see whether rows keep to themselves."""
        for size in self.sizes or [0]:
            self._run(self.example(size))
            tell(f"compiled for {size} row{'s' * (size > 1)}" if size else "compiled")
        if self.batch is not None and len(self.sizes) > 1:
            self.why_alone = self._why_rows_are_not_alone()
            if self.why_alone:
                self.batch, self.sizes = None, []

    def _why_rows_are_not_alone(self) -> str:
        """What speaks against rows of several requests at once; empty if a row gets the same results among others.

        The example's first rows are computed alone, and then as the first and the last of several, whatever the others
        are: one that looks at another row, or at its own place, gives something else.
        """
        few, most = self.sizes[0], self.sizes[-1]
        example = self.example(most)
        alone = self._run([array[:few] for array in example])
        some = next((n for n in self.sizes if n >= 3 * few), most)
        tried = False
        for size, fills in ((most, _OTHERS[:1]), (some, _OTHERS)):
            for fill in fills:
                for place in (0, size - few):
                    rows = [_among_others(array[:size], few, place, fill) for array in example]
                    try:
                        found = self._run(rows)
                    except Wrong:  # an index that is none
                        continue
                    tried = True
                    same = (_are_close(a, b[place : place + few]) for a, b in zip(alone, found, strict=True))
                    if not all(same):
                        return "rows change each other's results"
        return "" if tried else "the program refuses rows that were made of its example to try that"


_FLOATS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x * 1.5 + 0.5,
    lambda x: -x * 1.5 - 0.5,
    lambda x: np.nan,  # which all that is computed with it becomes
    lambda x: np.inf,
    lambda x: -np.inf,
)
_INTEGERS: tuple[Callable[[Any], Any], ...] = (
    lambda x: 0,  # is an index wherever one is
    lambda x: 1,
    lambda x: x,
    lambda x: int(x.max(initial=0)) * 2 + 1,
    lambda x: int(x.min(initial=0)) - 1,
)
#: for floating-point numbers and for others, what the rows of others may be, given those of the example
_OTHERS = [*((fill, _INTEGERS[0]) for fill in _FLOATS), *((_FLOATS[0], fill) for fill in _INTEGERS[1:])]


def _among_others(
    rows: np.ndarray, few: int, place: int, fills: tuple[Callable[[Any], Any], ...]
) -> np.ndarray:
    """The first few rows at another place, and others around them."""
    kind = rows.dtype.kind
    found = np.empty_like(rows)
    fill = fills[kind in "biu"](rows)
    if kind in "iu":
        info = np.iinfo(rows.dtype)
        fill = np.clip(fill, info.min, info.max)
    found[...] = fill
    found[place : place + few] = rows[:few]
    return found


def _joined(column: Sequence[np.ndarray], size: int) -> np.ndarray:
    """The rows of all, filled up with copies of the last one."""
    rows = column[0] if len(column) == 1 else np.concatenate(column)
    missing = size - len(rows)
    return rows if not missing else np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)])


def _are_close(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two results differ by rounding alone."""
    if a.dtype.kind in "biu":
        return np.array_equal(a, b)
    tolerance = 1e-4 if a.dtype.itemsize >= 4 else 1e-2
    a, b = (x if x.dtype.kind in "biufc" else x.astype(np.float32) for x in (a, b))
    largest = (
        np.abs(a, where=np.isfinite(a), out=np.zeros(a.shape)).max(initial=0) if a.dtype.kind == "f" else 0
    )
    return np.allclose(a, b, rtol=tolerance, atol=tolerance * largest, equal_nan=True)
