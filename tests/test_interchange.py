"""numpy's and orbax's files, and conversions between all formats, beside PyTorch, safetensors and orbax themselves."""

import doctest
import io
import json
import math
import os
import pty
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors.torch
import torch

import functorch_port as port
from functorch_port import cli, interchange
from functorch_port.interchange import _formats as formats
from functorch_port.interchange import _npz as npz
from functorch_port.interchange import _orbax as orbax
from functorch_port.interchange import _tree as tree

ROOT = Path(__file__).parent.parent
ENDS = ("pt", "npz", "safetensors", "orbax")


def everything(lib=port):
    """A checkpoint with all that may be in one."""
    lib.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4))
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)
    model(lib.ones(5, 3)).square().sum().backward()
    optimizer.step()
    with lib.no_grad():  # equal in both libraries to the last bit
        for i, tensor in enumerate(x for x in model.state_dict().values() if x.is_floating_point()):
            tensor.copy_((lib.arange(tensor.numel()) / 8 + i).reshape(tensor.shape))
        for tensors in optimizer.state.values():
            for tensor in tensors.values():
                tensor.fill_(0.25)
    shared = lib.arange(9.0).reshape(3, 3)
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "empty": lib.empty(0, 3),
        "half": [lib.full((3,), 0.3, dtype=lib.bfloat16), lib.full((2, 2), 3.0).to(lib.float8_e5m2)],
        "other": (1, [lib.tensor(2**40), None], math.inf, lib.tensor([True, False]), 1 - 2j, "é"),
        "kinds": {5: {"$x": 1}, None: lib.float16, "device": lib.device("cpu"), "size": lib.Size([1, 2])},
        "double": lib.ones(2, dtype=lib.float64) / 3,
        "views": {
            "a": shared,
            "b": shared,
            "row": shared[1],
            "turned": shared.t(),
            "complex": lib.ones(2) * 1j,
        },
    }


def same(a, b, path="it"):
    """Both are the same, down to dtypes, types and the order of keys."""
    if isinstance(a, port.Tensor | torch.Tensor):
        assert str(a.dtype) == str(b.dtype) and tuple(a.shape) == tuple(b.shape), path
        wide = "complex128" if a.dtype.is_complex else "float64"
        values = [
            x.detach().to(getattr(port if isinstance(x, port.Tensor) else torch, wide)).tolist()
            for x in (a, b)
        ]
        assert values[0] == values[1], path
    elif isinstance(a, dict):
        assert list(map(str, a)) == list(map(str, b)), path
        for x, y in zip(a, b):
            same(a[x], b[y], f"{path}.{x}")
    elif isinstance(a, list | tuple):
        assert type(a).__name__ == type(b).__name__ and len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{path}.{i}")
    else:
        assert (a, type(a)) == (b, type(b)) or str(a) == str(b), path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same checkpoint in every format."""
    folder = tmp_path_factory.mktemp("files")
    torch.save(everything(torch), folder / "x.pt")
    for end in ENDS[1:]:
        interchange.write(folder / f"x.{end}", everything())
    return folder


@pytest.mark.parametrize("end", ENDS)
def test_all_of_a_checkpoint_comes_back(files, end):
    path = files / f"x.{end}"
    assert interchange.format_of(path) == end
    same(everything(torch), interchange.read(path))
    same(everything(), interchange.read(path))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("start", ENDS)
def test_every_format_into_every_other(files, tmp_path, start, end):
    interchange.convert(files / f"x.{start}", tmp_path / f"y.{end}")
    same(everything(), interchange.read(tmp_path / f"y.{end}"))
    if end == "pt":
        same(everything(torch), torch.load(tmp_path / "y.pt", weights_only=True))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", ["tensor", "empty tensor", "list", "nothing", "number"])
def test_small_checkpoints(tmp_path, end, name):
    state = {
        "tensor": port.ones(2),
        "empty tensor": port.ones(0),
        "list": [port.ones(2), 3],
        "nothing": {},
        "number": 3,
    }
    interchange.write(tmp_path / f"x.{end}", state[name])
    same(state[name], interchange.read(tmp_path / f"x.{end}"))
    interchange.inspect(tmp_path / f"x.{end}")


def test_what_reads_nothing(files, monkeypatch):
    """The shapes and dtypes of a file, without its numbers."""
    want = {name: leaf for name, leaf in tree.named(everything()) if isinstance(leaf, port.Tensor)}
    monkeypatch.setattr("functorch_port.serialization._tensors.owned", None)
    for end in ENDS:
        rows = {row.name: row for row in interchange.inspect(files / f"x.{end}").rows}
        assert len(rows) == len([*tree.named(everything())])
        for name, leaf in want.items():
            row = rows[name]
            assert (row.shape, row.dtype, row.nbytes) == (
                tuple(leaf.shape),
                leaf.dtype.name,
                leaf.numel() * leaf.itemsize,
            )
        assert rows["other.4"].value == 1 - 2j
        assert rows["views.b"].same_as == (None if end in ("npz", "orbax") else "views.a")


# ------------------------------------------------------------------------- pytrees


def test_states_as_pytrees():
    state = everything()
    arrays = interchange.to_pytree(state)
    assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(arrays["model"]))
    assert arrays["model"]["0.weight"].dtype == jnp.float32 and arrays["double"].dtype == np.float64
    same(state, interchange.from_pytree(arrays))
    same(state, interchange.from_pytree(tree.changed(arrays, np.asarray)))
    model = port.nn.Linear(2, 1)
    pure, params, _ = port.func.pure(model)
    same(interchange.from_pytree(params), model.state_dict())
    opt = port.optim.Adam(model.parameters())
    model(port.ones(1, 2)).sum().backward()
    opt.step()
    other = port.optim.Adam(model.parameters())
    other.load_state_dict(interchange.from_pytree(interchange.to_pytree(opt)))
    same(other.state_dict(), opt.state_dict())
    with pytest.raises((NotImplementedError, RuntimeError)):
        interchange.to_pytree({"x": port.eye(2).to_sparse()})


# ------------------------------------------------------------------------------ npz


def test_numpy_reads_what_is_saved(tmp_path):
    path = tmp_path / "x.npz"
    half = port.full((2, 2), 0.3, dtype=port.bfloat16)
    interchange.save_npz(
        path, {"file": port.arange(6).reshape(2, 3), "half": half, "8": port.ones(2).to(port.float8_e4m3fn)}
    )
    with np.load(path) as found:
        assert found["file"].dtype == np.int64 and found["file"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert found["half"].dtype == "V2" and found["8"].dtype == "V1"  # no numbers by mistake
        assert found["half"].view(ml_dtypes.bfloat16).astype(float).tolist() == half.double().tolist()
    model = port.nn.Linear(2, 1)
    interchange.save_npz(path, model)
    with np.load(path) as found:
        assert sorted(found) == ["bias", "weight"]
        assert found["weight"].tolist() == model.weight.tolist()


def test_files_of_numpy(tmp_path):
    path = tmp_path / "x.npz"
    arrays = {
        "a": np.arange(3, dtype=">i4"),
        "b": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "c": np.float16(2),
    }
    for save in (np.savez, np.savez_compressed):
        save(path, **arrays)
        found = interchange.load_npz(path)
        assert {k: str(v.dtype) for k, v in found.items()} == {
            "a": "torch.int32", "b": "torch.float64", "c": "torch.float16",
        }  # fmt: skip
        assert all(found[k].tolist() == arrays[k].tolist() for k in arrays)


def raw(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def claims(shape):
    """A file whose one array says that it is larger than it is."""
    array, file = io.BytesIO(), io.BytesIO()
    np.save(array, np.ones(2))
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("w.npy", array.getvalue()[:10] + header.encode() + array.getvalue()[-16:])
    return file.getvalue()


@pytest.mark.parametrize(
    "data, text",
    [
        (
            lambda: raw(w=np.array([{}], object)),
            "entry 'w.npy' of .*x.npz has Python objects, and loading them would",
        ),
        (lambda: claims("(10**12, 10**6)"), "entry 'w.npy' of .*x.npz: "),
        (
            lambda: claims("(1000000000000,)"),
            "entry 'w.npy' of .*x.npz has 16 bytes, but shape .* need 8000000000000",
        ),
        (
            lambda: raw(w=np.array(["text"])),
            "entry 'w' of .*x.npz has dtype <U4, which tensors do not support",
        ),
        (lambda: raw(w=np.zeros(2, "V2")), r"entry 'w' of .* has dtype \|V2, which .*bfloat16"),
        (lambda: raw(w=np.ones(500))[:-300], "is not an .npz file, or it is cut off or damaged"),
        (lambda: b"", "is not an .npz file, or it is cut off or damaged"),
        (lambda: raw(__functorch_port__=np.array("{")), "entry '__functorch_port__' of .*x.npz is damaged"),
        (
            lambda: raw(__functorch_port__=np.array(json.dumps({"tree": '{"a": {"$tensor": "b"}}'}))),
            "x.npz: the JSON beside the arrays, which describes their tree, does not fit them",
        ),
    ],
)
def test_npz_files_that_are_damaged(tmp_path, data, text):
    (tmp_path / "x.npz").write_bytes(data())
    with pytest.raises(ValueError, match=text):
        interchange.load_npz(tmp_path / "x.npz")


def test_a_damaged_array_is_noticed(tmp_path):
    path = tmp_path / "x.npz"
    interchange.save_npz(path, {"w": port.ones(500)})
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"cut off or damaged \(Bad CRC-32"):
        interchange.load_npz(path)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.npz"
    interchange.save_npz(path, {"w": port.ones(2)})
    before = path.read_bytes()
    for bad, kind, text in (
        ({"w": port.ones(2), "v": object()}, TypeError, "entry 'v' is of <class 'object'>"),
        ({"w": port.eye(2).to_sparse()}, NotImplementedError, "entry 'w' is sparse"),
        ({"a.b": port.ones(2), "a": {"b": port.ones(2)}}, ValueError, "two entries have the name 'a.b'"),
        ({"w": {(1, 2): 3}}, TypeError, r"entry 'w' has the key \(1, 2\)"),
    ):
        with pytest.raises(kind, match=text):
            interchange.save_npz(path, bad)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    with pytest.raises(RuntimeError, match="nowhere does not exist"):
        interchange.save_npz(tmp_path / "nowhere" / "x.npz", {})


# ---------------------------------------------------------------------------- orbax


def restored(path):
    with ocp.StandardCheckpointer() as checkpointer:
        return checkpointer.restore(path)


def test_orbax_reads_what_is_saved(tmp_path):
    model = port.nn.Linear(2, 1)
    interchange.save_orbax(tmp_path / "model", model)
    found = restored(tmp_path / "model")
    assert {name: array.tolist() for name, array in found.items()} == {
        name: tensor.tolist() for name, tensor in model.state_dict().items()
    }
    state = {
        "params": {"layers": [port.ones(2), port.tensor([2**40])]},
        "step": 3,
        "scale": port.zeros(1).bfloat16(),
    }
    interchange.save_orbax(tmp_path / "state", state)
    found = restored(tmp_path / "state")
    assert found["params"]["layers"][1].tolist() == [2**40] and found["scale"].dtype == ml_dtypes.bfloat16
    assert jax.tree.structure(found) == jax.tree.structure({"params": {"layers": [0, 0]}, "scale": 0})
    plain = port.optim.SGD(model.parameters(), lr=0.5).state_dict()  # has no tensors
    interchange.save_orbax(tmp_path / "sgd", plain)
    same(plain, interchange.load_orbax(tmp_path / "sgd"))


def test_checkpoints_of_orbax(tmp_path):
    with jax.enable_x64(True):
        wide = jnp.arange(3) + 2**40
    params = {
        "Dense_0": {"kernel": jnp.ones((2, 3), jnp.bfloat16), "bias": np.zeros(3)},
        "list": [wide, None, 5],
    }
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "flax", {"params": params, "empty": {}})
    found = interchange.load_orbax(tmp_path / "flax")
    assert found["params"]["list"][0].tolist() == [
        2**40,
        2**40 + 1,
        2**40 + 2,
    ]  # orbax's default gives int32 here
    assert found["params"]["list"][1:] == [None, 5] and found["empty"] == {}
    assert found["params"]["Dense_0"]["kernel"].dtype is port.bfloat16
    flat = interchange.convert(tmp_path / "flax", tmp_path / "x.pt", keys=[(r"^params\.", "")], only="Dense")
    assert set(flat) == {"Dense_0.kernel", "Dense_0.bias"} == set(torch.load(tmp_path / "x.pt"))


def test_orbax_replaces_a_checkpoint_as_a_whole(tmp_path):
    path = tmp_path / "x"
    interchange.save_orbax(path, {"w": port.ones(2)})
    with pytest.raises(ValueError, match="already exists; force=True replaces it"):
        interchange.save_orbax(path, {"w": port.zeros(2)})
    interchange.save_orbax(path, {"v": port.zeros(2)}, force=True)
    assert list(interchange.load_orbax(path)) == ["v"] and list(tmp_path.iterdir()) == [path]


def test_folders_that_are_no_checkpoints(tmp_path):
    with pytest.raises(FileNotFoundError, match="is not a folder with a checkpoint"):
        interchange.load_orbax(tmp_path / "nothing")
    with pytest.raises(ValueError, match="is not a checkpoint of orbax's StandardCheckpointer"):
        interchange.load_orbax(tmp_path)


SHARDED = """
import sys
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
import functorch_port as torch
from functorch_port import interchange
where = NamedSharding(jax.make_mesh((4,), ("x",)), P("x"))
for name in ("x.npz", "x.orbax"):
    path = f"{sys.argv[1]}/{name}"
    interchange.write(path, {"w": torch.arange(8, dtype=torch.float64) + 1e-12, "n": torch.ones(2)})
    read = interchange.load_npz if name == "x.npz" else interchange.load_orbax
    found = read(path, device=lambda name: where if name == "w" else None)
    assert found["w"].jax().sharding.is_equivalent_to(where, 1) and found["w"].dtype == torch.float64
    np.testing.assert_array_equal(np.asarray(found["w"].jax()), np.arange(8) + 1e-12)
    if name == "x.orbax":
        interchange.save_orbax(path, found, force=True)
        np.testing.assert_array_equal(interchange.load_orbax(path)["w"].numpy(), np.arange(8) + 1e-12)
"""


def test_shardings(tmp_path):
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SHARDED, str(tmp_path)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------ converting


def test_names_and_dtypes(files, tmp_path):
    path = tmp_path / "m.safetensors"
    interchange.convert(files / "x.pt", path, only=r"^model\.", keys=[(r"^model\.", ""), (r"(\d)\.", r"layer\1.")],
                        dtype=port.bfloat16)  # fmt: skip
    found, want = safetensors.torch.load_file(path), everything(torch)["model"]
    assert {name: tensor.dtype for name, tensor in found.items()} == {
        f"layer{name}": torch.bfloat16 if tensor.is_floating_point() else tensor.dtype
        for name, tensor in want.items()
    }
    assert found["layer0.weight"].tolist() == want["0.weight"].bfloat16().tolist()


def test_tied_weights_stay_tied(tmp_path):
    model = torch.nn.ModuleDict(
        {"a": torch.nn.Linear(2, 2, bias=False), "b": torch.nn.Linear(2, 2, bias=False)}
    )
    model["b"].weight = model["a"].weight
    torch.save(model.state_dict(), tmp_path / "x.pt")
    interchange.convert(tmp_path / "x.pt", tmp_path / "x.safetensors", dtype=port.float16)
    assert safetensors.torch.load_model(model, tmp_path / "x.safetensors") == (set(), [])
    interchange.convert(tmp_path / "x.safetensors", tmp_path / "y.pt")
    found = torch.load(tmp_path / "y.pt")
    assert (
        found["a.weight"].data_ptr() == found["b.weight"].data_ptr()
        and found["a.weight"].dtype == torch.float16
    )


REFUSED = [
    ({"keys": [("abc", "")]}, "'abc' matches no name; names are, for example, model.0.weight, "),
    ({"only": "abc"}, "'abc' matches no tensor; names are, for example, model.0.weight, "),
    ({"keys": [(".*weight", "w")]}, "entries 'model.0.weight' and 'model.1.weight' would both be named 'w'"),
    ({"keys": [("(", "")]}, r"'\(' is not a regular expression: "),
    ({"keys": [("model", r"\3")]}, "cannot replace 'model'"),
    (
        {"dtype": port.float8_e5m2},
        "entry 'large' has values up to 1e\\+06, which are too large for torch.float8_e5m2",
    ),
    ({"dtype": port.int8}, "dtype must be a floating point dtype, got torch.int8"),
    ({"format": "gguf"}, "unknown format 'gguf': must be one of pt, safetensors, npz, orbax"),
]


@pytest.mark.parametrize("options, text", REFUSED)
def test_conversions_that_are_refused(tmp_path, options, text):
    source, target = tmp_path / "x.pt", tmp_path / "y.npz"
    torch.save({"model": everything(torch)["model"], "large": torch.tensor([1e6, math.inf])}, source)
    with pytest.raises(formats.WrongUse, match=text):
        interchange.convert(source, target, **options)
    assert list(tmp_path.iterdir()) == [source]


def test_nothing_is_overwritten(files, tmp_path):
    target = tmp_path / "x.npz"
    target.write_text("mine")
    with pytest.raises(FileExistsError, match="already exists"):
        interchange.convert(files / "x.pt", target)
    assert target.read_text() == "mine"
    interchange.convert(files / "x.pt", target, force=True)
    same(everything(), interchange.read(target))


def test_files_that_are_none(tmp_path):
    for name, data, text in (
        ("a.pt", b"hello", "has none of the formats that can be read: pt, safetensors, npz, orbax"),
        ("b.pt", b"PK\3\4....", "is cut off or damaged"),
        ("folder", None, "is a folder with neither an orbax checkpoint nor safetensors files"),
    ):
        path = tmp_path / name
        path.mkdir() if data is None else path.write_bytes(data)
        with pytest.raises(formats.WrongUse, match=text):
            interchange.inspect(path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        interchange.read(tmp_path / "nothing")
    with pytest.raises(formats.WrongUse, match=r"'.gguf' is not the extension of a known format; use .pt, "):
        interchange.write(tmp_path / "x.gguf", {})


# ------------------------------------------------------------------ the command line


def command(*words, capsys):
    status = cli.main([*map(str, words)])
    return (status, *capsys.readouterr())


def test_inspect_prints_what_is_inside(files, tmp_path, capsys):
    status, out, _ = command("inspect", files / "x.safetensors", capsys=capsys)
    lines = out.splitlines()
    assert status == 0 and lines[0].startswith(f"{files / 'x.safetensors'}: safetensors, ")
    cells = [line.split(maxsplit=3) for line in lines]
    assert ["model.0.weight", "float32", "4x3", "48 bytes"] in cells and ["epoch", "int", "3"] in cells
    assert ["views.b", "float32", "3x3", "= views.a"] in cells
    assert "metadata\n  format: pt\n  views.b: views.a\n" in out
    status, out, _ = command("inspect", files / "x.orbax", "--json", capsys=capsys)
    found = json.loads(out)
    assert {"name": "half.0", "shape": [3], "dtype": "bfloat16", "bytes": 6} in found["entries"]
    assert {"name": "epoch", "value": 3} in found["entries"] and found["format"] == "orbax"


def test_convert_on_the_command_line(files, tmp_path, capsys):
    target = tmp_path / "m.npz"
    words = (
        "convert",
        files / "x.pt",
        target,
        "--only",
        r"^model\.",
        "--keys",
        r"^model\.=",
        r"^0\.=fc.",
        "--dtype",
        "float16",
    )
    status, out, _ = command(*words, capsys=capsys)
    assert (status, out) == (0, f"{target} (npz): 7 tensors; 32 float16, 1 int64; 72 bytes\n")
    assert "fc.weight" in np.load(target)
    status, _, told = command(*words, capsys=capsys)
    assert (status, told) == (2, f"functorch-port convert: {target} already exists; --force replaces it\n")
    assert command(*words, "--force", "--to", "pt", capsys=capsys)[0] == 0
    assert torch.load(target)["fc.weight"].dtype == torch.float16


def test_the_command_line_says_what_to_do(files, tmp_path, capsys):
    torch.save(torch.nn.Linear(1, 1), tmp_path / "whole.pt")
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((files / "x.safetensors").read_bytes()[:-9])
    for words, text in (
        (
            ("inspect", tmp_path / "whole.pt"),
            "contains a torch.nn.modules.linear.Linear, and loading it would run code from the file",
        ),
        (("inspect", tmp_path / "no.pt"), "does not exist"),
        (("inspect", cut), f"({cut} is cut off or damaged)"),
        (
            ("convert", files / "x.pt", tmp_path / "y.npz", "--dtype", "int8"),
            "--dtype int8: must be one of float16, ",
        ),
        (
            ("convert", files / "x.pt", tmp_path / "y.npz", "--to", "onnx"),
            "--to onnx: must be one of pt, safetensors",
        ),
        (("convert", files / "x.pt", tmp_path / "y.onnx"), "'.onnx' is not the extension of a known format"),
    ):
        status, out, told = command(*words, capsys=capsys)
        assert (status, out) == (2, "") and text in told and told.startswith(f"functorch-port {words[0]}: ")
    with pytest.raises(SystemExit):
        command("convert", "a.pt", "b.pt", "--keys", "model", capsys=capsys)
    assert r"'model' is not PATTERN=NEW, such as '^model\.='" in capsys.readouterr().err


def test_help_teaches(capsys):
    for name in ("convert", "inspect"):
        with pytest.raises(SystemExit):
            cli.main([name, "--help"])
        out = capsys.readouterr().out
        assert "examples" in out and "formats" in out and f"functorch-port {name} " in out


def test_a_bar_on_a_terminal(files, tmp_path):
    words = ["convert", str(files / "x.npz"), str(tmp_path / "x.pt")]
    code = f"from functorch_port import cli; cli.main({words})"
    outer, inner = pty.openpty()
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=settings, stderr=inner, stdout=subprocess.PIPE, text=True
    )
    os.close(inner)
    shown = b""
    try:
        while part := os.read(outer, 1 << 16):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(outer)
    assert b"reading" in shown and b"30/30" in shown and "x.pt (pt): " in done.stdout


def test_the_page_of_documentation():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "files.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    exec("\n".join(blocks), {})


@pytest.mark.parametrize("module", [tree, npz, orbax, formats])
def test_examples(module):
    assert doctest.testmod(module).attempted > 2 and doctest.testmod(module).failed == 0
