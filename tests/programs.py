"""Runs a few lines of code once with torch and once with this package under the name ``torch``, and compares.

The value of the last line is the result; Tensors are compared with their ``requires_grad``, errors by type and text.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

import compare
import numpy as np
import torch

import functorch_port as ft

PRELUDE = """
x = torch.tensor([1.5, -2.0, 3.0], requires_grad=True)
w = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
s = torch.tensor(2.0, requires_grad=True)
c = torch.arange(12.0).reshape(3, 4)
i = torch.arange(6)
"""


def cases(table: str) -> list[str]:
    """The programs of a table: one per line; an indented line continues the one above."""
    found: list[str] = []
    for line in table.strip("\n").split("\n"):
        if line.startswith(" "):
            joint = " " if found[-1].endswith(",") else "" if found[-1].endswith(("(", "[")) else "\n"
            found[-1] += joint + line.strip()
        elif line and not line.startswith("#"):
            found.append(line)
    return found


def run(library: Any, code: str, prelude: str = PRELUDE) -> tuple[Any, Exception | None, list[str]]:
    """The value of the last line of ``code``, the error it raised, and its warnings."""
    names: dict[str, Any] = {"torch": library, "np": np}
    library.manual_seed(0)
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(prelude, names)
        try:
            exec(compile(tree, "<program>", "exec"), names)
            value = (
                eval(compile(ast.Expression(last.value), "<program>", "eval"), names)
                if last is not None
                else None
            )
        except Exception as error:
            return None, error, []
    return value, None, [str(w.message) for w in caught]


def check(code: str, prelude: str = PRELUDE, text: str = "same", tol: float | None = None) -> None:
    """Both libraries must give the same value, or the same error."""
    theirs, error, _ = run(torch, code, prelude)
    ours, my_error, _ = run(ft, code, prelude)
    if error is not None:
        compare.same_error(error, my_error, text, code)
        return
    if my_error is not None:
        raise my_error
    equal(theirs, ours, tol, code)


def equal(theirs: Any, ours: Any, tol: float | None = None, where: str = "result") -> None:
    """As `compare.same`, also for dicts, numpy arrays, and `requires_grad`."""
    if isinstance(theirs, torch.Tensor):
        compare.same(theirs, ours, tol, where=where)
        assert theirs.requires_grad == ours.requires_grad, f"{where}: requires_grad {theirs.requires_grad}"
        assert theirs.is_leaf == ours.is_leaf, f"{where}: is_leaf {theirs.is_leaf}"
    elif isinstance(theirs, np.ndarray):
        assert isinstance(ours, np.ndarray) and theirs.dtype == ours.dtype, f"{where}: {theirs!r} != {ours!r}"
        np.testing.assert_array_equal(ours, theirs, err_msg=where)
    elif isinstance(theirs, dict):
        assert list(theirs) == list(ours), f"{where}: keys {list(theirs)} != {list(ours)}"
        for key in theirs:
            equal(theirs[key], ours[key], tol, f"{where}[{key!r}]")
    elif (
        isinstance(theirs, (list, tuple))
        and not isinstance(theirs, torch.Size)
        and not hasattr(theirs, "n_fields")
    ):
        assert type(theirs).__name__ == type(ours).__name__, f"{where}: {type(theirs)} != {type(ours)}"
        assert len(theirs) == len(ours), f"{where}: {theirs} != {ours}"
        for k, (a, b) in enumerate(zip(theirs, ours)):
            equal(a, b, tol, f"{where}[{k}]")
    else:
        compare.same(theirs, ours, tol, where=where)
