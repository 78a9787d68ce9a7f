"""Modules' state and hooks: the same script on torch and here leaves the same record of what was called and held."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
from twins import plain, same_outcome

import functorch_port as ft


def small(T: Any) -> Any:
    T.manual_seed(0)
    return T.nn.Sequential(T.nn.Linear(3, 4), T.nn.BatchNorm1d(4), T.nn.Sequential(T.nn.Linear(4, 2)))


def batch(T: Any, grad: bool = True) -> Any:
    return T.arange(6.0).reshape(2, 3).requires_grad_(grad)


def shapes(state: Any) -> list[Any]:
    return [(k, tuple(v.shape), str(v.dtype)) for k, v in state.items()]


def keys_of(result: Any) -> Any:
    return list(result.missing_keys), list(result.unexpected_keys), repr(result)


# ------------------------------------------------------------------- state


def metadata(T: Any) -> Any:
    nets = [
        small(T),
        T.nn.MultiheadAttention(4, 2),
        T.nn.InstanceNorm1d(2, affine=True, track_running_stats=True),
        T.nn.LSTM(2, 3),
        T.nn.TransformerEncoderLayer(4, 2, 8),
        T.nn.PReLU(),
        T.nn.EmbeddingBag(3, 2),
        T.nn.utils.parametrizations.weight_norm(T.nn.Linear(2, 2)),
        T.nn.ParameterList([T.nn.Parameter(T.ones(1))]),
        T.nn.SyncBatchNorm(2),
    ]
    return [(shapes(n.state_dict()), {k: dict(v) for k, v in n.state_dict()._metadata.items()}) for n in nets]


def prefixes(T: Any) -> Any:
    kept = {"old": T.ones(1)}
    net = small(T)
    state = net.state_dict(destination=kept, prefix="a.b.")
    return list(state), state is kept, net.state_dict(keep_vars=True)["0.weight"] is net[0].weight


def upgrade_of_batch_norm(T: Any) -> Any:
    net = small(T)
    state = net.state_dict()
    del state["1.num_batches_tracked"]
    first = keys_of(net.load_state_dict(state, strict=False))  # the version says that it must be there
    state._metadata["1"]["version"] = 1
    second = keys_of(net.load_state_dict(state))
    del state._metadata
    third = keys_of(net.load_state_dict(state))
    return first, second, third, plain(net[1].num_batches_tracked)


def upgrade_of_instance_norm(T: Any) -> Any:
    net = T.nn.Sequential(T.nn.InstanceNorm1d(2))
    state = net.state_dict()
    state["0.running_mean"] = state["0.running_var"] = T.zeros(2)
    del state._metadata
    net.load_state_dict(state)


def all_load_errors(T: Any) -> Any:
    net = small(T)
    state = net.state_dict()
    del state["0.bias"], state["2.0.weight"]
    state.update({"1.weight": T.ones(5), "x.y": T.ones(1), "z": T.ones(1), "2.0.bias": 3})
    net.load_state_dict(state)


def load_of_a_list(T: Any) -> Any:
    small(T).load_state_dict([1])


def partial_load(T: Any) -> Any:
    net = small(T)
    before = [id(p) for p in net.parameters()]
    found = keys_of(net.load_state_dict({"0.bias": T.ones(4), "no": T.ones(1)}, strict=False))
    return found, plain(net[0].bias), before == [id(p) for p in net.parameters()]


def assigned(T: Any) -> Any:
    net, other = small(T), small(T).double()
    other[0].weight.requires_grad_(False)
    state = other.state_dict(keep_vars=True)
    kept = net[0].bias
    net.load_state_dict(state, assign=True)
    return (
        shapes(net.state_dict()),
        [p.requires_grad for p in net.parameters()],
        net[0].bias is kept,
        net[0].bias is other[0].bias,
        type(net[0].bias).__name__,
    )


def assigned_from_meta(T: Any) -> Any:
    with T.device("meta"):
        net = T.nn.Linear(3, 2)
    net.load_state_dict({"weight": T.ones(2, 3), "bias": T.ones(2)}, assign=True)
    return plain(net.weight), str(net.weight.device), net.weight.requires_grad, type(net.weight).__name__


def copied_into_meta(T: Any) -> Any:
    net = T.nn.Linear(3, 2, device="meta")
    net.load_state_dict({"weight": T.ones(2, 3), "bias": T.ones(2)})
    return str(net.weight.device)


def emptied(T: Any) -> Any:
    net = T.nn.Sequential(T.nn.Linear(3, 2, device="meta"), T.nn.BatchNorm1d(2, device="meta"))
    before = [str(t.device) for t in (*net.parameters(), *net.buffers())]
    net.to_empty(device="cpu")  # PyTorch makes new parameters here; ours stay the same objects
    net[0].reset_parameters()
    net[1].reset_parameters()
    after = [str(t.device) for t in (*net.parameters(), *net.buffers())]
    return before, after, shapes(net.state_dict()), plain(net[1].state_dict())


def moved_from_meta(T: Any) -> Any:
    T.nn.Linear(3, 2, device="meta").to("cpu")


def skipped_init(T: Any) -> Any:
    T.manual_seed(0)
    net = T.nn.utils.skip_init(T.nn.Linear, 3, 2, bias=False)
    return shapes(net.state_dict()), str(net.weight.device), plain(T.rand(2))


def skipped_init_of_another(T: Any) -> Any:
    T.nn.utils.skip_init(T.nn.ReLU)


def tied(T: Any) -> Any:
    net = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.Linear(2, 2), T.nn.Linear(2, 2, bias=False))
    net[1].weight, net[2] = net[0].weight, net[0]
    again = copy.deepcopy(net)
    more = pickle.loads(pickle.dumps(net))
    stream = io.BytesIO()
    T.save(net.state_dict(), stream)
    stream.seek(0)
    state = T.load(stream)
    return (
        list(net.state_dict()),
        [n for n, _ in net.named_parameters()],
        [n for n, _ in net.named_parameters(remove_duplicate=False)],
        [n for n, _ in net.named_modules()],
        [n for n, _ in net.named_modules(remove_duplicate=False)],
        [n for n, _ in net.named_children()],
        len(list(net.modules())),
        [m[1].weight is m[0].weight and m[2] is m[0] for m in (again, more)],
        again[0].weight is net[0].weight,
        list(state),
    )


def twice_in_another(T: Any) -> Any:
    """A memo that is handed on, and a prefix."""
    inner = T.nn.Sequential(T.nn.ReLU())
    net = T.nn.ModuleDict({"a": inner, "b": inner, "c": T.nn.ModuleList([inner])})
    net.register_buffer("t", T.ones(1))
    net["a"].register_buffer("t", net.t)
    return (
        [n for n, _ in net.named_modules(prefix="p")],
        [n for n, _ in net.named_modules(memo={inner})],
        [n for n, _ in net.named_buffers()],
        [n for n, _ in net.named_buffers("q", recurse=False)],
        [n for n, _ in net.named_buffers(remove_duplicate=False)],
    )


def not_persistent(T: Any) -> Any:
    net = T.nn.Module()
    net.register_buffer("kept", T.ones(1))
    net.register_buffer("lost", T.ones(2), persistent=False)
    net.register_buffer("none", None)
    first = list(net.state_dict()), [n for n, _ in net.named_buffers()], net._non_persistent_buffers_set
    net.register_buffer("lost", T.ones(3))
    net.kept = None
    return first, list(net.state_dict()), keys_of(net.load_state_dict({"lost": T.zeros(3)}))


class Versioned:
    """A module with extra state and a version of its own, for any library."""

    @staticmethod
    def of(T: Any, log: list[Any]) -> Any:
        class Extra(T.nn.Module):
            _version = 3

            def __init__(self) -> None:
                super().__init__()
                self.w = T.nn.Parameter(T.ones(1))

            def get_extra_state(self) -> Any:
                return {"n": 5}

            def set_extra_state(self, state: Any) -> None:
                log.append(("extra", state))

            def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
                log.append(("save", prefix, keep_vars))
                super()._save_to_state_dict(destination, prefix, keep_vars)

            def _load_from_state_dict(
                self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors
            ):
                log.append(("load", prefix, dict(local_metadata), strict, list(missing), list(unexpected)))
                super()._load_from_state_dict(
                    state_dict, prefix, local_metadata, strict, missing, unexpected, errors
                )

        return Extra()


def extra_state(T: Any) -> Any:
    log: list[Any] = []
    net = T.nn.Sequential(Versioned.of(T, log), T.nn.Sequential(Versioned.of(T, log)))
    state = net.state_dict()
    found = [list(state), {k: dict(v) for k, v in state._metadata.items()}]
    net.load_state_dict(state)
    del state["0._extra_state"]
    state["1._extra_state"] = 3
    log.append(keys_of(net.load_state_dict(state, strict=False)))
    return found, log


def lazy(T: Any) -> Any:
    T.manual_seed(0)
    net = T.nn.Sequential(T.nn.LazyLinear(3), T.nn.LazyBatchNorm1d())
    record: list[Any] = [repr(net), list(net.state_dict()), [type(p).__name__ for p in net.parameters()]]
    try:
        net[0].weight.shape  # noqa: B018
    except Exception as error:
        record.append((type(error).__name__, str(error)))
    other = pickle.loads(pickle.dumps(net))
    other(T.ones(2, 4))
    record += [repr(other), len(other[0]._forward_pre_hooks), repr(net), len(net[0]._forward_pre_hooks)]
    net(T.ones(2, 5))
    record += [repr(net), shapes(net.state_dict()), type(net[0]).__name__, len(net[0]._forward_pre_hooks)]
    other = T.nn.Sequential(T.nn.LazyLinear(3), T.nn.LazyBatchNorm1d())
    record.append(keys_of(other.load_state_dict(net.state_dict())))
    record += [repr(other), shapes(other.state_dict())]
    return record


# ------------------------------------------------------------------- hooks


def order_of_a_call(T: Any) -> Any:
    """Every kind of hook on one module, global ones too, in a forward and a backward pass."""
    log: list[Any] = []
    nn = T.nn.modules.module

    def note(name: str) -> Any:
        return lambda module, *rest: log.append((name, type(module).__name__, len(rest)))

    net = T.nn.Sequential(T.nn.Linear(3, 2), T.nn.Tanh())
    layer = net[0]
    handles = [
        nn.register_module_forward_pre_hook(note("global pre")),
        nn.register_module_forward_hook(note("global forward")),
        nn.register_module_forward_hook(note("global always"), always_call=True),
        nn.register_module_full_backward_pre_hook(note("global backward pre")),
        nn.register_module_full_backward_hook(note("global backward")),
        layer.register_forward_pre_hook(note("pre 1")),
        layer.register_forward_pre_hook(note("pre 2"), with_kwargs=True),
        layer.register_forward_pre_hook(note("pre 0"), prepend=True),
        layer.register_forward_hook(note("forward 1")),
        layer.register_forward_hook(note("forward 2"), with_kwargs=True),
        layer.register_forward_hook(note("forward 0"), prepend=True, always_call=True),
        layer.register_full_backward_pre_hook(note("backward pre 1")),
        layer.register_full_backward_pre_hook(note("backward pre 0"), prepend=True),
        layer.register_full_backward_hook(note("backward 1")),
        layer.register_full_backward_hook(note("backward 0"), prepend=True),
        net.register_forward_hook(note("whole")),
        net.register_full_backward_hook(note("whole backward")),
    ]
    try:
        net(batch(T)).sum().backward()
        log.append("no gradient")
        with T.no_grad():
            net(batch(T))
        log.append("input without gradient")
        net(batch(T, grad=False)).sum().backward()
        log.append("raises")
        try:
            net(T.ones(2, 7))
        except RuntimeError:
            log.append("raised")
        for handle in handles[::2]:
            handle.remove()
        log.append("half of them")
        net(batch(T)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    log.append("none")
    net(batch(T)).sum().backward()
    return log


def hooks_that_change_things(T: Any) -> Any:
    net = T.nn.Linear(3, 2)
    T.nn.init.ones_(net.weight)
    T.nn.init.zeros_(net.bias)
    x = batch(T)
    nn = T.nn.modules.module
    handles = [
        nn.register_module_forward_pre_hook(lambda m, args: args[0] + 1),
        net.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        net.register_forward_pre_hook(lambda m, args, kwargs: ((args[0] - 1,), kwargs), with_kwargs=True),
        nn.register_module_forward_hook(lambda m, args, out: out * 10),
        net.register_forward_hook(lambda m, args, kwargs, out: out + len(kwargs), with_kwargs=True),
        nn.register_module_full_backward_pre_hook(lambda m, grads: (grads[0] * 3,)),
        net.register_full_backward_pre_hook(lambda m, grads: (grads[0] * 5,)),
        nn.register_module_full_backward_hook(lambda m, given, grads: (given[0] + 7,)),
        net.register_full_backward_hook(lambda m, given, grads: (given[0] * 2, *given[1:])),
    ]
    try:
        out = net(x)
        out.sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return plain([out, x.grad, net.weight.grad])


def bad_results(T: Any) -> Any:
    record = []

    def attempt(register: str, hook: Any, **options: Any) -> None:
        net = T.nn.Linear(3, 2)
        getattr(net, register)(hook, **options)
        try:
            net(batch(T)).sum().backward()
            record.append("fine")
        except Exception as error:
            record.append((register, type(error).__name__, str(error)))

    attempt("register_forward_pre_hook", lambda m, a, k: a, with_kwargs=True)
    attempt("register_full_backward_hook", lambda m, a, b: (a[0], a[0]))
    attempt("register_full_backward_hook", lambda m, a, b: 3)
    attempt("register_full_backward_pre_hook", lambda m, a: (a[0], a[0]))
    attempt("register_full_backward_pre_hook", lambda m, a: "x")
    net = T.nn.Linear(3, 2)
    net.register_full_backward_hook(lambda *a: None)
    try:
        net.register_backward_hook(lambda *a: None)
    except Exception as error:
        record.append((type(error).__name__, str(error)))
    return record


def always_called(T: Any) -> Any:
    log: list[Any] = []

    class Fails(T.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    net = Fails()
    net.register_forward_hook(lambda m, a, o: log.append(("always", o)), always_call=True)
    net.register_forward_hook(lambda m, a, o: log.append(("not", o)))
    net.register_forward_hook(
        lambda m, a, k, o: log.append(("kwargs", k, o)), always_call=True, with_kwargs=True
    )
    try:
        net(3)
    except ValueError as error:
        log.append(str(error))

    def bad(m: Any, a: Any, o: Any) -> None:
        raise KeyError("hook")

    net.register_forward_hook(bad, always_call=True)
    try:
        net(3)
    except Exception as error:
        log.append((type(error).__name__, str(error)))
    return log


def state_hooks(T: Any) -> Any:
    log: list[Any] = []
    net = small(T)
    inner = net[2]

    def note(name: str) -> Any:
        return lambda *args: log.append(
            (name, [type(a).__name__ for a in args[:1]], len(args), args[2:3] if "pre" in name else None)
        )

    handles = [
        net.register_state_dict_pre_hook(lambda m, prefix, keep: log.append(("save pre", prefix, keep))),
        inner.register_state_dict_pre_hook(
            lambda m, prefix, keep: log.append(("inner save pre", prefix, keep))
        ),
        net.register_state_dict_post_hook(
            lambda m, state, prefix, meta: log.append(("save post", len(state), prefix, sorted(meta)))
        ),
        inner.register_state_dict_post_hook(
            lambda m, state, prefix, meta: state.update({prefix + "more": 1})
        ),
        net.register_load_state_dict_pre_hook(
            lambda m, state, prefix, meta, strict, missing, unexpected, errors: log.append(
                ("load pre", prefix, dict(meta), strict, len(state))
            )
        ),
        inner.register_load_state_dict_pre_hook(
            lambda m, state, prefix, meta, strict, missing, unexpected, errors: state.pop(
                prefix + "more", None
            )
        ),
        inner.register_load_state_dict_post_hook(
            lambda m, keys: log.append(
                ("inner load post", list(keys.missing_keys), list(keys.unexpected_keys))
            )
        ),
        net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear()),
    ]
    state = net.state_dict(prefix="")
    log.append(list(state))
    del state["0.bias"]
    log.append(keys_of(net.load_state_dict(state)))
    for handle in handles:
        handle.remove()
    log.append(list(net.state_dict()))
    bad = small(T)
    bad.register_load_state_dict_post_hook(lambda m, keys: 3)
    try:
        bad.load_state_dict(bad.state_dict())
    except Exception as error:
        log.append((type(error).__name__, str(error)))
    return log


def older_state_hooks(T: Any) -> Any:
    log: list[Any] = []
    net = T.nn.Linear(2, 1)
    net._register_state_dict_hook(lambda m, state, prefix, meta: log.append(("hook", prefix, list(state))))
    net._register_load_state_dict_pre_hook(
        lambda state, prefix, *rest: log.append(("bare", prefix, len(rest)))
    )
    net._register_load_state_dict_pre_hook(
        lambda m, state, prefix, *rest: log.append(("with", type(m).__name__, len(rest))), with_module=True
    )
    net.load_state_dict(net.state_dict())
    net._register_state_dict_hook(lambda m, state, prefix, meta: {"other": 1})
    log.append(net.state_dict())
    return log


def global_registration(T: Any) -> Any:
    log: list[Any] = []
    nn = T.nn.modules.module
    handles = [
        nn.register_module_buffer_registration_hook(
            lambda m, n, b: log.append(("buffer", type(m).__name__, n))
        ),
        nn.register_module_module_registration_hook(
            lambda m, n, s: log.append(("module", type(m).__name__, n, type(s).__name__))
        ),
        nn.register_module_parameter_registration_hook(
            lambda m, n, p: log.append(("parameter", type(m).__name__, n, p is None))
        ),
    ]
    try:
        net = T.nn.Sequential(T.nn.Linear(2, 2, bias=False), T.nn.BatchNorm1d(2))
        net.extra = T.nn.Parameter(T.ones(1))
        net.add_module("late", None)
    finally:
        for handle in handles:
            handle.remove()
    T.nn.Linear(1, 1)
    return log


def handles(T: Any) -> Any:
    net = T.nn.Linear(2, 2)
    first = net.register_forward_hook(lambda *a: None)
    second = net.register_forward_hook(lambda *a: None, always_call=True, with_kwargs=True)
    sizes = [
        len(net._forward_hooks),
        len(net._forward_hooks_with_kwargs),
        len(net._forward_hooks_always_called),
    ]
    with first:
        sizes.append(len(net._forward_hooks))
    sizes.append(len(net._forward_hooks))
    first.remove()
    second.remove()
    return (
        sizes,
        len(net._forward_hooks),
        len(net._forward_hooks_with_kwargs),
        len(net._forward_hooks_always_called),
    )


def walks(T: Any) -> Any:
    log: list[str] = []
    net = small(T)
    net.apply(lambda m: log.append(type(m).__name__))
    net.eval()
    flags = [m.training for m in net.modules()]
    net[2].train()
    return (
        log,
        flags,
        [m.training for m in net.modules()],
        net.get_submodule("2.0") is net[2][0],
        net.get_extra_state.__name__,
    )


def test_copy_of_a_lazy_module_has_its_own_hooks() -> None:
    net = ft.nn.LazyLinear(3)  # PyTorch refuses to copy uninitialised parameters
    other = copy.deepcopy(net)
    other(ft.ones(2, 4))
    assert (len(other._forward_pre_hooks), len(net._forward_pre_hooks)) == (0, 1)
    assert (net(ft.ones(2, 5)).shape, other.weight.shape) == ((2, 3), (3, 4))


STATE = [
    metadata, prefixes, upgrade_of_batch_norm, upgrade_of_instance_norm, all_load_errors, load_of_a_list,
    partial_load, assigned, assigned_from_meta, copied_into_meta, emptied, moved_from_meta, skipped_init,
    skipped_init_of_another, tied, twice_in_another, not_persistent, extra_state, lazy,
]  # fmt: skip
HOOKS = [
    order_of_a_call, hooks_that_change_things, bad_results, always_called, state_hooks, older_state_hooks,
    global_registration, handles, walks,
]  # fmt: skip


@pytest.mark.parametrize("script", STATE + HOOKS)
def test_record(script: Any) -> None:
    same_outcome(script)
