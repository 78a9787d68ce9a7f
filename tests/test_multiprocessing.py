"""torch.multiprocessing: `spawn` runs a function in processes, and tells how one has failed, as PyTorch does."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch as real

import functorch_port as port

ROOT = Path(__file__).parents[1]

SCRIPT = """
import os, sys
import torch
import torch.multiprocessing as mp
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException


def adds(i, x, queue):
    queue.put((i, (x + i).tolist()))


def of(queue):
    queue.put((torch.__name__, type(torch.ones(1)).__module__))


def fails(i):
    if i == 1:
        raise ValueError("no")


def exits(i):
    if i == 1:
        os._exit(3)


if __name__ == "__main__":
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(adds, args=(torch.ones(2), queue), nprocs=2)
    print(sorted(queue.get() for _ in range(2)))
    mp.set_start_method("spawn", force=True)
    process = mp.Process(target=of, args=(queue,))
    process.start()
    name, of_tensor = queue.get()
    assert name == torch.__name__ and of_tensor == type(torch.ones(1)).__module__, (name, of_tensor)
    process.join()
    try:
        mp.spawn(fails, nprocs=2)
    except ProcessRaisedException as error:
        lines = str(error).split("\\n")
        print(lines[:4], lines[-2])
    try:
        mp.spawn(exits, nprocs=2)
    except ProcessExitedException as error:
        print(error)
    context = mp.spawn(fails, nprocs=1, join=False)
    print(len(context.pids()), context.join())
"""


def test_spawn(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    commands = [[sys.executable, str(script)], [sys.executable, "-m", "functorch_port", "run", str(script)]]
    found = [
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200) for command in commands
    ]
    assert found[1].returncode == 0, found[1].stderr
    assert found[1].stdout == found[0].stdout
    assert found[1].stdout.splitlines()[0] == "[(0, [1.0, 1.0]), (1, [2.0, 2.0])]"


def test_other_ways_to_start_are_refused():
    import functorch_port.multiprocessing as mp

    with pytest.raises(NotImplementedError, match="use 'spawn'"):
        mp.start_processes(print, start_method="fork")
    with pytest.raises(AssertionError):
        mp.set_sharing_strategy("magic")


def test_no_files_are_left(tmp_path, monkeypatch):
    import functorch_port.multiprocessing as mp

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(Exception, match="lambda"):
        mp.spawn(lambda i: None, nprocs=2)
    context = mp.spawn(divmod, args=(0,), join=False)  # divmod(0, 0)
    with pytest.raises(mp.ProcessRaisedException, match="ZeroDivisionError"):
        context.join()
    assert context.join()  # there is nothing more to wait for
    context = mp.spawn(divmod, args=(1,), join=False)
    while not context.join():
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("torch", [real, port], ids=["torch", "port"])
def test_queues_send_tensors_without_history(torch):
    mp = torch.multiprocessing
    for name in ("pool.Pool", "queue.Queue", "queue.SimpleQueue"):
        home, _, cls = name.partition(".")
        assert issubclass(
            getattr(importlib.import_module(f"{mp.__name__}.{home}"), cls),
            getattr(importlib.import_module(f"multiprocessing.{home.replace('queue', 'queues')}"), cls),
        )
    queue = mp.SimpleQueue()
    queue.put([torch.arange(4.0)[1:], torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.ones(1))])
    view, leaf, parameter = queue.get()
    assert view.tolist() == [1, 2, 3] and leaf.requires_grad and leaf.is_leaf
    assert type(parameter) is torch.nn.Parameter
    with pytest.raises(RuntimeError, match="non-leaf tensor which requires_grad"):
        queue.put(leaf * 2)


@pytest.mark.parametrize("torch", [real, port], ids=["torch", "port"])
def test_weak_references_to_memory(torch):
    reductions = torch.multiprocessing.reductions
    x = torch.arange(4.0)
    views = [x[1:], x.view(2, 2)]
    refs = {reductions.StorageWeakRef(t.untyped_storage()) for t in (x, *views)}
    assert len(refs) == 1 and refs != {reductions.StorageWeakRef(x.clone().untyped_storage())}
    rebuild, args = reductions.reduce_tensor(x)
    assert rebuild(*args).data_ptr() == x.data_ptr()
    (ref,) = refs
    assert not ref.expired()
    del x, views, args
    assert ref.expired()
