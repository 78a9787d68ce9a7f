"""``torch.export``: programs that run without the code of the module that they were made of (docs/deployment.md).

Reference: https://docs.pytorch.org/docs/stable/export.html
"""

from ._dims import Dim, dims
from ._export import export
from ._file import load, save
from ._program import ExportedProgram
from ._signature import ExportGraphSignature
from ._structure import register_dataclass

__all__ = [
    "Dim", "ExportGraphSignature", "ExportedProgram", "dims", "export", "load", "register_dataclass",
    "save",
]  # fmt: skip
