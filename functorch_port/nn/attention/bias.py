"""``torch.nn.attention.bias``: causal masks for different numbers of queries and keys.

Reference: https://docs.pytorch.org/docs/stable/nn.attention.bias.html
"""

from ..functional._causal_bias import CausalBias as CausalBias
from ..functional._causal_bias import CausalVariant as CausalVariant
from ..functional._causal_bias import causal_lower_right as causal_lower_right
from ..functional._causal_bias import causal_upper_left as causal_upper_left

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]
