"""The pages of the server: ``/predict``, ``/health``, ``/ready``, ``/metrics``, ``/openapi.json`` and ``/``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ._batching import Batcher
from ._bodies import JSON, TYPES, Malformed, packed, read
from ._model import Model, Wrong
from ._pages import front_page, openapi

__all__ = ["Limits", "Service"]

log = logging.getLogger("functorch_port.serve")
#: what `curl -d` says of any body
CURL = "application/x-www-form-urlencoded"
#: a body of so many bytes is read, and an answer of so many elements written, by a thread
LARGE = 1 << 16


@dataclass(frozen=True)
class Limits:
    """What the server takes.

    Attributes:
        max_wait: seconds that a request may wait for others.
        queue: requests that are accepted and not answered yet, at most; their bodies are in memory.
        body: bytes of a request, at most.
        timeout: seconds until a request is given up.
    """

    max_wait: float = 0.002
    queue: int = 256
    body: int = 64 << 20
    timeout: float = 30.0


class Refused(Exception):
    """An answer that is an error.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Service:
    """The application, and its state.

    Args:
        model: what computes.
        limits: what it takes.
        name: of the file, for people.
        failed: is called if the model cannot be compiled.

    Attributes:
        app: for a server of ASGI.
        state: ``"starting"``, ``"ready"`` or ``"stopping"``.
        is_compiled: whether requests are taken.
        open: how many requests it has accepted and not answered yet.
        given: how many answers it gave to ``/predict``.
    """

    def __init__(
        self, model: Model, limits: Limits, name: str, failed: Callable[[Exception], None] | None = None
    ) -> None:
        self.model, self.limits, self.name, self.failed = model, limits, name, failed
        self.state, self.open, self.given, self.is_compiled = "starting", 0, 0, False
        self.batcher = Batcher(model, limits.max_wait, self._note)
        self._metrics()
        routes = [
            Route("/", self._front),
            Route("/predict", self._predict, methods=["POST"]),
            Route("/health", lambda request: JSONResponse({"status": "ok"})),
            Route("/ready", self._ready),
            Route("/metrics", self._measured),
            Route("/openapi.json", lambda request: JSONResponse(openapi(self.model, self.name))),
        ]
        handlers: Any = {HTTPException: self._http_error}
        self.app = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)

    def _metrics(self) -> None:
        self.registry = CollectorRegistry()
        of = {"registry": self.registry}
        self.answers = Counter("predict_answers", "Answers to /predict by status", ["status"], **of)  # type: ignore[arg-type]
        self.seconds = Histogram("predict_seconds", "Time from the body to the answer of a request", **of)  # type: ignore[arg-type]
        sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256]
        self.rows = Histogram("batch_rows", "Rows computed together", buckets=sizes, **of)  # type: ignore[arg-type]
        self.requests = Histogram("batch_requests", "Requests computed together", buckets=sizes, **of)  # type: ignore[arg-type]
        gauge = Gauge("predict_open", "Requests that are accepted and not answered yet", **of)  # type: ignore[arg-type]
        gauge.set_function(lambda: self.open)

    def _note(self, requests: int, rows: int) -> None:
        self.requests.observe(requests)
        self.rows.observe(rows)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        start = asyncio.create_task(self._start())
        yield
        start.cancel()

    async def _start(self) -> None:
        try:
            await asyncio.to_thread(self.model.compile, log.info)
        except Exception as error:
            log.error("the program cannot be compiled here: %s", error)
            if self.failed is not None:
                self.failed(error)
            return
        self.is_compiled = True
        if self.state == "starting":
            self.state = "ready"
        if self.model.batch is None:
            log.info("ready; each request by itself, as %s", self.model.why_alone)
        else:
            log.info("ready; up to %d rows at once", self.model.sizes[-1])
        await self.batcher.run()

    # -------------------------------------------------------------- /predict

    async def _predict(self, request: Request) -> Response:
        self.open += 1
        with self.seconds.time():
            try:
                async with asyncio.timeout(self.limits.timeout):
                    response = await self._answer(request)
            except Refused as error:
                response = self._error(error.status, str(error))
            except Wrong as error:
                response = self._error(422, str(error), error.field)
            except TimeoutError:
                response = self._error(504, f"no answer within {self.limits.timeout:g} s (--timeout)")
            except ClientDisconnect:
                response = self._error(400, "the body is not complete")
            except Exception:
                log.exception("an error of the server")
                response = self._error(500, "an error of the server; its log has more")
            finally:
                self.open -= 1
        self.answers.labels(str(response.status_code)).inc()
        self.given += 1
        if self.state == "stopping":
            response.headers["connection"] = "close"
        return response

    async def _answer(self, request: Request) -> Response:
        if not self.is_compiled:
            raise Refused(503, "the program is being compiled; ask /ready")
        if self.open > self.limits.queue:
            raise Refused(503, f"{self.limits.queue} requests wait already (--queue)")
        kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
        kind = JSON if kind == CURL else kind
        if kind not in TYPES:
            raise Refused(415, f"the Content-Type {kind[:100]!r} is none of {', '.join(TYPES)}")
        body = await self._body(request)
        try:
            arrays = await self._apart(len(body), read, body, kind, self.model)
        except Malformed as error:
            raise Refused(400, str(error)) from None
        except ImportError as error:
            raise Refused(415, str(error)) from None
        outputs = await self.batcher.submit(arrays)
        size = LARGE * (kind == JSON and sum(out.size for out in outputs) > LARGE // 8)
        return Response(await self._apart(size, packed, outputs, kind, self.model), media_type=kind)

    @staticmethod
    async def _apart(size: int, fn: Callable[..., Any], *args: Any) -> Any:
        """The result of a function: in a thread if it takes long, so that others are served meanwhile."""
        return fn(*args) if size < LARGE else await asyncio.to_thread(fn, *args)

    async def _body(self, request: Request) -> bytes:
        most = self.limits.body
        refused = Refused(413, f"the body has more than {most} bytes (--body-limit)")
        length = request.headers.get("content-length", "0")
        if length.isdigit() and int(length) > most:
            raise refused
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise refused
            parts.append(part)
        return b"".join(parts)

    # -------------------------------------------------------------- the other pages

    def _error(self, status: int, message: str, field: str | None = None) -> Response:
        headers = {"retry-after": "1"} if status == 503 else {}
        if status in (413, 415, 503):
            headers["connection"] = "close"  # the body is not read, or not all of it
        told = [text and text.encode("utf-8", "replace").decode() for text in (message, field)]
        return JSONResponse(dict(zip(("error", "field"), told, strict=True)), status, headers)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 500)
        pages = {
            404: "there is no such page; / has what there is",
            405: "use POST /predict, and GET elsewhere",
        }
        return JSONResponse(
            {"error": pages.get(status, str(error)), "field": None}, status, getattr(error, "headers", None)
        )

    async def _front(self, request: Request) -> Response:
        return PlainTextResponse(front_page(self.model, self.name, str(request.base_url).rstrip("/")))

    async def _ready(self, request: Request) -> Response:
        ready = self.state == "ready"
        return JSONResponse(
            {"status": self.state}, 200 if ready else 503, None if ready else {"retry-after": "1"}
        )

    async def _measured(self, request: Request) -> Response:
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)
