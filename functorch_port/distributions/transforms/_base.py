"""`Transform`, the base class, and the inverse of a transform."""

from __future__ import annotations

from typing import Any

from ..._tensor.tensor import Tensor
from .. import constraints


class Transform:
    """A differentiable map with an inverse; `TransformedDistribution` applies it to a random variable.

    A subclass defines `_call`, `_inverse` and `log_abs_det_jacobian`. ``transform.inv`` is the inverse; for a map that
    is not one-to-one it satisfies ``t(t.inv(t(x))) == t(x)``.

    Args:
        cache_size: 1 keeps the last input and output, so that the inverse of that output is exact and costs nothing.
            Default: 0.

    Attributes:
        domain, codomain: the constraints of inputs and outputs.
        bijective: whether the map is one-to-one from ``domain`` to ``codomain``.
        sign: the sign of the derivative of a monotone function of a number.

    Raises:
        ValueError: ``cache_size`` is not 0 or 1.

    Example:
        >>> import functorch_port as torch
        >>> double = torch.distributions.AffineTransform(loc=1.0, scale=2.0)
        >>> x = torch.tensor([0.0, 3.0])
        >>> double(x), double.inv(double(x)), double.log_abs_det_jacobian(x, double(x))
        (tensor([1., 7.]), tensor([0., 3.]), tensor([0.6931, 0.6931]))

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#torch.distributions.transforms.Transform
    """

    bijective = False
    domain: Any
    codomain: Any
    #: the names of the constructor's arguments, for `with_cache`; None if the class overrides that
    _arguments: tuple[str, ...] | None = ()
    #: whether transforms with equal arguments are equal
    _by_value = True

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Transform | None = None
        self._cached_x_y: tuple[Any, Any] = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self) -> Any:
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """A transform with the same arguments and this cache size."""
        if self._cache_size == cache_size:
            return self
        if self._arguments is None or (not self._arguments and type(self).__init__ is not Transform.__init__):
            raise NotImplementedError(f"{type(self)}.with_cache is not implemented")
        return type(self)(*(getattr(self, name) for name in self._arguments), cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or self._arguments is None or not self._by_value:
            return False
        return all(_equal(getattr(self, name), getattr(other, name)) for name in self._arguments)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._call(x)
        if x is not self._cached_x_y[0]:
            self._cached_x_y = (x, self._call(x))
        return self._cached_x_y[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        if y is not self._cached_x_y[1]:
            self._cached_x_y = (self._inverse(y), y)
        return self._cached_x_y[0]

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |det dy/dx|`` at the input ``x`` with the output ``y``, summed over the event dimensions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the output for an input of this shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the input for an output of this shape."""
        return shape


def _equal(a: Any, b: Any) -> bool:
    same = a == b
    return bool(same.all()) if isinstance(same, Tensor) else bool(same)


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv = transform

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    @property
    def _forward(self) -> Transform:
        assert self._inv is not None
        return self._inv

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return self._forward.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        return self._forward.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._forward.bijective

    @property
    def sign(self) -> Any:
        return self._forward.sign

    @property
    def inv(self) -> Transform:
        return self._forward

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._forward.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._forward._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._forward.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._forward.forward_shape(shape)
