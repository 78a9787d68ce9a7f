"""`gradcheck`: what it accepts and refuses, beside torch."""

from __future__ import annotations

import pytest
import torch
import twins

import functorch_port as ft


def leaf(T, *, complex: bool = False):
    return T.tensor([1.0, 2.0], dtype=T.complex128 if complex else T.float64, requires_grad=True)


def shifted(y):
    y.register_hook(lambda g: g + 1e-2)
    return y


def closure_over_the_input(T):
    x = leaf(T)
    return T.autograd.gradcheck(lambda _: x * x, x), x.tolist(), x._version


def wrong_real(T):
    T.autograd.gradcheck(lambda x: shifted(x * 1), leaf(T))


def wrong_complex(T):
    T.autograd.gradcheck(lambda x: shifted(x * 1), leaf(T, complex=True))


def wrong_parts(T):
    x = leaf(T)
    T.autograd.gradcheck(lambda x: shifted(T.complex(x, x)), x)


def no_outputs(T):
    return T.autograd.gradcheck(lambda x: (), leaf(T))


def no_gradient(T):
    T.autograd.gradcheck(lambda x: x.detach() * 1, leaf(T))


def shape_changes(T):
    T.autograd.gradcheck(lambda x: T.cat([x, x]) if bool((x >= 1).all()) else x, leaf(T))


def dtype_changes(T):
    T.autograd.gradcheck(lambda x: x.float() if bool((x >= 1).all()) else x * 1, leaf(T))


def overlapping(T):
    T.autograd.gradcheck(lambda x: x, leaf(T)[:1].expand(2, 2))


def nothing_to_check(T):
    T.autograd.gradcheck(lambda x: x, leaf(T), check_backward_ad=False)


def batched_without_backward(T):
    T.autograd.gradcheck(lambda x: x, leaf(T), check_backward_ad=False, check_batched_grad=True)


def batched_forward_without_forward(T):
    T.autograd.gradcheck(lambda x: x, leaf(T), check_batched_forward_grad=True)


def forward(T):
    options = {"check_forward_ad": True, "check_batched_forward_grad": True, "check_batched_grad": False}
    made = [T.autograd.gradcheck(lambda x, y: (x * y.sin(), y), (leaf(T), leaf(T)), **options)]
    return [*made, T.autograd.gradcheck(lambda z: z * z, leaf(T, complex=True), **options)]


def wrong_forward(T):
    fw = T.autograd.forward_ad

    def program(x, y):
        if fw._current_level >= 0:
            primal, tangent = fw.unpack_dual(y)
            y = fw.make_dual(primal, tangent * 1.5)
        return x + y

    T.autograd.gradcheck(program, (leaf(T), leaf(T)), check_forward_ad=True)


def forward_alone(T):
    class Fn(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 2

    return T.autograd.gradcheck(
        Fn.apply, leaf(T), check_forward_ad=True, check_backward_ad=False, check_batched_grad=False
    )


def nothing_in_the_input(T):
    x = T.ones(0, 2, dtype=T.float64, requires_grad=True)
    return [T.autograd.gradcheck(f, x) for f in (lambda x: x * 2, lambda x: x.sum(), lambda x: (x, x.sum(0)))]


def walks_that_become_a_program(T):
    x = T.tensor([[0.3, 0.1], [0.7, 0.4]], dtype=T.float64, requires_grad=True)

    def derivatives(x):
        return T.autograd.functional.jacobian(
            lambda t: (t.sin() * t.exp()).cos().sum(1), x, create_graph=True
        )

    return [T.autograd.gradcheck(derivatives, x), T.autograd.gradgradcheck(derivatives, x)]


CASES = [
    closure_over_the_input, wrong_real, wrong_complex, wrong_parts, no_outputs, no_gradient, shape_changes,
    dtype_changes, overlapping, nothing_to_check, batched_without_backward, batched_forward_without_forward, forward,
    wrong_forward, forward_alone, nothing_in_the_input, walks_that_become_a_program,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_in_torch(case) -> None:
    """Errors by their first line without the numbers: rounding differs."""
    theirs, ours = (twins.outcome(case, T)[:2] for T in (torch, ft))
    if theirs[1] is not None:
        theirs, ours = ((kind, text.split(",\n")[0].split(" by ")[0]) for _, (kind, text) in (theirs, ours))
    assert ours == theirs


def test_a_zero_gradient_must_give_zero() -> None:
    """Where the differences agree within the tolerance."""

    def program(T):
        return T.autograd.gradcheck(lambda x: shifted(x * 1), leaf(T), atol=0.1)

    twins.same_outcome(program)
