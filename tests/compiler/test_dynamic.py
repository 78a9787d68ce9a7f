"""`compile(dynamic=True)` and `mark_dynamic`: one program serves many sizes, with the numbers of the unpadded call.

In these tests padding is not zero but NaN, and indices in it are far out of range: no result may depend on it.
"""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch as real
from attention import Attention

import functorch_port as ft
import functorch_port.nn as nn
import functorch_port.nn.functional as F
from functorch_port._trace import ends

#: below, at and above the borders of buckets
SIZES = (20, 32, 31, 2, 33, 64)


@pytest.fixture(autouse=True)
def poison(monkeypatch):
    def worst(dtype):
        return np.nan if dtype.kind in "fc" else 0 if dtype.kind == "b" else 77

    monkeypatch.setattr(ends, "padding_of", worst)


def _numpy(leaf):
    return leaf.detach().numpy() if isinstance(leaf, ft.Tensor) else leaf


def _leaves(x):
    return [leaf for part in x for leaf in _leaves(part)] if isinstance(x, list | tuple) else [x]


def assert_same(got, wanted, **tolerance):
    for g, w in zip(_leaves(got), _leaves(wanted), strict=True):
        g, w = _numpy(g), _numpy(w)
        assert np.shape(g) == np.shape(w)
        np.testing.assert_allclose(g, w, **{"rtol": 2e-5, "atol": 2e-5, **tolerance})


def serves(fn, make, sizes=SIZES, traces=2, **tolerance):
    """That two programs serve all sizes up to 64, and how they are compiled."""
    marked = ft.compile(fn, buckets=[32, 64])
    for n in sizes:
        args = make(n)
        for arg in args:
            for d, size in enumerate(arg.shape):
                if size == n:
                    ft._dynamo.mark_dynamic(arg, d)
        assert_same(marked(*args), fn(*args), **tolerance)
    assert marked.traces == traces, marked.explain(False)
    return marked


def _x(n):
    return (ft.from_numpy(np.random.default_rng(n).standard_normal((n, 6)).astype(np.float32)),)


def _reduced(x):
    y = x * x.abs()
    return [
        *(x.sum(), x.mean(), x.mean(0), x.var(0), x.var(), x.std(0), x.std(0, unbiased=False)),
        *(x.max(), x.max(0), x.min(0), x.argmax(), x.argmax(0), x.argmin(0), x.amax(0)),
        *(x.logsumexp(0), x.norm(), x.norm(dim=0), x.prod(0), (x > 0).any(0), (x > 9).all(0)),
        *((x.abs() > 1).sum(0), x.median(0), x.kthvalue(2, 0), x.quantile(0.3, 0), x.topk(2, 0)),
        *(x.nanmean(0), F.normalize(x, dim=0).sum(), ft.dist(x, y), ft.cov(x.t()), x.double().mean()),
    ]


def _kept(x):
    """Results of the argument's size."""
    n = x.shape[0]
    return [
        *(x.softmax(0), x.log_softmax(0), x.cumsum(0), x.cumprod(0), x.logcumsumexp(0), x.sort(0)),
        *(x.flip(0), x.roll(1, 0), x.argsort(0), F.layer_norm(x, (6,)), F.gelu(x), x.clamp(-1, 1)),
        *(ft.where(x > 0, x, -x), x.masked_fill(x > 0, 0.0), F.normalize(x, dim=0)),
        *(ft.arange(n), ft.zeros(n, 3), ft.full((n,), 2.5), ft.ones_like(x), ft.eye(n)),
        *(x.gather(0, (x > 0).long()), x[ft.arange(n), (x[:, 0] > 0).long()]),
        *(x.index_select(0, ft.arange(n).flip(0)), x.index_add(0, ft.arange(n).flip(0), x)),
    ]


def _shaped(x):
    n = x.shape[0]
    y = x.clone()
    y[1:] = 0.0
    z = ft.zeros(70, 6)
    z[:n] = x
    return [
        *(x.view(-1) * 2, x.view(-1).view(-1, 6) + 1, x.flatten() + 1, x.t() + 1, x[-1] + 1, x[1:] - x[:-1]),
        *(x.reshape(n, 2, 3).transpose(1, 2).reshape(n, -1) + 1, x.view(2, 3, n).sum(-1)),
        *(ft.cat([x, x * 2]), ft.cat([x, x], 1), ft.cat([ft.ones(2, 6), x]), ft.stack([x, y]), y, z),
        *(x.unsqueeze(0) * x.unsqueeze(1), x.repeat(2, 1), x[:1].expand(n, 6) + 1, F.pad(x, (0, 0, 1, 2))),
        *(x @ x.t(), x.t() @ x, ft.einsum("ni,nj->ij", x, x), (x @ x.t()).tril(), ft.cdist(x, x)),
        *(ft.zeros(4, 6).index_add(0, (x[:, 0] > 0).long(), x), x.sum() / n, x / n**0.5, n, x.numel()),
        *(ft.zeros(4, 6).scatter_add(0, (x > 0).long(), x), [part * 2 for part in x.split(3, 1)]),
    ]


@pytest.mark.parametrize("fn", [_reduced, _kept, _shaped])
def test_operations_along_a_marked_dimension(fn):
    traces = 2 if fn is _reduced else 3  # of two rows, x[1:] and a part of `roll` have one
    serves(fn, _x, traces=traces, rtol=1e-4, atol=1e-4)


def test_a_view_from_the_end_of_which_the_number_is_not_a_multiple():
    """(2, n) elements seen as (n, 2) are moved; their order is that of the unpadded array."""
    make = lambda n: (ft.arange(2.0 * n).view(2, n).clone(),)
    sizes = (20, 32, 31, 3, 33, 64)
    serves(lambda x: (x.reshape(-1, 2) * 1, x.reshape(-1).cumsum(0), x.t().reshape(-1) * 1), make, sizes)


# ------------------------------------------------------------------ training steps


def trains(
    model, loss, make, sizes=(20, 64, 33, 3), optimizer=ft.optim.SGD, traces=1, tolerance=3e-5, **options
):
    """A training step of marked sizes leaves the state that the steps compiled for each size leave."""
    ft.manual_seed(0)
    ours = model()
    theirs = copy.deepcopy(ours)

    def step_of(model):
        opt = optimizer(model.parameters(), lr=0.01)

        def step(*args):
            opt.zero_grad()
            found = loss(model, *args)
            found.backward()
            opt.step()
            return found

        return step

    step, other = ft.compile(step_of(ours), buckets=[64], **options), ft.compile(step_of(theirs), **options)
    for n in sizes:
        args = make(n)
        for arg in args:
            for d, size in enumerate(arg.shape):
                if size == n:
                    ft._dynamo.mark_dynamic(arg, d)
        ft.manual_seed(n)
        got = step(*args)
        ft.manual_seed(n)
        assert_same(got, other(*args), rtol=tolerance, atol=tolerance)
        for name, value in theirs.state_dict().items():
            assert_same(ours.state_dict()[name], value, rtol=1e-4, atol=tolerance)
    assert step.traces == traces, step.explain(False)
    assert step.programs()[0].calls == len(sizes)


def _classes(n):
    return ft.randn(n, 6), ft.randint(0, 5, (n,))


def _values(n):
    return ft.randn(n, 6), ft.randn(n, 5)


def _mlp(*inside):
    return lambda: nn.Sequential(nn.Linear(6, 16), *copy.deepcopy(inside), nn.Linear(16, 5))


def _all_of_classes(m, x, y):
    out, weight = m(x), ft.arange(1.0, 6.0)
    ce = F.cross_entropy
    return (
        (ce(out, y) + ce(out, y, reduction="sum") + ce(out, y, label_smoothing=0.1))
        + (ce(out, y, weight=weight) + ce(out, y, ignore_index=2) + F.nll_loss(out.log_softmax(1), y))
        + F.multi_margin_loss(out, y)
    )


def _all_of_values(m, x, y):
    out, target = m(x), (y > 0).float()
    return (
        (
            F.mse_loss(out, y)
            + F.mse_loss(out, y, reduction="sum")
            + F.l1_loss(out, y)
            + F.smooth_l1_loss(out, y)
        )
        + (
            F.huber_loss(out, y)
            + F.binary_cross_entropy_with_logits(out, target)
            + ((out - y) ** 2).mean(0).sum()
        )
        + F.binary_cross_entropy(out.sigmoid(), target)
        + (
            F.kl_div(out.log_softmax(1), y.softmax(1), reduction="batchmean")
            + ((out - y) ** 2).sum() / x.shape[0]
        )
    )


@pytest.mark.parametrize(
    ("loss", "make"), [(_all_of_classes, _classes), (_all_of_values, _values)], ids=["classes", "values"]
)
def test_losses(loss, make):
    trains(_mlp(nn.Tanh()), loss, make, tolerance=2e-4)


def _loss(m, x, y):
    return F.cross_entropy(m(x), y)


def test_batch_norm_and_its_running_statistics():
    trains(_mlp(nn.BatchNorm1d(16), nn.ReLU()), _loss, _classes)
    ft.manual_seed(1)
    model = _mlp(nn.BatchNorm1d(16))().eval().requires_grad_(False)
    serves(lambda x: model(x), lambda n: (ft.randn(n, 6),))


def test_dropout_draws_what_the_unpadded_call_draws():
    trains(_mlp(nn.Dropout(0.3), nn.LayerNorm(16), nn.GELU()), _loss, _classes, optimizer=ft.optim.AdamW)


def test_random_numbers_from_the_host_need_a_program_for_each_size():
    layer = nn.Dropout(0.5)
    fn = ft.compile(lambda x: layer(x), rng="torch")
    for n in (4, 5):
        x = ft.ones(n, 3)
        ft._dynamo.mark_dynamic(x, 0)
        ft.manual_seed(0)
        got = fn(x)
        ft.manual_seed(0)
        assert_same(got, layer(x))
    assert fn.traces == 2


def test_images():
    def model():
        return nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(8, 8, 3, stride=2, groups=8), nn.AvgPool2d(2, 1), nn.GroupNorm(2, 8)),
            *(nn.ConvTranspose2d(8, 4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)),
        )

    trains(model, _loss, lambda n: (ft.randn(n, 3, 12, 12), ft.randint(0, 5, (n,))), sizes=(9, 16, 2))


def test_convolution_along_a_marked_dimension():
    model = lambda: nn.Sequential(nn.Conv1d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv1d(4, 4, 3))
    trains(model, lambda m, x: m(x).square().mean(), lambda n: (ft.randn(2, 3, n),), sizes=(20, 64, 7))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(6, 8, batch_first=True), nn.GRU(8, 4, batch_first=True)

    def forward(self, x):
        return self.gru(self.lstm(x)[0])[0]


@pytest.mark.parametrize("shape", [lambda n: (n, 5, 6), lambda n: (4, n, 6)], ids=["batch", "time"])
def test_recurrent_layers(shape):
    trains(Recurrent, lambda m, x: m(x).square().mean(), lambda n: (ft.randn(shape(n)),), sizes=(20, 64, 3))


def _next(m, x):
    return F.cross_entropy(m(x)[:, :-1].reshape(-1, 20), x[:, 1:].reshape(-1))


@pytest.mark.parametrize("kind", ["causal", "full", "mask", "by hand"])
def test_attention_over_marked_lengths(kind):
    loss = lambda m, x, y: F.cross_entropy(m(x).view(-1, 20), y.view(-1))
    if kind == "causal":
        trains(lambda: Attention(kind), _next, lambda n: (ft.randint(0, 20, (4, n)),))
    trains(lambda: Attention(kind), loss, lambda n: (ft.randint(0, 20, (5, n)), ft.randint(0, 20, (5, n))))


def test_a_transformer_encoder_at_forty_lengths():
    ft.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    embed, encoder, out = nn.Embedding(20, 16), nn.TransformerEncoder(layer, 2), nn.Linear(16, 20)
    modules = nn.ModuleList([embed, encoder, out])
    opt = ft.optim.SGD(modules.parameters(), lr=0.01)

    def loss_of(x):
        return F.cross_entropy(out(encoder(embed(x))).view(-1, 20), x.view(-1))

    @ft.compile(dynamic=True)
    def step(x):
        opt.zero_grad()
        loss = loss_of(x)
        loss.backward()
        opt.step()
        return loss

    lengths = np.random.default_rng(0).permutation(np.arange(10, 130, 3))
    assert len(lengths) == 40
    for k, n in enumerate(lengths):
        x = ft.randint(0, 20, (2, int(n)))
        wanted = loss_of(x).item() if k % 8 == 0 else None
        found = step(x).item()
        if wanted is not None:
            assert abs(found - wanted) < 2e-5
    assert step.traces <= 6  # the first length, and the buckets 16, 32, 64, 128, 256


def test_both_batch_and_length():
    model = Attention("causal").requires_grad_(False)
    fn = ft.compile(lambda x: model(x).logsumexp(-1), dynamic=True, buckets=[8, 16])
    for shape in ((3, 5), (8, 5), (5, 12), (7, 16), (2, 9), (8, 8), (1, 7)):
        x = ft.randint(0, 20, shape)
        assert_same(fn(x), model(x).logsumexp(-1))
    # the first shape; (8 or 3, up to 8); both numbers, twice; a batch of one
    assert fn.traces <= 6


# ------------------------------------------------------------------ counts and words


def _step():
    ft.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    opt = ft.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    return model, step


def _real_step():
    model = real.nn.Sequential(real.nn.Linear(4, 8), real.nn.ReLU(), real.nn.Linear(8, 3))
    ours, _ = _step()
    model.load_state_dict({k: real.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    opt = real.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        opt.zero_grad()
        loss = real.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


@pytest.mark.parametrize("marks", [True, False])
def test_the_last_smaller_batch_of_an_epoch(marks):
    """Marked, it has no program of its own; found by itself, all later ones share one. The losses are PyTorch's."""
    rng = np.random.default_rng(0)
    data, labels = rng.standard_normal((70, 4)).astype(np.float32), rng.integers(0, 3, 70)
    _, step = _step()
    step, theirs = ft.compile(step, dynamic=None if marks else True), _real_step()
    for _ in range(3):
        for start in range(0, 70, 20):
            x, y = ft.from_numpy(data[start : start + 20]), ft.from_numpy(labels[start : start + 20])
            if marks:
                ft._dynamo.mark_dynamic(x, 0)
            got, wanted = step(x, y), theirs(real.tensor(x.numpy()), real.tensor(y.numpy()))
            np.testing.assert_allclose(got.item(), wanted.item(), rtol=1e-5)
    assert step.traces == (1 if marks else 2)
    assert sum(program.calls for program in step.programs()) == 12


def test_without_dynamic_one_warning_after_eight_programs_names_the_argument():
    fn = ft.compile(lambda x, y: (x + 1, y))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(2, 14):
            fn(ft.ones(3, n), ft.ones(2))
    (warning,) = caught
    assert "x.shape[1] changes" in str(warning.message)
    assert "mark_dynamic(x, 1)" in str(warning.message)
    assert fn.traces == 12
    assert "x.shape[1] is 3, not 2" in fn.explain(False)


def test_dynamic_false_has_a_program_for_each_size_and_says_nothing():
    fn = ft.compile(lambda x: x + 1, dynamic=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(2, 14):
            x = ft.ones(n)
            ft._dynamo.mark_dynamic(x, 0)
            fn(x)
    assert fn.traces == 12


def test_a_branch_on_the_size_has_a_program_for_each_way():
    fn = ft.compile(lambda x: x.sum() * 2 if x.shape[0] > 10 else x.sum(), buckets=[32])
    for n in (4, 20, 5, 30, 11, 10):
        x = ft.ones(n)
        ft._dynamo.mark_dynamic(x, 0)
        assert fn(x).item() == (2 * n if n > 10 else n)
    assert fn.traces == 2


def test_what_needs_the_plain_number_has_a_program_for_each_size():
    @ft.compile(dynamic=True)
    def fn(x):
        total = x[0]
        for i in range(1, x.shape[0]):
            total = total + x[i]
        return total

    for n in (3, 4, 5):
        assert_same(fn(ft.arange(float(n))), float(sum(range(n))))
    text = fn.explain(False)
    assert fn.traces == 3
    assert "x.shape[0], because the size" in text
    assert "for i in range(1, x.shape[0])" in text


def test_an_operation_without_a_rule_is_refused_by_name():
    fn = ft.compile(lambda x: ft.linalg.cholesky(x), dynamic=True, checks=False)
    for n in (3, 4, 5):
        assert_same(fn(2 * ft.eye(n)), ft.linalg.cholesky(2 * ft.eye(n)))
    assert fn.traces == 3
    assert "the operation cholesky" in fn.explain(False)


def test_one_size_that_cannot_be_a_number_leaves_the_other():
    @ft.compile(dynamic=True)
    def fn(x):
        return sum((x[:, i] * i for i in range(x.shape[1])), ft.zeros(x.shape[0]))

    for shape in ((4, 3), (5, 2), (6, 2), (7, 2)):
        x = ft.ones(shape)
        assert_same(fn(x), np.full(shape[0], float(sum(range(shape[1])))))
    assert fn.traces == 2


def test_errors_are_those_of_eager_mode_and_leave_state_alone():
    model, step = _step()
    step = ft.compile(step, buckets=[16], checks=True)

    def call(n, label):
        x, y = ft.ones(n, 4), ft.full((n,), label)
        ft._dynamo.mark_dynamic(x, 0)
        return step(x, y)

    call(5, 1)
    before = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        call(7, 3)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    call(7, 2)
    assert sum(program.calls for program in step.programs()) == 2


def test_an_index_is_compared_with_the_true_size():
    fn = ft.compile(lambda x, i: x[i] * 1, buckets=[16], checks=True)
    for n, index in ((5, 4), (7, 6), (7, -7)):
        x = ft.arange(float(n))
        ft._dynamo.mark_dynamic(x, 0)
        assert_same(fn(x, ft.tensor([index, 0])), x.numpy()[[index, 0]])
    x = ft.arange(5.0)
    assert fn.traces == 1
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 5"):
        fn(x, ft.tensor([5, 0]))


def test_a_failed_call_for_a_new_bucket_leaves_state_alone():
    state = ft.zeros(3)

    @ft.compile(dynamic=True)
    def fn(x, y):
        state.add_(x.sum(0))
        return x @ y

    fn(ft.ones(4, 3), ft.ones(3, 2))
    with pytest.raises(RuntimeError):
        fn(ft.ones(5, 3), ft.ones(4, 2))
    np.testing.assert_array_equal(state.numpy(), [4, 4, 4])
    assert_same(fn(ft.ones(5, 3), ft.ones(3, 2)), np.full((5, 2), 3.0))
    np.testing.assert_array_equal(state.numpy(), [9, 9, 9])


def test_writes_to_arguments_and_gradients_of_arguments_have_the_true_size():
    def fn(x, w):
        x.add_(1)
        (x * w).sum().backward()
        return x.sum()

    step = ft.compile(fn, buckets=[16])
    for n in (3, 5, 16):
        x, w = ft.ones(n), ft.ones(n, requires_grad=True)
        ft._dynamo.mark_dynamic(x, 0)
        assert step(x, w).item() == 2 * n
        assert_same([x, w.grad], [np.full(n, 2.0), np.full(n, 2.0)])
    assert step.traces == 1


def test_a_number_kept_outside_is_that_of_the_call():
    class Counter:
        seen = 0

    counter = Counter()

    def fn(x):
        counter.seen = x.shape[0]
        return x + 1, x.shape[0] * 2

    step = ft.compile(fn, buckets=[16])
    for n in (3, 5, 7):
        x = ft.ones(n)
        ft._dynamo.mark_dynamic(x, 0)
        assert step(x)[1] == 2 * n
        assert counter.seen == n


def test_a_model_whose_loss_is_outside():
    ft.manual_seed(0)
    model = Attention("causal")
    other = copy.deepcopy(model)
    compiled = ft.compile(model, dynamic=True, buckets=[16, 32])
    for n in (5, 16, 9, 30, 17):
        x = ft.randint(0, 20, (2, n))
        for m in (compiled, other):
            m.zero_grad()
            F.cross_entropy(m(x).view(-1, 20), x.view(-1)).backward()
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            assert_same(p.grad, q.grad)
    assert compiled.compiled.traces == 3


def test_gradients_outside_of_arguments_of_changing_size():
    fn = ft.compile(lambda x, w: ((x * w).softmax(0), (x * w).sum()), buckets=[16])
    for n in (3, 16, 7):
        x, w = ft.randn(n, 2, requires_grad=True), ft.randn(n, 2, requires_grad=True)
        ft._dynamo.mark_dynamic(x, 0)
        for which in (0, 1):
            got = ft.autograd.grad((fn(x, w)[which] * 2).sum(), (x, w))
            out = ((x * w).softmax(0), (x * w).sum())[which]
            assert_same(got, ft.autograd.grad((out * 2).sum(), (x, w)))
    assert fn.traces == 1


def test_sizes_that_become_one_or_none_have_programs_of_their_own():
    fn = ft.compile(lambda x: (x[1:].squeeze() * 2, x[2:].sum(0)), buckets=[16])
    for n in (5, 7, 2, 3, 9, 1):
        x = ft.arange(2.0 * n).view(n, 2).clone()
        ft._dynamo.mark_dynamic(x, 0)
        assert_same(fn(x), (x[1:].squeeze() * 2, x[2:].sum(0)))
    assert fn.traces == 4
