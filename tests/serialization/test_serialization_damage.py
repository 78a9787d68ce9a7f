"""Files that are damaged or made to do harm, and what happens when saving is cut short."""

import fcntl
import io
import os
import pickle
import resource
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
import zipfile
from pathlib import Path

import fuzz_files
import pytest
import torch

import functorch_port as ft
from functorch_port.serialization._container import Writer

ROOT = Path(__file__).parents[2]


def repacked(skeleton, entries=(), kind=zipfile.ZIP_STORED):
    """A file of this pickle and these entries."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        archive.writestr("archive/data.pkl", skeleton)
        for name, data in dict(entries).items():
            archive.writestr(name, data)
    file.seek(0)
    return file


class Name:
    """Something that a pickle names."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self):
        """As pickle wants it."""


class Call:
    def __init__(self, function, *args):
        self.function, self.args = function, args


class Storage:
    def __init__(self, *pid):
        self.pid = pid


class Pickler(pickle._Pickler):
    """Writes whatever it is told."""

    dispatch = dict(pickle._Pickler.dispatch)

    def persistent_id(self, obj):
        return obj.pid if type(obj) is Storage else None

    def _name(self, obj):
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())

    def _call(self, obj):
        self.save_reduce(obj.function, obj.args)

    dispatch[Name], dispatch[Call] = _name, _call


def pickled(value):
    file = io.BytesIO()
    Pickler(file, 2).dump(value)
    return file.getvalue()


def storage(count=6, key="0", kind="FloatStorage", location="cpu"):
    return Storage("storage", Name("torch", kind), key, location, count)


REBUILD = Name("torch._utils", "_rebuild_tensor_v2")
V3 = Name("torch._utils", "_rebuild_tensor_v3")
META = Name("torch._utils", "_rebuild_meta_tensor_no_storage")
SPARSE = Name("torch._utils", "_rebuild_sparse_tensor")
COO = Call(Name("torch.serialization", "_get_layout"), "torch.sparse_coo")
CSR = Call(Name("torch.serialization", "_get_layout"), "torch.sparse_csr")
FLOAT = Name("torch", "float32")


def tensor(offset, size, stride, cell=None, grad=False):
    return Call(REBUILD, cell or storage(), offset, size, stride, grad, None)


def load(value, **entries):
    data = {
        f"archive/data/{k.strip('_')}": v
        for k, v in ({"_0": struct.pack("<6f", *range(6))} | entries).items()
    }
    return ft.load(repacked(pickled(value), data))


def compressed(rows, stride, size):
    """A matrix with two entries."""
    begins = tensor(0, rows, stride, storage(3, "1", "LongStorage"))
    others = tensor(1, (2,), (1,), storage(3, "1", "LongStorage"))
    return Call(SPARSE, CSR, (begins, others, tensor(0, (2,), (1,)), Call(Name("torch", "Size"), size)))


DEEP = ()
for _ in range(60):
    DEEP = (DEEP, DEEP)

HARM = {
    "stride out of range": (tensor(0, (2, 3), (4, 1)), RuntimeError, "out of bounds for storage of size 24"),
    "offset out of range": (tensor(6, (1,), (1,)), RuntimeError, "out of bounds"),
    "negative stride": (tensor(5, (6,), (-1,)), pickle.UnpicklingError, "negative"),
    "negative size": (tensor(0, (-2, -3), (3, 1)), pickle.UnpicklingError, "negative"),
    "negative offset": (tensor(-1, (2,), (1,)), pickle.UnpicklingError, "offset"),
    "size of another length": (tensor(0, (2, 3), (1,)), RuntimeError, "mismatch in length"),
    "sizes past 64 bits": (tensor(0, (2**61, 2**61), (0, 0)), pickle.UnpicklingError, "more dimensions or elements"),
    "no tuple": (tensor(0, "ab", (1, 1)), pickle.UnpicklingError, "size"),
    "gradients of integers": (
        tensor(0, (3,), (1,), storage(3, kind="LongStorage"), True), RuntimeError, "floating point dtype",
    ),
    "storage too large": (tensor(0, (7,), (1,), storage(7)), RuntimeError, "data/0: 28 bytes were expected, it has 24"),
    "storage far too large": (tensor(0, (7,), (1,), storage(2**58)), RuntimeError, "bytes were expected"),
    "storage of a number too large": (storage(2**70), pickle.UnpicklingError, "invalid size"),
    "negative storage": (storage(-1), pickle.UnpicklingError, "invalid size"),
    "storage that is missing": (storage(6, "9"), RuntimeError, "failed locating file data/9: file not found"),
    "storage outside": (storage(6, "../data.pkl"), RuntimeError, "file not found"),
    "storage of two types": ([storage(), storage(3, kind="LongStorage")], pickle.UnpicklingError, "two sizes or types"),
    "unknown place": (storage(location="abc"), RuntimeError, "don't know how to restore data location"),
    "no storage": (Storage("file", 1), pickle.UnpicklingError, "Only persistent_load of storage"),
    "storage of a list": (Storage("storage", [], [], [], []), pickle.UnpicklingError, "wrong type"),
    "half an element": (
        Call(V3, Storage("storage", Name("torch.storage", "UntypedStorage"), "0", "cpu", 5), 0, (2,), (1,), False,
             None, Name("torch", "uint16")), pickle.UnpicklingError, "5 bytes cannot hold",
    ),
    "huge meta tensor": (Call(META, FLOAT, (2**62,), (1,), False), pickle.UnpicklingError, "too large"),
    "sparse index past the end": (
        Call(SPARSE, COO, (tensor(0, (1, 3), (3, 1), storage(3, "1", "LongStorage")), tensor(0, (3,), (1,)),
                           Call(Name("torch", "Size"), (2,)), True)), RuntimeError, "past its size",
    ),
    "sparse values of another number": (
        Call(SPARSE, COO, (tensor(0, (1, 3), (3, 1), storage(3, "1", "LongStorage")), tensor(0, (2,), (1,)),
                           Call(Name("torch", "Size"), (5,)), True)), RuntimeError, "do not fit",
    ),
    "csr column past the end": (compressed((3,), (1,), (2, 2)), RuntimeError, "0 <= col_indices < ncols"),
    "csr of more rows": (compressed((3,), (1,), (9, 3)), RuntimeError, "crow_indices.shape"),
    "csr of rows that are one": (compressed((2**40,), (0,), (2**40 - 1, 3)), RuntimeError, "than their storages"),
    "csr with no values": (Call(SPARSE, CSR, (tensor(0, (3,), (1,)),)), pickle.UnpicklingError, "no indices"),
    "memory by a number": (Call(Name("builtins", "bytearray"), 2**40), pickle.UnpicklingError, "bytearray is made of"),
    "text in another encoding": (Call(Name("_codecs", "encode"), "x", "bz2"), pickle.UnpicklingError, "latin1"),
    "number of text": (Call(Name("builtins", "complex"), "1" * 10), pickle.UnpicklingError, "complex number"),
    "key that takes for ever": (Call(Name("builtins", "set"), [DEEP]), pickle.UnpicklingError, "too many parts"),
    "key that cannot be one": (Call(Name("builtins", "set"), [[]]), pickle.UnpicklingError, "unhashable"),
    "keys of one hash": ({(2**61 - 1) * 2**70: 1}, pickle.UnpicklingError, "more than 64 bits"),
    "call of a class": (Call(Name("torch", "Tensor"), 2**40), pickle.UnpicklingError, "unrecognized function"),
    "call of a dtype": (Call(FLOAT), pickle.UnpicklingError, "unrecognized function"),
    "class in the library": (Name("functorch_port.nn", "Linear"), pickle.UnpicklingError, "not an allowed global"),
    "module that is blocked": (Call(Name("posix", "system"), "true"), pickle.UnpicklingError, "blocked"),
    "dotted name": (Name("collections", "OrderedDict.__class__"), pickle.UnpicklingError, "not an allowed global"),
}  # fmt: skip


@pytest.mark.parametrize("name", HARM)
def test_harm_is_refused(name):
    value, kind, text = HARM[name]
    tracemalloc.start()
    try:
        with pytest.raises(kind, match=text):
            load(value, _1=struct.pack("<3q", 0, 1, 2))
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


PIECES = {
    "frozen": b"\x80\x02cbuiltins\nset\n(X\x01\x00\x00\x00xtR.",
    "stack empty": b"\x80\x02R.",
    "no mark": b"\x80\x02t.",
    "unknown memo": b"\x80\x02h\x05.",
    "memo far away": b"\x80\x02Nr\xff\xff\xff\xff" * 3 + b"0.",
    "text past the end": b"\x80\x02X\xff\xff\xff\xffabc.",
    "text far past the end": b"\x80\x04\x8d" + b"\xff" * 8 + b"abc.",
    "instance": b"\x80\x02(iposix\nsystem\n.",
    "object": b"\x80\x02(cposix\nsystem\nX\x04\x00\x00\x00trueo.",
    "extension": b"\x80\x02\x82\x01.",
    "text persistent id": b"\x80\x02Pabc\n.",
    "two values": b"\x80\x02NN.",
    "nothing": b"\x80\x02.",
    "append to a tensor class": b"\x80\x02ctorch\nTensor\nNa.",
    "build a class": b"\x80\x02ctorch\nTensor\n}b.",
    "new set": b"\x80\x02cbuiltins\nset\n)N\x81.",
    "name without end": b"\x80\x02c" + b"x" * 100000,
    "protocol": b"\x80\xff.",
}


@pytest.mark.parametrize("name", PIECES)
def test_instructions_that_make_no_sense_are_refused(name):
    with pytest.raises((pickle.UnpicklingError, EOFError)) as info:
        ft.load(repacked(PIECES[name]))
    assert "data.pkl" in str(info.value)


def test_a_tensor_of_more_elements_than_memory_has_costs_nothing():
    """PyTorch loads it, too: the elements are all the same one."""
    loaded = load(tensor(0, (2**20, 2**20), (0, 0)))
    assert loaded.shape == (2**20, 2**20) and loaded.stride() == (0, 0)


def saved(t, value, **options):
    file = io.BytesIO()
    t.save(value, file, **options)
    return file.getvalue()


def test_wrong_bytes_are_found_by_their_sum(tmp_path):
    data = bytearray(saved(torch, {"a": torch.ones(4), "b": torch.arange(1000)}))
    data[data.index(struct.pack("<2q", 500, 501))] ^= 1
    path = tmp_path / "wrong.pt"
    path.write_bytes(data)
    with pytest.raises(RuntimeError, match=r"data/1: its bytes are damaged.*wrong.pt"):
        ft.load(path)


@pytest.mark.parametrize("form", ["path", "bytes"])
def test_wrong_bytes_in_large_entries_are_found(form, tmp_path):
    """Other threads read those of a file."""
    data = bytearray(saved(ft, {str(i): ft.full((400_000,), float(i)) for i in range(5)}))
    path = tmp_path / "x.pt"
    for at, text in (
        (data.rindex(struct.pack("<2f", 3, 3)), "data/3: its bytes are damaged"),
        (None, None),
    ):
        path.write_bytes(data)
        if at is not None:
            path.write_bytes(data[:at] + b"\1" + data[at + 1 :])
        file = path if form == "path" else io.BytesIO(path.read_bytes())
        if text is None:
            assert [x.sum().item() for x in ft.load(file).values()] == [400_000.0 * i for i in range(5)]
        else:
            with pytest.raises(RuntimeError, match=text):
                ft.load(file)


def test_code_of_the_user_sees_values_of_large_entries(tmp_path):
    """Which it may look at while the file is read."""
    ft.save([Looks(ft.ones(2_000_000))], tmp_path / "x.pt")
    with ft.serialization.safe_globals([Looks]):
        assert ft.load(tmp_path / "x.pt")[0].sum == 2_000_000
    assert ft.load(tmp_path / "x.pt", weights_only=False)[0].sum == 2_000_000


class Looks:
    def __init__(self, x):
        self.x = x

    def __getstate__(self):
        return {"x": self.x}

    def __setstate__(self, state):
        self.sum = state["x"].sum().item()


BOMBS = {
    "lists": b"]",
    "dicts": b"}",
    "tuples": b"N\x85",
    "sets": b"\x8f",
    "ordered dicts": b"h\0)R",
    "nothing": b"N",
}


@pytest.mark.parametrize("name", BOMBS)
def test_containers_that_need_far_more_memory_than_the_file_are_refused(name, tuned):
    tuned(file_slack=1 << 20)
    start = b"\x80\x04ccollections\nOrderedDict\nq\0](" if name == "ordered dicts" else b"\x80\x04]("
    piece = BOMBS[name]
    if name == "nothing":
        bomb = repacked(start + piece * 400_000 + b"e.")
    else:  # in parts, so that few are on the stack at once
        bomb = repacked(start + (piece * 100 + b"e(") * (40_000 // 100) + b"e.")
    tracemalloc.start()
    try:
        with pytest.raises(pickle.UnpicklingError, match=r"far more memory than|nests deeper"):
            ft.load(bomb)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(bomb.getvalue()) + (2 << 20)
    finally:
        tracemalloc.stop()


def test_many_small_tensors_and_containers_load():
    value = [{"step": ft.tensor(float(i)), "sizes": [i, (i,)]} for i in range(3000)]
    assert len(ft.load(io.BytesIO(saved(ft, value)))) == 3000
    words = {f"word {i}": i for i in range(100_000)}
    assert ft.load(io.BytesIO(saved(torch, words))) == words


# Files past 32 bits.


def test_more_entries_than_16_bits_count():
    """Both ways; the file has one tensor, and entries that nobody asks for."""
    many = 65_540
    file = io.BytesIO()
    ft.save({"x": ft.arange(3)}, file)
    with zipfile.ZipFile(file) as archive:
        entries = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    wanted = {k: v for k, v in entries.items() if k != "version" and not k.startswith(".data")}
    out = io.BytesIO()
    writer = Writer(out, "archive")
    for name, data in wanted.items():
        writer.add(name, data)
    for i in range(many):
        writer.add(f"more/{i}", b"")
    writer.close()
    out.seek(0)
    assert torch.load(out)["x"].tolist() == [0, 1, 2]
    out.seek(0)
    assert ft.load(out)["x"].tolist() == [0, 1, 2]
    theirs = io.BytesIO()
    writer = torch._C.PyTorchFileWriter(theirs, False, 64)
    for name, data in wanted.items():
        writer.write_record(name, data, len(data))
    for i in range(many):
        writer.write_record(f"more/{i}", b"", 0)
    writer.write_end_of_file()
    theirs.seek(0)
    assert ft.load(theirs)["x"].tolist() == [0, 1, 2]


@pytest.mark.skipif(os.environ.get("LARGE_FILES") != "1", reason="writes 9 GB; LARGE_FILES=1 does")
def test_entries_past_4_gigabytes(tmp_path):
    """And one that begins there."""
    size = 2**32 + 5
    for here, there in ((ft, torch), (torch, ft)):
        path = tmp_path / "x.pt"
        large = here.zeros(size, dtype=here.uint8) + 1
        here.save({"large": large, "last": here.arange(4)}, path)
        del large
        for options in ({"mmap": True}, {}):
            loaded = there.load(path, **options)
            assert loaded["large"].shape == (size,) and loaded["large"][-3:].tolist() == [1, 1, 1]
            assert loaded["last"].tolist() == [0, 1, 2, 3]
            del loaded
        path.unlink()


def test_files_without_sums_load():
    torch.serialization.set_crc32_options(False)
    try:
        data = saved(torch, torch.arange(3))
    finally:
        torch.serialization.set_crc32_options(True)
    assert ft.load(io.BytesIO(data)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "archive/../../evil", "archive\\..\\evil"])
def test_names_that_lead_out_are_refused(name):
    with pytest.raises(RuntimeError, match="points outside of the archive"):
        ft.load(repacked(pickled(1), {name: b"x"}))


def test_two_entries_of_one_name_are_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for data in (pickled(1), pickled(2)):
            archive.writestr("archive/data.pkl", data)
    with pytest.raises(RuntimeError, match=r"two entries 'archive/data.pkl'"):
        ft.load(io.BytesIO(file.getvalue()))


def test_entries_that_share_bytes_are_refused():
    data = bytearray(saved(torch, [torch.ones(100), torch.zeros(100)]))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        first = archive.getinfo("archive/data/0").header_offset
    at = data.rindex(b"archive/data/1")
    data[at - 4 : at] = struct.pack("<I", first)
    with pytest.raises(RuntimeError, match="overlaps what follows it"):
        ft.load(io.BytesIO(data))


def test_packed_entries_load_unless_they_are_bombs():
    cell = [("archive/data/0", struct.pack("<6f", *range(6)))]
    assert ft.load(repacked(pickled(tensor(0, (6,), (1,))), cell, zipfile.ZIP_DEFLATED)).tolist() == list(
        range(6)
    )
    bomb = repacked(pickled(1), {"archive/data/0": bytes(80 << 20)}, zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    try:
        with pytest.raises(RuntimeError, match="unpack to far more than the size of the file"):
            ft.load(bomb)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", [True, False])
def test_every_truncation_is_an_error(form):
    data = saved(torch, {"a": torch.arange(4.0), "b": [torch.ones(2)]}, _use_new_zipfile_serialization=form)
    for end in range(0, len(data), 7):
        with pytest.raises((RuntimeError, EOFError, pickle.UnpicklingError)):
            ft.load(io.BytesIO(data[:end]))


def test_legacy_sizes_are_compared():
    data = saved(torch, torch.arange(4.0), _use_new_zipfile_serialization=False)
    at = data.index(struct.pack("<q4f", 4, *range(4)))
    with pytest.raises(RuntimeError, match="storage has wrong byte size: expected 4 elements got 9"):
        ft.load(io.BytesIO(data[:at] + struct.pack("<q", 9) + data[at + 8 :]))
    huge = data.replace(b"K\x04Nt", b"J\xff\xff\xff\x7fNt", 1)
    with pytest.raises(RuntimeError, match="its storages claim more bytes than it has"):
        ft.load(io.BytesIO(huge))


def test_damaged_files_load_or_are_refused():
    ends = fuzz_files.run(250, 5)
    assert ends[None] and ends["UnpicklingError"] and ends["RuntimeError"]


# Saving that is cut short.


def test_a_process_that_is_killed_leaves_a_whole_file(tmp_path):
    paths = [str(ROOT), str(ROOT / "tests")]
    code = f"import sys; sys.path[:0] = {paths}; import kill_saves; kill_saves.run(25, 0, {str(tmp_path)!r}, 20_000)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert ft.load(tmp_path / "state.pt")["k"] in (1, 2)


def test_what_a_killed_writer_has_left_is_deleted(tmp_path):
    """But neither what a living one writes, nor what is none of ours."""
    path, code = tmp_path / "x.pt", "import os, functorch_port as ft; ft.save({'x': B()}, 'x.pt')"
    code = f"import os, sys; sys.path.insert(0, {str(ROOT)!r})\n" + code.replace(
        "ft.save",
        "ft.nn.Linear(1, 1); ft.serialization.bytes_of = lambda cell: os.kill(os.getpid(), 9); ft.save",
    ).replace("B()", "ft.ones(5)")
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == -9
        (left,) = os.listdir(tmp_path)
        assert left.startswith(".x.pt.")
    others = [".x.pt.backup", ".x.pt." + "0" * 40, left[:-1], ".y" + left[2:]]
    for name in others:
        (tmp_path / name).touch()
    with open(tmp_path / left, "rb") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        ft.save(1, path)
        assert sorted(os.listdir(tmp_path)) == sorted([*others, left, "x.pt"])
    ft.save(2, path)
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "x.pt"])


def test_two_writers_of_one_file_do_no_harm(tmp_path):
    def write(k):
        for _ in range(40):
            ft.save({"k": k}, tmp_path / "x.pt")

    threads = [threading.Thread(target=write, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert os.listdir(tmp_path) == ["x.pt"] and ft.load(tmp_path / "x.pt")["k"] in range(3)


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.pt"
    ft.save("old", path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(
            RuntimeError,
            match=r"failed writing file data/0 of .*x.pt: File too large. The previous file is unchanged",
        ):
            ft.save({"x": ft.ones(1_000_000)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ft.load(path) == "old" and os.listdir(tmp_path) == ["x.pt"]


def test_a_device_that_is_full_is_an_error():
    with pytest.raises(RuntimeError, match="No space left on device"):
        ft.save({"x": ft.ones(100_000)}, "/dev/full")


def test_the_file_and_its_name_are_on_the_disk_before_save_returns(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (synced.append(os.readlink(f"/proc/self/fd/{handle}")), fsync(handle))
    )
    ft.save(1, tmp_path / "x.pt")
    assert synced[0].startswith(str(tmp_path / ".x.pt.")) and synced[1] == str(tmp_path)


def test_errors_of_a_file_object_are_its_own():
    class Broken(io.BytesIO):
        def write(self, data):
            raise BrokenPipeError(32, "gone")

    with pytest.raises(BrokenPipeError):
        ft.save(ft.ones(2), Broken())


def test_a_warning_comes_where_arguments_are_ignored():
    with pytest.warns(UserWarning, match="pickle_load_args only works"):
        ft.load(io.BytesIO(saved(torch, 1)), encoding="latin1")


def test_loading_takes_time_in_proportion():
    start = time.perf_counter()
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        ft.load(repacked(b"\x80\x02" + b"](" * 100_000))
    assert time.perf_counter() - start < 5
