"""Loads files that were damaged on purpose, and looks at what comes of it.

``python tests/fuzz_files.py --count 100000 --seed 0``: each is a file of PyTorch or of this package with some bytes,
entries or instructions changed. It loads, with tensors that fit their storages, or is refused by an error of a kind
that says so. Anything else (another error, code that runs, a file opened for writing, more than 5 seconds, memory
beyond a gigabyte) ends the program, and prints the case.
"""

from __future__ import annotations

import argparse
import collections
import io
import os
import pickle
import random
import resource
import signal
import struct
import sys
import time
import warnings
import zipfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import torch

import functorch_port as ft

REFUSALS = (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, NotImplementedError)
NUMBERS = (0, 1, 2, 7, 63, 64, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1)
GLOBALS = (
    b"cposix\nsystem\n", b"cbuiltins\neval\n", b"cbuiltins\nset\n", b"cbuiltins\nbytearray\n", b"ctorch\nSize\n",
    b"ctorch\nTensor\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ccollections\nOrderedDict\n", b"ctorch\nqint8\n",
)  # fmt: skip


class Evil:
    """Would run code."""

    def __reduce__(self):
        return os.system, ("true",)


def written(module, value, **options):
    file = io.BytesIO()
    module.save(value, file, **options)
    return file.getvalue()


def value_of(t):
    """A little of everything that files have."""
    base = t.arange(24.0).reshape(4, 6)
    net = t.nn.Sequential(t.nn.Linear(3, 2), t.nn.BatchNorm1d(2))
    return {
        "net": net.state_dict(),
        "views": [base, base.t(), base[1:, ::2], base[2], t.ones(1).expand(3, 3)],
        "dtypes": [
            t.ones(2).to(d) for d in (t.bfloat16, t.float8_e5m2, t.bool, t.uint16, t.complex64, t.int64)
        ],
        "sparse": t.eye(3).to_sparse(),
        "meta": t.ones(2, 3, device="meta"),
        "empty": [t.empty(0), t.tensor(3), t.empty(2, 0)],
        "python": [1, 2.5, "x", b"y", None, True, (1, (2,)), {3}, complex(1, 2), 2**70, {(1, 2): 3}],
        "kinds": [t.Size([1, 2]), t.device("cpu"), t.float16, collections.Counter("aab")],
        "weight": t.nn.Parameter(t.ones(2, 2)),
        "buffer": t.nn.Buffer(t.ones(2)),
    }


def seeds():
    """The files that are damaged."""
    return [
        written(torch, value_of(torch)),
        written(ft, value_of(ft)),
        written(torch, value_of(torch), _use_new_zipfile_serialization=False),
        written(torch, [torch.ones(3)]),
        written(ft, {"a": ft.arange(5)}, _use_new_zipfile_serialization=False),
        written(torch, [Evil(), torch.ones(2)]),
    ]


def changed(rng, data):
    """Some bytes changed, taken out, put in or repeated."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 8))):
        if not data:
            break
        at, how = rng.randrange(len(data)), rng.randrange(8)
        if how == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[at] = rng.randrange(256)
        elif how == 2:
            del data[at:]
        elif how == 3:
            del data[at : at + rng.randrange(1, 16)]
        elif how == 4:
            data[at:at] = data[at : at + rng.randrange(1, 200)]
        elif how == 5:
            data[at:at] = rng.choice(GLOBALS) + rng.choice((b"", b")R", b"K\x05\x85R", b"q\x01", b"b"))
        elif how == 6:
            form = rng.choice(("<B", "<H", "<I", "<Q"))
            new = struct.pack(form, rng.choice(NUMBERS) % (1 << 8 * struct.calcsize(form)))
            data[at : at + len(new)] = new
        else:
            other = rng.randrange(len(data))
            size = rng.randrange(1, 40)
            data[at : at + size] = data[other : other + size]
    return bytes(data)


def repacked(rng, data):
    """A whole archive again, with one entry changed, renamed, repeated or left out."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = [[i.filename, archive.read(i)] for i in archive.infolist()]
    at = rng.choice((0, 0, 0, 0, 0, 0, rng.randrange(len(entries))))
    how = rng.randrange(12)
    if how < 9:
        entries[at][1] = changed(rng, entries[at][1])
    elif how == 9:
        entries[rng.randrange(len(entries))][0] = rng.choice(
            ("../x", "/etc/x", "archive/data/1", "archive/../y", "\0")
        )
    elif how == 10:
        del entries[rng.randrange(len(entries))]
    else:
        entries.append(list(rng.choice(entries)))
    out = io.BytesIO()
    with (
        warnings.catch_warnings(action="ignore"),
        zipfile.ZipFile(out, "w", rng.choice((zipfile.ZIP_STORED,) * 5 + (zipfile.ZIP_DEFLATED,))) as archive,
    ):
        for name, body in entries:
            info = zipfile.ZipInfo("x")
            info.filename, info.compress_type = name, archive.compression
            archive.writestr(info, body)
    return out.getvalue()


def mutated(rng, files):
    data = rng.choice(files)
    if data[:2] == b"PK" and rng.random() < 0.7:
        return repacked(rng, data)
    return changed(rng, data)


def tensors_in(value, seen):
    if id(value) in seen or len(seen) > 10000:
        return
    seen[id(value)] = value
    if ft.is_tensor(value):
        yield from (value._indices(), value._values()) if value.is_sparse else (value,)
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_in(part, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from tensors_in(part, seen)


def check(data):
    """Load one file: the name of the error that refused it, or None. Raises what should not be."""
    try:
        value = ft.load(io.BytesIO(data))
    except REFUSALS as error:
        return type(error).__name__
    for tensor in tensors_in(value, {}):
        if ft.nn.parameter.is_lazy(tensor):
            continue
        size, stride, offset = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
        needed = (
            offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if tensor.numel() else 0
        )
        held = tensor.untyped_storage().nbytes()
        assert 0 <= needed * tensor.itemsize <= held, (size, stride, offset, held)
        assert tensor.is_meta or held <= len(data) + (64 << 20), held
        if tensor._view is None and not tensor.is_meta:
            assert np.asarray(tensor.detach().jax()).shape == size
    return None


def watch(event, args):
    if event in (
        "os.system",
        "subprocess.Popen",
        "os.exec",
        "os.posix_spawn",
        "os.remove",
        "os.rename",
        "os.rmdir",
    ):
        raise SystemExit(f"a file has run {event} {args}")
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        raise SystemExit(f"a file has opened {args} for writing")


def too_long(*_):
    raise SystemExit("a file takes more than 5 seconds")


def run(count, seed, say=None):
    """Load ``count`` damaged files; how many ended how."""
    rng, files = random.Random(seed), seeds()
    ends = collections.Counter()
    before = signal.signal(signal.SIGALRM, too_long)
    case = b""
    try:
        for i in range(count):
            case = mutated(rng, files)
            signal.alarm(5)
            ends[check(case)] += 1
            if say and i % 5000 == 4999:
                say(f"{i + 1} files, {dict(ends)}")
    except BaseException:
        print(f"case {i} of seed {seed}: {case[:4000]!r}", file=sys.stderr)
        raise
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return ends


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    run(500, given.seed - 1)  # what is compiled and imported once
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30),) * 2)
    sys.addaudithook(watch)
    start, peak = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ends = run(given.count, given.seed, lambda text: print(text, flush=True))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) >> 10
    print(
        f"{given.count} files in {time.perf_counter() - start:.0f} s, peak memory grew by {grown} MB: {dict(ends)}"
    )


if __name__ == "__main__":
    main()
