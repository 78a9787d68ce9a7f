"""The command ``functorch-port crosscheck``."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from functorch_port import launcher

from ._problems import Missing, WrongUse, found

__all__ = ["add_to", "main"]

HELP = "compare the optimizers with PyTorch's and optax's, number by number"

_DESCRIPTION = """\
Run this package's optimizers beside PyTorch's and optax's, and measure the differences of their parameters.

Method: this package's optimizer minimizes a problem with exact gradients (numpy, float64). The others start from the
same parameters and get the same gradients, rounded to the same dtype. So all differences come from the update, and
the first step shows them without any amplification. With --own-gradients each library gets the gradients at its own
parameters, as in training; then the problem amplifies rounding errors, `rosenbrock` most.

Output, per optimizer and options:
  step 1, ulp    largest difference after one step, in units in the last place of the largest of the value before,
                 the value after and the step, since a step that ends near zero loses the digits of its start
  step 1, rel.   the same, relative to the largest value of the tensor
  run, ...       the largest difference over all steps
  first off      the first step beyond the tolerance, and the entry of the state (or parameter) with the largest
                 difference, its index and both values: where to look for the cause
  verdict        equal; DIFFERS (exit status 1); known difference (optax; explained below the table, with the flags
                 that remove it where there are some: that call is then compared as well)

The problems: `convex` is a quadratic form in a matrix, a vector and a scalar; `rosenbrock` a curved valley in
twelve dimensions; `digits` a small network on handwritten digits; or your own, see below.

PyTorch and optax are used if they are installed; the report names what is missing."""

_EPILOG = """\
examples
  functorch-port crosscheck                                     all optimizers, 100 steps, float64
  functorch-port crosscheck --optimizer AdamW --dtype float32 --numbers 3
                                                                and three updates of each parameter, digit by digit
  functorch-port crosscheck --optimizer Adam --set lr=.02 betas=.9,.95 amsgrad=true
                                                                these options, in place of the built-in ones
  functorch-port crosscheck --optimizer RMSprop,Adagrad --against optax
                                                                what optax does differently, without PyTorch
  functorch-port crosscheck --problem rosenbrock --steps 1000 --plot errors.png --json errors.json

something of your own
  functorch-port crosscheck --problem mine:problem              mine.py: def problem(seed): return start, evaluate
                                                                with start = {name: array} and evaluate(params) ->
                                                                (loss, {name: gradient})
  functorch-port crosscheck --optimizer SGD --set lr=.1 momentum=.9 --optax mine:sgd
                                                                mine.py: def sgd(lr, momentum): return optax.chain(...)
                                                                it gets the options that are among its parameters;
                                                                or sgd = optax.chain(...)

a training script of your own
  functorch-port crosscheck record train.py --epochs 1          runs it with PyTorch, writes crosscheck.npz
  functorch-port crosscheck replay crosscheck.npz               the recorded gradients through this package, PyTorch
                                                                and optax
exit status: 0 if no verdict is DIFFERS, 1 if one is, 2 for wrong usage or if there was nothing to compare

in Python
  from functorch_port import crosscheck
  report = crosscheck.compare("Adam", steps=10, dtype="float32"); report.ok
"""

_RECORD = """\
Run a training script and record one of its optimizers: the initial parameters, and for every step the gradients, the
hyperparameters, and the parameters and the state after it. `crosscheck replay` runs the recording through other
libraries. Closures (L-BFGS), schedules, several parameter groups and optimizers of your own are recorded, too.

Meanwhile compiled functions run eagerly, so that each step can be observed. Recordings grow with the model and the
number of steps: --first N stops after N. If the script fails, its traceback is shown and no file is written, unless
--first N is set and N steps were recorded."""

_RECORD_EPILOG = """\
examples
  functorch-port crosscheck record --first 20 train.py --epochs 1    options of `record` come before the script
  functorch-port crosscheck record --which 1 --out d.npz gan.py      the second optimizer, in the order of first steps
  functorch-port crosscheck record --library ours train.py           `import torch` is this package
  functorch-port crosscheck record -m mypackage.train --epochs 1     as `python -m`
exit status: the script's
"""

_REPLAY = """\
Feed the recorded gradients to this package's optimizer, PyTorch's and optax's, with the recorded hyperparameters,
and compare with the recorded parameters. For optax this uses the counterpart in its table (docs/crosscheck.md shows
it) with the hyperparameters of every group and step, or a transformation of your own."""

_REPLAY_EPILOG = """\
examples
  functorch-port crosscheck replay crosscheck.npz
  functorch-port crosscheck replay crosscheck.npz --through torch --numbers 2
  functorch-port crosscheck replay crosscheck.npz --through optax --optax mine:adam
                                              mine.py: def adam(lr, betas): return optax.chain(...), or a transformation
  functorch-port crosscheck replay crosscheck.npz --optimizer mine:Lion
                                              for an optimizer class of your own: mine.py defines it, and does not
                                              train when it is imported
  functorch-port crosscheck replay crosscheck.npz --optimizer RAdam
                                              what another optimizer would have done with these gradients
exit status: 0 if all are within the tolerance, 1 if one is not, 2 if there was nothing to compare
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    raw = argparse.RawDescriptionHelpFormatter
    top = commands.add_parser(
        "crosscheck",
        help=HELP,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=raw,
        allow_abbrev=False,  # an option of the script must not be read as an abbreviation
    )
    top.add_argument(
        "--optimizer",
        default="all",
        metavar="NAME",
        help="one, several separated by commas, or all (default)",
    )
    top.add_argument(
        "--set",
        nargs="+",
        dest="options",
        metavar="NAME=VALUE",
        type=_option,
        help="options of the optimizer, instead of the built-in configurations",
    )
    top.add_argument("--steps", type=int, default=100, metavar="N", help="default 100; LBFGS stops at 100")
    top.add_argument(
        "--dtype",
        default="float64",
        help="float64 (default), float32, bfloat16, float16; several separated by commas",
    )
    top.add_argument(
        "--against", default="torch,optax", metavar="LIBRARIES", help="torch, optax, or both (default)"
    )
    top.add_argument(
        "--problem", default="convex", help="convex (default), rosenbrock, digits, or module:function"
    )
    top.add_argument("--seed", type=int, default=0, help="seed of the problem (default 0)")
    top.add_argument(
        "--own-gradients", action="store_true", help="give each library the gradients at its own parameters"
    )
    top.add_argument(
        "--list", action="store_true", help="list the optimizers and their configurations, and exit"
    )
    _add_output(top, None)
    actions = top.add_subparsers(dest="action", metavar="record | replay")

    record = actions.add_parser(
        "record",
        help="record an optimizer of a training script",
        description=_RECORD,
        epilog=_RECORD_EPILOG,
        formatter_class=raw,
        allow_abbrev=False,
    )
    record.add_argument("--out", default="crosscheck.npz", help="file to write (default crosscheck.npz)")
    record.add_argument(
        "--library",
        choices=("torch", "ours"),
        default="torch",
        help="the library that `import torch` imports",
    )
    record.add_argument(
        "--which",
        type=int,
        default=0,
        metavar="N",
        help="index of the optimizer, in the order of first steps (default 0)",
    )
    record.add_argument("--first", type=int, metavar="N", help="record only the first N steps")
    launcher.add_to(record)

    again = actions.add_parser(
        "replay",
        help="run a recording through other libraries",
        description=_REPLAY,
        epilog=_REPLAY_EPILOG,
        formatter_class=raw,
    )
    again.add_argument("file", metavar="FILE", help="a recording")
    again.add_argument(
        "--through", default="ours,torch,optax", metavar="LIBRARIES", help="default ours,torch,optax"
    )
    again.add_argument(
        "--optimizer",
        default=None,
        metavar="NAME",
        help="a name of torch.optim, or module:Class (default: the recorded one)",
    )
    _add_output(again, argparse.SUPPRESS)


def _add_output(parser: argparse.ArgumentParser, unset: Any) -> None:
    """Add the options that both commands have; ``unset`` is the default that keeps the outer parser's."""

    def add(name: str, default: Any, text: str, **kind: Any) -> None:
        parser.add_argument(name, default=default if unset is None else unset, help=text, **kind)

    add("--optax", None, "a transformation of your own, or a function that makes it", metavar="MODULE:NAME")
    add(
        "--tolerance", None, "largest relative error that passes (default: by dtype)", type=float, metavar="X"
    )
    add(
        "--ulps",
        4.0,
        "largest difference in the first step that passes, in ulp (default 4)",
        type=float,
        metavar="X",
    )
    add("--numbers", 0, "show K updates of each parameter", type=int, metavar="K")
    add("--json", None, "write all results as JSON, with those of every step", metavar="FILE")
    add("--plot", None, "plot the relative error over the steps (needs matplotlib)", metavar="FILE")
    add("--markdown", None, "write the tables as a page of Markdown", metavar="FILE")


def _option(text: str) -> tuple[str, Any]:
    """Parse an option: ``lr=.02``, ``betas=.9,.95``, ``amsgrad=true``, ``adjust_lr_fn=original``."""
    name, equals, value = text.partition("=")
    if not name.isidentifier() or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as lr=.02 or betas=.9,.95")
    parts = [_value(part.strip()) for part in value.strip("()").split(",")]
    return name, parts[0] if len(parts) == 1 else tuple(parts)


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        pass
    try:
        return float(text)  # nan, inf
    except ValueError:
        return text


def main(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="optax")
    try:
        _check_files(options)
        if options.action == "record":
            return _record(options)
        return _replay(options) if options.action == "replay" else _compare(options)
    except (WrongUse, FileNotFoundError) as error:
        print(f"functorch-port crosscheck: {error}", file=sys.stderr)
    except Exception:  # a bug here or in the user's code
        traceback.print_exc()
    return 2


def _check_files(options: argparse.Namespace) -> None:
    """Check that the output files can be written, before the work begins."""
    for name in ("out", "json", "plot", "markdown"):
        path = getattr(options, name, None)
        if path is None:
            continue
        place = Path(path).resolve()
        if place.is_dir() or not place.parent.is_dir():
            what = "is a folder" if place.is_dir() else f"there is no folder {place.parent}"
            raise WrongUse(f"--{name} {path}: {what}")
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        raise Missing("--plot needs matplotlib: pip install 'functorch-port[examples]'")
    if options.plot:
        from matplotlib.backend_bases import FigureCanvasBase

        known = FigureCanvasBase.get_supported_filetypes()
        if Path(options.plot).suffix[1:] not in known:
            raise WrongUse(f"--plot {options.plot}: the name must end in one of {', '.join(known)}")


def _record(options: argparse.Namespace) -> Any:
    from ._recorder import record_script

    what, arguments, how = launcher.given(options)
    status, written, told = record_script(
        what,
        arguments,
        options.out,
        how,
        side=options.library,
        which=options.which,
        steps=options.first,
    )
    if written:
        print(told)
    else:
        print(f"functorch-port crosscheck record: {told}", file=sys.stderr)
    return status


def _replay(options: argparse.Namespace) -> int:
    from ._player import replay

    report = replay(
        options.file,
        options.through.split(","),
        optimizer=options.optimizer,
        optax=_own(options),
        tolerance=options.tolerance,
        first_ulps=options.ulps,
        numbers=options.numbers or 2,
    )
    command = f"functorch-port crosscheck replay {options.file}"
    return _show([(f"{options.file}, replayed", report)], options, command)


def _own(options: argparse.Namespace) -> Any:
    """The user's optax transformation, or None."""
    return None if options.optax is None else found(options.optax, "optax")


def _compare(options: argparse.Namespace) -> int:
    from ._comparison import compare, optimizers, show_options
    from ._grids import configurations

    wanted = "all" if options.optimizer == "all" else options.optimizer.split(",")
    if options.list:
        for name in optimizers(wanted):
            print(name)
            for choice in configurations(name):
                print(f"  {show_options(choice) or 'defaults'}")
        return 0
    chosen = None if options.options is None else dict(options.options)
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
                options=chosen,
                optax=_own(options),
                progress=tell,
            )
        reports.append((f"{options.problem}, {dtype}, {options.steps} steps, seed {options.seed}", report))
    command = (
        f"functorch-port crosscheck --optimizer {options.optimizer} --steps {options.steps} --dtype {options.dtype} "
        f"--problem {options.problem} --seed {options.seed}{' --own-gradients' if options.own_gradients else ''}"
        f"{f' --set {show_options(chosen)}' if chosen else ''}"
    )
    return _show(reports, options, command)


def _show(reports: list[tuple[str, Any]], options: argparse.Namespace, command: str) -> int:
    from . import _report as out

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
            "optax",
        )
        out.save_json(options.json, plain, {k: getattr(options, k) for k in keys if hasattr(options, k)})
    if options.plot:
        out.plot(options.plot, plain, command.removeprefix("functorch-port "))
    if options.markdown:
        picture = Path(options.plot).name if options.plot else None
        out.write(options.markdown, out.as_markdown(reports, command, picture))
    if any(r.verdict == "differs" for report in plain for r in report.results):
        return 1
    return 0 if all(report.ok for report in plain) else 2


class _progress:
    """A status line on the terminal."""

    def __enter__(self) -> Any:
        self.shown = sys.stderr.isatty()
        return self.tell

    def tell(self, text: str) -> None:
        if self.shown:
            print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)

    def __exit__(self, *exc: object) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
