"""``torch.distributions.one_hot_categorical``."""

from ._discrete import OneHotCategorical as OneHotCategorical
from ._relaxed import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
