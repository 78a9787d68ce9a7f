"""Steps of pipelines: gradients, memory and random numbers are those of one device, whatever the schedule."""

from __future__ import annotations

import copy
from typing import Any

import jax
import numpy as np
import pytest
from collectives import collectives, counted, text_of
from jax.sharding import PartitionSpec as P
from pipelines import stack

import functorch_port as ft
from functorch_port.distributed.fsdp import fully_shard
from functorch_port.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from functorch_port.distributed.sharding import shard

nn, F = ft.nn, ft.nn.functional
SCHEDULES = [ScheduleGPipe, Schedule1F1B]


def meshed(*sizes: int) -> Any:
    return ft.distributed.init_device_mesh("cpu", sizes, mesh_dim_names=("dp", "pp")[-len(sizes) :])


def pipe(kind: Any, layers: Any, mesh: Any, count: int, loss_fn: Any = None, **how: Any) -> Any:
    return kind(PipelineStage(layers, 0, mesh.size(), "cpu", group=mesh), count, loss_fn, **how)


def data(rows: int = 8, seed: int = 0, **how: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x, y = (ft.tensor(rng.standard_normal((rows, 8))) for _ in range(2))
    return x.requires_grad_(how.pop("requires_grad", False)), y


def by_hand(layers: Any, x: Any, y: Any, count: int, loss_fn: Any, scale: bool = True) -> list[Any]:
    """The losses of microbatches on one device, after the backward pass of their mean or sum."""
    parts = zip(layers(x).chunk(count), y.chunk(count), strict=True)
    losses = [loss_fn(a, b) for a, b in parts]
    (sum(losses) / (count if scale else 1)).backward()
    return [loss.item() for loss in losses]


def same(got: Any, want: Any, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), tolerance, 1e-13)


class Whole(nn.Module):
    """An embedding, layers, and a head that is a part of the loss."""

    def __init__(self) -> None:
        super().__init__()
        ft.manual_seed(0)
        self.embed, self.head, self.layers = nn.Linear(4, 8).double(), nn.Linear(8, 3).double(), stack(4)

    def loss(self, y: Any, target: Any) -> Any:
        return F.cross_entropy(self.head(y), target)


def trained(kind: Any, mesh: Any, compiled: bool) -> np.ndarray:
    """The losses of eight steps, and what a parameter of each part is then. By hand without a mesh."""
    net = Whole()
    run = None if mesh is None else pipe(kind, shard(net, {}, mesh).layers, mesh["pp"], 4, net.loss)
    opt = ft.optim.AdamW(net.parameters(), 0.01)
    rng = np.random.default_rng(0)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        if kind is Schedule1F1B:
            losses: list[Any] = []
            run.step(net.embed(x), target=y, losses=losses, return_outputs=False)
            loss = sum(losses) / 4
        else:
            loss = net.loss((run or net.layers)(net.embed(x)), y)
            loss.backward()
        opt.step()
        return loss.detach()

    once = ft.compile(step) if compiled else step
    found = []
    for _ in range(8):
        x, y = ft.tensor(rng.standard_normal((8, 4))), ft.tensor(rng.integers(0, 3, 8))
        found.append(once(*((x, y) if mesh is None else (shard(t, P("dp"), mesh) for t in (x, y)))).item())
    if run is not None and not compiled:
        program = run._compiled if kind is Schedule1F1B else run._stage._compiled
        assert program.traces == 1
    weights = [net.embed.weight, net.head.bias, net.layers.stacked.up.weight]
    return np.concatenate([found, *(w.detach().numpy().ravel() for w in weights)])


@pytest.fixture(scope="module")
def by_one_device() -> np.ndarray:
    return trained(None, None, False)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("kind", SCHEDULES)
def test_training_beside_data_parallelism_has_the_numbers_of_one_device(
    kind: Any, compiled: bool, by_one_device: np.ndarray
) -> None:
    np.testing.assert_allclose(trained(kind, meshed(2, 4), compiled), by_one_device, 1e-10, 1e-13)


@pytest.mark.parametrize(
    ("stages", "count", "remat", "scale"), [(4, 4, False, True), (4, 8, True, False), (1, 2, False, True)]
)
def test_a_step_has_the_gradients_of_one_device(stages: int, count: int, remat: bool, scale: bool) -> None:
    layers, split = stack(4), stack(4, remat=remat)
    head, twin = (nn.Linear(8, 8).double() for _ in range(2))
    twin.load_state_dict(head.state_dict())
    loss_of = lambda net: lambda a, b, weight=1.0: F.mse_loss(net(a), b) * weight
    run = pipe(Schedule1F1B, split, meshed(stages), count, loss_of(twin), scale_grads=scale)
    (x, y), (z, _) = data(requires_grad=True), data(requires_grad=True)
    for weight in (1.0, 2.0):  # the second step adds its gradients to those of the first
        want = by_hand(layers, x, y, count, lambda a, b, w=weight: loss_of(head)(a, b, w), scale)
        losses: list[Any] = [None]
        out = run.step(z, target=y, losses=losses, loss_kwargs={"weight": weight})
        same(out, layers(x))
        np.testing.assert_allclose([loss.item() for loss in losses], want, 1e-12)
        assert not out.requires_grad and not losses[0].requires_grad
    for a, b in zip(
        (z, *split.parameters(), *twin.parameters()), (x, *layers.parameters(), *head.parameters())
    ):
        same(a.grad, b.grad)
    before = twin.bias.grad.clone()
    losses = []
    same(run.eval(z, target=y, losses=losses, loss_kwargs={"weight": 2.0}), out)
    np.testing.assert_allclose([loss.item() for loss in losses], want, 1e-12)
    assert run.eval(z).shape == (8, 8) and run.step(z, target=y, return_outputs=False) is None
    assert not ft.equal(twin.bias.grad, before)  # of that last step alone


def test_what_is_frozen_gets_no_gradient() -> None:
    layers, split = stack(4), stack(4)
    head, scale = nn.Linear(8, 8).double(), ft.ones(8, dtype=ft.float64, requires_grad=True)
    head.weight.requires_grad_(False)
    for net in (layers, split):
        net.stacked.up.weight.requires_grad_(False)
    loss = lambda a, b: F.mse_loss(head(a) * scale.exp(), b)
    x, y = data()
    by_hand(layers, x, y, 4, loss)
    want = [head.bias.grad, scale.grad]
    head.bias.grad = scale.grad = None
    run = pipe(Schedule1F1B, split, meshed(4), 4, loss)
    run.step(x, target=y)
    for a, b in zip((head.bias.grad, scale.grad), want, strict=True):
        same(a, b)
    for a, b in zip(split.parameters(), layers.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            same(a.grad, b.grad)
    assert split.stacked.up.weight.grad is None and head.weight.grad is None and x.grad is None
    for tensor in (*split.parameters(), head.bias, scale):
        tensor.requires_grad_(False)
    with pytest.raises(RuntimeError, match="does not require grad"):
        run.step(x, target=y)


def test_a_copy_of_a_stage_has_its_own_layers() -> None:
    (x, _), stage = data(), PipelineStage(stack(4), 0, 4, "cpu", group=meshed(4))
    before = stage(x.unflatten(0, (4, 2)))
    twin = copy.deepcopy(stage)
    with ft.no_grad():
        twin.submodule.stacked.down.bias.fill_(3)
    same(stage(x.unflatten(0, (4, 2))), before)
    assert not np.allclose(twin(x.unflatten(0, (4, 2))).detach().numpy(), before.detach().numpy())


def test_a_head_that_is_a_stack_of_its_own_is_learned() -> None:
    layers, split = stack(4), stack(4)
    heads = [nn.ScanStack([nn.Linear(8, 8) for _ in range(2)]).double() for _ in range(2)]
    heads[1].load_state_dict(heads[0].state_dict())
    x, y = data()
    by_hand(layers, x, y, 4, lambda a, b: F.mse_loss(heads[0](a), b))
    pipe(Schedule1F1B, split, meshed(4), 4, lambda a, b: F.mse_loss(heads[1](a), b)).step(x, target=y)
    for a, b in zip(heads[1].parameters(), heads[0].parameters(), strict=True):
        same(a.grad, b.grad)


def test_values_are_checked_where_they_count() -> None:
    """All stages compute the loss, of results that are out of its range where they are not those of the last one."""
    layers = nn.ScanStack([nn.Linear(8, 8, bias=False) for _ in range(4)]).double()
    factors = ft.tensor([10.0, 10.0, 10.0, 1e-3], dtype=ft.float64)
    with ft.no_grad():
        layers.stacked.weight.copy_(factors[:, None, None] * ft.eye(8))
    run = pipe(Schedule1F1B, layers, meshed(4), 4, F.binary_cross_entropy)
    x, y = ft.full((8, 8), 0.5, dtype=ft.float64), ft.ones(8, 8, dtype=ft.float64)
    same(run.step(x, target=y), x)
    before = layers.stacked.weight.grad.clone()
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        run.step(x * 3, target=y)
    assert ft.equal(layers.stacked.weight.grad, before)


# ------------------------------------------------------------------ the program


def temporary(kind: Any, stages: int, count: int, rows: int = 64) -> float:
    """The memory that a step needs for a time, in microbatches."""
    layers = nn.ScanStack([nn.Linear(8, 8) for _ in range(8)], remat=True)
    run = pipe(kind, layers, meshed(stages), count, F.mse_loss)

    def step(x: Any) -> Any:
        layers.zero_grad()
        run.step(x, target=x, return_outputs=False)
        return [p.grad for p in layers.parameters()]

    x = ft.ones(count * rows, 8)
    pure = ft.functionalize(step)
    program = jax.jit(pure).lower(pure.state(x), x.jax()).compile()
    return program.memory_analysis().temp_size_in_bytes / (rows * 8 * 4)


def test_memory_grows_with_the_stages_and_not_with_the_microbatches() -> None:
    few, many, more = (temporary(Schedule1F1B, *sizes) for sizes in ((4, 8), (4, 64), (8, 64)))
    assert abs(many - few) < 1 and 0 < more - many < 12
    assert temporary(ScheduleGPipe, 4, 64) > many + 2 * (64 - 8)


@pytest.mark.parametrize("kind", SCHEDULES)
def test_a_batch_stays_split_beside_data_parallelism(kind: Any) -> None:
    mesh = meshed(2, 4)
    layers = shard(stack(4), {}, mesh)
    run = pipe(kind, layers, mesh["pp"], 4, F.mse_loss)

    @ft.compile
    def step(x: Any, y: Any) -> None:
        layers.zero_grad()
        run.step(x, target=y, return_outputs=False)

    text = text_of(step, *(shard(t, P("dp"), mesh) for t in data(104)))
    # of the 26 rows of a microbatch a device computes 13; to that end those of inputs and of targets move once
    assert "f64[13,16]" in text and "f64[26,16]" not in text
    found = collectives(text)
    moved = [c for c in found if c.kind == "all-to-all"]
    assert len(moved) <= 2 and not any(c.looped for c in moved)
    assert not any(c.kind == "all-gather" for c in found)
    if kind is Schedule1F1B:  # activations to the next stage, and gradients to the one before
        assert counted(text)["collective-permute"] == 2


# -------------------------------------------------------------- random numbers


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.drop = nn.Linear(8, 8), nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        return x + self.drop(self.up(x))


def dropping(remat: bool = False) -> Any:
    ft.manual_seed(0)
    return nn.ScanStack([Dropping() for _ in range(4)], remat=remat).double()


def drawn(kind: Any, mesh: Any, compiled: bool = False, remat: bool = False) -> np.ndarray:
    """Losses and gradients of two steps from one seed, and a number that is drawn after them."""
    layers = dropping(remat)
    run = pipe(kind, layers, mesh["pp"], 4, F.mse_loss)
    x, y = data()

    def step(x: Any, y: Any) -> Any:
        layers.zero_grad()
        losses: list[Any] = []
        run.step(x, target=y, losses=losses)
        return ft.stack(losses)

    step = ft.compile(step, rng="torch") if compiled else step
    ft.manual_seed(7)
    found = [step(x, y).numpy() for _ in range(2)]
    assert not np.allclose(*found)
    grads = [p.grad.numpy().ravel() for p in layers.parameters()]
    return np.concatenate([*found, *grads, ft.rand(1).numpy()])


def test_dropout_does_not_depend_on_stages_schedule_and_mesh() -> None:
    want = drawn(ScheduleGPipe, meshed(1, 1))
    for kind, sizes, compiled in [(ScheduleGPipe, (1, 4), False), (Schedule1F1B, (2, 4), True)]:
        np.testing.assert_allclose(drawn(kind, meshed(*sizes), compiled, remat=True), want, 1e-10, 1e-12)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_every_layer_and_every_microbatch_has_its_own_dropout(compiled: bool) -> None:
    class Masks(nn.Module):
        def forward(self, x: Any) -> Any:  # a digit in base 2 for each layer
            return 2 * x + F.dropout(ft.ones_like(x), 0.5) / 2

    run = pipe(ScheduleGPipe, nn.ScanStack([Masks() for _ in range(4)]), meshed(4), 2)
    once = ft.compile(lambda x: run(x)) if compiled else run
    out = once(ft.zeros(4000, 1)).numpy()
    assert not np.array_equal(out, once(ft.zeros(4000, 1)).numpy())
    assert not np.array_equal(*np.split(out, 2))
    digits = (out.astype(int) >> np.arange(4)) & 1
    assert np.abs(digits.mean(0) - 0.5).max() < 0.03
    assert np.abs(np.corrcoef(digits.T) - np.eye(4)).max() < 0.06


def test_a_loss_may_drop_out_and_what_draws_nothing_leaves_the_generator() -> None:
    x, y = data(4000)
    x.zero_()
    layers = nn.ScanStack([nn.Linear(8, 8) for _ in range(4)]).double()
    run = pipe(
        Schedule1F1B, layers, meshed(4), 4, lambda a, b: F.dropout(ft.ones_like(a), 0.5).mean() + 0 * a.sum()
    )
    losses: list[Any] = []
    run.step(x, target=y, losses=losses)
    values = [loss.item() for loss in losses]
    assert len({*values}) == 4 and np.abs(np.array(values) - 1).max() < 0.1
    run = pipe(Schedule1F1B, layers, meshed(4), 4, F.mse_loss)
    before = ft.get_rng_state()
    run.step(x, target=y)
    assert ft.equal(ft.get_rng_state(), before)


# -------------------------------------------------------------------- refusals


def test_what_is_refused() -> None:
    mesh, (x, y) = meshed(4), data()
    layers = stack(4)
    with pytest.raises(
        ValueError, match=r"Number of microbatches \(2\) must be greater than or equal to the number"
    ):
        pipe(Schedule1F1B, layers, mesh, 2)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        pipe(ScheduleGPipe, layers, mesh, 0)
    for kind in SCHEDULES:
        with pytest.raises(NotImplementedError, match=f"{kind.__name__}.args_chunk_spec=, kwargs"):
            pipe(kind, layers, mesh, 4, args_chunk_spec=(0,))
        run, plain = pipe(kind, layers, mesh, 4, F.mse_loss), pipe(kind, layers, mesh, 4)
        with pytest.raises(ValueError, match="need target="):
            run.step(x)
        with pytest.raises(ValueError, match="a target of 6 cannot be split into 4 equal microbatches"):
            run.step(x, target=y[:6])
        with pytest.raises(ValueError, match="are for a Schedule.* that has a loss_fn"):
            plain.step(x, losses=[])
        with pytest.raises(TypeError, match="losses must be a list but got a <class 'tuple'>"):
            run.step(x, target=y, losses=())
        with pytest.raises(NotImplementedError, match="has one input"):
            run.step(x, y, target=y)
        with pytest.raises(RuntimeError, match="requires gradients to be enabled"), ft.no_grad():
            run.step(x, target=y)
        for loss, error, match in [
            (lambda a, b: a - b, RuntimeError, "grad can be implicitly created only for scalar outputs"),
            (lambda a, b: 1.0, (TypeError, AttributeError), "must return a Tensor|no attribute"),
        ]:
            with pytest.raises(error, match=match):
                pipe(kind, layers, mesh, 4, loss).step(x, target=y)
        same(plain.step(x), stack(4)(x))
        with ft.no_grad():
            same(run(x), stack(4)(x))
    with pytest.raises(NotImplementedError, match="Schedule1F1B is called where gradients are enabled"):
        run(x)
    with pytest.raises(NotImplementedError, match="the target requires grad"):
        run.step(x, target=y.clone().requires_grad_())
    of_layers = lambda a, b: F.mse_loss(a, b) + layers.stacked.up.weight.sum()
    with pytest.raises(NotImplementedError, match="computes with parameters of the pipeline's layers"):
        pipe(Schedule1F1B, layers, mesh, 4, of_layers).step(x, target=y)
    outside = ft.ones(8, dtype=ft.float64, requires_grad=True)

    class Reaching(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * outside

    run = pipe(Schedule1F1B, nn.ScanStack([Reaching() for _ in range(4)]), mesh, 4, F.mse_loss)
    with pytest.raises(
        NotImplementedError, match="a layer computes with a tensor that requires grad and is no"
    ):
        run.step(x, target=y)
    assert all(p.grad is None for p in layers.parameters()) and outside.grad is None
    drops = dropping()
    drops.stacked.register_forward_hook(lambda m, args, out: out)
    for kind in SCHEDULES:
        with pytest.raises(NotImplementedError, match="has hooks and draws"):
            pipe(kind, drops, mesh, 4, F.mse_loss).step(x, target=y)


@pytest.mark.parametrize("kind", SCHEDULES)
def test_stages_of_a_fully_sharded_stack(kind: Any) -> None:
    """A layer is gathered over the data parallel dimension in the loop of its stage."""
    mesh, layers, split = meshed(2, 4), stack(4), fully_shard(stack(4), mesh=meshed(2, 4)["dp"])
    run = pipe(kind, split, mesh["pp"], 4, F.mse_loss)
    (x, y), losses = data(), []
    want = by_hand(layers, x, y, 4, F.mse_loss)
    if kind is Schedule1F1B:
        run.step(x, target=y, losses=losses)
        np.testing.assert_allclose([loss.item() for loss in losses], want, 1e-12)
    else:
        F.mse_loss(run(x), y).backward()
    weight = split.stacked.up.weight
    assert weight.jax().sharding.shard_shape(weight.shape) == (1, 8, 8)
    for a, b in zip(split.parameters(), layers.parameters(), strict=True):
        same(a.grad, b.grad)
