"""``torch.nn.attention.varlen``: not supported, as in PyTorch on CPUs; use `flex_attention`."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["AuxRequest", "varlen_attn"]


class AuxRequest(NamedTuple):
    """The auxiliary outputs that `varlen_attn` should return: the log-sum-exp of the scores."""

    lse: bool = False


def varlen_attn(*args: Any, **kwargs: Any) -> Any:
    """Not supported; PyTorch has it on GPUs only.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "nn.attention.varlen.varlen_attn is not supported; use flex_attention with "
        "create_block_mask(lambda b, h, q, k: document[q] == document[k], ...), where document[i] is the number of the "
        "sequence that position i belongs to"
    )
