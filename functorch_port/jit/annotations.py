"""``torch.jit.annotations``: types of lists that may also be one number."""

from __future__ import annotations

from typing import Any as Any
from typing import Dict as Dict  # noqa: UP035
from typing import List as List  # noqa: UP035
from typing import Optional as Optional
from typing import Tuple as Tuple  # noqa: UP035

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3"]


class BroadcastingList:
    """An annotation: ``BroadcastingList2[int]`` is a list of two ints, or one int for both."""

    def __getitem__(self, types: object) -> None:
        return None


BroadcastingList1, BroadcastingList2, BroadcastingList3 = (BroadcastingList() for _ in range(3))
