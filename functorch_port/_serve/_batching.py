"""Requests that wait, and are computed together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ._model import Model

__all__ = ["Batcher"]


class _Job:
    """A request that was accepted."""

    def __init__(self, arrays: Sequence[np.ndarray], model: Model, answer: asyncio.Future[Any]) -> None:
        self.arrays, self.answer = arrays, answer
        self.rows, self.key = model.rows(arrays), model.key(arrays)
        self.came = answer.get_loop().time()


class Batcher:
    """Collects requests until they fill a batch, or the first has waited long enough, and has a thread compute them.

    While the thread computes, further requests collect anyway. One waits for others only as long as there are fewer
    than were computed last: who asks alone does not wait.

    Args:
        model: what computes.
        max_wait: seconds that a request may wait for others.
        note: is told the number of requests and of rows that are computed together.
    """

    def __init__(self, model: Model, max_wait: float, note: Callable[[int, int], None]) -> None:
        self.model, self.max_wait, self.note = model, max_wait, note
        self._expected = 1
        self._jobs: deque[_Job] = deque()
        self._came = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "serve")

    async def submit(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for a request."""
        job = _Job(arrays, self.model, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._came.set()
        return await job.answer

    async def run(self) -> None:
        """Compute requests, for ever."""
        while True:
            await self._wait_for_a_batch()
            jobs = self._taken()
            if jobs:
                self._expected = len(jobs)
                self.note(len(jobs), sum(job.rows for job in jobs))
                await self._compute(jobs)

    async def _compute(self, jobs: list[_Job]) -> None:
        """Answer requests, together; if that fails, each by itself, so that an error is nobody else's."""
        try:
            answers = await asyncio.get_running_loop().run_in_executor(
                self._thread, self.model, [job.arrays for job in jobs]
            )
        except Exception as error:
            if len(jobs) > 1:
                for job in jobs:
                    await self._compute([job])
            elif not jobs[0].answer.done():
                jobs[0].answer.set_exception(error)
            return
        for job, answer in zip(jobs, answers, strict=True):
            if not job.answer.done():  # else nobody waits any more
                job.answer.set_result(answer)

    async def _wait_for_a_batch(self) -> None:
        while not self._jobs:
            self._came.clear()
            await self._came.wait()
        if self.model.batch is None or not self.max_wait:
            return
        end = self._jobs[0].came + self.max_wait
        while self._waiting_rows() < self.model.sizes[-1] and len(self._jobs) < self._expected:
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                return
            self._came.clear()
            try:
                await asyncio.wait_for(self._came.wait(), left)
            except TimeoutError:
                return

    def _waiting_rows(self) -> int:
        first = self._jobs[0].key
        return sum(job.rows for job in self._jobs if job.key == first)

    def _taken(self) -> list[_Job]:
        """The oldest request with those that fit to it, in order."""
        most = self.model.sizes[-1] if self.model.batch is not None else 1
        taken: list[_Job] = []
        left: deque[_Job] = deque()
        rows = 0
        full = False
        while self._jobs:
            job = self._jobs.popleft()
            if job.answer.done():  # given up
                continue
            fits = not full and (not taken or (job.key == taken[0].key and rows + job.rows <= most))
            if fits:
                taken.append(job)
                rows += job.rows
            else:
                full = full or job.key == taken[0].key  # none overtakes one of its kind
                left.append(job)
        self._jobs = left
        return taken
