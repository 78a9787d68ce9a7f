"""autocast and GradScaler against torch on the CPU."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from compare import same, sample, tensor_to_ours
from twins import distance, outcome, plain, same_outcome

import functorch_port as ft
from functorch_port._run import autocast as lists

A, B, C = (
    sample(4, 4, low=0.1, high=1.0),
    sample(4, 4, low=0.1, high=1.0, seed=1),
    sample(2, 4, 4, low=0.1, high=1.0),
)
V, IMAGE, KERNEL = sample(4, low=0.1, high=1.0), sample(1, 2, 8, 8), sample(3, 2, 3, 3)

#: name -> program(T, cast): every operation's result type under autocast must be torch's
OPERATIONS = {
    "matmul": lambda T, f: f(A) @ f(B),
    "matmul, vector": lambda T, f: f(A) @ f(V),
    "mm": lambda T, f: T.mm(f(A), f(B)),
    "bmm": lambda T, f: T.bmm(f(C), f(C)),
    "addmm": lambda T, f: T.addmm(f(A), f(A), f(B)),
    "baddbmm": lambda T, f: T.baddbmm(f(C), f(C), f(C)),
    "einsum": lambda T, f: T.einsum("ij,jk->ik", f(A), f(B)),
    "linear": lambda T, f: T.nn.functional.linear(f(A), f(B), f(V)),
    "linear without bias": lambda T, f: T.nn.functional.linear(f(C), f(B)),
    "conv2d": lambda T, f: T.nn.functional.conv2d(f(IMAGE), f(KERNEL)),
    "prelu": lambda T, f: T.nn.functional.prelu(f(A), f(V)[:1]),
    "mv": lambda T, f: T.mv(f(A), f(V)),
    "dot": lambda T, f: T.dot(f(V), f(V)),
    "add": lambda T, f: f(A) + f(B),
    "mixed add": lambda T, f: f(A) + (f(A) @ f(B)),
    "softmax": lambda T, f: f(A).softmax(-1),
    "log_softmax": lambda T, f: f(A).log_softmax(-1),
    "layer_norm": lambda T, f: T.nn.functional.layer_norm(f(A), (4,)),
    "sum": lambda T, f: f(A).sum(),
    "mean": lambda T, f: f(A).mean(),
    "prod": lambda T, f: f(A).prod(),
    "exp": lambda T, f: f(A).exp(),
    "gelu": lambda T, f: T.nn.functional.gelu(f(A)),
    "max_pool2d": lambda T, f: T.nn.functional.max_pool2d(f(IMAGE), 2),
    "cross_entropy": lambda T, f: T.nn.functional.cross_entropy(f(A), T.tensor([0, 1, 2, 3])),
    "nll_loss": lambda T, f: T.nn.functional.nll_loss(f(A), T.tensor([0, 1, 2, 3])),
    "mse_loss": lambda T, f: T.nn.functional.mse_loss(f(A), f(B)),
    "l1_loss": lambda T, f: T.nn.functional.l1_loss(f(A), f(B)),
    "bce": lambda T, f: T.nn.functional.binary_cross_entropy(f(A), f(B)),
    "bce with logits": lambda T, f: T.nn.functional.binary_cross_entropy_with_logits(f(A), f(B)),
    "kl_div": lambda T, f: T.nn.functional.kl_div(f(A).log(), f(B), reduction="sum"),
    "cat": lambda T, f: T.cat([f(A), f(A) @ f(B)]),
    "stack": lambda T, f: T.stack([f(A) @ f(B), f(A) @ f(B)]),
    "trace": lambda T, f: f(A).trace(),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_result_types_and_values(name, dtype):
    def run(T):
        def cast(x):
            x = x if T is torch else tensor_to_ours(x)
            return x.to(getattr(T, dtype))

        with T.autocast("cpu"):
            return OPERATIONS[name](T, cast)

    # bfloat16 results: sums may be rounded in another order
    same(run(torch), run(ft), tol=None if dtype == "float64" else 2e-2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_training_a_network(dtype):
    def run(T):
        T.manual_seed(0)
        rng = np.random.default_rng(0)
        net = T.nn.Sequential(T.nn.Linear(6, 16), T.nn.ReLU(), T.nn.Linear(16, 3))
        optimizer = T.optim.SGD(net.parameters(), lr=0.1)
        x, y = T.tensor(rng.standard_normal((32, 6)).astype("float32")), T.tensor(rng.integers(0, 3, 32))
        losses = []
        for _ in range(10):
            optimizer.zero_grad()
            with T.autocast("cpu", dtype=getattr(T, dtype)):
                out = net(x)
                loss = T.nn.functional.cross_entropy(out, y)
            assert str(out.dtype) == f"torch.{dtype}" and str(loss.dtype) == "torch.float32"
            loss.backward()
            assert all(str(p.grad.dtype) == "torch.float32" for p in net.parameters())
            optimizer.step()
            losses.append(loss.item())
        return [np.array(losses)]

    assert distance(run(torch), run(ft)) < 1e-2  # two or three digits is what half types have


def test_nesting_decorator_and_state():
    def run(T):
        a = T.ones(2, 2)
        out = []

        @T.autocast("cpu")
        def product(x):
            return x @ x

        def note():
            out.append((str((a @ a).dtype), T.is_autocast_enabled("cpu"), str(T.get_autocast_dtype("cpu"))))

        note()
        with T.autocast("cpu", dtype=T.float16):
            note()
            with T.autocast("cpu", enabled=False):
                note()
                out.append(str(product(a).dtype))
            note()
        note()
        out += [str(product(a).dtype), product.__name__, T.is_autocast_enabled()]
        return out

    same_outcome(run)
    assert not lists.enabled


def test_state_is_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), ft.autocast("cpu"):
        raise ZeroDivisionError
    assert not lists.enabled and not ft.is_autocast_enabled("cpu")


ERRORS = {
    "no string": lambda T: T.autocast(3),
    "no autocast for it": lambda T: T.autocast("meta", dtype=T.bfloat16),
    "no callable": lambda T: T.autocast("cpu")(3),
    "unsupported dtype": lambda T: T.autocast("cpu", dtype=T.float32)._enabled,
    "no GPU": lambda T: T.autocast("cuda")._enabled,
    "scaler without GPU": lambda T: T.amp.GradScaler().is_enabled(),
    "old autocast": lambda T: T.cuda.amp.autocast()._enabled,
    "old scaler": lambda T: T.cuda.amp.GradScaler().state_dict(),
    "growth": lambda T: T.amp.GradScaler("cpu", growth_factor=1.0),
    "backoff": lambda T: T.amp.GradScaler("cpu", backoff_factor=1.0),
    "update before scale": lambda T: T.amp.GradScaler("cpu").update(),
    "unscale before scale": lambda T: T.amp.GradScaler("cpu").unscale_(T.optim.SGD([T.ones(1)])),
    "step before scale": lambda T: T.amp.GradScaler("cpu").step(T.optim.SGD([T.ones(1)])),
    "load of nothing": lambda T: T.amp.GradScaler("cpu").load_state_dict({}),
    "scale of a number": lambda T: T.amp.GradScaler("cpu").scale(3),
    "closure": lambda T: T.amp.GradScaler("cpu").step(T.optim.SGD([T.ones(1)]), closure=lambda: 1),
    "custom_fwd": lambda T: T.amp.custom_fwd(device_type=3),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_and_warnings_are_torchs(name):
    assert outcome(ERRORS[name], torch) == outcome(ERRORS[name], ft)


# ---------------------------------------------------------------------- GradScaler


def _loop(T, spoil=(), before_step=None, **options):
    """Twelve steps; in those of ``spoil`` a gradient is infinite."""
    w = T.nn.Parameter(T.tensor([1.0, -2.0, 3.0]))
    optimizer = T.optim.SGD(
        [w], lr=0.25, momentum=0.5
    )  # w**2 and its sum stay exact: nothing depends on rounding
    scaler = T.amp.GradScaler("cpu", **options)
    out = []
    for i in range(12):
        optimizer.zero_grad()
        loss = (w**2).sum() * (float("inf") if i in spoil else 1.0)
        scaled = scaler.scale(loss)
        scaled.backward()
        if before_step:
            before_step(T, scaler, optimizer, w)
        scaler.step(optimizer)
        scaler.update()
        out.append((plain(scaled), plain(w), scaler.get_scale(), scaler.state_dict()))
    return out


@pytest.mark.parametrize("spoil", [(), (3,), (0, 1, 7)])
def test_scaling_skipping_and_growing(spoil):
    same_outcome(lambda T: _loop(T, spoil, init_scale=1024.0, growth_interval=3))


def test_odd_factors():
    same_outcome(
        lambda T: _loop(T, (5,), init_scale=3.0, growth_interval=2, growth_factor=1.7, backoff_factor=0.3)
    )


def test_a_scale_that_would_overflow_stays():
    same_outcome(lambda T: _loop(T, init_scale=2.0**126, growth_interval=1)[0][2:])


def test_clipping_between_unscale_and_step():
    def clip(T, scaler, optimizer, w):
        scaler.unscale_(optimizer)
        w.grad.clamp_(-0.5, 0.5)

    same_outcome(lambda T: _loop(T, before_step=clip, init_scale=64.0))


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_inside_a_compiled_step(name):
    """A step with an infinite gradient is undone in the program; nothing is read back in between."""

    def run(T, compile, spoil=(0, 4, 5)):
        w = T.nn.Parameter(T.tensor([1.0, -2.0, 3.0]))
        options = {"momentum": 0.5} if name == "SGD" else {}
        optimizer = getattr(T.optim, name)([w], lr=0.1, **options)
        scaler = T.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)

        def step(factor):
            optimizer.zero_grad()
            loss = (w**2).sum() * factor
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        step, out = compile(step), []
        for i in range(12):
            step(T.tensor(float("inf") if i in spoil else 1.0))
            out += [w.detach().numpy().copy(), np.array(scaler.get_scale())]
        return out

    assert distance(run(torch, lambda f: f), run(ft, ft.compile)) < 1e-6


def test_disabled_scaler_passes_through():
    same_outcome(lambda T: _loop(T, enabled=False))

    def run(T):
        scaler = T.amp.GradScaler("cpu", enabled=False)
        scaler.unscale_(None)
        scaler.update()
        scaler.load_state_dict({"anything": 1})
        loss = T.tensor(2.0)
        return scaler.scale(loss) is loss, scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()

    same_outcome(run)


def test_scale_of_lists():
    def run(T):
        scaler = T.amp.GradScaler("cpu", init_scale=8.0)
        return plain(scaler.scale([T.ones(2), (T.tensor(2.0), T.tensor(3.0))])), type(
            scaler.scale((T.ones(1),))
        ).__name__

    same_outcome(run)


def _ready(T):
    w = T.nn.Parameter(T.ones(2))
    optimizer, scaler = T.optim.SGD([w], lr=0.1), T.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(w.sum()).backward()
    return w, optimizer, scaler


SEQUENCES = {
    "unscale twice": lambda o, s: (s.unscale_(o), s.unscale_(o)),
    "unscale after step": lambda o, s: (s.step(o), s.unscale_(o)),
    "step twice": lambda o, s: (s.step(o), s.step(o)),
    "update without step": lambda o, s: s.update(),
    "no gradients": lambda o, s: (o.zero_grad(), s.step(o)),
    "pickle in between": lambda o, s: (s.unscale_(o), pickle.dumps(s)),
    "new scale": lambda o, s: (s.step(o), s.update(new_scale=16.0)),
    "new scale of two": lambda o, s: (s.step(o), s.update(new_scale=o.param_groups[0]["params"][0].detach())),
    "new scale tensor": lambda o, s: (
        s.step(o),
        s.update(new_scale=o.param_groups[0]["params"][0].detach()[0]),
    ),
    "setters": lambda o, s: (s.set_growth_factor(3.0), s.set_backoff_factor(0.25), s.set_growth_interval(1)),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_order_of_calls(name):
    def run(T):
        w, optimizer, scaler = _ready(T)
        SEQUENCES[name](optimizer, scaler)
        getters = scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()
        return plain([w, w.grad]), scaler.state_dict(), getters

    same_outcome(run)


def test_float16_gradients_are_refused():
    def run(T):
        w = T.nn.Parameter(T.ones(2, dtype=T.float16))
        optimizer, scaler = T.optim.SGD([w], lr=0.1), T.amp.GradScaler("cpu")
        scaler.scale(T.ones(1))
        w.grad = T.ones(2, dtype=T.float16)
        scaler.step(optimizer)

    same_outcome(run)


def test_bfloat16_and_float64_gradients():
    def run(T):
        params = [T.nn.Parameter(T.ones(3, dtype=d)) for d in (T.bfloat16, T.float64, T.float32)]
        optimizer, scaler = T.optim.SGD(params, lr=0.1), T.amp.GradScaler("cpu", init_scale=3.0)
        scaler.scale(T.ones(1))
        for p in params:
            p.grad = T.tensor([1.0, 2.0, 5.0]).to(p.dtype)
        scaler.unscale_(optimizer)
        return plain([p.grad for p in params])

    same_outcome(run)


def test_save_load_and_pickle():
    def run(T):
        w, optimizer, scaler = _ready(T)
        scaler.step(optimizer)
        scaler.update()
        fresh = T.amp.GradScaler("cpu")
        fresh.load_state_dict(scaler.state_dict())
        copied, pickled = copy.deepcopy(scaler), pickle.loads(pickle.dumps(scaler))
        return [s.state_dict() for s in (scaler, fresh, copied, pickled)]

    same_outcome(run)


def test_custom_function_under_autocast():
    def run(T):
        class Product(T.autograd.Function):
            @staticmethod
            @T.amp.custom_fwd(device_type="cpu", cast_inputs=T.float32)
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                return a @ b

            @staticmethod
            @T.amp.custom_bwd(device_type="cpu")
            def backward(ctx, grad):
                a, b = ctx.saved_tensors
                return grad @ b.t(), a.t() @ grad

        a = T.full((2, 2), 0.5, requires_grad=True)
        with T.autocast("cpu"):
            out = Product.apply(a, a @ a)
        out.sum().backward()
        return plain([out, a.grad])

    same_outcome(run)


# ---------------------------------------------------------------------- own scaling, several optimizers


def _self_scaling(T):
    class Own(T.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            self.seen = plain([self.grad_scale, self.found_inf])
            if not self.found_inf.item():
                for p in self.param_groups[0]["params"]:
                    p.data -= 0.1 * p.grad / (1.0 if self.grad_scale is None else self.grad_scale)

    return Own


@pytest.mark.parametrize("spoil", [False, True])
@pytest.mark.parametrize("before", ["nothing", "unscale", "own scale"])
def test_an_optimizer_that_scales_by_itself(before, spoil):
    def run(T):
        w = T.nn.Parameter(T.tensor([1.0, 2.0]))
        optimizer, scaler = _self_scaling(T)([w], lr=0.1), T.amp.GradScaler("cpu", init_scale=8.0)
        scaler.scale((w * (float("inf") if spoil else 1.0)).sum()).backward()
        if before == "unscale":
            scaler.unscale_(optimizer)
        elif before == "own scale":
            optimizer.grad_scale = T.tensor(2.0)
        scaler.step(optimizer)
        scaler.update()
        return optimizer.seen, plain([w, w.grad]), hasattr(optimizer, "grad_scale"), scaler.state_dict()

    same_outcome(run)


def test_an_optimizer_that_takes_the_scaler():
    def run(T):
        class Own(T.optim.SGD):
            _step_supports_amp_scaling = True

            def step(self, closure=None, *, grad_scaler=None):
                return grad_scaler.get_scale(), plain(
                    grad_scaler._check_inf_per_device(self)[T.device("cpu")]
                )

        w = T.nn.Parameter(T.ones(2))
        optimizer, scaler = Own([w], lr=0.1), T.amp.GradScaler("cpu", init_scale=8.0)
        scaler.scale(w.sum()).backward()
        out = scaler.step(optimizer)
        found = plain(scaler._found_inf_per_device(optimizer)[T.device("cpu")])
        scaler.update()
        return out, found, plain(w.grad), plain(scaler._get_scale_async())

    same_outcome(run)


@pytest.mark.parametrize("spoil", [(), (0,), (1,), (0, 1)])
def test_two_optimizers(spoil):
    """A bad gradient of one skips that one's step only, and the scale backs off once."""

    def run(T):
        params = [T.nn.Parameter(T.ones(2)), T.nn.Parameter(T.ones(3))]
        optimizers = [T.optim.SGD([p], lr=0.5) for p in params]
        scaler = T.amp.GradScaler("cpu", init_scale=16.0)
        losses = [p.sum() * (float("inf") if i in spoil else 1.0) for i, p in enumerate(params)]
        for loss in scaler.scale(losses):
            loss.backward()
        scaler.unscale_(optimizers[1])
        stages = [s["stage"].name for s in scaler._per_optimizer_states.values()]
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        return plain(params), stages, scaler.state_dict(), len(scaler._per_optimizer_states)

    same_outcome(run)


@pytest.mark.parametrize("name", ["unscale and clip", "two optimizers"])
def test_more_inside_a_compiled_step(name):
    def run(T, compile):
        params = [T.nn.Parameter(T.tensor([1.0, -2.0, 3.0])), T.nn.Parameter(T.tensor([2.0]))]
        optimizers = [T.optim.SGD([params[0]], lr=0.1, momentum=0.5), T.optim.AdamW([params[1]], lr=0.1)]
        scaler = T.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)

        def step(a, b):
            for optimizer in optimizers:
                optimizer.zero_grad()
            scaler.scale((params[0] ** 2).sum() * a + (params[1] ** 2).sum() * b).backward()
            for optimizer in optimizers:
                if name == "unscale and clip":
                    scaler.unscale_(optimizer)
                    T.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 0.7)
                scaler.step(optimizer)
            scaler.update()

        run, out, inf = compile(step), [], float("inf")
        for i in range(10):
            run(T.tensor(inf if i in (0, 4, 7) else 1.0), T.tensor(inf if i in (2, 7) else 1.0))
            out += [p.detach().numpy().copy() for p in params] + [np.array(scaler.get_scale())]
        return out + [np.array(scaler._get_growth_tracker())]

    assert distance(run(torch, lambda f: f), run(ft, ft.compile)) < 1e-6


def test_compiled_counting_in_python_is_refused():
    class Own(ft.optim.Optimizer):
        def step(self, closure=None):
            for p in self.param_groups[0]["params"]:
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1

    w = ft.nn.Parameter(ft.ones(2))
    optimizer, scaler = Own([w], {}), ft.amp.GradScaler("cpu")

    @ft.compile
    def step():
        scaler.scale(w.sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    with pytest.raises(NotImplementedError, match="Python numbers"):
        step()


def test_compiled_first_step_with_dampening():
    """Its buffer starts as the first gradient, which a skipped step must not make: refused; later steps are not."""

    def make(T):
        p = T.nn.Parameter(T.tensor([1.0, -2.0]))
        optimizer = T.optim.SGD([p], lr=0.1, momentum=0.5, dampening=0.5)
        scaler = T.amp.GradScaler("cpu", init_scale=4.0)

        def step(factor):
            optimizer.zero_grad()
            scaler.scale((p**2).sum() * factor).backward()
            scaler.step(optimizer)
            scaler.update()

        return step, p, optimizer

    def run(T, compile):
        step, p, optimizer = make(T)
        step(T.tensor(1.0))
        compiled = compile(step)
        for i in range(4):
            compiled(T.tensor(float("inf") if i == 1 else 1.0))
        return [p.detach().numpy(), optimizer.state[p]["momentum_buffer"].numpy()]

    assert distance(run(torch, lambda f: f), run(ft, ft.compile)) < 1e-6
    with pytest.raises(NotImplementedError, match="take the first step outside"):
        ft.compile(make(ft)[0])(ft.tensor(1.0))
