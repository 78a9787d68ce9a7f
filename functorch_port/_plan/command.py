"""The command ``functorch-port plan``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .._base.atomic import atomic
from . import worker
from .report import Plan

__all__ = ["add_to", "main"]

_DESCRIPTION = """\
Compile a training step for a TPU pod, on any machine, and say whether it fits there. Nothing runs, and no
memory is taken for weights: modules and inputs are on the meta device, which has shapes alone.

The script has a function that returns the step, and what it is called with:

  import torch
  from torch.distributed.fsdp import fully_shard
  from torch.distributed.sharding import shard
  from jax.sharding import PartitionSpec as P

  def build(mesh, batch=256):
      with torch.device("meta"):
          net, x = Net(), torch.zeros(batch, 1024)
      for block in net.blocks:
          fully_shard(block, mesh=mesh)
      fully_shard(net, mesh=mesh)
      shard(x, P("fsdp"), mesh)
      optimizer = torch.optim.AdamW(net.parameters())

      @torch.compile(keep_grads=False)
      def step(x):
          optimizer.zero_grad()
          loss = net(x).square().mean()
          loss.backward()
          optimizer.step()
          return loss

      return step, [x]

It gets, by name, those of mesh, batch, dtype, remat that it asks for."""

_EPILOG = """\
examples
  functorch-port plan train.py:build --topology v5e:16x16
  functorch-port plan train.py:build --topology v5e:16x16 --mesh fsdp=64,tp=4 --batch 512 --dtype bf16
  functorch-port plan train.py:build --topology cpu:8       virtual devices: quick, to try a script out
  functorch-port plan train.py:build --topology v5e:4x4 --json plan.json --html plan.html --price 1.2
  functorch-port plan train.py:build --topology h100:16     GPUs, on paper: nothing is compiled for them

A pod's compiler takes from seconds to many minutes; what it has said is kept on disk (FUNCTORCH_PORT_CACHE).
needs: pip install 'functorch-port[tpu,viz]', for TPUs and tables
exit status: 0 it fits, 1 it does not fit, 2 it could not be planned
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    parser = commands.add_parser(
        "plan",
        help="say whether a training step fits on a TPU pod that is not here",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("script", metavar="SCRIPT.py:FUNCTION", help="what returns the step (default: build)")
    parser.add_argument(
        "--topology", required=True, help="the pod: a kind and its chips, as v5e:16x16; cpu:8 for a try"
    )
    parser.add_argument(
        "--mesh", metavar="NAME=SIZE,...", help="dimensions of the mesh (default: fsdp, of all devices)"
    )
    parser.add_argument("--batch", metavar="ROWS", help="what build gets as batch")
    parser.add_argument("--dtype", help="what build gets as dtype: bf16, fp16, fp32, ...")
    parser.add_argument(
        "--remat", nargs="?", const="true", metavar="HOW", help="what build gets as remat: True, or the text"
    )
    parser.add_argument(
        "--tokens",
        type=int,
        metavar="N",
        help="tokens of a step (default: those of a first argument of tokens)",
    )
    parser.add_argument(
        "--price", type=float, metavar="X", help="of a chip for an hour, for the price of tokens"
    )
    parser.add_argument("--json", metavar="FILE", help="write all of it there; -: to the standard output")
    parser.add_argument("--html", metavar="FILE", help="write a page with pictures there")
    parser.add_argument(
        "--time-limit",
        type=_seconds,
        default=1800.0,
        metavar="S",
        help="give up after so many seconds; 0: never (default: 1800)",
    )


def _seconds(text: str) -> float:
    found = float(text)
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError("seconds are a number that is not negative")
    return found


def main(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    given = {name: getattr(options, name) for name in ("mesh", "batch", "dtype", "remat")}
    question = worker.Question(
        options.script, options.topology, {name: text for name, text in given.items() if text is not None},
        options.tokens, options.price,
    )  # fmt: skip
    files = {"--json": None if options.json == "-" else options.json, "--html": options.html}
    for option, path in files.items():
        if path and (os.path.isdir(path) or not os.path.isdir(os.path.dirname(os.path.abspath(path)))):
            print(
                f"functorch-port plan: {option} {path}: there is no folder for such a file", file=sys.stderr
            )
            return 2
    try:
        with _progress(options.topology) as tell:
            text = worker.run(question, tell, options.time_limit or None)
    except worker.Failed as error:
        print(f"functorch-port plan: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("functorch-port plan: interrupted", file=sys.stderr)
        return 130
    found = Plan.from_json(text)
    for option, path in files.items():
        try:
            if path:
                _write(path, found.to_json() if option == "--json" else found.to_html())
        except OSError as error:
            print(f"functorch-port plan: {path} cannot be written: {error.strerror}", file=sys.stderr)
            _show(found)
            return 2
    if options.json == "-":
        print(found.to_json())
    else:
        _show(found)
    return 1 if found.fits is False else 0


def _write(path: str, text: str) -> None:
    with atomic(path) as file:
        file.write(f"{text}\n".encode())


def _show(found: Plan) -> None:
    try:
        from rich.console import Console
    except ImportError:
        print(found, flush=True)
        return
    console = Console()
    if console.is_terminal:
        console.print(found)
    else:
        print(found, flush=True)


@contextmanager
def _progress(topology: str) -> Iterator[Callable[[str], None]]:
    """A line that says what is done and for how long, if rich is installed and stderr is a terminal."""
    start, now = time.monotonic(), ["starting"]
    try:
        from rich.console import Console
    except ImportError:
        yield lambda phase: None
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda phase: None
        return

    def line() -> str:
        passed = int(time.monotonic() - start)
        return f"{topology}: {now[0]}  {passed // 60}:{passed % 60:02}"

    with console.status(line()) as status:

        def tell(phase: str) -> None:
            if phase:
                now[0] = phase
            status.update(line())

        yield tell
