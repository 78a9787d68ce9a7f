"""``torch.distributed.checkpoint.hf_storage``: the names of readers and writers of Hugging Face's checkpoints."""

from ..._base.refused import refused_class

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

_WHY = "torch.distributed.checkpoint.format_utils reads and writes folders of .safetensors files"
HuggingFaceStorageReader, HuggingFaceStorageWriter = (
    refused_class(f"torch.distributed.checkpoint.{name}", _WHY)
    for name in ("HuggingFaceStorageReader", "HuggingFaceStorageWriter")
)
