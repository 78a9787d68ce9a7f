"""MultivariateNormal, LowRankMultivariateNormal, Wishart, LKJCholesky."""

from __future__ import annotations

import math
import warnings
from typing import Any

from .._array.refusal import refuse
from .._base import dtypes
from .._base.size import Size
from .._run.bind import function
from .._tensor.creation import arange, eye, tensor
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor, wrap
from ..compiler import is_compiling
from ..linalg import cholesky, slogdet, solve_triangular
from . import constraints
from ._gamma import Beta, Chi2
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .utils import _standard_normal, broadcast_all, lazy_property

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart"]

_MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")


def times(matrix: Tensor, vector: Tensor) -> Tensor:
    """``matrix vector``"""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def solved(lower: Tensor, right: Tensor) -> Tensor:
    """``lower^-1 right``"""
    return solve_triangular(lower, right, upper=False)


def mahalanobis(lower: Tensor, x: Tensor) -> Tensor:
    """``|lower^-1 x|^2``"""
    return solved(lower, x.unsqueeze(-1)).squeeze(-1).pow(2).sum(-1)


def half_log_det(lower: Tensor) -> Tensor:
    """The logarithm of the determinant of a triangular matrix."""
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _lower_of(**matrices: Any) -> Tensor:
    """The Cholesky factor of the covariance, from whichever matrix was passed."""
    if matrices["scale_tril"] is not None:
        return matrices["scale_tril"]
    if matrices["covariance_matrix"] is not None:
        return cholesky(matrices["covariance_matrix"])
    return lower_of_precision(matrices["precision_matrix"])


def lower_of_precision(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of matrices."""
    inverse = cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT
    return solved(inverse, eye(precision.shape[-1], dtype=precision.dtype, device=precision.device))


class _ByMatrix(Distribution):
    """The base of distributions with one of three matrices; the other two are computed on first access."""

    _unbroadcasted_scale_tril: Tensor

    @property
    def _matrix_shape(self) -> tuple[int, ...]:
        size = self._event_shape[-1]
        return (*self._batch_shape, size, size)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        lower = self._unbroadcasted_scale_tril
        return (lower @ lower.mT).expand(self._matrix_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return function("cholesky_inverse")(self._unbroadcasted_scale_tril).expand(self._matrix_shape)

    def _with_matrices(self, new: Any) -> Any:
        for name in _MATRICES:
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name].expand(new._matrix_shape)
        return new


class MultivariateNormal(_ByMatrix):
    """The multivariate normal distribution.

    Args:
        loc: mean, vectors along the last dimension.
        covariance_matrix: positive definite; or
        precision_matrix: its inverse; or
        scale_tril: its Cholesky factor.
        validate_args: see `Distribution`.

    Example:
        >>> import functorch_port as torch
        >>> normal = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
        >>> normal.log_prob(torch.zeros(2))
        tensor(-1.8379)

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#multivariatenormal
    """

    arg_constraints: Any = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrices = dict(zip(_MATRICES, (covariance_matrix, precision_matrix, scale_tril), strict=True))
        given = {name: m for name, m in matrices.items() if m is not None}
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            text = "must be at least two-dimensional, with optional leading batch dimensions"
            raise ValueError(f"{name} matrix {text}" if name == "scale_tril" else f"{name} {text}")
        batch = function("broadcast_shapes")(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        self.loc = loc.expand((*batch, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _lower_of(**matrices)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        new = self._with_matrices(self._twin(batch_shape, _instance))
        new.loc = self.loc.expand((*batch_shape, *self._event_shape))
        return new

    def _is_derived(self, name: str) -> bool:
        return False

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + times(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        lower = self._unbroadcasted_scale_tril
        distance = mahalanobis(lower, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - half_log_det(lower)  # type: ignore[return-value]

    def entropy(self) -> Tensor:
        volume = half_log_det(self._unbroadcasted_scale_tril)
        return (0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + volume).expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """The multivariate normal distribution with covariance ``cov_factor @ cov_factor.T + diag(cov_diag)``.

    Args:
        loc: mean (..., event).
        cov_factor: the factor of the low-rank part (..., event, rank).
        cov_diag: the diagonal part (..., event), positive.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#lowrankmultivariatenormal
    """

    arg_constraints: Any = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
            )
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            columns = function("broadcast_tensors")(loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1))
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_factor, self.cov_diag = columns[0][..., 0], columns[1], columns[2][..., 0]
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = self._root_of_identity_and(self._weighted() @ cov_factor)
        super().__init__(self.loc.shape[:-1], event, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        new = self._twin(batch_shape, _instance)
        shape = (*batch_shape, *self._event_shape)
        new.loc, new.cov_diag = self.loc.expand(shape), self.cov_diag.expand(shape)
        new.cov_factor = self.cov_factor.expand((*shape, self.cov_factor.shape[-1]))
        return new

    def _weighted(self) -> Tensor:
        """``W^T D^-1``"""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    @staticmethod
    def _root_of_identity_and(matrix: Tensor) -> Tensor:
        return cholesky(matrix + eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device))

    @property
    def _matrix_shape(self) -> tuple[int, ...]:
        return (*self._batch_shape, *self._event_shape, *self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        variance = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        return (root * self._root_of_identity_and(scaled @ scaled.mT)).expand(self._matrix_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_cov_factor
        return (factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed()).expand(self._matrix_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        half = solved(self._capacitance_tril, self._weighted())
        inverse = self._unbroadcasted_cov_diag.reciprocal().diag_embed()
        return (inverse - half.mT @ half).expand(self._matrix_shape)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        inner = _standard_normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc.dtype, self.loc.device)
        outer = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return (
            self.loc
            + times(self._unbroadcasted_cov_factor, inner)
            + self._unbroadcasted_cov_diag.sqrt() * outer
        )

    def _log_det(self) -> Tensor:
        return 2 * half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def _distance(self, x: Tensor) -> Tensor:
        """``x^T covariance^-1 x``"""
        own = (x.pow(2) / self._unbroadcasted_cov_diag).sum(-1)
        return own - mahalanobis(self._capacitance_tril, times(self._weighted(), x))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._log_det() + self._distance(value - self.loc))  # type: ignore[return-value]

    def entropy(self) -> Tensor:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(self._batch_shape)


class Wishart(_ByMatrix, ExponentialFamily):
    """The Wishart distribution over positive definite matrices, sampled by Bartlett's decomposition.

    PyTorch 2.13 mistakes regular samples for singular ones: it warns, and draws them again. This class does the same,
    so that a seed gives PyTorch's samples; the distribution is not affected.

    Args:
        df: degrees of freedom, above the size of the matrices minus 1.
        covariance_matrix: positive definite; or
        precision_matrix: its inverse; or
        scale_tril: its Cholesky factor.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#wishart
    """

    support: Any = constraints.positive_definite
    has_rsample = True

    @property
    def arg_constraints(self) -> Any:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices = dict(zip(_MATRICES, (covariance_matrix, precision_matrix, scale_tril), strict=True))
        given = {name: m for name, m in matrices.items() if m is not None}
        if len(given) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = Size(matrix.shape[:-2])
        if isinstance(df, Tensor):
            batch = function("broadcast_shapes")(batch, df.shape)
            self.df = df.expand(batch)
        else:
            self.df = tensor(df, dtype=matrix.dtype, device=matrix.device)
        size = matrix.shape[-1]
        given, number = (df._look(), None) if isinstance(df, Tensor) else (self.df._look(), df)

        def error(values: Any) -> Exception:
            shown = wrap(values) if number is None else number
            return ValueError(f"Value of df={shown} expected to be greater than ndim - 1 = {size - 1}.")

        refuse(lambda values: values <= size - 1, error, given)
        if not is_compiling() and bool(self.df.lt(size).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        super().__init__(batch, matrix.shape[-2:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _lower_of(**matrices)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        new = self._with_matrices(self._twin(batch_shape, _instance))
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril.expand(new._matrix_shape)
        new.df = self.df.expand(batch_shape)
        return new

    def _is_derived(self, name: str) -> bool:
        return False

    @lazy_property
    def precision_matrix(self) -> Tensor:
        lower = self._unbroadcasted_scale_tril
        identity = eye(self._event_shape[-1], dtype=lower.dtype, device=lower.device)
        return function("cholesky_solve")(identity, lower).expand(self._matrix_shape)

    def _scaled(self, factor: Tensor, matrix: Tensor) -> Tensor:
        return factor.expand(self._batch_shape)[..., None, None] * matrix

    @property
    def mean(self) -> Tensor:
        return self._scaled(self.df, self.covariance_matrix)

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        return self._scaled(factor.masked_fill(factor <= 0, math.nan), self.covariance_matrix)

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._scaled(self.df, v.pow(2) + diagonal[..., :, None] * diagonal[..., None, :])

    def _bartlett(self, sample_shape: Any) -> Tensor:
        size, lower = self._event_shape[-1], self._unbroadcasted_scale_tril
        order = arange(size, dtype=lower.dtype, device=lower.device)
        df = self.df.expand(self._batch_shape).unsqueeze(-1) - order
        diagonal = Chi2(df, validate_args=False).rsample(sample_shape).sqrt()
        noise = diagonal.clamp(min=dtypes.finfo(diagonal.dtype).eps).diag_embed()
        rows, columns = function("tril_indices")(size, size, -1)
        shape = (*sample_shape, *self._batch_shape, len(rows))
        drawn = function("randn")(shape, dtype=noise.dtype, device=noise.device)
        below = noise.new_zeros((*shape[:-1], size * size)).index_copy(-1, rows * size + columns, drawn)
        root = lower @ (noise + below.unflatten(-1, (size, size)))
        return root @ root.mT

    def _any(self, marks: Tensor) -> Tensor:
        """Whether any entry of a sample's batch is marked."""
        return marks.reshape((len(marks), -1)).any(-1)

    def rsample(self, sample_shape: Any = Size(), max_try_correction: int | None = None) -> Tensor:
        """Draws samples, and redraws those that PyTorch mistakes for singular up to ``max_try_correction`` times."""
        shape, tries = Size(sample_shape), 10 if max_try_correction is None else max_try_correction
        sample = self._bartlett(shape)
        if is_compiling():
            return sample
        flat = sample.reshape((-1, *self._batch_shape, *self._event_shape))
        places = self._any(self.support.check(flat)).nonzero().squeeze(-1)  # regular samples, as in PyTorch
        if len(places):
            warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(tries):
            if not len(places):
                break
            drawn = self._bartlett((len(places),))
            flat = flat.index_copy(0, places, drawn)
            places = places[self._any(~self.support.check(drawn)).nonzero().squeeze(-1)]
        return flat.reshape(sample.shape)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        nu, p, lower = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        trace = function("cholesky_solve")(value, lower).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -nu * (p * math.log(2) / 2 + half_log_det(lower))
            - function("mvlgamma")(nu / 2, p)
            + (nu - p - 1) / 2 * slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        order = arange(p, dtype=nu.dtype, device=nu.device) / 2
        digamma = (nu.unsqueeze(-1) / 2 - order).digamma().sum(-1)
        return (
            (p + 1) * (p * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril))
            + function("mvlgamma")(nu / 2, p)
            - (nu - p - 1) / 2 * digamma
            + nu * p / 2
        )


class LKJCholesky(Distribution):
    """Cholesky factors of LKJ-distributed correlation matrices, of density ~ ``det ** (concentration - 1)``.

    Args:
        dim: size of the matrices, at least 2.
        concentration: 1 is uniform over correlation matrices; larger values make correlations smaller.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#lkjcholesky
    """

    arg_constraints: Any = {"concentration": constraints.positive}
    support: Any = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        c = self.concentration
        # row i is a point of a sphere whose radius has a beta distribution (the onion method)
        offset = (arange(dim, dtype=c.dtype, device=c.device) - 1).clamp(min=0)
        self._beta = Beta(offset + 0.5, (c + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * offset)
        super().__init__(c.size(), (dim, dim), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        new = self._twin(batch_shape, _instance)
        new.concentration = self.concentration.expand(batch_shape)
        new._beta = self._beta.expand((*batch_shape, self.dim))
        return new

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with no_grad():
            radius = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            normal = function("randn")(shape, dtype=radius.dtype, device=radius.device).tril(-1)
            sphere = normal / normal.norm(dim=-1, keepdim=True)
            first = arange(self.dim, device=radius.device).unsqueeze(-1) == 0
            rows = radius.sqrt() * sphere.masked_fill(first, 0.0)
            rest = (1 - (rows**2).sum(-1)).clamp(min=dtypes.finfo(rows.dtype).tiny).sqrt()
            return rows + rest.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        less = self.dim - 1
        alpha = self.concentration + 0.5 * less
        constant = (
            0.5 * less * math.log(math.pi) + function("mvlgamma")(alpha - 0.5, less) - alpha.lgamma() * less
        )
        return (order * diagonal.log()).sum(-1) - constant
