"""`Timer`: how long a statement takes, its results waited for."""

from __future__ import annotations

import ast
import textwrap
import time
from collections.abc import Callable
from types import CodeType
from typing import Any

import jax

import functorch_port

from ..._array import executor
from ..._base.alive import alive
from ..._tensor.tensor import Tensor
from ..._tensor.tree import leaves
from ...autograd.profiler import waited_for
from ...nn import Parameter
from ._measurement import Measurement, TaskSpec

__all__ = ["Timer", "timer"]

timer = time.perf_counter

_WAIT, _RUN = "_functorch_port_wait", "_functorch_port_run"


class Timer:
    """Measures a statement.

    JAX computes beside Python, and on a CPU operations may wait until a value is needed. So each run waits for its
    results: the value of the last expression, and what it assigns to names. After all runs the parameters of living
    modules and their gradients are waited for too. Before the first measurement the statement runs a few times, and
    what compiles in the background is waited for.

    Args:
        stmt: the statement, a text.
        setup: runs once before each measurement.
        global_setup: refused: it is for C++.
        timer: gives the time in seconds.
        globals: names for the statement.
        label, sub_label, description, env: names for the results, and for `Compare`.
        num_threads: only that of the process: XLA's threads are made when it starts. Default: that.
        language: ``python``.

    Raises:
        ValueError: the statement is no text, or the language is unknown.
        NotImplementedError: another number of threads, or C++.
        SyntaxError: the statement or the setup is no Python.

    Example:
        >>> import functorch_port as torch
        >>> from functorch_port.utils.benchmark import Timer
        >>> x = torch.ones(64, 64)
        >>> measured = Timer("x @ x", globals={"x": x}).timeit(10)
        >>> measured.number_per_run, measured.median > 0
        (10, True)

    Reference: https://docs.pytorch.org/docs/stable/benchmark_utils.html#torch.utils.benchmark.Timer
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int | None = None,
        language: Any = "python",
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        kind = str(getattr(language, "name", language)).lower()
        if kind in ("cpp", "c++"):
            raise NotImplementedError("Timer(language='c++'): it measures Python statements")
        if kind not in ("python", "py"):
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`."
            )
        threads = functorch_port.get_num_threads()
        if num_threads not in (None, threads):
            raise NotImplementedError(
                f"Timer(num_threads={num_threads}): XLA computes with the {threads} threads that the process has; "
                "start it with fewer processors (taskset -c 0) to measure with fewer"
            )
        self._timer = timer
        stmt, setup = (textwrap.dedent(text).strip() or "pass" for text in (stmt, setup))
        self._globals = {"torch": functorch_port, **(globals or {})}
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, threads)
        self._code = _measuring(stmt, setup)
        self._is_warm = False

    # ------------------------------------------------------- measurements

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Run the statement so often, and measure that once."""
        self._warm_up()
        return self._measured(number, [self._run(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Raise NotImplementedError, as in PyTorch: use `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Raise NotImplementedError, as in PyTorch: use `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> None:
        """Raise NotImplementedError: XLA's threads are not counted by Callgrind in a way that means something."""
        raise NotImplementedError(
            "Timer.collect_callgrind: use functorch_port.profiler, or blocked_autorange"
        )

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measure blocks of runs until a time is over, each so long that the clock does not matter.

        Args:
            callback: called with the number of runs of a block and its seconds.
            min_run_time: how many seconds all blocks take at least.
        """
        number = self._block_size(min_run_time)
        times: list[float] = []
        while sum(times) < min_run_time:
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
        return self._measured(number, times)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """As `blocked_autorange`, until the range between quartiles is small.

        Args:
            threshold: the share of the median that it is to be below.
            min_run_time: how many seconds all blocks take at least.
            max_run_time: after how many seconds to give up.
            callback: called with the number of runs of a block and its seconds.
        """
        number = self._block_size(0.05)
        times: list[float] = []
        while True:
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
            total, measured = sum(times), self._measured(number, times)
            if total > max_run_time or (
                total >= min_run_time and len(times) > 3 and measured.meets_confidence(threshold)
            ):
                return measured

    # ------------------------------------------------------- how

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, list(times), self._task_spec)

    def _block_size(self, min_run_time: float) -> int:
        """How many runs take a thousandth of the time, and at least 10,000 times what the clock takes."""
        self._warm_up()
        overhead = sorted(_elapsed(self._timer) for _ in range(5))[2]
        number = 1
        while True:
            took = self._run(number)
            executor.current.settle()
            if overhead / max(took, 1e-12) <= 1e-4 and took >= min_run_time / 1000:
                return number
            if took > min_run_time:
                return number
            number *= 10

    def _warm_up(self) -> None:
        if not self._is_warm:
            for _ in range(2):  # what comes again may be compiled, in the background
                self._run(3)
                executor.current.settle()
            self._is_warm = True

    def _run(self, number: int) -> float:
        """Seconds of so many runs."""
        leaves = [t for t in alive(Parameter) if t.requires_grad]
        namespace = {**self._globals, _WAIT: _wait, "_functorch_port_timer": self._timer}
        namespace["_functorch_port_rest"] = lambda: _wait([t for p in leaves for t in (p, p._kept_grad)])
        exec(self._code, namespace)
        return namespace[_RUN](number)


def _elapsed(timer: Callable[[], float]) -> float:
    start = timer()
    return timer() - start


def _wait(value: Any) -> None:
    """Wait for all tensors and arrays in a value."""
    if isinstance(value, Tensor | jax.Array):
        waited_for(value)
    elif isinstance(value, list | tuple | dict):
        waited_for([leaf for leaf in leaves(value) if isinstance(leaf, Tensor | jax.Array)])


def _measuring(stmt: str, setup: str) -> CodeType:
    """A function that runs the setup, and then the statement so often as it is told; it returns the seconds."""
    body = ast.parse(stmt, "<stmt>").body
    names = {
        target.id
        for node in body
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
        for one in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for target in ast.walk(one)
        if isinstance(target, ast.Name)
    }
    if isinstance(body[-1], ast.Expr):
        body[-1] = ast.Expr(ast.Call(ast.Name(_WAIT, ast.Load()), [body[-1].value], []))
    body += [ast.parse(f"{_WAIT}({name})").body[0] for name in sorted(names)]
    around = ast.parse(
        f"def {_RUN}(_functorch_port_number):\n"
        "    _functorch_port_start = _functorch_port_timer()\n"
        "    for _ in range(_functorch_port_number):\n"
        "        pass\n"
        "    _functorch_port_rest()\n"
        "    return _functorch_port_timer() - _functorch_port_start\n"
    )
    function: Any = around.body[0]
    function.body[1].body = body
    function.body[:0] = ast.parse(setup, "<setup>").body
    return compile(ast.fix_missing_locations(around), "<timed>", "exec")
