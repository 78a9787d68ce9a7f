"""The command ``functorch-port serve``."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from .._base.optional import optional

__all__ = ["add_to", "main"]

_DESCRIPTION = """\
Serve an exported program over HTTP. The file is one of torch.export.save; the model's code is not needed:

  program = torch.export.export(model.eval(), (x,), dynamic_shapes=({0: Dim("batch")},))
  torch.export.save(program, "model.pt2")

Requests that come at the same time are computed together, as far as the program has a size that counts
rows: it is compiled for 1, 2, 4, ... rows before /ready says yes. At the start it tries whether rows change
each other's results, and computes each request by itself if they do. --max-batch 1 does so always.

  POST /predict      the inputs by name, as JSON, .npz or safetensors; the outputs in the same way
  GET  /             what the program takes and gives, with a request to paste
  GET  /health       200 as long as the process lives
  GET  /ready        200 when it is compiled, 503 before, and while the server stops
  GET  /metrics      for Prometheus
  GET  /openapi.json for tools

Errors are JSON with "error" and the "field" that is wrong: 400 (cannot be read), 413 (too large), 415 (type
not known), 422 (not what the program is for), 503 (too many requests wait; has Retry-After), 504 (took too
long). SIGTERM and Ctrl-C: it listens no more, answers all that it has accepted, and exits with status 0.
One process computes on all cores or the accelerator; to use several, start several behind a balancer."""

_EPILOG = """\
examples
  functorch-port serve model.pt2
  curl -s localhost:8000/                                   has a request to paste
  functorch-port serve model.pt2 --max-batch 128 --max-wait-ms 5
                                                            more requests at once, each a little later
  functorch-port serve model.pt2 --host 0.0.0.0 --port 80   for other machines, too: there is no password
  JAX_PLATFORMS=cpu functorch-port serve model.pt2          JAX's own settings apply
needs: pip install 'functorch-port[serve]'
exit status: 0 after a signal, 1 if the program cannot be compiled, 2 if it cannot be served
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    parser = commands.add_parser(
        "serve",
        help="serve an exported program over HTTP",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("artifact", metavar="ARTIFACT", help="a file of torch.export.save")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine alone)"
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=8000,
        help="port to listen on; 0: a free one, which is printed (default: 8000)",
    )
    parser.add_argument(
        "--max-batch",
        type=_positive,
        default=32,
        metavar="ROWS",
        help="compute at most so many rows at once; 1: each request by itself (default: 32)",
    )
    parser.add_argument(
        "--max-wait-ms",
        type=_milliseconds,
        default=2.0,
        metavar="MS",
        help="how long a request may wait for others (default: 2)",
    )
    parser.add_argument(
        "--queue",
        type=_positive,
        default=256,
        metavar="N",
        help="accept at most so many requests that are not answered yet; others get 503 (default: 256)",
    )
    parser.add_argument(
        "--body-limit",
        type=_bytes,
        default=64 << 20,
        metavar="SIZE",
        help="refuse larger requests: a number of bytes, or such as 500kB and 64MB (default: 64MB)",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=30.0,
        metavar="S",
        help="give a request up after so many seconds (default: 30)",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; those are 0 to 65535")
    return int(text)


def _milliseconds(text: str) -> float:
    return _number(text, 0)


def _seconds(text: str) -> float:
    return _number(text, 0.001)


def _number(text: str, least: float) -> float:
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", text) or not least <= float(text) <= 86400e3:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from {least:g} on")
    return float(text)


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*(k|M|G)?B?", text)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no size, such as 500kB or 64MB")
    return int(found[1]) << {None: 0, "k": 10, "M": 20, "G": 30}[found[2]]


def main(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    try:
        for name, package in (
            ("uvicorn", None),
            ("starlette", None),
            ("prometheus_client", "prometheus-client"),
        ):
            optional(name, "functorch-port serve", "serve", package)
        from ._app import Limits
        from ._server import run

        limits = Limits(options.max_wait_ms / 1000, options.queue, options.body_limit, options.timeout)
        return run(options.artifact, options.host, options.port, options.max_batch, limits)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"functorch-port serve: {error}", file=sys.stderr)
        return 2
