"""The commands ``functorch-port convert`` and ``functorch-port inspect``."""

from __future__ import annotations

import argparse
import json
import logging
import pickle
import re
import sys
import traceback
from collections import Counter
from typing import Any

from .._base import dtypes
from .._base.bars import bars

__all__ = ["add_to", "main"]

_FORMATS = """\
formats: a source's is found from its content, a target's from the extension of its name
  .pt .pth .bin .ckpt .tar     PyTorch's (torch.save); read with weights_only=True, so no code runs
  .safetensors                 safetensors; a folder with an index of several files is read, too
  .npz                         numpy; bfloat16 and float8 are stored as bytes and restored exactly
  .orbax, or no extension      an orbax checkpoint (a folder)
safetensors and orbax need their libraries: pip install 'functorch-port[safetensors,orbax]'"""

_CONVERT = f"""\
Convert a checkpoint between the formats of PyTorch, safetensors, numpy and orbax. Without --keys and --only the whole
content is converted: nested dicts and lists, numbers and strings, optimizer states. What a format cannot hold is stored
as JSON beside the tensors. A safetensors file stores tied weights once, with the other names as metadata; .npz files
and orbax store each.

{_FORMATS}

names
  The name of an entry is its dotted path: the weight in {{"model": {{"fc.weight": ...}}}} is model.fc.weight
  (`functorch-port inspect` shows the names). With --keys or --only the result is a plain state dict of the selected
  tensors under their new names, without numbers and strings."""

_CONVERT_EPILOG = r"""examples
  functorch-port convert model.pt model.safetensors
  functorch-port convert model.safetensors half.safetensors --dtype bfloat16
  functorch-port convert llama/ llama.pt                          a folder with model.safetensors.index.json
  functorch-port convert train.pt model.safetensors --only '^model\.' --keys '^model\.='
                                                                  only the model of a larger checkpoint
  functorch-port convert ddp.pt model.npz --keys '^module\.=' '\.gamma$=.weight' '\.beta$=.bias'
  functorch-port convert a.pt b.orbax --keys 'layers\.(\d+)=blocks.\1'
exit status: 0, or 2 if the conversion failed
"""

_INSPECT = f"""\
Show the content of a checkpoint: the names, shapes, dtypes and sizes of its tensors, which names share a tensor, and
all other values. The values of tensors are not read.

{_FORMATS}"""

_INSPECT_EPILOG = """\
examples
  functorch-port inspect model.pt
  functorch-port inspect llama/                       a folder with model.safetensors.index.json
  functorch-port inspect model.pt --json | jq '.entries[] | select(.dtype == "float32") | .name'
exit status: 0, or 2 if the checkpoint cannot be read
"""


def add_to(commands: Any) -> None:
    """Add both commands to a parser's subcommands."""
    raw = argparse.RawDescriptionHelpFormatter
    convert = commands.add_parser(
        "convert",
        help="convert a checkpoint to another format",
        description=_CONVERT,
        epilog=_CONVERT_EPILOG,
        formatter_class=raw,
    )
    convert.add_argument("source", metavar="SRC", help="the checkpoint: a file or a folder")
    convert.add_argument("target", metavar="DST", help="the file or folder to write")
    convert.add_argument(
        "--keys",
        nargs="+",
        action="extend",
        default=[],
        type=_rule,
        metavar="PATTERN=NEW",
        help="rename entries: replace matches of the regular expression PATTERN by NEW, which may be empty (\\1 is the "
        "first group); several are applied in order. The last = separates the two",
    )
    convert.add_argument(
        "--only", metavar="PATTERN", help="keep only tensors whose names this regular expression matches"
    )
    convert.add_argument(
        "--dtype", help="cast all floating point tensors to it: float32, bfloat16, float8_e4m3fn, ..."
    )
    convert.add_argument(
        "--to", metavar="FORMAT", help="pt, safetensors, npz or orbax; overrides the extension of DST"
    )
    convert.add_argument("--force", action="store_true", help="replace DST if it exists")

    inspect = commands.add_parser(
        "inspect",
        help="show the content of a checkpoint",
        description=_INSPECT,
        epilog=_INSPECT_EPILOG,
        formatter_class=raw,
    )
    inspect.add_argument("source", metavar="FILE", help="the checkpoint: a file or a folder")
    inspect.add_argument("--json", action="store_true", help="print as JSON")


def _rule(text: str) -> tuple[str, str]:
    pattern, equals, new = text.rpartition("=")
    if not equals or not pattern:
        raise argparse.ArgumentTypeError(
            rf"{text!r} is not PATTERN=NEW, such as '^model\.=' or 'gamma$=weight'"
        )
    return pattern, new


def main(options: argparse.Namespace) -> int:
    """Run one of the commands; returns the exit status."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)  # orbax's log messages
    told = f"functorch-port {options.command}"
    try:
        (_inspect if options.command == "inspect" else _convert)(options)
        return 0
    except FileExistsError as error:
        print(f"{told}: {error}; --force replaces it", file=sys.stderr)
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL (\S+) was not an allowed global", str(error))
        what = (
            f"{options.source} contains a {found[1]}, and loading it would run code from the file. Load it in Python, "
            "with weights_only=False if you trust it, and save only its tensors, such as a state_dict()"
        )
        print(f"{told}: {what if found else error}", file=sys.stderr)
    except (ImportError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError) as error:
        print(f"{told}: {error}", file=sys.stderr)
    except Exception as error:
        if type(error).__name__ != "SafetensorError":  # a bug here
            traceback.print_exc()
        else:
            print(f"{told}: {error}", file=sys.stderr)
    return 2


def _convert(options: argparse.Namespace) -> None:
    from ._formats import FORMATS, WrongUse, convert, inspect

    dtype = None if options.dtype is None else dtypes.NAMES.get(options.dtype.removeprefix("torch."))
    if options.dtype is not None and (dtype is None or not dtype.is_floating_point):
        known = ", ".join(d.name for d in dtypes.ALL if d.is_floating_point)
        raise WrongUse(f"--dtype {options.dtype}: must be one of {known}")
    if options.to is not None and options.to not in FORMATS:
        raise WrongUse(f"--to {options.to}: must be one of {', '.join(FORMATS)}")

    def totals() -> dict[str, int]:
        count = sum(row.shape is not None for row in inspect(options.source).rows)
        return {"reading": count, "writing": count}

    with bars(totals, "MofNCompleteColumn", "TimeElapsedColumn", transient=True) as tick:
        convert(
            options.source,
            options.target,
            keys=options.keys,
            only=options.only,
            dtype=dtype,
            format=options.to,
            force=options.force,
            tick=tick,
        )
    after = inspect(options.target)
    print(f"{options.target} ({after.format}): {_total(after)}")


def _inspect(options: argparse.Namespace) -> None:
    from ._formats import inspect

    found = inspect(options.source)
    if not options.json:
        print(_table(options.source, found))
        return
    entries = []
    for row in found.rows:
        if row.shape is None:
            entries.append({"name": row.name, "value": _jsonable(row.value)})
            continue
        entry: dict[str, Any] = {
            "name": row.name,
            "shape": row.shape,
            "dtype": row.dtype,
            "bytes": row.nbytes,
        }
        entries.append(entry if row.same_as is None else {**entry, "same_as": row.same_as})
    facts = {"format": found.format, "bytes": found.size, "entries": entries, "metadata": found.metadata}
    print(json.dumps(facts, indent=2))


def _jsonable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else repr(value)


def _table(path: str, found: Any) -> str:
    lines = [("name", "dtype", "shape", "size")]
    for row in found.rows:
        if row.shape is None:
            lines.append((row.name, type(row.value).__name__, "", _short(row.value)))
        else:
            size = _bytes(row.nbytes) if row.same_as is None else f"= {row.same_as}"
            lines.append((row.name, row.dtype, "x".join(map(str, row.shape)) or "()", size))
    widths = [max(len(line[i]) for line in lines) for i in range(3)]
    text = [f"{path}: {found.format}, {_bytes(found.size)} on the disk", ""]
    for name, dtype, shape, last in lines:
        cells = (name.ljust(widths[0]), dtype.ljust(widths[1]), shape.ljust(widths[2]) if shape else "", last)
        text.append("  ".join(cell for cell in cells if cell))
    text.insert(3, "-" * (sum(widths) + 14))
    text += ["", _total(found)]
    if found.metadata:
        text += [
            "",
            "metadata",
            *(f"  {key}: {_short(value)}" for key, value in sorted(found.metadata.items())),
        ]
    return "\n".join(text)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _total(found: Any) -> str:
    own = [row for row in found.rows if row.shape is not None and row.same_as is None]
    numbers: Counter[str] = Counter()
    for row in own:
        count = 1
        for n in row.shape:
            count *= n
        numbers[row.dtype] += count
    others = sum(row.shape is None for row in found.rows)
    kinds = ", ".join(f"{count:,} {name}" for name, count in numbers.most_common())
    parts = [f"{len(own)} tensors", kinds or "no numbers", _bytes(sum(row.nbytes for row in own))]
    return "; ".join([*parts, f"{others} other entries"] if others else parts)


def _bytes(count: int) -> str:
    size, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{count} bytes" if units[0] == "bytes" else f"{size:.3g} {units[0]}"
