"""`FullyShardedDataParallel`, its policies and state dicts, and `checkpoint_wrapper`, on eight devices."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import functorch_port as ft
from functorch_port.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from functorch_port.distributed.device_mesh import init_device_mesh
from functorch_port.distributed.fsdp import (
    CPUOffload,
    FullStateDictConfig,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from functorch_port.distributed.fsdp import FullyShardedDataParallel as FSDP
from functorch_port.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    enable_wrap,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)
from functorch_port.distributed.tensor import Replicate, Shard

nn, F = ft.nn, ft.nn.functional


class Block(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        return x + self.drop(self.down(F.gelu(self.up(x))))


def network() -> Any:
    return nn.Sequential(nn.Linear(16, 16), Block(), Block(), nn.Linear(16, 8))


def trained(form: Any, compiled: bool, steps: int = 20) -> tuple[np.ndarray, Any, Any, Any]:
    ft.manual_seed(0)
    net = network().double()
    net = net if form is None else form(net)
    opt = ft.optim.AdamW(net.parameters(), 0.01)
    rng = np.random.default_rng(0)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        if isinstance(net, FSDP):
            net.clip_grad_norm_(0.5)
        else:
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        return loss

    run = ft.compile(step, rng="torch") if compiled else step
    losses = []
    for _ in range(steps):
        x, y = ft.tensor(rng.standard_normal((16, 16))), ft.tensor(rng.integers(0, 8, 16))
        losses.append(run(x, y).item())
    return np.array(losses), net, opt, run


by_class = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})


def with_checkpoints(net: Any) -> Any:
    made = FSDP(net, auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=True)
    apply_activation_checkpointing(made, check_fn=lambda m: isinstance(m, Block))
    return made


FORMS: dict[str, Any] = {
    "FULL_SHARD": lambda net: FSDP(net, auto_wrap_policy=by_class),
    "SHARD_GRAD_OP": lambda net: FSDP(net, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP),
    "NO_SHARD": lambda net: FSDP(net, sharding_strategy=ShardingStrategy.NO_SHARD),
    "HYBRID_SHARD": lambda net: FSDP(
        net, sharding_strategy=ShardingStrategy.HYBRID_SHARD, auto_wrap_policy=ModuleWrapPolicy({Block}),
        device_mesh=init_device_mesh("cpu", (2, 4), mesh_dim_names=("a", "b")),
    ),
    "checkpoints": with_checkpoints,
}  # fmt: skip
PLACED = {"NO_SHARD": (Replicate(),), "HYBRID_SHARD": (Replicate(), Shard(0))}


@pytest.fixture(scope="module")
def wanted() -> Any:
    return {compiled: trained(None, compiled)[:2] for compiled in (False, True)}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("form", FORMS)
def test_the_numbers_are_those_of_one_device(form: str, compiled: bool, wanted: Any) -> None:
    want, one = wanted[compiled]
    got, net, opt, run = trained(FORMS[form], compiled)
    np.testing.assert_allclose(got, want, rtol=1e-10)
    for p, q in zip(net.parameters(), one.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), 1e-8, 1e-10)
        for placed in (p, p.grad, opt.state[p]["exp_avg"]):
            assert placed.placements == PLACED.get(form, (Shard(0),))
    if compiled:
        assert run.traces == 1


def test_policies_choose_as_in_pytorch() -> None:
    def units(policy: Any) -> list[str]:
        net = FSDP(network(), auto_wrap_policy=policy)
        return [name for name, m in net.named_modules() if isinstance(m, FSDP)]

    blocks = ["", "_fsdp_wrapped_module.1", "_fsdp_wrapped_module.2"]
    assert units(by_class) == units(ModuleWrapPolicy([Block])) == blocks
    assert units(functools.partial(size_based_auto_wrap_policy, min_num_params=1000)) == blocks
    assert units(CustomPolicy(lambda m: isinstance(m, Block))) == blocks
    with pytest.raises(ValueError, match="should return False/True or a kwarg dict, but it returned 3"):
        units(CustomPolicy(lambda m: 3))  # type: ignore[arg-type, return-value]
    with enable_wrap(wrapper_cls=FSDP):
        assert isinstance(wrap(nn.Linear(8, 8)), FSDP)
    assert isinstance(wrap(nn.Linear(8, 8)), nn.Linear)


def test_names_and_state_dicts() -> None:
    _, net, opt, _ = trained(FORMS["FULL_SHARD"], False, steps=1)
    clean = [*network().state_dict()]
    assert [*net.state_dict()] == clean
    assert [name for name, _ in net.named_parameters()][
        2
    ] == "_fsdp_wrapped_module.1._fsdp_wrapped_module.up.weight"
    assert [m.check_is_root() for m in FSDP.fsdp_modules(net)] == [True, False, False]
    with FSDP.summon_full_params(net):
        assert [name for name, _ in net.named_parameters()] == clean
    with FSDP.summon_full_params(net, writeback=False), ft.no_grad():
        net.module[0].weight.zero_()
    assert net.module[0].weight.abs().sum() > 0

    whole = net.state_dict()
    assert whole["1.up.weight"].jax().sharding.is_fully_replicated
    with FSDP.state_dict_type(net, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True)):
        on_host = net.state_dict()["1.up.weight"]
    assert len(on_host.jax().sharding.device_set) == 1
    plain = network().double()
    plain.load_state_dict(whole)
    with FSDP.state_dict_type(net, StateDictType.SHARDED_STATE_DICT):
        parts = net.state_dict()
    assert parts["1.up.weight"].placements == (Shard(0),)
    with ft.no_grad():
        for p in plain.parameters():
            p.add_(1.0)
    net.load_state_dict(plain.state_dict())
    np.testing.assert_array_equal(
        net.module[1].up.weight.detach().numpy(), plain[1].up.weight.detach().numpy()
    )
    assert net.module[1].up.weight.placements == (Shard(0),)

    state = FSDP.optim_state_dict(net, opt)
    assert [*state["state"]] == clean and state["param_groups"][0]["params"] == clean
    other = ft.optim.AdamW(net.parameters(), 0.5)
    FSDP.optim_state_dict_to_load(net, other, state, load_directly=True)
    weight = net.module[1].up.weight
    np.testing.assert_array_equal(
        other.state[weight]["exp_avg"].numpy(), opt.state[weight]["exp_avg"].numpy()
    )
    assert other.state[weight]["exp_avg"].placements == (Shard(0),) and other.param_groups[0]["lr"] == 0.01


def test_mixed_precision_leaves_batch_norm_alone() -> None:
    seen: dict[str, Any] = {}
    net = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 8))
    for i, part in enumerate(net):
        part.register_forward_hook(
            lambda m, args, out, i=i: seen.update({str(i): (m.weight.dtype, out.dtype)})
        )
    half = MixedPrecision(ft.bfloat16, ft.bfloat16, ft.bfloat16)
    made = FSDP(net, auto_wrap_policy=ModuleWrapPolicy([nn.Linear]), mixed_precision=half)
    out = made(ft.randn(16, 16))
    assert out.dtype == ft.bfloat16
    assert seen["0"][0] == seen["2"][0] == ft.bfloat16 and seen["1"][0] == ft.float32
    out.float().sum().backward()
    assert {p.grad.dtype for p in made.parameters()} == {ft.float32}
    assert made.state_dict()["1.running_mean"].dtype == ft.float32


def test_a_module_on_the_meta_device_is_initialised() -> None:
    ft.manual_seed(0)
    want = network()
    with ft.device("meta"):
        net = network()
    ft.manual_seed(0)
    net = FSDP(net, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)
    for p, q in zip(net.parameters(), want.parameters(), strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
        assert p.placements == (Shard(0),)


def test_what_is_not_supported_says_so() -> None:
    for options, text in (
        ({"process_group": 1}, "process_group="),
        ({"mixed_precision": MixedPrecision(keep_low_precision_grads=True)}, "keep_low_precision_grads"),
    ):
        with pytest.raises(NotImplementedError, match=text):
            FSDP(nn.Linear(8, 8), **options)
    net = FSDP(nn.Linear(8, 8), cpu_offload=CPUOffload(False), limit_all_gathers=True, forward_prefetch=True)
    with pytest.raises(NotImplementedError, match="LOCAL_STATE_DICT"):
        FSDP.set_state_dict_type(net, StateDictType.LOCAL_STATE_DICT)
    with pytest.raises(ValueError, match="Cannot pass both ignored_modules and ignored_states"):
        FSDP(nn.Linear(8, 8), ignored_modules=[], ignored_states=[])
    left = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    FSDP(left, ignored_modules=[left[1]])
    assert not isinstance(left[1].weight, ft.distributed.tensor.DTensor)


def test_checkpoint_wrapper_keeps_names_and_numbers() -> None:
    ft.manual_seed(0)
    net = network().eval()
    x = ft.randn(4, 16)
    want = net(x)
    apply_activation_checkpointing(net, check_fn=lambda m: isinstance(m, Block))
    assert isinstance(net[1], CheckpointWrapper) and not isinstance(net[0], CheckpointWrapper)
    assert [*net.state_dict()] == [*network().state_dict()]
    assert net[1].up.weight is net[1]._checkpoint_wrapped_module.up.weight
    np.testing.assert_array_equal(net(x).detach().numpy(), want.detach().numpy())
    net.load_state_dict(network().state_dict())
    made = checkpoint_wrapper(nn.Linear(4, 4), preserve_rng_state=False)
    made(ft.ones(2, 4)).sum().backward()
    assert made.weight.grad.tolist() == [[2.0] * 4] * 4
