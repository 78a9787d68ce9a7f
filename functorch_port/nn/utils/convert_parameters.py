"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ..._run.bind import function
from ..._tensor.tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]

_cat = function("cat")


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate all parameters into one vector; differentiable.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parameters_to_vector.html
    """
    return _cat([p.view(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make the parameters views of the slices of one vector.

    Args:
        vec: a vector from `parameters_to_vector`.
        parameters: the parameters whose ``.data`` is replaced.

    Raises:
        TypeError: if ``vec`` is not a Tensor.

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.vector_to_parameters.html
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for param in parameters:
        n = param.numel()
        param.data = vec[start : start + n].view_as(param).data
        start += n
