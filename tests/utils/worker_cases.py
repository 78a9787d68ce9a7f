"""Programs with worker processes; as a script it prints what they give under PyTorch as JSON.

PyTorch forks its workers, which a process that runs JAX must not do, so it gets a process of its own.
"""

import gc
import json
import random
import sys

import numpy as np


def augmented(t, persistent):
    """Two shuffled passes over rows with noise from all three random streams, and a draw after each."""

    class Augmented(t.utils.data.Dataset):
        def __len__(self):
            return 13

        def __getitem__(self, i):
            return i, t.rand(2), random.random(), np.random.rand()

    t.manual_seed(1)
    options = dict(batch_size=3, shuffle=True, num_workers=2, persistent_workers=persistent)
    loader = t.utils.data.DataLoader(Augmented(), **options)
    rows = []
    for _ in range(2):
        rows += [[part.tolist() for part in batch] for batch in loader]
        rows.append(t.rand(2).tolist())
    return rows


def shards(t, with_init):
    """Streams that split themselves by worker; ``worker_init_fn`` moves the start of each one."""

    class Shards(t.utils.data.IterableDataset):
        module = t
        start = 0

        def __iter__(self):
            info = t.utils.data.get_worker_info()
            assert info.dataset is self and info.num_workers == 2
            for i in range(self.start + info.id, 21, info.num_workers):
                yield i, info.id, info.seed

    def skip_some(worker_id):
        info = t.utils.data.get_worker_info()
        assert info.id == worker_id
        info.dataset.start = 4 * worker_id

    t.manual_seed(2)
    data = Shards()
    options = dict(batch_size=4, num_workers=2, worker_init_fn=skip_some if with_init else None)
    first, second = (
        [[x.tolist() for x in b] for b in t.utils.data.DataLoader(data, **options)] for _ in range(2)
    )
    return [sorted(first), sorted(second), data.start, t.rand(2).tolist()]


class TwoWords(Exception):
    """Cannot be made of one text."""

    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


class WithMessage(Exception):
    """Has its text by keyword, as some libraries' errors do."""

    message = "none"

    def __init__(self, *, message):
        super().__init__(message)


class Unpicklable(Exception):
    def __reduce__(self):
        raise TypeError("stays here")


def described(error):
    """An exception, without the lines that say where in which program it was raised."""
    lines = str(error).splitlines() or [""]
    return [
        type(error).__name__,
        lines[0],
        *lines[1:2],
        lines[-1].removeprefix(f"{__name__}."),
        len(error.args),
    ]


def drained(loader, times=99):
    """All that a pass gives, errors in their places."""
    found, it = [], iter(loader)
    for _ in range(times):
        try:
            batch = next(it)
        except StopIteration as end:
            found.append(described(end))
            break
        except Exception as error:
            found.append(described(error))
        else:
            parts = batch if isinstance(batch, list) else [batch]
            found.append([part if isinstance(part, int) else part.tolist() for part in parts])
    return found


ERRORS = [
    ValueError("bad"),
    KeyError("no such"),
    TwoWords("a", "b"),
    WithMessage(message="text"),
    Unpicklable("x"),
    UnicodeDecodeError("utf8", b"x", 0, 1, "bad"),
    FileNotFoundError(2, "none"),
    StopIteration("over"),
]


class Raising:
    """Every second sample raises an error, the others are their numbers."""

    def __len__(self):
        return 17

    def __getitem__(self, i):
        if i % 2:
            raise ERRORS[i // 2]
        return i


def raising(t):
    """What comes of errors in samples, in the function that collates, and in the one that sets up a worker."""

    def collate(batch):
        if 7 in batch:
            raise ValueError("seven")
        return batch

    def init(number):
        if number == 1:
            raise ValueError("no worker 1")

    load = t.utils.data.DataLoader
    out = {"each": drained(load(Raising(), num_workers=2))}
    out["batches"] = drained(load(Raising(), sampler=[0, 2, 4, 6, 8, 1, 10, 12], batch_size=2, num_workers=2))
    out["no batches"] = drained(load(Raising(), batch_size=None, num_workers=2))
    out["collate"] = drained(load(range(12), batch_size=3, num_workers=2, collate_fn=collate))
    out["uneven"] = drained(load([[1], [1, 2], [3], [4], [1, 2], [3, 4]], batch_size=2, num_workers=2))
    out["init"] = drained(load(range(4), num_workers=2, worker_init_fn=init), times=2)
    out["after"] = drained(load(range(3), sampler=[0, 5, 1], num_workers=1))
    return out


def streams_that_raise(t):
    """One of two streams raises, where it starts or on its way; they end unevenly."""

    class Stream(t.utils.data.IterableDataset):
        start = False

        def __iter__(self):
            number = t.utils.data.get_worker_info().id
            if self.start and number == 1:
                raise ValueError("no start")
            return self.rows(number)

        def rows(self, number):
            for i in range(4 + 3 * number):
                if i == 3 and number == 1 and not self.start:
                    raise ValueError("no row")
                yield 10 * number + i

    load = t.utils.data.DataLoader
    data, later = Stream(), Stream()
    later.start = True
    return [
        drained(load(data, batch_size=1, num_workers=2, prefetch_factor=1)),
        drained(load(data, batch_size=2, num_workers=2)),
        drained(load(data, batch_size=2, num_workers=2, drop_last=True)),
        drained(load(data, batch_size=None, num_workers=2)),
        drained(load(later, num_workers=2), times=2),
    ]


class Counting:
    """Counts what it was asked for, and draws from generators of its own."""

    def __init__(self, t):
        self.factor, self.calls, self.seen = 1, 0, []
        self.cache = np.zeros(9)
        self.random, self.rng = random.Random(3), np.random.default_rng(4)
        self.torch = t.Generator().manual_seed(5)
        self.default, self.rows = t.default_generator, t.zeros(9)
        self.module = t

    def __len__(self):
        return 9

    def __getitem__(self, i):
        self.calls += 1
        self.seen.append(i)
        self.cache[i] += 1
        self.rows[i] += self.cache[i]
        t = self.module
        return (
            *(i * self.factor, self.calls, len(self.seen), self.cache[i], self.rows[i].item()),
            *(self.random.random(), self.rng.random(), t.rand((), generator=self.torch).item()),
            *(
                t.rand((), generator=self.default).item(),
                t.rand(()).item(),
                random.random(),
                np.random.rand(),
            ),
        )


def passes(t, persistent, stop, workers=2, **options):
    """Four passes over a dataset with a state, which the main process changes between them."""
    t.manual_seed(3)
    data = Counting(t)
    batches = []

    def listed(batch):
        batches.append(batch)
        return [list(row) for row in batch], len(batches) > 0

    options |= dict(num_workers=workers, persistent_workers=persistent, collate_fn=listed)
    loader, rows = t.utils.data.DataLoader(data, batch_size=2, **options), []
    for number in range(4):
        data.factor = 10**number
        for place, (batch, _) in enumerate(loader):
            rows.append(batch)
            if place == stop:
                break
        rows.append([data.calls, data.seen, data.cache.tolist(), data.rows.tolist(), t.rand(1).item()])
    return rows


def seeds(t):
    """What a worker knows about itself."""

    def tell(batch):
        info = t.utils.data.get_worker_info()
        return [info.id, info.num_workers, info.seed - t.initial_seed(), info.dataset[0], draws(t)]

    def seeded(number):
        random.seed(number)
        np.random.seed(t.initial_seed() % 2**32)
        t.manual_seed(number + 7)

    def told(batch):
        return draws(t)

    generator = t.Generator().manual_seed(6)
    load = t.utils.data.DataLoader
    out = list(load(range(3), num_workers=2, collate_fn=tell, generator=generator))
    out += list(load(range(4), num_workers=2, collate_fn=told, worker_init_fn=seeded, generator=generator))
    return out + [t.rand(1, generator=generator).item()]


def draws(t):
    """A number of each of the three streams."""
    return [t.rand(1).item(), random.random(), np.random.rand(), t.randint(99, (3,)).tolist()]


class Numbering:
    """A collate function with a state."""

    def __init__(self):
        self.count = 0

    def __call__(self, batch):
        self.count += 1
        return [self.count, *batch]


class Sampled:
    """A sampler whose order the program changes between passes."""

    order = (0, 1, 2, 3, 4)

    def __iter__(self):
        return iter(self.order)

    def __len__(self):
        return len(self.order)


def around(t):
    """The state of the other parts of a loader, and what comes after the end."""
    load = t.utils.data.DataLoader
    number = Numbering()
    loader = load(range(6), batch_size=2, num_workers=2, collate_fn=number)
    out = [list(loader), list(loader), number.count]
    sampler = Sampled()
    loader = load(range(9), sampler=sampler, num_workers=2, persistent_workers=True, collate_fn=list)
    out.append([list(loader), len(loader)])
    sampler.order = (7, 8)
    loader.collate_fn = None  # the workers have theirs
    out.append([list(loader), len(loader)])
    it = iter(load(range(2), num_workers=2, collate_fn=list))
    out += [[*it], [*it], [*it]]
    out.append(sorted(load(range(9), num_workers=2, in_order=False, collate_fn=sum)))
    try:
        iter(load(range(3), num_workers=2, prefetch_factor=0))
    except Exception as error:
        out.append(described(error))
    return out


CASES = {
    "augmented": lambda t: augmented(t, False),
    "augmented, persistent": lambda t: augmented(t, True),
    "shards": lambda t: shards(t, False),
    "shards, init": lambda t: shards(t, True),
    "raising": raising,
    "streams that raise": streams_that_raise,
    "passes": lambda t: passes(t, False, None),
    "passes, stopped": lambda t: passes(t, False, 1, shuffle=True),
    "passes, persistent": lambda t: passes(t, True, None, shuffle=True),
    "passes, persistent and stopped": lambda t: passes(t, True, 0),
    "passes, persistent and stopped, one worker": lambda t: passes(t, True, 1, 1, prefetch_factor=3),
    "seeds": seeds,
    "around": around,
}

if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    gc.disable()  # else workers delete the loaders that were there when they were forked, and wait
    json.dump({name: case(torch) for name, case in CASES.items()}, sys.stdout)
