"""Passes over a set of data with the loader of one library: the seconds of each, as JSON.

Usage: python benchmarks/loading_program.py torch|functorch_port FOLDER WORKERS PASSES
FOLDER has JPEG files; without one (``-``) the samples are small arrays in memory.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

LIBRARY, FOLDER, WORKERS, PASSES = sys.argv[1:]
torch: Any = importlib.import_module(LIBRARY)
importlib.import_module(f"{LIBRARY}.utils.data")
BATCH, SIDE = 32, 224


class Images(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    """A random crop of each image, flipped or not, as a float tensor of three colours."""

    def __init__(self, folder: str) -> None:
        self.files = sorted(Path(folder).glob("*.jpg"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        with Image.open(self.files[i]) as file:
            image = file.convert("RGB")
        side = random.randint(SIDE, min(image.size))
        left, top = random.randint(0, image.width - side), random.randint(0, image.height - side)
        image = image.resize(
            (SIDE, SIDE), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side)
        )
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        return pixels.float().div(255), i % 10


class Digits(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    """Samples of 28 by 28 numbers, scaled, as those of MNIST."""

    def __init__(self) -> None:
        self.data = np.random.default_rng(0).integers(0, 255, (8192, 1, 28, 28), np.uint8)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        return (torch.from_numpy(self.data[i]).float().div(255) - 0.1307) / 0.3081, i % 10


def main() -> None:
    torch.set_num_threads(1)
    data = Digits() if FOLDER == "-" else Images(FOLDER)
    loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True, num_workers=int(WORKERS))
    seconds = []
    for _ in range(int(PASSES)):
        start = time.perf_counter()
        for x, _y in loader:
            x.numpy()  # wait for it
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
