"""Datasets, samplers and the data loader (``torch.utils.data``)."""

from functorch_port.utils.data._prefetch import prefetch_to_device as prefetch_to_device
from functorch_port.utils.data._utils.collate import default_collate as default_collate
from functorch_port.utils.data._utils.collate import default_convert as default_convert
from functorch_port.utils.data._utils.worker import get_worker_info as get_worker_info
from functorch_port.utils.data.dataloader import DataLoader as DataLoader
from functorch_port.utils.data.dataloader import _DatasetKind as _DatasetKind
from functorch_port.utils.data.dataset import ChainDataset as ChainDataset
from functorch_port.utils.data.dataset import ConcatDataset as ConcatDataset
from functorch_port.utils.data.dataset import Dataset as Dataset
from functorch_port.utils.data.dataset import IterableDataset as IterableDataset
from functorch_port.utils.data.dataset import StackDataset as StackDataset
from functorch_port.utils.data.dataset import Subset as Subset
from functorch_port.utils.data.dataset import TensorDataset as TensorDataset
from functorch_port.utils.data.dataset import random_split as random_split
from functorch_port.utils.data.distributed import DistributedSampler as DistributedSampler
from functorch_port.utils.data.sampler import BatchSampler as BatchSampler
from functorch_port.utils.data.sampler import RandomSampler as RandomSampler
from functorch_port.utils.data.sampler import Sampler as Sampler
from functorch_port.utils.data.sampler import SequentialSampler as SequentialSampler
from functorch_port.utils.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from functorch_port.utils.data.sampler import WeightedRandomSampler as WeightedRandomSampler

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "prefetch_to_device",
    "random_split",
]
