"""A model on eight devices gives the numbers of one device, with every optimizer, eagerly and compiled."""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from collectives import collectives, text_of
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from nets import Net

import functorch_port as ft
from functorch_port._array import placed, tracing
from functorch_port.distributed.device_mesh import DeviceMesh, init_device_mesh
from functorch_port.distributed.sharding import constrain, shard, use_mesh
from functorch_port.distributed.tensor import Shard, distribute_tensor

nn, F = ft.nn, ft.nn.functional

#: an optimizer, with what makes 20 steps interesting
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda ps: ft.optim.SGD(ps, 0.05),
    "momentum": lambda ps: ft.optim.SGD(ps, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda ps: ft.optim.Adam(ps, 0.01, amsgrad=True),
    "AdamW": lambda ps: ft.optim.AdamW(ps, 0.01),
    "Adamax": lambda ps: ft.optim.Adamax(ps, 0.01),
    "NAdam": lambda ps: ft.optim.NAdam(ps, 0.01),
    "RAdam": lambda ps: ft.optim.RAdam(ps, 0.01),
    "Adagrad": lambda ps: ft.optim.Adagrad(ps, 0.05),
    "Adadelta": lambda ps: ft.optim.Adadelta(ps),
    "RMSprop": lambda ps: ft.optim.RMSprop(ps, 0.01, centered=True, momentum=0.5),
    "Rprop": lambda ps: ft.optim.Rprop(ps),
    "ASGD": lambda ps: ft.optim.ASGD(ps, 0.05),
    "Adafactor": lambda ps: ft.optim.Adafactor(ps, 0.05),
    "Muon": lambda ps: ft.optim.Muon([p for p in ps if p.dim() == 2], 0.05),
    "LBFGS": lambda ps: ft.optim.LBFGS(ps, 0.1, max_iter=3, history_size=4),
}


def spec_of(shape: Any) -> P:
    """The first dimension that eight devices can share."""
    found = [d for d, n in enumerate(shape) if n % 8 == 0]
    return P(*[None] * found[0], "x") if found else P()


def place(net: Any, mesh: Mesh, how: str) -> None:
    specs = {f"^{name}$": spec_of(p.shape) for name, p in net.named_parameters()} if how == "split" else {}
    shard(net, specs, mesh)


def trained(
    optimizer: str, how: str, mesh: Mesh, compiled: bool, dtype: Any, steps: int = 20
) -> tuple[Any, Any, Any]:
    """The losses, the net and the optimizer."""
    ft.manual_seed(0)
    net = Net().to(dtype)
    if how != "one":
        place(net, mesh, how)
    opt = OPTIMIZERS[optimizer]([*net.parameters()])
    rng = np.random.default_rng(0)

    def step(x: Any, y: Any) -> Any:
        def closure() -> Any:
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            return loss

        if optimizer == "LBFGS":
            return opt.step(closure)
        loss = closure()
        opt.step()
        return loss

    run = ft.compile(step, rng="torch") if compiled else step
    losses = []
    for _ in range(steps):
        x, y = (ft.tensor(rng.integers(0, n, size)) for n, size in ((16, (16, 5)), (8, (16,))))
        if how != "one":
            shard(x, P("x"), mesh)
            shard(y, P("x"), mesh)
        losses.append(run(x, y).item())
    return np.array(losses), net, opt


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("how", ["same", "split"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_numbers_are_those_of_one_device(optimizer: str, how: str, compiled: bool, mesh: Mesh) -> None:
    if optimizer == "LBFGS" and compiled:
        pytest.skip("the step of LBFGS calls a closure as often as it likes, and is not compiled")
    steps = 8 if optimizer == "LBFGS" else 20
    want, one, _ = trained(optimizer, "one", mesh, compiled, ft.float64, steps)
    got, net, opt = trained(optimizer, how, mesh, compiled, ft.float64, steps)
    # PyTorch's Muon orthogonalises in bfloat16, where another order of a sum may be another number
    exact = optimizer != "Muon"
    np.testing.assert_allclose(got, want, rtol=1e-10 if exact else 1e-3)
    near = 1e-10 if exact else 1e-2
    for (name, p), q in zip(net.named_parameters(), one.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), near, near, err_msg=name)
        spec = spec_of(p.shape) if how == "split" else P()
        check(p, mesh, spec)
        check(p.grad, mesh, spec)
        for entry in (opt.state[p] or {}).values() if optimizer != "LBFGS" else ():
            if isinstance(entry, ft.Tensor) and entry.shape == p.shape:
                check(entry, mesh, spec)
    for (name, b), c in zip(net.named_buffers(), one.buffers(), strict=True):
        np.testing.assert_allclose(b.numpy(), c.numpy(), near, near, err_msg=name)


def check(tensor: Any, mesh: Mesh, spec: P) -> None:
    """It lies as it is said to."""
    want = NamedSharding(mesh, spec)
    cell = tensor._storage
    assert placed.sharding_of(cell) is not None
    assert placed.sharding_of(cell).is_equivalent_to(want, tensor.dim())
    assert cell.array().sharding.is_equivalent_to(want, tensor.dim())
    assert tensor.device == ft.device("cpu")


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("how", ["same", "split"])
def test_float32_is_as_near_to_float64_as_on_one_device(how: str, compiled: bool, mesh: Mesh) -> None:
    want = trained("AdamW", "one", mesh, compiled, ft.float64)[0]
    got = trained("AdamW", how, mesh, compiled, ft.float32)[0]
    np.testing.assert_allclose(got, want, rtol=1e-5)


def parts(tensor: Any) -> set[tuple[int, ...]]:
    return {shard.data.shape for shard in tensor.jax().addressable_shards}


def test_what_is_written_stays_where_it_was_put(mesh: Mesh) -> None:
    x = shard(ft.zeros(16, 4), P("x"), mesh)
    writes: list[Callable[[], Any]] = [
        lambda: x.copy_(ft.ones(16, 4)),
        lambda: x.mul_(3.0),
        lambda: x.__setitem__(0, 5.0),
        lambda: x[1].fill_(7.0),
        lambda: x.uniform_(),
        lambda: x.data.zero_(),
        lambda: nn.init.normal_(x),
        lambda: x.copy_(ft.from_numpy(np.ones((16, 4), np.float32))),
        lambda: x.copy_(shard(ft.ones(16, 4), P(None, None), mesh)),
    ]
    for write in writes:
        write()
        check(x, mesh, P("x"))
        assert parts(x) == {(2, 4)}
    assert x.tolist() == [[1.0] * 4] * 16


def test_a_loaded_state_dict_stays_where_the_module_is(mesh: Mesh) -> None:
    net, other = nn.Linear(8, 16), nn.Linear(8, 16)
    shard(net, {"weight": P("x")}, mesh)
    opt = ft.optim.Adam(net.parameters())
    net(ft.ones(2, 8)).sum().backward()
    opt.step()
    net.load_state_dict(other.state_dict())
    check(net.weight, mesh, P("x"))
    opt.load_state_dict(copy.deepcopy(opt.state_dict()))
    check(net.weight, mesh, P("x"))
    np.testing.assert_array_equal(net.weight.detach().numpy(), other.weight.detach().numpy())
    net(ft.ones(2, 8)).sum().backward()
    opt.step()
    check(opt.state[net.weight]["exp_avg"], mesh, P("x"))


def test_copies_and_zeros_like_lie_as_their_model(mesh: Mesh) -> None:
    net = shard(nn.Linear(8, 16), {"weight": P("x")}, mesh)
    check(copy.deepcopy(net).weight, mesh, P("x"))
    check(ft.zeros_like(net.weight), mesh, P("x"))
    check(net.weight.to(ft.float16), mesh, P("x"))
    check(copy.deepcopy(net).double().weight, mesh, P("x"))
    average = ft.optim.swa_utils.AveragedModel(net)
    average.update_parameters(net)
    check(average.module.weight, mesh, P("x"))


def test_numpy_arrays_of_a_tensor_on_a_mesh_of_one_device() -> None:
    t = shard(ft.arange(3.0), P(), Mesh(np.array(jax.devices()[:1]), ("x",)))
    assert t.numpy().tolist() == np.asarray(t).tolist() == [0.0, 1.0, 2.0]
    assert not t.numpy().flags.writeable  # as on several devices


def test_placing_shares_no_memory(mesh: Mesh) -> None:
    x = ft.ones(32, 64)
    y = shard(ft.zeros(32, 64), P(), mesh)
    z = shard(x.clone(), P(), mesh)
    opt = ft.optim.SGD([z.requires_grad_()], lr=1.0)
    for _ in range(3):  # the array of z is given away
        z.grad = None
        z.sum().backward()
        opt.step()
    assert ft.zeros(32, 64).sum() == 0 and y.sum() == 0 and x.sum() == 32 * 64
    assert z.detach().sum() == -2 * 32 * 64


def test_an_accumulated_gradient_stays_with_its_parameter(mesh: Mesh) -> None:
    x = shard(ft.ones(16, requires_grad=True), P("x"), mesh)
    for n in (1, 2):
        (x * 2).sum().backward()
        check(x.grad, mesh, P("x"))
        assert x.grad.tolist() == [2.0 * n] * 16


def _compiled_step(net: Any, opt: Any, **how: Any) -> Any:
    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    return ft.compile(step, **how)


def test_a_compiled_function_is_traced_again_for_another_placement(mesh: Mesh, grid: Mesh) -> None:
    net = nn.Linear(8, 16)
    opt = ft.optim.SGD(net.parameters(), 0.1)

    step = _compiled_step(net, opt)

    step(ft.ones(4, 8))
    for on, spec in ((mesh, P("x")), (mesh, P()), (grid, P("dp", "tp"))):
        shard(net, {"weight": spec}, on)
        step(ft.ones(4, 8))
        check(net.weight, on, spec)
    traces = step.traces
    step(ft.ones(4, 8))
    assert step.traces == traces


def test_a_compiled_step_on_a_mesh_calls_little_python(mesh: Mesh, monkeypatch: Any) -> None:
    """A call of Python for each tensor that it writes, and some for the step."""
    monkeypatch.setattr(tracing, "others", lambda: False)  # the threads of other tests
    monkeypatch.setattr(placed, "several", False)  # and their meshes of TPUs in several processes
    net = nn.Sequential(*(nn.Linear(8, 8) for _ in range(8)))
    shard(net, {}, mesh)
    opt = ft.optim.AdamW(net.parameters(), 0.01)

    step = _compiled_step(net, opt, keep_grads=False, checks=False)

    x = shard(ft.ones(8, 8), P("x"), mesh)
    for _ in range(3):
        step(x)
    calls: list[str] = []
    try:
        sys.setprofile(
            lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None
        )
        step(x)
    finally:
        sys.setprofile(None)
    written = 3 * len(list(net.parameters()))
    assert len(calls) < written + 80, Counter(calls).most_common(9)


def test_sizes_that_change_are_numbers_of_the_program(mesh: Mesh) -> None:
    def f(x: Any, y: Any) -> Any:
        return (x * 2).sum() + y.sum()

    here, there = ft.compile(f, dynamic=True), ft.compile(f, dynamic=True)
    for n in (16, 8, 24, 32, 48, 56, 64, 80):
        x, y = ft.ones(n, 3), ft.ones(n)
        assert here(x, y).item() == there(shard(x, P("x"), mesh), shard(y, P("x"), mesh)).item() == 7 * n
    assert there.traces == here.traces < 8


def test_constrain_places_a_value_and_its_gradient(mesh: Mesh) -> None:
    x = ft.arange(16.0, requires_grad=True)

    def f(x: Any) -> Any:
        return constrain(x * 2, P("x"), mesh).sin().sum()

    f(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos(2 * np.arange(16.0)), rtol=1e-5)
    with use_mesh(mesh):
        assert parts(constrain(x, P("x"))) == {(2,)}
    jaxpr = ft.compile(f)
    np.testing.assert_allclose(jaxpr(x).item(), np.sin(2 * np.arange(16.0)).sum(), rtol=1e-5)


def test_the_repr_tells_the_place(mesh: Mesh) -> None:
    x = shard(ft.zeros(8), P("x"), mesh)
    assert repr(x) == "tensor([0., 0., 0., 0., 0., 0., 0., 0.], mesh={'x': 8}, spec=P('x',))"


def test_what_does_not_fit_is_refused_and_changes_nothing(mesh: Mesh) -> None:
    net = nn.Linear(8, 10)
    with pytest.raises(
        ValueError, match=r"dimension 0 of a tensor of shape \[10, 8\] cannot be split into 8 equal parts"
    ):
        shard(net, {"bias": P(), "weight": P("x")}, mesh)
    assert all(placed.sharding_of(p._storage) is None for p in net.parameters())
    with pytest.raises(ValueError, match="'wieght' is found"):
        shard(net, {"wieght": P()}, mesh)
    with pytest.raises(ValueError, match="no axis of the mesh"):
        shard(net, {"weight": P("y")}, mesh)
    with pytest.raises(ValueError, match="splits 2 dimensions"):
        shard(ft.zeros(8), P(None, "x"), mesh)


def test_errors_say_what_was_given_what_there_is_and_what_to_do(mesh: Mesh) -> None:
    eight, four = init_device_mesh("cpu", (8,)), init_device_mesh("cpu", (4,))
    x = distribute_tensor(ft.ones(8), eight, [Shard(0)])
    y = distribute_tensor(ft.ones(8), four, [Shard(0)])
    moves = r"distribute_tensor\(x.detach\(\).full_tensor\(\), mesh, placements\)"
    add: Callable[[Any, Any], Any] = ft.compile(lambda a, b: a + b)
    for wrong, kind, text in [
        (
            lambda: init_device_mesh("cpu", (4, 4)),
            RuntimeError,
            r"\(4, 4\) needs 16 devices, and .* have 8: give a sm",
        ),
        (lambda: init_device_mesh("cpu", (0,)), RuntimeError, "one device at least"),
        (lambda: eight._flatten("all"), NotImplementedError, r"P\(\('dp', 'tp'\)\)"),
        (
            lambda: distribute_tensor(ft.ones(6), eight, [Shard(0)]),
            ValueError,
            "or make its size a multiple of 8",
        ),
        (lambda: x.redistribute(eight, [Shard(0), Shard(0)]), ValueError, r"length: 2, .*mesh\['tp'\]"),
        (lambda: x.redistribute(eight, [Shard(1)]), AssertionError, r"\[Shard\(dim=1\)\] .* this one has 1"),
        (lambda: x.redistribute(four, [Shard(0)]), NotImplementedError, moves),
        (lambda: x + y, ValueError, moves),
        (lambda: add(x, y), ValueError, moves),
        (
            lambda: x + distribute_tensor(y, DeviceMesh("cpu", [3, 2, 1, 0])),
            ValueError,
            "different placements",
        ),
    ]:
        with pytest.raises(kind, match=text):
            wrong()
    assert distribute_tensor(x.detach().full_tensor(), four, [Shard(0)]).add(y).tolist() == [2.0] * 8


def test_an_explicit_mesh_is_converted() -> None:
    mesh = jax.make_mesh((8,), ("x",))
    x = shard(ft.ones(8, requires_grad=True), P("x"), mesh)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0] * 8


def test_arrays_of_an_explicit_mesh_become_tensors_that_every_operation_takes() -> None:
    explicit = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)
    host = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    array = jax.device_put(host, NamedSharding(explicit, P("a", "b")))
    for x in (ft.as_tensor(array), ft.tensor(array), ft.from_jax(array), ft.ones(8, 8) * array):
        assert x.placements == (Shard(0), Shard(1))
        both = ft.cat([x @ x, x.reshape(4, 16).reshape(8, 8)], 1)[:, [3, 9]]
        assert np.array_equal(both.numpy(), np.concatenate([host @ host, host], 1)[:, [3, 9]])


def test_the_mesh_of_jax_set_mesh_counts() -> None:
    auto = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    with jax.set_mesh(auto):
        w = shard(ft.ones(8, 2), P("d"))
        assert constrain(w * 2, P("d")).placements == w.placements == (Shard(0),)
        with pytest.raises(RuntimeError, match="In a traced function give the mesh"):
            ft.compile(lambda x: constrain(x, P("d")))(w)
    with (
        jax.set_mesh(jax.make_mesh((8,), ("d",), axis_types=(AxisType.Explicit,))),
        pytest.raises(RuntimeError, match="use_mesh"),
    ):
        shard(ft.ones(8, 2), P("d"))
    with pytest.raises(RuntimeError, match="No device mesh is currently active!"):
        shard(ft.ones(8, 2), P("d"))


def test_mixed_precision_on_a_mesh(mesh: Mesh) -> None:
    def run(how: str) -> list[float]:
        ft.manual_seed(0)
        net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8))
        if how != "one":
            place(net, mesh, how)
        opt = ft.optim.AdamW(net.parameters(), 0.01)
        scaler = ft.amp.GradScaler("cpu")
        losses = []
        for i in range(5):
            x = ft.tensor(np.random.default_rng(i).standard_normal((16, 16)), dtype=ft.float32)
            if how != "one":
                shard(x, P("x"), mesh)
            opt.zero_grad()
            with ft.autocast("cpu", dtype=ft.bfloat16):
                loss = net(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            losses.append(loss.item())
        return losses

    want = run("one")
    np.testing.assert_allclose(run("same"), want, rtol=2e-2)
    np.testing.assert_allclose(run("split"), want, rtol=2e-2)


@pytest.mark.parametrize("run", [lambda f: f, ft.compile], ids=["eager", "compiled"])
def test_what_was_computed_on_a_mesh_is_a_tensor_on_it(run: Any) -> None:
    """`full_tensor`, `redistribute` and `to_local` of a loss, which lies on all devices, and inside of `compile`."""
    mesh = init_device_mesh("cpu", (8,))
    w = distribute_tensor(ft.arange(8.0), mesh, [Shard(0)]).requires_grad_()

    def losses(x: Any) -> Any:
        y = x * w
        return y.sum().full_tensor(), y.redistribute(mesh, [Shard(0)]), y.sum().to_local()

    loss, y, other = run(losses)(w.detach())
    assert y.placements == (Shard(0),) and loss.item() == other.item() == 140.0
    (loss + y.sum()).backward()
    assert w.grad.tolist() == [2.0 * i for i in range(8)]


def test_an_update_of_a_parameter_with_short_rows_exchanges_nothing() -> None:
    mesh = init_device_mesh("cpu", (8,))
    param = ft.nn.Parameter(distribute_tensor(ft.ones(4096, 8), mesh, [Shard(1)]))
    opt = ft.optim.AdamW([param], 0.1)

    @ft.compile
    def step(grad: Any) -> None:
        param.grad = grad
        opt.step()

    assert not collectives(text_of(step, distribute_tensor(ft.ones(4096, 8), mesh, [Shard(1)])))
