"""The examples run, and train compiled here to the losses that PyTorch's eager mode has."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import chex
import numpy as np
import pytest
import torch
from both import EXAMPLES, FOLDER, source

import functorch_port as ft

ROOT = Path(__file__).parent.parent
STEPS = 30

#: example -> options that make its thirty steps cheap
TINY = {
    "resnet": "--width 2 --blocks 1 --batch-size 8",
    "unet": "--width 2 --batch-size 2 --pictures 50",
    "lstm_lm": "--width 12 --batch-size 4 --length 6",
    "translation": "--width 8 --layers 1 --batch-size 4",
    "gpt": "--width 8 --heads 2 --layers 2 --context 8 --batch-size 4",
    "generate": "--width 8 --heads 2 --layers 1 --context 15 --batch-size 4 --tokens 4",
    "vae": "--width 16 --latent 2 --batch-size 10",
    "gan": "--width 16 --noise 4 --batch-size 16",
    "siamese": "--width 4 --batch-size 8",
    "graph_network": "--nodes 200 --width 8",
    "actor_critic": "--width 8 --carts 4 --moves 8",
}

# float64 bounds the difference of orders of additions, which 30 steps amplify; FLOAT32_EXAMPLES=1 adds float32
TOLERANCES = {"float64": 1e-8}
if os.environ.get("FLOAT32_EXAMPLES") == "1":
    TOLERANCES["float32"] = 1e-3


def load(name, library):
    """An example as a module that uses ``library``."""
    module = ModuleType(f"{name}_with_{library}")
    sys.modules[module.__name__] = module  # PyTorch's while_loop imports it by name
    exec(compile(source(name, library), str(FOLDER / f"{name}.py"), "exec"), module.__dict__)
    return module


@pytest.fixture(params=TOLERANCES)
def precision(request):
    for library in (torch, ft):
        library.set_default_dtype(getattr(library, request.param))
    yield request.param
    for library in (torch, ft):
        library.set_default_dtype(library.float32)


def test_every_example_is_in_the_table():
    apart = {
        "both",
        "digits_cnn",
        "gpt_pod",
        "language_models",
        "plan_gpt",
        "resume",
        "trainer",
        "tutorial_style",
    }
    assert set(EXAMPLES) == set(TINY) == {path.stem for path in FOLDER.glob("*.py")} - apart


@pytest.mark.parametrize("name", TINY)
def test_compiled_training_is_torchs(name, precision, monkeypatch, capsys):
    options = ["--steps", str(STEPS), *TINY[name].split()]
    want = load(name, "torch").main([*options, "--eager"])
    assert np.isfinite(want).all() and len(want) in (STEPS, 2 * STEPS)
    compile, made = ft.compile, []

    def at_most_two_traces(fn):
        made.append(compile(chex.assert_max_traces(fn, n=2)))
        return made[-1]

    monkeypatch.setattr(ft, "compile", at_most_two_traces)
    chex.clear_trace_counter()
    got = load(name, "functorch_port").main(options)
    tolerance = TOLERANCES[precision]
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance if precision == "float64" else 1e-5)
    assert made and all(1 <= step.traces <= 2 for step in made)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("loss") or "; loss" in line for line in lines)


SAMPLING = {"likeliest": "--top-k 1", "hot": "--temperature 2 --top-k 5 --seed 1"}


@pytest.mark.parametrize("options", SAMPLING.values(), ids=SAMPLING)
def test_both_loops_write_torchs_text(options, capsys):
    options = [*TINY["generate"].split(), "--steps", "2", *options.split()]
    written = []
    for library in (torch, ft):
        load("generate", library.__name__).main([*options, *(["--eager"] if library is torch else [])])
        *text, _, last = [line for line in capsys.readouterr().out.splitlines() if "100%" not in line]
        written.append("\n".join(text))
        assert written[-1].startswith("The Python ") and last.startswith("the same 4 characters")
    assert written[0] == written[1] and len(written[0]) == 15


def test_another_text_is_an_error():
    example = load("generate", "functorch_port")
    static = example.static
    example.static = lambda model, text, noise, *how: static(model, text, noise.flip(1), *how)
    with pytest.raises(SystemExit) as done:
        example.main([*TINY["generate"].split(), "--steps", "1", "--eager"])
    assert str(done.value).startswith("the loop with the cache wrote another text")


@pytest.mark.parametrize("name", TINY)
def test_help(name, capsys):
    with pytest.raises(SystemExit) as done:
        load(name, "torch").main(["--help"])
    text = capsys.readouterr().out
    assert done.value.code == 0 and "--steps" in text and "--eager" in text


def test_demo(tmp_path):
    script = ROOT / "examples" / "digits_cnn.py"
    options = ["--epochs", "1", "--eager-steps", "2", "--batch-size", "256", "--out", str(tmp_path)]
    settings = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, str(script), *options], capture_output=True, text=True, env=settings
    )
    assert done.returncode == 0, done.stderr
    for said in (
        "1,199,882 parameters",
        "held-out accuracy",
        "eager step",
        "compiled step",
        "digits_cnn.png",
    ):
        assert said in done.stdout
    saved = ft.load(tmp_path / "digits_cnn.pt")
    assert sum(tensor.numel() for tensor in saved["model"].values()) == 1_199_882
    assert len(saved["optimizer"]["state"]) == 8
    assert (tmp_path / "digits_cnn.png").read_bytes()[:4] == b"\x89PNG"


def test_the_run_that_may_be_stopped(tmp_path, monkeypatch):
    example = load("resume", "functorch_port")
    options = "--epochs 2 --batch-size 500 --width 2 --every 2 --eager --out"
    count = example.Checkpoints.after_step

    def breaks(self, **notes):
        count(self, **notes)
        if self.step == 5:
            raise KeyboardInterrupt

    try:
        whole = example.main([*options.split(), str(tmp_path / "whole")])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(example.Checkpoints, "after_step", breaks)
            example.main([*options.split(), str(tmp_path / "run")])
        assert example.main([*options.split(), str(tmp_path / "run")]) == whole and len(whole) == 6
    finally:
        ft.use_deterministic_algorithms(False)
    assert (tmp_path / "run" / "best.pt").exists() and (tmp_path / "run" / "resume.png").exists()


def test_the_trainer_goes_on_and_stops_early(tmp_path, monkeypatch, capsys):
    example = load("trainer", "functorch_port")
    options = "--epochs 2 --batch-size 300 --width 2 --clip 0.5 --accumulate 3 --eager --out"
    log = example.Trainer.log

    def breaks(self, **entry):
        log(self, **entry)
        raise KeyboardInterrupt

    ft.use_deterministic_algorithms(True)
    try:
        whole = example.main([*options.split(), str(tmp_path / "whole")])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(example.Trainer, "log", breaks)
            example.main([*options.split(), str(tmp_path / "run")])
        assert whole[:4] + example.main([*options.split(), str(tmp_path / "run")]) == whole
        assert len(whole) == 8
        again = example.main(
            [*options.split(), str(tmp_path / "more"), "--epochs", "6", "--lr", "0", "--patience", "2"]
        )
        assert len(again) == 3 * 4  # the first pass is the best, and the next two are not
        for other, error in (("--epochs 3", "other --epochs"), ("--epochs 0", 2), ("--batch-size 2000", 2)):
            with pytest.raises(SystemExit) as caught:
                example.main([*options.split(), str(tmp_path / "run"), *other.split()])
            assert caught.value.code == error or error in caught.value.code
    finally:
        ft.use_deterministic_algorithms(False)
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert len((FOLDER / "trainer.py").read_text().splitlines()) <= 200
