"""Distributions built from others: TransformedDistribution, Independent, MixtureSameFamily."""

from __future__ import annotations

from typing import Any

from .._base.size import Size
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor
from . import constraints
from ._discrete import Categorical
from .distribution import Distribution
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """Reinterprets the last batch dimensions as event dimensions; `log_prob` sums over them.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: number of batch dimensions to reinterpret.
        validate_args: see `Distribution`.

    Example:
        >>> import functorch_port as torch
        >>> D = torch.distributions
        >>> D.Independent(D.Normal(torch.zeros(2), 1.0), 1).log_prob(torch.zeros(2))
        tensor(-1.8379)

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#independent
    """

    arg_constraints: Any = {}

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        have = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > have:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {have}"
            )
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        cut = have - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        new = self._twin(batch_shape, _instance)
        moved = self._event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand((*batch_shape, *moved))
        return new

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims <= 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        base: Any = self.base_dist.support
        dims = self.reinterpreted_batch_ndims
        return constraints.independent(base, dims) if dims else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of a transformed random variable.

    Args:
        base_distribution: the distribution of the variable before the transforms.
        transforms: a `Transform` or a list of them, in the order in which they apply.
        validate_args: see `Distribution`.

    Example:
        >>> import functorch_port as torch
        >>> D = torch.distributions
        >>> D.TransformedDistribution(D.Normal(0.0, 1.0), [D.ExpTransform()]).log_prob(torch.tensor(1.0))
        tensor(-0.9189)

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#transformeddistribution
    """

    arg_constraints: Any = {}

    def __init__(
        self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(transforms, Transform):
            transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        self.transforms = transforms
        base_shape = Size((*base_distribution.batch_shape, *base_distribution.event_shape))
        base_dims = len(base_distribution.event_shape)
        whole = ComposeTransform(transforms)
        domain, codomain = whole.domain.event_dim, whole.codomain.event_dim
        if len(base_shape) < domain:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {domain}, but got {base_shape}."
            )
        shape = whole.forward_shape(base_shape)
        needed = whole.inverse_shape(shape)
        if tuple(base_shape) != tuple(needed):
            base_distribution = base_distribution.expand(needed[: len(needed) - base_dims])
        if domain > base_dims:
            base_distribution = Independent(base_distribution, domain - base_dims)
        self.base_dist = base_distribution
        cut = len(shape) - max(codomain, base_dims + codomain - domain)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        new = self._twin(batch_shape, _instance)
        shape = Size((*batch_shape, *self._event_shape))
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:  # type: ignore[override]
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        more = len(self._event_shape) - last.event_dim
        return constraints.independent(last, more) if more > 0 else last

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def _forward(self, x: Tensor) -> Tensor:
        for t in self.transforms:
            x = t(x)
        return x

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        dims, y = len(self._event_shape), value
        total: Any = 0.0
        for t in reversed(self.transforms):
            x = t.inv(y)
            dims += t.domain.event_dim - t.codomain.event_dim
            total = total - _sum_rightmost(t.log_abs_det_jacobian(x, y), dims - t.domain.event_dim)
            y = x
        return total + _sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))

    def _in_order(self, value: Tensor) -> Tensor:
        """``1 - value`` where the transforms are decreasing."""
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for t in reversed(self.transforms):
            value = t.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._in_order(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._in_order(value)))


class TransformedByParameters(TransformedDistribution):
    """The base of transformed distributions whose parameters are attributes of the subclass."""

    def _make(self, validate_args: bool | None) -> tuple[Distribution, list[Transform]]:
        """Makes the base distribution and the transforms."""
        raise NotImplementedError

    def _build(self, validate_args: bool | None) -> None:
        super().__init__(*self._make(validate_args), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        new = self._twin(batch_shape, _instance)
        for name in self.arg_constraints:
            new.__dict__[name] = self.__dict__[name].expand(batch_shape)
        super(TransformedByParameters, new).__init__(*new._make(False), validate_args=False)
        new._validate_args = self._validate_args
        return new


class MixtureSameFamily(Distribution):
    """A mixture of distributions of the same family.

    Args:
        mixture_distribution: a `Categorical` that chooses the component.
        component_distribution: the components, along the last batch dimension.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#mixturesamefamily
    """

    arg_constraints: Any = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of torch.distributions.Distribution"
            )
        mixed, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(mixed), reversed(batch)):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        count, components = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if count != components:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._mixture_distribution, self._component_distribution = (
            mixture_distribution,
            component_distribution,
        )
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        new = self._twin(batch_shape, _instance)
        count = self._component_distribution.batch_shape[-1]
        new._component_distribution = self._component_distribution.expand((*batch_shape, count))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        return new

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        support: Any = self._component_distribution.support
        return constraints.MixtureSameFamilyConstraint(support)

    @property
    def mixture_distribution(self) -> Categorical:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        return self._component_distribution

    def _mixed(self, values: Tensor) -> Tensor:
        """The mean of the components' ``values``, weighted by the mixture's probabilities."""
        probs = self._mixture_distribution.probs
        own, chosen = len(self._batch_shape), len(self._mixture_distribution.batch_shape)
        more = 0 if chosen == 1 else own - chosen
        shape = (*probs.shape[:-1], *[1] * more, probs.shape[-1], *[1] * self._event_ndims)
        return (probs.reshape(shape) * values).sum(-1 - self._event_ndims)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._mixed(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        parts = self._component_distribution
        return self._mixed(parts.variance) + self._mixed((parts.mean - self._pad(self.mean)).pow(2.0))

    def cdf(self, x: Tensor) -> Tensor:
        return (self._component_distribution.cdf(self._pad(x)) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        self._validate_sample(x)
        chosen = self._mixture_distribution.logits.log_softmax(dim=-1)
        return (self._component_distribution.log_prob(self._pad(x)) + chosen).logsumexp(dim=-1)

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self._batch_shape)
            index = chosen.reshape((*chosen.shape, *[1] * (self._event_ndims + 1)))
            index = index.expand((*chosen.shape, 1, *self._event_shape))
            return drawn.gather(dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
