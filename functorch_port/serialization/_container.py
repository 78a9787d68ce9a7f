"""PyTorch's container: a zip archive of stored entries, whose data begin at multiples of 64 bytes.

The reader trusts nothing: it checks names, sizes and offsets against each other and the file before it allocates, and
refuses entries that overlap.
"""

from __future__ import annotations

import io
import mmap
import os
import struct
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, NamedTuple

import numpy as np

from .._base.tuning import tuning

try:
    from zlib_ng.zlib_ng import crc32  # several times as fast
except ImportError:
    from zlib import crc32

__all__ = ["Archive", "Source", "Writer", "aligned"]

ALIGNMENT = 64
_U16, _U32 = 0xFFFF, 0xFFFFFFFF
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_UTF8, _DESCRIPTOR = 0x0800, 0x0008

#: bytes that are read or summed at once; smaller entries are not worth a thread
PART = 1 << 20


def aligned(nbytes: int) -> np.ndarray:
    """An array of bytes aligned to 64, which JAX can use without a copy."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


class Source:
    """A file object, from its position to its end.

    Attributes:
        file: the file object.
        is_of_the_system: whether it is an operating-system file, which threads may read concurrently.
        start, size: the position, and the number of bytes from there on.
        name: the file's name in errors.
    """

    def __init__(self, file: IO[bytes], name: Any) -> None:
        self.file, self.name = file, name
        self.is_of_the_system = isinstance(file, io.BufferedReader) and hasattr(os, "preadv")
        self.start = file.tell()
        self.size = file.seek(0, os.SEEK_END) - self.start
        file.seek(self.start)

    def fill(self, offset: int, into: np.ndarray) -> None:
        """Fill ``into`` with the bytes from ``offset`` on."""
        self.file.seek(self.start + offset)
        self.take(into)

    def take(self, into: np.ndarray) -> None:
        """As `fill`, from the file's position."""
        view = into.data
        readinto = getattr(self.file, "readinto", None)
        while len(view):
            if readinto is not None:
                count = readinto(view) or 0
            else:
                data = self.file.read(len(view))
                count = len(data)
                view[:count] = data
            if not count:
                raise RuntimeError(f"{self.name} is cut off: {len(view)} more bytes were expected at its end")
            view = view[count:]

    def read(self, offset: int, count: int) -> bytes:
        data = np.empty(count, np.uint8)
        self.fill(offset, data)
        return data.tobytes()

    def fill_anywhere(self, offset: int, into: np.ndarray) -> int:
        """As `fill`, from any thread, for an operating-system file; returns the CRC-32."""
        handle, at, total = self.file.fileno(), self.start + offset, 0
        for begin in range(0, len(into), PART):
            view = into.data[begin : begin + PART]
            part = view
            while len(part):
                count = os.preadv(handle, [part], at)
                if not count:
                    raise RuntimeError(
                        f"{self.name} is cut off: {len(part)} more bytes were expected at its end"
                    )
                at, part = at + count, part[count:]
            total = crc32(view, total)  # the bytes are still in the cache
        return total

    def mapped(self) -> np.ndarray:
        """All bytes, memory-mapped copy-on-write: read on first use; writes do not reach the file."""
        memory = mmap.mmap(self.file.fileno(), self.start + self.size, access=mmap.ACCESS_COPY)
        return np.frombuffer(memory, np.uint8)[self.start :]


class _Entry(NamedTuple):
    header: int
    length: int
    packed: int
    flags: int
    method: int
    crc: int
    limit: int


class Archive:
    """The entries of a zip archive.

    Args:
        source: the file.

    Attributes:
        name: the file's name.
        root: the folder in the archive that all names begin with.

    Raises:
        RuntimeError: the archive is damaged or not of this format.
    """

    def __init__(self, source: Source) -> None:
        self.source, self.name = source, source.name
        try:
            found = self._directory()
        except struct.error:
            raise self.error("its directory is damaged") from None
        self._memory: np.ndarray | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._coming: deque[tuple[str, int, Future[int]]] = deque()
        self.entries: dict[str, _Entry] = {}
        for name, entry in found:
            if name in self.entries:
                raise self.error(f"it has two entries {name!r}")
            self.entries[name] = entry
        first = next(iter(self.entries), "")
        if "/" not in first:
            raise self.error(f"file in archive is not in a subdirectory: {first}")
        self.root = first[: first.index("/") + 1]
        if sum(e.length for e in self.entries.values()) > source.size + tuning.file_slack:
            raise self.error("its entries unpack to far more than the size of the file")
        self._checked = any(e.crc for e in self.entries.values())  # PyTorch has an option not to compute them

    def error(self, why: str, of: str = "") -> RuntimeError:
        """An error about the file, or about its entry ``of``."""
        if of:
            return RuntimeError(f"PytorchStreamReader failed reading file {of}: {why}. (In {self.name}.)")
        return RuntimeError(
            f"PytorchStreamReader failed reading zip archive: {why}. {self.name} is cut off or damaged."
        )

    def _directory(self) -> Iterator[tuple[str, _Entry]]:
        size = self.source.size
        tail = self.source.read(max(0, size - _U16 - 22), min(size, _U16 + 22))
        at = tail.rfind(b"PK\5\6")
        if at < 0 or len(tail) - at < _END.size:
            raise self.error("failed finding central directory")
        end = size - len(tail) + at
        _, _, _, _, count, length, start, _ = _END.unpack_from(tail, at)
        if count == _U16 or _U32 in (length, start):
            if at < _LOCATOR.size:
                raise self.error("failed finding central directory")
            magic, _, where, _ = _LOCATOR.unpack_from(tail, at - _LOCATOR.size)
            if magic == b"PK\6\7":
                if where + _END64.size > end:
                    raise self.error("failed finding central directory")
                magic, *_, count, length, start = _END64.unpack(self.source.read(where, _END64.size))
                end = where
                if magic != b"PK\6\6":
                    raise self.error("failed finding central directory")
        if start + length > end or count * _CENTRAL.size > length:
            raise self.error("failed finding central directory")
        return iter(self._entries(self.source.read(start, length), count, start))

    def _entries(self, data: bytes, count: int, start: int) -> list[tuple[str, _Entry]]:
        found, at = [], 0
        for _ in range(count):
            magic, _, _, flags, method, _, _, crc, packed, length, n, m, k, *_, header = _CENTRAL.unpack_from(
                data, at
            )
            at += _CENTRAL.size
            if magic != b"PK\1\2" or at + n + m + k > len(data):
                raise self.error("its directory is damaged")
            raw, extra = data[at : at + n], data[at + n : at + n + m]
            at += n + m + k
            length, packed, header = _wide(extra, [length, packed, header])
            name = self._named(raw)
            if flags & 1 or method not in (0, 8) or (method == 0 and packed != length):
                raise self.error(
                    f"entry {name!r} is encrypted or compressed in a way that PyTorch does not use"
                )
            found.append((name, _Entry(header, length, packed, flags, method, crc, header + 30 + n + packed)))
        order = sorted(range(count), key=lambda i: found[i][1].header)
        for i, after in zip(order, [*order[1:], None], strict=True):
            name, entry = found[i]
            limit = start if after is None else found[after][1].header
            if entry.limit > limit:
                raise self.error(f"entry {name!r} overlaps what follows it")
            found[i] = name, entry._replace(limit=limit)
        return found

    def _named(self, raw: bytes) -> str:
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self.error(f"an entry's name is not UTF-8: {raw[:80]!r}") from None
        if name.startswith("/") or "\\" in name or "\0" in name or ".." in name.split("/"):
            raise self.error(f"an entry's name points outside of the archive: {name[:80]!r}")
        return name

    def has(self, name: str) -> bool:
        return self.root + name in self.entries

    def _found(self, name: str) -> tuple[_Entry, int]:
        """An entry, and the offset of its data."""
        entry = self.entries.get(self.root + name)
        if entry is None:
            raise RuntimeError(
                f"PytorchStreamReader failed locating file {name}: file not found. (In {self.name}.)"
            )
        magic, _, flags, method, *_, n, m = _LOCAL.unpack(self.source.read(entry.header, _LOCAL.size))
        data = entry.header + _LOCAL.size + n + m
        same = magic == b"PK\3\4" and (flags, method) == (entry.flags, entry.method)
        if not same or data + entry.packed > entry.limit:
            raise self.error("its header is damaged", name)
        if self.source.read(entry.header + _LOCAL.size, n) != (self.root + name).encode():
            raise self.error("its header has another name than the directory", name)
        return entry, data

    def length(self, name: str) -> int:
        """The number of bytes of an entry, uncompressed."""
        return self._found(name)[0].length

    def read(self, name: str) -> bytes:
        """All bytes of an entry."""
        return self.array(name, self.length(name)).tobytes()

    def array(self, name: str, count: int, mapped: bool = False) -> np.ndarray:
        """The first ``count`` bytes of an entry, in memory of its own or mapped.

        Raises:
            RuntimeError: the entry has fewer bytes, or its CRC-32 does not match.
        """
        data = self.coming(name, count, mapped)
        self.wait()
        return data

    def coming(self, name: str, count: int, mapped: bool = False) -> np.ndarray:
        """As `array`, but other threads may read large entries; their bytes are valid after `wait`."""
        entry, start = self._found(name)
        if count > entry.length:
            raise self.error(f"{count} bytes were expected, it has {entry.length}", name)
        if mapped and entry.method == 0:
            if self._memory is None:
                self._memory = self.source.mapped()
            return self._memory[start : start + count]
        if entry.method == 0:
            data = aligned(entry.length)
            if entry.length >= PART and self.source.is_of_the_system:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1))
                job = self._pool.submit(self.source.fill_anywhere, start, data)
                self._coming.append((name, entry.crc, job))
                return data[:count]
            self.source.fill(start, data)
        else:
            data = self._unpacked(name, entry, start)
        self._compare(name, entry.crc, crc32(data.data) if self._checked else 0)
        return data[:count]

    def _compare(self, name: str, expected: int, found: int) -> None:
        if self._checked and found != expected:
            raise self.error("its bytes are damaged (CRC-32 mismatch)", name)

    def wait(self) -> None:
        """Wait until all reads that `coming` began are done.

        Raises:
            RuntimeError: a CRC-32 does not match.
        """
        try:
            while self._coming:
                name, expected, job = self._coming.popleft()
                self._compare(name, expected, job.result())
        finally:
            self.close()

    def close(self) -> None:
        """Stop the threads and drop the reads that have not begun."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
            self._coming.clear()

    def _unpacked(self, name: str, entry: _Entry, start: int) -> np.ndarray:
        packed = self.source.read(start, entry.packed)
        unpacker = zlib.decompressobj(-15)
        try:
            data = unpacker.decompress(packed, entry.length + 1)
        except zlib.error as error:
            raise self.error(str(error), name) from None
        if len(data) != entry.length:
            raise self.error(f"it does not unpack to {entry.length} bytes", name)
        out = aligned(entry.length)
        out[:] = np.frombuffer(data, np.uint8)
        return out


def _wide(extra: bytes, values: list[int]) -> list[int]:
    """An entry's sizes and offset, with those above 32 bits from the zip64 field."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        at += 4
        if kind == 1:
            for i, value in enumerate(values):
                if value == _U32:
                    (values[i],) = struct.unpack_from("<Q", extra, at)
                    at += 8
            break
        at += size
    return values


class Writer:
    """Writes an archive front to back, in PyTorch's layout byte for byte.

    The layout matters: ``torch.load`` may compute the offsets of data instead of reading them.

    Args:
        file: the file; only its ``write`` is called.
        root: the folder in the archive.
    """

    def __init__(self, file: IO[bytes], root: str) -> None:
        self._write, self._root = file.write, root.encode("utf-8") + b"/"
        self._at = 0
        self._directory: list[bytes] = []
        self._sums = 0
        self._pool = ThreadPoolExecutor(1)  # its thread starts with the first large entry

    def _put(self, data: Any) -> None:
        self._write(data)
        self._at += len(data)

    def add(self, name: str, data: Any) -> None:
        """Write an entry of bytes-like ``data``."""
        self._add(self._root + name.encode("utf-8"), memoryview(data).cast("B"))

    def _add(self, name: bytes, data: memoryview) -> None:
        size, header = len(data), self._at
        big = size >= _U32 or header >= _U32
        wide = struct.pack("<2Q", size, size) if size >= _U32 else b""
        wide += struct.pack("<Q", header) if header >= _U32 else b""
        wide = struct.pack("<2H", 1, len(wide)) + wide if wide else b""
        pad = -(header + _LOCAL.size + len(name) + len(wide) + 4) % ALIGNMENT
        extra = wide + b"FB" + struct.pack("<H", pad) + b"Z" * pad
        flags = _UTF8 | (_DESCRIPTOR if size else 0)
        # sizes and sum come after the data, as in a stream
        narrow = _U32 if size >= _U32 else 0
        self._put(_LOCAL.pack(b"PK\3\4", 0, flags, 0, 0, 0, 0, narrow, narrow, len(name), len(extra)) + name)
        self._put(extra)
        if size < PART:
            self._put(data)
            crc = crc32(data)
        else:  # both at once
            job = self._pool.submit(crc32, data)
            self._put(data)
            crc = job.result()
        self._sums = zlib.crc32(name + crc.to_bytes(4, "little"), self._sums)
        if size:
            self._put(struct.pack("<4sL2Q" if big else "<4s3L", b"PK\7\x08", crc, size, size))
        short, place = min(size, _U32), min(header, _U32)
        self._directory.append(
            _CENTRAL.pack(
                b"PK\1\2", 0, 0, flags, 0, 0, 0, crc, short, short, len(name), len(wide), 0, 0, 0, 0, place
            )
            + name
            + wide
        )  # fmt: skip

    def close(self) -> None:
        """Write the version, an id of this archive, and the directory."""
        self._pool.shutdown()
        self.add("version", b"3\n")
        self.add(".data/serialization_id", b"%020d%020d" % (len(self._directory), self._sums))
        directory, start, count = b"".join(self._directory), self._at, len(self._directory)
        self._put(directory)
        end = self._at
        if start >= _U32 or len(directory) >= _U32 or count >= _U16:
            self._put(
                _END64.pack(b"PK\6\6", 44, 0x031E, 0x002D, 0, 0, count, count, len(directory), start)
                + _LOCATOR.pack(b"PK\6\7", 0, end, 1)
            )
        count, length = min(count, _U16), min(len(directory), _U32)
        self._put(_END.pack(b"PK\5\6", 0, 0, count, count, length, min(start, _U32), 0))
