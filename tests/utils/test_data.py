"""`utils.data` against PyTorch: the same program with either module gives the same batches and the same "
"errors."""

import collections
import enum
import types
import warnings

import numpy as np
import pytest
import torch

import functorch_port as ft

Point = collections.namedtuple("Point", "x y")
Level = enum.IntEnum("Level", "LOW HIGH")


class Metres(float):
    pass


def plain(value):
    """A result as comparable Python data: tensors with their dtype, containers with their type."""
    if isinstance(value, torch.Tensor | ft.Tensor):
        return ("tensor", str(value.dtype), tuple(value.shape), value.tolist())
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.tolist())
    if isinstance(value, collections.abc.Mapping):
        return (type(value).__name__, [(key, plain(item)) for key, item in value.items()])
    if isinstance(value, list | tuple | collections.deque):
        return (type(value).__name__, [plain(item) for item in value])
    return value


def outcome(case, t):
    """What ``case`` returns with the module ``t``, or the error it raises; and the warnings."""
    t.manual_seed(0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = plain(case(t, t.utils.data))
        except Exception as error:
            result = (type(error).__name__, str(error))
    return result, [str(w.message) for w in seen]


def same(case):
    ours, theirs = outcome(case, ft), outcome(case, torch)
    assert ours == theirs
    return ours[0]


def tail(t):
    """A draw after everything else: equal only if as many numbers were drawn before it."""
    return t.rand(3)


# Shuffled loaders: order of the batches, and how much they draw from the default generator.


def loader_epochs(t, d):
    t.manual_seed(3)
    data = d.TensorDataset(t.arange(11), t.arange(22.0).reshape(11, 2))
    loader = d.DataLoader(data, batch_size=4, shuffle=True)
    return [list(loader) for _ in range(3)], tail(t)


def two_loaders_interleaved(t, d):
    t.manual_seed(4)
    first = d.DataLoader(range(9), batch_size=2, shuffle=True)
    second = d.DataLoader(range(5), batch_size=2, shuffle=True, drop_last=True)
    rows = []
    for a, b in zip(first, second):
        rows.append([a, b, t.rand(1)])
    return rows, tail(t)


def unshuffled_draws_too(t, d):
    t.manual_seed(5)
    loader = d.DataLoader(range(5), batch_size=2)
    return list(loader), tail(t), list(loader), tail(t)


def own_generator(t, d):
    t.manual_seed(6)
    g = t.Generator()
    g.manual_seed(7)
    loader = d.DataLoader(range(7), batch_size=3, shuffle=True, generator=g)
    return list(loader), list(loader), tail(t), t.rand(2, generator=g)


def iterator_made_but_not_used(t, d):
    t.manual_seed(8)
    iter(d.DataLoader(range(7), shuffle=True))
    return tail(t)


def partly_consumed(t, d):
    t.manual_seed(9)
    loader = d.DataLoader(range(7), batch_size=2, shuffle=True)
    it = iter(loader)
    first = next(it)
    return first, t.rand(2), list(it), list(loader), tail(t)


def with_replacement(t, d):
    t.manual_seed(10)
    sampler = d.RandomSampler(range(6), replacement=True, num_samples=70)
    return list(d.DataLoader(range(6), batch_size=16, sampler=sampler)), tail(t)


def more_samples_than_data(t, d):
    t.manual_seed(11)
    return [list(d.RandomSampler(range(6), num_samples=n)) for n in (3, 6, 15)], tail(t)


def replacement_with_generator(t, d):
    g = t.Generator()
    g.manual_seed(1)
    sampler = d.RandomSampler(range(50), replacement=True, num_samples=33, generator=g)
    return list(sampler), list(sampler), t.rand(1, generator=g)


def subset_random(t, d):
    t.manual_seed(12)
    return list(d.SubsetRandomSampler([5, 3, 8, 1])), tail(t)


def weighted(t, d):
    t.manual_seed(13)
    weights = [0.1, 0.9, 0.4, 0.7, 3.0, 0.6]
    several = [list(d.WeightedRandomSampler(weights, 5, replacement=r)) for r in (True, False)]
    return several, d.WeightedRandomSampler(weights, 5).weights, tail(t)


def loader_with_weights(t, d):
    t.manual_seed(14)
    sampler = d.WeightedRandomSampler([1.0, 2.0, 3.0], 10)
    return list(d.DataLoader(range(3), batch_size=4, sampler=sampler)), tail(t)


def split(t, d):
    t.manual_seed(15)
    a, b = d.random_split(range(10), [7, 3])
    parts = d.random_split(list(range(11)), [0.5, 0.3, 0.2], generator=t.Generator().manual_seed(2))
    return a.indices, list(b), [list(p) for p in parts], tail(t)


def split_then_load(t, d):
    t.manual_seed(16)
    data = d.TensorDataset(t.arange(20.0).reshape(10, 2), t.arange(10))
    a, b = d.random_split(data, [6, 4])
    return list(d.DataLoader(a, batch_size=4, shuffle=True)), list(d.DataLoader(b, batch_size=3)), tail(t)


def split_with_an_empty_part(t, d):
    return [len(p) for p in d.random_split(range(1), [0.5, 0.5], generator=t.Generator().manual_seed(0))]


ORDER = [
    loader_epochs,
    two_loaders_interleaved,
    unshuffled_draws_too,
    own_generator,
    iterator_made_but_not_used,
    partly_consumed,
    with_replacement,
    more_samples_than_data,
    replacement_with_generator,
    subset_random,
    weighted,
    loader_with_weights,
    split,
    split_then_load,
    split_with_an_empty_part,
]


@pytest.mark.parametrize("case", ORDER, ids=lambda case: case.__name__)
def test_order_equals_torch(case):
    same(case)


# Samples of every type through the default functions.

SAMPLES = {
    "ints": lambda t: [1, 2, 3],
    "floats": lambda t: [1.5, 2.5],
    "bools": lambda t: [True, False],
    "text": lambda t: ["a", "b"],
    "bytes": lambda t: [b"a", b"b"],
    "tensors": lambda t: [t.ones(2), t.zeros(2)],
    "scalar tensors": lambda t: [t.tensor(1), t.tensor(2)],
    "empty tensors": lambda t: [t.ones(0, 2), t.ones(0, 2)],
    "mixed dtypes": lambda t: [t.ones(2), t.ones(2, dtype=t.float64)],
    "bfloat16": lambda t: [t.ones(2, dtype=t.bfloat16), t.zeros(2, dtype=t.bfloat16)],
    "shapes differ": lambda t: [t.ones(2), t.ones(3)],
    "arrays": lambda t: [np.ones(2, np.float32), np.zeros(2, np.float32)],
    "int arrays": lambda t: [np.arange(2, dtype=np.int16)] * 2,
    "0-d arrays": lambda t: [np.array(1.0), np.array(2.0)],
    "text arrays": lambda t: [np.array(["a"]), np.array(["b"])],
    "numpy floats": lambda t: [np.float32(1), np.float32(2)],
    "numpy doubles": lambda t: [np.float64(1), np.float64(2)],
    "numpy ints": lambda t: [np.int32(1), np.int32(2)],
    "numpy bools": lambda t: [np.bool_(True), np.bool_(False)],
    "numpy types": lambda t: [np.float32(1), 2, np.int8(3)],
    "numpy halves and ints": lambda t: [np.float16(1), np.int32(2)],
    "enums": lambda t: [Level.LOW, Level.HIGH],
    "floats of a class": lambda t: [Metres(1), Metres(2)],
    "large ints": lambda t: [2**63, 1],
    "tuples": lambda t: [(1, 2.0, "x"), (3, 4.0, "y")],
    "lists": lambda t: [[1, 2.0], [3, 4.0]],
    "dicts": lambda t: [{"a": 1, "b": [1, 2]}, {"a": 3, "b": [3, 4]}],
    "ordered dicts": lambda t: [collections.OrderedDict(b=1, a=2), collections.OrderedDict(b=3, a=4)],
    "proxies": lambda t: [types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})],
    "named tuples": lambda t: [Point(1, t.ones(1)), Point(2, t.zeros(1))],
    "nested": lambda t: [{"p": Point((1, 2), {"q": 1.0})}] * 2,
    "ranges": lambda t: [range(2), range(2)],
    "uneven lists": lambda t: [[1, 2], [1]],
    "nothing known": lambda t: [{1}, {2}],
    "none": lambda t: [None, None],
    "empty": lambda t: [],
    "missing key": lambda t: [{"a": 1}, {"b": 1}],
    "deque": lambda t: [collections.deque([1, 2]), collections.deque([3, 4])],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_default_collate_equals_torch(name):
    same(lambda t, d: d.default_collate(SAMPLES[name](t)))


@pytest.mark.parametrize("name", SAMPLES)
def test_default_convert_equals_torch(name):
    same(lambda t, d: [d.default_convert(sample) for sample in SAMPLES[name](t)])


def test_collate_keeps_a_mapping_subclass_and_its_attributes():
    class Record(dict):
        note = None

    sample = Record(a=1)
    sample.note = "kept"
    batch = ft.utils.data.default_collate([sample, Record(a=2)])
    assert type(batch) is Record and batch.note == "kept" and batch["a"].tolist() == [1, 2]


def test_collate_is_where_programs_take_it_from():
    inner, outer = ft.utils.data._utils, ft.utils.data
    assert inner.collate.default_collate is outer.default_collate
    assert inner.collate.default_convert is outer.default_convert
    assert inner.worker.get_worker_info is outer.get_worker_info


def test_collate_map_can_be_extended():
    from functorch_port.utils.data._utils.collate import collate, default_collate_fn_map

    table = {**default_collate_fn_map, set: lambda batch, *, collate_fn_map=None: sorted(set.union(*batch))}
    assert collate([({1}, 1), ({2}, 2)], collate_fn_map=table)[0] == [1, 2]


# Datasets.


class Squares:
    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i >= 6:
            raise IndexError(i)
        return i * i


class Batched(Squares):
    def __getitems__(self, indices):
        return [self[i] + 0.5 for i in indices]


class Short(Squares):
    def __getitems__(self, indices):
        return [0]


def stream(d, n, length=None):
    class Stream(d.IterableDataset):
        def __iter__(self):
            return iter(range(n))

        if length is not None:

            def __len__(self):
                return length

        def __repr__(self):
            return "Stream"

    return Stream()


DATASETS = {
    "tensor": lambda t, d: [d.TensorDataset(t.arange(3), t.ones(3, 2))[i] for i in (0, -1, slice(0, 2))],
    "tensor length": lambda t, d: len(d.TensorDataset(t.ones(4, 1))),
    "tensor mismatch": lambda t, d: d.TensorDataset(t.ones(3), t.ones(4)),
    "base": lambda t, d: d.Dataset()[0],
    "base length": lambda t, d: len(d.Dataset()),
    "add": lambda t, d: list((d.Subset(Squares(), [1, 2]) + d.Subset(Squares(), [5])).datasets[1]),
    "concat": lambda t, d: [d.ConcatDataset([[1, 2], [], [3]])[i] for i in (0, 1, 2, -1, -3)],
    "concat sizes": lambda t, d: d.ConcatDataset([[1, 2], [], [3]]).cumulative_sizes,
    "concat below": lambda t, d: d.ConcatDataset([[1, 2]])[-3],
    "concat above": lambda t, d: d.ConcatDataset([[1, 2]])[2],
    "concat empty": lambda t, d: d.ConcatDataset([]),
    "concat stream": lambda t, d: d.ConcatDataset([stream(d, 2)]),
    "chain": lambda t, d: list(d.ChainDataset([stream(d, 2), stream(d, 3)])),
    "chain add": lambda t, d: list(stream(d, 2) + stream(d, 1)),
    "chain length": lambda t, d: len(d.ChainDataset([stream(d, 2, 2), stream(d, 3, 3)])),
    "chain wrong": lambda t, d: list(d.ChainDataset([[1, 2]])),
    "stack": lambda t, d: d.StackDataset([1, 2], ["a", "b"])[1],
    "stack dict": lambda t, d: d.StackDataset(x=[1, 2], y=["a", "b"])[0],
    "stack many": lambda t, d: d.StackDataset(Squares(), Batched()).__getitems__([1, 2]),
    "stack many dict": lambda t, d: d.StackDataset(a=Squares(), b=Batched()).__getitems__([1, 2]),
    "stack short": lambda t, d: d.StackDataset(Squares(), Short()).__getitems__([1, 2]),
    "stack nothing": lambda t, d: d.StackDataset(),
    "stack both": lambda t, d: d.StackDataset([1], a=[1]),
    "stack mismatch": lambda t, d: d.StackDataset([1], [1, 2]),
    "subset": lambda t, d: [d.Subset(Squares(), [4, 2])[i] for i in (0, 1, -1)],
    "subset list": lambda t, d: d.Subset(np.arange(9), [4, 2])[[1, 0]],
    "subset many": lambda t, d: d.Subset(Batched(), [4, 2]).__getitems__([1, 0]),
    "subset override": lambda t, d: type("Sub", (d.Subset,), {"__getitem__": lambda s, i: 0})([1], [0]),
    "split too much": lambda t, d: d.random_split(range(3), [1, 3]),
    "split below": lambda t, d: [part.indices for part in d.random_split(range(5), [-1, 6])],
    "split tensors": lambda t, d: [part.indices for part in d.random_split(range(5), t.tensor([2, 3]))],
    "concat, the old name": lambda t, d: d.ConcatDataset([[1, 2], [3]]).cummulative_sizes,
    "split fraction": lambda t, d: d.random_split(range(3), [1.5, -0.5]),
}


@pytest.mark.parametrize("name", DATASETS)
def test_datasets_equal_torch(name):
    same(DATASETS[name])


# Loaders of every kind.


def collected(t, d, *args, **kwargs):
    loader = d.DataLoader(*args, **kwargs)
    return list(loader), tail(t)


LOADER_ATTRIBUTES = "batch_size num_workers pin_memory drop_last timeout prefetch_factor persistent_workers"

LOADERS = {
    "plain": lambda t, d: collected(t, d, Squares(), batch_size=4),
    "drop_last": lambda t, d: collected(t, d, Squares(), batch_size=4, drop_last=True),
    "default size": lambda t, d: collected(t, d, Squares()),
    "no batches": lambda t, d: collected(t, d, Squares(), batch_size=None),
    "no batches, arrays": lambda t, d: collected(t, d, [np.ones(2), (1, np.zeros(1))], batch_size=None),
    "no batches, batch sampler as sampler": lambda t, d: collected(
        t, d, np.arange(5), batch_size=None, sampler=d.BatchSampler(range(5), 2, False)
    ),
    "batched dataset": lambda t, d: collected(t, d, Batched(), batch_size=4),
    "sampler": lambda t, d: collected(t, d, Squares(), sampler=[3, 1, 2], batch_size=2),
    "batch sampler": lambda t, d: collected(t, d, Squares(), batch_sampler=[[0, 3], [1], [2, 4, 5]]),
    "collate_fn": lambda t, d: collected(t, d, Squares(), batch_size=2, collate_fn=lambda batch: batch),
    "keys": lambda t, d: collected(t, d, {"a": 1, "b": 2}, sampler=["b", "a"]),
    "stream": lambda t, d: collected(t, d, stream(d, 5), batch_size=2),
    "stream drop_last": lambda t, d: collected(t, d, stream(d, 5), batch_size=2, drop_last=True),
    "stream without batches": lambda t, d: collected(t, d, stream(d, 3), batch_size=None),
    "stream too long": lambda t, d: [
        list(loader) for loader in [d.DataLoader(stream(d, 3, 1))] if len(loader) == 1
    ],
    "tensor rows": lambda t, d: collected(t, d, d.TensorDataset(t.eye(5), t.arange(5) > 2), batch_size=2),
    "tensor rows, subset of subset": lambda t, d: collected(
        t, d, d.Subset(d.Subset(d.TensorDataset(t.eye(5)), [4, 3, 1]), np.array([2, 0])), batch_size=2
    ),
    "tensor rows, view": lambda t, d: collected(t, d, d.TensorDataset(t.arange(12).reshape(3, 4).t())),
    "tensor rows, out of range": lambda t, d: collected(t, d, d.TensorDataset(t.eye(3)), sampler=[0, 3]),
    "tensor rows, negative": lambda t, d: collected(t, d, d.TensorDataset(t.eye(3)), sampler=[-1, 0]),
    "tensor rows, tensors as indices": lambda t, d: collected(
        t, d, d.TensorDataset(t.eye(3)), sampler=t.tensor([2, 1])
    ),
    "tensor rows, an empty batch": lambda t, d: collected(
        t, d, d.TensorDataset(t.eye(3)), batch_sampler=[[]]
    ),
    "single tensor rows": lambda t, d: collected(t, d, d.TensorDataset(t.eye(3)), batch_size=None),
    "empty dataset": lambda t, d: collected(t, d, [], batch_size=2),
    "empty dataset, shuffled": lambda t, d: collected(t, d, [], batch_size=2, shuffle=True),
    "lengths": lambda t, d: [
        len(d.DataLoader(Squares(), batch_size=4)),
        len(d.DataLoader(Squares(), batch_size=4, drop_last=True)),
        len(d.DataLoader(Squares(), batch_size=None)),
        len(d.DataLoader(stream(d, 5, 5), batch_size=2)),
        len(d.DataLoader(stream(d, 5, 5), batch_size=2, drop_last=True)),
        len(iter(d.DataLoader(Squares(), batch_size=4))),
    ],
    "stream without length": lambda t, d: len(d.DataLoader(stream(d, 5))),
    "pin_memory": lambda t, d: collected(t, d, Squares(), pin_memory=True, batch_size=6),
    "attributes": lambda t, d: [
        getattr(d.DataLoader(Squares(), batch_size=4, shuffle=True), name)
        for name in LOADER_ATTRIBUTES.split()
    ],
    "no workers here": lambda t, d: d.get_worker_info(),
}

REFUSED = {
    "negative workers": dict(num_workers=-1),
    "negative timeout": dict(timeout=-1),
    "timeout": dict(timeout=1),
    "prefetch": dict(prefetch_factor=2),
    "negative prefetch": dict(num_workers=1, prefetch_factor=-1),
    "persistent": dict(persistent_workers=True),
    "context": dict(multiprocessing_context="fork"),
    "wrong context": dict(multiprocessing_context=3, num_workers=1),
    "sampler and shuffle": dict(sampler=[0], shuffle=True),
    "batch sampler and size": dict(batch_sampler=[[0]], batch_size=2),
    "batch sampler and shuffle": dict(batch_sampler=[[0]], shuffle=True),
    "batch sampler and sampler": dict(batch_sampler=[[0]], sampler=[0]),
    "batch sampler and drop_last": dict(batch_sampler=[[0]], drop_last=True),
    "drop_last without batches": dict(batch_size=None, drop_last=True),
    "size 0": dict(batch_size=0),
    "size 1.5": dict(batch_size=1.5),
    "size True": dict(batch_size=True),
    "drop_last 1": dict(drop_last=1),
    "unknown": dict(foo=1),
}


@pytest.mark.parametrize("name", LOADERS)
def test_loaders_equal_torch(name):
    def case(t, d):
        t.manual_seed(1)
        return LOADERS[name](t, d)

    same(case)


@pytest.mark.parametrize("name", REFUSED)
def test_loader_refuses_as_torch(name):
    kind, _ = same(lambda t, d: collected(t, d, Squares(), **REFUSED[name]))
    assert kind.endswith("Error")


@pytest.mark.parametrize(
    "options", [dict(shuffle=True), dict(sampler=[1]), dict(batch_sampler=[[1]])], ids=str
)
def test_stream_refuses_an_order_as_torch(options):
    assert same(lambda t, d: d.DataLoader(stream(d, 3), **options))[0] == "ValueError"


@pytest.mark.parametrize("name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset"])
def test_attributes_are_fixed_as_in_torch(name):
    assert same(lambda t, d: setattr(d.DataLoader(Squares()), name, None))[0] == "ValueError"


SAMPLERS_REFUSED = {
    "replacement": lambda d: d.RandomSampler([1], replacement=1),
    "num_samples 0": lambda d: d.RandomSampler([1], num_samples=0),
    "num_samples 1.5": lambda d: d.RandomSampler([1], num_samples=1.5),
    "no data": lambda d: d.RandomSampler([]),
    "weights 2-d": lambda d: d.WeightedRandomSampler([[1.0]], 1),
    "weights count": lambda d: d.WeightedRandomSampler([1.0], True),
    "weights replacement": lambda d: d.WeightedRandomSampler([1.0], 1, replacement=1),
    "batch": lambda d: d.BatchSampler([1], 0, False),
    "batch drop": lambda d: d.BatchSampler([1], 1, 0),
    "base": lambda d: iter(d.Sampler()),
    "base length": lambda d: len(d.Sampler()),
}


@pytest.mark.parametrize("name", SAMPLERS_REFUSED)
def test_samplers_refuse_as_torch(name):
    same(lambda t, d: SAMPLERS_REFUSED[name](d))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("rank", [0, 2])
def test_distributed_sampler_equals_torch(shuffle, drop_last, rank):
    def case(t, d):
        sampler = d.DistributedSampler(range(11), 3, rank, shuffle=shuffle, seed=2, drop_last=drop_last)
        sampler.set_epoch(4)
        return list(sampler), len(sampler)

    same(case)


def test_distributed_sampler_checks_its_rank():
    assert same(lambda t, d: d.DistributedSampler(range(3), 2, 2))[0] == "ValueError"


# A whole batch by one indexing: the same numbers as row by row, and the row-by-row way where it would differ.


def test_tensor_dataset_takes_one_indexing(monkeypatch):
    data = ft.utils.data.TensorDataset(ft.arange(6.0).reshape(3, 2), ft.arange(3))
    monkeypatch.setattr(ft.utils.data.TensorDataset, "__getitem__", None)
    assert [x.tolist() for x, _ in ft.utils.data.DataLoader(data, batch_size=2)] == [
        [[0, 1], [2, 3]],
        [[4, 5]],
    ]


def test_batches_see_later_writes_and_do_not_share_memory():
    rows = ft.arange(4.0)
    loader = ft.utils.data.DataLoader(ft.utils.data.TensorDataset(rows), batch_size=2)
    it = iter(loader)
    (first,) = next(it)
    rows.add_(10)
    (second,) = next(it)
    first.zero_()
    assert second.tolist() == [12, 13] and rows.tolist() == [10, 11, 12, 13]


def test_rows_that_require_grad_keep_their_history():
    def case(t, d):
        rows = t.arange(4.0).requires_grad_()
        (batch,) = next(iter(d.DataLoader(d.TensorDataset(rows), sampler=[2, 2], batch_size=2)))
        batch.sum().backward()
        return rows.grad

    same(case)


def test_changed_collate_map_is_obeyed(monkeypatch):
    from functorch_port.utils.data._utils.collate import default_collate_fn_map

    monkeypatch.setitem(default_collate_fn_map, ft.Tensor, lambda batch, *, collate_fn_map=None: len(batch))
    data = ft.utils.data.TensorDataset(ft.arange(3))
    assert list(ft.utils.data.DataLoader(data, batch_size=2)) == [[2], [1]]


def test_arrays_beside_numbers_are_an_error_in_words():
    for lib in (torch, ft):
        with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
            lib.utils.data.default_collate([np.ones(2), 1])
