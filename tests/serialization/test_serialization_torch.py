"""Files both ways: what PyTorch writes loads here with its values, strides and sharing, and what is written here
loads there. All with PyTorch itself.
"""

import base64
import collections
import io
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import textwrap
import zipfile
import zlib

import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port import serialization

WAYS = {"to here": (torch, ft), "to PyTorch": (ft, torch)}
FORMATS = {"zip": {}, "legacy": {"_use_new_zipfile_serialization": False}}
DTYPES = (
    "float32 float64 float16 bfloat16 int8 uint8 int16 int32 int64 bool complex64 complex128 uint16 uint32 uint64 "
    "float8_e4m3fn float8_e5m2"
).split()
NEW = ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")


def file_of(t, value, **options):
    file = io.BytesIO()
    t.save(value, file, **options)
    file.seek(0)
    return file


def shown(tensor):
    """All that must be the same."""
    layout = str(tensor.layout)
    dense = layout == "torch.strided"
    values = None if tensor.is_meta else repr((tensor if dense else tensor.to_dense()).tolist())
    place = (tuple(tensor.stride()), tensor.storage_offset()) if dense else None
    if layout in ("torch.sparse_csr", "torch.sparse_csc"):
        place = str(tensor.detach())
    parameter = isinstance(tensor, (torch.nn.Parameter, ft.nn.Parameter))
    kind = type(tensor).__name__ if dense else (layout, parameter)
    coalesced = tensor.is_sparse and tensor.is_coalesced()
    return kind, str(tensor.dtype), tuple(tensor.shape), place, tensor.requires_grad, coalesced, values


def across(way, value, form="zip", **options):
    """What one side makes of ``value(t)``, and what the other loads."""
    here, there = WAYS[way]
    made = value(here)
    return made, there.load(file_of(here, made, **FORMATS[form]), **options)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(name, way, form):
    if form == "legacy" and way == "to PyTorch" and name in NEW:
        pytest.skip("PyTorch cannot load what it writes there")

    def value(t):
        return t.arange(6).reshape(2, 3).to(getattr(t, name))

    made, loaded = across(way, value, form)
    assert shown(made) == shown(loaded)


VIEWS = {
    "transpose": lambda t, x: x.permute(2, 0, 1),
    "slice": lambda t, x: x[:, 1:, ::2],
    "select": lambda t, x: x[1],
    "element": lambda t, x: x[1, 2, 3],
    "expand": lambda t, x: t.ones(1).expand(3, 4),
    "diagonal": lambda t, x: t.eye(4).diagonal(1),
    "unfold": lambda t, x: t.arange(10.0).unfold(0, 3, 2),
    "real": lambda t, x: t.view_as_complex(x.reshape(-1, 2)).real,
    "as_strided": lambda t, x: x.as_strided((2, 2), (3, 1), 5),
    "empty": lambda t, x: t.empty(2, 0, 3),
    "empty part": lambda t, x: x[:0],
    "scalar": lambda t, x: t.tensor(3),
    "leaf": lambda t, x: x.clone().requires_grad_(),
    "with history": lambda t, x: x.clone().requires_grad_() * 2,
    "parameter": lambda t, x: t.nn.Parameter(x),
    "frozen parameter": lambda t, x: t.nn.Parameter(x, requires_grad=False),
    "parameter of a view": lambda t, x: t.nn.Parameter(x[1].t()),
    "buffer": lambda t, x: t.nn.Buffer(x),
    "sparse": lambda t, x: t.eye(3).to_sparse(),
    "sparse parameter": lambda t, x: t.nn.Parameter(t.eye(3).to_sparse(), requires_grad=False),
    "csr": lambda t, x: x[0].to_sparse_csr(),
    "csc": lambda t, x: x[0].to_sparse_csc(),
    "csr of int32": lambda t, x: t.sparse_csr_tensor(
        t.arange(3).int(), t.tensor([1, 0]).int(), t.ones(2), (2, 3)
    ),
    "csr leaf": lambda t, x: x[0].to_sparse_csr().requires_grad_(),
    "csr parameter": lambda t, x: t.nn.Parameter(x[0].to_sparse_csr()),
    "uncoalesced": lambda t, x: t.sparse_coo_tensor(t.tensor([[0, 0]]), t.ones(2), (2,)),
    "meta": lambda t, x: t.ones(2, 3, device="meta"),
    "meta view": lambda t, x: t.ones(2, 3, device="meta").t(),
    "meta parameter": lambda t, x: t.nn.Parameter(t.ones(2, 3, device="meta")),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", VIEWS)
def test_views_and_kinds(name, way, form):
    made, loaded = across(way, lambda t: VIEWS[name](t, t.arange(24.0).reshape(2, 3, 4)), form)
    assert shown(made) == shown(loaded)
    if made.layout in (torch.strided, ft.strided) and not made.is_meta:
        assert made.untyped_storage().nbytes() == loaded.untyped_storage().nbytes()


def test_channels_last_keeps_its_strides():
    for shape in ((2, 3, 4, 5), (4, 3, 1, 1)):
        x = torch.randn(shape).to(memory_format=torch.channels_last)
        loaded = ft.load(file_of(torch, x))
        assert shown(x) == shown(loaded)
        assert shown(torch.load(file_of(ft, loaded))) == shown(x)


@pytest.mark.parametrize("form", FORMATS)
def test_conjugates_and_negatives_have_their_values(form):
    x = torch.tensor([1 + 2j, 3 - 4j])
    for made in (x.conj(), x.conj().imag):
        assert ft.load(file_of(torch, made, **FORMATS[form])).tolist() == made.tolist()


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("way", WAYS)
def test_what_shared_memory_shares_it_again(way, form, order):
    """Whichever tensor of a storage comes first in the file."""

    def value(t):
        base = t.arange(12.0).reshape(3, 4)
        parts = [base, base.t(), base[1], base.reshape(2, 6)]
        return parts[order:] + parts[:order]

    made, loaded = across(way, value, form)
    assert [shown(x) for x in made] == [shown(x) for x in loaded]
    for values in (made, loaded):
        values[-order][0, 2] = 50.0  # the base
        values[(2 - order) % 4][0] = 70.0
    assert [shown(x) for x in made] == [shown(x) for x in loaded]


def test_other_dtypes_of_one_storage():
    x = torch.arange(4, dtype=torch.int64).to(torch.uint16)
    pair = [x, x.view(torch.float8_e5m2)]
    a, b = ft.load(file_of(torch, pair))
    a[0] = 60
    pair[0][0] = 60
    assert shown(b) == shown(pair[1])
    for t in (torch, ft):
        y = t.ones(2)
        with pytest.raises(
            RuntimeError, match="Cannot save multiple tensors or storages that view the same data"
        ):
            t.save([y, y.view(t.int32)], io.BytesIO())


PYTHON = {
    "containers": lambda t: {
        "a": [1, 2.5, "x", b"y", None, True],
        "c": (1, (2,)),
        3: {4: 5},
        (1, 2): -1,
        None: 2**70,
    },
    "ordered": lambda t: collections.OrderedDict(b=1, a=2),
    "counter": lambda t: collections.Counter("aab"),
    "set": lambda t: {1, "x", (2, 3)},
    "numbers": lambda t: [
        0,
        255,
        256,
        65536,
        -1,
        2**31,
        2**63,
        -(2**100),
        1e300,
        float("inf"),
        complex(1, -2),
    ],
    "text": lambda t: ["", "é\U0001f600", "x" * 300, b"\xff" * 300, bytearray(b"ab")],
    "size": lambda t: t.Size([1, 2]),
    "device": lambda t: [t.device("cpu"), t.device("cuda", 1)],
    "dtype": lambda t: [t.float32, t.bfloat16, t.uint16],
    "layout": lambda t: t.strided,
    "same": lambda t: (lambda x: [x, x, {"x": x}])([1]),
    "long": lambda t: list(range(3000)),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PYTHON)
def test_python_values(name, way, form):
    made, loaded = across(way, PYTHON[name], form)
    assert repr(made) == repr(loaded)
    if name == "same":
        assert loaded[0] is loaded[1] is loaded[2]["x"]


def test_no_bytes_and_frozen_sets_load_here():
    value = [b"", frozenset({1}), {"x": bytearray()}]
    assert ft.load(file_of(ft, value)) == ft.load(file_of(torch, value)) == value


@pytest.mark.parametrize("way", WAYS)
def test_state_dicts(way):
    def value(t):
        t.manual_seed(0)
        net = t.nn.Sequential(t.nn.Conv2d(3, 4, 3), t.nn.BatchNorm2d(4), t.nn.LSTM(4, 5))
        return net.state_dict()

    made, loaded = across(way, value)
    assert type(loaded) is collections.OrderedDict and list(made) == list(loaded)
    assert loaded._metadata == made._metadata
    assert {k: shown(v) for k, v in made.items()} == {k: shown(v) for k, v in loaded.items()}


def test_the_bytes_are_laid_out_as_pytorch_lays_them(tmp_path):
    def value(t):
        return {"a": t.arange(5.0), "b": t.ones(3, dtype=t.uint16), "c": t.empty(0), "d": t.ones(2, 3).t()}

    for t in (ft, torch):
        t.save(value(t), tmp_path / f"{t.__name__}.pt")
    ours, theirs = (zipfile.ZipFile(tmp_path / f"{t.__name__}.pt") for t in (ft, torch))
    assert ours.testzip() is None
    assert [i.filename.partition("/")[2] for i in ours.infolist()] == [
        i.filename.partition("/")[2] for i in theirs.infolist()
    ]
    assert ours.read("functorch_port/data.pkl") == theirs.read("torch/data.pkl")
    file_of_same_name = [file_of(t, value(t)).getvalue() for t in (ft, torch)]
    at = file_of_same_name[1].index(b"archive/.data/serialization_id")  # a number that is each writer's own
    assert file_of_same_name[0][:at] == file_of_same_name[1][:at]


@pytest.mark.parametrize("size", [10, 100_000])
def test_mmap_both_ways(size, tmp_path):
    path = tmp_path / "x.pt"
    for here, there in WAYS.values():
        here.save({"x": here.arange(size), "half": here.ones(3).to(here.bfloat16)}, path)
        loaded = there.load(path, mmap=True)
        assert loaded["x"].tolist() == list(range(size)) and loaded["half"].tolist() == [1, 1, 1]
        loaded["x"][0] = 9
        assert there.load(str(path), mmap=True)["x"][0].item() == 0
    # where the data are is computed from how the file is laid out
    assert torch.load(path, map_location="meta")["x"].untyped_storage()._checkpoint_offset > 0
    assert ft.load(path, map_location="meta")["x"].is_meta


def outcome(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("form", FORMATS)
def test_mmap_is_refused_as_there(form, tmp_path):
    path = str(tmp_path / "x.pt")
    torch.save(torch.ones(1), path, **FORMATS[form])
    with open(path, "rb") as file:
        whole = file.read()
    for where in [io.BytesIO(whole)] + ([path] if form == "legacy" else []):
        assert outcome(lambda w=where: ft.load(w, mmap=True)) == outcome(
            lambda w=where: torch.load(w, mmap=True)
        )


def turned(file, order=b"big"):
    """The same file as a machine of the other byte order writes it."""
    out = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("byteorder"):
                data = order
            if "/data/" in name:
                data = np.frombuffer(data, ">f4").astype("<f4").tobytes()
            new.writestr(name, data)
    out.seek(0)
    return out


def test_big_endian_files():
    assert ft.load(turned(file_of(torch, torch.arange(5.0)))).tolist() == [0, 1, 2, 3, 4]
    pairs = torch.tensor([1 + 2j, 3 - 4j])
    assert ft.load(turned(file_of(torch, pairs))).tolist() == pairs.tolist()
    with pytest.raises(ValueError, match="Unknown endianness type: middle"):
        ft.load(turned(file_of(torch, torch.ones(1)), b"middle"))
    unsaid = turned(file_of(torch, torch.arange(3.0), _disable_byteorder_record=True))
    serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
    try:
        assert ft.load(unsaid).tolist() == [0, 1, 2]
    finally:
        serialization.set_default_load_endianness(None)
    assert outcome(lambda: serialization.set_default_load_endianness(3)) == outcome(
        lambda: torch.serialization.set_default_load_endianness(3)
    )


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "where",
    [
        "cpu",
        "meta",
        "cuda",
        "nowhere",
        {"cpu": "cpu"},
        {"cpu": "cuda:3"},
        {},
        lambda t: t.device("cpu"),
        lambda t: lambda cell, location: cell,
        lambda t: lambda cell, location: None,
        lambda t: lambda cell, location: cell.cpu(),
    ],
    ids=lambda where: "function" if callable(where) else str(where),
)
def test_map_location(where, form):
    def load(t):
        place = where(t) if callable(where) else where
        return shown(t.load(file_of(torch, [torch.arange(6.0).reshape(2, 3).t()], **FORMATS[form]), place)[0])

    assert outcome(lambda: load(ft)) == outcome(lambda: load(torch))


def test_streams_are_read_from_where_they_stand():
    for form in FORMATS.values():
        file = io.BytesIO()
        for t in (torch, ft):
            t.save(t.ones(2), file, **form)
        for t in (torch, ft):
            end = outcome(lambda t=t: t.load(file))
            assert end[0] == "EOFError"
    for first, second in (("legacy", "legacy"), ("legacy", "zip")):
        file = io.BytesIO()
        torch.save(torch.ones(2), file, **FORMATS[first])
        ft.save(ft.zeros(3), file, **FORMATS[second])
        file.seek(0)
        assert ft.load(file).tolist() == [1, 1] and ft.load(file).tolist() == [0, 0, 0]
        file.seek(0)
        assert torch.load(file).tolist() == [1, 1] and torch.load(file).tolist() == [0, 0, 0]


class Stream(io.RawIOBase):
    """Can only be read, or only be written to."""

    def __init__(self, data=b""):
        self.data = io.BytesIO(data)

    def readable(self):
        return True

    def writable(self):
        return True

    def read(self, size=-1):
        return self.data.read(size)

    def write(self, data):
        return self.data.write(data)


class NoSeek:
    def read(self, size=-1):
        return b""


@pytest.mark.parametrize("make", [Stream, NoSeek])
def test_streams_that_cannot_be_sought_are_refused_as_there(make):
    assert outcome(lambda: ft.load(make())) == outcome(lambda: torch.load(make()))


def test_streams_that_can_only_be_written_to():
    stream = Stream()
    ft.save(ft.ones(3), stream)
    assert torch.load(io.BytesIO(stream.data.getvalue())).tolist() == [1, 1, 1]
    for bad in (type("A", (), {"write": 3})(), object()):
        assert outcome(lambda b=bad: ft.save(1, b)) == outcome(lambda b=bad: torch.save(1, b))


@pytest.mark.parametrize("name", ["é.pt", "a.b.c", "noending"])
def test_names_of_files(name, tmp_path):
    ft.save(ft.ones(1), tmp_path / name)
    torch.save(torch.ones(1), tmp_path / f"t_{name}")
    assert torch.load(tmp_path / name).tolist() == ft.load(tmp_path / f"t_{name}").tolist() == [1]


# What is allowed.


class Plain:
    """A user's class, allowed or not."""

    def __init__(self):
        self.x = 3


class Evil:
    def __reduce__(self):
        return os.system, ("echo this must not run",)


REFUSED = {
    "class": Plain,
    "system": Evil,
    "module": lambda: torch.nn.Linear(1, 1),
    "function": lambda: os.path.join,
}
REFUSED["numpy"] = lambda: np.float64(2.5)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_those_of_pytorch(name, capfd):
    value = REFUSED[name]()
    kind, text = outcome(lambda: torch.load(file_of(torch, value)))
    ours, said = outcome(lambda: ft.load(file_of(torch, value)))
    assert (ours, said.partition("\n\n(In ")[0]) == (kind, text) and "data.pkl, after" in said
    listed = [t.serialization.get_unsafe_globals_in_checkpoint(file_of(torch, value)) for t in (ft, torch)]
    assert listed[0] == sorted(listed[1])
    assert "must not run" not in capfd.readouterr().out


def test_allowed_classes():
    for t in (torch, ft):
        s = t.serialization
        with s.safe_globals([Plain]):
            assert Plain in s.get_safe_globals()
            assert t.load(file_of(torch, Plain())).x == 3
            assert s.get_unsafe_globals_in_checkpoint(file_of(torch, Plain())) == []
        assert Plain not in s.get_safe_globals()
        before = s.get_safe_globals()
        s.add_safe_globals([(Plain, "elsewhere.Other")])
        try:
            assert (Plain, "elsewhere.Other") in s.get_safe_globals()
            with pytest.raises(pickle.UnpicklingError):
                t.load(file_of(torch, Plain()))
        finally:
            s.clear_safe_globals()
            s.add_safe_globals(before)


def test_numpy_numbers_and_arrays_where_they_are_allowed():
    value = {"loss": np.float64(2.5), "count": np.int32(3), "list": np.arange(3)}
    names = [np._core.multiarray.scalar, np._core.multiarray._reconstruct, np.dtype, np.ndarray]
    names += [np.dtypes.Float64DType, np.dtypes.Int32DType, np.dtypes.Int64DType]
    for t in (torch, ft):
        with t.serialization.safe_globals(names):
            loaded = t.load(file_of(torch, value))
            assert repr(loaded) == repr(value)
            assert repr(t.load(file_of(ft, value))) == repr(value)


def test_environment_variables_decide_as_there(monkeypatch):
    for force, free in (("1", "0"), ("0", "1"), ("1", "1")):
        monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", force)
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", free)
        ends = []
        for t in (torch, ft):
            for options in ({}, {"weights_only": False}, {"weights_only": True}):
                with pytest.warns() if force < free and not options else nothing():
                    ends.append(
                        outcome(lambda t=t, o=options: type(t.load(file_of(torch, Plain()), **o)).__name__)[0]
                    )
        assert ends[:3] == ends[3:]


class nothing:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


# Whole modules.

MODULES = {
    "convolution": lambda t: t.nn.Sequential(
        t.nn.Conv2d(3, 4, 3), t.nn.BatchNorm2d(4), t.nn.ReLU(), t.nn.Flatten()
    ),
    "LSTM": lambda t: t.nn.LSTM(3, 4),
    "transformer": lambda t: t.nn.TransformerEncoderLayer(8, 2, dropout=0.0),
    "embedding": lambda t: t.nn.ModuleDict(
        {"a": t.nn.Embedding(3, 4), "b": t.nn.ModuleList([t.nn.Linear(2, 3)])}
    ),
}
INPUTS = {"convolution": (2, 3, 5, 5), "LSTM": (2, 1, 3), "transformer": (3, 2, 8)}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", MODULES)
def test_whole_modules_of_pytorch(name, form):
    net = MODULES[name](torch).eval()
    file = file_of(torch, net, **FORMATS[form])
    with pytest.raises(pickle.UnpicklingError, match="torch_classes=True"):
        ft.load(io.BytesIO(file.getvalue()), weights_only=False)
    ours = ft.load(file, weights_only=False, torch_classes=True)
    assert type(ours) is getattr(ft.nn, type(net).__name__)
    assert {k: shown(v) for k, v in net.state_dict().items()} == {
        k: shown(v) for k, v in ours.state_dict().items()
    }
    if name in INPUTS:
        x = np.random.default_rng(0).standard_normal(INPUTS[name]).astype(np.float32)
        first, second = (m(t.tensor(x)) for m, t in ((net, torch), (ours, ft)))
        first, second = (y[0] if isinstance(y, tuple) else y for y in (first, second))
        np.testing.assert_allclose(second.detach().numpy(), first.detach().numpy(), atol=2e-6)


DISTRIBUTIONS = {
    "Beta": lambda t: t.distributions.Beta(t.tensor(1.0), t.tensor(2.0)),
    "Independent": lambda t: t.distributions.Independent(t.distributions.Normal(t.zeros(2), t.ones(2)), 1),
    "LogNormal": lambda t: t.distributions.LogNormal(t.tensor(0.0), t.tensor(1.0)),
    "MultivariateNormal": lambda t: t.distributions.MultivariateNormal(t.zeros(2), t.eye(2)),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_whole_distributions_of_pytorch(name):
    there = DISTRIBUTIONS[name](torch)
    ours = ft.load(file_of(torch, there), weights_only=False, torch_classes=True)
    assert type(ours) is getattr(ft.distributions, name)
    x = [0.25, 0.5] if there.event_shape else 0.25
    assert ours.log_prob(ft.tensor(x)).item() == pytest.approx(there.log_prob(torch.tensor(x)).item())


def test_whole_modules_under_the_launcher(tmp_path):
    torch.save(torch.nn.Sequential(torch.nn.Linear(2, 3)), tmp_path / "net.pt")
    torch.save({"w": torch.ones(2)}, tmp_path / "state.pt")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import torch
        net = torch.load("net.pt", weights_only=False)
        print(type(net).__module__, type(net[0]).__name__, net(torch.ones(1, 2)).shape)
        print(torch.load("state.pt"))
        torch.save(net.state_dict(), "back.pt")
        """)
    )
    command = [sys.executable, "-m", "functorch_port", "run", str(script)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.stdout.splitlines() == [
        "functorch_port.nn.modules.container Linear torch.Size([1, 3])",
        "{'w': tensor([1., 1.])}",
    ], done.stderr
    assert list(torch.load(tmp_path / "back.pt")) == ["0.weight", "0.bias"]


# Where values are.


@pytest.mark.cpu
def test_values_that_share_memory_with_numpy():
    array = np.zeros(3, np.float32)
    tensor = ft.from_numpy(array)
    array[1] = 5
    assert torch.load(file_of(ft, tensor)).tolist() == [0, 5, 0]


@pytest.mark.cpu
def test_small_values_stay_on_the_host_and_large_ones_are_not_copied():
    small, large = ft.load(file_of(torch, [torch.ones(3), torch.arange(5000.0)]))
    assert small._storage.host() is not None and large._storage.host() is None
    assert (small + 1).tolist() == [2, 2, 2] and large.add_(1)[1].item() == 2


WITHOUT_64_BITS = """
import functorch_port as ft

for tensor in ft.load("file.pt"):
    print(tensor.dtype, tensor.tolist())
try:
    ft.load("far.pt")
except RuntimeError as error:
    print(error)
"""


def test_without_64_bits(tmp_path):
    rows = torch.arange(6).reshape(2, 3)
    torch.save([rows, rows.t(), torch.ones(2).double()], tmp_path / "file.pt")
    torch.save(torch.tensor([2**40]), tmp_path / "far.pt")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FUNCTORCH_PORT_X64": "0"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_64_BITS], cwd=tmp_path, capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr
    *tensors, error = done.stdout.splitlines()
    assert tensors == [
        f"torch.int32 {rows.tolist()}",
        f"torch.int32 {rows.t().tolist()}",
        "torch.float32 [1.0, 1.0]",
    ]
    assert "integers past int32" in error


# Old files.

#: written by the first release of this package, in its own format
FORMER = """
c-oy+L2u(k6n5;yN!n$XL#1UAhmcbwAe%JZ7NOO4r4>TLsOlmPTq<kgj5}r>+wzQC64X_+QXwlwqN@%EIC1BKgoMP6BL_Hg;s?M1aX~`j1aHP}y>_>0#
Uzuwnfcx~-<$Ww-nNYDiYD7@Ur%@be*Q=DHrTSi2;EHrhlR02>?n-cO*f3kh;=`pVenBq9kkzQ^<QnZhZBawc!XmZw|$Q>AGcw8KL!&At>Hw@7uj09Zo
k`WA8Z#C{Q7PG!9Rwk$$tH;f)Qe<8$Ix6)zAMll#_NKI=r^$;e9H0z<jCb(WN-{knc?q^TI&zx(#}07>i@Tnwj0<bqX$M7YknL0m$`3#0IOvG7kkeoG1
}Y+_!Yg_*htmRe@ja6Y=-}X5SU0)*)tx)JcOh$r4$XNW;<rQ&IQ}kcWVSZk(bpuM*_Dr)Xa33*HziN&R(&R<2tao>!?i#ex{TW-IGh?hN}M%0+X8_dG`
}*X_(c1|KIGAt56HOl`y_k%E|ZY67C>1#-KTWFLFGgh@%f8KD@BF~e|dQrxN_O-nz~G|x1d!^Cv~k_RyW9JzC<yu+6w98-@%3YeJlCEKHR<}^=I4hmb*
OnPQR)^f_VROR}bfYd<1g=5KKw~9N<#S}kJj}L-DPr=t!Kr(e?r*O<Znogvct9BB2fyY!?;gQmGdrtafSsoVIAWiwNe41gzyfL6+p~{pp#4wl^R4u<Y4
#yCDGPchg*2Y=Ml=3U;=<VG&Od?tAl2Z3$@z&<|U&!_)Z=6uV+#f&5_A_se&^W@Nco(+iSJG5MDL7~%CmI2U9K_+Ccnt37LnRmNI^1uJ93r;()sZLl0k
MaMzFe%i35CeFxTz#bF_wlBlyHM$CO#7#S%OF0bmMS}137#G$&ybAD(>lM2m>cfAoG0L34I?s@^(_VdH3Wjme*58SAiPUd1VNdn#e;<y7|*W(_YrDAN}
^^1+ZklarSAEU21x>mpaTg;pZ-Vq0gXyb+<^ze}D6~4wilaUH^y8qN8oU|4IX_#s!Y6uIp|N27i^@kM5hlT*iHnhA=C+uk;SzYk}3ez<n+A&?;K7os9p
Vs$0)iby@d~+`Xc&80Wu?PTEY#J^$5I<|)5Ya-K)$zhIswc~+(6B;QmQ)LogTTwyuQzYA#kWtwum<utF?7F1uErktXjW`6<ApiEP)zntc~1vG1ySM!{?
p!zOP^UeaAjcu!DN>~#<4<S9Ds?mQ`X`vt
"""


@pytest.mark.parametrize("trust", [True, False])
def test_the_former_format(trust):
    data = zlib.decompress(base64.b85decode(FORMER.replace("\n", "")))
    value = ft.load(io.BytesIO(data), weights_only=not trust)
    base, turned, row = value["views"]
    row.zero_()
    assert base.tolist() == [[0, 1, 2], [0, 0, 0]] and turned.tolist() == [[0, 0], [1, 0], [2, 0]]
    assert value["half"].dtype is ft.bfloat16 and value["half"].tolist() == [1.5]
    assert value["size"] == ft.Size([1, 2]) and type(value["size"]) is ft.Size
    assert value["device"] == ft.device("cuda", 1) and value["dtype"] is ft.int16
    assert type(value["weight"]) is ft.nn.Parameter and value["weight"].requires_grad
    assert isinstance(value["buffer"], ft.nn.Buffer) and value["sparse"].to_dense().tolist() == [
        [1, 0],
        [0, 1],
    ]
    assert value["meta"].is_meta and value["meta"].shape == (2, 3) and ft.nn.parameter.is_lazy(value["lazy"])
    assert value["optimizer"]["state"][0]["momentum_buffer"].tolist() == [1, 1]
    assert (value["set"], value["frozen"], value["bytes"]) == ({1, 2}, frozenset({1}), b"ab")
    assert value["count"] == collections.Counter("aab")


def test_legacy_files_have_windows_on_storages():
    """Files before PyTorch 0.4 may name a part of a storage as one of its own."""
    file = io.BytesIO()

    class Pickler(pickle._Pickler):
        def persistent_id(self, obj):
            if type(obj) is tuple and obj and obj[0] == "a storage":
                return ("storage", torch.FloatStorage, "7", "cpu", 6, ("8", obj[1], obj[2]))
            return None

    for part in (serialization.MAGIC_NUMBER, 1001, {"little_endian": True}):
        pickle.dump(part, file, 2)

    class Made:
        def __reduce__(self):
            return torch._utils._rebuild_tensor, (("a storage", 2, 3), 1, (2,), (1,))

    Pickler(file, 2).dump(Made())
    pickle.dump(["7"], file, 2)
    file.write(struct.pack("<q6f", 6, *range(6)))
    file.seek(0)
    assert ft.load(file).tolist() == [3, 4]


@pytest.mark.parametrize("index", [1, 3])
def test_functions_of_files_have_pytorchs_names(index):
    class Made:
        def __reduce__(self):
            parts = ft.tensor([[index], [2]]), ft.tensor([5.0]), ft.Size([3, 3])
            return ft._utils._rebuild_sparse_tensor, (ft.sparse_coo, parts)

    file = io.BytesIO()
    ft.save(Made(), file)

    def loaded(T):
        file.seek(0)
        with T.sparse.check_sparse_tensor_invariants():
            return T.load(file).to_dense().tolist()

    if index == 1:
        assert loaded(ft) == loaded(torch) == [[0, 0, 0], [0, 0, 5], [0, 0, 0]]
        return
    for T in (ft, torch):
        with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
            loaded(T)


def test_the_tar_format_is_refused_by_name(tmp_path):
    path = tmp_path / "old.pt"
    with tarfile.open(path, "w") as tar:
        for name in ("storages", "tensors", "pickle"):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    for options in ({}, {"weights_only": False}):
        with pytest.raises(NotImplementedError, match=r"old.pt has the .tar format of PyTorch 0.1"):
            ft.load(path, **options)


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_scripted_archives_are_refused_as_there():
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), file)
    data = file.getvalue()
    with pytest.warns(UserWarning, match="TorchScript"):
        theirs = outcome(lambda: torch.load(io.BytesIO(data)))
    assert outcome(lambda: ft.load(io.BytesIO(data))) == theirs
    with pytest.raises(NotImplementedError, match="state_dict"):
        ft.load(io.BytesIO(data), weights_only=False)


@pytest.mark.filterwarnings("ignore")
def test_kinds_that_are_not_here_are_named():
    blocks, quantized = (
        torch.eye(2).to_sparse_bsr((1, 1)),
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    )
    for value, name in (
        (blocks, "sparse_bsr"),
        (quantized, "qint8|qtensor"),
        (torch.ones(1).to(torch.complex32), "complex32"),
    ):
        with pytest.raises(NotImplementedError, match=name):
            ft.load(file_of(torch, value))
