"""``torch.nn.attention.varlen``: refused, as on a CPU; sequences in one go through `flex_attention`."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["AuxRequest", "varlen_attn"]


class AuxRequest(NamedTuple):
    """What `varlen_attn` is to give beside its result: the logarithms of the sums."""

    lse: bool = False


def varlen_attn(*args: Any, **kwargs: Any) -> Any:
    """Refused: PyTorch has it for GPUs only.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "nn.attention.varlen.varlen_attn: there is no kernel for it; use flex_attention with "
        "create_block_mask(lambda b, h, q, k: document[q] == document[k], ...), where document numbers the sequences"
    )
