"""``torch.utils.data.datapipes.iter.combinatorics``: the names of data pipes, which are not here."""

from ....._base.refused import refused_class
from ...dataset import IterableDataset

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]

SamplerIterDataPipe, ShufflerIterDataPipe = (
    refused_class(
        f"torch.utils.data.datapipes.iter.combinatorics.{name}",
        "there are no data pipes: an IterableDataset with a DataLoader, which shuffles",
        base=IterableDataset,
    )
    for name in __all__
)
