"""Run the benchmarks: PyTorch against functorch_port against hand-written JAX, in one run on this machine."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import harness

BENCHMARKS = {
    "step": "step_time",
    "suite": "suite",
    "operations": "operations",
    "ops": "op_overhead",
    "calls": "call_overhead",
    "startup": "startup",
    "imports": "imports",
    "files": "files",
    "loading": "loading",
    "optim": "optim_step",
    "recurrent": "recurrent",
    "depth": "depth",
    "batch": "batch",
    "novelty": "novelty",
    "devices": "devices",
    "serve": "serve",
    "pod": "pod",
}
EPILOG = """\
what is measured
  step     seconds per training step of two MLPs and a CNN: torch eager, torch.compile, functorch_port
  eager and
           compiled, hand-written JAX
  suite    eleven models, a training step and a pass: torch eager, torch.compile, functorch_port eager and
           compiled, hand-written JAX; seconds to the second step and memory in fresh processes
  operations
           forty operations of the models' sizes, forward and with gradients: torch eager, functorch_port
           eager and compiled
  ops      microseconds per eager operation, beside torch and raw jax.numpy
  calls    what a compiled call costs on top of jax.jit, for 1 to 100 layers
  optim    seconds of an optimizer's step alone, for 10 to 3,000 tensors and for the shapes of ResNet-50 and
           ViT-B: torch (for-loop, foreach, fused), optax jitted, functorch_port; compiling and memory too
  recurrent
           seconds per training step of LSTM and GRU beside torch eager; compiling for lengths 25 to 400
  depth    compiling the training step of GPTs of 2 to 48 blocks, in a Sequential and in an nn.ScanStack
  batch    a training step of three models for batches of 1 to 256: torch eager, functorch_port eager and
           compiled
  startup  seconds to the first step in a fresh process, without and with cached programs
  imports  seconds of `import functorch_port` in a fresh process, beside jax, numpy and optax
  novelty  what something new costs: programs whose shapes come once, first steps, the examples as scripts, memory
           over 2,000 shapes; torch, functorch_port with an empty cache of programs and with a filled one
  devices  collectives, memory and host time of steps on 8 virtual devices, for a TPU of 16 chips if libtpu is
           there, and in 1 to 4 processes, beside hand-written JAX
  loading  a pass over a DataLoader with 0, 1 and 2 workers, of JPEG files and of small arrays, beside torch
  files    saving and loading a checkpoint of 2 GB beside torch: seconds, and memory beyond the tensors
  serve    `functorch-port serve`: requests a second and latency for 1, 8 and 64 clients, with and without batching
  pod      no times: the losses of `examples/gpt_pod.py` over 1,200 steps, beside a plain loop of PyTorch

how it is measured
  All contestants of a case are in one process and take turns, so that a busy machine hits them alike.
  Times are medians over the rounds, ratios are taken round by round; brackets hold the quartiles. A turn
  is a block of calls with one wait at its end, as a training loop runs. PyTorch and XLA get the same
  number of threads.

examples
  make bench                                        all of it, about an hour
  python benchmarks/run.py --quick                  all of it, roughly, in about five
  python benchmarks/run.py --only step --rounds 40  step times with tighter quartiles
  python benchmarks/run.py --threads 1              everybody on one core
  python benchmarks/run.py --only novelty --models graphs first
                                                    one program, and the first steps of all models
"""


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=f"some of: {', '.join(BENCHMARKS)}"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds, no torch.compile; for a first look"
    )
    parser.add_argument("--rounds", type=int, help="turns per contestant (default: 15, quick: 5)")
    parser.add_argument(
        "--threads", type=int, default=harness.cores(), help="threads for each library (default: all cores)"
    )
    parser.add_argument(
        "--no-torch-compile", action="store_true", help="leave out torch.compile, which compiles for minutes"
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=[],
        metavar="PART",
        help="those models of the suite, operations, cases of the optimizers or of novelty whose names have this part",
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="folder for JSON and PNG"
    )
    return parser.parse_args()


def main() -> None:
    """Run what was asked for."""
    options = arguments()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    harness.limit_threads(max(1, min(options.threads, harness.cores())))
    rounds = options.rounds or (5 if options.quick else 15)
    effort = harness.Effort(
        rounds=rounds,
        block=0.08 if options.quick else 0.15,
        starts=1 if options.quick else 3,
        torch_compile=not (options.quick or options.no_torch_compile),
        models=tuple(options.models),
    )
    options.out.mkdir(parents=True, exist_ok=True)
    harness.warn_if_busy()
    for key in options.only or BENCHMARKS:
        benchmark = importlib.import_module(BENCHMARKS[key])
        harness.console.rule(benchmark.TITLE)
        start = time.perf_counter()
        benchmark.run(options.out, effort)
        harness.console.print(f"[dim]{time.perf_counter() - start:.0f} s[/dim]\n")
    harness.console.print(f"JSON and plots are in {options.out}")


if __name__ == "__main__":
    main()
