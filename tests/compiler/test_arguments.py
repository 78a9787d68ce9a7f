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


def test_the_same_tensor_twice():
    def scenario(lib, wrap):
        x, y = lib.tensor([1.0, 2.0]), lib.tensor([5.0, 7.0])
        difference = wrap(lambda a, b, c: a - b * c)

        def moved(a, b):
            a.add_(1)
            return a * b

        moved = wrap(moved)
        out = [
            difference(a, b, c) for a, b, c in ((x, x, x), (x, y, x), (y, y, x), (x, y, y), (x, y, x.clone()))
        ]
        out += [moved(a, b) for a, b in ((x, y), (x, x), (y, x), (y, y), (x, x.detach()))]
        return [*out, x, y]

    both(scenario)


def test_an_argument_that_is_a_variable_too():
    def scenario(lib, wrap):
        w, x, y = lib.tensor([1.0, 2.0]), lib.tensor([5.0, 7.0]), lib.tensor([3.0, 4.0])
        held = {"deep": [y]}

        def inner(a):
            return a * w + held["deep"][0]

        def outer(a):
            a.add_(1)
            return inner(a) - a

        outer = wrap(outer)
        out = [outer(a).clone() for a in (w, x, w, y, x, y, w)]
        return [*out, w, x, y]

    both(scenario)


def test_how_often_they_are_traced():
    w = ft.ones(2)
    product = ft.compile(lambda a, b: a * b * w)
    for a, b in ((ft.ones(2), ft.ones(2)), (ft.ones(2), ft.ones(2)), (w, ft.ones(2)), (w, ft.ones(2))):
        product(a, b)
    x = ft.ones(2)
    for _ in range(2):
        product(x, x)
        product(x, ft.ones(2))
        product(w, ft.ones(2))
    assert product.traces == 3, product.reasons


def test_a_view_beside_its_base():
    def scenario(lib, wrap):
        x = lib.tensor([[1.0, 2.0], [3.0, 4.0]])

        def fn(a, b):
            a.mul_(2)
            return a.sum() + b

        fn = wrap(fn)
        return [fn(x, lib.ones(2)), fn(x, x[1]), fn(x, x[0]), fn(x[0], x[0]), x]

    both(scenario)


def test_the_caller_may_keep_arguments_anywhere():
    def fn(given):
        x = given["x"]
        row = x[0]
        return {"x": x, "row": row, "sum": (x * 2).sum()}

    fn = ft.compile(fn)
    for _ in range(3):
        given = {"x": ft.ones(2, 3)}
        out = fn(given)
        assert out["x"] is given["x"] and out["row"].tolist() == [1, 1, 1]
    assert fn.traces == 1, fn.reasons


def test_an_argument_that_becomes_a_gradient():
    p = ft.nn.Parameter(ft.ones(3))
    optimizer = ft.optim.SGD([p], lr=0.5)

    @ft.compile
    def step(grad):
        p.grad = grad
        optimizer.step()

    for i in range(4):
        given = ft.full((3,), float(i))
        step(given)
        assert p.grad is given
    assert p.tolist() == [1 - 0.5 * (0 + 1 + 2 + 3)] * 3 and step.traces == 1
