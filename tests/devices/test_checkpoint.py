"""Distributed checkpoints: saved on eight devices, loaded on other meshes, on fewer devices, on one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as their_dcp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from nets import Net
from torch.distributed.checkpoint import state_dict as their_states

import functorch_port as ft
import functorch_port.distributed.checkpoint as dcp
from functorch_port import interchange
from functorch_port._base.tuning import tuning
from functorch_port.distributed.checkpoint import format_utils
from functorch_port.distributed.checkpoint import state_dict as states
from functorch_port.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from functorch_port.distributed.sharding import shard

nn, F = ft.nn, ft.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
ROOT = Path(__file__).parents[2]


SPECS = {r"weight$": P("x"), r"bias$": P("x")}


class Run:
    """A training run; `step` is compiled unless it is told otherwise."""

    def __init__(self, mesh: Mesh | None, specs: Any = None, seed: int = 0, compiled: bool = False) -> None:
        ft.manual_seed(seed)
        self.net = Net().double()
        self.mesh, self.axes = mesh, None
        if mesh is not None:
            shard(self.net, specs, mesh)
            self.axes = P(mesh.axis_names[0])
        self.opt = ft.optim.AdamW(self.net.parameters(), 0.01)
        self.schedule = ft.optim.lr_scheduler.MultiStepLR(self.opt, [2, 4], 0.5)
        self.step = ft.compile(self._step, rng="torch") if compiled else self._step

    def _step(self, x: Any, y: Any) -> Any:
        self.opt.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.opt.step()
        return loss

    def losses(self, start: int, end: int) -> list[float]:
        found = []
        for i in range(start, end):
            rng = np.random.default_rng(i)
            x, y = ft.tensor(rng.integers(0, 16, (16, 5))), ft.tensor(rng.integers(0, 8, 16))
            if self.mesh is not None:
                shard(x, self.axes, self.mesh)
                shard(y, self.axes, self.mesh)
            found.append(self.step(x, y).item())
            self.schedule.step()
        return found

    def state(self) -> dict[str, Any]:
        return {
            "net": self.net,
            "opt": self.opt,
            "schedule": self.schedule,
            "rng": ft.get_rng_state(),
            "run": {"step": 3, "name": "a", "best": None, "sizes": [1, 2], "range": (0.5, 1)},
        }


def bits(state: Any) -> dict[str, Any]:
    return {name: np.asarray(t.detach().cpu().numpy()) for name, t in state.items()}


def submesh(count: int) -> Mesh:
    return Mesh(np.array(jax.devices()[:count]), ("x",), axis_types=(jax.sharding.AxisType.Auto,))


@pytest.mark.parametrize(
    ("where", "compiled"), [("mesh", False), ("grid", True), ("four", True), ("one", False), ("one", True)]
)
def test_training_goes_on_on_any_devices(
    where: str, compiled: bool, mesh: Mesh, grid: Mesh, tmp_path: Path
) -> None:
    run = Run(mesh, SPECS, compiled=compiled)
    run.losses(0, 3)
    described = dcp.save(run.state(), checkpoint_id=tmp_path / "c")
    assert described.state_dict_metadata["net.lift.weight"].size == (32, 24)
    assert described.state_dict_metadata["net.lift.weight"].chunks[1].offsets == (4, 0)
    saved, moments = bits(run.net.state_dict()), [{**s} for s in run.opt.state.values()]
    numbers = [{k: v.numpy().copy() for k, v in s.items()} for s in moments]
    rng = ft.get_rng_state().numpy().copy()
    want = run.losses(3, 6)

    meshes: dict[str, tuple[Any, Any]] = {
        "mesh": (mesh, SPECS),
        "grid": (grid, {r"(lift|head)\.weight$": P("tp", "dp"), r"embed\.weight": P("dp")}),
        "four": (submesh(4), SPECS),
        "one": (None, None),
    }
    other = Run(*meshes[where], seed=5, compiled=compiled)
    places = {name: getattr(p, "placements", None) for name, p in other.net.named_parameters()}
    state = other.state()
    state["run"] = {"step": 0, "name": "", "best": 1, "sizes": [], "range": None}
    dcp.load(state, checkpoint_id=tmp_path / "c")
    assert state["run"] == {"step": 3, "name": "a", "best": None, "sizes": [1, 2], "range": (0.5, 1)}
    for name, array in bits(other.net.state_dict()).items():
        np.testing.assert_array_equal(array, saved[name], err_msg=name)
    for mine, theirs in zip(other.opt.state.values(), numbers, strict=True):
        for name, array in theirs.items():
            np.testing.assert_array_equal(mine[name].numpy(), array, err_msg=name)
    assert {name: getattr(p, "placements", None) for name, p in other.net.named_parameters()} == places
    assert other.schedule.state_dict() == {**run.schedule.state_dict(), **other.schedule.state_dict()}
    assert other.schedule.last_epoch == 3 and other.opt.param_groups[0]["lr"] == 0.005
    np.testing.assert_array_equal(state["rng"].numpy(), rng)
    ft.set_rng_state(state["rng"])
    np.testing.assert_allclose(other.losses(3, 6), want, rtol=1e-10)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_what_happens_after_async_save_is_not_in_it(compiled: bool, mesh: Mesh, tmp_path: Path) -> None:
    run = Run(mesh, SPECS, compiled=compiled)
    run.losses(0, 2)
    big = shard(ft.arange(1 << 20, dtype=ft.float64), P("x"), mesh)
    small = ft.zeros(4)
    before = bits(run.net.state_dict())
    for k in range(3):
        big.fill_(k)
        small.fill_(k)
        before = bits(run.net.state_dict())
        done = dcp.async_save(
            {"net": run.net, "opt": run.opt, "big": big, "small": small}, checkpoint_id=tmp_path / f"{k}"
        )
        run.losses(2, 5)
        big.add_(1)
        small.add_(1)
        assert list(done.result().state_dict_metadata)[-1] == "small"
        fresh, there, tiny = Net().double(), ft.zeros(1 << 20, dtype=ft.float64), ft.zeros(4)
        dcp.load({"net": fresh, "big": there, "small": tiny}, checkpoint_id=tmp_path / f"{k}")
        for name, array in bits(fresh.state_dict()).items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)
        assert (there == k).all() and (tiny == k).all()


def test_async_save_says_what_went_wrong(tmp_path: Path) -> None:
    with pytest.raises(dcp.CheckpointException, match="the key|is of <class 'set'>"):
        dcp.async_save({"a": {1, 2}}, checkpoint_id=tmp_path / "c")
    with pytest.raises(NotImplementedError, match="async_checkpointer_type"):
        dcp.async_save({}, checkpoint_id=tmp_path, async_checkpointer_type=AsyncCheckpointerType.PROCESS)
    assert os.listdir(tmp_path) == []


def test_every_dtype_and_kind_of_entry(mesh: Mesh, grid: Mesh, tmp_path: Path) -> None:
    dtypes = [
        "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int64", "int32", "int16", "int8", "uint8",
        "uint16", "uint32", "uint64", "bool", "complex64", "complex128",
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    tensors = {d: ft.tensor(rng.integers(0, 2, (8, 4))).to(getattr(ft, d)) for d in dtypes}
    spread = ["float64", "bfloat16", "int64", "uint8", "bool", "complex64"]
    placed = {d: shard(tensors[d].clone(), P("x"), mesh) for d in spread}
    state = {
        "one": tensors,
        "many": placed,
        "empty": ft.zeros(0, 3),
        "scalar": ft.tensor(2.5),
        "tuple": (1, ft.ones(2), "x"),
        "list": [{"a": 1}, ft.ones(3)],
        "jax": jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("x"))),
        "numpy": np.arange(3),
        "numbers": {1: 2.5, "inf": float("inf"), "z": 1 + 2j, "dtype": ft.float16, "none": None},
    }
    dcp.save(state, checkpoint_id=tmp_path / "c")
    got: dict[str, Any] = {
        "one": {d: ft.zeros(8, 4).to(getattr(ft, d)) for d in dtypes},
        "many": {d: shard(ft.zeros(8, 4).to(getattr(ft, d)), P("dp", "tp"), grid) for d in spread},
        "empty": ft.zeros(0, 3),
        "scalar": ft.tensor(0.0),
        "tuple": None,
        "list": [{"a": 0}, ft.zeros(3)],
        "jax": jax.device_put(np.zeros(8, np.float32), NamedSharding(grid, P("tp"))),
        "numpy": np.zeros(3, int),
        "numbers": {1: 0, "inf": 0, "z": 0, "dtype": 0, "none": 0},
    }
    dcp.load(got, checkpoint_id=tmp_path / "c")
    for which, names in {"one": dtypes, "many": spread}.items():
        for d in names:
            x = got[which][d]
            assert x.dtype is tensors[d].dtype
            np.testing.assert_array_equal(
                np.asarray(x.detach()._look()), np.asarray(tensors[d]._look()), err_msg=d
            )
    assert got["many"]["float64"].placements == (
        ft.distributed.tensor.Shard(0),
        ft.distributed.tensor.Shard(1),
    )
    assert got["scalar"].item() == 2.5
    assert got["tuple"][0] == 1 and got["tuple"][1].tolist() == [1, 1] and got["tuple"][2] == "x"
    assert got["list"][0] == {"a": 1} and got["list"][1].tolist() == [1, 1, 1]
    assert got["jax"].sharding.spec == P("tp") and got["jax"].tolist() == [*range(8)]
    assert got["numpy"].tolist() == [0, 1, 2]
    assert got["numbers"] == state["numbers"]


def test_load_casts_to_the_dtype_that_is_there_and_reads_in_parts(mesh: Mesh, tmp_path: Path) -> None:
    tensors = {f"{i}": ft.randn(8, 16) for i in range(6)}
    dcp.save(tensors, checkpoint_id=tmp_path / "c")
    got: dict[str, Any] = {
        "5": ft.zeros(8, 16, dtype=ft.float64),
        "1": shard(ft.zeros(8, 16).half(), P("x"), mesh),
    }
    whole = ft.zeros(3, 8, 16)
    got["3"] = whole[1]
    with tuning.having(checkpoint_part=1000):
        dcp.load(got, checkpoint_id=tmp_path / "c")
    assert got["5"].dtype is ft.float64 and (got["5"] == tensors["5"].double()).all()
    assert got["1"].dtype is ft.float16 and (got["1"].numpy() == tensors["1"].half().numpy()).all()
    assert (whole[1] == tensors["3"]).all() and not whole[0].any()


def test_meta_tensors_are_made_where_they_are_to_be(mesh: Mesh, tmp_path: Path) -> None:
    net = nn.Linear(16, 8)
    dcp.save({"net": net}, checkpoint_id=tmp_path / "c")
    with ft.device("meta"):
        empty = nn.Linear(16, 8)
    shard(empty, {"weight": P("x")}, mesh)
    state = {"net": empty.state_dict()}
    dcp.load(state, checkpoint_id=tmp_path / "c")
    assert state["net"]["weight"].placements == (ft.distributed.tensor.Shard(0),)
    empty.load_state_dict(state["net"], assign=True)
    assert (empty.weight.numpy(force=True) == net.weight.numpy(force=True)).all()


# ------------------------------------------------------------------------- errors


def failure(call: Any) -> BaseException:
    with pytest.raises(dcp.CheckpointException) as caught:
        call()
    return caught.value.failures[0][0]


def test_errors_are_those_of_pytorch_and_change_nothing(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    dcp.save({"model": {"w": ft.ones(2, 3), "v": ft.ones(2)}, "n": 3}, checkpoint_id=ours)
    their_dcp.save(
        {"model": {"w": torch.ones(2, 3), "v": torch.ones(2)}, "n": 3}, checkpoint_id=theirs, no_dist=True
    )

    def both(make: Any) -> tuple[BaseException, BaseException]:
        mine = failure(lambda: dcp.load(make(ft), checkpoint_id=ours))
        with pytest.raises(their_dcp.CheckpointException) as caught:
            their_dcp.load(make(torch), checkpoint_id=theirs, no_dist=True)
        other = caught.value.failures[0][0]
        assert type(mine) is type(other)
        return mine, other

    kept = {"v": ft.zeros(2), "w": ft.zeros(3, 3)}
    mine, other = both(lambda t: {"model": {"v": t.zeros(2), "w": t.ones(3, 3)}})
    assert str(mine) == str(other)
    failure(lambda: dcp.load({"model": kept}, checkpoint_id=ours))
    assert not kept["v"].any()
    mine, other = both(lambda t: {"model": {"u": t.ones(3, 3)}})
    assert str(mine).startswith(str(other)) and "model.w" in str(mine)
    mine, other = both(lambda t: {"model": {"w": 3}})
    assert str(mine)[:70] == str(other)[:70]
    partial = {"model": {"v": ft.zeros(2), "u": ft.zeros(1)}}
    dcp.load(partial, checkpoint_id=ours, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert partial["model"]["v"].all() and not partial["model"]["u"].any()


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "nothing", tmp_path, tmp_path / "file"):
        error = failure(lambda: dcp.load({"a": 1}, checkpoint_id=path))
        assert isinstance(error, FileNotFoundError) and str(path) in str(error)
    assert "is no folder" in str(failure(lambda: dcp.load({"a": 1}, checkpoint_id=tmp_path / "file")))
    with pytest.raises(RuntimeError, match="`checkpoint_id` must be specified"):
        dcp.load({"a": 1})
    assert isinstance(failure(lambda: dcp.save({"a": 1}, checkpoint_id=tmp_path / "file")), FileExistsError)
    assert "duplicated flatten key a.b.c" in str(
        failure(lambda: dcp.save({"a": {"b.c": 1}, "a.b": {"c": 1}}, checkpoint_id=tmp_path / "c"))
    )


def test_a_damaged_checkpoint_is_an_error(tmp_path: Path) -> None:
    dcp.save({"w": ft.arange(1000.0)}, checkpoint_id=tmp_path / "c")
    for part in (tmp_path / "c" / "d").iterdir():
        part.unlink()
    for part in (tmp_path / "c").glob("ocdbt.process_0/d/*"):
        part.write_bytes(part.read_bytes()[:-100])
    failure(lambda: dcp.load({"w": ft.zeros(1000)}, checkpoint_id=tmp_path / "c"))


def test_options_are_taken_or_refused(tmp_path: Path) -> None:
    writer = dcp.FileSystemWriter(tmp_path / "c", thread_count=4, overwrite=False)
    dcp.save({"a": 1}, storage_writer=writer)
    error = failure(lambda: dcp.save({"a": 2}, storage_writer=writer))
    assert isinstance(error, RuntimeError) and "Checkpoint already exists and self.overwrite=False." in str(
        error
    )
    state = {"a": 0}
    dcp.load(state, storage_reader=dcp.FileSystemReader(tmp_path / "c"))
    assert state == {"a": 1}
    for name in ("single_file_per_rank", "cache_staged_state_dict", "_extensions", "serialization_format"):
        with pytest.raises(NotImplementedError, match=name):
            dcp.FileSystemWriter(tmp_path, **{name: name != "single_file_per_rank"})
    assert "mount point" in str(failure(lambda: dcp.save({"a": 1}, checkpoint_id="/")))
    for call in (dcp.save, dcp.load):
        with pytest.raises(NotImplementedError, match="gs://bucket/a: checkpoints are in folders"):
            call({"a": 1}, checkpoint_id="gs://bucket/a")
    with pytest.raises(NotImplementedError, match="process_group"):
        dcp.save({"a": 1}, checkpoint_id=tmp_path / "d", process_group=object())
    with pytest.raises(NotImplementedError, match="planner"):
        dcp.save({"a": 1}, checkpoint_id=tmp_path / "d", planner=object())  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="use_collectives"):
        dcp.save({"a": 1}, checkpoint_id=tmp_path / "d", use_collectives=False)
    with pytest.raises(NotImplementedError, match="flatten_state_dict"):
        dcp.DefaultSavePlanner(flatten_state_dict=False)
    with pytest.warns(FutureWarning, match="deprecated"):
        dcp.save_state_dict({"a": 4}, dcp.FileSystemWriter(tmp_path / "e"))
    with pytest.warns(FutureWarning, match="deprecated"):
        dcp.load_state_dict(state, dcp.FileSystemReader(tmp_path / "e"))
    assert state == {"a": 4}


def test_what_has_no_values_to_save(tmp_path: Path) -> None:
    for tensor in (ft.zeros(2, device="meta"), ft.eye(2).to_sparse()):
        with pytest.raises(NotImplementedError, match="entry 'a.b' is"):
            dcp.save({"a": {"b": tensor}}, checkpoint_id=tmp_path / "c")
    assert os.listdir(tmp_path) == []


def test_a_mesh_that_does_not_divide(mesh: Mesh) -> None:
    with pytest.raises(ValueError, match="cannot be split into 8 equal parts"):
        shard(ft.zeros(12), P("x"), mesh)


# ---------------------------------------------------- what else reads and writes it


def test_orbax_reads_it_and_is_read(mesh: Mesh, tmp_path: Path) -> None:
    import orbax.checkpoint as ocp

    net = shard(nn.Linear(16, 8), {"weight": P("x")}, mesh)
    dcp.save({"net": net, "n": 3}, checkpoint_id=tmp_path / "c")
    with ocp.StandardCheckpointer() as checkpointer:
        tree = checkpointer.restore(tmp_path / "c")
    np.testing.assert_array_equal(np.asarray(tree["net"]["weight"]), net.weight.numpy(force=True))
    assert tree["net"]["weight"].sharding.spec == P("x")
    assert interchange.load_orbax(tmp_path / "c")["n"] == 3

    with ocp.CheckpointManager(tmp_path / "theirs") as manager:
        manager.save(
            7, args=ocp.args.StandardSave({"net": {"weight": np.ones((8, 16), np.float32)}, "step": 7})
        )
    state = {"net": {"weight": shard(ft.zeros(8, 16), P("x"), mesh)}, "step": ft.tensor(0)}
    dcp.load(state, checkpoint_id=tmp_path / "theirs" / "7")
    assert state["net"]["weight"].all() and state["step"] == 7


def test_files_that_lie_beside_a_checkpoint_stay(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.mkdir()
    (path / "config.json").write_text("{}")
    dcp.save({"a": 1}, checkpoint_id=path)
    (path / "notes").mkdir()
    (path / "notes" / "x").write_text("y")
    dcp.save({"a": 2}, checkpoint_id=path)
    state = {"a": 0}
    dcp.load(state, checkpoint_id=path)
    assert state == {"a": 2}
    assert (path / "config.json").read_text() == "{}" and (path / "notes" / "x").read_text() == "y"
    assert os.listdir(tmp_path) == ["c"]
    (tmp_path / "link").symlink_to(path)
    dcp.save({"a": 3}, checkpoint_id=tmp_path / "link")
    dcp.load(state, checkpoint_id=path)
    assert state == {"a": 3} and (tmp_path / "link").is_symlink()


def test_one_file_and_back(mesh: Mesh, tmp_path: Path) -> None:
    net = shard(nn.Linear(16, 8), {"weight": P("x")}, mesh)
    opt = ft.optim.Adam(net.parameters())
    net(ft.ones(2, 16)).sum().backward()
    opt.step()
    state = {"net": net, "opt": opt, "n": 3, "t": (ft.ones(2), "x"), "empty": ft.zeros(0, 2)}
    dcp.save(state, checkpoint_id=tmp_path / "c")
    with tuning.having(checkpoint_part=100):
        format_utils.dcp_to_torch_save(tmp_path / "c", tmp_path / "x.pt")
        format_utils.dcp_to_torch_save(tmp_path / "c", tmp_path / "x.safetensors")
    theirs = torch.load(tmp_path / "x.pt")
    np.testing.assert_array_equal(theirs["net"]["weight"].numpy(), net.weight.numpy(force=True))
    np.testing.assert_array_equal(
        theirs["opt"]["state"][0]["exp_avg"].numpy(), opt.state[net.weight]["exp_avg"].numpy()
    )
    assert theirs["n"] == 3 and theirs["t"][1] == "x" and theirs["empty"].shape == (0, 2)
    from safetensors.torch import load_file

    np.testing.assert_array_equal(
        load_file(tmp_path / "x.safetensors")["net.weight"].numpy(), net.weight.numpy(force=True)
    )
    assert (
        interchange.read(tmp_path / "x.safetensors")["opt"]["param_groups"]
        == opt.state_dict()["param_groups"]
    )
    torch.save(theirs, tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    for name in ("x.pt", "x.safetensors", "legacy.pt"):
        format_utils.torch_save_to_dcp(tmp_path / name, tmp_path / f"{name}.dcp")
        other = shard(nn.Linear(16, 8), {"weight": P(None, "x")}, mesh)
        opt2 = ft.optim.Adam(other.parameters())
        back = {"net": other, "opt": opt2, "n": 0, "t": None}
        dcp.load(back, checkpoint_id=tmp_path / f"{name}.dcp")
        np.testing.assert_array_equal(other.weight.numpy(force=True), net.weight.numpy(force=True))
        np.testing.assert_array_equal(
            opt2.state[other.bias]["exp_avg_sq"].numpy(), opt.state[net.bias]["exp_avg_sq"].numpy()
        )
        assert back["n"] == 3 and back["t"][1] == "x"


class Odd:
    """No plain value."""


def test_checkpoints_of_pytorch_are_read(mesh: Mesh, tmp_path: Path) -> None:
    model, opt = build(torch)
    train(torch, model, opt)
    state = {
        "model": model,
        "opt": their_states.get_optimizer_state_dict(model, opt),
        "n": 3,
        "t": (1, torch.ones(2)),
        "half": torch.arange(6.0).bfloat16().reshape(2, 3),
        "list": [{"a": 1}, torch.ones(1)],
        "empty": torch.zeros(0, 3),
        "odd": Odd(),
    }
    their_dcp.save(state, checkpoint_id=tmp_path / "c", no_dist=True)
    other, opt2 = build(ft, seed=1)
    shard(other, {r"^body\.0\.weight": P("x"), r"^body\.2\.weight": P(None, "x")}, mesh)
    got = {
        "model": other,
        "opt": states.get_optimizer_state_dict(other, opt2),
        "n": 0,
        "t": None,
        "half": ft.zeros(2, 3, dtype=ft.bfloat16),
        "list": [{"a": 0}, ft.zeros(1)],
        "empty": ft.zeros(0, 3),
    }
    dcp.load(got, checkpoint_id=tmp_path / "c")
    states.set_optimizer_state_dict(other, opt2, got["opt"])
    assert plain(dict(other.state_dict())) == plain(dict(model.state_dict()))
    assert plain(opt2.state_dict()) == plain(opt.state_dict())
    assert other["body"][0].weight.placements == (ft.distributed.tensor.Shard(0),)
    assert got["n"] == 3 and got["t"][1].tolist() == [1, 1] and got["list"][0] == {"a": 1}
    assert got["half"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert "odd of" in str(failure(lambda: dcp.load({"odd": 1}, checkpoint_id=tmp_path / "c")))
    described = dcp.FileSystemReader(tmp_path / "c").read_metadata()
    theirs = their_dcp.FileSystemReader(tmp_path / "c").read_metadata()
    assert [*described.state_dict_metadata] != [] and {*described.state_dict_metadata} == {
        *theirs.state_dict_metadata
    }
    del state["odd"]
    their_dcp.save(state, checkpoint_id=tmp_path / "d", no_dist=True)
    format_utils.dcp_to_torch_save(tmp_path / "d", tmp_path / "x.pt")
    assert plain(ft.load(tmp_path / "x.pt")["model"]) == plain(dict(model.state_dict()))
    dcp.save({"n": 4}, checkpoint_id=tmp_path / "d")
    assert not list((tmp_path / "d").glob("*.distcp"))


# ------------------------------------------------------------------------ the manager


def test_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    checkpoints = dcp.CheckpointManager(tmp_path / "run", keep=2)
    state = {"w": ft.zeros(3), "step": 0}
    assert checkpoints.load(state) is None and checkpoints.latest_step() is None
    for step in range(1, 5):
        state["w"].fill_(step)
        state["step"] = step
        checkpoints.save(step, state)
    assert checkpoints.steps() == [3, 4] and sorted(os.listdir(tmp_path / "run")) == ["3", "4"]
    for step in range(5, 8):
        state["w"].fill_(step)
        checkpoints.async_save(step, state)
        state["w"].fill_(-1)
    checkpoints.wait()
    assert checkpoints.steps() == [6, 7]
    assert dcp.CheckpointManager(tmp_path / "run").load(state) == 7
    assert (state["w"] == 7).all()
    assert checkpoints.load(state, 6) == 6 and (state["w"] == 6).all()
    with pytest.raises(ValueError, match="keep must be"):
        dcp.CheckpointManager(tmp_path, keep=0)
    with pytest.raises(dcp.CheckpointException):
        checkpoints.load(state, 1)
    (tmp_path / "run" / "2").symlink_to(tmp_path / "run" / "6")
    checkpoints.save(8, state)
    assert checkpoints.steps() == [7, 8] and not (tmp_path / "run" / "2").is_symlink()


# --------------------------------------------------------------- states by names


def build(t: Any, seed: int = 0, optimizer: str = "AdamW") -> tuple[Any, Any]:
    t.manual_seed(seed)
    body = t.nn.Sequential(t.nn.Linear(4, 8), t.nn.BatchNorm1d(8), t.nn.Linear(8, 4))
    body[0].bias.requires_grad_(False)
    model = t.nn.ModuleDict({"body": body, "head": t.nn.Linear(4, 2)}).double()
    groups = [
        {"params": body.parameters(), "lr": 0.1},
        {"params": model["head"].parameters(), "weight_decay": 0.2},
    ]
    kinds = {
        "AdamW": lambda: t.optim.AdamW(groups, amsgrad=True),
        "SGD": lambda: t.optim.SGD(groups, lr=0.1),
        "momentum": lambda: t.optim.SGD(groups, lr=0.1, momentum=0.9),
    }
    return model, kinds[optimizer]()


def train(t: Any, model: Any, opt: Any) -> None:
    for _ in range(2):
        opt.zero_grad()
        x = t.from_numpy(np.random.default_rng(0).standard_normal((6, 4)))
        model["head"](model["body"](x)).square().sum().backward()
        opt.step()


def plain(value: Any) -> Any:
    """Numbers in place of tensors, of either library."""
    if isinstance(value, ft.Tensor | torch.Tensor):
        return value.detach().cpu().numpy().tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    return value


def assert_close(mine: Any, theirs: Any) -> None:
    if isinstance(theirs, dict):
        assert list(mine) == list(theirs)
        for key, value in theirs.items():
            assert_close(mine[key], value)
    elif isinstance(theirs, list | tuple) and theirs and not isinstance(theirs[0], float | int | list):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs):
            assert_close(a, b)
    elif isinstance(theirs, float | list):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    else:
        assert mine == theirs


@pytest.mark.parametrize("trained", [False, True], ids=["fresh", "trained"])
@pytest.mark.parametrize("optimizer", ["AdamW", "SGD", "momentum"])
def test_states_have_pytorchs_names_and_values(optimizer: str, trained: bool) -> None:
    found = []
    for t, module in ((ft, states), (torch, their_states)):
        model, opt = build(t, optimizer=optimizer)
        if trained:
            train(t, model, opt)
        wrapped = t.compile(model, backend="eager") if t is torch else t.compile(model)
        whole = module.get_state_dict(wrapped, opt)
        frozen = module.get_model_state_dict(
            model, options=module.StateDictOptions(ignore_frozen_params=True)
        )
        found.append(plain([*whole, frozen, opt.param_groups[0]["lr"], dict(model.state_dict())]))
        if optimizer != "AdamW" or not trained:
            continue
        options = module.StateDictOptions(flatten_optimizer_state_dict=True)
        try:
            found[-1].append(plain(module.get_optimizer_state_dict(model, opt, options=options)))
        except NotImplementedError as error:
            found[-1].append(str(error)[:60])
    assert_close(*found)


@pytest.mark.parametrize("flat", [False, True], ids=["nested", "flat"])
def test_states_are_set_as_pytorch_sets_them(flat: bool, mesh: Mesh, tmp_path: Path) -> None:
    model, opt = build(ft)
    train(ft, model, opt)
    options = states.StateDictOptions(flatten_optimizer_state_dict=flat)
    model_state, opt_state = states.get_state_dict(model, opt, options=options)
    dcp.save({"model": model_state, "opt": opt_state}, checkpoint_id=tmp_path / "c")

    other, opt2 = build(ft, seed=1)
    shard(other, {r"^body.0.weight|^body.2.bias": P()}, mesh)
    wrapped = ft.compile(other)
    model_state2, opt_state2 = states.get_state_dict(wrapped, opt2, options=options)
    state = {"model": model_state2, "opt": opt_state2}
    dcp.load(state, checkpoint_id=tmp_path / "c")
    keys = states.set_state_dict(
        wrapped, opt2, model_state_dict=state["model"], optim_state_dict=state["opt"], options=options
    )
    assert keys.missing_keys == [] and keys.unexpected_keys == []
    for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        np.testing.assert_array_equal(a.numpy(force=True), b.numpy(force=True))
    assert plain(opt.state_dict()) == plain(opt2.state_dict())


class Wrapped(nn.parallel.DistributedDataParallel):
    def __init__(self, module: Any) -> None:
        nn.Module.__init__(self)
        self.module = module

    def forward(self, *args: Any) -> Any:
        return self.module(*args)


def test_names_are_without_what_wrappers_add() -> None:
    model, opt = build(ft)
    inner = Wrapped(ft.compile(model))
    names = [*model.state_dict()]
    for wrapped in (inner, ft.compile(inner)):
        assert all(name.startswith(("module.", "_orig_mod.")) for name in wrapped.state_dict())
        state, opt_state = states.get_state_dict(wrapped, opt)
        assert [*state] == names and opt_state["param_groups"][0]["params"][0] == "body.0.weight"
        states.set_state_dict(wrapped, opt, model_state_dict=state, optim_state_dict=opt_state)
        with pytest.warns(FutureWarning, match="submodules only"):
            part = states.get_model_state_dict(wrapped, submodules={model["head"]})
        assert [*part] == ["head.weight", "head.bias"]
    module = nn.Module()
    module.module = nn.Linear(1, 1)  # a name of the model's own
    assert [*states.get_model_state_dict(module)] == ["module.weight", "module.bias"]


def test_tied_parameters_have_one_state() -> None:
    found = []
    for t, module in ((ft, states), (torch, their_states)):
        t.manual_seed(0)
        model = t.nn.Sequential(t.nn.Linear(3, 3), t.nn.Linear(3, 3))
        model[1].weight = model[0].weight
        opt = t.optim.Adam(model.parameters())
        model(t.ones(1, 3)).sum().backward()
        opt.step()
        state = module.get_optimizer_state_dict(model, opt)
        before = plain(opt.state_dict())
        module.set_optimizer_state_dict(model, opt, state)
        assert plain(opt.state_dict()) == before
        found.append([*state["state"]])
    assert found[0] == found[1] == ["0.weight", "0.bias", "1.bias"]


def test_errors_of_states_are_pytorchs() -> None:
    def said(call: Any) -> tuple[str, str]:
        with pytest.raises(Exception) as caught:
            call()
        return type(caught.value).__name__, str(caught.value)

    found = []
    for t, module in ((ft, states), (torch, their_states)):
        model, opt = build(t)
        train(t, model, opt)
        whole = module.get_optimizer_state_dict(model, opt)
        del whole["state"]["head.weight"]
        options = module.StateDictOptions
        wrapped = t.compile(model, backend="eager") if t is torch else t.compile(model)
        without = {k: v for k, v in model.state_dict().items() if k != "head.weight"}
        texts = [
            said(lambda: module.set_optimizer_state_dict(model, opt, whole)),
            said(lambda: module.get_model_state_dict(model, options=options(broadcast_from_rank0=True))),
            said(lambda: module.get_optimizer_state_dict(model, ())),
            said(lambda: module.set_model_state_dict(wrapped, dict(without))),
            said(lambda: module.set_optimizer_state_dict(model, opt, {})),
        ]
        keys = module.set_state_dict(
            model, opt, model_state_dict={}, optim_state_dict=whole, options=options(strict=False)
        )
        assert not keys.missing_keys
        assert len(opt.state_dict()["state"]) == 6
        found.append(texts)
    assert found[0] == found[1]


def test_a_full_state_is_on_one_device_and_can_be_set_again(mesh: Mesh) -> None:
    model, opt = build(ft)
    shard(model, {r"^body\.0\.weight": P("x"), r"^body\.2\.weight": P(None, "x")}, mesh)
    sharded = states.get_model_state_dict(model)
    assert isinstance(sharded["body.0.weight"], ft.distributed.tensor.DTensor)
    for offload in (False, True):
        options = states.StateDictOptions(full_state_dict=True, cpu_offload=offload)
        full, full_opt = states.get_state_dict(model, opt, options=options)
        assert not any(isinstance(v, ft.distributed.tensor.DTensor) for v in full.values())
        assert not isinstance(full_opt["state"]["body.0.weight"]["exp_avg"], ft.distributed.tensor.DTensor)
        for name, value in sharded.items():
            np.testing.assert_array_equal(full[name].numpy(), value.numpy())
    other, opt2 = build(ft, seed=1)
    shard(other, {r"^body\.0\.weight": P("x"), r"^body\.2\.weight": P(None, "x")}, mesh)
    full["head.bias"] = ft.ones(2)
    full_opt["state"]["body.0.weight"]["exp_avg"].fill_(3)
    options = states.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    states.set_state_dict(other, opt2, model_state_dict=full, optim_state_dict=full_opt, options=options)
    assert other["head"].bias.tolist() == [1, 1]
    assert other["body"][0].weight.placements == (ft.distributed.tensor.Shard(0),)
    moment = opt2.state[other["body"][0].weight]["exp_avg"]
    assert (moment == 3).all() and moment.placements == (ft.distributed.tensor.Shard(0),)
    with ft.device("meta"):
        empty, _ = build(ft)
    shard(empty, {r"^body\.0\.weight": P("x")}, mesh)
    states.set_model_state_dict(empty, full, options=options)
    np.testing.assert_array_equal(empty["body"][0].weight.numpy(force=True), full["body.0.weight"].numpy())
    assert empty["body"][0].weight.placements == (ft.distributed.tensor.Shard(0),)
