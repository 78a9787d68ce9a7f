"""``torch.nested``: the names of nested tensors, which are not here."""

from .._base.refused import refused_function

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor",
]  # fmt: skip

_WHY = (
    "there are no nested tensors here. Pad them: torch.nn.utils.rnn.pad_sequence, with a mask where it counts"
)
as_nested_tensor, masked_select, narrow, nested_tensor, nested_tensor_from_jagged, to_padded_tensor = (
    refused_function(f"torch.nested.{name}", _WHY) for name in __all__
)
