"""`Checkpoints`: runs that are stopped go on with the same bits; damaged and foreign files do no harm."""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port.utils.data import DataLoader, IterableDataset, TensorDataset
from functorch_port.utils.resume import Checkpoints

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore:DataLoader")


def started(folder):
    command = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "resume_run.py"), str(folder)]
    env = {**os.environ, "FUNCTORCH_PORT_CACHE": str(folder.parent / "cache")}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def test_a_run_that_is_killed_has_the_bits_of_one_that_is_not(tmp_path):
    """9 steps in an epoch, a checkpoint every 4. One network is eager, one compiled."""
    with started(tmp_path / "whole") as whole, started(tmp_path / "run") as run:
        for line in run.stdout:
            if line == "6\n":
                run.kill()
        assert run.wait() == -signal.SIGKILL
        with started(tmp_path / "run") as run:
            rest = run.stdout.read().splitlines()
        assert rest[0] == "5" and rest[-1] == whole.stdout.read().splitlines()[-1]


# Files.


def made(width=3, **options):
    ft.manual_seed(0)
    net = ft.nn.Linear(2, width)
    optimizer = ft.optim.Adam(net.parameters(), lr=0.1)
    return net, optimizer, {"model": net, "optimizer": optimizer, **options}


def train(net, optimizer, checkpoints, count, metrics=()):
    for i in range(count):
        optimizer.zero_grad()
        net(ft.rand(4, 2)).pow(2).sum().backward()
        optimizer.step()
        checkpoints.after_step(seen=i)
        if metrics:
            checkpoints.save(metrics[i])


def everything(parts):
    """All that a part knows, as text."""
    return repr([part.state_dict() for part in parts.values()]), repr(ft.get_rng_state().tolist())


def test_the_last_ones_are_kept_and_go_on(tmp_path):
    net, optimizer, parts = made()
    checkpoints = Checkpoints(tmp_path / "a" / "b", every=2, keep=2, **parts)
    assert not checkpoints.restore()
    train(net, optimizer, checkpoints, 7)
    assert [f.name for f in checkpoints.files()] == ["step-00000004.pt", "step-00000006.pt"]
    net, optimizer, parts = made()
    again = Checkpoints(tmp_path / "a" / "b", **parts)
    assert again.restore() and (again.step, again.notes) == (6, {"seen": 5})
    train(net, optimizer, again, 1)
    assert everything(parts) == everything({k: v for k, v in checkpoints._parts.items()})[:1] + (
        everything(parts)[1],
    )
    assert np.array_equal(net.weight.detach().numpy(), checkpoints._parts["model"].weight.detach().numpy())


def test_pytorch_opens_the_files(tmp_path):
    net, optimizer, parts = made()
    schedule = ft.optim.lr_scheduler.StepLR(optimizer, 2)
    checkpoints = Checkpoints(tmp_path, every=1, schedule=schedule, loader=DataLoader(range(4)), **parts)
    train(net, optimizer, checkpoints, 1)
    state = torch.load(checkpoints.files()[0])
    theirs = torch.nn.Linear(2, 3)
    theirs.load_state_dict(state["parts"]["model"])
    assert theirs.weight.tolist() == net.weight.tolist()
    torch.optim.Adam(theirs.parameters()).load_state_dict(state["parts"]["optimizer"])
    torch.set_rng_state(state["random"]["generators"][0])
    assert torch.rand(3).tolist() == ft.rand(3).tolist()


@pytest.mark.parametrize("best", ["min", "max"])
def test_the_best_one_stays(best, tmp_path):
    sign = 1 if best == "min" else -1
    net, optimizer, parts = made()
    checkpoints = Checkpoints(tmp_path, keep=1, best=best, **parts)
    train(net, optimizer, checkpoints, 5, [sign * x for x in (3.0, 1.0, 2.0, float("nan"), 1.0)])
    assert [f.name for f in checkpoints.files()] == ["step-00000005.pt"]
    assert checkpoints.best_metric == sign * 1.0
    again = Checkpoints(tmp_path, keep=1, best=best, **made()[2])
    assert again.restore() and again.best_metric == sign * 1.0
    assert again.restore(again.best_file) and again.step == 2
    again.step = 6
    again.save(metric=ft.tensor(sign * 0.5))
    assert again.restore(again.best_file) and again.step == 6
    again.best_file.unlink()  # a process may have been killed before it had that name
    assert again.restore() and again.best_file.exists()
    with pytest.raises(ValueError, match="a metric needs"):
        Checkpoints(tmp_path, **parts).save(metric=1.0)


@pytest.mark.parametrize("damage", ["cut off", "empty", "changed", "another file"])
def test_a_damaged_file_is_told_and_passed_over(damage, tmp_path):
    net, optimizer, parts = made()
    checkpoints = Checkpoints(tmp_path, every=1, **parts)
    train(net, optimizer, checkpoints, 3)
    path = checkpoints.files()[-1]
    data = bytearray(path.read_bytes())
    at = data.index(net.weight.detach().numpy().tobytes())
    data[at] ^= 1
    path.write_bytes({"cut off": data[:-300], "empty": b"", "changed": data}.get(damage, b"text"))
    if damage == "another file":
        ft.save({"a": 1}, path)
    with pytest.warns(
        UserWarning, match=r"step-00000003.pt cannot be read, going back to the checkpoint before"
    ):
        assert checkpoints.restore()
    assert checkpoints.step == 2
    for other in checkpoints.files():
        other.write_bytes(b"")
    with (
        pytest.warns(UserWarning),
        pytest.raises(RuntimeError, match=r"no checkpoint can be read; the last .*1.pt"),
    ):
        checkpoints.restore()


class Refuses:
    """A part that takes nothing back."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return {"state": self.state}

    def load_state_dict(self, state):
        if state != self.state_dict():
            raise ValueError("not mine")


def test_what_does_not_fit_leaves_everything_as_it_was(tmp_path):
    net, optimizer, parts = made()
    generator = ft.Generator().manual_seed(3)
    checkpoints = Checkpoints(tmp_path, every=1, generator=generator, other=Refuses(1), **parts)
    train(net, optimizer, checkpoints, 2)
    for width, other, text in (
        (
            4,
            1,
            r"model: RuntimeError: Error\(s\) in loading state_dict for Linear:\n\tsize mismatch for weight",
        ),
        (3, 2, "other: ValueError: not mine"),
    ):
        net, optimizer, parts = made(width)
        parts = {**parts, "generator": ft.Generator(), "other": Refuses(other)}
        again = Checkpoints(tmp_path, **parts)
        again.step, again.notes = 7, {"x": 1}
        net(ft.ones(2)).sum().backward()
        optimizer.step()
        before = everything(again._parts)
        with pytest.raises(RuntimeError, match=text) as info:
            again.restore()
        assert "step-00000002.pt does not match this run, so nothing was changed" in str(info.value)
        assert everything(again._parts) == before and (again.step, again.notes) == (7, {"x": 1})
    with pytest.raises(
        RuntimeError, match=r"has the parts .*'other'\], but this run has \['model', 'optimizer'\]"
    ):
        Checkpoints(tmp_path, **made()[2]).restore()


def test_bad_use():
    with pytest.raises(TypeError, match="the part 'a' has no state_dict and load_state_dict: int"):
        Checkpoints("x", a=3)
    with pytest.raises(ValueError, match="best should be"):
        Checkpoints("x", best="lowest")
    with pytest.raises(ValueError, match="keep should be positive"):
        Checkpoints("x", keep=0)
    with pytest.raises(NotImplementedError, match="persistent_workers"):
        Checkpoints("x", loader=DataLoader(range(3), num_workers=1, persistent_workers=True))


# Signals.


def test_a_signal_saves_at_the_end_of_the_step(tmp_path):
    net, optimizer, parts = made()
    checkpoints = Checkpoints(tmp_path, signals=(signal.SIGTERM, signal.SIGINT), **parts)
    outside = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
    for number in (signal.SIGTERM, signal.SIGINT):
        step = checkpoints.step
        with pytest.raises(SystemExit) as info, checkpoints:
            train(net, optimizer, checkpoints, 2)
            os.kill(os.getpid(), number)
            assert len(checkpoints.files()) == (number == signal.SIGINT)
            train(net, optimizer, checkpoints, 5)
        assert info.value.code == 128 + number and checkpoints.step == step + 3
        assert [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)] == outside
    with pytest.raises(SystemExit), checkpoints:  # after the last step
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_second_signal_ends_at_once(tmp_path):
    # a process that a shell starts in the background ignores it
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _second_signal(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)


def _second_signal(tmp_path):
    checkpoints = Checkpoints(tmp_path, signals=(signal.SIGINT,), **made()[2])
    with pytest.raises(KeyboardInterrupt), checkpoints:
        signal.raise_signal(signal.SIGINT)  # to this thread: two that wait at once are one
        signal.raise_signal(signal.SIGINT)
        threading.Event().wait(5)
    assert not checkpoints.files()


# Loaders.


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(11):
            yield i + ft.rand(())


class Shuffled:
    """A sampler that draws from Python's and numpy's streams, when the first batch is asked for."""

    def __iter__(self):
        order = list(range(13))
        random.shuffle(order)
        yield from np.array(order)[np.random.permutation(13)].tolist()

    def __len__(self):
        return 13


class Rows:
    def __len__(self):
        return 13

    def __getitem__(self, i):
        if i == 5:
            raise ValueError("the fifth")
        return i + ft.rand(()) + random.random()


def sampler(kind, *args, **options):
    return getattr(ft.utils.data, kind)(*args, **options)


LOADERS = {
    "in order": lambda g: DataLoader(TensorDataset(ft.arange(13)), 3),
    "shuffled": lambda g: DataLoader(TensorDataset(ft.arange(13)), 3, shuffle=True),
    "a generator": lambda g: DataLoader(range(13), 3, shuffle=True, generator=g),
    "workers": lambda g: DataLoader(Rows(), 2, shuffle=True, num_workers=2),
    "workers and a generator": lambda g: DataLoader(range(13), 2, shuffle=True, num_workers=2, generator=g),
    "errors": lambda g: DataLoader(Rows(), 2, shuffle=True),
    "with replacement": lambda g: DataLoader(
        range(40), 3, sampler=sampler("RandomSampler", range(40), True, 70, generator=g)
    ),
    "more than there are": lambda g: DataLoader(
        range(5), 2, sampler=sampler("RandomSampler", range(5), num_samples=13, generator=g)
    ),
    "batch sampler": lambda g: DataLoader(
        range(13),
        batch_sampler=sampler("BatchSampler", sampler("SubsetRandomSampler", range(13), g), 3, True),
    ),
    "sampler of the user": lambda g: DataLoader(range(13), 2, sampler=Shuffled()),
    "stream": lambda g: DataLoader(Stream(), 2),
    "stream of workers": lambda g: DataLoader(Stream(), 2, num_workers=2),
    "no batches": lambda g: DataLoader(TensorDataset(ft.arange(5)), None, shuffle=True),
}


def begin(name):
    ft.manual_seed(1)
    np.random.seed(2)
    random.seed(3)
    generator = ft.Generator().manual_seed(4)
    return LOADERS[name](generator)


def seen(iterator, count=None):
    """The next batches, and what is drawn between them."""
    out = []
    while count is None or len(out) < count:
        try:
            batch = next(iterator)
        except StopIteration:
            break
        except ValueError as error:
            batch = str(error)[-9:]
        out.append(repr((batch, ft.rand(2), ft.randn(1), np.random.rand(), random.random())))
    return out


@pytest.mark.parametrize("when", [0, 1, 4])
@pytest.mark.parametrize("name", LOADERS)
def test_a_pass_goes_on_in_the_middle(name, when, tmp_path):
    loader = begin(name)
    checkpoints = Checkpoints(tmp_path, loader=loader)
    first = seen(iter(loader))
    running = iter(loader)
    seen(running, when)
    checkpoints.save()
    expected = [seen(running), seen(iter(loader))]
    assert len(first) >= 4

    for _ in range(2):
        loader = begin(name)
        again = Checkpoints(tmp_path, loader=loader)
        assert again.restore()
        ft.rand(7), random.random(), np.random.rand()  # as scripts do before their loops
        again.step += 1
        again.save()  # and a checkpoint before the first batch is the same one
        assert [seen(iter(loader)), seen(iter(loader))] == expected


@pytest.mark.parametrize("name", LOADERS)
def test_between_passes_the_next_one_begins(name, tmp_path):
    loader = begin(name)
    checkpoints = Checkpoints(tmp_path, loader=loader)
    seen(iter(loader))
    seen(iter(loader), 1)  # left early
    checkpoints.save()
    expected = seen(iter(loader))
    loader = begin(name)
    assert Checkpoints(tmp_path, loader=loader).restore()
    assert seen(iter(loader)) == expected


def test_a_pass_over_fewer_batches_is_refused(tmp_path):
    loader = DataLoader(range(8), 2)
    checkpoints = Checkpoints(tmp_path, loader=loader)
    running = iter(loader)
    seen(running, 3)
    checkpoints.save()
    loader = DataLoader(range(4), 2)
    assert Checkpoints(tmp_path, loader=loader).restore()
    with pytest.raises(RuntimeError, match="the DataLoader has 2 batches, but 3 were done in the pass"):
        iter(loader)
