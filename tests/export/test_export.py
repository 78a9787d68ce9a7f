"""``torch.export``: programs give what the modules give, here and in a process that has no code of theirs."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
import warnings
import zipfile
from collections import namedtuple
from pathlib import Path

import jax
import numpy as np
import pytest
import torch as T

import functorch_port as ft
from functorch_port import nn
from functorch_port._dynamo.exc import UserError
from functorch_port.export import Dim, export, load, save

ROOT = Path(__file__).parents[2]
Pair = namedtuple("Pair", "first second")


class Gpt(nn.Module):
    """Token and position embeddings, two ways of attention, and tied weights; a mask as a buffer."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(64, 8)
        self.qkv, self.norm = nn.Linear(8, 24), nn.LayerNorm(8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("mask", ft.tril(ft.ones(64, 64)).bool(), persistent=False)

    def forward(self, x):
        batch, length = x.shape
        h = self.tokens(x) + self.places(ft.arange(length))
        parts = self.qkv(self.norm(h)).split(8, dim=-1)
        q, k, v = (part.view(batch, length, 2, 4).transpose(1, 2) for part in parts)
        scores = (q @ k.transpose(-2, -1)).masked_fill(~self.mask[:length, :length], float("-inf"))
        both = scores.softmax(-1) @ v + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(h + both.transpose(1, 2).reshape(batch, length, 8))


class Several(nn.Module):
    """Nested inputs and outputs, a plain value, and an attribute that is a tensor."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("scale", ft.tensor([1.0, 2.0, 3.0]))
        self.shift = ft.tensor([0.5])

    def forward(self, batch, *, mode="sum"):
        x, (y, n) = batch["x"], batch["rest"]
        out = self.fc(x) * self.scale + self.shift
        return {"out": out, "more": (Pair(y + n, x.t()), [out.argmax(-1)]), "mode": mode, "none": None}


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    )


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)


BATCH, LENGTH = Dim("batch", max=64), Dim("length", max=64)
ROWS = ({0: BATCH},)
BOTH = ({0: BATCH, 1: LENGTH},)
NESTED = {"batch": {"x": {0: BATCH}, "rest": ({0: BATCH}, None)}, "mode": None}


def nested(batch=2):
    return (
        {
            "x": ft.randn(batch, 4),
            "rest": (ft.arange(batch), 2),
        },
    )


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)), ROWS, lambda b, t: (ft.randn(b, 4),)),
    "cnn": (cnn, ROWS, lambda b, t: (ft.randn(b, 1, 8, 8),)),
    "lstm": (lambda: nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True), BOTH, lambda b, t: (ft.randn(b, t, 4),)),
    "encoder": (encoder, BOTH, lambda b, t: (ft.randn(b, t, 8),)),
    "gpt": (Gpt, BOTH, lambda b, t: (ft.randint(0, 11, (b, t)),)),
    "several": (Several, NESTED, lambda b, t: nested(b)),
}  # fmt: skip
KWARGS = {"several": {"mode": "mean"}}
SIZES = ((1, 1), (3, 7), (64, 2))


def made(name):
    make, shapes, inputs = MODELS[name]
    ft.manual_seed(0)
    model = make().eval()
    for buffer in model.buffers():  # statistics that are not 0 and 1
        if buffer.is_floating_point():
            buffer.copy_(ft.rand(buffer.shape) + 0.5)
    kwargs = KWARGS.get(name, {})
    return model, export(model, inputs(2, 5), kwargs, dynamic_shapes=shapes), inputs, kwargs


def arrays(result):
    leaves = ft.utils._pytree.tree_leaves(result)
    return [np.asarray(leaf) if isinstance(leaf, ft.Tensor) else leaf for leaf in leaves]


def assert_same(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want):
        if isinstance(b, np.ndarray):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)
        else:
            assert a == b


CHILD = """
import json, sys
import numpy as np
import functorch_port as torch
folder, found = sys.argv[1], {}
for name in json.loads(sys.argv[2]):
    program = torch.export.load(f"{folder}/{name}.pt2")
    args, kwargs = program.example_inputs
    out = program.module()(*args, **kwargs)
    found[name] = repr(program)
    leaves = torch.utils._pytree.tree_leaves(out)
    np.savez(f"{folder}/{name}.npz", *[np.asarray(x) for x in leaves if isinstance(x, torch.Tensor)])
assert "__main__" in sys.modules and not any(m.startswith("test") for m in sys.modules)
print(json.dumps(found))
"""


def test_programs_give_what_modules_give_here_and_in_a_fresh_process(tmp_path):
    expected, texts = {}, {}
    for name in MODELS:
        model, program, inputs, kwargs = made(name)
        module = program.module()
        with ft.no_grad():
            for size in SIZES:
                args = inputs(*size)
                assert_same(arrays(module(*args, **kwargs)), arrays(model(*args, **kwargs)))
            args, example = program.example_inputs
            expected[name] = [x for x in arrays(model(*args, **example)) if isinstance(x, np.ndarray)]
        assert program.platforms == ("cpu", "cuda", "tpu")
        assert list(module.state_dict()) == list(model.state_dict())
        save(program, tmp_path / f"{name}.pt2")
        texts[name] = repr(program)
    code = [sys.executable, "-c", CHILD, str(tmp_path), json.dumps([*MODELS])]
    done = subprocess.run(code, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == texts
    for name, want in expected.items():
        with np.load(tmp_path / f"{name}.npz") as found:
            assert_same([*found.values()], want)


def test_the_structure_of_results_comes_back():
    model, program, inputs, kwargs = made("several")
    out = program.module()(*inputs(4, 1), **kwargs)
    assert list(out) == ["out", "more", "mode", "none"] and out["mode"] == "mean" and out["none"] is None
    assert isinstance(out["more"], tuple) and out["more"][0]._fields == ("first", "second")
    assert type(program.module()(*inputs(1, 1), **kwargs)["more"][0]) is type(out["more"][0])
    assert not out["out"].requires_grad
    assert set(program.constants) == {"shift"} and set(program.state_dict) == {*model.state_dict()}


@dataclasses.dataclass
class Answer:
    logits: ft.Tensor
    loss: ft.Tensor


def test_dicts_may_have_another_order():
    class Model(nn.Module):
        def forward(self, d, *, scale):
            return d["a"] * 2 + d["b"]["x"] - d["b"]["y"] / scale["r"]

    a, x, y, q, r = (ft.ones(2) * n for n in (1, 5, 3, 1, 3))
    program = export(Model(), ({"a": a, "b": {"x": x, "y": y}},), {"scale": {"q": q, "r": r}}).module()
    assert program({"b": {"y": y, "x": x}, "a": a}, scale={"r": r, "q": q}).tolist() == [6.0, 6.0]
    with pytest.raises(ValueError, match="input tree spec"):
        program({"b": {"y": y, "z": x}, "a": a}, scale={"r": r, "q": q})


def test_dataclasses_are_registered():
    class Net(nn.Module):
        def forward(self, x):
            return Answer(x + 1, x.sum())

    with pytest.raises(RuntimeError, match=r"Answer'> in output, which is not a known type"):
        export(Net(), (ft.ones(2),))
    ft.export.register_dataclass(Answer, serialized_type_name="test.Answer")
    file = io.BytesIO()
    save(export(Net(), (ft.ones(2),)), file)
    out = load(file).module()(ft.ones(2))
    assert isinstance(out, Answer) and out.loss.item() == 2


# ------------------------------------------------------------------ as PyTorch


def twins():
    """The same module in both libraries."""
    found = []
    for torch in (ft, T):

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(4, 3)
                self.register_buffer("count", torch.zeros(3))
                self.register_buffer("fixed", torch.ones(3), persistent=False)
                self.bn = torch.nn.BatchNorm1d(3)
                self.tied, self.extra = self.fc, torch.ones(3)

            def forward(self, x, *, y=None):
                self.count.add_(1)
                return self.bn(self.tied(x)) + self.fixed + self.extra + y

        found.append(Net())
    ours, theirs = found
    ours.load_state_dict({k: ft.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    return found


def exported_twins():
    made = []
    for torch, model in zip((ft, T), twins()):
        shapes = {"x": {0: torch.export.Dim("batch", max=64)}, "y": None}
        made.append(
            torch.export.export(model, (torch.ones(4, 4),), {"y": torch.ones(3)}, dynamic_shapes=shapes)
        )
    return made


def test_the_signature_is_pytorchs():
    ours, theirs = exported_twins()
    a, b = ours.graph_signature, theirs.graph_signature
    assert [*map(str, a.input_specs)] == [*map(str, b.input_specs)]
    for name in ("parameters", "buffers", "user_inputs", "inputs_to_parameters", "inputs_to_buffers"):
        assert dict(enumerate(getattr(a, name))) == dict(enumerate(getattr(b, name)))
    assert a.non_persistent_buffers == {*b.non_persistent_buffers}
    with warnings.catch_warnings(action="ignore"):
        written = theirs.run_decompositions({}).graph_signature.buffers_to_mutate
    assert {*a.buffers_to_mutate.values()} == {*written.values()}
    assert list(ours.state_dict) == list(theirs.state_dict) and set(ours.constants) == set(theirs.constants)
    assert [n for n, _ in ours.named_buffers()] == [n for n, _ in theirs.named_buffers()]


def test_training_mode_and_buffers_are_pytorchs():
    ours, theirs = exported_twins()
    a, b = ours.module(), theirs.module()
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((5, 4), np.float32)
        with T.no_grad():
            want = b(T.from_numpy(x), y=T.ones(3))
        got = a(ft.from_numpy(x), y=ft.ones(3))
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)
    for name, value in theirs.state_dict.items():
        np.testing.assert_allclose(ours.state_dict[name].detach().numpy(), value.detach().numpy(), rtol=1e-5)
    for call in ("train", "eval"):
        with pytest.raises(NotImplementedError) as found:
            getattr(a, call)()
        with pytest.raises(NotImplementedError) as known:
            getattr(b, call)()
        assert str(found.value) == str(known.value)


def messages(call):
    """The errors of both libraries for the same call."""
    found = []
    for torch, program in zip((ft, T), exported_twins()):
        with pytest.raises(Exception) as error:
            call(torch, program)
        found.append((type(error.value).__name__, str(error.value)))
    return found


CALLS = {
    "too large": lambda torch, p: p.module()(torch.ones(65, 4), y=torch.ones(3)),
    "wrong size": lambda torch, p: p.module()(torch.ones(4, 5), y=torch.ones(3)),
    "no keyword": lambda torch, p: p.module()(torch.ones(4, 4)),
    "a list": lambda torch, p: p.module()([torch.ones(4, 4)], y=torch.ones(3)),
    "called": lambda torch, p: p(torch.ones(4, 4)),
    "no module": lambda torch, p: torch.export.export(len, (torch.ones(2),)),
    "no tuple": lambda torch, p: torch.export.export(torch.nn.ReLU(), [torch.ones(2)]),
    "no program": lambda torch, p: torch.export.save(torch.nn.ReLU(), io.BytesIO()),
    "no dim": lambda torch, p: dims(torch, {0: "batch"}),
    "a short list": lambda torch, p: dims(torch, (3,)),
    "a number": lambda torch, p: dims(torch, 3),
    "out of range": lambda torch, p: dims(torch, {0: torch.export.Dim("batch", min=9)}),
    "static": lambda torch, p: dims(torch, {0: 9}),
    "empty range": lambda torch, p: torch.export.Dim("batch", min=5, max=2),
    "no name": lambda torch, p: torch.export.Dim("1b"),
    "quotient": lambda torch, p: 1 - torch.export.Dim("batch"),
    "product": lambda torch, p: torch.export.Dim("batch") * -1,
}


def dims(torch, spec):
    return torch.export.export(torch.nn.ReLU(), (torch.ones(4, 4),), dynamic_shapes=(spec,))


@pytest.mark.parametrize("name", CALLS)
def test_errors_begin_as_pytorchs(name):
    (ours, text), (theirs, known) = messages(CALLS[name])
    ours = {"UserError": "UserError", "ConstraintViolationError": "UserError"}.get(ours, ours)
    assert ours == {"ConstraintViolationError": "UserError"}.get(theirs, theirs)
    begin = {"a list": 60, "static": 57, "out of range": 26}.get(name, min(len(text), len(known), 90))
    if name == "wrong size":
        known = known.replace("x.size()[1] == 4", "x.size()[1] == 4;")
        begin = 30
    assert text[:begin].split() == known[:begin].split()


class Counts(nn.Module):
    """Looks things up, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 2)
        self.register_buffer("calls", ft.zeros(()))

    def forward(self, x, rows):
        self.calls.add_(1)
        return self.table(x) + self.table.weight[rows].sum()


def test_values_are_checked_as_in_eager_mode():
    model = Counts().eval()
    good = (ft.tensor([1, 4]), ft.tensor([-5, 0]))
    for shapes in (None, ({0: Dim("n")}, {0: Dim("m")})):
        file = io.BytesIO()
        save(export(model, good, dynamic_shapes=shapes), file)
        module = load(file).module()
        for at, bad in ((0, 5), (0, -1), (1, 5), (1, -6)):
            wrong = [t.clone() for t in good]
            wrong[at][1] = bad
            with pytest.raises(IndexError) as found:
                module(*wrong)
            with pytest.raises(IndexError) as known:
                model(*wrong)
            assert re.fullmatch(re.escape(str(found.value)).replace(r"\?", "-?[0-9]+"), str(known.value))
        module(*good)
        assert module.calls.item() == 1  # a call that fails leaves buffers alone
        model.calls.zero_()
    longer = export(nn.Embedding(64, 2), (ft.arange(3),), dynamic_shapes=({0: Dim("t")},)).module()
    with pytest.raises(IndexError, match="index out of range in self"):
        longer(ft.arange(65))  # and JAX would take the last one


# ------------------------------------------------------------------ sizes


class Halves(nn.Module):
    def forward(self, x):
        return x[: x.shape[0] // 2]


class Sum(nn.Module):
    def forward(self, x, y):
        return x + y


class Longer(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] > 5 else x


class Many(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] != 1 else x


def test_sizes_that_follow_from_others():
    module = export(Halves(), (ft.ones(4),), dynamic_shapes=({0: 2 * Dim("half")},)).module()
    assert module(ft.arange(10.0)).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(AssertionError, match=r"x.size\(\)\[0\] == 2\*half"):
        module(ft.ones(3))
    batch = Dim("batch")
    module = export(
        Sum(), (ft.ones(3), ft.ones(4)[1:]), dynamic_shapes=({0: batch + 1}, {0: batch + 1})
    ).module()
    assert module(ft.ones(5), ft.ones(5)).tolist() == [2] * 5
    with pytest.raises(AssertionError, match=r"y.size\(\)\[0\] == batch \+ 1; y has shape \[4\]"):
        module(ft.ones(5), ft.ones(4))


def test_automatic_sizes():
    auto = ({0: Dim.AUTO, 1: Dim.AUTO},)
    program = export(nn.Linear(4, 2), (ft.ones(3, 4),), dynamic_shapes=auto)
    assert program.inputs[0].shape == ((1, "s0", 0), 4)
    program = export(Sum(), (ft.ones(4), ft.ones(4)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))
    assert program.module()(ft.ones(9), ft.ones(9)).shape == (9,)
    with pytest.raises(AssertionError, match=r"y.size\(\)\[0\] == x.size\(\)\[0\]"):
        program.module()(ft.ones(3), ft.ones(2))
    with pytest.raises(UserError, match="the test s0 > 5 has another answer"):
        export(Longer(), (ft.ones(4),), dynamic_shapes=({0: Dim.DYNAMIC},))


def test_what_does_not_hold_for_all_sizes_is_refused():
    with pytest.raises(UserError, match=r"Constraints violated \(b\)! .* \(b in \[1, int_oo\]\): .* range"):
        export(Longer(), (ft.ones(4),), dynamic_shapes=({0: Dim("b")},))
    program = export(Longer(), (ft.ones(4),), dynamic_shapes=({0: Dim("b", max=5)},))
    assert program.module()(ft.ones(5)).tolist() == [1] * 5
    program = export(Many(), (ft.ones(4),), dynamic_shapes=({0: Dim("b")},))
    assert (
        str(program.range_constraints) == "{'b': VR[2, int_oo]}"
    )  # as in PyTorch, which never takes 1 for b
    with pytest.raises(AssertionError, match=r"x.size\(\)\[0\] >= 2"):
        program.module()(ft.ones(1))
    with pytest.raises(UserError, match="the test b != 1 has another answer"):
        export(Many(), (ft.ones(4),), dynamic_shapes=({0: Dim("b", min=1)},))
    with pytest.raises(UserError, match="the test t > 64 has another answer"):
        export(
            Gpt().eval(),
            (ft.zeros(2, 5, dtype=ft.int64),),
            dynamic_shapes=({0: Dim("b"), 1: Dim("t")},),
        )
    with pytest.raises(RuntimeError, match="mat1 and mat2") as error:
        export(nn.Linear(4, 2), (ft.ones(3, 4),), dynamic_shapes=({1: Dim("wide")},))
    assert "symbols for the sizes that may change: wide" in " ".join(error.value.__notes__)


# ------------------------------------------------------------------ what is refused


class Draws(nn.Module):
    def forward(self, x):
        return ft.rand(3) + x


class Writes(nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = ft.zeros(3)

    def forward(self, x):
        self.last = x + 1
        return self.last


class WritesConstant(nn.Module):
    def __init__(self):
        super().__init__()
        self.total = ft.zeros(3)

    def forward(self, x):
        self.total.add_(x)
        return x * 2


class Parameters(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(ft.ones(2, 3).t())

    def forward(self, x):
        return x @ self.w


class Size(nn.Module):
    def forward(self, x):
        return x, x.shape[0]


class Eigenvalues(nn.Module):
    def forward(self, x):
        return ft.linalg.eigvals(x)


REFUSED = {
    "random numbers": (lambda: export(nn.Dropout(), (ft.ones(3),)), r"draws random numbers.*module\.eval\(\)"),
    "random state": (lambda: export(Draws(), (ft.ones(3),)), "draws random numbers"),
    "an argument": (lambda: export(Writes(), (ft.ones(3),)), r"writes to one of its arguments"),
    "an attribute": (lambda: export(Keeps(), (ft.ones(3),)), "export: .*kept in a Python object"),
    "a constant": (lambda: export(WritesConstant(), (ft.ones(3),)), "writes to total, which is no buffer"),
    "a view": (lambda: export(Parameters(), (ft.ones(3),)), r"w is a view.*contiguous\(\)\.clone\(\)"),
    "another format": (
        lambda: export(nn.Conv2d(3, 4, 3).to(memory_format=ft.channels_last), (ft.ones(1, 3, 4, 4),)),
        "weight is a view.*contiguous_format",
    ),
    "another platform": (lambda: export(Eigenvalues(), (ft.ones(3, 3),)), r"cpu, cuda, tpu: .*'eig'.*platforms="),
    "a compiled module": (lambda: export(ft.compile(nn.ReLU()), (ft.ones(3),)), "export the module itself"),
    "a size": (lambda: export(Size(), (ft.ones(3),), dynamic_shapes=({0: Dim("b")},)), "returns the size b"),
    "strict": (lambda: export(nn.ReLU(), (ft.ones(3),), strict=True), r"export\(strict=True\)"),
    "signatures": (lambda: export(nn.ReLU(), (ft.ones(3),), preserve_module_call_signature=("a",)), "leave it out"),
    "a graph": (lambda: export(nn.ReLU(), (ft.ones(3),)).graph_module, r"no FX graph.*mlir_module"),
    "a table": (lambda: export(nn.ReLU(), (ft.ones(3),)).run_decompositions({1: 2}), "without a table"),
    "other files": (lambda: save(export(nn.ReLU(), (ft.ones(3),)), io.BytesIO(), extra_files={}), "extra_files"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_refused(name):
    call, text = REFUSED[name]
    with pytest.raises(NotImplementedError, match=text):
        call()


def test_other_wrong_arguments():
    x = ft.ones(3)
    with pytest.raises(UserError, match="the same Tensor is given twice"):
        export(Sum(), (x, x))
    with pytest.raises(ValueError, match="Unsupported input type <class 'object'>"):
        export(Sum(), (x, object()))
    with pytest.raises(ValueError, match="platforms must be some of cpu, cuda, tpu"):
        export(nn.ReLU(), (x,), platforms=("gpu",))
    with pytest.raises(ValueError, match="weight is on the meta device"):
        export(nn.Linear(3, 2, device="meta"), (x,))
    with pytest.raises(ValueError, match="'beside' or 'inside'"):
        export(nn.ReLU(), (x,), weights="away")
    module = export(nn.ReLU(), (x,)).module()
    for bad, text in (
        (x.double(), "dtype == torch.float32; it is torch.float64"),
        (ft.ones(3, 1), r"dim\(\) == 1; input has shape \[3, 1\]"),
        ("text", "is a Tensor; it is 'text'"),
    ):
        with pytest.raises(AssertionError, match=text):
            module(bad)


# ------------------------------------------------------------------ programs and files


def test_the_program_is_jaxs():
    model = nn.Linear(4, 2)
    x = ft.randn(3, 4)
    for weights, count in (("beside", 2), ("inside", 0)):
        program = export(model, (x,), weights=weights, platforms=("cpu",))
        state = {name: t.detach().jax() for name, t in program.state_dict.items()}
        assert len(state) == count and "stablehlo.dot_general" in program.mlir_module()
        (out,), new, flags = jax.jit(program.exported.call)(state, [x.jax()])
        np.testing.assert_allclose(out, model(x).detach().numpy(), rtol=1e-6)
        assert new == {} and flags == []
    lowered = jax.export.export(jax.jit(export(model, (x,)).exported.call), platforms=["tpu"])
    assert lowered({n: t.detach().jax() for n, t in model.state_dict().items()}, [x.jax()]).platforms == (
        "tpu",
    )


def test_weights_can_be_replaced():
    model, program, inputs, _ = made("gpt")
    module = program.module()
    assert module.head.weight is module.tokens.weight is model.tokens.weight
    ft.manual_seed(1)
    other = Gpt().eval()
    module.load_state_dict(other.state_dict())
    args = inputs(2, 3)
    with ft.no_grad():
        assert_same(arrays(module(*args)), arrays(other(*args)))
    file = io.BytesIO()
    save(program, file)
    loaded = load(file).module()
    assert loaded.head.weight is loaded.tokens.weight and loaded.head.weight.requires_grad
    assert "mask" not in loaded.state_dict() and loaded.mask.dtype == ft.bool


def test_dtypes_survive_the_file():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            for k, dtype in enumerate((ft.bfloat16, ft.float16, ft.float64, ft.int8, ft.bool, ft.complex64)):
                self.register_buffer(f"b{k}", (ft.ones(2) * 3).to(dtype))
            self.register_buffer("scalar", ft.tensor(7))

        def forward(self, x):
            return [b + x for b in self.buffers()]

    net, file = Net(), io.BytesIO()
    save(export(net, (ft.ones(2, dtype=ft.int64),)), file)
    got, want = load(file).module()(ft.ones(2, dtype=ft.int64)), net(ft.ones(2, dtype=ft.int64))
    assert [(t.dtype, t.tolist()) for t in got] == [(t.dtype, t.tolist()) for t in want]


def test_damaged_and_foreign_files_are_told(tmp_path):
    path = tmp_path / "a.pt2"
    save(export(nn.Linear(4, 2), (ft.ones(3, 4),)), path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for cut in (0, 3, 100, len(data) // 2, len(data) - 30):
        with pytest.raises(RuntimeError, match="is no exported program|cut off|damaged"):
            load(io.BytesIO(data[:cut]))
    for _ in range(60):  # each is told, or did not matter
        bad = bytearray(data)
        bad[rng.integers(len(bad))] ^= 1 << int(rng.integers(8))
        try:
            load(io.BytesIO(bytes(bad)))
        except RuntimeError as error:
            assert str(error)
    T.export.save(T.export.export(T.nn.ReLU(), (T.ones(2),)), tmp_path / "theirs.pt2")
    ft.save({"a": 1}, tmp_path / "x.pt")
    (tmp_path / "text").write_text("hello")
    for name, text in (
        ("theirs.pt2", "is an exported program of PyTorch.*export the module with this library"),
        ("x.pt", "written by torch.save: use torch.load"),
        ("text", "is no exported program: those are zip archives"),
    ):
        with pytest.raises(RuntimeError, match=text):
            load(tmp_path / name)
    with pytest.raises(RuntimeError, match=r"is an exported program: use torch.export.load"):
        ft.load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.pt2")
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        save(load(path), tmp_path / "no" / "a.pt2")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda about: about.update(version=2), "version 2 of the format.*reads version 1"),
        (lambda about: about.update(format="other"), "has the format 'other'"),
        (lambda about: about.pop("inputs"), r"damaged: its format.json is not valid \('inputs'\)"),
        (lambda about: about["tensors"][0].update(shape=[99]), "tensors/0 has 32 bytes, not 396"),
        (lambda about: about["state"][0].update(kind="NONE"), "damaged"),
    ],
)
def test_wrong_descriptions_are_told(change, text):
    file, new = io.BytesIO(), io.BytesIO()
    save(export(nn.Linear(4, 2), (ft.ones(3, 4),)), file)
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(new, "w") as archive:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("format.json"):
                about = json.loads(content)
                change(about)
                content = json.dumps(about).encode()
            archive.writestr(name, content)
    with pytest.raises(RuntimeError, match=text):
        load(new)
