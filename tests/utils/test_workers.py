"""Worker processes of a `DataLoader`: PyTorch's batches, errors, and what is left when something ends."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy as np
import pytest
from utils import worker_cases

import functorch_port as ft
from functorch_port.utils.data import DataLoader, IterableDataset, get_worker_info, prefetch_to_device
from functorch_port.utils.data._utils import processes
from functorch_port.utils.data._utils.channel import Parcel


@pytest.fixture(scope="module")
def of_torch():
    done = subprocess.run([sys.executable, worker_cases.__file__], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", worker_cases.CASES)
def test_workers_give_the_batches_of_torch_workers(of_torch, name):
    assert json.loads(json.dumps(worker_cases.CASES[name](ft))) == of_torch[name]


def ends(pid, seconds=20):
    """Whether a process ends soon."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


class Pids:
    """Each sample is the process that loads it, and one of its tensors."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return os.getpid(), ft.full((50, 50), float(i))


def run(tmp_path, code, *words, check=True, **options):
    """A script in a process of its own."""
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(code))
    done = subprocess.run([sys.executable, *words, path], capture_output=True, text=True, **options)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.splitlines() if check else done


# ------------------------------------------------------------------ processes


def test_workers_are_processes_and_end_with_the_pass():
    pids = {batch[0].item() for batch in DataLoader(Pids(), num_workers=2)}
    assert len(pids) == 2 and os.getpid() not in pids
    assert all(map(ends, pids))


def test_persistent_workers_stay_until_the_loader_goes():
    loader = DataLoader(Pids(), num_workers=2, persistent_workers=True)
    first, second = ({batch[0].item() for batch in loader} for _ in range(2))
    assert first == second and len(first) == 2
    del loader
    assert all(map(ends, first))


def test_an_iterator_that_is_let_go_ends_its_workers():
    iterator = iter(DataLoader(Pids(), num_workers=2))
    pids = [next(iterator)[0].item() for _ in range(2)]
    del iterator
    assert all(map(ends, pids))


def test_workers_have_the_methods_of_processes():
    iterator = iter(DataLoader(Pids(), num_workers=2, persistent_workers=True))
    assert list(iterator)
    first, second = iterator._workers
    first.join(0.01)  # which does not wait for ever
    assert first.is_alive() and second.is_alive() and first.exitcode is None
    first.terminate()
    second.kill()
    for worker in (first, second):
        worker.join(60)
    assert not first.is_alive() and not second.is_alive()
    assert (first.exitcode, second.exitcode) == (-signal.SIGTERM, -signal.SIGKILL)
    first.terminate()  # of one that has ended it does nothing


@pytest.mark.parametrize("persistent", [False, True])
def test_a_killed_worker_is_an_error_at_once(persistent):
    class Killed(Pids):
        def __getitem__(self, i):
            if i == 3:
                time.sleep(0.5)  # the first samples have come
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__getitem__(i)

    loader = DataLoader(Killed(), num_workers=2, persistent_workers=persistent)
    iterator, pids = iter(loader), []
    with pytest.raises(RuntimeError, match=r"^DataLoader worker \(pid \d+\) is killed by signal: Killed\. $"):
        while True:
            pids.append(next(iterator)[0].item())
    with pytest.raises(RuntimeError, match="is killed by signal"):
        next(iterator)
    assert pids and all(map(ends, pids))
    with pytest.raises(RuntimeError, match="is killed by signal"):
        list(loader)  # with new workers


def test_a_worker_that_exits_is_an_error():
    loader = DataLoader([1, 2], num_workers=1, collate_fn=lambda batch: sys.exit(3))
    with pytest.raises(
        RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly"
    ) as caught:
        list(loader)
    assert "exited unexpectedly with exit code 3. Details are lost" in str(caught.value.__cause__)


def test_a_worker_that_takes_too_long_is_an_error():
    loader = DataLoader([1, 2], num_workers=1, timeout=0.2, collate_fn=lambda batch: time.sleep(60))
    with pytest.raises(RuntimeError, match=r"^DataLoader timed out after 0\.2 seconds$"):
        next(iter(loader))


def test_a_killed_program_leaves_no_process(tmp_path):
    code = """
        import os, signal, time
        import functorch_port as torch

        class Pids:
            def __len__(self):
                return 100

            def __getitem__(self, i):
                time.sleep(0.01 if i < 3 else 1000)
                return os.getpid()

        iterator = iter(torch.utils.data.DataLoader(Pids(), num_workers=2, collate_fn=list))
        from functorch_port.utils.data._utils import processes
        print(next(iterator)[0], next(iterator)[0], processes._current.process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = run(tmp_path, code, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert all(map(ends, map(int, done.stdout.split())))


CTRL_C = """
    import os, signal, sys, threading, time
    import functorch_port as torch

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it

    class Slow:
        def __len__(self):
            return 100

        def __getitem__(self, i):
            if i == 4:
                time.sleep(1000)
            return os.getpid()

    iterator = iter(torch.utils.data.DataLoader(Slow(), num_workers=2, collate_fn=list))
    print(next(iterator)[0], next(iterator)[0], flush=True)
    threading.Timer(0.5, lambda: os.killpg(0, signal.SIGINT)).start()
    for batch in iterator:
        pass
"""


def test_ctrl_c_ends_the_program_and_its_workers(tmp_path):
    done = run(tmp_path, CTRL_C, check=False, start_new_session=True)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.count("KeyboardInterrupt") == 1  # the workers print nothing
    assert all(map(ends, map(int, done.stdout.split())))


def test_an_interrupted_wait_goes_on():
    class Waiting(Pids):
        def __getitem__(self, i):
            time.sleep(0.3)
            return i

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        iterator, found, interrupted = iter(DataLoader(Waiting(), num_workers=2)), [], 0
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        while len(found) < 8:
            try:
                found.append(next(iterator).item())
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert found == list(range(8)) and interrupted == 1


def test_two_passes_at_once_and_threads():
    found = [[] for _ in range(3)]
    loader = DataLoader(range(20), num_workers=2, batch_size=4)

    def read(place):
        found[place] += [batch.tolist() for batch in loader]

    threads = [threading.Thread(target=read, args=(place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1] == found[2] == [list(range(i, i + 4)) for i in range(0, 20, 4)]


# ------------------------------------------------------------------ what goes to workers, and comes back


def test_large_arrays_come_in_shared_memory():
    class Arrays(Pids):
        def __getitem__(self, i):
            return {"t": ft.full((300, 300), i), "a": np.full((300, 300), i), "part": ft.arange(90_000)[::2]}

    for i, batch in enumerate(DataLoader(Arrays(), batch_size=None, num_workers=2, collate_fn=lambda x: x)):
        assert batch["t"].shape == (300, 300) and (batch["t"] == i).all() and batch["t"].dtype is ft.int64
        assert (batch["a"] == i).all() and batch["a"].flags.writeable
        batch["a"][0] = 7
        assert batch["part"].stride() == (2,) and batch["part"][-1] == 89_998
        owner = batch["a"]
        while isinstance(owner, np.ndarray):
            owner = owner.base
        assert type(owner.obj).__name__ == "mmap"
        batch["t"].add_(1)
        assert (batch["t"] == i + 1).all()


def test_tensors_of_every_kind_come_back():
    kinds = [ft.bfloat16, ft.float16, ft.complex64, ft.bool, ft.uint8, ft.float8_e4m3fn]

    class Kinds(Pids):
        def __getitem__(self, i):
            return [ft.ones(n).to(kind) for kind in kinds for n in (0, 2, 40_000)]

    (batch,) = DataLoader(Kinds(), batch_size=None, num_workers=1, sampler=[0])
    assert [t.dtype for t in batch] == [kind for kind in kinds for _ in range(3)]
    assert all((t.float() == 1).all() for t in batch if t.dtype is not ft.complex64)


def test_a_memory_mapped_dataset_is_mapped_again(tmp_path):
    rows = np.memmap(tmp_path / "rows", np.int32, "w+", shape=(1000, 50))
    rows[:] = np.arange(50_000).reshape(1000, 50)
    rows.flush()
    for part in (rows, rows[100:200], rows[::-1], np.asarray(rows)[5:, ::2], rows.T):
        with Parcel(part) as parcel:
            assert len(parcel.data) < 1000 and parcel.file is None
        batch = next(iter(DataLoader(part, num_workers=1, batch_size=3)))
        assert batch.tolist() == part[:3].tolist()


def test_classes_of_a_script_go_both_ways_and_stay_the_same(tmp_path):
    code = """
        import collections
        import torch  # under `functorch-port run`; no `if __name__ == "__main__"`
        from torch.utils.data import DataLoader, Dataset

        Point = collections.namedtuple("Point", "x y")
        scale = 10

        class Own(Exception):
            pass

        class Points(Dataset):
            def __init__(self, transform):
                self.transform = transform

            def __len__(self):
                return 3

            def __getitem__(self, i):
                if i == 2:
                    raise Own("two")
                return Point(self.transform(i), torch.tensor([i * scale]))

        torch.set_default_dtype(torch.float64)
        loader = DataLoader(Points(lambda i: torch.ones(1) * i), num_workers=2)
        iterator = iter(loader)
        print([type(next(iterator)) is Point for _ in range(2)])
        try:
            next(iterator)
        except Own as error:
            print(str(error).splitlines()[0])
        point = next(iter(loader))
        print(point.x.dtype, point.y.dtype)
    """
    lines = run(tmp_path, code, "-m", "functorch_port", "run")
    assert lines == [
        "[True, True]",
        "Caught Own in DataLoader worker process 0.",
        "torch.float64 torch.int64",
    ]


@pytest.mark.parametrize("part", ["dataset", "collate_fn", "worker_init_fn"])
def test_what_cannot_be_sent_is_an_error_that_says_what(part):
    lines = (line for line in "ab")
    parts = dict(dataset=Pids(), collate_fn=None, worker_init_fn=None)
    if part == "dataset":
        parts[part].lines = lines
    else:
        parts[part] = lambda batch: next(lines)
    with pytest.raises(
        TypeError, match=rf"the {part} cannot be sent to worker processes: cannot pickle 'generator'"
    ):
        iter(DataLoader(num_workers=1, **parts))


@pytest.mark.parametrize("mode", ["w", "w+", "r+", "a+"])
def test_a_file_open_for_writing_is_not_copied(mode, tmp_path):
    (tmp_path / "log").touch()
    with open(tmp_path / "log", mode) as file:
        loader = DataLoader([1, 2], num_workers=1, collate_fn=lambda batch: file.write("x"))
        with pytest.raises(
            TypeError, match=r"the collate_fn cannot be sent.* cannot pickle '.*log', which is open"
        ):
            iter(loader)
    with open(tmp_path / "log") as file:
        assert list(DataLoader([1], num_workers=1, collate_fn=lambda batch: file.read())) == [""]


def test_what_cannot_come_back_is_an_error():
    iterator = iter(
        DataLoader([1, 2, 3], num_workers=1, collate_fn=lambda b: b[0] if b[0] != 2 else threading.Lock())
    )
    assert next(iterator) == 1
    with pytest.raises(TypeError, match="Caught TypeError in DataLoader worker process 0"):
        next(iterator)
    assert next(iterator) == 3


def test_workers_know_what_the_process_is(monkeypatch, tmp_path):
    monkeypatch.setenv("OF_THIS_TEST", "yes")
    monkeypatch.chdir(tmp_path)

    def tell(batch):
        return os.environ["OF_THIS_TEST"], os.getcwd(), sys.path, ft.get_num_threads()

    assert list(DataLoader([1], num_workers=1, collate_fn=tell)) == [("yes", str(tmp_path), sys.path, 1)]
    with pytest.raises(UserWarning, match="of a worker"):
        list(
            DataLoader(
                [1], num_workers=1, collate_fn=lambda batch: warnings.warn("of a worker", stacklevel=1)
            )
        )


def test_workers_know_their_rank_and_cannot_communicate(tmp_path):
    code = """
        import functorch_port as torch
        import torch.distributed as dist
        from torch.utils.data import DataLoader, IterableDataset

        class Ranks(IterableDataset):
            def __iter__(self):
                yield dist.get_rank(), dist.get_world_size()
                dist.barrier()

        dist.init_process_group("gloo")
        iterator = iter(DataLoader(Ranks(), num_workers=1, batch_size=None))
        print(next(iterator))
        try:
            next(iterator)
        except NotImplementedError as error:
            print("a worker of a DataLoader knows its rank" in str(error))
        dist.barrier()
    """
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(code))
    command = [sys.executable, "-m", "functorch_port", "launch", "--nproc", "2", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"[rank{k}]: {line}" for k in (0, 1) for line in ("True", [k, 2])
    ]


def test_modules_are_imported_once_and_anew_when_they_change(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    log = tmp_path / "log"
    text = f"with open({str(log)!r}, 'a') as f: f.write('x')\n"
    text += "class Data(list):\n    def __getitem__(self, i): return %d\n"
    (tmp_path / "imported_by_workers.py").write_text(text % 1)
    import imported_by_workers as module

    read = lambda: [batch.item() for batch in DataLoader(module.Data([0, 0]), num_workers=2)]
    assert read() == read() == [1, 1]
    assert log.read_text() == "xx"  # here and in the server, not in each worker
    os.utime(module.__file__, ns=(1, 1))
    (tmp_path / "imported_by_workers.py").write_text(text % 2)
    assert read() == [2, 2]


def test_a_module_that_starts_jax_is_imported_by_each_worker(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "starts_jax.py").write_text(
        "import jax.numpy as jnp\ntable = jnp.arange(3) + 1\n"
        "class Data(list):\n    def __getitem__(self, i): return int(table[i]) * 2\n"
    )
    import starts_jax

    assert [batch.item() for batch in DataLoader(starts_jax.Data([0] * 3), num_workers=2)] == [2, 4, 6]
    assert "starts_jax" in processes._apart


# ------------------------------------------------------------------ options


def test_workers_leave_the_random_streams_alone():
    class Noise:
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return ft.rand(2), random.random(), np.random.rand()

    iterator = iter(DataLoader(Noise(), num_workers=2))
    expected = random.getstate(), np.random.get_state()[1].tolist(), ft.get_rng_state().tolist()
    next(iterator)
    assert expected == (random.getstate(), np.random.get_state()[1].tolist(), ft.get_rng_state().tolist())
    assert get_worker_info() is None


def test_batches_out_of_order_come_as_they_are_ready():
    class Uneven(Pids):
        def __getitem__(self, i):
            if i == 0:
                time.sleep(1)
            return i

    in_order, not_so = (
        [b.item() for b in DataLoader(Uneven(), num_workers=2, in_order=o)] for o in (True, False)
    )
    assert in_order == list(range(8)) == sorted(not_so) and not_so[0] != 0


def test_contexts():
    for context in ("spawn", "forkserver"):
        assert [b.item() for b in DataLoader([4, 5], num_workers=1, multiprocessing_context=context)] == [
            4,
            5,
        ]
    with pytest.warns(UserWarning, match="JAX does not survive a fork"):
        DataLoader([1], num_workers=1, multiprocessing_context="fork")
    cores = len(os.sched_getaffinity(0))
    with pytest.warns(UserWarning, match=f"will create {cores + 1} worker processes in total"):
        DataLoader([1], num_workers=cores + 1)


def test_a_key_error_of_a_worker_can_be_read():
    loader = DataLoader({"a": 1}, sampler=["b"], num_workers=1)
    with pytest.raises(KeyError) as caught:
        list(loader)
    assert "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback" in str(caught.value)
    assert "\n" in repr(caught.value)


# ------------------------------------------------------------------ batches ahead


def test_prefetch_to_device_moves_batches_ahead():
    taken, moved = [], []

    class Taken(IterableDataset):
        def __iter__(self):
            for i in range(5):
                taken.append(i)
                yield {"x": ft.tensor([i]), "name": str(i)}

    loader = prefetch_to_device(
        DataLoader(Taken(), batch_size=None), 2, device=lambda t: moved.append(1) or t + 10
    )
    seen = []
    for batch in loader:
        seen.append((batch["x"].item(), batch["name"], len(taken), len(moved)))
    assert seen == [(10, "0", 3, 3), (11, "1", 4, 4), (12, "2", 5, 5), (13, "3", 5, 5), (14, "4", 5, 5)]
    assert [b.device.type for b in prefetch_to_device([ft.ones(2)], 1, "cpu")] == ["cpu"]
    with pytest.raises(ValueError, match="size must be at least 1, but got 0"):
        prefetch_to_device([], 0)


@pytest.mark.parametrize("done", [0, 2, 6, 8])
def test_the_position_counts_what_was_given_out(tmp_path, done):
    from functorch_port.utils.resume import Checkpoints

    def begin():
        ft.manual_seed(3)
        return DataLoader(Pids(), 1, shuffle=True, num_workers=2, collate_fn=lambda b: b[0][1][0, 0].item())

    loader = begin()
    checkpoints = Checkpoints(tmp_path, loader=loader)
    batches = iter(prefetch_to_device(loader, 2))
    for _ in range(done):
        next(batches)
    if done:
        checkpoints.save()
        rest = list(batches)
        loader = begin()
        assert Checkpoints(tmp_path, loader=loader).restore()
        assert list(prefetch_to_device(loader, 2)) == rest and len(rest) == 8 - done
    loader = DataLoader(range(4))
    checkpoints = Checkpoints(tmp_path / "other", loader=loader)
    batches = iter(prefetch_to_device(loader))
    next(batches)
    with pytest.raises(NotImplementedError, match="use num_workers=1"):
        checkpoints.save()


# ------------------------------------------------------------------ what programs do to their processes


def test_a_batch_that_cannot_be_unpickled_is_an_error_and_nothing_waits():
    class Gone:
        def __setstate__(self, state):
            if get_worker_info() is None:
                raise FileNotFoundError(2, "gone")

        def __getstate__(self):
            return {"a": 1}

    iterator = iter(DataLoader([1, 2], num_workers=1, collate_fn=lambda batch: Gone()))
    with pytest.raises(FileNotFoundError, match="gone"):
        next(iterator)
    with pytest.raises(RuntimeError, match=r"could not be unpickled \(FileNotFoundError\)"):
        next(iterator)


def test_a_persistent_worker_that_was_killed_between_passes():
    loader = DataLoader(Pids(), num_workers=2, persistent_workers=True)
    pids = [batch[0].item() for batch in loader]
    os.kill(pids[0], signal.SIGKILL)
    assert ends(pids[0])
    with pytest.raises(RuntimeError, match=rf"worker \(pid {pids[0]}\) is killed by signal: Killed"):
        list(loader)
    assert len(list(loader)) == 8  # with new workers


def test_few_descriptors_closed_streams_and_a_removed_directory(tmp_path):
    code = """
        import os, pathlib, resource, sys
        import functorch_port as torch

        class Rows:
            def __len__(self):
                return 60

            def __getitem__(self, i):
                print("printed")
                return torch.full((10_000,), float(i))

        sys.path.append(pathlib.Path("/nowhere"))  # Python ignores it
        loader = torch.utils.data.DataLoader(Rows(), num_workers=2)
        os.mkdir("none")
        os.chdir("none")
        os.rmdir("../none")
        used = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, used + 20))
        kept = list(loader)
        assert [batch[0, 0].item() for batch in kept] == list(range(60))
        child = os.fork()
        if not child:
            os.execlp("true", "true")
        os.waitpid(child, 0)
        with open(sys.argv[1], "w") as file:
            file.write("as it should be")
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(code))
    command = f"{sys.executable} script.py {tmp_path}/out <&- >&- 2>&-"
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    assert (tmp_path / "out").read_text() == "as it should be"


def test_workers_end_although_a_forked_child_has_their_sockets():
    iterator = iter(DataLoader(Pids(), num_workers=2))
    pids = [next(iterator)[0].item() for _ in range(2)]
    of_child = [os.dup(worker.channel.fileno()) for worker in iterator._workers]
    del iterator
    assert all(map(ends, pids))
    for file in of_child:
        os.close(file)


def test_a_worker_finishes_the_file_that_it_writes(tmp_path):
    class Cached(Pids):
        def __getitem__(self, i):
            with open(tmp_path / f"{i}.part", "w") as file:
                time.sleep(0.2)
                file.write("whole")
            return os.getpid()

    iterator = iter(DataLoader(Cached(), num_workers=2))
    pids = [next(iterator).item() for _ in range(2)]
    del iterator
    assert all(map(ends, pids))
    assert {path.read_text() for path in tmp_path.iterdir()} == {"whole"}


def test_a_module_that_its_name_does_not_find_goes_by_value(tmp_path, monkeypatch):
    text = "class Data(list):\n    def __getitem__(self, i): return helper(%r)\n\ndef helper(x): return x\n"
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "of_one_name.py").write_text(text % name)
    monkeypatch.syspath_prepend(tmp_path / "a")
    import of_one_name

    sys.path[0] = str(tmp_path / "b")
    (tmp_path / "b" / "of_one_name.py").write_text("helper = len\n")
    helped = DataLoader([0], num_workers=1, collate_fn=lambda batch: of_one_name.helper("same"))
    assert list(DataLoader(of_one_name.Data([0]), num_workers=1)) == [["a"]]
    assert list(helped) == ["same"]


def test_a_module_that_loads_when_it_is_imported_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "loads_at_import.py").write_text(
        "from functorch_port.utils.data import DataLoader\n"
        "class Data(list):\n    def __getitem__(self, i): return i\n"
        "first = list(DataLoader(Data([0]), num_workers=1, collate_fn=list))\n"
    )
    with pytest.raises(RuntimeError, match='put it under `if __name__ == "__main__":`'):
        import loads_at_import  # noqa: F401


def test_a_loader_within_a_worker():
    def inner(batch):
        return get_worker_info().id, *(b.item() for b in DataLoader(Pids(), num_workers=1, collate_fn=first))

    def first(batch):
        return batch[0][1][0, 0]

    assert list(DataLoader([0], num_workers=1, collate_fn=inner)) == [(0, *range(8))]


# ------------------------------------------------------------------ tensors


def test_a_tensor_with_a_history_is_refused():
    class Products(Pids):
        def __getitem__(self, i):
            return ft.ones(2, requires_grad=True) * 2

    iterator = iter(DataLoader(Products(), num_workers=1))
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        next(iterator)


def test_views_of_a_large_tensor_go_without_the_rest_and_stay_views_of_one():
    rows = ft.arange(100_000.0)
    with Parcel([rows[5:9], rows[40:100:7], rows[50_000:50_006].view(2, 3).t()], batch=True) as parcel:
        assert parcel.total < 1000
    with Parcel([rows[5:9], rows[8:12]], batch=True) as parcel:
        assert parcel.total == 400_000

    class Views(Pids):
        def __getitem__(self, i):
            return [
                (rows[5:9], rows[7:12]),
                (rows[40:100:7], rows[50_000:50_006].view(2, 3).t()),
                (rows[3], rows[:1]),
                (rows[4:4], rows[8:9].expand(3)),
                (rows[5:9].view(ft.int32), rows[:3].to(ft.float64).view(ft.float32)),
                (rows[2:3], rows),
                (rows[2:4], ft.empty(3, device="meta")),
            ][i]

    pairs = list(DataLoader(Views(), batch_size=None, num_workers=1, sampler=range(7)))
    for got, want in zip(pairs, map(Views().__getitem__, range(7)), strict=True):
        for a, b in zip(got, want):
            assert a.dtype is b.dtype and a.stride() == b.stride() and a.device == b.device
            assert a.shape == b.shape and (a.is_meta or a.tolist() == b.tolist())
    pairs[0][0].add_(1)
    assert pairs[0][1].tolist() == [8, 9, 9, 10, 11] and rows[7] == 7
    pairs[5][1][2] = 9
    assert pairs[5][0].item() == 9


def test_batches_of_subclasses_and_of_sparse_tensors():
    class Own(ft.Tensor):
        pass

    assert type(ft.utils.data.default_collate([ft.ones(2).as_subclass(Own)] * 2)) is Own
    (batch,) = DataLoader(ft.utils.data.TensorDataset(ft.ones(2).as_subclass(Own)), batch_size=2)
    assert type(batch[0]) is Own
    with pytest.raises(RuntimeError, match="^Batches of sparse tensors are not currently supported"):
        ft.utils.data.default_collate([ft.eye(2).to_sparse()] * 2)


def test_an_error_comes_after_the_batches_before_it_under_prefetch():
    batches, seen = iter(prefetch_to_device(DataLoader([1, 2, "x", 4], collate_fn=lambda b: b[0] + 1), 3)), []
    with pytest.raises(TypeError):
        for batch in batches:
            seen.append(batch)
    assert seen == [2, 3]
