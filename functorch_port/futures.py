"""``torch.futures``: results that are not there yet, and functions of them.

Reference: https://docs.pytorch.org/docs/stable/futures.html
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")
_log = logging.getLogger(__name__)


class Future(Generic[T]):
    """A result that some thread sets later.

    Args:
        devices: accepted: a value waits for its device where it is read.

    Example:
        >>> from functorch_port import futures
        >>> first = futures.Future()
        >>> second = first.then(lambda future: future.value() + 1)
        >>> first.set_result(1)
        >>> second.wait()
        2
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether there is a result or an exception."""
        return self._set.is_set()

    def wait(self) -> T:
        """Wait for the result.

        Raises:
            Exception: the one of `set_exception`.
        """
        self._set.wait()
        return self.value()

    def value(self) -> T:
        """The result, which must be there; the exception of `set_exception` is raised."""
        if not self.done():
            raise RuntimeError("value() of a Future that has no result yet: wait() waits for it")
        if self._error is not None:
            raise self._error
        return self._value

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self.done():
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                    "completed once."
                )
            self._value, self._error = value, error
            self._set.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def set_result(self, result: T) -> None:
        """Set the result, and call what waits for it.

        Raises:
            RuntimeError: there is a result already.
        """
        self._complete(result, None)

    def set_exception(self, result: Any) -> None:
        """Set an exception in place of a result; `wait` and `value` raise it."""
        assert isinstance(result, Exception), f"{result} is of type {type(result)}, not an Exception."
        self._complete(None, result)

    def _when_done(self, callback: Callable[[Future[T]], Any]) -> None:
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call a function with this future when it is done; an error in it is logged."""

        def call(future: Future[T]) -> None:
            try:
                callback(future)
            except Exception:
                _log.exception("Got the following error when running the callback")

        self._when_done(call)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what a function gives for this one when it is done; an error in it is a RuntimeError of that."""
        result: Future[S] = Future()

        def call(future: Future[T]) -> None:
            try:
                value = callback(future)
            except Exception as error:
                text = f"{type(error).__name__}: {error}\n\nAt:\n{traceback.format_exc()}"
                result.set_exception(
                    RuntimeError(f"Got the following error when running the callback: {text}")
                )
            else:
                result.set_result(value)

        self._when_done(call)
        return result


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of all these, which is done when each is.

    Args:
        futures: a list of futures.
    """
    result: Future[list[Future[Any]]] = Future()
    left = [len(futures)]
    lock = threading.Lock()

    def one_more(_: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            result.set_result(list(futures))

    if not futures:
        result.set_result([])
    for future in futures:
        future._when_done(one_more)
    return result


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of all these, when each is done; the first exception is raised."""
    return [future.wait() for future in collect_all(futures).wait()]
