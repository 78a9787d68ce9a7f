"""safetensors files beside those that the library writes and reads with PyTorch."""

import doctest
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors as library
import safetensors.torch as theirs
import torch

import functorch_port as port
from functorch_port import safetensors as ours

ROOT = Path(__file__).parents[2]
DTYPES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "int64", "int32", "int16",
    "int8", "uint64", "uint32", "uint16", "uint8", "bool",
)  # fmt: skip


def state(lib):
    numbers = lib.arange(-3, 3).reshape(2, 3)
    made = {
        name: numbers.abs().to(lib.float32).to(getattr(lib, name))
        if "uint" in name
        else numbers.to(lib.float32).to(getattr(lib, name))
        for name in DTYPES
    }
    large = (lib.arange(12_000) % 251).to(lib.float32).reshape(3, 4000)
    return made | {"empty": lib.empty(0, 3), "number": lib.tensor(2.5), "large": large}


def bits(tensor):
    """What a tensor is, for either library."""
    kinds = {2: "int16", 4: "int32", 8: "int64"}
    dtype, shape = str(tensor.dtype), tuple(tensor.shape)
    if tensor.dtype.is_complex or dtype == "torch.bool":
        return dtype, shape, tensor.tolist()
    view = tensor.view(
        getattr(torch if isinstance(tensor, torch.Tensor) else port, kinds.get(tensor.itemsize, "uint8"))
    )
    return dtype, shape, view.tolist()


def all_bits(tensors):
    return {name: bits(tensor) for name, tensor in tensors.items()}


def tied(lib, start=0):
    """A module with two names for one weight."""
    layers = {"a": lib.nn.Linear(2, 2), "b": lib.nn.Linear(2, 2), "norm": lib.nn.BatchNorm1d(2)}
    model = lib.nn.ModuleDict(layers)
    model["b"].weight = model["a"].weight
    with lib.no_grad():
        for i, p in enumerate(model.parameters(), start):
            p.copy_(lib.arange(p.numel()).reshape(p.shape) + i)
    return model


def test_files_are_the_librarys(tmp_path):
    mine, real = tmp_path / "mine.safetensors", tmp_path / "real.safetensors"
    about = {"format": "é"}  # one: the library writes several in a random order
    ours.save_file(state(port), mine, about)
    theirs.save_file(state(torch), real, about)
    assert mine.read_bytes() == real.read_bytes()
    assert ours.save(state(port), about) == theirs.save(state(torch), about) == mine.read_bytes()
    assert all_bits(ours.load_file(real)) == all_bits(theirs.load_file(mine))
    assert all_bits(ours.load(mine.read_bytes())) == all_bits(theirs.load(mine.read_bytes()))


def test_models_with_tied_weights(tmp_path):
    mine, real = tmp_path / "mine.safetensors", tmp_path / "real.safetensors"
    ours.save_model(tied(port), mine)
    theirs.save_model(tied(torch), real)
    assert mine.read_bytes() == real.read_bytes()
    with ours.safe_open(mine, "pt") as file:
        assert file.metadata() == {"b.weight": "a.weight"}
    model = tied(port, start=50)
    missing, unexpected = ours.load_model(model, real)
    assert (set(missing), list(unexpected)) == (set(), [])
    assert all_bits(model.state_dict()) == all_bits(tied(torch).state_dict())
    assert model["b"].weight is model["a"].weight


REFUSED = {
    "no dict": lambda lib: ([1], ValueError),
    "no tensor": lambda lib: ({"w": 1}, ValueError),
    "not contiguous": lambda lib: ({"w": lib.ones(2, 3).t()}, ValueError),
    "sparse": lambda lib: ({"w": lib.ones(2).to_sparse()}, ValueError),
    "one memory": lambda lib: ((lambda x: {"w": x, "v": x})(lib.ones(2)), RuntimeError),
    "meta": lambda lib: ({"w": lib.ones(2, device="meta")}, NotImplementedError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_not_be_saved(tmp_path, name):
    said = []
    for lib, functions in ((torch, theirs), (port, ours)):
        tensors, kind = REFUSED[name](lib)
        with pytest.raises(kind) as error:
            functions.save_file(tensors, tmp_path / "x.safetensors")
        text = str(error.value).replace("functorch_port", "torch").replace("{'w', 'v'}", "{'v', 'w'}")
        said.append(text)
    assert said[0][:60] == said[1][:60]
    assert not list(tmp_path.iterdir())


def test_stacked_layers_are_saved_one_by_one(tmp_path):
    def made():
        return port.nn.Sequential(
            port.nn.Linear(3, 4), port.nn.ScanStack([port.nn.Linear(4, 4) for _ in range(3)])
        )

    model, file = made(), tmp_path / "model.safetensors"
    ours.save_model(model, file)
    plain = port.nn.Sequential(
        port.nn.Linear(3, 4), port.nn.Sequential(*(port.nn.Linear(4, 4) for _ in range(3)))
    )
    for load in (ours.load_model, ours.load_checkpoint):
        for other in (made(), plain):
            load(other, file)
            for name, tensor in model.state_dict().items():
                assert port.equal(other.state_dict()[name], tensor)


def test_parts_that_are_not_all_of_a_memory_are_refused(tmp_path):
    model, whole = port.nn.Module(), port.zeros(6)
    model.register_buffer("a", whole[:2])
    model.register_buffer("b", whole[3:])
    with pytest.raises(RuntimeError, match="None is covering the entire storage"):
        ours.save_model(model, tmp_path / "model.safetensors")


def test_complex128_is_refused_by_name(tmp_path):
    with pytest.raises(
        KeyError, match="entry 'w' has dtype torch.complex128, which safetensors does not have"
    ):
        ours.save_file({"w": port.zeros(2, dtype=port.complex128)}, tmp_path / "x.safetensors")


INDICES = (
    "0", "-1", "1:3", "::2", "0:9", "-2:", "3:1", ":, 1", "..., 1", "...", "None", "[0, 1]", "True", ":, [0, 2]", "()",
    "np.int64(1)", "1:2, ...", "..., ...", "4", "-5", "1, 2, 3", "1.0", "::-1",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("index", INDICES)
def test_slices(tmp_path, index):
    path = tmp_path / "x.safetensors"
    theirs.save_file({"x": torch.arange(24).reshape(4, 6)}, path)
    got = []
    for opened in (library.safe_open(path, "pt"), ours.safe_open(path, "pt")):
        with opened as file:
            part = file.get_slice("x")
            assert (part.get_shape(), part.get_dtype()) == ([4, 6], "I64")
            try:
                got.append(bits(eval(f"part[{index}]")))
            except Exception as error:
                got.append((type(error), str(error)))
    assert got[0] == got[1]


def test_slices_of_every_dtype(tmp_path):
    path = tmp_path / "x.safetensors"
    theirs.save_file(state(torch), path)
    with library.safe_open(path, "pt") as real, ours.safe_open(path, "pt") as mine:
        assert (mine.keys(), mine.offset_keys()) == (real.keys(), real.offset_keys())
        for name in DTYPES:
            assert bits(mine.get_slice(name)[1:, ::2]) == bits(real.get_slice(name)[1:, ::2])
        assert bits(mine.get_slice("number")[...]) == bits(real.get_slice("number")[...])
        assert tuple(mine.get_slice("empty")[:, 1:].shape) == (0, 2)


def test_a_file_that_nobody_closes(tmp_path):
    path = tmp_path / "x.safetensors"
    ours.save_file({"x": port.ones(2)}, path)
    part = ours.safe_open(path, "pt").get_slice("x")
    assert part[:1].tolist() == [1]
    del part  # no warning, which would be an error here
    with ours.safe_open(path, "pt") as file:
        part = file.get_slice("x")
    with pytest.raises(ours.SafetensorError, match="File is closed"):
        part[:1]


def test_a_file_that_is_replaced_while_it_is_opened(tmp_path, monkeypatch):
    path = tmp_path / "x.safetensors"
    ours.save_file({"x": port.ones(2)}, path)

    def slow(*args, **options):
        ours.save_file({"a": port.zeros(2), "x": port.zeros(9)}, path)
        return library.safe_open(*args, **options)

    monkeypatch.setattr(ours, "_their_open", slow)
    with pytest.raises(ours.SafetensorError, match="was replaced while it was being opened: open it again"):
        ours.load_file(path)


def test_a_file_that_is_not_there():
    with pytest.raises(FileNotFoundError, match="nothing.safetensors"):
        ours.safe_open("nothing.safetensors", "pt")


def test_errors_of_an_open_file(tmp_path):
    path = tmp_path / "x.safetensors"
    ours.save_file({"layer.weight": port.ones(2)}, path)
    for wrong in (
        {"framework": "xx"},
        {"framework": "pt", "device": "blah"},
        {"framework": "pt", "backend": "zz"},
    ):
        said = []
        for opening in (library.safe_open, ours.safe_open):
            with pytest.raises(library.SafetensorError) as error:
                opening(path, **wrong)
            said.append(str(error.value).split(" (")[0])
        assert said[0] == said[1]
    with ours.safe_open(path, "pt") as file, pytest.raises(ours.SafetensorError) as error:
        file.get_tensor("layers.weight")
    assert str(error.value) == f"File does not contain tensor layers.weight ({path}; close: layer.weight)"
    with pytest.raises(ours.SafetensorError, match="File is closed"):
        file.keys()
    with ours.safe_open(path, "np") as file:
        assert type(file.get_tensor("layer.weight")) is np.ndarray


def test_a_file_in_place_of_another_leaves_tensors_alone(tmp_path):
    path = tmp_path / "x.safetensors"
    ours.save_file({"x": port.ones(30_000), "y": port.ones(3)}, path)
    before = ours.load_file(path)
    data = bytearray(path.read_bytes())
    data[-200:] = bytes(200)
    path.write_bytes(data)  # the same file, with other bytes in it
    assert before["x"].min() == 1 == before["y"].min()


@pytest.mark.parametrize("keep", [0, 4, 30, -5])
def test_damaged_files(tmp_path, keep):
    path = tmp_path / "x.safetensors"
    data = ours.save({"x": port.ones(20)})[: keep or None] if keep else b""
    path.write_bytes(data)
    said = []
    for functions in (theirs, ours):
        with pytest.raises(library.SafetensorError) as error:
            functions.load_file(path)
        said.append(str(error.value))
        with pytest.raises(library.SafetensorError):
            functions.load(data)
    assert said[1] == f"{said[0]} ({path} is cut off or damaged)"


def test_a_dtype_that_is_not_here(tmp_path):
    path = tmp_path / "x.safetensors"
    theirs.save_file({"w": torch.ones(2).to(torch.float8_e4m3fnuz), "v": torch.ones(2)}, path)
    with pytest.raises(NotImplementedError, match="entry 'w' of .*x.safetensors has dtype F8_E4M3FNUZ"):
        ours.load_file(path)
    with pytest.raises(NotImplementedError, match="entry 'w' has dtype F8_E4M3FNUZ"):
        ours.load(path.read_bytes())
    with ours.safe_open(path, "pt") as file:  # the others can be had
        assert file.get_slice("w").get_dtype() == "F8_E4M3FNUZ" and file.get_tensor("v").tolist() == [1, 1]


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.safetensors"
    ours.save_file({"x": port.ones(2)}, path)
    path.chmod(0o640)
    before = path.read_bytes()

    def full(source, target):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(
            ours.SafetensorError, match="No space left on device .*the previous file is unchanged"
        ):
            ours.save_file({"x": port.zeros(2)}, path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    ours.save_file({"x": port.zeros(2)}, path)
    assert path.stat().st_mode & 0o777 == 0o640 and ours.load_file(path)["x"].tolist() == [0, 0]
    with pytest.raises(ours.SafetensorError, match="Parent directory .*nowhere does not exist"):
        ours.save_file({"x": port.zeros(2)}, tmp_path / "nowhere" / "x.safetensors")


# ------------------------------------------------------------ devices and shardings


def test_places(tmp_path):
    path = tmp_path / "x.safetensors"
    ours.save_file({"x": port.arange(8.0).double() + 1e-12, "n": port.tensor([2**40])}, path)
    one = jax.sharding.SingleDeviceSharding(jax.local_devices(backend="cpu")[0])
    for where in (
        "cpu",
        port.device("cpu"),
        jax.local_devices(backend="cpu")[0],
        one,
        lambda name: one,
        lambda name: None,
    ):
        found = ours.load_file(path, device=where)
        assert found["x"].tolist() == (np.arange(8.0) + 1e-12).tolist()
        assert found["n"].tolist() == [2**40]
    assert ours.load_file(path, device="meta")["x"].is_meta


SHARDED = """
import sys
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
import functorch_port as torch
from functorch_port import safetensors
from functorch_port.serialization import _tensors as tensors
mesh = jax.make_mesh((4,), ("x",))
sizes, owned = [], tensors.owned
tensors.owned = lambda array: sizes.append(array.shape) or owned(array)
where = {"w": NamedSharding(mesh, P("x")), "v": NamedSharding(mesh, P(None, "x"))}
found = safetensors.load_file(sys.argv[1], device=where.get)
assert sorted(sizes) == sorted([(2,), *[(1, 8)] * 4, *[(4, 2)] * 4]), sizes
with jax.enable_x64(True):
    for name in where:
        array = found[name].jax()
        assert array.sharding == where[name] and array.dtype == np.float64
        np.testing.assert_array_equal(np.asarray(array), np.arange(32.0).reshape(4, 8) + 1e-12)
model = torch.nn.Module()
model.w, model.v, model.n = (torch.nn.Parameter(torch.zeros(s, dtype=torch.float64)) for s in ((4, 8), (4, 8), (2,)))
safetensors.load_checkpoint(model, sys.argv[1], device=where.get)
assert model.w.jax().sharding == where["w"] and isinstance(model.w, torch.nn.Parameter) and model.w.requires_grad
"""


def test_each_device_reads_its_part(tmp_path):
    path = tmp_path / "x.safetensors"
    whole = torch.arange(32.0, dtype=torch.float64).reshape(4, 8) + 1e-12
    theirs.save_file({"w": whole, "v": whole.clone(), "n": torch.ones(2, dtype=torch.float64)}, path)
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED, str(path)], env=settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------- checkpoints


def checkpoint(folder, prefix="model.", shards=2):
    """A folder as Hugging Face's libraries write them, by the real library; gives the state."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    entries = {prefix + name: tensor for name, tensor in model.state_dict().items()}
    names = list(entries)
    table = {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        theirs.save_file({name: entries[name] for name in names[i::shards]}, folder / file, {"format": "pt"})
        table |= dict.fromkeys(names[i::shards], file)
    (folder / "config.json").write_text(json.dumps({"model_type": "mlp"}))
    index = {"metadata": {"total_size": 1}, "weight_map": table}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return model.state_dict()


def mlp():
    return port.nn.Sequential(port.nn.Linear(2, 3), port.nn.Linear(3, 1))


@pytest.mark.parametrize("mapping", [{r"^model\.": ""}, lambda name: name.removeprefix("model.")])
@pytest.mark.parametrize("file", ["", "model.safetensors.index.json"])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_folder_into_a_module(tmp_path, mapping, file, device):
    want = checkpoint(tmp_path)
    model = mlp()
    keys = ours.load_checkpoint(model, tmp_path / file, key_mapping=mapping, device=device)
    assert str(keys) == "<All keys matched successfully>"
    assert all_bits(model.state_dict()) == all_bits(want)
    assert set(ours.load_folder(tmp_path)) == {f"model.{name}" for name in want}


def test_a_module_on_the_meta_device(tmp_path):
    want = checkpoint(tmp_path, prefix="")
    with port.device("meta"):
        model = mlp()
    ours.load_checkpoint(model, tmp_path, device="cpu")
    assert all_bits(model.state_dict()) == all_bits(want)


def test_tied_weights_need_be_there_but_once(tmp_path):
    theirs.save_model(tied(torch), tmp_path / "model.safetensors")
    model = tied(port, start=9)
    ours.load_checkpoint(model, tmp_path)
    assert all_bits(model.state_dict()) == all_bits(tied(torch).state_dict())


def unchanged(model, call, kind, *texts):
    before = all_bits(model.state_dict())
    with pytest.raises(kind) as error:
        call()
    assert all_bits(model.state_dict()) == before
    for text in texts:
        assert text in str(error.value)


def test_what_does_not_fit_leaves_the_module_alone(tmp_path):
    checkpoint(tmp_path)
    strip = {r"^model\.": ""}
    model = mlp()
    unchanged(
        model, lambda: ours.load_checkpoint(model, tmp_path), RuntimeError,
        "Error(s) in loading state_dict for Sequential:", 'Missing key(s) in state_dict: "0.weight"',
        'Unexpected key(s) in state_dict: "model.0.weight"', f"(In {tmp_path}; the module is unchanged.", "key_mapping",
    )  # fmt: skip
    other = port.nn.Sequential(port.nn.Linear(2, 3), port.nn.Linear(3, 5))
    unchanged(
        other, lambda: ours.load_checkpoint(other, tmp_path, key_mapping=strip), RuntimeError,
        "size mismatch for 1.weight: copying a param with shape torch.Size([1, 3]) from checkpoint, the shape in "
        "current model is torch.Size([5, 3]).",
        f"'1.weight' is 'model.1.weight' of {tmp_path / 'model-00001-of-00002'}",
    )  # fmt: skip
    unchanged(model, lambda: ours.load_checkpoint(model, tmp_path, key_mapping={"^.+$": "x"}), ValueError,
              "'model.1.weight' of", "both map to 'x'")  # fmt: skip
    file = tmp_path / "model-00001-of-00002.safetensors"
    unchanged(
        model,
        lambda: ours.load_model(model, file),
        RuntimeError,
        "Missing key(s)",
        f"(In {file}; the module is",
    )
    loose = ours.load_checkpoint(
        model, tmp_path, key_mapping=lambda n: "new" if "1.bias" in n else None, strict=False
    )
    assert loose.unexpected_keys == ["new"] and len(loose.missing_keys) == 4


@pytest.mark.parametrize(
    "change, kind, text",
    [
        (
            lambda f: f["model-00002-of-00002.safetensors"].unlink(),
            FileNotFoundError,
            "names files that do not exist: ",
        ),
        (
            lambda f: f["model.safetensors.index.json"].write_text("{"),
            ValueError,
            "is not the index of a checkpoint",
        ),
        (lambda f: f["model.safetensors.index.json"].write_text("{}"), ValueError, "'weight_map'"),
        (
            lambda f: f["model.safetensors.index.json"].write_text(
                '{"weight_map": {"a": "../a.safetensors"}}'
            ),
            ValueError,
            "which is not a file name in the same folder",
        ),
        (
            lambda f: f["model.safetensors.index.json"].write_text(
                '{"weight_map": {"model.0.weightt": "model-00001-of-00002.safetensors"}}'
            ),
            library.SafetensorError,
            "File does not contain tensor model.0.weightt",
        ),
        (
            lambda f: f["model.safetensors.index.json"].unlink(),
            FileNotFoundError,
            "has 2 of them: name the file",
        ),
    ],
)
def test_folders_that_are_damaged(tmp_path, change, kind, text):
    checkpoint(tmp_path)
    change({path.name: path for path in tmp_path.iterdir()})
    model = mlp()
    unchanged(model, lambda: ours.load_checkpoint(model, tmp_path), kind, text, str(tmp_path))


# --------------------------------------------------------------------- the launcher

SCRIPT = """
import sys
import {first}
import {second}
from safetensors import safe_open
from safetensors.torch import _find_shared_tensors, load_file, save_file, storage_ptr
import functorch_port.safetensors
assert sys.modules["safetensors.torch"] is functorch_port.safetensors
x = torch.ones(200, 300)
save_file({{"x": x, "y": torch.ones(3).bfloat16()}}, sys.argv[1])
assert torch.equal(load_file(sys.argv[1])["x"], x)
with safe_open(sys.argv[1], framework="pt") as file:
    assert type(file.get_tensor("y")) is torch.Tensor and file.get_slice("x")[1:3, :2].shape == (2, 2)
assert _find_shared_tensors({{"a": x, "b": x}}) == [{{"a", "b"}}] and storage_ptr(x)
"""


@pytest.mark.parametrize("first, second", [("torch", "safetensors"), ("safetensors.torch", "torch")])
def test_under_the_launcher(tmp_path, first, second):
    path, script = tmp_path / "x.safetensors", tmp_path / "script.py"
    script.write_text(SCRIPT.format(first=first, second=second))
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "functorch_port", "run", str(script), str(path)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert theirs.load_file(path)["y"].tolist() == [1, 1, 1]


def test_examples():
    assert doctest.testmod(ours).attempted > 20 and doctest.testmod(ours).failed == 0


def test_without_the_library(tmp_path):
    code = (
        "import sys; sys.modules['safetensors'] = None\n"
        "import functorch_port\n"
        "try: functorch_port.safetensors\n"
        "except ImportError as error: print(error)"
    )
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True)
    assert done.stdout == (
        "functorch_port.safetensors needs safetensors, which is not installed: pip install "
        "'functorch-port[safetensors]', or pip install safetensors\n"
    ), done.stderr
