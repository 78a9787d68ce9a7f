"""Kills processes that are saving, and looks at the file that is left.

``python tests/kill_saves.py --count 1000 --seed 0``: each process saves one state after the other to the same path, and
is killed by -9 at a random moment. The file is always a whole one.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

import functorch_port as ft


def states(elements):
    """Two states that are all ones and all twos, small tensors on the host and a large one."""
    made = [
        {"large": ft.full((elements,), float(k)), "small": ft.full((7,), float(k)), "k": k} for k in (1, 2)
    ]
    for state in made:
        np.asarray(state["large"].jax())  # nothing of JAX runs after the fork
    return made


def whole(path):
    """Whether a file is one of the two states."""
    state = ft.load(path, mmap=True)
    return all(bool((np.asarray(state[n].jax()) == state["k"]).all()) for n in ("large", "small"))


def run(count, seed, folder, elements=300_000, longest=0.02):
    """Kill ``count`` processes; how many had written a new file, and how often a temporary file was left.

    The next process deletes it, so that there is never more than one, and none after a last save.
    """
    rng, both, path = random.Random(seed), states(elements), Path(folder) / "state.pt"
    ft.save(both[0], path)
    changed = left = 0
    for _ in range(count):
        before = path.stat().st_ino
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads and forks
            child = os.fork()
        if not child:
            while True:
                for state in both:
                    ft.save(state, path)
        time.sleep(rng.random() * longest)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert whole(path), "the file is neither the old nor a new one"
        changed += path.stat().st_ino != before
        others = [other for other in Path(folder).iterdir() if other != path]
        assert len(others) <= 1, "temporary files are left"
        left += len(others)
    ft.save(both[0], path)
    assert os.listdir(folder) == [path.name]
    return changed, left


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        changed, left = run(given.count, given.seed, folder)
    print(
        f"{given.count} kills: the file was whole each time, {changed} times a new one; {left} temporary ones left"
    )


if __name__ == "__main__":
    main()
