"""Type promotion: the whole table of dtypes x {tensor, 0-dim tensor, number} against torch's."""

import itertools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._base import dtypes, promotion

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
            if number is not True or not _refuses_bool(name, shape):
                assert _in_jit(array(name, shape), number) == theirs
    finally:
        torch.set_default_dtype(torch.float32)
        ft.set_default_dtype(ft.float32)


def _refuses_bool(name, shape):
    """Whether a program refuses True beside this tensor: there it is a 0-dim tensor, which these types do not take."""
    return shape == () and name != "uint8" and name.startswith(("uint", "float8"))


def _in_jit(*operands):
    """Inside `jax.jit` a Python number is a weakly typed tracer."""
    found = []
    with jax.enable_x64(True):
        jax.jit(lambda *xs: found.append(outcome(lambda: promotion.result_dtype(*xs))))(*operands)
    return found[0]


OPERATIONS = {
    "add": lambda lib, a, b: a + b,
    "mul": lambda lib, a, b: a * b,
    "div": lambda lib, a, b: a / b,
    "pow": lambda lib, a, b: a**b,
    "lt": lambda lib, a, b: a < b,
    "eq": lambda lib, a, b: a == b,
    "where": lambda lib, a, b: lib.where(lib.ones((), dtype=lib.bool, device=a.device), a, b),
    "cat": lambda lib, a, b: lib.cat([a, b]),
}
RANKS = [((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())]
WHOLE = os.environ.get("WHOLE_DATABASE") == "1"


def _types(lib, name, one, other):
    """The type of an operation's result, or the error, for operands of types by name and shape, or numbers."""
    device = "cpu" if lib is torch else "meta"  # a meta tensor costs no compilation
    made = [
        operand
        if not isinstance(operand, tuple)
        else lib.ones(operand[1], device=device).to(getattr(lib, operand[0]))
        for operand in (one, other)
    ]
    try:
        return without_complex32(str(OPERATIONS[name](lib, *made).dtype))
    except Exception as error:
        return error


@pytest.mark.filterwarnings("ignore:ComplexHalf support")  # PyTorch says so once
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    """One pair of operands in 61 by default, as each is a program of its own; with WHOLE_DATABASE=1 all."""
    pairs = [((a, s), (b, r)) for a, b in itertools.product(NAMES, repeat=2) for s, r in RANKS]
    numbers = [((a, s), n) for a in NAMES for s in [(2,), ()] for n in NUMBERS]
    if name == "cat":
        pairs, numbers = [p for p in pairs if p[0][1] and p[1][1]], []
    for one, other in [*pairs, *numbers][:: 1 if WHOLE else 61]:
        theirs, ours = _types(torch, name, one, other), _types(ft, name, one, other)
        if isinstance(theirs, str):
            assert ours == theirs, (name, one, other)
        elif "not implemented for" not in str(theirs):  # a kernel is missing; the type would be known
            assert isinstance(ours, Exception), (name, one, other, theirs, ours)


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
