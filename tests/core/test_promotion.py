"""Type promotion: the whole table of dtypes x {tensor, 0-dim tensor, number} against torch's."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port.core import dtypes, promotion

NAMES = [d.name for d in dtypes.ALL]
NUMBERS = [True, 1, 1.0, 1j]


def outcome(fn):
    try:
        return repr(fn())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def without_complex32(text):
    """JAX has no complex32; float16 with a complex number gives complex64 here."""
    return text.replace("complex32", "complex64")


def theirs_of(*operands):
    return outcome(lambda: torch.result_type(*operands))


def ours_of(*operands):
    with jax.enable_x64(True):
        return outcome(lambda: promotion.result_dtype(*operands))


def array(name, shape):
    with jax.enable_x64(True):
        return jnp.ones(shape, getattr(ft, name).np)


@pytest.mark.parametrize("first", NAMES)
def test_pairs(first):
    for second in NAMES:
        a, b = getattr(torch, first), getattr(torch, second)
        c, d = getattr(ft, first), getattr(ft, second)
        assert outcome(lambda: ft.promote_types(c, d)) == outcome(lambda: torch.promote_types(a, b))
        assert ft.can_cast(c, d) == torch.can_cast(a, b), (first, second)
        for left, right in itertools.product([(2,), ()], repeat=2):
            theirs = theirs_of(torch.ones(left, dtype=a), torch.ones(right, dtype=b))
            ours = ours_of(array(first, left), array(second, right))
            assert ours == without_complex32(theirs), (first, left, second, right)


@pytest.mark.parametrize("default", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_with_numbers(name, default):
    torch.set_default_dtype(getattr(torch, default))
    ft.set_default_dtype(getattr(ft, default))
    try:
        for shape, number in itertools.product([(2,), ()], NUMBERS):
            theirs = without_complex32(theirs_of(torch.ones(shape, dtype=getattr(torch, name)), number))
            assert ours_of(array(name, shape), number) == theirs
            if number is not True or not (name.startswith(("uint", "float8")) and shape == ()):
                # a bool is a strongly typed tracer, and these types do not promote
                assert _in_jit(array(name, shape), number) == theirs
    finally:
        torch.set_default_dtype(torch.float32)
        ft.set_default_dtype(ft.float32)


def _in_jit(*operands):
    """Inside `jax.jit` a Python number is a weakly typed tracer."""
    found = []
    with jax.enable_x64(True):
        jax.jit(lambda *xs: found.append(outcome(lambda: promotion.result_dtype(*xs))))(*operands)
    return found[0]


def test_numbers_alone():
    for a, b in itertools.product(NUMBERS, repeat=2):
        assert ours_of(a, b) == theirs_of(a, b)


@pytest.mark.parametrize("seed", range(5))
def test_three_operands(seed):
    rng = np.random.default_rng(seed)
    plain = ["bool", "uint8", "int8", "int32", "int64", "bfloat16", "float32", "float64", "complex64"]
    for _ in range(50):
        picks = [(rng.choice(plain), [(2,), ()][rng.integers(2)]) for _ in range(3)]
        expected = _combined([torch.ones(s, dtype=getattr(torch, n)) for n, s in picks])
        with jax.enable_x64(True):
            ours = promotion.result_dtype(*[array(n, s) for n, s in picks])
        assert repr(ours) == repr(expected), picks


def _combined(tensors):
    """torch's answer for several operands, through operations that take many."""
    many = [t for t in tensors if t.ndim]
    few = [t for t in tensors if not t.ndim]
    fold = lambda group: torch.cat([t.reshape(-1) for t in group])  # noqa: E731
    if not many:
        return fold(few).dtype
    return torch.result_type(fold(many), fold(few)[0]) if few else fold(many).dtype


def test_promote_gives_strong_arrays_and_wraps_integers():
    with jax.enable_x64(True):
        x, y = promotion.promote(jnp.ones(2, np.uint8), 300)
        assert y.dtype == np.uint8 and int(y) == 44 and not y.weak_type
        x, y = promotion.promote_float(jnp.ones(2, np.int32), 2)
        assert x.dtype == y.dtype == np.float32
        x, y = promotion.promote_float(jnp.ones(2, np.float64), 2)
        assert x.dtype == y.dtype == np.float64
        assert promotion.result_type(np.float32(1), jnp.ones(2, np.int8)) == np.float32
    with pytest.raises(ValueError, match="at least one"):
        promotion.result_type()


def test_argument_errors():
    calls = "promote_types(1, torch.int32)", "promote_types(torch.int32, 'x')", "can_cast(1, torch.int32)"
    for call in calls:
        theirs = outcome(lambda: eval(f"torch.{call}"))
        assert outcome(lambda: eval(f"torch.{call}", {"torch": ft})) == theirs
