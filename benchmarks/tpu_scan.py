"""What a GPT's training step costs on a TPU with its blocks one by one, in a scan, or stacked: by the TPU compiler
alone, on any machine. ``pip install libtpu``, then ``python benchmarks/tpu_scan.py [layers] [width] [length]``.
"""

from __future__ import annotations

import copy
import os
import sys
import time
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from networks import library
from suite_networks import block

import functorch_port as torch
from functorch_port._plan.topology import devices_of

nn, F = torch.nn, torch.nn.functional
TOKENS, BATCH = 1024, 2


class GPT(nn.Module):
    """A GPT whose blocks are run in one of several ways."""

    def __init__(self, way: str, layers: int, width: int, length: int) -> None:
        super().__init__()
        first = block(library("functorch_port"), width, width // 64, causal=True)  # a class of its own
        made = [first, *(copy.deepcopy(first) for _ in range(layers - 1))]
        self.tokens, self.places = nn.Embedding(TOKENS, width), nn.Embedding(length, width)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, TOKENS, bias=False)
        self.blocks = {
            "one by one": lambda: nn.Sequential(*made),
            "scan_()": lambda: nn.Sequential(*made).scan_(),
            "scan_(remat=True)": lambda: nn.Sequential(*made).scan_(remat=True),
            "ScanStack": lambda: nn.ScanStack(made),
            "ScanStack, remat": lambda: nn.ScanStack(made, remat=True),
        }[way]()

    def forward(self, x: Any) -> Any:
        x = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def row(way: str, layers: int, width: int, length: int, place: Any) -> str:
    """A line of the table."""
    torch.manual_seed(0)
    net = GPT(way, layers, width, length)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    @torch.compile(keep_grads=False)
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("tpu"):
            loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    x = torch.zeros(BATCH, length, dtype=torch.int64)
    with torch.compiler.for_platform("tpu"):
        step(x, x)
    (program,) = step.programs()
    began = time.perf_counter()
    lowered = program.executable.lower(in_shardings=place, out_shardings=place)
    lowering = time.perf_counter() - began
    began = time.process_time()
    compiled = lowered.compile()
    seconds = time.process_time() - began
    memory = compiled.memory_analysis()
    parameters = 4 * sum(p.numel() for p in net.parameters())
    mib = [n / 2**20 for n in (parameters, memory.argument_size_in_bytes, memory.temp_size_in_bytes)]
    cells = [f"{n:.1f}" for n in mib] + [
        f"{lowering:.1f}",
        f"{seconds:.0f}",
        str(lowered.as_text().count("\n")),
    ]
    return " | ".join([way, *cells])


def main() -> None:
    """Print the table."""
    sizes = [int(a) for a in sys.argv[1:]] or [12, 256, 512]
    place = NamedSharding(Mesh(np.array(devices_of("v5e:2x2")[:1]), ("device",)), PartitionSpec())
    print("blocks | parameters, MiB | arguments | temporary | lower, s | compile, CPU s | lines of StableHLO")
    for way in ("scan_(remat=True)", "ScanStack, remat", "scan_()", "ScanStack", "one by one"):
        print(row(way, *sizes, place), flush=True)


if __name__ == "__main__":
    main()
