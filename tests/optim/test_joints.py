"""Small tensors whose arrays lie in one: programs and optimizers take them so, and nobody else notices."""

import copy
import io

import numpy as np
import pytest
import torch
from counting import xla_compilations

import functorch_port as ft
from functorch_port._array.joint import Joint, Part
from functorch_port._array.storage import Storage
from functorch_port._cpu.native import ffi

pytestmark = pytest.mark.usefixtures("both_ways")

DATA = np.random.default_rng(0).standard_normal((6, 4))


@pytest.fixture(autouse=True)
def few_are_enough(tuned):
    """Two parameters are so many that programs take them joined."""
    tuned(joint_parameters=2, joint_least=2)


def joints_of(step):
    return [joint for program in step.programs() for joint in program.guards.joints]


def cells(*arrays):
    return [Storage(ft.tensor(a).jax()) for a in arrays]


def test_members_are_read_one_by_one():
    members = cells([[1.0, 2.0]], 3.0, [])
    joint = Joint.of(members)
    assert all(type(m.held) is Part for m in members) and joint.cell.value.tolist() == [1, 2, 3]
    assert [m.value.tolist() for m in members] == [[[1, 2]], 3, []]
    assert members[0].value is members[0].value
    joint.cell.value = joint.cell.value * 2
    assert [m.value.tolist() for m in members] == [[[2, 4]], 6, []]


def test_a_member_that_is_written_leaves_until_all_are_joined_again():
    members = cells([1.0], [2.0])
    joint = Joint.of(members)
    members[1].value = members[1].value + 5
    assert not joint.is_whole and joint.cell.value.tolist() == [1, 2]
    assert [m.value.tolist() for m in members] == [[1], [7]]
    assert joint.join() and joint.cell.value.tolist() == [1, 7]
    assert Joint.of(members) is joint


def test_a_member_is_in_one_joint_at_a_time():
    members = cells([1.0], [2.0], [3.0])
    first, second = Joint.of(members[:2]), Joint.of(members[1:])
    assert second.is_whole and not first.is_whole
    members[2].value = members[2].value + 1
    assert first.join() and not second.is_whole
    assert second.join() and second.cell.value.tolist() == [2, 4]
    assert [m.value.item() for m in members] == [1, 2, 4]


def test_what_cannot_be_joined():
    members = cells([1.0], [2.0])
    assert Joint.of([members[0], members[0]]) is None
    joint = Joint.of(members)
    members[0].value = ft.ones(2).jax()
    assert not joint.join() and members[1].value.tolist() == [2]
    members[0].value = ft.ones(1, dtype=ft.float64).jax()
    assert not joint.join()
    members[0].value = ft.ones(1).jax()
    assert joint.join()


def test_memory_that_numpy_shares_is_not_joined():
    params = [ft.nn.Parameter(ft.tensor([float(k)])) for k in range(2)]
    joint = Joint.of([p._storage for p in params])
    shared = params[0].detach().numpy()
    if not shared.flags.writeable:
        pytest.skip("nothing shares memory on the plain backend")
    assert not joint.is_whole and not joint.join()
    shared[0] = 7
    assert params[0].item() == 7 and params[1].item() == 1


def test_writes_are_counted_for_each_member():
    members = cells([1.0], [2.0])
    joint = Joint.of(members)
    before = [m.version for m in members]
    joint.count(3)
    joint.count(3)
    assert [m.version - v for m, v in zip(members, before, strict=True)] == [3, 3]


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


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_the_numbers_are_pytorchs(optimizer):
    ours, theirs = pair(optimizer=optimizer)
    for _ in range(8):
        np.testing.assert_allclose(ours.run(), theirs.run(), rtol=1e-9)
    assert joints_of(ours.step)
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


def test_reading_compiles_nothing():
    ours, _ = pair()
    ours.run(3)
    read = lambda: [p.detach().numpy().sum() for p in ours.model.parameters()]
    with xla_compilations() as compiled:
        for _ in range(5):
            read()
            ours.run()
    assert sum(compiled) == 0


def test_nothing_is_joined_again_after_reading(monkeypatch):
    ours, _ = pair()
    ours.run(3)
    joined = []
    monkeypatch.setattr(
        Joint, "_joined", lambda self, a, join=Joint._joined: joined.append(self) or join(self, a)
    )
    for _ in range(8):
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


def test_programs_share_joints():
    """Batches of two sizes alternate without anything being cut or joined."""
    ours, _ = pair()
    for rows in (6, 4, 6, 4):
        ours.run(rows=rows)
    first, second = (set(program.guards.joints) for program in ours.step.programs())
    assert first == second and all(joint.is_whole for joint in first)


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


def test_few_are_not_joined(tuned):
    tuned(joint_parameters=128)
    ours, _ = pair(optimizer="SGD")
    ours.run(2)
    parameters = {p._storage for p in ours.model.parameters()}
    assert joints_of(ours.step) and all(
        parameters.isdisjoint(joint.members) for joint in joints_of(ours.step)
    )


def test_many_are(tuned):
    tuned(joint_parameters=128, joint_least=4)
    params = [ft.nn.Parameter(ft.full((3,), float(k))) for k in range(130)]
    optimizer = ft.optim.SGD(params, lr=0.1)
    for p in params:
        p.grad = ft.ones_like(p)
    step = ft.compile(optimizer.step)
    for _ in range(3):
        step()
    assert sorted(len(joint.members) for joint in joints_of(step)) == [2, 64, 64]
    np.testing.assert_allclose([p[0].item() for p in params], np.arange(130) - 0.3, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_a_program_neither_cuts_nor_joins_what_an_optimizer_updates(optimizer):
    if not ffi.available():
        pytest.skip("needs llvmlite")
    params = [ft.nn.Parameter(ft.full((2, 3), float(k))) for k in range(5)]
    options = {"momentum": 0.9} if optimizer == "SGD" else {}
    step = ft.compile(getattr(ft.optim, optimizer)(params, lr=0.1, **options).step)
    for p in params:
        p.grad = ft.ones_like(p)
    step()
    assert len(joints_of(step)) == {"SGD": 2, "AdamW": 3}[optimizer]
    text = step.programs()[0].lower().as_text()
    assert f"functorch_port.{optimizer.lower().replace('w', '')}_rule" in text
    assert "concatenate" not in text and "joint_" not in text


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
    assert joints_of(step)
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
def test_given_gradients(optimizer, change):
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
    assert ours.step.traces == 1 and joints_of(ours.step)


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


OPTIMIZERS = [
    ("AdamW", {"lr": 0.1}),
    ("SGD", {"lr": 1e-3, "momentum": 0.9}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True}),
]


class Run:
    """Forty parameters, and two functions that step them: of one some take no part in the step of the other."""

    def __init__(self, T, name="AdamW", **options):
        self.T = T
        rng = np.random.default_rng(0)
        self.params = [T.nn.Parameter(T.tensor(rng.standard_normal((3, 4)))) for _ in range(40)]
        self.optimizer = getattr(T.optim, name)(self.params, **options)
        self.x = T.ones(3, 4, dtype=T.float64)
        compile = ft.compile if T is ft else lambda f: f
        self.some, self.all = compile(self.step_some), compile(self.step_all)

    def _step(self, params):
        self.optimizer.zero_grad()
        loss = sum((p * self.x).sum() ** 2 for p in params)
        loss.backward()
        self.optimizer.step()
        return loss

    def step_some(self):
        return self._step(self.params[:37])

    def step_all(self):
        return self._step(self.params)

    def of(self, *functions):
        return [f().item() for f in functions]


@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_numbers_and_traces_whatever_comes_between(name, options):
    found = []
    for T in (torch, ft):
        run = Run(T, name, **options)
        losses = run.of(run.some, run.some, run.step_some, run.some, run.all, run.some, run.step_all, run.all)
        saved = copy.deepcopy(run.optimizer.state_dict())
        losses += run.of(run.some, run.all)
        if T is ft:
            assert run.some.traces == run.all.traces == 1
        run.optimizer.load_state_dict(saved)
        losses += run.of(run.some, run.all, run.step_some, run.some)
        run.params[0].requires_grad_(False)
        losses += run.of(run.some, run.all, run.all)
        state = run.optimizer.state
        losses += [t.sum().item() for p in run.params for t in state[p].values()]
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-11)


@pytest.mark.parametrize(("most", "joints"), [(64, 1), (32, 2)])
def test_fewer_arrays(tuned, most, joints):
    tuned(joint_members=most, joint_parameters=128)
    run = Run(ft, lr=0.1)
    run.of(run.all)
    (program,) = run.all.programs()
    # parameters; two averages of each joint; the count and x
    assert len(program.inputs.donated) + len(program.inputs.cells) == 40 + 2 * joints + 2
    count = min(most, 40)
    text = run.all.explain(analyse=False)
    assert f"state[0].exp_avg and {count - 1} more: float64[{12 * count}]" in text


def test_the_state_is_tensors_like_any_others():
    run = Run(ft, lr=0.1)
    run.of(run.all)
    average = run.optimizer.state[run.params[3]]["exp_avg"]
    assert average.shape == (3, 4) and average.is_contiguous() and not average._is_view()
    before = average.clone()
    run.of(run.all)
    assert not ft.equal(average, before)
    average.zero_()  # is what the next step starts from
    others = [run.optimizer.state[p]["exp_avg"].clone() for p in run.params]
    twin = Run(ft, lr=0.1)
    twin.of(twin.step_all, twin.step_all)
    twin.optimizer.state[twin.params[3]]["exp_avg"].zero_()
    for p, mine in zip(twin.params, others, strict=True):
        np.testing.assert_allclose(mine.numpy(), twin.optimizer.state[p]["exp_avg"].numpy(), rtol=1e-12)
    assert run.of(run.all, run.all) == pytest.approx(twin.of(twin.step_all, twin.step_all), rel=1e-12)
    assert run.all.traces == 1


def test_views_of_the_state_keep_looking_at_it():
    run, twin = Run(ft, lr=0.1), Run(torch, lr=0.1)
    views = []
    for r in (run, twin):
        r.of(r.all)
        views.append(r.optimizer.state[r.params[1]]["exp_avg"][0])
        r.of(r.step_all, r.all)
        r.optimizer.state_dict()
        r.of(r.step_all, r.all)
    np.testing.assert_allclose(views[0].numpy(), views[1].numpy(), rtol=1e-11)
    assert run.all.traces == 1


def test_a_failed_trace_leaves_the_state_alone():
    run = Run(ft, lr=0.1)
    run.of(run.step_all)
    before = copy.deepcopy(run.optimizer.state_dict()["state"])

    @ft.compile
    def fails():
        run.step_all()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fails()
    for i, entries in run.optimizer.state_dict()["state"].items():
        for k, t in entries.items():
            assert ft.equal(t, before[i][k])


def test_another_reader_and_functionalize():
    """A compiled function that only looks at the state sees every step, and plain JAX gets the tensors one by one."""
    run = Run(ft, lr=0.1)
    run.of(run.all)
    look = ft.compile(lambda: run.optimizer.state[run.params[2]]["exp_avg"] * 1)
    for step in (run.all, run.step_all, run.all, run.some):
        run.of(step)
        assert ft.equal(look(), run.optimizer.state[run.params[2]]["exp_avg"])
    assert look.traces == 1
    pure = ft.functionalize(run.step_all)
    averages = [v for n, v in pure.state().items() if "exp_avg" in n]
    assert len(averages) == 2 * 40 and all(v.shape == (3, 4) for v in averages)


def test_large_parameters_and_other_devices_types_keep_their_own():
    params = [ft.nn.Parameter(ft.ones(40, 40)) for _ in range(8)]
    params += [
        ft.nn.Parameter(ft.ones(3, dtype=d)) for d in (ft.float32, ft.float64, ft.bfloat16) for _ in range(5)
    ]
    optimizer = ft.optim.Adam(params)
    for p in params:
        p.grad = ft.ones_like(p)
    step = ft.compile(optimizer.step)
    step()
    assert sorted(len(joint.members) for joint in joints_of(step)) == [5] * 9
    assert type(optimizer.state[params[0]]["exp_avg"]._storage.held) is not Part


def _give_data(lib, state, new):
    state.data = new


def _set(lib, state, new):
    state.set_(new)


def _write_through_an_alias(lib, state, new):
    state.detach().mul_(3)


@pytest.mark.parametrize("change", [_give_data, _set, _write_through_an_alias])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("count", [2, 10])
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_state_that_gets_other_data(name, options, count, compiled, change):
    """A step sees the Storage that a tensor of the state looks at now, joined or not."""
    found = []
    for lib in (torch, ft):
        params = [lib.nn.Parameter(lib.full((4, 3), float(k), dtype=lib.float64)) for k in range(count)]
        optimizer = getattr(lib.optim, name)(params, **options)
        step = optimizer.step if lib is torch or not compiled else ft.compile(optimizer.step)
        for k in range(6):
            for i, p in enumerate(params):
                p.grad = lib.full((4, 3), 0.1 * i + k, dtype=lib.float64)
            step()
            if k in (2, 4):
                for entry in optimizer.state[params[1]].values():
                    change(lib, entry, lib.full_like(entry, 3.0 + k))
        tensors = [*params, *(t for p in params for t in optimizer.state[p].values() if t is not None)]
        found.append([t.detach().double().numpy() for t in tensors])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11)
