"""Arguments of compiled functions: a parameter is itself, any other tensor is whatever stands in its place."""

import torch

import functorch_port as ft


def both(build):
    """The same scenario in PyTorch (uncompiled) and compiled here, as lists of numbers."""
    expected = [t.tolist() for t in build(torch, lambda fn: fn)]
    assert [t.tolist() for t in build(ft, ft.compile)] == expected


def test_two_parameters_of_one_shape_are_not_mixed_up():
    def scenario(lib, wrap):
        a, b = lib.nn.Parameter(lib.ones(2)), lib.nn.Parameter(lib.ones(2) * 5)

        def scale(w, by):
            with lib.no_grad():
                w.mul_(by)
            return w * 2

        scale = wrap(scale)
        out = [scale(w, lib.tensor([2.0, 3.0])).detach() for w in (a, b, a)]
        return [*out, a.detach(), b.detach()]

    both(scenario)


def test_gradients_leave_through_parameters_given_as_arguments():
    def scenario(lib, wrap):
        a, b = lib.nn.Parameter(lib.ones(2)), lib.nn.Parameter(lib.ones(2))
        product = wrap(lambda w, x: w * x)
        for w in (a, b, a):
            product(w, lib.tensor([2.0, 3.0])).sum().backward()
        return [a.grad, b.grad]

    both(scenario)


def test_freezing_a_parameter_given_as_an_argument_is_noticed():
    w = ft.nn.Parameter(ft.ones(2))
    double = ft.compile(lambda w: w * 2)
    assert double(w).requires_grad
    w.requires_grad_(False)
    assert not double(w).requires_grad
    assert double.traces == 2


def test_gradients_of_a_tensor_argument_accumulate():
    def scenario(lib, wrap):
        w, x = lib.ones(2, requires_grad=True), lib.ones(2, requires_grad=True)
        run = wrap(lambda x: (w * x).sum().backward())
        for _ in range(3):
            run(x)
        return [w.grad, x.grad]

    both(scenario)
