"""docs/operators.md names the operators that the database has, and says why for each that differs."""

import pytest

pytest.importorskip("torch.testing._internal.common_methods_invocations")

from database import DIFFERENT, core_entries, entries, key
from operators import COLUMNS, NO, PAGE, SEE, YES, page, rows_of

TEXT = PAGE.read_text()
ROWS = rows_of(TEXT)


def test_the_page_names_the_entries():
    assert set(ROWS) == {key(info) for info in entries()}, "run `make operators`"
    assert page(list(ROWS.values())) == TEXT, "the page is made by `make operators`, not by hand"


def test_core_operators_agree():
    rows = [ROWS[key(info)] for info in core_entries()]
    assert [row for row in rows if row.forward not in (YES, SEE) or row.gradient == NO] == []


def test_what_differs_has_a_reason():
    for row in ROWS.values():
        assert (row.forward == SEE) == (row.name in DIFFERENT) and row.remark == DIFFERENT.get(row.name, "")
        assert len(vars(row)) == len(COLUMNS)
