"""Transforms made of other transforms, and `ReshapeTransform`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..._base.size import Size
from ..._run.bind import function
from ..._tensor.creation import zeros_like
from ..._tensor.tensor import Tensor
from .. import constraints
from ..utils import _sum_rightmost
from ._base import Transform


class ComposeTransform(Transform):
    """Applies several transforms one after the other.

    Args:
        parts: the transforms, in the order in which they apply.
        cache_size: 1 gives every part a cache; 0 (the default) keeps the parts' own caches.

    Example:
        >>> import functorch_port as torch
        >>> D = torch.distributions
        >>> D.ComposeTransform([D.AffineTransform(0.0, 2.0), D.ExpTransform()])(torch.tensor([0.0, 1.0]))
        tensor([1.0000, 7.3891])

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#torch.distributions.transforms.ComposeTransform
    """

    _arguments = ("parts",)

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return self._end(self.parts[::-1], "codomain", "domain")

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        return self._end(self.parts, "domain", "codomain")

    @staticmethod
    def _end(parts: Sequence[Transform], near: str, far: str) -> Any:
        """The constraint ``far`` of the last part, with enough event dimensions for all parts."""
        if not parts:
            return constraints.real
        end = getattr(parts[-1], far)
        dims = getattr(parts[0], near).event_dim
        for part in parts:
            dims += getattr(part, far).event_dim - getattr(part, near).event_dim
            dims = max(dims, getattr(part, far).event_dim)
        return constraints.independent(end, dims - end.event_dim) if dims > end.event_dim else end

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        total: Any = None
        event_dim = self.domain.event_dim
        for i, part in enumerate(self.parts):
            last = i == len(self.parts) - 1
            after = y if last else part(x)
            term = _sum_rightmost(part.log_abs_det_jacobian(x, after), event_dim - part.domain.event_dim)
            total = term if total is None else total + term
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = after
        return zeros_like(x) if total is None else total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Treats the last batch dimensions of a transform as event dimensions: log-determinants are summed over them.

    Args:
        base_transform: the transform.
        reinterpreted_batch_ndims: the number of these dimensions.
        cache_size: see `Transform`.
    """

    _arguments = ("base_transform", "reinterpreted_batch_ndims")
    _by_value = False

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Reshapes the last dimensions from ``in_shape`` to ``out_shape``.

    Args:
        in_shape: the event shape of inputs.
        out_shape: the event shape of outputs.
        cache_size: see `Transform`.

    Raises:
        ValueError: the shapes have different numbers of elements.
    """

    bijective = True
    _arguments = ("in_shape", "out_shape")
    _by_value = False

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape: Any, old: Size, new: Size) -> Size:
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return Size((*shape[:cut], *new))


class _Parts(Transform):
    """The base of transforms that apply one transform to each part of a tensor."""

    transforms: list[Transform]
    _arguments = None

    def __init__(self, tseq: Sequence[Transform], cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def _split(self, x: Tensor, name: str = "tensor") -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._join([t(part) for t, part in zip(self.transforms, self._split(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._split(y), strict=True)])

    def _check_dim(self, x: Tensor, dim: int, name: str) -> None:
        if not -x.dim() <= dim < x.dim():
            raise AssertionError(f"dim {dim} out of range for {name} with {x.dim()} dimensions")


class CatTransform(_Parts):
    """Applies each transform to its slice of a tensor along ``dim``, and concatenates the results.

    Args:
        tseq: the transforms.
        dim: the dimension. Default: 0.
        lengths: the length of each transform's slice. Default: 1 for each.
        cache_size: as for `ComposeTransform`.

    Raises:
        AssertionError: the slices do not fill the dimension, or ``tseq`` has something else than transforms.

    Example:
        >>> import functorch_port as torch
        >>> D = torch.distributions
        >>> D.CatTransform([D.ExpTransform(), D.AffineTransform(0.0, 3.0)], lengths=[1, 2])(torch.ones(3))
        tensor([2.7183, 3.0000, 3.0000])
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})"
            )
        self.dim = dim

    @cached_property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(t.event_dim for t in self.transforms)

    @cached_property
    def length(self) -> int:
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, x: Tensor, name: str = "tensor") -> Sequence[Tensor]:
        self._check_dim(x, self.dim, name)
        if x.size(self.dim) != self.length:
            shown = "x" if name == "tensor" else name
            raise AssertionError(
                f"{shown}.size({self.dim}) = {x.size(self.dim)} must equal length {self.length}"
            )
        return x.split(self.lengths, self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return function("cat")(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for t, a, b in zip(self.transforms, self._split(x, "x"), self._split(y, "y"), strict=True):
            terms.append(_sum_rightmost(t.log_abs_det_jacobian(a, b), self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return function("cat")(terms, dim=dim) if dim < 0 else sum(terms[1:], terms[0])

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Parts):
    """Applies each transform to one index of a tensor along ``dim``, and stacks the results.

    Args:
        tseq: the transforms, as many as the dimension has indices.
        dim: the dimension. Default: 0.
        cache_size: as for `ComposeTransform`.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, cache_size)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        return (
            self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)
        )

    def _split(self, x: Tensor, name: str = "tensor") -> Sequence[Tensor]:
        self._check_dim(x, self.dim, name)
        if x.size(self.dim) != len(self.transforms):
            shown = "x" if name == "tensor" else name
            raise AssertionError(
                f"{shown}.size({self.dim}) = {x.size(self.dim)} must equal len(transforms) {len(self.transforms)}"
            )
        return x.unbind(self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return function("stack")(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._split(x, "x"), self._split(y, "y"), strict=True)
        return self._join([t.log_abs_det_jacobian(a, b) for t, a, b in pairs])

    @constraints.dependent_property
    def domain(self) -> Any:  # type: ignore[override]
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:  # type: ignore[override]
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
