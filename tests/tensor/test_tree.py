"""Dicts keep the order of their keys in everything that takes nested containers apart, as in PyTorch."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple

import jax
import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._tensor import tree
from functorch_port.utils import _pytree as ft_pytree

# PyTorch's own forward mode warns
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
]

Pair = namedtuple("Pair", "second first")


class Fields:
    """Registered with JAX."""

    def __init__(self, parts):
        self.parts = parts


jax.tree_util.register_pytree_node(Fields, lambda x: ((x.parts,), None), lambda aux, v: Fields(v[0]))


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Point:
    """Registered with JAX as a dataclass."""

    z: object
    a: object


@dataclasses.dataclass
class Theirs:
    """Registered with `torch.utils._pytree`, of either library."""

    z: object
    a: object


for library in (torch.utils._pytree, ft_pytree):
    library.register_pytree_node(Theirs, lambda x: ([x.z, x.a], ["z", "a"]), lambda v, c: Theirs(*v))


def shown(x):
    """Values with the types and orders of their containers, the same for both libraries."""
    if isinstance(x, dict):
        factory = getattr(x, "default_factory", None)
        return (type(x).__name__, factory, [(k, type(k), shown(v)) for k, v in x.items()])
    if isinstance(x, (list, tuple, deque)):
        return (type(x).__name__, getattr(x, "maxlen", None), [shown(v) for v in x])
    if isinstance(x, Fields):
        return ("Fields", shown(x.parts))
    if dataclasses.is_dataclass(x):
        return (type(x).__name__, shown(x.z), shown(x.a))
    return (
        x
        if x is None or isinstance(x, str)
        else np.asarray(x.detach() if hasattr(x, "detach") else x).tolist()
    )


def first_weighted(values):
    """What depends on the order: 1 times the first, .1 times the second, and so on."""
    return sum(v * 0.1**i for i, v in enumerate(values))


def containers(t):
    return [
        {"mse": t(3.0), "aux": t(50.0)},
        {"x": [{"b": t(1.0)}, ({"d": t(2.0), "c": t(3.0)},)], "a": t(4.0)},
        OrderedDict(b=t(1.0), a=t(2.0)),
        defaultdict(list, b=t(1.0), a=t(2.0)),
        Pair({"b": t(1.0), "a": t(2.0)}, t(3.0)),
        deque([t(1.0), {"b": t(2.0), "a": t(3.0)}], maxlen=4),
        {1: t(1.0), "a": t(2.0), (0, "b"): t(3.0)},
        Theirs({"b": t(1.0), "a": t(2.0)}, t(3.0)),
        (None, {"b": None, "a": t(1.0)}),
        {},
    ]


@pytest.mark.parametrize("which", range(10))
@pytest.mark.parametrize("transform", ["compile", "functionalize"])
def test_arguments_and_results_are_what_they_are_eagerly(which, transform):
    def f(lib):
        def double(x):
            flat = torch.utils._pytree.tree_map if lib is torch else ft_pytree.tree_map
            orders = []
            for part in [x, *(x if isinstance(x, (list, tuple, deque)) else [])]:
                if isinstance(part, dict):
                    orders.append([str(k) for k in part])
            return {"z": flat(lambda v: v if v is None else v * 2, x), "orders": orders}

        return double

    expected = shown(f(torch)(containers(torch.tensor)[which]))
    given = containers(ft.tensor)[which]
    if transform == "compile":
        compiled = ft.compile(f(ft))
        results = [compiled(given), compiled(given)]
        assert compiled.traces == 1
    else:
        pure = ft.functionalize(f(ft))
        results = [pure(pure.state(given), given)[0]]
    for result in results:
        assert shown(result) == expected


@pytest.mark.parametrize("make", [lambda d: Fields(d), lambda d: Point(d, d["b"] * 3)])
def test_what_is_registered_with_jax_is_taken_apart_and_its_dicts_keep_their_order(make):
    given = make({"b": ft.tensor(1.0), "a": ft.tensor(2.0)})

    def f(x):
        inner = x.parts if isinstance(x, Fields) else x.z
        return x, first_weighted(inner.values())

    compiled = ft.compile(f)
    for _ in range(2):
        back, weighted = compiled(given)
        assert shown(back) == shown(given) and weighted.item() == pytest.approx(1.2)


def test_the_issue_weighted_losses():
    def total(losses):
        return sum(w * loss for w, loss in zip((1.0, 0.1), losses.values(), strict=True))

    compiled = ft.compile(total)
    for values in ({"mse": 3.0, "aux": 50.0}, {"aux": 50.0, "mse": 3.0}, {"mse": 3.0, "aux": 50.0}):
        expected = total({k: torch.tensor(v) for k, v in values.items()})
        assert compiled({k: ft.tensor(v) for k, v in values.items()}).item() == expected.item()
    assert compiled.traces == 2  # another order is another structure, and both are kept


def test_the_issue_maml():
    def adapted(lib, p, x, y):
        def loss(p):
            return ((x * p["w"] + p["b"] - y) ** 2).mean()

        grads = lib.func.grad(loss)(p)
        return {k: v - 0.1 * g for (k, v), g in zip(p.items(), grads.values(), strict=True)}

    def run(lib, wrap):
        p = {"w": lib.tensor(2.0), "b": lib.tensor(-1.0)}
        x, y = lib.tensor([1.0, 2.0]), lib.tensor([0.5, 3.0])
        step = wrap(lambda p: adapted(lib, p, x, y))
        for _ in range(3):
            p = step(p)
        return [(k, v.item()) for k, v in p.items()]

    expected = run(torch, lambda f: f)
    for wrap in (lambda f: f, ft.compile):
        ours = run(ft, wrap)
        assert [k for k, _ in ours] == ["w", "b"]
        np.testing.assert_allclose([v for _, v in ours], [v for _, v in expected], rtol=1e-6)


def test_registering_a_dataclass_is_pytorchs():
    """The fields that it may be given, and what a second registration does."""

    def outcomes(library):
        found = []
        for names, dropped in (
            (None, None),
            (["a"], None),
            (["a"], ["z"]),
            (["a", "z", "q"], None),
            (["a", "z", "late"], None),
        ):
            late = ("late", int, dataclasses.field(init=False, default=3))
            made = dataclasses.make_dataclass("Made", ["z", ("a", int, 0), late])
            try:
                library.register_dataclass(made, field_names=names, drop_field_names=dropped)
                leaves, structure = library.tree_flatten(made(1, 2))
                found.append((leaves, len(leaves)))
            except ValueError as error:
                found.append(str(error).partition(".")[0])
        return found

    assert outcomes(ft_pytree) == outcomes(torch.utils._pytree)
    made = dataclasses.make_dataclass("Made", ["z", ("a", int, 0)])
    ft_pytree.register_dataclass(made)
    with pytest.warns(UserWarning, match="already registered as pytree node. Overwriting"):
        ft_pytree.register_dataclass(made, field_names=["z"], drop_field_names=["a"])
    assert ft_pytree.tree_leaves(made(1, 2)) == jax.tree.leaves(made(1, 2)) == [1]


def test_keyword_arguments_come_in_the_order_of_the_call():
    def f(**named):
        return first_weighted(named.values()), dict(reversed(named.items()))

    compiled = ft.compile(f)
    for names in ("ba", "ab", "ba"):
        values = {k: float(ord(k)) for k in names}
        expected, back = f(**{k: torch.tensor(v) for k, v in values.items()})
        ours, ours_back = compiled(**{k: ft.tensor(v) for k, v in values.items()})
        assert ours.item() == pytest.approx(expected.item()) and list(ours_back) == list(back)


def test_keys_that_are_equal_but_not_the_same_are_other_structures():
    compiled = ft.compile(lambda d: {k: v * k for k, v in d.items()})
    for key in (1, True, 1.5, 1.0):
        (found,) = compiled({key: ft.tensor([2.0])})
        assert type(found) is type(key) and found == key


def test_tensors_as_keys_are_told_apart():
    a, b = ft.nn.Parameter(ft.ones(2)), ft.nn.Parameter(ft.ones(2) * 5)
    compiled = ft.compile(lambda table: sum(k.detach() * v for k, v in table.items()))
    for key in (a, b, a):
        assert compiled({key: ft.tensor(2.0)}).tolist() == (key.detach() * 2).tolist()


TRANSFORMS = {
    "grad": lambda f, lib, d: lib.func.grad(lambda d: f(d)["z"])(d),
    "grad aux": lambda f, lib, d: lib.func.grad(lambda d: (f(d)["z"], f(d)), has_aux=True)(d),
    "grad_and_value": lambda f, lib, d: lib.func.grad_and_value(lambda d: f(d)["z"])(d),
    "vjp": lambda f, lib, d: [(o := lib.func.vjp(f, d))[0], o[1]({"z": d["b"], "y": d["a"]})],
    "jvp": lambda f, lib, d: lib.func.jvp(f, (d,), ({"b": d["a"], "a": d["b"]},)),
    "linearize": lambda f, lib, d: [(o := lib.func.linearize(f, d))[0], o[1]({"b": d["a"], "a": d["b"]})],
    "jacrev": lambda f, lib, d: lib.func.jacrev(f)(d),
    "jacfwd": lambda f, lib, d: lib.func.jacfwd(f)(d),
    "hessian": lambda f, lib, d: lib.func.hessian(lambda d: f(d)["z"])(d),
    "vmap": lambda f, lib, d: lib.func.vmap(f)({k: lib.stack([v, v * 2]) for k, v in d.items()}),
    "vmap dims": lambda f, lib, d: lib.func.vmap(
        f, in_dims=({"b": 0, "a": None},), out_dims={"z": 0, "y": 0}
    )({"b": lib.stack([d["b"], d["a"]]), "a": d["a"]}),
    "vmap chunks": lambda f, lib, d: lib.func.vmap(f, chunk_size=1)(
        {k: lib.stack([v, v * 2]) for k, v in d.items()}
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("wrap", [lambda f: f, ft.compile], ids=["eager", "compiled"])
def test_transforms_keep_the_order_inside_and_outside(name, wrap):
    def f(d):
        weighted = sum(v * w for v, w in zip(d.values(), (1.0, 0.1), strict=True))
        return {"z": weighted * d["a"] * d["b"], "y": weighted}

    def run(lib, wrap):
        d = {"b": lib.tensor(3.0), "a": lib.tensor(50.0)}
        return wrap(lambda d: TRANSFORMS[name](f, lib, d))(d)

    def keys(x):
        if isinstance(x, dict):
            return [(k, keys(v)) for k, v in x.items()]
        return [keys(v) for v in x] if isinstance(x, (list, tuple)) else None

    expected, ours = run(torch, lambda f: f), run(ft, wrap)
    assert keys(ours) == keys(expected)
    leaves = [torch.utils._pytree.tree_leaves(expected), ft_pytree.tree_leaves(ours)]
    for theirs, mine in zip(*leaves, strict=True):
        np.testing.assert_allclose(mine.tolist(), theirs.tolist(), rtol=1e-5)


@pytest.mark.parametrize(
    "kind", [OrderedDict, lambda **kw: defaultdict(int, kw), lambda **kw: {**kw, 1: kw["b"] * 1}]
)
def test_gradients_come_in_the_container_of_the_arguments(kind):
    def run(lib):
        return lib.func.grad(lambda d: d["a"] * d["b"])(kind(b=lib.tensor(3.0), a=lib.tensor(50.0)))

    assert shown(run(ft)) == shown(run(torch))


def test_directions_in_another_order_are_refused_as_in_pytorch():
    def run(lib, which):
        d = {"b": lib.tensor(3.0), "a": lib.tensor(50.0)}
        other = {"a": lib.tensor(1.0), "b": lib.tensor(2.0)}
        f = lambda d: {"z": d["a"] * d["b"], "y": d["a"] * 1}  # noqa: E731
        if which == "jvp":
            return lib.func.jvp(f, (d,), (other,))
        if which == "vjp":
            return lib.func.vjp(f, d)[1]({"y": d["a"], "z": d["b"]})
        return lib.func.linearize(f, d)[1](other)

    for which in ("jvp", "vjp", "linearize"):
        for lib in (torch, ft):
            with pytest.raises(RuntimeError, match="structure|argspec"):
                run(lib, which)


def test_dimensions_in_another_order_are_refused():
    d = {"b": ft.ones(2), "a": ft.ones(2)}  # PyTorch takes them by position, in silence
    with pytest.raises(ValueError, match="in_dims is not compatible with the structure"):
        ft.func.vmap(lambda d: d["a"], in_dims=({"a": 0, "b": None},))(d)


@pytest.mark.parametrize("wrap", [lambda f: f, ft.compile], ids=["eager", "compiled"])
def test_control_flow(wrap):
    control, t = ft.func, ft.tensor
    d = {"b": t(0.0), "a": t(50.0)}

    def loops(d):
        loop = control.while_loop(lambda d: d["b"] < 3, lambda d: ({"b": d["b"] + 1, "a": d["a"] * 2},), (d,))
        carry, out = control.scan(
            lambda c, x: ({"b": c["b"] + x, "a": c["a"] * 2}, {"z": x * 1, "y": c["b"] * 1}), d, ft.ones(3)
        )
        running = control.associative_scan(
            lambda left, right: {"b": left["b"] + right["b"], "a": left["a"] * right["a"]},
            {"b": ft.ones(3), "a": ft.ones(3) * 2},
            0,
        )
        branch = control.cond(
            d["b"] > -1,
            lambda d: {"z": first_weighted(d.values()), "y": d["b"]},
            lambda d: {"z": d["a"], "y": d["a"]},
            (d,),
        )
        return {"loop": loop, "carry": carry, "out": out, "running": running, "branch": branch}

    found = wrap(loops)(d)
    assert shown(found["loop"]) == shown(({"b": 3.0, "a": 400.0},))
    assert shown(found["carry"]) == shown({"b": 3.0, "a": 400.0})
    assert list(found["out"]) == ["z", "y"] and found["out"]["y"].tolist() == [0, 1, 2]
    assert list(found["running"]) == ["b", "a"] and found["running"]["a"].tolist() == [2, 4, 8]
    assert list(found["branch"]) == ["z", "y"] and found["branch"]["z"].item() == pytest.approx(5.0)


@pytest.mark.parametrize("wrap", [lambda f: f, ft.compile], ids=["eager", "compiled"])
def test_what_is_carried_comes_back_in_its_order(wrap):
    d = {"b": ft.tensor(0.0), "a": ft.tensor(50.0)}

    def turned(d):
        return {"a": d["a"] * 2, "b": d["b"] + 1}

    def loop(d):
        return ft.func.while_loop(lambda d: d["b"] < 3, lambda d: (turned(d),), (d,))

    def scan(d):
        return ft.func.scan(lambda c, x: (turned(c), x), d, ft.ones(3))

    for fn in (loop, scan):
        with pytest.raises(RuntimeError, match="must keep the keys of dicts in their order"):
            wrap(fn)(d)


def test_branches_in_another_order_are_refused_in_a_trace():
    def f(x):
        return ft.func.cond(x > 0, lambda x: {"b": x, "a": x * 2}, lambda x: {"a": x * 3, "b": x * 4}, (x,))

    with pytest.raises(RuntimeError, match="same shapes and dtypes"):
        ft.compile(f)(ft.tensor(1.0))


def test_checkpoint_takes_any_keys_and_containers():
    def run(lib):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        given = Pair({"b": x, 1: x * 2}, OrderedDict(z=x, a=x * 3))

        def f(pair):
            first, second = pair.second.values(), pair.first.values()
            return {"out": first_weighted([*first, *second]).exp(), 2: x.sin()}

        out = lib.utils.checkpoint.checkpoint(f, given, use_reentrant=False)
        (out["out"].sum() + out[2].sum()).backward()
        return list(out), x.grad.tolist()

    ours, theirs = run(ft), run(torch)
    assert ours[0] == theirs[0]
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)


def test_checkpoint_keeps_what_named_tuples_held():
    x = ft.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    out = ft.utils.checkpoint.checkpoint(lambda p: p.second.exp(), Pair(y, y), use_reentrant=False)
    with ft.no_grad():
        y.zero_()
    out.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), (2 * np.exp([2.0, 4.0])).tolist(), rtol=1e-6)


def test_a_functional_call_keeps_the_order():
    def run(lib, wrap):
        class Named(lib.nn.Module):
            def forward(self, losses):
                return dict(reversed(losses.items())), first_weighted(losses.values())

        call = wrap(lambda d: lib.func.functional_call(Named(), {}, (d,)))
        return call({"mse": lib.tensor(3.0), "aux": lib.tensor(50.0)})

    for wrap in (lambda f: f, ft.compile):
        assert shown(run(ft, wrap)) == shown(run(torch, lambda f: f))


def test_a_pure_function_keeps_the_order_under_jit():
    def total(losses):
        return first_weighted(losses.values())

    losses = {"mse": ft.tensor(3.0), "aux": ft.tensor(50.0)}
    pure = ft.functionalize(total)
    state = pure.state(losses)
    arrays = {k: v.jax() for k, v in losses.items()}
    assert float(pure(state, losses)[0]) == 8.0
    assert (
        float(jax.jit(pure)(state, arrays)[0]) == 8.0
    )  # JAX sorts the dict; the trace of the same keys is meant


def test_pure_and_flax_modules_keep_the_order():
    from flax import linen

    class Inner(linen.Module):
        @linen.compact
        def __call__(self, d):
            assert list(d) == ["mse", "aux"]
            return {"z": linen.Dense(1)(d["mse"]), "y": d["aux"] * 2}

    given = {"mse": ft.ones(1, 2), "aux": ft.ones(1, 2)}
    model = ft.flax.from_linen(Inner(), given)
    for call in (model, ft.compile(model)):
        assert list(call(given)) == ["z", "y"]

    class Turned(ft.nn.Module):
        def forward(self, d):
            assert list(d) == ["mse", "aux"]
            return {"z": d["mse"], "y": d["aux"]}

    apply, params, buffers = ft.func.pure(Turned())
    out, _ = apply(params, buffers, {k: v.jax() for k, v in given.items()})
    assert list(out) == ["z", "y"]


def test_structures_print_and_compare():
    d = {"b": [1, 2], "a": (3, None), 1: deque([4])}
    leaves, structure = tree.flatten(d)
    assert leaves == [1, 2, 3, 4] and str(structure) == "{'b': [*, *], 'a': (*, None), 1: deque([*])}"
    assert tree.unflatten(structure, leaves) == tree.builder(structure)(leaves) == d
    assert tree.flatten({"a": 1, "b": 2})[1] != tree.flatten({"b": 1, "a": 2})[1]
    assert tree.flatten_call((1, [2]), {"k": 3}) == tree.flatten(((1, [2]), {"k": 3}))
    assert tree.flatten_call((1,), {}) == tree.flatten(((1,), {}))


def test_deeply_nested_results():
    deep = 1.0
    for _ in range(150):
        deep = ({"a": deep},)
    leaves, structure = tree.flatten(deep)
    assert tree.builder(structure)(leaves) == deep == tree.unflatten(structure, leaves)


def test_dict_types_fit_each_other_in_tree_map():
    def run(pytree):
        first = {"b": 1, "a": 2}
        return [
            pytree.tree_map(lambda x, y: (x, y), first, OrderedDict(a=3, b=4)),
            pytree.tree_map(lambda x, y: (x, y), defaultdict(list, b=1, a=2), {"a": 3, "b": 4}),
        ]

    assert repr(run(ft_pytree)) == repr(run(torch.utils._pytree))
