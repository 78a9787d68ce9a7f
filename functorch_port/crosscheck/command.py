"""``functorch-port crosscheck``: its options, and what it prints."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

__all__ = ["add_to", "main"]

HELP = "compare the optimizers with PyTorch's and optax's, number by number"

_DESCRIPTION = """\
Run this package's optimizers beside PyTorch's and optax's, and measure how far apart they get.

What is done: this package's optimizer minimizes a problem with exact gradients (numpy, float64). The others start
from the same parameters and are fed the same gradients, rounded to the same dtype. So whatever differs comes from
the update, and the first step shows it bare. With --own-gradients each gets the gradients at its own parameters, as
in training: then the problem magnifies rounding, and `rosenbrock` does so most.

What is shown, per optimizer and options:
  step 1, ulp    largest difference after one step, in units in the last place: of the largest of the value before,
                 the value after and the step, since where a step ends near zero the digits are lost to its start
  step 1, rel.   the same relative to the largest value of the tensor
  run, ...       the largest over all steps
  first off      the first step beyond the tolerance, and which entry of the state (or parameter) is furthest off:
                 where to look for the cause
  verdict        equal; DIFFERS (exit status 1); known difference (optax, explained below the table, with the flags
                 that remove it where there are some; such a call is then compared as well)

The problems: `convex` is a quadratic form in a matrix, a vector and a scalar; `rosenbrock` a curved valley in
twelve dimensions; `digits` a small network on handwritten digits; or your own, see below.

PyTorch and optax are used if they are installed; what is missing is named and left out."""

_EPILOG = """\
examples
  functorch-port crosscheck                                     all optimizers, 100 steps, float64
  functorch-port crosscheck --optimizer AdamW --dtype float32 --numbers 3
                                                                and three updates of each parameter, digit by digit
  functorch-port crosscheck --optimizer RMSprop,Adagrad --against optax
                                                                what optax does differently, without PyTorch
  functorch-port crosscheck --problem rosenbrock --steps 1000 --plot apart.png --json apart.json
  functorch-port crosscheck --problem mine:problem              mine.py: def problem(seed): return start, evaluate
                                                                with start = {name: array} and evaluate(params) ->
                                                                (loss, {name: gradient})
a training script of your own
  functorch-port crosscheck record train.py --epochs 1          runs it with PyTorch, writes crosscheck.npz
  functorch-port crosscheck replay crosscheck.npz               the recorded gradients through this package, PyTorch
                                                                and optax
exit status: 0 if all that must agree agrees, 1 if not, 2 for wrong usage

in Python
  from functorch_port import crosscheck
  report = crosscheck.compare("Adam", steps=10, dtype="float32"); report.ok
"""

_RECORD = """\
Run a training script and write down what one of its optimizers does: the first parameters, and for every step
gradients, hyperparameters and the parameters after it. `crosscheck replay` runs that through other libraries."""

_REPLAY = """\
Feed the recorded gradients to this package's optimizer, PyTorch's and optax's, with the recorded hyperparameters,
and compare with the recorded parameters. Exit status 1 if one is off by more than the tolerance."""


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    raw = argparse.RawDescriptionHelpFormatter
    top = commands.add_parser(
        "crosscheck", help=HELP, description=_DESCRIPTION, epilog=_EPILOG, formatter_class=raw
    )
    top.add_argument(
        "--optimizer", default="all", metavar="NAME", help="one, several with commas, or all (default)"
    )
    top.add_argument("--steps", type=int, default=100, metavar="N", help="default 100; LBFGS stops at 100")
    top.add_argument(
        "--dtype",
        default="float64",
        help="float64 (default), float32, bfloat16, float16; several with commas",
    )
    top.add_argument(
        "--against", default="torch,optax", metavar="LIBRARIES", help="torch, optax, or both (default)"
    )
    top.add_argument(
        "--problem", default="convex", help="convex (default), rosenbrock, digits, or module:function"
    )
    top.add_argument("--seed", type=int, default=0, help="of the problem (default 0)")
    top.add_argument(
        "--own-gradients", action="store_true", help="each library gets the gradients at its own parameters"
    )
    top.add_argument(
        "--list", action="store_true", help="show the optimizers and the options tried, and stop"
    )
    _add_output(top)
    actions = top.add_subparsers(dest="action", metavar="record | replay")

    record = actions.add_parser(
        "record", help="write down a training script's optimizer", description=_RECORD, formatter_class=raw
    )
    record.add_argument("--out", default="crosscheck.npz", help="file to write (default crosscheck.npz)")
    record.add_argument(
        "--library", choices=("torch", "ours"), default="torch", help="what `import torch` is"
    )
    record.add_argument(
        "--which", type=int, default=0, metavar="N", help="number of the optimizer (default 0)"
    )
    record.add_argument("--first", type=int, metavar="N", help="record the first N steps only")
    record.add_argument("script", metavar="SCRIPT", help="path of the script")
    record.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="passed on to the script")

    again = actions.add_parser(
        "replay", help="run a recording through other libraries", description=_REPLAY, formatter_class=raw
    )
    again.add_argument("file", metavar="FILE", help="what record wrote")
    again.add_argument(
        "--through", default="ours,torch,optax", metavar="LIBRARIES", help="default ours,torch,optax"
    )
    _add_output(again)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tolerance", type=float, metavar="X", help="relative error that passes (default: by dtype)"
    )
    parser.add_argument(
        "--ulps", type=float, default=4.0, metavar="X", help="of the first step that pass (default 4)"
    )
    parser.add_argument(
        "--numbers", type=int, default=0, metavar="K", help="show K updates of each parameter"
    )
    parser.add_argument("--json", metavar="FILE", help="write all figures, those of every step included")
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the relative error over the steps (needs matplotlib)"
    )
    parser.add_argument("--markdown", metavar="FILE", help="write the tables as a page of documentation")


def main(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="optax")
    try:
        if options.action == "record":
            return _record(options)
        return _replay(options) if options.action == "replay" else _compare(options)
    except (ValueError, ImportError, OSError, NotImplementedError, RuntimeError) as error:
        print(f"functorch-port crosscheck: {error}", file=sys.stderr)
        return 2


def _record(options: argparse.Namespace) -> int:
    from .recorder import Recording, record_script

    status = record_script(
        options.script,
        options.arguments,
        options.out,
        side=options.library,
        which=options.which,
        steps=options.first,
    )
    tape = Recording.load(options.out)
    print(
        f"{options.out}: {len(tape.params)} steps of {tape.meta['optimizer']}, {len(tape.start)} parameters"
    )
    return status


def _replay(options: argparse.Namespace) -> int:
    from .recorder import replay

    through = options.through.split(",")
    report = replay(
        options.file,
        through,
        tolerance=options.tolerance,
        first_ulps=options.ulps,
        numbers=options.numbers or 2,
    )
    return _show(
        [(f"{options.file}, replayed", report)], options, f"functorch-port crosscheck replay {options.file}"
    )


def _compare(options: argparse.Namespace) -> int:
    from .comparison import compare, show_options
    from .grids import configurations, names

    if options.list:
        for name in names():
            print(name)
            for choice in configurations(name):
                print(f"  {show_options(choice) or 'defaults'}")
        return 0
    wanted = "all" if options.optimizer == "all" else options.optimizer.split(",")
    reports = []
    for dtype in options.dtype.split(","):
        with _progress() as tell:
            report = compare(
                wanted,
                steps=options.steps,
                dtype=dtype,
                against=options.against.split(","),
                problem=options.problem,
                seed=options.seed,
                own_gradients=options.own_gradients,
                tolerance=options.tolerance,
                first_ulps=options.ulps,
                numbers=options.numbers or 2,
                progress=tell,
            )
        reports.append((f"{options.problem}, {dtype}, {options.steps} steps, seed {options.seed}", report))
    command = (
        f"functorch-port crosscheck --optimizer {options.optimizer} --steps {options.steps} --dtype {options.dtype} "
        f"--problem {options.problem} --seed {options.seed}{' --own-gradients' if options.own_gradients else ''}"
    )
    return _show(reports, options, command)


def _show(reports: list[tuple[str, Any]], options: argparse.Namespace, command: str) -> int:
    from . import report as out

    for title, report in reports:
        out.print_report(title, report)
        if options.numbers:
            out.print_numbers(report)
    plain = [report for _, report in reports]
    if options.json:
        keys = (
            "optimizer",
            "steps",
            "dtype",
            "against",
            "problem",
            "seed",
            "tolerance",
            "ulps",
            "file",
            "through",
        )
        out.save_json(options.json, plain, {k: getattr(options, k) for k in keys if hasattr(options, k)})
    if options.plot:
        out.plot(options.plot, plain, command.removeprefix("functorch-port "))
    if options.markdown:
        picture = Path(options.plot).name if options.plot else None
        Path(options.markdown).write_text(out.as_markdown(reports, command, picture))
    return 0 if all(report.ok for report in plain) else 1


class _progress:
    """A line on the terminal that says what runs now."""

    def __enter__(self) -> Any:
        self.shown = sys.stderr.isatty()
        return self.tell

    def tell(self, text: str) -> None:
        if self.shown:
            print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)

    def __exit__(self, *exc: object) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
