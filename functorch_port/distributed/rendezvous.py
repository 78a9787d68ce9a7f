"""How the processes of a job find each other: ``env://``, ``tcp://host:port`` and ``file:///path``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ._store import FileStore, PrefixStore, Store, TCPStore
from .constants import default_pg_timeout

__all__ = ["register_rendezvous_handler", "rendezvous"]

_handlers: dict[str, Callable[..., Iterator[tuple[Store, int, int]]]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Any]) -> None:
    """Have ``handler(url, **kwargs)`` do the rendezvous of the URLs with a scheme."""
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(
    url: str, rank: int = -1, world_size: int = -1, **kwargs: Any
) -> Iterator[tuple[Store, int, int]]:
    """An iterator of (store, rank, world size), as `init_process_group` uses it.

    Reference: https://docs.pytorch.org/docs/stable/distributed.html#initialization
    """
    if not isinstance(url, str | bytes):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    parts = urlsplit(url if isinstance(url, str) else url.decode())
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    given = dict(parse_qsl(parts.query))
    rank = int(given.get("rank", rank)) if rank == -1 else rank
    world_size = int(given.get("world_size", world_size)) if world_size == -1 else world_size
    return _handlers[parts.scheme](parts, rank, world_size, **kwargs)


def _missing(scheme: str, what: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what}")


def _env(parts: Any, rank: int, world_size: int, timeout: timedelta = default_pg_timeout, **_: Any) -> Any:
    def variable(name: str) -> str:
        value = os.environ.get(name)
        if value is None:
            raise _missing("env", f"environment variable {name} expected, but not set")
        return value

    rank = int(variable("RANK")) if rank == -1 else rank
    world_size = int(variable("WORLD_SIZE")) if world_size == -1 else world_size
    host, port = variable("MASTER_ADDR"), int(variable("MASTER_PORT"))
    # the launcher serves the store, for all attempts; else rank 0 does
    launched = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store: Store = TCPStore(host, port, None, rank == 0 and not launched, timeout)
    if launched:
        store = PrefixStore(f"attempt_{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    yield store, rank, world_size


def _tcp(parts: Any, rank: int, world_size: int, timeout: timedelta = default_pg_timeout, **_: Any) -> Any:
    if parts.port is None:
        raise _missing("tcp", "port number missing")
    if rank == -1:
        raise _missing("tcp", "rank parameter missing")
    if world_size == -1:
        raise _missing("tcp", "world size parameter missing")
    yield TCPStore(parts.hostname, parts.port, None, rank == 0, timeout), rank, world_size


def _file(parts: Any, rank: int, world_size: int, timeout: timedelta = default_pg_timeout, **_: Any) -> Any:
    if not parts.path:
        raise _missing("file", "path missing")
    if rank == -1:
        raise _missing("file", "rank parameter missing")
    if world_size == -1:
        raise _missing("file", "world size parameter missing")
    store = FileStore(parts.path, world_size)
    store.set_timeout(timeout)
    yield store, rank, world_size


for _scheme, _handler in (("env", _env), ("tcp", _tcp), ("file", _file)):
    register_rendezvous_handler(_scheme, _handler)
