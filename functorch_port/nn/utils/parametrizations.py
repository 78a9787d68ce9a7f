"""Parametrizations: weight norm, spectral norm, orthogonal matrices."""

from __future__ import annotations

from typing import Any

from ..._base import dtypes
from ..._run.bind import function
from ..._tensor.creation import eye, zeros_like
from ..._tensor.grad_mode import no_grad
from ..._tensor.tensor import Tensor
from ...linalg import householder_product, qr, solve
from .. import functional as F
from .._module import Module
from . import parametrize
from .spectral_norm import output_dimension

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_iterated, _normed, _norm = function("_power_method"), function("_weight_norm"), function("norm_except_dim")


def _named_tensor(module: Module, name: str) -> Tensor:
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return found


# ---------------------------------------------------------------- weight norm


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return _normed(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return _norm(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Weight normalization: split a tensor into magnitude (``original0``) and direction (``original1``).

    Args:
        module: the module.
        name: name of the parameter.
        dim: the dimension along which each slice has its own norm; None for one norm of the whole tensor.

    Returns:
        The module. It also loads state dicts of the older `torch.nn.utils.weight_norm`.

    Example:
        >>> import functorch_port as torch
        >>> m = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(20, 40))
        >>> m.parametrizations.weight.original0.size()
        torch.Size([40, 1])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrizations.weight_norm.html
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def from_older(state_dict: Any, prefix: str, *_: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(from_older)
    return module


# ---------------------------------------------------------------- spectral norm


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim > 1:  # the norm of a vector needs no iteration
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight)
            drawn = [matrix.new_empty(n).normal_(0, 1) for n in matrix.size()]
            for key, vector in zip(("_u", "_v"), drawn, strict=True):
                self.register_buffer(key, F.normalize(vector, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    @no_grad()
    def _iterate(self, matrix: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Run power iterations on the buffers; return their new values, which later calls do not change."""
        u, v = _iterated(matrix, self._u, self._v, steps, self.eps, right_first=False)
        self._u.copy_(u)
        self._v.copy_(v)
        return u, v

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            u, v = self._iterate(matrix, self.n_power_iterations)
        else:
            u, v = self._u.clone(), self._v.clone()
        return weight / function("vdot")(u, matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Spectral normalization: divide a tensor by its largest singular value, estimated by power iteration.

    Args:
        module: the module.
        name: name of the parameter.
        n_power_iterations: power iterations each time the tensor is read in training mode.
        eps: lower bound of the norms, to avoid division by zero.
        dim: the output dimension of the weight; default 1 for transposed convolutions, else 0.

    Returns:
        The module.

    Raises:
        ValueError: if there is no such tensor, or ``n_power_iterations`` is not positive.
        IndexError: if ``dim`` is out of range.

    Example:
        >>> import functorch_port as torch
        >>> m = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(20, 40))
        >>> bool(torch.linalg.matrix_norm(m.weight, 2) < 1.2)
        True

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrizations.spectral_norm.html
    """
    weight = _named_tensor(module, name)
    dim = output_dimension(module) if dim is None else dim
    norm = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, norm)


# ---------------------------------------------------------------- orthogonal matrices

_MAPS = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(q: Tensor) -> bool:
    n, k = q.size(-2), q.size(-1)
    identity = eye(k, dtype=q.dtype, device=q.device)
    return function("allclose")(q.mH @ q, identity, atol=10.0 * n * dtypes.finfo(q.dtype).eps)


def _make_orthogonal(a: Tensor) -> Tensor:
    """The factor Q of the QR decomposition of a tall matrix, with a positive diagonal of R."""
    q, r = qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        transposed = X.size(-2) < X.size(-1)
        X = X.mT if transposed else X
        Q = self._householder(X) if self.orthogonal_map == "householder" else self._of_skew(X)
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if transposed else Q

    def _of_skew(self, X: Tensor) -> Tensor:
        """The first columns of the orthogonal matrix of the skew-symmetric matrix whose lower triangle is that of X."""
        n, k = X.size(-2), X.size(-1)
        X = X.tril()
        if n != k:
            X = function("cat")([X, X.new_zeros(*X.shape[:-2], n, n - k)], dim=-1)
        A = X - X.mH
        if self.orthogonal_map == "matrix_exp":
            Q = function("matrix_exp")(A)
        else:
            identity = eye(n, dtype=A.dtype, device=A.device)
            Q = solve(identity - 0.5 * A, identity + 0.5 * A)
        return Q[..., :k] if n != k else Q

    def _householder(self, X: Tensor) -> Tensor:
        """The product of the reflections whose vectors are below the diagonal of X; the diagonal holds the signs."""
        A = X.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (A * A).sum(dim=-2))
        return householder_product(A, tau) * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. "
                f"Got a tensor of shape {Q.shape}."
            )
        transposed = Q.size(-2) < Q.size(-1)
        tall = Q.mT if transposed else Q
        if not hasattr(self, "base"):
            A = self._reflections(tall)
            return A.mT if transposed else A
        n, k = tall.size(-2), tall.size(-1)
        if n != k:  # more columns, to a square matrix
            drawn = function("randn")(*tall.size()[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
            self.base = _make_orthogonal(function("cat")([tall, drawn], dim=-1))
        else:
            self.base = function("clone")(tall) if _is_orthogonal(tall) else _make_orthogonal(tall)
        start = zeros_like(Q)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # what all maps take to the identity
        return start

    def _reflections(self, Q: Tensor) -> Tensor:
        """The inverse of `_householder`."""
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations "
                "when use_trivialization=False."
            )
        A, tau = function("geqrf")(Q)
        signs = A.diagonal(dim1=-2, dim2=-1).sign()
        signs = function("where")(tau == 0.0, -signs, signs)
        A.diagonal(dim1=-2, dim2=-1).copy_(signs)
        return A


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix, or a batch of matrices, orthogonal (unitary if complex).

    Args:
        module: the module.
        name: name of the parameter, of at least 2 dimensions.
        orthogonal_map: ``"matrix_exp"`` or ``"cayley"`` of a skew-symmetric matrix, or ``"householder"``, a product of
            reflections. Default: "matrix_exp" for square and complex matrices, "householder" otherwise.
        use_trivialization: multiply with a fixed orthogonal matrix ``base``, so that the tensor starts as the
            orthogonalized original.

    Returns:
        The module.

    Raises:
        ValueError: if there is no such tensor, it has fewer than 2 dimensions, or the map is unknown or does not
            support complex numbers.

    Example:
        >>> import functorch_port as torch
        >>> m = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(4, 4))
        >>> torch.allclose(m.weight.T @ m.weight, torch.eye(4), atol=1e-5)
        True

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrizations.orthogonal.html
        Lezcano-Casado, Trivializations for gradient-based optimization on manifolds, 2019.
    """
    weight = _named_tensor(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)
