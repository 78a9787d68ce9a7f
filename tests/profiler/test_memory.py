"""`memory_breakdown` beside bytes counted by hand."""

from __future__ import annotations

import pytest

import functorch_port as ft
from functorch_port import nn
from functorch_port.profiler import memory_breakdown

BATCH = 32


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.head = nn.Conv2d(16, 10, 8)

    def forward(self, x):
        return self.head(self.conv(x).relu()).mean((2, 3))


CONV, HEAD = 4 * (16 * 3 * 9 + 16), 4 * (10 * 16 * 64 + 10)
PARAMETERS = CONV + HEAD
IMAGES, FEATURES, LOGITS = 4 * BATCH * 3 * 64, 4 * BATCH * 16 * 64, 4 * BATCH * 10
LABELS = 8 * BATCH


def training(**options):
    model = Net()
    optimizer = ft.optim.AdamW(model.parameters(), **options)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, ft.randn(BATCH, 3, 8, 8), ft.randint(0, 10, (BATCH,))


def test_an_eager_step() -> None:
    found = memory_breakdown(*training())
    begins, after, end = found.moments.values()
    assert list(found.moments) == ["when backward begins", "after backward", "after the step"]
    assert begins["parameters"] == after["parameters"] == end["parameters"] == PARAMETERS
    assert begins["gradients"] == 0 and after["gradients"] == end["gradients"] == PARAMETERS
    counts = 4 * 4  # of steps, for each parameter
    assert begins["optimizer state"] == 0 and end["optimizer state"] == 2 * PARAMETERS + counts
    # relu keeps what conv gives, head what relu gives, mean what head gives, and the loss the logits
    assert begins["activations"] == pytest.approx(2 * FEATURES + 2 * LOGITS, abs=64)
    assert after["activations"] == end["activations"] == 0
    assert begins["inputs"] == IMAGES + LABELS
    assert found["activations"] == begins["activations"]
    assert found.total == max(moment.total() for moment in found.moments.values())
    assert found.modules["model/head"]["parameters"] == found.modules["model/head"]["gradients"] == HEAD
    assert found.modules["model/conv"]["optimizer state"] == 2 * CONV + 2 * 4
    assert found.modules["model/head"]["activations"] == FEATURES
    assert (
        found.modules["model"]["activations"] == FEATURES + LOGITS
    )  # of relu and mean, which it calls itself


def test_what_is_not_the_steps_is_left_out() -> None:
    others = [ft.ones(1000, 1000), training()[0]]
    found = memory_breakdown(*training())
    assert found["parameters"] == PARAMETERS and found["other"] < FEATURES
    assert len(others) == 2


def test_a_compiled_step() -> None:
    step, *args = training()
    compiled = ft.compile(step)
    found = memory_breakdown(compiled, *args)
    (call,) = found.moments.values()
    assert call["parameters"] == call["gradients"] == PARAMETERS
    assert call["optimizer state"] in (2 * PARAMETERS + 4, 2 * PARAMETERS + 16)  # the counts may be one array
    assert call["inputs"] == pytest.approx(IMAGES + LABELS, abs=64)  # and numbers such as the learning rate
    analysis = compiled.programs()[0].lower().compile().memory_analysis()
    assert call["temporary"] == found.xla["temporary"] == analysis.temp_size_in_bytes > 0
    assert found.modules["model/head"]["parameters"] == HEAD
    assert found.estimates.total() >= FEATURES


def test_gradients_that_a_compiled_step_does_not_keep() -> None:
    step, *args = training()
    found = memory_breakdown(ft.compile(step, keep_grads=False), *args)
    assert found["gradients"] == 0 and found["parameters"] == PARAMETERS


def test_a_compiled_model_in_an_eager_step() -> None:
    model = Net()
    compiled = ft.compile(model)
    x = ft.randn(BATCH, 3, 8, 8)
    found = memory_breakdown(lambda x: compiled(x).sum().backward(), x)
    assert found["parameters"] == found["gradients"] == PARAMETERS and found["inputs"] == IMAGES
    assert FEATURES <= found["activations"] <= 4 * FEATURES  # what XLA's program keeps, measured
    assert found.moments["after the step"]["activations"] == 0


def test_what_a_function_saves_and_what_was_there_before() -> None:
    class Square(ft.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0]

    earlier = ft.randn(1000, requires_grad=True).exp()  # a graph of before
    w = nn.Parameter(ft.randn(500))
    found = memory_breakdown(lambda: Square.apply(w * 2).sum().backward())
    begins = found.moments["when backward begins"]
    assert begins["parameters"] == 4 * 500
    assert begins["activations"] == pytest.approx(
        2 * 4 * 500, abs=64
    )  # its input, and its result that sum keeps
    assert earlier.grad_fn is not None


def test_the_step_has_run_once() -> None:
    step, *args = training()
    losses = []
    memory_breakdown(lambda *given: losses.append(step(*given).item()), *args)
    assert len(losses) == 1
    assert memory_breakdown(lambda *given: losses.append(step(*given).item()), *args)[
        "gradients"
    ]  # and again
    assert losses[1] < losses[0]


def test_a_step_that_raises_leaves_nothing_behind() -> None:
    with pytest.raises(ValueError, match="mine"):
        memory_breakdown(lambda: (_ for _ in ()).throw(ValueError("mine")))
    assert not ft.autograd._profiler_enabled()


def test_within_a_profile_it_is_refused_and_leaves_no_hooks() -> None:
    model, x = nn.Linear(3, 2), ft.ones(1, 3)
    measures = (
        lambda: memory_breakdown(lambda: model(x)),
        lambda: ft.viz.summary(model, x),
        lambda: ft.utils.flop_counter.FlopCounterMode().__enter__(),
    )
    with ft.profiler.profile():
        for measure in measures:
            with pytest.raises(RuntimeError, match="already enabled"):
                measure()
    hooks = nn._hooks.globals_
    assert not (model._forward_hooks or model._forward_pre_hooks or hooks.forward or hooks.forward_pre)


def test_table_and_picture(tmp_path) -> None:
    found = memory_breakdown(*training())
    text = str(found)
    assert "optimizer state" in text and "model/conv" in text and f"{PARAMETERS / 1024:.2f} KiB" in text
    assert "... and 3 more" in found.table(modules=1)
    found.plot(tmp_path / "memory.png")
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
