"""`func` beyond what torch can be asked about: inside `compile`, on the outer tape, control flow, footguns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port import func
from functorch_port.func import cond, grad, hessian, jacrev, jvp, scan, value_and_grad, vjp, vmap, while_loop


def net_and_input() -> tuple[ft.nn.Module, ft.Tensor]:
    ft.manual_seed(0)
    net = ft.nn.Sequential(ft.nn.Linear(3, 4), ft.nn.Tanh(), ft.nn.Linear(4, 1))
    return net, ft.randn(5, 3)


def physics_loss(lib, net, x):
    """A loss that holds the derivative of the network by its input."""
    slopes = lib.func.vmap(lib.func.grad(lambda xi: net(xi).squeeze()))(x)
    return (slopes**2).mean()


def test_transform_in_a_loss_eager_compiled_and_torch() -> None:
    net, x = net_and_input()
    twin = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    twin.load_state_dict({k: torch.from_numpy(v.numpy().copy()) for k, v in net.state_dict().items()})
    expected = physics_loss(torch, twin, torch.from_numpy(x.numpy().copy()))
    expected.backward()

    def step():
        net.zero_grad()
        loss = physics_loss(ft, net, x)
        loss.backward()
        return loss

    compiled = ft.compile(step)
    for run in (step, compiled, compiled):
        loss = run()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
        for p, q in zip(net.parameters(), twin.parameters(), strict=True):
            wanted = (
                np.zeros(p.shape) if q.grad is None else q.grad.numpy()
            )  # torch leaves None where we give zeros
            np.testing.assert_allclose(p.grad.numpy(), wanted, rtol=1e-4, atol=1e-7)
    assert compiled.traces == 1


def test_per_sample_gradients_compiled() -> None:
    net, x = net_and_input()
    params = {k: v.detach() for k, v in net.named_parameters()}
    per_sample = vmap(grad(lambda p, xi: func.functional_call(net, p, xi).sum()), in_dims=(None, 0))
    eager, compiled = per_sample(params, x), ft.compile(per_sample)(params, x)
    for k, p in params.items():
        assert eager[k].shape == (5, *p.shape) and ft.allclose(eager[k], compiled[k], atol=1e-6)


def test_detached_tensors_are_constants() -> None:
    """A captured tensor is differentiated, its `detach()` is not, wherever that was made."""
    w = ft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    outside = w.detach()

    def gradient(constant):
        w.grad = None
        grad(lambda z: (z * w * constant()).sum())(ft.ones(3)).sum().backward()
        return w.grad

    for constant in (lambda: outside, lambda: w.detach(), lambda: w.data):
        assert gradient(constant).tolist() == [1.0, 2.0, 3.0]
        assert ft.compile(gradient)(constant).tolist() == [1.0, 2.0, 3.0]


def cubed_aside(z):
    with ft.no_grad():
        return z**3


def test_no_grad_inside_makes_constants() -> None:
    assert grad(lambda z: (z * z - cubed_aside(z)).sum())(ft.ones(2)).tolist() == [2.0, 2.0]
    with ft.no_grad():  # outside it means nothing, as in torch
        assert grad(lambda z: (z * z).sum())(ft.ones(2)).tolist() == [2.0, 2.0]


def _aside(lib, how):
    """``x ** 3 - s``, where ``s`` is ``x ** 3`` computed in a transform under `no_grad`."""
    F = lib.func
    power = lambda y: 0.25 * y**4  # noqa: E731

    def f(x):
        one = lib.ones_like(x)
        with lib.no_grad():
            s = {
                "grad": lambda: F.grad(power)(x),
                "vjp": lambda: F.vjp(power, x)[1](one)[0],
                "jacrev": lambda: F.jacrev(power)(x),
                "vmap": lambda: F.vmap(lambda y: y**3)(x[None])[0],
                "plain": lambda: x**3,
            }[how]()
        return x**3 - s * x

    return f


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("how", ["grad", "vjp", "jacrev", "vmap", "plain"])
@pytest.mark.parametrize("compiled", [False, True])
def test_no_grad_is_of_reverse_mode(how, compiled) -> None:
    """What is computed under it is a constant of reverse mode, at every level; forward mode goes on through it."""
    derivatives = {
        "grad": lambda F, f: F.grad(f),
        "grad of grad": lambda F, f: F.grad(F.grad(f)),
        "jacfwd": lambda F, f: F.jacfwd(f),
        "jvp": lambda F, f: lambda x: F.jvp(f, (x,), (x,)),
        "jacfwd of jacfwd": lambda F, f: F.jacfwd(F.jacfwd(f)),
        "hessian": lambda F, f: F.hessian(f),
        "jvp of grad": lambda F, f: lambda x: F.jvp(F.grad(f), (x,), (x,)),
    }
    for name, take in derivatives.items():
        want = take(torch.func, _aside(torch, how))(torch.tensor(1.5, dtype=torch.float64))
        taken = take(ft.func, _aside(ft, how))
        got = (ft.compile(taken) if compiled else taken)(ft.tensor(1.5, dtype=ft.float64))
        for a, b in zip(*[t if isinstance(t, tuple) else (t,) for t in (got, want)], strict=True):
            assert float(a) == pytest.approx(float(b), rel=1e-12), name


def test_no_grad_in_forward_mode_inside_of_reverse_mode() -> None:
    f = _aside(ft, "plain")
    with pytest.raises(NotImplementedError, match="compute what is to be constant outside"):
        grad(lambda x: ft.func.jvp(f, (x,), (x,))[1])(ft.tensor(1.5))


def test_in_place_inside() -> None:
    def f(z):
        b = ft.zeros(3)
        b[:2] = z * 2
        b[0] += z[1]
        return (b**2).sum()

    assert grad(f)(ft.tensor([1.0, 2.0])).tolist() == [16.0, 24.0]


def test_captured_tensors_are_not_written() -> None:
    a = ft.zeros(2)
    version = a._version
    for transform in (grad, vmap):
        with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
            transform(lambda z: a.add_(1).sum() + z.sum())(ft.ones(2))
    assert a.tolist() == [0, 0] and a._version == version and ft.zeros(1).add_(1).item() == 1


def test_vmap_refuses_to_lose_a_write() -> None:
    shared = ft.ones(())
    with pytest.raises(NotImplementedError, match="changes in place an input that all examples share"):
        vmap(lambda x, y: y.add_(x), (0, None))(ft.ones(3), shared)
    assert shared.item() == 1.0


def test_linearized_function_checks_its_tangents() -> None:
    with pytest.raises(
        RuntimeError, match=r"tangents \(\*, \*\) to have the same argspec as the primals \(\*,\)"
    ):
        ft.func.linearize(ft.sin, ft.ones(3))[1](ft.ones(3), ft.ones(3))


@pytest.mark.parametrize("rng", ["jax", "torch"])
def test_random_numbers_in_a_compiled_vmap(rng: str) -> None:
    drop = ft.nn.Dropout(0.5)
    call = lambda: vmap(drop, randomness="different")(ft.ones(3, 8))
    compiled = ft.compile(call, rng=rng)
    ft.manual_seed(1)
    first, second = compiled(), compiled()
    assert (first != second).any() and (first[0] != first[1]).any()
    ft.manual_seed(1)
    if rng == "torch":
        assert (first == call()).all() and (second == call()).all()


def test_recording_does_not_draw_twice() -> None:
    w = ft.ones(3, requires_grad=True)
    ft.manual_seed(3)
    found = grad(lambda z: (z * ft.rand(3) * w).sum())(ft.ones(3))
    after = ft.rand(1)
    ft.manual_seed(3)
    assert ft.equal(found.detach(), ft.rand(3)) and ft.equal(after, ft.rand(1))


class Cube(ft.autograd.Function):
    """With a backward that is wrong on purpose, so that it is seen which one ran."""

    @staticmethod
    def forward(a):
        return a * a * a

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return g * a * 10


def test_custom_functions() -> None:
    x = ft.tensor([1.0, 2.0])
    assert grad(lambda z: Cube.apply(z).sum())(x).tolist() == [10.0, 20.0]
    assert vmap(grad(Cube.apply))(x).tolist() == [10.0, 20.0]
    assert grad(grad(Cube.apply))(x[0]).item() == 10.0
    assert vmap(Cube.apply)(x).tolist() == [1.0, 8.0]
    assert ft.compile(vmap(grad(Cube.apply)))(x).tolist() == [10.0, 20.0]


def test_nesting() -> None:
    x = ft.tensor(2.0)
    cube = lambda z: z**3
    assert jvp(grad(cube), (x,), (ft.ones(()),))[1].item() == 12.0
    assert grad(lambda z: vjp(cube, z)[1](ft.ones(()))[0])(x).item() == 12.0
    assert hessian(lambda z: vmap(cube)(z).sum())(ft.tensor([1.0, 2.0])).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    value, gradient = value_and_grad(cube)(x)
    assert (value.item(), gradient.item()) == (8.0, 12.0)


def test_vjp_on_the_outer_tape() -> None:
    x = ft.tensor([1.0, 2.0], requires_grad=True)
    out, pull = vjp(lambda z: z**3, x)
    (g,) = pull(ft.ones(2))
    (out.sum() + g.sum()).backward()  # 3 x^2 + 6 x
    assert x.grad.tolist() == [9.0, 24.0]


def test_jacobian_of_a_module_call() -> None:
    net, x = net_and_input()
    rows = jacrev(net)(x[0])
    assert rows.shape == (1, 3)


# ------------------------------------------------------------------ control flow


def both(fn, *args):
    """Eager and compiled results."""
    return fn(*args), ft.compile(fn)(*args)


def test_cond() -> None:
    w = ft.tensor([1.0, 2.0], requires_grad=True)

    def f(p):
        w.grad = None
        out = cond(p > 0, lambda a: (a * w).sum(), lambda a: (-a * w * w).sum(), (ft.ones(2),))
        out.backward()
        return out, w.grad

    for p, value, gradient in ((1.0, 3.0, [1.0, 1.0]), (-1.0, -5.0, [-2.0, -4.0])):
        for out, g in both(f, ft.tensor(p)):
            assert out.item() == value and g.tolist() == gradient
    compiled = ft.compile(f)
    compiled(ft.tensor(1.0))
    compiled(ft.tensor(-1.0))
    assert compiled.traces == 1
    with pytest.raises(RuntimeError, match="same shapes and dtypes"):
        ft.compile(lambda p: cond(p > 0, lambda: ft.ones(2), lambda: ft.ones(3)))(ft.tensor(1.0))


def test_while_loop() -> None:
    def f(n, x):
        return while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * 2), (ft.tensor(0), x))

    for i, a in both(f, ft.tensor(4), ft.tensor(1.0)):
        assert (i.item(), a.item()) == (4, 16.0)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool) -> None:
    w = ft.tensor([1.0, 2.0], requires_grad=True)

    def f(xs):
        w.grad = None
        carry, ys = scan(lambda c, x: (c * w + x, {"sum": c.sum()}), ft.zeros(2), xs, reverse=reverse)
        (carry.sum() + ys["sum"].sum()).backward()
        return carry, ys["sum"], w.grad

    for eager, compiled in zip(*both(f, ft.arange(6.0).reshape(3, 2)), strict=True):
        assert eager.tolist() == compiled.tolist()
