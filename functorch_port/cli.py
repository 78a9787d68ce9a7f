"""The command ``functorch-port``: run scripts, convert files, serve models, plan pods, compare optimizers."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Iterator
from typing import Any

import jax

import functorch_port as torch
from functorch_port import launcher
from functorch_port._array import tracing
from functorch_port._base import cache, settings
from functorch_port._plan import command as planning
from functorch_port._serve import _command as serve
from functorch_port._survey import command as checking
from functorch_port.crosscheck import _command as crosscheck
from functorch_port.distributed import run as launch
from functorch_port.interchange import _command as files
from functorch_port.version import __version__, torch_release

__all__ = ["main"]

_DESCRIPTION = f"""\
functorch_port {__version__}: PyTorch's training stack on JAX.

Two ways to use it:
  functorch-port run train.py          runs an unchanged script, whose `import torch` imports this package
  import functorch_port as torch       in your own code

A seed gives the numbers of PyTorch {torch_release}: initial weights, shuffles, dropout, steps."""

_EPILOG = """\
examples:
  functorch-port run train.py --epochs 3 --lr 0.1     everything after the script is the script's
  functorch-port run -m mypackage.train --epochs 3    as `python -m`
  functorch-port launch --nproc 2 train.py            in several processes, as torchrun
  functorch-port crosscheck --optimizer AdamW         compare the updates with PyTorch's and optax's
  functorch-port inspect model.safetensors            show the content of a checkpoint
  functorch-port convert model.pt model.safetensors   convert a checkpoint to another format
  functorch-port serve model.pt2                      serve a program of torch.export over HTTP
  functorch-port plan train.py:build --topology v5e:16x16
                                                      say whether a step fits on a TPU pod that is not here
  functorch-port check train.py                       say what a script needs that is not here
  functorch-port info                                 show versions, devices, settings
  JAX_PLATFORMS=cpu functorch-port run train.py       JAX's own settings apply, here: use the CPU
"""

_RUN = f"""\
Run an unchanged PyTorch script: `import torch`, `import torch.nn.functional as F`,
`from torch.utils.data import DataLoader` and the rest import functorch_port.
PyTorch is never loaded; it need not be installed.

A name that functorch_port lacks raises an error with its full name, such as
  torch.fft.fftt: functorch_port {__version__} does not have it. Close: torch.fft.fft, torch.fft.rfft, torch.fft.ifft
Exit status, sys.argv and sys.path are as with `python SCRIPT`. Processes that the script starts by
multiprocessing (method spawn) are run so, too; those by subprocess import the real `torch`."""

_RUN_EPILOG = """\
examples
  functorch-port run train.py --epochs 3 -- data      the script gets the same arguments as from `python`
  functorch-port run train.py --help                  the script's own help
  functorch-port run -m mypackage.train --epochs 3    as `python -m`
  functorch-port run -c 'import torch; print(torch.ones(2))'
  FUNCTORCH_PORT_RNG=torch functorch-port run train.py
                                                      compiled steps draw PyTorch's random numbers, too;
                                                      the other variables: functorch-port info --help
"""

_INFO = """\
Print the versions, the devices that JAX has, and the settings that change numbers or speed.

environment variables, read when functorch_port is imported
"""


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="functorch-port", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=raw
    )
    parser.add_argument("--version", action="version", version=f"functorch_port {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    run = commands.add_parser(
        "run",
        help="run an unchanged PyTorch script",
        description=_RUN,
        epilog=_RUN_EPILOG,
        formatter_class=raw,
        allow_abbrev=False,
    )
    launcher.add_to(run)

    launch.add_to(
        commands.add_parser(
            "launch",
            help="run a script in several processes",
            description=launch.DESCRIPTION,
            epilog=launch.EPILOG,
            formatter_class=raw,
            allow_abbrev=False,
        )
    )

    crosscheck.add_to(commands)
    files.add_to(commands)
    serve.add_to(commands)
    planning.add_to(commands)
    checking.add_to(commands)

    text = _INFO + "\n".join(f"  {name:<29}{settings.VARIABLES[key].meaning}" for name, key in _names())
    info = commands.add_parser(
        "info", help="show versions, devices and settings", description=text, formatter_class=raw
    )
    info.add_argument("--json", action="store_true", help="print as JSON")
    return parser


def _names() -> list[tuple[str, str]]:
    return [(f"FUNCTORCH_PORT_{key}", key) for key in settings.VARIABLES]


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    with _until_the_reader_goes():
        options = _parser().parse_args(argv)
        if options.command != "run":
            return _command(options)
    try:
        given = launcher.given(options)
    except FileNotFoundError as error:
        print(f"functorch-port: {error}", file=sys.stderr)
        return 2
    return launcher.run(*given)


@contextlib.contextmanager
def _until_the_reader_goes() -> Iterator[None]:
    """End with a shell's status for it, not a traceback, if nobody reads the output any more, as after ``head``."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # it is where the caller closed it
                sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more
        sys.exit(128 + 13)  # SIGPIPE; rich, which prints tables, has made 1 of it


def _command(options: argparse.Namespace) -> int:
    """Run a command that is not ``run``."""
    if options.command == "info":
        facts = info()
        print(json.dumps(facts, indent=2) if options.json else _as_text(facts))
        return 0
    if options.command == "launch":
        return launch.run(options)
    if options.command == "crosscheck":
        return crosscheck.main(options)
    if options.command in ("convert", "inspect"):
        return files.main(options)
    if options.command == "plan":
        return planning.main(options)
    if options.command == "check":
        return checking.main(options)
    return serve.main(options)


def info() -> dict[str, dict[str, Any]]:
    """Versions, devices and settings, by section."""
    versions = {
        name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy", "optax", "ml_dtypes")
    }
    found = cache.stats()
    return {
        "versions": {
            "functorch_port": __version__,
            "behaves as PyTorch": torch_release,
            "python": platform.python_version(),
            **versions,
        },
        "devices": {
            "backend": jax.default_backend(),
            **{str(device): device.device_kind for device in jax.local_devices()},
            "processes": jax.process_count(),
            "cpu cores": os.cpu_count(),
        },
        "settings": {
            "64-bit types (FUNCTORCH_PORT_X64)": bool(tracing.X64),
            "default dtype": str(torch.get_default_dtype()),
            "default device": str(torch.get_default_device()),
            "float32 matmul precision": torch.get_float32_matmul_precision(),
            "compilation cache (FUNCTORCH_PORT_CACHE)": cache.directory() or "off",
            "backend (FUNCTORCH_PORT_BACKEND)": settings.get("BACKEND"),
            **{name: say() for name, say in settings.facts.items()},
            "random numbers in compiled functions (FUNCTORCH_PORT_RNG)": settings.get("RNG"),
            "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "not set"),
            "XLA_FLAGS": os.environ.get("XLA_FLAGS", "not set"),
        },
        "environment variables": {
            name: "auto" if (value := settings.get(key)) is None else value for name, key in _names()
        },
        "compilation cache": {
            "files": found.files,
            "megabytes": round(found.bytes / 1e6, 1),
            "hits of this process": found.hits,
            "misses of this process": found.misses,
        },
    }


def _as_text(facts: dict[str, dict[str, Any]]) -> str:
    width = max(len(name) for section in facts.values() for name in section)
    lines = []
    for title, section in facts.items():
        lines += [title, *(f"  {name:<{width}}  {value}" for name, value in section.items())]
    return "\n".join(lines)
