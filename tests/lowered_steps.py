"""Lowers training steps of the suite's models for platforms that need not be here, and prints their operations as JSON.

    python tests/lowered_steps.py [--without] [MODEL ...]

A process of its own, because ``--without`` takes llvmlite, and with it oneDNN, away before they are looked for.
`test_platforms.py` runs it for some models; without a model it takes all, in some minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

PLATFORMS = ("tpu", "cuda")
#: what costs time on an accelerator, and what no elementwise operation fuses with
HEAVY = re.compile(
    r"stablehlo\.(custom_call @[\w.$]+|convolution|dot_general|fft|gather|reduce_window|scatter|select_and_scatter"
    r"|sort|while)\b"
)
TENSOR = re.compile(r"tensor<((?:\d+x)*)\w+>")


def operations(text: str) -> dict[str, int]:
    """How many of the heavy operations of StableHLO a program has, by name and by the sizes of operands and result.

    Sizes, not shapes: whether a product has its rows in one dimension or in two is no matter.
    """
    found: Counter[str] = Counter()
    for line in text.splitlines():
        heavy = HEAVY.search(line)
        if heavy:
            # the types of an operation with a body stand below it
            types = line.rpartition(" : ")[2] if "->" in line else ""
            shapes = [re.findall(r"\d+", dims) for dims in TENSOR.findall(types)]
            sizes = sorted(prod(map(int, shape)) for shape in shapes)
            found[f"{heavy[1]} {sizes}"] += 1
    return dict(found)


def lowered(name: str) -> dict[str, dict[str, int]]:
    """The heavy operations of a model's training step, by platform."""
    import networks
    from suite_networks import JOBS

    lib, compiled = networks.library("functorch_port"), []

    def wrap(fn: Any) -> Any:
        compiled.append(lib.torch.compile(fn))
        return compiled[-1]

    JOBS[name].set_up(lib, wrap).train()
    (program,) = compiled[0].programs()
    return {platform: operations(program.executable.lower((platform,)).as_text()) for platform in PLATFORMS}


def main() -> None:
    """Read the arguments, print JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help="names of the suite's models; all unless given"
    )
    parser.add_argument("--without", action="store_true", help="as if llvmlite and oneDNN were not installed")
    given = parser.parse_args()
    if given.without:
        sys.modules["llvmlite"] = None  # type: ignore[assignment]
    from suite_networks import JOBS

    from functorch_port._cpu.native import ffi

    found = {name: lowered(name) for name in given.models or JOBS}
    print(json.dumps({"ours": sorted(ffi._registered), "models": found}))


if __name__ == "__main__":
    main()
