"""`autograd.forward_ad`: every case runs with torch and with this package, results and errors must be the same."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import twins

import functorch_port as ft
from functorch_port._base import watch


def fw(T):
    return T.autograd.forward_ad


def dual(T, *, grad: bool = False):
    x = T.tensor([1.0, 2.0, 3.0], requires_grad=grad)
    return fw(T).make_dual(x, T.tensor([1.0, -1.0, 2.0]))


def shown(T, *tensors):
    """Values, tangents, and whether they require a gradient."""
    pairs = [fw(T).unpack_dual(t) for t in tensors]
    return [
        [None if p is None else (p.tolist(), str(p.dtype), p.requires_grad) for p in pair] for pair in pairs
    ]


def product(T):
    x = dual(T)
    return shown(T, x * x + 2, x[1:] * 3, (x > 1) * 1, x.sum(), x.double(), x.long())


def several_results(T):
    return shown(T, *dual(T).sort(descending=True), *dual(T).max(0), *dual(T).split(2))


def matrices(T):
    x = fw(T).make_dual(T.tensor([[1.0, 2.0], [3.0, 4.0]]), T.tensor([[1.0, 0.0], [0.0, 2.0]]))
    return shown(T, x @ x, T.nn.functional.linear(x, x, x[0]), x.t(), x.t() @ T.ones(2))


def complex_numbers(T):
    z = fw(T).make_dual(T.tensor([3 + 4j]), T.tensor([1j]))
    return shown(T, z * z, z.real, z.conj(), T.view_as_real(z))


def no_grad_goes_on(T):
    x = dual(T, grad=True)
    with T.no_grad():
        return shown(T, x * 2, x.detach() * 2)


def reverse_over_forward(T):
    x = T.tensor([1.0, 2.0], requires_grad=True)
    v = T.tensor([1.0, 3.0], requires_grad=True)
    y = fw(T).unpack_dual(fw(T).make_dual(x, v) ** 3)
    first = T.autograd.grad(y.primal.sum(), (x, v), retain_graph=True, allow_unused=True)
    second = T.autograd.grad(y.tangent.sum(), (x, v))
    return [None if g is None else g.tolist() for g in (*first, *second)]


def in_place(T):
    x, v = T.tensor([1.0, 2.0]), T.tensor([1.0, 1.0])
    d = fw(T).make_dual(x, v)
    d.mul_(3)
    d[0] = 7.0
    return shown(T, d, x), v.tolist(), x.tolist()


def in_place_with_a_dual(T):
    y = T.ones(3)
    y.mul_(dual(T))
    z = T.zeros(2, 3)
    z[1] = dual(T)
    z[:, 0].add_(dual(T)[0])
    return shown(T, y, z, z[1], z.t())


def in_place_on_a_transposed_view(T):
    base = T.zeros(2, 2)
    view = base.t()
    view.copy_(fw(T).make_dual(T.ones(2, 2), T.tensor([[1.0, 2.0], [3.0, 4.0]])))
    view.mul_(2)
    return shown(T, base, view)


def in_place_on_what_is_detached(T):
    base = T.ones(3)
    base.detach().add_(dual(T))
    return shown(T, base)


def overwritten(T):
    made = []
    for write in (
        lambda t: t.zero_(),
        lambda t: t.fill_(2.0),
        lambda t: t.copy_(T.ones(3)),
        lambda t: t.eq_(1.0),
    ):
        x = dual(T) * 1
        write(x)
        made.append(x)
    return shown(T, *made)


def drawn_over(T):
    x = dual(T) * 1
    x.uniform_()
    return fw(T).unpack_dual(x).tangent.tolist()


def detached_in_place(T):
    x = dual(T).clone()
    x.detach_()
    return shown(T, x * 2)


def memory_is_shared(T):
    x, v = T.ones(2), T.ones(2)
    d = fw(T).make_dual(x, v)
    p = fw(T).unpack_dual(d)
    p.tangent.mul_(2)
    x.add_(1)
    return p.tangent is v, p.primal is d, shown(T, d, x), shown(T, p.primal), d._version


def tangent_of_another_layout(T):
    v = T.tensor([[1.0, 2.0], [3.0, 4.0]])
    d = fw(T).make_dual(T.zeros(2, 2).t(), v)
    e = fw(T).make_dual(T.arange(5.0)[:4], T.ones(4))
    return [fw(T).unpack_dual(d).tangent is v, shown(T, d)], shown(T, e.as_strided((5,), (1,), 0))


def after_the_level(T):
    with_one = {"dual": dual(T)}
    fw(T).exit_dual_level()
    again = shown(T, with_one["dual"])
    fw(T).enter_dual_level()
    return again, shown(T, with_one["dual"])


def levels(T):
    return fw(T)._current_level


def printed(T):
    return repr(dual(T)), str(dual(T, grad=True))


def switched_off(T):
    x = dual(T)
    before = fw(T)._is_fwd_grad_enabled()
    with fw(T)._set_fwd_grad_enabled(False):
        inside = fw(T)._is_fwd_grad_enabled()
        y = x * 2
    return before, inside, fw(T)._is_fwd_grad_enabled(), shown(T, y)


def other_size(T):
    fw(T).make_dual(T.ones(2), T.ones(3))


def integers(T):
    fw(T).make_dual(T.ones(2).long(), T.ones(2))


def integer_tangent(T):
    fw(T).make_dual(T.ones(2), T.ones(2).long())


def tangent_with_a_tangent(T):
    fw(T).make_dual(T.ones(3), dual(T))


def dual_of_a_dual(T):
    fw(T).make_dual(dual(T), T.ones(3))


def wrong_level(T):
    fw(T).make_dual(T.ones(3), T.ones(3), level=4)


def out_of_a_dual(T):
    T.add(dual(T), 1, out=T.ones(3))


def out_is_a_dual(T):
    T.add(T.ones(3), 1, out=dual(T))


def function(T, jvp, forward=lambda ctx, x: x * 2):
    members = {"forward": staticmethod(forward), "backward": staticmethod(lambda ctx, g: g)}
    if jvp is not None:
        members["jvp"] = staticmethod(jvp)
    return type("Fn", (T.autograd.Function,), members)


def custom(T):
    return shown(T, function(T, lambda ctx, t: t * 5).apply(dual(T)))


def custom_without_jvp(T):
    function(T, None).apply(dual(T))


def custom_saves(T):
    def forward(ctx, x):
        ctx.save_for_forward(x)
        ctx.save_for_backward(x, x)
        return x * x

    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 2 * x * t

    return shown(T, function(T, jvp, forward).apply(dual(T, grad=True)))


def custom_two_inputs(T):
    seen = []

    def jvp(ctx, a, b, c, d):
        seen.extend([a.tolist(), b.tolist(), c, d])
        return a * 2 + b

    fn = function(T, jvp, lambda ctx, a, b, c, d: a * 2 + b)
    return shown(T, fn.apply(dual(T), T.ones(3), T.tensor([1]), 5)), seen


def custom_in_place(T, in_place=True):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    x = dual(T) * 1
    t = fw(T).unpack_dual(x).tangent
    out = function(T, lambda ctx, t: t.mul_(2) if in_place else t * 2, forward).apply(x)
    return out is x, fw(T).unpack_dual(out).tangent is t, shown(T, x)


def custom_not_in_place(T):
    custom_in_place(T, False)


def custom_view(T):
    return shown(T, function(T, lambda ctx, t: t[:2], lambda ctx, x: x[:2]).apply(dual(T)))


def custom_no_view(T):
    function(T, lambda ctx, t: t[:2].clone(), lambda ctx, x: x[:2]).apply(dual(T))


def custom_view_of_another(T):
    function(T, lambda ctx, t: t.clone()[:2], lambda ctx, x: x[:2]).apply(dual(T))


def custom_too_many(T):
    function(T, lambda ctx, t: (t, t)).apply(dual(T))


def tangent_of_a_turned_part(T):
    a = T.tensor([[1 + 2j, 3 - 1j], [2j, 4]]).conj().imag
    b = T.tensor([[1 - 2j, 2 - 1j], [6j, 4]]).imag
    dual = fw(T).make_dual(a, b)
    return shown(T, dual[1:]), fw(T).unpack_dual(dual).tangent.stride()


def tangents_that_are_turned(T):
    def z(turn):
        return turn(T.tensor([1 + 2j, 3 - 1j]))

    turns = [lambda z: z, lambda z: z.conj(), lambda z: z._neg_view()]
    found = []
    for mine in turns:
        for other in turns:
            x, t = z(mine), z(other)
            tangent = fw(T).unpack_dual(fw(T).make_dual(x, t)).tangent
            found.append((tangent is t, tangent.resolve_conj().resolve_neg().tolist()))
    return found


CASES = [fn for fn in list(globals().values()) if callable(fn) and getattr(fn, "__module__", "") == __name__]
CASES = [
    fn for fn in CASES if fn.__code__.co_varnames[: fn.__code__.co_argcount] in (("T",), ("T", "in_place"))
]


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """torch warns of its own use of TorchScript when the first dual tensor is made."""
    with torch.autograd.forward_ad.dual_level(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dual(torch)


@pytest.mark.parametrize("case", [fn for fn in CASES if fn not in (fw, dual)], ids=lambda case: case.__name__)
def test_as_in_torch(case) -> None:
    def program(T):
        with fw(T).dual_level():
            return case(T)

    twins.same_outcome(program)
    assert watch.state.level is None


def test_outside_of_a_level() -> None:
    for program in (dual, lambda T: fw(T).exit_dual_level(), lambda T: shown(T, T.ones(2)), levels):
        twins.same_outcome(program)


def test_a_second_level_is_refused() -> None:
    with (
        ft.autograd.forward_ad.dual_level(),
        pytest.raises(RuntimeError, match="Nested forward mode AD is not"),
    ):
        ft.autograd.forward_ad.enter_dual_level()
    assert watch.state.level is None


@pytest.mark.parametrize(
    "name",
    ["layer_norm", "softmax", "gelu", "max_pool1d", "conv1d", "batch_norm", "scaled_dot_product_attention"],
)
def test_layers(name: str) -> None:
    """float64, so that the order of sums does not matter."""

    def program(T):
        x, v = (T.linspace(-1.0, a, 24, dtype=T.float64).reshape(2, 3, 4) for a in (1.0, 2.5))
        with fw(T).dual_level():
            d = fw(T).make_dual(x, v)
            F = T.nn.functional
            made = {
                "layer_norm": lambda: F.layer_norm(d, (4,)),
                "softmax": lambda: F.softmax(d, -1),
                "gelu": lambda: F.gelu(d),
                "max_pool1d": lambda: F.max_pool1d(d, 2),
                "conv1d": lambda: F.conv1d(d, d[:, :, :2].clone()),
                "batch_norm": lambda: F.batch_norm(d, T.zeros(3).double(), T.ones(3).double(), training=True),
                "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(d, d * 2, d),
            }[name]()
            return [np.asarray(t.detach()) for t in fw(T).unpack_dual(made)]

    for theirs, ours in zip(program(torch), program(ft), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


#: of a dual ``d`` with the primal ``x``
OPERATIONS = """
gather: d.gather(1,T.tensor([[0],[2]]))
mask: d[d>2]
where: T.where(d>2,d,0.)
cat: T.cat([d,x])
split: d.split(2,1)[0]
chunk: d.unbind(0)[1]
cumsum: d.cumsum(1)
cumprod: d.cumprod(1)
std: d.std()
logsumexp: d.logsumexp(1)
einsum: T.einsum("ij,kj->ik",d,d)
svdvals: T.linalg.svdvals(d)
topk: d.topk(2)[0]
pow: d**2.5
ce: F.cross_entropy(d,T.tensor([0,2]))
conv2d: F.conv2d(d[None,None],T.ones(1,1,2,2, dtype=x.dtype))
gn: F.group_norm(d[None],2)
emb: F.embedding(T.tensor([0,1]),d)
bn: F.batch_norm(d,T.zeros(3, dtype=x.dtype),T.ones(3, dtype=x.dtype))
scatter_add: T.zeros(2,3, dtype=x.dtype).scatter_add(1,T.tensor([[0],[1]]),d)
idxput: T.zeros(3, dtype=x.dtype).index_put((T.tensor([0,1]),),d[0,:2])
expand: d[:,:1].expand(2,3)
unfold: d.unfold(1,2,1)
fft: T.fft.rfft(d).abs()
cplx: T.view_as_real(T.complex(d,d*2))
setitem: (lambda z:(z.__setitem__((0,1),d[1,1]),z)[1])(T.zeros(2,3, dtype=x.dtype))
maxpool: F.max_pool2d(d[None,None],2)
relu_: F.relu(d-3,inplace=True)
iadd: (lambda z:z.__iadd__(d))(x.clone())
reshape: d.t().reshape(6)
addcmul: T.addcmul(d,d,d)
sdpa: F.scaled_dot_product_attention(d[None],d[None],d[None])
inplace_view: (lambda z:(z[0].mul_(d[0]),z)[1])(x.clone())
"""


@pytest.mark.parametrize("line", OPERATIONS.strip().split("\n"), ids=lambda line: line.split(":")[0])
def test_operations(line: str) -> None:
    """In float64, but where an operation has a dtype of its own."""

    def program(T):
        x = T.arange(6.0, dtype=T.float64).reshape(2, 3) + 1
        v = T.arange(6.0, dtype=T.float64).reshape(2, 3) * 0.5 - 1
        with fw(T).dual_level():
            names = {"T": T, "F": T.nn.functional, "x": x, "d": fw(T).make_dual(x, v)}
            return [np.asarray(t.detach()) for t in fw(T).unpack_dual(eval(line.split(": ", 1)[1], names))]

    for theirs, ours in zip(program(torch), program(ft), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_of_a_module_is_that_of_jvp() -> None:
    net = ft.nn.Sequential(ft.nn.Linear(3, 4), ft.nn.Tanh(), ft.nn.Linear(4, 2))
    x, v = ft.randn(5, 3), ft.randn(5, 3)
    with ft.autograd.forward_ad.dual_level():
        _, tangent = ft.autograd.forward_ad.unpack_dual(net(ft.autograd.forward_ad.make_dual(x, v)))
        compiled = ft.autograd.forward_ad.unpack_dual(
            ft.compile(net)(ft.autograd.forward_ad.make_dual(x, v))
        ).tangent
    _, expected = ft.func.jvp(net, (x,), (v,))
    np.testing.assert_allclose(tangent.detach(), expected.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(compiled.detach(), expected.detach(), rtol=1e-5, atol=1e-6)


def test_a_dual_from_outside_a_transform_is_refused() -> None:
    with ft.autograd.forward_ad.dual_level():
        d = ft.autograd.forward_ad.make_dual(ft.ones(3), ft.ones(3))
        with pytest.raises(NotImplementedError, match=r"torch\.func\.jvp"):
            ft.func.vmap(lambda x: x * d)(ft.ones(2, 3))


def test_levels_inside_vmap() -> None:
    def tangent(v):
        with ft.autograd.forward_ad.dual_level():
            return ft.autograd.forward_ad.unpack_dual(
                ft.autograd.forward_ad.make_dual(ft.ones(3) * 2, v) ** 2
            ).tangent

    assert ft.func.vmap(tangent)(ft.eye(3)).tolist() == (4 * np.eye(3)).tolist()
