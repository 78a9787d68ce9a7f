"""The command ``functorch-port plan``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from .._base.atomic import atomic
from . import trying, worker
from .report import Plan
from .sweep import layouts

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

It gets, by name, those of mesh, batch, length, dtype, remat, microbatches that it asks for.

If the step does not fit, other options are tried, and what each leads to is shown. --sweep plans several
layouts and ranks them: sizes of the mesh (--mesh fsdp,tp without numbers), remat and microbatches, those
that build asks for and no option gives."""

_EPILOG = """\
examples
  functorch-port plan train.py:build --topology v5e:16x16
  functorch-port plan train.py:build --topology v5e:16x16 --mesh fsdp=64,tp=4 --batch 512 --dtype bf16
  functorch-port plan train.py:build --topology v5e:8x8 --mesh fsdp,tp --sweep 12 --html plan.html
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
    parser.add_argument("--length", metavar="N", help="what build gets as length: tokens of a row")
    parser.add_argument("--dtype", help="what build gets as dtype: bf16, fp16, fp32, ...")
    parser.add_argument(
        "--remat", nargs="?", const="true", metavar="HOW", help="what build gets as remat: True, or the text"
    )
    parser.add_argument(
        "--microbatches", metavar="N", help="what build gets as microbatches: parts of the batch"
    )
    parser.add_argument(
        "--sweep",
        nargs="?",
        const=12,
        type=_count,
        metavar="N",
        help="plan several layouts and rank them; compile N at most (default: 12)",
    )
    parser.add_argument(
        "--suggestions",
        type=_count_or_none,
        default=4,
        metavar="N",
        help="if it does not fit, compile N other options at most; 0: none (default: 4)",
    )
    parser.add_argument(
        "--tokens",
        type=_tokens,
        metavar="N",
        help="tokens of a step (default: those of a first argument of tokens)",
    )
    parser.add_argument(
        "--price", type=_price, metavar="X", help="of a chip for an hour, for the price of tokens"
    )
    parser.add_argument("--json", metavar="FILE", help="write all of it there; -: to the standard output")
    parser.add_argument("--html", metavar="FILE", help="write a page with pictures there")
    parser.add_argument(
        "--time-limit",
        type=_seconds,
        default=1800.0,
        metavar="S",
        help="give up a plan after so many seconds; 0: never (default: 1800)",
    )


def _count(text: str) -> int:
    return _whole(text, "compilations")


def _count_or_none(text: str) -> int:
    return 0 if text == "0" else _count(text)


def _tokens(text: str) -> int:
    return _whole(text, "tokens")


def _whole(text: str, what: str) -> int:
    """An integer of at least 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"a number of {what} is at least 1, got {text}")
    return int(text)


def _seconds(text: str) -> float:
    return _number(text, "seconds are")


def _price(text: str) -> float:
    return _number(text, "a price is")


def _number(text: str, what: str) -> float:
    """A number that is finite and not negative."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"{what} a number that is not negative, got {text}")
    return found


def main(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    given = {name: getattr(options, name) for name in worker.OPTIONS}
    question = worker.Question(
        options.script, options.topology, {name: text for name, text in given.items() if text is not None},
        options.tokens, options.price,
    )  # fmt: skip
    files = {"--json": None if options.json == "-" else options.json, "--html": options.html}
    wrong = _wrong_files(files)
    if wrong:
        return _failed(wrong)
    look = _swept if options.sweep else _planned
    try:
        with _progress(options.topology) as tell:
            found, interrupted = look(question, options, tell)
    except (worker.Failed, ValueError) as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        _failed("interrupted")
        return 130
    for option, path in files.items():
        try:
            if path is not None:
                _write(path, found.to_json() if option == "--json" else found.to_html())
        except OSError as error:
            _show(found)
            return _failed(f"{path} cannot be written: {error.strerror}")
    try:
        if options.json == "-":
            print(found.to_json(), flush=True)
        else:
            _show(found)
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is flushed once more
        return _failed(f"the standard output cannot be written: {error.strerror}")
    return 130 if interrupted else 1 if found.fits is False else 0


def _wrong_files(files: Mapping[str, str | None]) -> str:
    """What is wrong with where to write; empty if nothing is. It is asked before the compiler works for minutes."""
    for option, path in files.items():
        if path is None:
            continue
        if not path or path == "-":
            return f"{option} {path!r}: expected the name of a file"
        if os.path.isdir(path):
            return f"{option} {path}: that is a folder, expected the name of a file"
        if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            return f"{option} {path}: there is no folder for such a file"
    paths = [os.path.realpath(path) for path in files.values() if path is not None]
    if len(set(paths)) < len(paths) and (os.path.isfile(paths[0]) or not os.path.exists(paths[0])):
        return (
            f"{' and '.join(files)} {paths[0]}: expected two files, as the second is written over the first"
        )
    return ""


def _failed(why: str) -> int:
    print(f"functorch-port plan: {why}", file=sys.stderr)
    return 2


def _planned(question: worker.Question, options: argparse.Namespace, tell: trying.Tell) -> tuple[Plan, bool]:
    """The plan, and if it does not fit what other options lead to; and whether it was interrupted."""
    limit = options.time_limit or None
    found = Plan.from_json(worker.run(question, tell, limit))
    if found.fits is not False or not options.suggestions:
        return found, False
    try:
        takes = worker.takes(question, tell, limit)
        for one in trying.tried(question, takes, found, options.suggestions, tell, limit):
            found.tried.append(asdict(one))
    except KeyboardInterrupt:
        return found, True
    absent = [name for name in ("remat", "microbatches") if name not in takes]
    if absent:
        found.notes.append(
            f"The function does not ask for {' and '.join(absent)}: if it does, plan tries that, too."
        )
    return found, False


def _swept(question: worker.Question, options: argparse.Namespace, tell: trying.Tell) -> tuple[Plan, bool]:
    """The plan of the best layout, with the ranking; and whether it was interrupted."""
    limit = options.time_limit or None
    takes = worker.takes(question, tell, limit)
    ranking, best = trying.swept(question, takes, options.sweep, tell, limit)
    if best is None and ranking.interrupted:
        raise KeyboardInterrupt
    if best is None:
        lines = [f"  {name}: {problem}" for name, *_, problem in layouts(ranking)]
        raise worker.Failed("\n".join(["none of the layouts could be planned", *lines]))
    best.sweep = ranking.to_dict()
    return best, ranking.interrupted


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
