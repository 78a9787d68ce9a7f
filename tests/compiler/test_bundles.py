"""Small state that a program takes and gives back in a few arrays: seen by nobody."""

import copy
import io

import numpy as np
import pytest
import torch
from counting import xla_compilations

import functorch_port as ft
from functorch_port._base.tuning import tuning
from functorch_port._cpu.native import ffi
from functorch_port._trace.bundles import Bundle

DATA = np.random.default_rng(0).standard_normal((6, 4))


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch):
    monkeypatch.setattr(tuning, "bundle_least", 2)


class Case:
    """A small network and its training step, in PyTorch or (compiled) here, in float64."""

    def __init__(self, lib, wrap=lambda fn: fn, optimizer="AdamW"):
        nn, self.lib = lib.nn, lib
        lib.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(4, 5), nn.Tanh(), nn.BatchNorm1d(5), nn.Linear(5, 5), nn.Tanh(), nn.BatchNorm1d(5),
            nn.Linear(5, 3),
        ).double()  # fmt: skip
        options = {"momentum": 0.9} if optimizer == "SGD" else {}
        self.optimizer = getattr(lib.optim, optimizer)(self.model.parameters(), lr=0.05, **options)
        self.step = wrap(self._step)
        self.x = lib.tensor(DATA)

    def _step(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, times=1, rows=6):
        return [self.step(self.x[:rows]).item() for _ in range(times)][-1]

    def params(self):
        return [p.detach().numpy().copy() for p in (*self.model.parameters(), *self.model.buffers())]


def pair(**options):
    return Case(ft, ft.compile, **options), Case(torch, **options)


def agree(ours, theirs):
    for a, b in zip(ours.params(), theirs.params(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def bundled(step):
    (program,) = step.programs()
    return [d for d in program.inputs.donated if isinstance(d, Bundle)]


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_the_numbers_are_pytorchs(optimizer):
    ours, theirs = pair(optimizer=optimizer)
    for _ in range(8):
        np.testing.assert_allclose(ours.run(), theirs.run(), rtol=1e-9)
    assert bundled(ours.step)
    agree(ours, theirs)
    assert ours.step.traces == 1


def between(name, lib, case):
    """What a program may do between two steps."""
    weight, bias = case.model[0].weight, case.model[0].bias
    with lib.no_grad():
        if name == "read one":
            return bias.sum().item()
        if name == "read all on the host":
            return sum(float(p.detach().numpy().sum()) for p in case.model.parameters())
        if name == "forward":
            return case.model(case.x).sum().item()
        if name == "write one":
            bias.mul_(0.5)
        elif name == "write a part":
            weight[1:3].add_(1)
        elif name == "write by data":
            bias.data = bias.data * 2
        elif name == "write all":
            for p in case.model.parameters():
                p.add_(0.01)
        elif name == "write through a view":
            weight.view(-1)[3].fill_(2)
        elif name == "step by hand":
            case._step(case.x)
        elif name == "load":
            case.model.load_state_dict({k: v * 0.9 for k, v in case.model.state_dict().items()})
    return None


@pytest.mark.parametrize(
    "name",
    [
        "read one", "read all on the host", "forward", "write one", "write a part", "write by data", "write all",
        "write through a view", "step by hand", "load",
    ],
)  # fmt: skip
def test_whatever_comes_between(name):
    ours, theirs = pair()
    for _ in range(7):  # more often than values are cut on the host
        np.testing.assert_allclose(ours.run(2), theirs.run(2), rtol=1e-8)
        if name == "step by hand":
            with ft.enable_grad(), torch.enable_grad():
                ours._step(ours.x), theirs._step(theirs.x)
            continue
        a, b = between(name, ft, ours), between(name, torch, theirs)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-8)
    agree(ours, theirs)


def test_reading_compiles_nothing_at_first_and_later_once():
    ours, _ = pair()
    ours.run(3)
    read = lambda: [p.sum().item() for p in ours.model.parameters()]
    read()
    counts = []
    for _ in range(10):
        ours.run()
        with xla_compilations() as compiled:
            read()
        counts += compiled
    assert sum(counts) <= 2 * len(bundled(ours.step))
    assert counts[:2] == [0, 0] and counts[-3:] == [0, 0, 0]


def test_nothing_is_joined_again_after_reading(monkeypatch):
    ours, _ = pair()
    ours.run(3)
    joined = []
    monkeypatch.setattr(Bundle, "_join", lambda self, join=Bundle._join: joined.append(self) or join(self))
    for _ in range(8):
        ours.params()
        [p.sum().item() for p in ours.model.parameters()]
        ours.run()
    assert not joined
    with ft.no_grad():
        ours.model[0].bias.add_(1)
    ours.run(2)
    assert len(joined) == 1


def test_two_functions_of_the_same_parameters():
    ours, theirs = pair()
    evaluate = ft.compile(lambda x: ours.model(x).sum())
    other = ft.compile(ours._step)
    for _ in range(4):
        np.testing.assert_allclose(ours.run(rows=6), theirs.run(rows=6), rtol=1e-8)
        np.testing.assert_allclose(ours.run(rows=4), theirs.run(rows=4), rtol=1e-8)
        np.testing.assert_allclose(other(ours.x).item(), theirs.step(theirs.x).item(), rtol=1e-8)
        np.testing.assert_allclose(evaluate(ours.x).item(), theirs.model(theirs.x).sum().item(), rtol=1e-7)
    agree(ours, theirs)
    assert ours.step.traces == 2 and other.traces == 1


def test_programs_share_bundles():
    """Batches of two sizes alternate without anything being cut or joined."""
    ours, _ = pair()
    for rows in (6, 4, 6, 4):
        ours.run(rows=rows)
    first, second = ({d for d in p.inputs.donated if isinstance(d, Bundle)} for p in ours.step.programs())
    assert first == second
    assert all(bundle._is_together() for bundle in first)


def test_saving_and_copying():
    ours, theirs = pair()
    ours.run(3), theirs.run(3)
    buffer = io.BytesIO()
    ft.save(ours.model.state_dict(), buffer)
    buffer.seek(0)
    saved = ft.load(buffer)
    for key, value in theirs.model.state_dict().items():
        np.testing.assert_allclose(saved[key].numpy(), value.numpy(), rtol=1e-9)
        assert saved[key]._storage.nbytes() == value.untyped_storage().nbytes()
    ours.run()
    twin = copy.deepcopy(ours.model)
    before = [p.detach().numpy().copy() for p in twin.parameters()]
    ours.run(2), theirs.run(3)
    agree(ours, theirs)
    for p, q in zip(twin.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q)


def test_a_snapshot_stays_as_it_was():
    """What was read before a step is not what the step writes to."""
    ours, _ = pair()
    for _ in range(7):
        ours.run()
        bias = ours.model[0].bias
        host, array, clone = bias.detach().numpy(), bias.jax(), bias.detach().clone()
        kept = np.array(array)
        ours.run()
        np.testing.assert_array_equal(np.asarray(array), kept)
        np.testing.assert_array_equal(clone.numpy(), kept)
        assert not np.array_equal(bias.detach().numpy(), kept)
        del host


def test_another_shape_or_type_traces_again():
    ours, _ = pair()
    ours.run(2)
    with ft.no_grad():
        ours.model[6] = ft.nn.Linear(5, 7).double()
    ours.run()
    assert ours.step.traces == 2
    cell = ours.model[0].bias._storage
    cell.value = cell.value.astype(np.float32)
    with pytest.raises(RuntimeError, match="dtype"):
        ours.run()


def test_versions_count_the_steps():
    ours, theirs = pair(optimizer="SGD")
    ours.run(3), theirs.run(3)
    a, b = ours.model[0].bias, theirs.model[0].bias
    before = a._version, b._version
    ours.run(2), theirs.run(2)
    assert a._version - before[0] == b._version - before[1] == 2


def test_gradients_are_there_to_be_read():
    ours, theirs = pair()
    for _ in range(3):
        ours.run(2), theirs.run(2)
        for p, q in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-7, atol=1e-12)


def test_a_failed_call_loses_nothing():
    ours, theirs = pair()
    ours.run(3), theirs.run(3)
    with pytest.raises(RuntimeError):
        ours.step(ft.tensor(DATA[:, :3]))
    agree(ours, theirs)
    np.testing.assert_allclose(ours.run(), theirs.run(), rtol=1e-9)


def test_few_are_not_bundled(monkeypatch):
    monkeypatch.setattr(tuning, "bundle_least", 128)
    ours, _ = pair()
    ours.run(2)
    assert not bundled(ours.step)


def test_many_are():
    """As it is without a test that asks for it."""
    params = [ft.nn.Parameter(ft.full((3,), float(k))) for k in range(130)]
    optimizer = ft.optim.SGD(params, lr=0.1)
    for p in params:
        p.grad = ft.ones_like(p)
    step = ft.compile(optimizer.step)
    for _ in range(3):
        step()
    assert sorted(len(b.members) for b in bundled(step)) == [2, 32, 32, 32, 32]
    np.testing.assert_allclose([p[0].item() for p in params], np.arange(130) - 0.3, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_what_an_optimizer_updates_is_not_joined_anew(optimizer):
    if not ffi.available():
        pytest.skip("needs llvmlite")
    ours, _ = pair(optimizer=optimizer)
    ours.run(2)
    (program,) = ours.step.programs()
    parameters = {p._storage for p in ours.model.parameters()}
    others = [bundle for bundle in bundled(ours.step) if parameters.isdisjoint(bundle.members)]
    assert len(others) < len(bundled(ours.step))
    text = program.lower().as_text()
    assert "elementwise" not in text and f"functorch_port.{optimizer.lower().replace('w', '')}_rule" in text
    assert text.count("stablehlo.concatenate") == len(others)


def test_new_values_that_are_read_in_the_function():
    def make(lib, wrap):
        params = [lib.nn.Parameter(lib.full((2, 3), float(k), dtype=lib.float64)) for k in range(5)]
        optimizer = lib.optim.Adam(params, lr=0.1)

        def step(x):
            optimizer.zero_grad()
            sum((p * x).square().sum() for p in params).backward()
            optimizer.step()
            return sum(p.detach().square().sum() for p in params[1:3])

        return params, wrap(step), lib.linspace(1, 2, 3, dtype=lib.float64)

    (params, step, x), (theirs, their_step, y) = make(ft, ft.compile), make(torch, lambda fn: fn)
    for _ in range(4):
        np.testing.assert_allclose(step(x).item(), their_step(y).item(), rtol=1e-12)
    assert bundled(step)
    for p, q in zip(params, theirs, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-12)


class Given:
    """Parameters with given gradients and their optimizer's step, in PyTorch or (compiled) here."""

    def __init__(self, lib, wrap, optimizer, inside=lambda lib, params: None):
        self.lib = lib
        self.params = [lib.nn.Parameter(lib.full((2, 3 + k), float(k), dtype=lib.float64)) for k in range(5)]
        options = {"momentum": 0.9} if optimizer == "SGD" else {}
        self.optimizer = getattr(lib.optim, optimizer)(self.params, lr=0.05, **options)

        def step():
            inside(lib, self.params)
            self.optimizer.step()

        self.step = wrap(step)

    def give(self, seed):
        rng = np.random.default_rng(seed)
        for p in self.params:
            p.grad = self.lib.from_numpy(rng.standard_normal(tuple(p.shape)))

    def change(self, name):
        first, second = self.params[:2]
        if name == "on the device":
            for p in self.params:
                p.grad = p.grad * self.lib.ones(10_000, dtype=self.lib.float64).sum() / 1e4
        elif name == "one on the device":
            first.grad = first.grad.repeat(50, 40)[:2, :3].clone()
        elif name == "views":
            for p in self.params:
                p.grad = self.lib.stack([p.grad, p.grad])[1].t().contiguous().t()
        elif name == "written to":
            first.grad[0, 1:] = 3
            second.grad.mul_(2)
        elif name == "by backward":
            self.optimizer.zero_grad()
            sum((k + 1) * p.sin().sum() for k, p in enumerate(self.params)).backward()

    def values(self):
        return [p.detach().numpy().copy() for p in self.params]


CHANGES = ["nothing", "on the device", "one on the device", "views", "written to", "by backward"]


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", "Adagrad"])
@pytest.mark.parametrize("change", CHANGES)
def test_given_gradients_come_in_one_array(optimizer, change):
    ours, theirs = Given(ft, ft.compile, optimizer), Given(torch, lambda fn: fn, optimizer)
    for seed in range(6):
        for case in (ours, theirs):
            case.give(seed)
            if seed > 1:
                case.change(change)
            case.step()
        for a, b in zip(ours.values(), theirs.values(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        for p, q in zip(ours.params, theirs.params, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-12)
    (program,) = ours.step.programs()
    assert ours.step.traces == 1 and not program.inputs.grads
    assert sum(len(some.tensors) for some in program.inputs.joined_grads) == 5


@pytest.mark.skipif(not ffi.available(), reason="needs llvmlite")
def test_a_kernel_takes_given_gradients_as_they_lie():
    ours = Given(ft, ft.compile, "SGD")
    ours.give(0)
    ours.step()
    (program,) = ours.step.programs()
    text = program.lower().as_text()
    assert "functorch_port." in text and "slice" not in text and "concatenate" not in text


def test_given_gradients_that_the_function_works_with():
    def clip(lib, params):
        lib.nn.utils.clip_grad_norm_(params, 0.5)

    ours, theirs = (
        Given(lib, wrap, "AdamW", clip) for lib, wrap in ((ft, ft.compile), (torch, lambda fn: fn))
    )
    for seed in range(4):
        for case in (ours, theirs):
            case.give(seed)
            case.step()
        for p, q in zip(ours.params, theirs.params, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-12)
            np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-12)
    assert ours.step.traces == 1


def test_a_given_gradient_that_is_gone():
    ours, theirs = Given(ft, ft.compile, "SGD"), Given(torch, lambda fn: fn, "SGD")
    for case in (ours, theirs):
        case.give(0)
        case.step()
        case.give(1)
        case.params[2].grad = None
        case.step()
        case.give(2)
        case.step()
    for a, b in zip(ours.values(), theirs.values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert ours.step.traces == 2
