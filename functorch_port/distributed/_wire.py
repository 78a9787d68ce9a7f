"""Frames of bytes on a socket, and the address by which other machines reach this one."""

from __future__ import annotations

import socket
import struct

__all__ = ["address_of_this_machine", "free_port", "receive", "send"]

_COUNT, _SIZE = struct.Struct("<I"), struct.Struct("<Q")


def send(connection: socket.socket, *parts: bytes) -> None:
    """Send a frame, which is some byte strings."""
    head = _COUNT.pack(len(parts)) + b"".join(_SIZE.pack(len(part)) for part in parts)
    connection.sendall(head + b"".join(parts))


def receive(connection: socket.socket) -> list[bytes]:
    """The next frame.

    Raises:
        ConnectionError: the other side is gone.
    """
    (count,) = _COUNT.unpack(_exactly(connection, _COUNT.size))
    sizes = [size for (size,) in _SIZE.iter_unpack(_exactly(connection, count * _SIZE.size))]
    return [_exactly(connection, size) for size in sizes]


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("the connection was closed by the other side")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def free_port() -> int:
    """A port that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def address_of_this_machine() -> str:
    """The address of the network interface that leads outside; of a machine without one, that of itself."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: that only chooses the interface
        except OSError:
            return "127.0.0.1"
        return probe.getsockname()[0]
