"""`functionalize`: a function that mutates state as a pure function of that state, for JAX users."""

from __future__ import annotations


class Functionalized: ...


def functionalize() -> None: ...
