"""`save` and `load`: everything comes back as it was, nothing runs that is not allowed, bad files say what is wrong."""

import collections
import io
import os
import pickle
import stat
import zipfile

import pytest
import torch
from interrupts import raising

import functorch_port as ft
from functorch_port import serialization
from functorch_port._base.atomic import atomic, link


def through(obj, **options):
    file = io.BytesIO()
    ft.save(obj, file)
    file.seek(0)
    return ft.load(file, **options)


def same(a, b):
    assert type(a) is type(b)
    assert a.dtype is b.dtype and a.shape == b.shape and a.requires_grad == b.requires_grad
    assert a.tolist() == b.tolist()


class Evil:
    def __reduce__(self):
        return os.system, ("echo this must not run",)


class Plain:
    """A user's class, allowed or not."""


DTYPES = "float32 float64 float16 bfloat16 int8 uint8 int16 int32 int64 bool complex64 complex128".split()


@pytest.mark.parametrize("name", DTYPES)
def test_tensors_of_every_dtype(name):
    tensor = ft.arange(6).reshape(2, 3).to(getattr(ft, name))
    same(tensor, through(tensor))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)], ids=str)
def test_shapes_without_elements_or_dimensions(shape):
    same(ft.zeros(shape), through(ft.zeros(shape)))


VALUES = [
    {"a": 1, "b": [1.5, "x", b"y", None, True], "c": (1, (2,))},
    collections.OrderedDict(a=1),
    collections.Counter("aab"),
    {1, 2},
    frozenset({1}),
    complex(1, 2),
    bytearray(b"ab"),
    2**70,
    ft.float32,
    ft.bfloat16,
    ft.device("cpu"),
    ft.device("cuda", 1),
    ft.Size([1, 2]),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values(value):
    loaded = through(value)
    assert loaded == value and type(loaded) is type(value)


def test_dtype_is_the_same_object():
    assert through(ft.int16) is ft.int16


def test_views_of_one_storage_reload_as_views_of_one():
    base = ft.arange(12.0).reshape(3, 4)
    loaded = through({"base": base, "row": base[1], "turned": base.t(), "again": base, "flat": base.detach()})
    assert loaded["again"] is loaded["base"]
    loaded["row"].zero_()
    assert loaded["base"][1].tolist() == [0, 0, 0, 0] and loaded["turned"][:, 1].tolist() == [0, 0, 0, 0]
    assert loaded["flat"][1, 2].item() == 0
    loaded["turned"][0, 2] = 7
    assert loaded["base"][2, 0].item() == 7
    assert base[1, 1].item() == 5


def test_a_view_alone_brings_its_storage():
    view = through(ft.arange(10)[2:8:2])
    assert view.tolist() == [2, 4, 6] and view.storage_offset() == 2 and view.stride() == (2,)


def test_parameters_and_state_dicts():
    net = ft.nn.Sequential(ft.nn.Linear(3, 2), ft.nn.BatchNorm1d(2))
    state = net.state_dict()
    loaded = through(state)
    assert type(loaded) is collections.OrderedDict and list(loaded) == list(state)
    assert loaded._metadata == state._metadata
    for name in state:
        same(state[name], loaded[name])
    parameter = through(net[0].weight)
    assert type(parameter) is ft.nn.Parameter and parameter.requires_grad and parameter.is_leaf
    same(net[0].weight, parameter)


def test_frozen_parameter_stays_frozen():
    assert through(ft.nn.Parameter(ft.ones(1), requires_grad=False)).requires_grad is False


def test_model_and_optimizer_resume_a_training():
    def setup():
        ft.manual_seed(0)
        net = ft.nn.Linear(3, 2)
        return net, ft.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def steps(net, optimizer, count):
        for _ in range(count):
            optimizer.zero_grad()
            net(ft.ones(4, 3)).pow(2).sum().backward()
            optimizer.step()

    net, optimizer = setup()
    steps(net, optimizer, 2)
    saved = io.BytesIO()
    ft.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, saved)
    steps(net, optimizer, 2)
    saved.seek(0)

    other, other_optimizer = setup()
    state = ft.load(saved)
    other.load_state_dict(state["net"])
    other_optimizer.load_state_dict(state["optimizer"])
    steps(other, other_optimizer, 2)
    assert other.weight.tolist() == net.weight.tolist()


def test_attributes_of_tensors_are_kept():
    tensor = ft.ones(2)
    tensor.note = "mine"
    assert through(tensor).note == "mine"


def test_whole_module_needs_trust():
    net = ft.nn.Linear(2, 2)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        through(net)
    again = through(net, weights_only=False)
    x = ft.ones(1, 2)
    assert again(x).tolist() == net(x).tolist()


def test_code_in_a_file_is_not_run(capfd):
    with pytest.raises(pickle.UnpicklingError, match=r"unsupported GLOBAL (posix|nt)\.system"):
        through([Evil()])
    assert "must not run" not in capfd.readouterr().out


@pytest.mark.parametrize("name", [b"torch\nSize", b"functorch_port.serialization\n_size", b"torch\nfloat32"])
def test_a_file_cannot_change_what_it_may_call(name):
    """Attributes of an allowed function or class cannot be set."""
    attack = b"\x80\x02c" + name + b"\n}(X\x01\x00\x00\x00xK\x01ub."
    with pytest.raises(pickle.UnpicklingError, match="Can only build"):
        ft.load(packed(attack))
    assert not hasattr(ft.Size, "x")


def packed(skeleton, **entries):
    """A file with this pickle."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", skeleton)
        for name, data in entries.items():
            archive.writestr(f"archive/data/{name}", data)
    file.seek(0)
    return file


def test_private_attributes_of_tensors_do_not_come_from_files():
    tensor = torch.ones(1)
    tensor._hooks, tensor.note = 1, 2
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    tensor = ft.load(file)
    assert tensor._hooks is None and tensor.note == 2


def test_safe_globals():
    value = Plain()
    value.x = 3
    with pytest.raises(pickle.UnpicklingError, match="Plain"):
        through(value)
    with serialization.safe_globals([Plain]):
        assert serialization.get_safe_globals() == [Plain]
        assert through(value).x == 3
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals([(Plain, f"{Plain.__module__}.Plain")])
    try:
        assert through(value).x == 3
    finally:
        serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        through(value)


# Places.


@pytest.mark.parametrize(
    "where",
    [
        None,
        "cpu",
        ft.device("cpu"),
        {"cpu": "cpu"},
        {},
        lambda cell, location: cell,
        lambda cell, location: None,
    ],
)
def test_map_location(where):
    assert through(ft.ones(2), map_location=where).tolist() == [1, 1]


def test_map_location_function_gets_the_saved_location():
    seen = []
    through([ft.ones(2)], map_location=lambda cell, location: seen.append((ft.is_storage(cell), location)))
    assert seen == [(True, "cpu")]


def test_map_location_meta_and_meta_tensors():
    assert through(ft.ones(2, 3), map_location="meta").is_meta
    meta = through(ft.ones(2, 3, device="meta"))
    assert meta.is_meta and meta.shape == (2, 3)


@pytest.mark.parametrize("where", ["cuda", {"cpu": "cuda:0"}])
def test_missing_device_as_torch(where):
    def text(t):
        file = io.BytesIO()
        t.save(t.ones(2), file)
        file.seek(0)
        with pytest.raises(RuntimeError) as error:
            t.load(file, map_location=where)
        return str(error.value)

    assert text(ft) == text(torch)


# Files.


def test_paths(tmp_path):
    path = tmp_path / "x.pt"
    for form in (path, str(path)):
        ft.save([ft.ones(1)], form)
        assert ft.load(form)[0].tolist() == [1]
    with open(path, "wb") as file:
        ft.save(3, file)
    with open(path, "rb") as file:
        assert ft.load(file) == 3
    assert os.listdir(tmp_path) == ["x.pt"]


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.pt"
    ft.save("old", path)
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        ft.save([ft.ones(3), lambda: 0], path)
    assert ft.load(path) == "old" and os.listdir(tmp_path) == ["x.pt"]


def test_permissions_and_links_survive(tmp_path):
    path, link = tmp_path / "x.pt", tmp_path / "link.pt"
    ft.save(1, path)
    plain = tmp_path / "plain"
    plain.write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o640)
    link.symlink_to(path)
    ft.save(2, link)
    assert link.is_symlink() and ft.load(path) == 2 and stat.S_IMODE(path.stat().st_mode) == 0o640
    with atomic(link) as file:  # whatever is written
        file.write(b"3")
    assert link.is_symlink() and path.read_bytes() == b"3"


def test_downloads_are_whole_files(tmp_path):
    source, path = tmp_path / "source", tmp_path / "x"
    source.write_bytes(b"new")
    for hub in (torch.hub, ft.hub):
        path.write_bytes(b"old")
        with pytest.raises(RuntimeError, match="invalid hash value"):
            hub.download_url_to_file(source.as_uri(), str(path), "00", progress=False)
        with pytest.raises(FileNotFoundError):
            hub.download_url_to_file(source.as_uri(), str(tmp_path / "none" / "x"), progress=False)
        assert path.read_bytes() == b"old"
        hub.download_url_to_file(source.as_uri(), str(path), progress=False)
        assert path.read_bytes() == b"new" and sorted(os.listdir(tmp_path)) == ["source", "x"]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Python closes a file that has no name yet
@pytest.mark.parametrize("opcodes", [False, True])
def test_an_interrupt_leaves_nothing_behind(opcodes, tmp_path):
    """Wherever it comes; `link` names a file as `atomic` does."""
    path, source = tmp_path / "x", tmp_path / "source"
    source.write_bytes(b"new")

    def write():
        with atomic(path) as file:
            file.write(b"new")

    for do in (write, lambda: link(source, path)):
        number, was_interrupted = 0, True
        while was_interrupted:
            path.unlink(missing_ok=True)
            path.write_bytes(b"old")
            number += 1
            was_interrupted = False
            try:
                with raising(KeyboardInterrupt, number, opcodes, inside=link.__code__.co_filename):
                    do()
            except KeyboardInterrupt:
                was_interrupted = True
            assert path.read_bytes() in (b"old", b"new")
            assert sorted(os.listdir(tmp_path)) == ["source", "x"], number
        assert number > 15 and path.read_bytes() == b"new"


def outcome(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)


BAD_USE = {
    "save to a number": lambda t: t.save(1, 5),
    "save into no folder": lambda t: t.save(1, "/no/such/folder/x.pt"),
    "load nothing": lambda t: t.load("/no/such/file.pt"),
    "load a number": lambda t: t.load(5),
    "module given": lambda t: t.load("x", pickle_module=pickle, weights_only=True),
}


@pytest.mark.parametrize("name", BAD_USE)
def test_bad_use_as_torch(name):
    assert outcome(lambda: BAD_USE[name](ft)) == outcome(lambda: BAD_USE[name](torch))


def saved_bytes(module, obj):
    file = io.BytesIO()
    module.save(obj, file)
    return file.getvalue()


def foreign_zip():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "x")
    return file.getvalue()


def damaged():
    data = bytearray(saved_bytes(ft, ft.arange(1000)))
    data[data.index(bytes(range(8, 9)) + bytes(7))] ^= 0xFF
    return bytes(data)


BAD_FILES = {
    "empty": (lambda: b"", EOFError, "empty"),
    "text": (lambda: b"hello, world", pickle.UnpicklingError, "Weights only load failed"),
    "pickle": (lambda: pickle.dumps({}), RuntimeError, "Invalid magic number"),
    "old pickle": (lambda: pickle.dumps([1], 0), pickle.UnpicklingError, "Weights only load failed"),
    "cut off": (lambda: saved_bytes(ft, ft.ones(1000))[:900], RuntimeError, "cut off or damaged"),
    "damaged": (damaged, RuntimeError, "damaged"),
    "other zip": (foreign_zip, RuntimeError, "file in archive is not in a subdirectory: a.txt"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(name, tmp_path):
    make, error, text = BAD_FILES[name]
    path = tmp_path / "bad.pt"
    path.write_bytes(make())
    with pytest.raises(error, match=text) as info:
        ft.load(path)
    assert "bad.pt" in str(info.value)
    with pytest.raises(error, match=text):
        ft.load(io.BytesIO(make()))


def test_a_tensor_with_history_comes_back_as_a_leaf():
    def case(t):
        file = io.BytesIO()
        t.save(t.ones(1, requires_grad=True) * 2, file)
        file.seek(0)
        loaded = t.load(file)
        return loaded.tolist(), loaded.requires_grad, loaded.is_leaf

    assert case(ft) == case(torch)
