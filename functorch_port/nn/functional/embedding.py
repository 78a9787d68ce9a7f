"""Tables of vectors."""

from __future__ import annotations

from ...autograd.grad_mode import no_grad
from ...core.bind import function
from ...core.tensor import Tensor
from ._common import require_tensor

_embedding, _renorm, _one_hot = function("embedding"), function("embedding_renorm"), function("one_hot")


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of a table.

    Args:
        input: indices of any shape, int64 or int32.
        weight: (rows, columns).
        padding_idx: a row that gets no gradient.
        max_norm: rows looked up whose norm is larger are first scaled down to it, in ``weight`` itself.
        norm_type: the norm's exponent.
        scale_grad_by_freq: not supported.
        sparse: accepted; gradients are dense.

    Raises:
        IndexError: for an index that names no row.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html
    """
    require_tensor("embedding", "indices", 2, input)
    if scale_grad_by_freq:
        raise NotImplementedError(
            "embedding(scale_grad_by_freq=True) is not supported; divide the gradient by the counts in a hook"
        )
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        with no_grad():
            weight._set_value(_renorm(weight, input, float(max_norm), float(norm_type))._value)
    return _embedding(input, weight, -1 if padding_idx is None else padding_idx)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Class indices as vectors of zeros with a one, of type int64.

    Args:
        tensor: int64 indices of any shape.
        num_classes: length of the vectors; -1 for the largest index plus one (which reads the values).

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.one_hot.html
    """
    if tensor.dtype.name != "int64":
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        if tensor.numel() == 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = max(int(tensor.max().item()) + 1, 1)
    if tensor.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    return _one_hot(tensor, num_classes)
