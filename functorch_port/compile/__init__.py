"""Whole-program compilation: find the state a function touches, and run it as one XLA program."""

from __future__ import annotations

from .compile import Compiled as Compiled
from .compile import compile as compile
from .functionalize import Functionalized as Functionalized
from .functionalize import functionalize as functionalize
