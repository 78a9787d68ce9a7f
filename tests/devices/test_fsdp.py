"""`fully_shard` on eight devices: the numbers of one device, an eighth of the memory, and what is communicated."""

from __future__ import annotations

import gc
import re
from typing import Any

import jax
import numpy as np
import pytest

import functorch_port as ft
from functorch_port.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from functorch_port.distributed.device_mesh import init_device_mesh
from functorch_port.distributed.fsdp import (
    CPUOffloadPolicy,
    DataParallelMeshDims,
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from functorch_port.distributed.tensor import Replicate, Shard, distribute_tensor

nn, F = ft.nn, ft.nn.functional


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        return x + self.drop(self.down(F.gelu(self.up(self.norm(x)))))


class Net(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, 10, bias=False)
        self.register_buffer("scale", ft.ones(1))

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.embed(x)).mean(1)) * self.scale


def sharded(net: Any, **options: Any) -> Any:
    for block in net.blocks:
        fully_shard(block, **options)
    return fully_shard(net, **options)


def grid() -> Any:
    return init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))


def last(param: Any) -> Any:
    return Shard(param.dim() - 1) if param.shape[-1] % 8 == 0 else None


def tensor_parallel_first(net: Any) -> Any:
    """Each second layer split over "tp", then everything over "dp"."""
    mesh = grid()
    for block in net.blocks:
        for name, dim in (("up", 0), ("down", 1)):
            linear = getattr(block, name)
            linear.weight = nn.Parameter(distribute_tensor(linear.weight.detach(), mesh["tp"], [Shard(dim)]))
        fully_shard(block, mesh=mesh["dp"])
    return fully_shard(net, mesh=mesh["dp"])


def compiled_first(net: Any) -> Any:
    net.blocks = nn.Sequential(*[ft.compile(block, rng="torch") for block in net.blocks])
    return sharded(net)


FORMS: dict[str, Any] = {
    "units": sharded,
    "compiled blocks": compiled_first,
    "one unit": fully_shard,
    "regathered": lambda net: sharded(net, reshard_after_forward=True),
    "kept": lambda net: sharded(net, reshard_after_forward=False),
    "last dimension": lambda net: sharded(net, shard_placement_fn=last),
    "hybrid": lambda net: sharded(net, mesh=grid()),
    "tensor parallel": tensor_parallel_first,
    "ignored": lambda net: sharded(net, ignored_params={net.head.weight}),
    "named dimensions": lambda net: sharded(net, mesh=grid(), dp_mesh_dims=DataParallelMeshDims("tp", "dp")),
}  # fmt: skip


def trained(
    form: Any, compiled: bool, dtype: Any = ft.float64, steps: int = 20, width: int = 16
) -> tuple[np.ndarray, Any, Any, Any]:
    """The losses, the net, the optimizer and the step."""
    ft.manual_seed(0)
    net = Net(width).to(dtype)
    if form is not None:
        form(net)
    opt = ft.optim.AdamW(net.parameters(), 0.01)
    rng = np.random.default_rng(0)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        return loss

    run = ft.compile(step, rng="torch") if compiled else step
    losses = []
    for _ in range(steps):
        x, y = ft.tensor(rng.integers(0, 16, (16, 5))), ft.tensor(rng.integers(0, 10, 16))
        losses.append(run(x, y).item())
    return np.array(losses), net, opt, run


@pytest.fixture(scope="module")
def wanted() -> Any:
    return {compiled: trained(None, compiled)[:2] for compiled in (False, True)}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("form", FORMS)
def test_the_numbers_are_those_of_one_device(form: str, compiled: bool, wanted: Any) -> None:
    want, one = wanted[compiled]
    got, net, opt, run = trained(FORMS[form], compiled)
    np.testing.assert_allclose(got, want, rtol=1e-10)
    for (name, p), q in zip(net.named_parameters(), one.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), 1e-8, 1e-10, err_msg=name)
        assert type(p) is nn.Parameter
        if form == "ignored" and name == "head.weight":
            continue
        for entry in (p.grad, opt.state[p]["exp_avg"]):
            assert entry.placements == p.placements
            assert entry.jax().sharding.is_equivalent_to(p.jax().sharding, p.dim())
    if compiled:
        assert run.traces == 1


def test_where_parameters_lie() -> None:
    net = sharded(Net())
    assert net.embed.weight.placements == (Shard(0),)
    assert net.head.weight.placements == (Shard(1),)  # ten rows are not shared by eight
    net = sharded(Net(), mesh=grid())
    assert net.embed.weight.placements == (Replicate(), Shard(0))
    net = tensor_parallel_first(Net())
    assert net.blocks[0].up.weight.placements == (Shard(0), Shard(0))
    assert net.blocks[0].down.weight.placements == (Shard(0), Shard(1))
    with pytest.raises(NotImplementedError, match=r"uneven sharding on dim 1: torch.Size\(\[8, 10\]\)"):
        fully_shard(nn.Linear(10, 8), shard_placement_fn=lambda p: Shard(p.dim() - 1))


def test_classes_are_those_of_pytorch() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    assert fully_shard(net) is net
    assert type(net).__name__ == "FSDPSequential"
    assert isinstance(net, FSDPModule) and isinstance(net, nn.Sequential)
    assert type(net[:1]) is nn.Sequential
    with pytest.raises(AssertionError, match="FSDP does not support deepcopy"):
        __import__("copy").deepcopy(net)
    with pytest.raises(AssertionError, match="fully_shard has already been applied"):
        fully_shard(net)
    with pytest.raises(ValueError, match="containers that do not implement forward"):
        fully_shard(nn.ModuleList([nn.Linear(1, 1)]))
    with pytest.raises(ValueError, match="doesn't support scalar parameters. Change p to"):
        module = nn.Module()
        module.p = nn.Parameter(ft.tensor(1.0))
        fully_shard(module)
    with pytest.raises(ValueError, match="factor of 8, not 3"):
        fully_shard(nn.Linear(8, 8), reshard_after_forward=3)
    with pytest.raises(NotImplementedError, match=r"pin_memory=False.*Use CPUOffloadPolicy\(\)"):
        fully_shard(nn.Linear(8, 8), offload_policy=CPUOffloadPolicy(pin_memory=False))
    with pytest.raises(NotImplementedError, match="multiply the loss"):
        net.set_gradient_divide_factor(2.0)
    net.set_requires_gradient_sync(False)
    net.set_modules_to_forward_prefetch([net])
    with pytest.raises(ValueError, match="Expects FSDPModule"):
        net.set_modules_to_forward_prefetch([nn.Linear(1, 1)])


def local_bytes(tensors: Any) -> tuple[int, int]:
    """Bytes of tensors on the first device, and altogether."""
    arrays = [t.jax() for t in tensors if t.dim()]
    first = [s.data.nbytes for a in arrays for s in a.addressable_shards if s.device == jax.devices()[0]]
    return sum(first), sum(a.nbytes for a in arrays)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_each_device_has_an_eighth(compiled: bool) -> None:
    _, net, opt, run = trained(sharded, compiled, ft.float32, steps=2)
    state = [t for p in net.parameters() for t in opt.state[p].values() if isinstance(t, ft.Tensor)]
    for tensors in (net.parameters(), [p.grad for p in net.parameters()], state):
        here, whole = local_bytes(tensors)
        assert here == whole / 8
    if compiled:
        stats = run.programs()[0].lower().compile().memory_analysis()
        here, whole = local_bytes([*net.parameters(), *state])
        assert stats.argument_size_in_bytes < here + 1500  # numbers, seeds, the batch


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_parameters_are_whole_only_in_the_forward_pass(again: bool, compiled: bool) -> None:
    net = nn.Sequential(nn.Linear(40, 48), nn.Tanh(), nn.Linear(48, 8))
    net = fully_shard(ft.compile(net) if compiled else net, reshard_after_forward=again)

    def wholes() -> int:
        gc.collect()
        return sum(
            a.shape in ((40, 48), (48, 40)) and a.sharding.is_fully_replicated for a in jax.live_arrays()
        )

    before = wholes()
    seen: list[int] = []
    if not compiled:
        net[1].register_forward_hook(lambda *_: seen.append(wholes() - before))
    x = ft.ones(8, 40, requires_grad=True)
    out = net(x)
    assert compiled or seen[0] > 0
    assert (wholes() - before > 0) is not again
    out.sum().backward()
    assert x.grad.shape == (8, 40)
    del out
    assert wholes() == before


def collectives(run: Any) -> list[tuple[str, list[str]]]:
    """Kinds and shapes of the collectives in the program of a step."""
    found = []
    for line in run.programs()[0].lower().compile().as_text().splitlines():
        made = re.search(r" = (.*?) (all-gather|all-reduce|all-to-all|collective-permute)(?:-start)?\(", line)
        if made:
            found.append((made[2], re.findall(r"[a-z0-9]+\[[0-9,]*\]", made[1])))
    return found


@pytest.mark.parametrize("again", [False, True])
def test_weights_are_gathered_and_activations_are_not_reduced(again: bool) -> None:
    form = lambda net: sharded(net, reshard_after_forward=again)
    _, net, _, run = trained(form, True, ft.float32, steps=1, width=24)
    shapes = ["f32[" + ",".join(map(str, p.shape)) + "]" for p in net.parameters()]
    found = collectives(run)
    gathered = [shape for kind, made in found if kind == "all-gather" for shape in made]
    matrices = sum(p.dim() == 2 for p in net.parameters()) - 1  # the embedding's gradient does not need it
    assert len(gathered) <= len(shapes) * (2 if again else 1)
    assert len(gathered) >= len(shapes) + (matrices if again else 0)
    assert set(gathered) <= {*shapes}
    reduced = [shape for kind, made in found if kind == "all-reduce" for shape in made if shape[-2:] != "[]"]
    assert sorted(reduced) == sorted(shapes)  # each gradient once: a CPU has no reduce-scatter
    assert not [kind for kind, _ in found if kind not in ("all-gather", "all-reduce")]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_mixed_precision_has_the_dtypes_of_pytorch(compiled: bool) -> None:
    seen: list[Any] = []

    class Linear(nn.Linear):
        def forward(self, x: Any) -> Any:
            seen[:] = [x.dtype, self.weight.dtype]
            return super().forward(x)

    def run(policy: Any) -> Any:
        ft.manual_seed(0)
        net = Linear(16, 8)
        net = net if policy is None else fully_shard(net, mp_policy=policy)
        x = ft.tensor(np.random.default_rng(0).standard_normal((16, 16)), dtype=ft.float32)

        def step(x: Any) -> Any:
            out = net(x)
            out.float().square().sum().backward()
            return out

        out = (ft.compile(step) if compiled else step)(x)
        assert net.weight.dtype == net.weight.grad.dtype == ft.float32
        return out.detach().float().numpy(), net.weight.grad.numpy(), out.dtype

    want = run(None)
    half = MixedPrecisionPolicy(param_dtype=ft.bfloat16)
    got = run(half)
    assert seen == [ft.bfloat16, ft.bfloat16] and got[2] == ft.bfloat16
    for a, b in zip(got[:2], want[:2]):
        np.testing.assert_allclose(a, b, rtol=0.05, atol=0.05)
    assert np.array_equal(got[1], got[1].astype(jax.numpy.bfloat16).astype(np.float32))
    policy = MixedPrecisionPolicy(ft.bfloat16, ft.float32, output_dtype=ft.float32)
    assert run(policy)[2] == ft.float32
    with pytest.raises(RuntimeError, match="dtype"):
        run(MixedPrecisionPolicy(ft.bfloat16, cast_forward_inputs=False))


def test_a_module_on_the_meta_device_is_initialised_in_parts() -> None:
    ft.manual_seed(0)
    want = Net()
    with ft.device("meta"):
        net = Net()
    sharded(net)
    assert all(p.is_meta for p in net.parameters())
    net.to_empty(device="cpu")
    assert net.embed.weight.placements == (Shard(0),)
    ft.manual_seed(0)
    for part in net.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    net.scale.fill_(1.0)
    for (name, p), q in zip(net.named_parameters(), want.parameters(), strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy(), err_msg=name)
        assert p.jax().addressable_shards[0].data.size == p.numel() // 8
    x = ft.arange(16).reshape(8, 2)
    net.eval(), want.eval()
    np.testing.assert_allclose(net(x).detach().numpy(), want(x).detach().numpy(), 1e-5, 1e-6)


def test_an_exception_puts_the_parameters_back() -> None:
    class Wrong(nn.Linear):
        def forward(self, x: Any) -> Any:
            raise KeyError("no")

    net = fully_shard(Wrong(8, 8))
    own = net.weight
    with pytest.raises(KeyError, match="no"):
        net(ft.ones(8, 8))
    assert net.weight is own


def test_another_method_may_run_as_forward() -> None:
    class Two(nn.Linear):
        def encode(self, x: Any) -> Any:
            return self.weight, self(x)

    net = fully_shard(Two(8, 8))
    register_fsdp_forward_method(net, "encode")
    weight, out = net.encode(ft.ones(8, 8))
    assert weight.jax().sharding.is_fully_replicated and out.shape == (8, 8)
    with pytest.raises(ValueError, match="does not have a method decode"):
        register_fsdp_forward_method(net, "decode")


def test_tied_weights_and_frozen_ones() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(16, 8), nn.Linear(8, 16, bias=False)
            self.head.weight = self.embed.weight
            self.frozen = nn.Linear(8, 8).requires_grad_(False)

        def forward(self, x: Any) -> Any:
            return self.head(self.frozen(self.embed(x)))

    def gradient(shard: bool) -> Any:
        ft.manual_seed(0)
        net = Tied().double()
        if shard:
            fully_shard(net.frozen)
            fully_shard(net)
            assert net.head.weight is net.embed.weight
        net(ft.arange(16)).square().sum().backward()
        assert net.frozen.weight.grad is None
        return net.embed.weight.grad.numpy()

    np.testing.assert_allclose(gradient(True), gradient(False), 1e-10, 1e-10)


def test_checkpoints_of_activations_and_accumulation() -> None:
    from functorch_port.utils.checkpoint import checkpoint

    def gradients(shard: bool) -> list[Any]:
        ft.manual_seed(0)
        net = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2)]).double()
        if shard:
            for part in net:
                fully_shard(part)
            fully_shard(net)

        @ft.compile
        def step(x: Any) -> Any:
            for half in x.chunk(2):
                checkpoint(net, half, use_reentrant=False).square().sum().backward()

        step(ft.arange(128.0, dtype=ft.float64).reshape(16, 8) / 64)
        return [p.grad.numpy() for p in net.parameters()]

    for a, b in zip(gradients(True), gradients(False), strict=True):
        np.testing.assert_allclose(a, b, 1e-10)


def test_setting_when_to_gather_again_changes_the_program() -> None:
    net = fully_shard(nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 8)))

    @ft.compile
    def step(x: Any) -> None:
        net(x).sum().backward()

    x = ft.ones(8, 16)
    step(x)
    net.zero_grad()
    net.set_reshard_after_forward(True)
    step(x)
    assert step.traces == 2


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("inside", [False, True], ids=["unit in a checkpoint", "checkpoint in a unit"])
def test_a_checkpoint_computes_again_with_gathered_parameters(inside: bool, compiled: bool) -> None:
    seen: list[Any] = []

    class Layer(nn.Linear):
        def forward(self, x: Any) -> Any:
            seen.append(self.weight.dtype)
            return super().forward(x).tanh()

    ft.manual_seed(0)
    nets = [nn.Sequential(Layer(24, 32), Layer(32, 24)) for _ in range(2)]
    policy = MixedPrecisionPolicy(param_dtype=ft.bfloat16)
    if inside:
        net = nn.Sequential(*[fully_shard(checkpoint_wrapper(part), mp_policy=policy) for part in nets])
    else:
        net = nn.Sequential(*[checkpoint_wrapper(fully_shard(part, mp_policy=policy)) for part in nets])
    fully_shard(net, mp_policy=policy)

    def step(x: Any) -> None:
        net(x).float().square().sum().backward()

    run = ft.compile(step) if compiled else step
    run(ft.ones(8, 24))
    assert seen == [ft.bfloat16] * 8
    assert all(p.grad.dtype == ft.float32 for p in net.parameters())
    if compiled:
        gathered = [s for kind, made in collectives(run) if kind == "all-gather" for s in made]
        assert gathered.count("f32[32,24]") + gathered.count("bf16[32,24]") == 4


def test_a_compiled_module_whose_result_is_differentiated_outside() -> None:
    def gradients(change: Any) -> list[Any]:
        ft.manual_seed(0)
        inner = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        net = nn.Sequential(inner, nn.Linear(8, 8)).double()
        run = change(net)
        for k in range(2):
            run(ft.ones(8, 8).double() * (k + 1)).square().sum().backward()
        return [p.grad.numpy() for p in net.parameters()]

    def sharded(net: Any) -> Any:
        fully_shard(net[0])  # lets go of its parameters after the forward pass
        return ft.compile(fully_shard(net))

    for mine, alone in zip(gradients(sharded), gradients(lambda net: net), strict=True):
        np.testing.assert_allclose(mine, alone, 1e-10)


def test_compiled_parts_see_the_parameters_that_are_gathered() -> None:
    def trained(change: Any) -> float:
        ft.manual_seed(0)
        net = change(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)).double())
        opt = ft.optim.SGD(net.parameters(), lr=0.1)
        for k in range(4):
            opt.zero_grad()
            loss = net(ft.ones(8, 8).double() * (k + 1)).square().mean()
            loss.backward()
            opt.step()
        return float(loss)

    def parts(net: Any) -> Any:
        net[0] = ft.compile(net[0])
        net[2].compile()
        fully_shard(net[2])
        return fully_shard(net)

    np.testing.assert_allclose(trained(parts), trained(lambda net: net), 1e-12)


@pytest.mark.parametrize("form", ["root", "checkpoint around the root", "checkpoint inside"])
def test_batch_norm_has_the_statistics_of_each_device(form: str) -> None:
    def gradient(kind: str) -> Any:
        ft.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 8))).double()
        weight = net[0].weight
        if kind == "data parallel":
            net = nn.parallel.DistributedDataParallel(net)
        else:
            if kind == "checkpoint inside":
                net[1] = checkpoint_wrapper(fully_shard(net[1]))
            fully_shard(net)
            net = checkpoint_wrapper(net) if kind == "checkpoint around the root" else net
        x = ft.tensor(np.random.default_rng(0).standard_normal((24, 8)))
        (net(x) ** 3).sum().backward()
        return weight.grad.numpy()

    np.testing.assert_allclose(gradient(form), gradient("data parallel"), 1e-9, 1e-12)
