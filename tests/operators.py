"""Writes docs/operators.md: PyTorch's operator database against this library (`make operators`).

    python tests/operators.py                 every operator (about ten minutes of two quiet cores)
    python tests/operators.py --only 'fft|^std'    those whose name matches; the page's other rows stay as they are

A row is what live PyTorch and this library give for the entry's most telling samples: values, types and shapes
("forward"), gradients, the Tensor method and the in-place method. Random operators draw with the same seed.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import torch
from compare import Case, check_case, resolve
from conftest import forget_programs, resident
from database import (
    CANCELLING,
    DIFFERENT,
    cases,
    entries,
    has_gradient,
    key,
    left_out,
    main_dtype,
    public_name,
)
from torch.testing._internal.common_methods_invocations import op_db

import functorch_port as ft

SAMPLES = 2
PAGE = Path(__file__).parent.parent / "docs" / "operators.md"
COLUMNS = ("operator", "type", "forward", "gradient", "method", "in place", "remark")
YES, NO, SEE, NONE = "yes", "**no**", "remark", ""


@dataclass
class Row:
    """One entry of the database; the fields are the page's columns."""

    name: str
    type: str
    forward: str = NONE
    gradient: str = NONE
    method: str = NONE
    inplace: str = NONE
    remark: str = ""

    def line(self) -> str:
        cells = (f"`{self.name}`", *vars(self).values())
        return "| " + " | ".join((cells[0], *cells[2:])) + " |"

    @classmethod
    def of_line(cls, line: str) -> Row:
        name, *rest = (cell.strip() for cell in line.strip().strip("|").split("|"))
        return cls(name.strip("`"), *rest)


def agrees(case: Case, grad: bool) -> bool:
    """Whether both libraries give the same; random numbers from the same seed."""
    case.grad = grad
    torch.manual_seed(0)
    ft.manual_seed(0)
    try:
        check_case(case)
    except Exception:
        return False
    return True


def verdict(cases: Iterable[Case], grad: bool = False) -> str:
    return YES if all([agrees(case, grad) for case in cases]) else NO


def variant(case: Case, name: str) -> str:
    """A method of that name, on one sample; nothing where PyTorch has none or does not take the sample."""
    method = Case(f"Tensor.{name}", case.args, case.kwargs, values=case.values, tol=case.tol)
    if (
        not case.args
        or not isinstance(case.args[0], torch.Tensor)
        or not callable(getattr(torch.Tensor, name, None))
    ):
        return NONE
    try:
        with torch.no_grad():
            resolve(torch, method.name)(case.args[0].clone(), *case.args[1:], **case.kwargs)
    except Exception:
        return NONE
    return verdict([method])


def measure(info: Any) -> Row:
    """The row of one entry."""
    dtype, name = main_dtype(info), key(info)
    row = Row(name, str(dtype).removeprefix("torch."), remark=DIFFERENT.get(name, ""))
    found = cases(info, dtype, SAMPLES, 1e-4)
    if not found:
        return row
    if name in DIFFERENT:
        row.forward, row.gradient = SEE, SEE if has_gradient(info, dtype) else NONE
        return row
    grad = any(case.grad for case in found) and name not in CANCELLING
    both = verdict(found, grad)
    row.forward = both if both == YES or not grad else verdict(found)
    row.gradient = both if grad else NONE
    base = public_name(info).split(".")[-1]
    if not base.startswith("__"):
        row.method, row.inplace = (variant(found[0], n) for n in (base, f"{base}_"))
    return row


def rows_of(page: str) -> dict[str, Row]:
    """What a page has found."""
    return {row.name: row for row in map(Row.of_line, re.findall(r"^\| `.*$", page, re.M))}


def share(rows: Iterable[Row], column: str) -> str:
    found = [v for row in rows if (v := getattr(row, column))]
    return f"{found.count(YES)} of {len(found)}"


def page(rows: list[Row]) -> str:
    """The page's text."""
    others: dict[str, list[str]] = {}
    for info in op_db:
        if reason := left_out(info):
            others.setdefault(reason, []).append(key(info))
    titles = (
        ("forward", "forward"),
        ("gradient", "gradient"),
        ("method", "methods"),
        ("inplace", "in-place forms"),
    )
    counts = ", ".join(f"{title} {share(rows, column)}" for column, title in titles)
    rule = "|".join(["", *("---" for _ in COLUMNS), ""])
    return "\n".join(
        [
            "# PyTorch's operators here",
            "",
            "What `make operators` found: every public entry of PyTorch's operator database, run here and in",
            f"PyTorch on up to {SAMPLES} of the database's samples, those with most dimensions and arguments.",
            "Forward: the same values, types and shapes; random numbers too, from the same seed. "
            "Gradient: those of all inputs.",
            "Method, in place: the `Tensor` methods, on one sample. Empty: none.",
            "",
            f"{len(rows)} entries: {counts}.",
            "",
            f"| {' | '.join(COLUMNS)} |",
            rule,
            *(row.line() for row in sorted(rows, key=lambda row: row.name.lower())),
            "",
            "## Left out",
            "",
            *(
                f"- {reason} ({len(names)}): {', '.join(f'`{n}`' for n in names)}"
                for reason, names in others.items()
            ),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="regular expression on the names")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = rows_of(PAGE.read_text()) if PAGE.exists() else {}
    infos = {key(info): info for info in entries()}
    for number, (name, info) in enumerate(infos.items(), 1):
        if re.search(options.only, name):
            known[name] = measure(info)
            print(f"{number}/{len(infos)} {known[name].line()}", flush=True)
            PAGE.write_text(page([row for key, row in known.items() if key in infos]))
            if resident() > 4 * 2**30:
                forget_programs()


if __name__ == "__main__":
    main()
