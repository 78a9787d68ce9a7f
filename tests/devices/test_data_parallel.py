"""`DistributedDataParallel`, `DataParallel` and `ZeroRedundancyOptimizer` on eight devices."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import jax
import numpy as np
import pytest

import functorch_port as ft
from functorch_port.distributed._composable import replicate
from functorch_port.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from functorch_port.distributed.algorithms.ddp_comm_hooks import default_hooks
from functorch_port.distributed.device_mesh import init_device_mesh
from functorch_port.distributed.optim import ZeroRedundancyOptimizer
from functorch_port.distributed.tensor import Replicate, Shard

nn, F = ft.nn, ft.nn.functional
DDP = nn.parallel.DistributedDataParallel


def network() -> Any:
    return nn.Sequential(nn.Linear(16, 24), nn.Dropout(0.1), nn.GELU(), nn.Linear(24, 8), nn.LayerNorm(8))


def trained(
    form: Any, compiled: bool, optimizer: Any, steps: int = 20, rows: Any = lambda i: 16
) -> tuple[np.ndarray, Any, Any, Any]:
    """The losses, the net, the optimizer and the step."""
    ft.manual_seed(0)
    net = network().double()
    net = net if form is None else form(net)
    opt = optimizer(net.parameters())
    rng = np.random.default_rng(0)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    run = ft.compile(step, rng="torch") if compiled else step
    losses = []
    for i in range(steps):
        x, y = ft.tensor(rng.standard_normal((rows(i), 16))), ft.tensor(rng.integers(0, 8, rows(i)))
        losses.append(run(x, y).item())
    return np.array(losses), net, opt, run


def adam(params: Any) -> Any:
    return ft.optim.AdamW(params, 0.01)


def zero(params: Any) -> Any:
    return ZeroRedundancyOptimizer(params, ft.optim.AdamW, lr=0.01)


FORMS: dict[str, tuple[Any, Any]] = {
    "DDP": (DDP, adam),
    "half the devices": (lambda net: nn.DataParallel(net, device_ids=[0, 1, 2, 3]), adam),
    "a mesh": (lambda net: DDP(net, device_mesh=init_device_mesh("cpu", (2,))), adam),
    "replicate": (replicate, adam),
    "ZeRO": (DDP, zero),
    "ZeRO alone": (None, zero),
}


@pytest.fixture(scope="module")
def wanted() -> Any:
    return {compiled: trained(None, compiled, adam)[:2] for compiled in (False, True)}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("form", FORMS)
def test_the_numbers_are_those_of_one_device(form: str, compiled: bool, wanted: Any) -> None:
    want, one = wanted[compiled]
    got, net, _, run = trained(*FORMS[form][:1], compiled, FORMS[form][1])
    np.testing.assert_allclose(got, want, rtol=1e-10)
    for p, q in zip(net.parameters(), one.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), 1e-8, 1e-10)
        assert p.placements == (Replicate(),)
    if compiled:
        assert run.traces == 1


def test_a_batch_without_equal_parts_is_computed_by_every_device() -> None:
    rows = lambda i: 16 - 3 * i
    want = trained(None, False, adam, 3, rows)[0]
    np.testing.assert_allclose(trained(DDP, False, adam, 3, rows)[0], want, rtol=1e-10)


def test_gradients_are_added_up_in_one_piece() -> None:
    net, run = trained(DDP, True, adam, steps=1)[1::2]
    text = run.programs()[0].lower().compile().as_text()
    found = [
        line for line in text.splitlines() if re.search(r" = .* (all-\w+|reduce-scatter)(-start)?\(", line)
    ]
    assert all("all-reduce" in line for line in found)
    large = [line for line in found if "f64[24,16]" in line or "f64[8,24]" in line]
    assert len(large) == 1 and len(found) <= 3
    assert "f64[24,16]" in large[0] and "f64[8,24]" in large[0]


def test_the_state_is_split() -> None:
    for compiled in (False, True):
        _, net, opt, _ = trained(DDP, compiled, zero, steps=1)
        assert isinstance(opt, ft.optim.AdamW) and opt.optim is opt
        for p in net.parameters():
            for name in ("exp_avg", "exp_avg_sq"):
                entry = opt.state[p][name]
                assert entry.jax().addressable_shards[0].data.size * 8 == p.numel()
                assert p.grad.jax().sharding.is_fully_replicated and p.jax().sharding.is_fully_replicated
        kept = opt.state_dict()
        opt.consolidate_state_dict()
        opt.load_state_dict(kept)
        assert opt.state[p]["exp_avg"].placements == (Shard(0),)
    lazy = ZeroRedundancyOptimizer(nn.Linear(8, 8).parameters(), ft.optim.SGD, lr=0.1, momentum=0.9)
    weight = lazy.param_groups[0]["params"][0]
    weight.sum().backward()
    lazy.step()
    assert lazy.state[weight]["momentum_buffer"].placements == (Shard(0),)
    with pytest.raises(ValueError, match="ZeroRedundancyOptimizer got an empty parameter list"):
        ZeroRedundancyOptimizer([], ft.optim.SGD, lr=0.1)
    with pytest.raises(TypeError, match="should be an iterable of Tensors, but got torch.FloatTensor"):
        ZeroRedundancyOptimizer(weight, ft.optim.SGD, lr=0.1)
    with pytest.raises(NotImplementedError, match="overlap_with_ddp"):
        ZeroRedundancyOptimizer([weight], ft.optim.SGD, overlap_with_ddp=True, lr=0.1)


class Normed(nn.Module):
    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Any) -> Any:
        return self.norm(x)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("size", [(16, 3), (16, 3, 4, 4)])
def test_batch_norm_has_the_statistics_of_each_device(size: Any, compiled: bool) -> None:
    x = ft.tensor(np.random.default_rng(0).standard_normal(size) * 2 + 1)
    weights = ft.tensor(np.random.default_rng(1).standard_normal(size))
    kind = nn.BatchNorm1d if len(size) == 2 else nn.BatchNorm2d

    def run(net: Any, x: Any, weights: Any) -> Any:
        x = x.clone().requires_grad_()

        def step(x: Any) -> Any:
            out = net(x)
            (out * weights).sum().backward()
            return out

        out = (ft.compile(step) if compiled else step)(x)
        return out.detach().numpy(), x.grad.numpy()

    parts, local = [], []
    for rank in range(8):  # a process of PyTorch each, whose buffers are those of the first
        norm = kind(3).double()
        parts.append(run(norm, x[2 * rank : 2 * rank + 2], weights[2 * rank : 2 * rank + 2]))
        local.append(norm)
    ddp = DDP(Normed(kind(3).double()))
    out, grad = run(ddp, x, weights)
    np.testing.assert_allclose(out, np.concatenate([o for o, _ in parts]), 1e-10, 1e-12)
    np.testing.assert_allclose(grad, np.concatenate([g for _, g in parts]), 1e-9, 1e-11)
    norm = ddp.module.norm
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        np.testing.assert_allclose(getattr(norm, name).numpy(), getattr(local[0], name).numpy(), 1e-10)
    for name in ("weight", "bias"):
        want = sum(getattr(n, name).grad.numpy() for n in local)
        np.testing.assert_allclose(getattr(norm, name).grad.numpy(), want, 1e-9, 1e-11)

    whole = kind(3).double()
    want_out, want_grad = run(whole, x, weights)
    sync = DDP(nn.SyncBatchNorm.convert_sync_batchnorm(Normed(kind(3).double())))
    out, grad = run(sync, x, weights)
    np.testing.assert_allclose(out, want_out, 1e-10, 1e-12)
    np.testing.assert_allclose(grad, want_grad, 1e-9, 1e-11)
    np.testing.assert_allclose(sync.module.norm.running_var.numpy(), whole.running_var.numpy(), 1e-10)


def test_batch_norm_in_a_checkpoint_and_outside_of_ddp() -> None:
    x = ft.tensor(np.random.default_rng(0).standard_normal((16, 3)))

    def gradient(wrapped: bool) -> Any:
        norm = nn.BatchNorm1d(3).double()
        net = DDP(Normed(checkpoint_wrapper(norm) if wrapped else norm))
        (net(x) ** 3).sum().backward()
        return norm.weight.grad.numpy(), norm

    for a in (gradient(True)[0], gradient(False)[0]):
        np.testing.assert_allclose(a, gradient(False)[0], 1e-12)
    norm = gradient(False)[1]
    np.testing.assert_allclose(
        norm(x).detach().numpy(), nn.BatchNorm1d(3).double()(x).detach().numpy(), 1e-12
    )
    compiled = ft.compile(nn.BatchNorm1d(3).double())
    by_part, plain = DDP(Normed(nn.BatchNorm1d(3).double()))(x), nn.BatchNorm1d(3).double()(x)
    for net, want in ((compiled, plain), (DDP(Normed(compiled)), by_part), (compiled, plain)):
        np.testing.assert_allclose(net(x).detach().numpy(), want.detach().numpy(), 1e-12)
    uneven = DDP(Normed(nn.BatchNorm1d(3).double()))
    x = x[:12]
    np.testing.assert_allclose(
        uneven(x).detach().numpy(), nn.BatchNorm1d(3).double()(x).detach().numpy(), 1e-12
    )


def test_one_value_per_device_is_refused_as_in_pytorch() -> None:
    with pytest.raises(
        ValueError, match=r"Expected more than 1 value per channel when training, got input size"
    ):
        DDP(nn.BatchNorm1d(3))(ft.ones(8, 3))


def test_ddp_as_people_use_it() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: Any, *, mask: Any = None) -> Any:
            return {"out": self.used(x) * mask}

    globals()["Unused"] = Unused  # a pickle looks for it there
    Unused.__qualname__ = "Unused"

    ddp = DDP(
        Unused(), device_ids=[0], find_unused_parameters=True, static_graph=False, gradient_as_bucket_view=True,
        broadcast_buffers=False, bucket_cap_mb=50,
    )  # fmt: skip
    assert [*ddp.state_dict()][0] == "module.used.weight" and isinstance(ddp.module, Unused)
    x, mask = ft.ones(8, 8), ft.ones(8, 1)
    with ddp.no_sync():
        ddp(x, mask=mask)["out"].sum().backward()
    once = ddp.module.used.weight.grad.clone()
    with ddp.join():
        out = ddp(x, mask=mask)["out"]
    assert out.jax().sharding.shard_shape(out.shape) == (1, 8)
    out.sum().backward()
    np.testing.assert_allclose(ddp.module.used.weight.grad.numpy(), 2 * once.numpy())
    assert ddp.module.unused.weight.grad is None
    assert len({s.device for s in ddp.module.used.weight.jax().addressable_shards}) == jax.device_count()
    for again in (copy.deepcopy(ddp), pickle.loads(pickle.dumps(ddp))):
        assert again.module.used.weight.placements == (Replicate(),)
        np.testing.assert_array_equal(again(x, mask=mask)["out"].detach().numpy(), out.detach().numpy())
    with pytest.raises(RuntimeError, match="doesn't have any parameter that requires a gradient"):
        DDP(nn.ReLU())
    with pytest.raises(ValueError, match="contain a single element"):
        DDP(nn.Linear(1, 1), device_ids=[0, 1])
    ddp.register_comm_hook(None, default_hooks.allreduce_hook)
    for hook in (lambda *_: None, default_hooks.fp16_compress_hook):
        with pytest.raises(NotImplementedError, match="register_comm_hook"):
            ddp.register_comm_hook(None, hook)
    with pytest.raises(NotImplementedError, match=r"Compression\.fp16"):
        default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook)
    with pytest.raises(NotImplementedError, match="dim=1"):
        nn.DataParallel(nn.Linear(1, 1), device_ids=[0, 1], dim=1)
