"""`torch.nn.utils.prune`, fusion with batch norm, and the old home of `functional_call`."""

from __future__ import annotations

import importlib
import itertools

import pytest
from nn_programs import same, tries
from twins import plain

import functorch_port as ft


def prune_of(T):
    return importlib.import_module(f"{T.__name__}.nn.utils.prune")


def state(module):
    return {k: plain(v) for k, v in module.state_dict().items()}


CALLS = {
    "identity": lambda P, m, T: P.identity(m, "weight"),
    "random entries": lambda P, m, T: P.random_unstructured(m, "weight", 0.3),
    "l1": lambda P, m, T: P.l1_unstructured(m, "bias", 2),
    "l1 by scores": lambda P, m, T: P.l1_unstructured(
        m, "weight", 5, importance_scores=T.arange(12.0).view(4, 3)
    ),
    "random channels": lambda P, m, T: P.random_structured(m, "weight", 2, dim=0),
    "ln": lambda P, m, T: P.ln_structured(m, "weight", 0.5, n=2, dim=-1),
    "ln inf": lambda P, m, T: P.ln_structured(m, "weight", 1, n=float("-inf"), dim=0),
    "none": lambda P, m, T: P.ln_structured(m, "weight", 0, n=1, dim=0),
    "mask": lambda P, m, T: P.custom_from_mask(m, "bias", T.tensor([0, 1, 1, 0])),
    "twice": lambda P, m, T: P.l1_unstructured(P.random_unstructured(m, "weight", 2), "weight", 0.5),
    "channels, then entries": lambda P, m, T: P.l1_unstructured(
        P.ln_structured(m, "weight", 1, n=1, dim=1), "weight", 3
    ),
    "entries, then channels": lambda P, m, T: P.ln_structured(
        P.l1_unstructured(m, "weight", 3), "weight", 1, 2, 0
    ),
    "three times": lambda P, m, T: P.custom_from_mask(
        P.random_structured(P.l1_unstructured(m, "weight", 1), "weight", 1, 0), "weight", T.ones(4, 3)
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_pruning(name):
    def program(T):
        P = prune_of(T)
        T.manual_seed(0)
        m, x = T.nn.Linear(3, 4), T.linspace(-1, 1, 6).view(2, 3)
        out = [CALLS[name](P, m, T) is m, state(m), plain(m.weight), plain(m.bias), P.is_pruned(m)]
        m(x).pow(2).sum().backward()
        out += [[(n, plain(p.grad)) for n, p in m.named_parameters()], len(m._forward_pre_hooks)]
        tensor = "bias" if "bias_orig" in m._parameters else "weight"
        kept = m._parameters[f"{tensor}_orig"]
        P.remove(m, tensor)
        return [*out, state(m), getattr(m, tensor) is kept, P.is_pruned(m), plain(m(x))]

    same(program, 1e-5)


def test_global_pruning():
    def program(T):
        P = prune_of(T)
        T.manual_seed(0)
        net = T.nn.Sequential(T.nn.Linear(3, 4), T.nn.Linear(4, 2))
        pairs = [(net[0], "weight"), (net[1], "weight"), (net[1], "bias")]
        P.global_unstructured(pairs, P.L1Unstructured, amount=7)
        first = state(net)
        P.global_unstructured(pairs, P.RandomUnstructured, amount=0.2)
        P.global_unstructured(
            pairs[:1], P.L1Unstructured, importance_scores={pairs[0]: net[0].weight_orig ** 2}, amount=1
        )
        return first, state(net), [n for n, _ in net.named_parameters()], P.is_pruned(net)

    same(program, 1e-6)


def test_methods_by_themselves():
    def program(T):
        P = prune_of(T)
        t, method = T.arange(6.0).view(2, 3), P.L1Unstructured(2)
        out = [plain(method.prune(t)), plain(method.prune(t, importance_scores=-t + 6))]
        out.append(plain(method.prune(t, default_mask=T.zeros(2, 3))))
        container = P.PruningContainer()
        container._tensor_name = method._tensor_name = "w"
        container.add_pruning_method(method)
        return [*out, len(container), container[0] is method, [m is method for m in container]]

    same(program)


def test_pruning_errors():
    def program(T):
        P = prune_of(T)
        line = lambda: T.nn.Linear(2, 3)  # noqa: E731
        pruned = P.identity(line(), "weight")

        class Strange(P.BasePruningMethod):
            PRUNING_TYPE = "strange"

            def compute_mask(self, t, default_mask):
                return default_mask

        class NoDim(Strange):
            PRUNING_TYPE = "structured"

        return tries(
            lambda: P.l1_unstructured(line(), "weight", -1),
            lambda: P.l1_unstructured(line(), "weight", 1.5),
            lambda: P.l1_unstructured(line(), "weight", "much"),
            lambda: P.l1_unstructured(line(), "weight", 7),
            lambda: P.random_structured(line(), "bias", 1, 0),
            lambda: P.ln_structured(line(), "weight", 1, 2, 2),
            lambda: P.ln_structured(line(), "weight", 9, 2, 1),
            lambda: P.custom_from_mask(line(), "weight", T.ones(2)),
            lambda: P.l1_unstructured(line(), "weight", 1, importance_scores=T.ones(1)),
            lambda: P.L1Unstructured(1).prune(T.ones(2), importance_scores=T.ones(1)),
            lambda: P.remove(line(), "weight"),
            lambda: P.l1_unstructured(line(), "w", 1),
            lambda: P.global_unstructured([(line(), "weight")], P.LnStructured, amount=1, n=2),
            lambda: P.global_unstructured(3, P.L1Unstructured, amount=1),
            lambda: P.global_unstructured([(line(), "weight")], P.L1Unstructured, [], amount=1),
            lambda: P.PruningContainer().add_pruning_method(3),
            lambda: Strange.apply(pruned, "weight"),
            lambda: NoDim.apply(P.identity(line(), "weight"), "weight"),
        )

    def texts(T):
        return [
            (kind, text.split("<class")[0]) if isinstance(text, str) else text for kind, text in program(T)
        ]

    same(texts)


def test_compiled_training_of_a_pruned_model():
    def run(compiled):
        P = prune_of(ft)
        ft.manual_seed(0)
        m = P.l1_unstructured(ft.nn.Linear(4, 3), "weight", 0.5)
        opt, x, traces = ft.optim.SGD(m.parameters(), lr=0.1), ft.ones(2, 4), itertools.count()

        def step(x):
            next(traces)
            opt.zero_grad()
            loss = m(x).pow(2).sum()
            loss.backward()
            opt.step()
            return loss

        fn = ft.compile(step) if compiled else step
        losses = [float(fn(x).detach()) for _ in range(4)]
        assert not compiled or next(traces) <= 2
        return losses

    assert run(True) == pytest.approx(run(False), rel=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_fusion(bias, affine):
    def program(T):
        U = T.nn.utils
        T.manual_seed(0)
        conv, bn, x = T.nn.Conv2d(3, 4, 3, bias=bias), T.nn.BatchNorm2d(4, affine=affine), T.randn(2, 3, 6, 6)
        bn(conv(x))
        out = tries(lambda: U.fuse_conv_bn_eval(conv, bn))
        fused = U.fuse_conv_bn_eval(conv.eval(), bn.eval())
        out += [repr(fused), state(fused), plain(fused(x)), [p.requires_grad for p in fused.parameters()]]
        assert T.allclose(fused(x), bn(conv(x)), atol=1e-5)
        w = T.randn(3, 4, 2)
        out += [plain(p) for p in U.fuse_conv_bn_weights(
            w, None, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose=True)]  # fmt: skip
        if affine:
            linear, bn = T.nn.Linear(3, 4, bias=bias), T.nn.BatchNorm1d(4)
            bn(linear(T.randn(5, 3)))
            out += tries(lambda: U.fuse_linear_bn_eval(linear, bn))
            fused = U.fuse_linear_bn_eval(linear.eval(), bn.eval())
            out += [state(fused), plain(fused(T.ones(2, 3)))]
            out += tries(lambda: U.fuse_linear_bn_eval(linear, T.nn.BatchNorm1d(3).eval()))
        return out

    same(program, 2e-5)


def test_stateless_and_what_a_call_leaves():
    def program(T):
        class Counter(T.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("n", T.zeros(()))

            def forward(self, x):
                self.n = self.n + 1
                return self.n * x

        stateless = importlib.import_module(f"{T.__name__}.nn.utils.stateless")
        m, given = Counter(), {"n": T.ones(())}
        out = [plain(stateless.functional_call(m, given, T.ones(1))), plain(given), plain(m.n)]
        out += [plain(T.func.functional_call(m, given, T.ones(1))), plain(given), plain(m.n)]
        return out

    same(program)


def test_helpers_of_custom_pruning_methods():
    def program(T):
        P = prune_of(T)
        counts = [P._compute_nparams_toprune(a, 17) for a in (0, 3, 0.4, 1.0, 40)]
        return counts, tries(
            *[lambda a=a: P._validate_pruning_amount_init(a) for a in (-1, 0, 9, 0.5, 1.5, -0.1, "much")],
            *[lambda a=a: P._validate_pruning_amount(a, 5) for a in (5, 6, 7.0)],
            lambda: P._validate_structured_pruning(T.ones(3)),
            lambda: P._validate_structured_pruning(T.ones(3, 1)),
            lambda: P._validate_pruning_dim(T.ones(3, 1), 1),
            lambda: P._validate_pruning_dim(T.ones(3, 1), 2),
        )

    same(program)
