"""Sparse tensors in coordinate form (COO), a small class of their own, and CSR and CSC, which are COO in an order.

A `SparseTensor` is a pair of dense tensors, indices ``(sparse_dim, n)`` and values ``(n, ...)``, with a shape, and
the knowledge whether the indices are sorted and distinct ("coalesced"). It has no Storage. An operation that reads
the array of its arguments finds `NoStorage` there; `run` then looks for a sparse version of the operation, or
refuses.

Entries may be *left out*: their first index is the size of the first dimension, so that a scatter drops them. They
make room: gradients of a table have the same number of entries whatever is padding, and results of a merge have a
power of two of them, so that what follows is not compiled for every number. Whoever looks at the indices or values
never sees them.
"""

from .compressed import CompressedTensor as CompressedTensor
from .compressed import sparse_compressed_tensor as sparse_compressed_tensor
from .compressed import sparse_csc_tensor as sparse_csc_tensor
from .compressed import sparse_csr_tensor as sparse_csr_tensor
from .making import hspmm as hspmm
from .making import smm as smm
from .making import sparse_bsc_tensor as sparse_bsc_tensor
from .making import sparse_bsr_tensor as sparse_bsr_tensor
from .making import sparse_coo_tensor as sparse_coo_tensor
from .making import sspaddmm as sspaddmm
from .operations import run as run
from .tensor import SparseTensor as SparseTensor
