"""VonMises: a distribution over angles."""

from __future__ import annotations

import math
from typing import Any

from .._base import dtypes
from .._base.size import Size
from .._run.bind import function
from .._tensor.creation import zeros
from .._tensor.grad_mode import no_grad
from .._tensor.tensor import Tensor
from ..compiler import is_compiling
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["VonMises"]

# Abramowitz and Stegun, Handbook of Mathematical Functions, 9.8.1 to 9.8.4
_SMALL = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411),
)
_LARGE = (
    (
        0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537, -0.01647633, 0.00392377,
    ),
    (
        0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555, 0.02282967, -0.02895312, 0.01787654, -0.00420059,
    ),
)  # fmt: skip


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    result: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        result = c + x * result
    return result


def _log_bessel(x: Tensor, order: int) -> Tensor:
    """The logarithm of the modified Bessel function of the first kind, to about seven digits, as PyTorch has it."""
    small = _polynomial((x / 3.75) ** 2, _SMALL[order])
    small = x.abs() * small if order else small
    large = x - 0.5 * x.log() + _polynomial(3.75 / x, _LARGE[order]).log()
    return function("where")(x < 3.75, small.log(), large)


class VonMises(Distribution):
    """The von Mises distribution over angles in [-pi, pi).

    Args:
        loc: mean angle, in radians.
        concentration: positive; the larger, the narrower the distribution. Near 0 it is uniform.
        validate_args: see `Distribution`.

    Reference: https://docs.pytorch.org/docs/stable/distributions.html#vonmises
    """

    arg_constraints: Any = {"loc": constraints.real, "concentration": constraints.positive}
    support: Any = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        constant = math.log(2 * math.pi) + _log_bessel(self.concentration, 0)
        return self.concentration * (value - self.loc).cos() - constant

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        if is_compiling():
            raise NotImplementedError(
                "VonMises.sample() redraws until every sample is accepted, which a compiled function cannot do: "
                "call it outside of the compiled function"
            )
        with no_grad():
            return self._drawn(self._extended_shape(sample_shape)).to(self.loc.dtype)

    def _drawn(self, shape: Any) -> Tensor:
        """Best and Fisher's rejection sampling (1979), with a wrapped Cauchy distribution as the envelope."""
        kappa = self.concentration.to(dtypes.float64)
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        r = function("where")(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))
        angle = zeros(shape, dtype=kappa.dtype, device=kappa.device)
        done = angle != 0
        while not bool(done.all()):
            u1, u2, u3 = function("rand")((3, *shape), dtype=kappa.dtype, device=kappa.device).unbind()
            z = (math.pi * u1).cos()
            f = (1 + r * z) / (r + z)
            c = kappa * (r - f)
            fits = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
            angle = function("where")(fits, (u3 - 0.5).sign() * f.acos(), angle)
            done = done | fits
        return (angle + math.pi + self.loc.to(kappa.dtype)) % (2 * math.pi) - math.pi

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """The circular variance."""
        return 1 - (_log_bessel(self.concentration, 1) - _log_bessel(self.concentration, 0)).exp()
