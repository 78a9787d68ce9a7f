"""``torch.distributed.checkpoint``: saving and loading tensors that lie on many devices, by orbax.

`save` writes a folder that `load` reads into tensors of any placement: on another mesh, on more or fewer devices, on
one. The folder is an orbax checkpoint, which `orbax.checkpoint.StandardCheckpointer` restores as a tree of arrays, and
`interchange.load_orbax` as one of tensors. orbax is an optional dependency: ``pip install 'functorch-port[orbax]'``.
"""

from ._manager import CheckpointManager
from .api import CheckpointException
from .default_planner import DefaultLoadPlanner, DefaultSavePlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata
from .state_dict_loader import load, load_state_dict
from .state_dict_saver import async_save, save, save_state_dict

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "CheckpointManager", "ChunkStorageMetadata", "DefaultLoadPlanner",
    "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter", "Metadata", "TensorStorageMetadata", "async_save",
    "load", "load_state_dict", "save", "save_state_dict",
]  # fmt: skip
