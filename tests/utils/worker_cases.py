"""Programs with worker processes; as a script it prints what they give under PyTorch as JSON.

PyTorch forks its workers, which a process that runs JAX must not do, so it gets a process of its own.
"""

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


CASES = {
    "augmented": lambda t: augmented(t, False),
    "augmented, persistent": lambda t: augmented(t, True),
    "shards": lambda t: shards(t, False),
    "shards, init": lambda t: shards(t, True),
}

if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    json.dump({name: case(torch) for name, case in CASES.items()}, sys.stdout)
