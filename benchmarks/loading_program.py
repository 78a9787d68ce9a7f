"""Passes over a folder of JPEG files with the loader of one library: the seconds of each, as JSON.

Usage: python benchmarks/loading_program.py torch|functorch_port FOLDER WORKERS PASSES
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


def main() -> None:
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(Images(FOLDER), BATCH, shuffle=True, num_workers=int(WORKERS))
    seconds = []
    for _ in range(int(PASSES)):
        start = time.perf_counter()
        for x, _y in loader:
            x.numpy()  # wait for it
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
