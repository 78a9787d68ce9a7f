"""Programs that several processes run together: each is compared with those of the others before its first call.

`init_process_group` says how. In a process of its own this costs a comparison for each program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["compare", "compare_by"]


def _alone(lowered: Any) -> None:
    """There are no others."""


#: is called with a lowered program on arrays that lie in several processes; raises if others are about to run another
compare: Callable[[Any], None] = _alone


def compare_by(how: Callable[[Any], None] = _alone) -> None:
    """Compare programs in this way from now on."""
    global compare
    compare = how
