"""What happens to distributed checkpoints when processes are killed, disks are full, and memory is small."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import functorch_port as ft
import functorch_port.distributed.checkpoint as dcp
from functorch_port.distributed.sharding import shard

ROOT = Path(__file__).parents[2]


def script(text: str, *args: Any, **options: Any) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", textwrap.dedent(text), *map(str, args)]
    return subprocess.Popen(
        command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


SAVES = """
    import sys, jax, numpy as np
    import functorch_port as ft
    import functorch_port.distributed.checkpoint as dcp
    from functorch_port.distributed.sharding import shard
    from jax.sharding import Mesh, PartitionSpec as P
    mesh = Mesh(np.array(jax.devices()), ("x",))
    tensors = {f"{i}": shard(ft.zeros(1 << 16), P("x"), mesh) for i in range(8)}
    for k in range(1, 10**6):
        for t in tensors.values():
            t.fill_(k)
        print(k, flush=True)
        dcp.save({"k": k, "tensors": tensors}, checkpoint_id=sys.argv[1])
"""


def test_a_killed_save_leaves_the_last_whole_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "c"
    rng = np.random.default_rng(0)
    reached, leftovers = 0, 0
    for _ in range(3):
        process = script(SAVES, path)
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        last = int(([3, *map(int, process.stdout.read().split())])[-1])
        process.communicate()
        leftovers += len(os.listdir(tmp_path)) > 1
        state = {"k": 0, "tensors": {f"{i}": ft.zeros(1 << 16) for i in range(8)}}
        dcp.load(state, checkpoint_id=path)
        assert state["k"] in (last - 1, last)
        assert all((t == state["k"]).all() for t in state["tensors"].values())
        reached += last
    assert reached >= 9
    dcp.save({"k": 1}, checkpoint_id=tmp_path / "another")
    assert sorted(os.listdir(tmp_path)) == ["another", "c"], f"{leftovers} saves left something"


def test_every_moment_of_the_exchange_can_be_the_last(tmp_path: Path, monkeypatch: Any) -> None:
    from functorch_port.serialization import _folder

    real, path = os.rename, tmp_path / "c"
    dcp.save({"k": 1}, checkpoint_id=path)
    (path / "note").write_text("n")
    for stop in range(4):
        calls = 0

        def rename(a: Any, b: Any) -> None:
            nonlocal calls
            if calls == stop and ".folder" in f"{a}{b}" and "orbax" not in f"{a}{b}":
                raise KeyboardInterrupt  # and nothing is put right, as after a kill
            calls += ".folder" in f"{a}{b}" and "orbax" not in f"{a}{b}"
            real(a, b)

        with monkeypatch.context() as patch:
            patch.setattr(_folder.os, "rename", rename)
            patch.setattr(_folder.Replacement, "end", lambda self: self._lock and os.close(self._lock))
            try:
                dcp.save({"k": 2}, checkpoint_id=path)
            except KeyboardInterrupt:
                pass
        state = {"k": 0}
        dcp.load(state, checkpoint_id=path)
        assert state["k"] in (1, 2)
        dcp.save({"k": 1}, checkpoint_id=path)
        assert os.listdir(tmp_path) == ["c"] and (path / "note").read_text() == "n"


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    process = script(
        """
        import os, resource, sys
        import functorch_port as ft
        import functorch_port.distributed.checkpoint as dcp
        path = sys.argv[1] + "/c"
        dcp.save({"k": 1, "w": ft.ones(10)}, checkpoint_id=path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        for save in (dcp.save, lambda *a, **k: dcp.async_save(*a, **k).result()):
            try:
                save({"k": 2, "w": ft.randn(1 << 18)}, checkpoint_id=path)
            except dcp.CheckpointException as error:
                assert "The former checkpoint, if any, is unchanged" in "".join(error.failures[0][0].__notes__)
                assert "large" in str(error), str(error)
            else:
                raise AssertionError
            assert os.listdir(sys.argv[1]) == ["c"], os.listdir(sys.argv[1])
            state = {"k": 0, "w": ft.zeros(10)}
            dcp.load(state, checkpoint_id=path)
            assert state["k"] == 1 and state["w"].all()
        """,
        tmp_path,
    )
    _, errors = process.communicate()
    assert process.returncode == 0, errors


def test_a_program_that_ends_completes_its_save(tmp_path: Path) -> None:
    process = script(
        """
        import sys
        import functorch_port as ft
        import functorch_port.distributed.checkpoint as dcp
        dcp.async_save({"k": 1, "w": ft.ones(1 << 20)}, checkpoint_id=sys.argv[1])
        """,
        tmp_path / "c",
    )
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    state = {"k": 0, "w": ft.zeros(1 << 20)}
    dcp.load(state, checkpoint_id=tmp_path / "c")
    assert state["k"] == 1 and state["w"].all()


PROCESSES = """
    import os, sys
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    import jax
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{sys.argv[2]}", num_processes=2, process_id=int(sys.argv[3]))
    import numpy as np
    import functorch_port as ft
    import functorch_port.distributed.checkpoint as dcp
    from functorch_port.distributed.checkpoint import state_dict as states
    from functorch_port.distributed.device_mesh import init_device_mesh
    from functorch_port.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (4,))
    values = np.arange(128.0).reshape(16, 8)
    net = ft.nn.Linear(8, 16).double()
    net.weight = ft.nn.Parameter(distribute_tensor(ft.tensor(values), mesh, [Shard(0)]))
    net.bias = ft.nn.Parameter(distribute_tensor(net.bias.data, mesh, [Replicate()]))
    for k in range(2):
        dcp.save({"net": net, "k": k}, checkpoint_id=f"{sys.argv[1]}/c")
    dcp.async_save({"net": net, "k": 2}, checkpoint_id=f"{sys.argv[1]}/c").result()
    net.weight = ft.nn.Parameter(distribute_tensor(ft.zeros(16, 8, dtype=ft.float64), mesh, [Shard(1)]))
    state = {"net": net, "k": 0}
    dcp.load(state, checkpoint_id=f"{sys.argv[1]}/c")
    part = lambda tensor: [(s.index, np.asarray(s.data)) for s in tensor._value.addressable_shards]
    assert state["k"] == 2 and all((data == values[at]).all() for at, data in part(net.weight))
    options = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
    full = states.get_model_state_dict(net, options=options)
    assert len(full) == (2 if jax.process_index() == 0 else 0)
    if full:
        assert (full["weight"].numpy() == values).all()
        full["weight"] = full["weight"] + 1
    options = states.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    states.set_model_state_dict(net, full, options=options)
    assert all((data == values[at] + 1).all() for at, data in part(net.weight))

    import resource, signal
    own, texts = jax.process_index(), []
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def full_disk(save):
        if own == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, resource.RLIM_INFINITY))
        try:
            return save({"net": net, "k": 3}, checkpoint_id=f"{sys.argv[1]}/c")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    for wrong in (
        lambda: distribute_tensor(ft.ones(4 + own), mesh, [Shard(0)]),
        lambda: distribute_tensor(ft.ones(4 + 4 * own), mesh, [Shard(0)]),
        lambda: dcp.load({"net": net, ("k", "n")[own]: 0}, checkpoint_id=f"{sys.argv[1]}/c"),
        lambda: full_disk(dcp.save),
        lambda: full_disk(dcp.async_save).result(),
    ):
        try:
            wrong()
        except (Exception, dcp.CheckpointException) as error:
            texts.append(str(error))
    wanted = ("equal parts", "shape [8]", "Missing key", "File too large", "File too large")
    for text, part in zip(texts, wanted, strict=True):
        assert part in text, text
"""


def test_two_processes_save_together_and_one_loads(mesh: Mesh, tmp_path: Path) -> None:
    """Without a process group; errors in one of them are raised in both, too."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    processes = [script(PROCESSES, tmp_path, port, i) for i in range(2)]
    for process in processes:
        errors = process.communicate(timeout=100)[1]
        assert process.returncode == 0, errors
    assert os.listdir(tmp_path) == ["c"]
    weight = shard(ft.zeros(16, 8, dtype=ft.float64), P("x"), mesh)
    dcp.load({"net": {"weight": weight}}, checkpoint_id=tmp_path / "c")
    assert weight.tolist() == np.arange(128.0).reshape(16, 8).tolist()


MEMORY = """
    import os, sys, threading, time
    import functorch_port as ft
    from functorch_port._base.tuning import tuning
    from functorch_port.distributed.checkpoint import format_utils

    def own():
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) >> 10

    def most(convert, source, target):
        before, seen, going = own(), [0], [1]

        def watch():
            while going:
                seen.append(own())
                time.sleep(0.002)

        thread = threading.Thread(target=watch)
        thread.start()
        convert(f"{folder}/{source}", f"{folder}/{target}")
        going.clear()
        thread.join()
        return max(seen) - before

    folder, to_folder, to_file = sys.argv[1], format_utils.torch_save_to_dcp, format_utils.dcp_to_torch_save
    with tuning.having(checkpoint_part=8 << 20):
        ft.save({"w": ft.ones(10)}, f"{folder}/small.pt")
        to_folder(f"{folder}/small.pt", f"{folder}/small")  # what is imported does not count
        to_file(f"{folder}/small", f"{folder}/small.safetensors")
        print(most(to_folder, "x.pt", "a"), most(to_file, "a", "y.pt"), most(to_file, "a", "y.safetensors"))
        print(most(to_folder, "y.safetensors", "b"))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux")
def test_conversions_take_a_fraction_of_the_checkpoint(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    layers = {f"l{i}": torch.from_numpy(rng.standard_normal((1024, 1024), np.float32)) for i in range(32)}
    torch.save({"net": layers, "n": 3}, tmp_path / "x.pt")  # 128 MB
    process = script(MEMORY, tmp_path)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    assert max(map(int, out.split())) < 60, out
    again = torch.load(tmp_path / "y.pt", mmap=True)
    assert again["n"] == 3 and all((again["net"][k] == layers[k]).all() for k in layers)
    state = {"net": {"l31": ft.zeros(1024, 1024)}}
    dcp.load(state, checkpoint_id=tmp_path / "b")
    np.testing.assert_array_equal(state["net"]["l31"].numpy(), layers["l31"].numpy())
