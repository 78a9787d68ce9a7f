"""`examples/gpt_pod.py`: PyTorch's losses from the same seed, runs that go on, Hugging Face's files."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import functorch_port as ft

pytest.importorskip("grain")
for folder in ("examples", "benchmarks"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

import gpt_pod
import language_models
import pod_program

SIZES = {
    "gpt2": language_models.Config(width=16, layers=3, heads=2, kv_heads=2, hidden=64, context=12),
    "llama": language_models.Config("llama", 256, 12, 16, 3, 4, 2, 40, tied=False),
    "llama, tied": language_models.Config(
        "llama", 256, 12, 16, 2, 4, 4, 40, tied=True, rope=(8.0, 1.0, 4.0, 8)
    ),
    "mixtral": language_models.Config("mixtral", 256, 12, 16, 2, 4, 2, 40, tied=False, experts=4, chosen=2),
}
TINY = "--batch 4 --length 12 --eval-batches 1 --log-every 1 --warmup 2 --out".split()


@pytest.fixture(params=SIZES)
def size(request, monkeypatch):
    monkeypatch.setitem(language_models.SIZES, "gpt2-tiny", SIZES[request.param])
    return SIZES[request.param]


def losses_of(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    names = ("loss", "gradient_norm", "lr", "loss_on_unseen")
    return [(line["step"], *(line.get(name) for name in names)) for line in lines]


def test_losses_are_torchs(size, tmp_path, monkeypatch):
    jobs, initialise = [], gpt_pod.Job.initialise
    monkeypatch.setattr(
        gpt_pod.Job, "initialise", lambda job, seed: (jobs.append(job), initialise(job, seed))
    )
    pieces = gpt_pod.Pieces(gpt_pod.manual(tmp_path), size.context)
    given = [(size, gpt_pod.batches(pieces, 4, 1), 8, 3e-4, 3) for _ in range(2)]
    wide = size.kind != "mixtral"  # PyTorch's grouped products are of 32 bits at most
    for library in (torch, ft):
        library.set_default_dtype(library.float64 if wide else library.float32)
    try:
        want = pod_program.by_torch(*given[0])
        got = pod_program.by_the_job(*given[1], remat=True, accumulate=1 if size.kind == "gpt2" else 2)
    finally:
        for library in (torch, ft):
            library.set_default_dtype(library.float32)
    assert len(want) == 8
    np.testing.assert_allclose(got, want, rtol=1e-9 if wide else 2e-5)
    (job,) = jobs
    assert sum(p.numel() for p in job.model.parameters()) == size.parameters
    assert job.step.traces <= 2


@pytest.mark.parametrize("size", ["llama"], indirect=True)
def test_a_run_that_is_broken_off_or_stopped_goes_on(size, tmp_path, monkeypatch):
    options = ["--steps", "6", "--save-every", "2", "--eval-every", "3", *TINY]
    whole = gpt_pod.main([*options, str(tmp_path / "whole")])
    log, must_stop = gpt_pod.Run.log, gpt_pod.Run.must_stop

    def breaks(self, step, **numbers):
        log(self, step, **numbers)
        if step == 5:
            raise KeyboardInterrupt

    for name in ("broken", "stopped"):
        with monkeypatch.context() as patch:
            if name == "broken":
                patch.setattr(gpt_pod.Run, "log", breaks)
                with pytest.raises(KeyboardInterrupt):
                    gpt_pod.main([*options, str(tmp_path / name)])
            else:
                patch.setattr(gpt_pod.Run, "must_stop", lambda self, step: step == 3 or must_stop(self, step))
                assert [*gpt_pod.main([*options, str(tmp_path / name)])] == [1, 2, 3]
        rest = gpt_pod.main([*options, str(tmp_path / name)])
        first = {"broken": 5, "stopped": 4}[name]
        assert rest == {step: loss for step, loss in whole.items() if step >= first}
        assert {*losses_of(tmp_path / name)} == {*losses_of(tmp_path / "whole")}


#: the names that Hugging Face's libraries give to one layer and what is around it, without "transformer." in old files
THEIRS = {
    "gpt2": [
        "transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f.weight", "transformer.ln_f.bias",
        *(f"transformer.h.{i}.{part}.{kind}" for i in range(3) for kind in ("weight", "bias")
          for part in ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")),
    ],
    "llama": [
        "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
        *(f"model.layers.{i}.{part}.weight" for i in range(3)
          for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                       "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm")),
    ],
}  # fmt: skip
THEIRS["mixtral"] = [
    *(name for name in THEIRS["llama"] if ".mlp." not in name and ".layers.2." not in name),
    *(f"model.layers.{i}.block_sparse_moe.gate.weight" for i in range(2)),
    *(
        f"model.layers.{i}.block_sparse_moe.experts.{j}.w{k}.weight"
        for i in range(2)
        for j in range(4)
        for k in (1, 2, 3)
    ),
]


def test_files_are_hugging_faces(size, tmp_path):
    from safetensors.numpy import load_file

    folder = tmp_path / "weights"
    gpt_pod.main(["--steps", "1", *TINY, str(tmp_path / "run"), "--save-weights", str(folder)])
    assert language_models.read_config(folder) == size
    found = load_file(folder / "model.safetensors")
    want = {*THEIRS[size.kind]} - {"lm_head.weight" if size.tied else ""}
    if not size.tied or size.kind == "gpt2":
        assert {*found} == want
    model = gpt_pod.stacked(language_models.model_of(size), False)
    language_models.load(model, folder)
    for name, tensor in language_models._apart(model.state_dict()):
        if name != "lm_head.weight" or not size.tied:
            stored = found[f"transformer.{name}" if size.kind == "gpt2" else name]
            np.testing.assert_array_equal(tensor.numpy(), stored)
    losses = gpt_pod.main(["--steps", "1", *TINY, str(tmp_path / "again"), "--weights", str(folder)])
    assert len(losses) == 1


def test_logits_are_those_of_transformers(size, tmp_path):
    transformers = pytest.importorskip("transformers")
    model = language_models.model_of(size)
    ft.manual_seed(0)
    language_models.initialise(model, size)
    language_models.save(model, size, tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    tokens = np.random.default_rng(0).integers(0, 256, (2, 12))
    got, want = model(ft.from_numpy(tokens)), theirs(torch.from_numpy(tokens)).logits
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), atol=1e-5)


REFUSED = {
    "tie_word_embeddings": (False, "tie_word_embeddings=False; only True"),
    "add_cross_attention": (True, "add_cross_attention=True"),
    "model_type": ("mamba", "of type 'mamba'"),
    "hidden_act": ("gelu", "hidden_act='gelu'"),
    "attention_bias": (True, "attention_bias=True"),
    "head_dim": (32, "head_dim=32"),
    "rope_scaling": ({"type": "linear", "factor": 2.0}, "rope_scaling="),
    "rope_parameters": ({"rope_type": "yarn", "rope_theta": 1e4}, "rope_scaling="),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_models_are_refused(name, tmp_path):
    kind = "gpt2" if name in ("tie_word_embeddings", "add_cross_attention") else "llama"
    language_models.save(language_models.model_of(SIZES[kind]), SIZES[kind], tmp_path)
    file = tmp_path / "config.json"
    value, said = REFUSED[name]
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    with pytest.raises(ValueError, match=said):
        language_models.read_config(tmp_path)


@pytest.mark.parametrize(
    "options, said",
    [
        (["--mesh", "fsdp=3"], "--mesh fsdp=3 has 3 devices"),
        (["--mesh", "fsdp"], "it must be like fsdp=4"),
        (["--mesh", "pp=1"], "its axes are dp, fsdp and tp"),
        (["--mesh", "dp=1"], "dp, along which parameters are the same, goes with fsdp"),
        (["--length", "100"], "has places for 64 tokens"),
        (["--accumulate", "3"], "must divide --batch 16"),
        (["--accumulate", "0"], "--accumulate: expected an integer of at least 1, got '0'"),
        (["--length", "0"], "--length: expected an integer of at least 1"),
        (["--log-every", "0"], "--log-every: expected an integer of at least 1"),
        (["--steps", "1e3"], "--steps: expected an integer of at least 0, got '1e3'"),
        (["--clip", "-1"], "--clip: expected a number above 0, got '-1'"),
        (["--lr", "nan"], "--lr: expected a number above 0, got 'nan'"),
        (["--held-out", "1.5"], "--held-out: expected a number between 0 and 1, got '1.5'"),
        (["--profile", "3"], "--profile: expected FIRST:LAST as 10:13, got '3'"),
        (["--profile", "5:12", "--steps", "10"], "--profile 5:12: there are 10 steps"),
    ],
)
def test_bad_options(options, said, tmp_path, capsys):
    with pytest.raises(SystemExit) as done:
        gpt_pod.main([*options, "--out", str(tmp_path)])
    assert said in capsys.readouterr().err + str(done.value)


def test_several_processes_need_a_mesh(monkeypatch):
    monkeypatch.setattr(gpt_pod.jax, "process_count", lambda: 2)
    with pytest.raises(SystemExit, match="--mesh: 2 processes need one, as fsdp="):
        gpt_pod.mesh_of("")


def test_bad_files_of_tokens(tmp_path):
    np.save(tmp_path / "floats.npy", np.zeros(100))
    with pytest.raises(ValueError, match="integers in one dimension, and has float64"):
        gpt_pod.Pieces(tmp_path / "floats.npy", 8)
    np.arange(20, dtype=np.uint16).tofile(tmp_path / "few.bin")
    with pytest.raises(ValueError, match="20 tokens from 0 on are too few"):
        gpt_pod.Pieces(tmp_path / "few.bin", 20)
    for name in ("cut.npy", "text.txt"):
        (tmp_path / name).write_bytes((tmp_path / "floats.npy").read_bytes()[:500])
    (tmp_path / "odd.bin").write_bytes(b"odd")
    for name, said in {
        "cut.npy": "cut.npy is no whole file",
        "odd.bin": "odd.bin is no whole file",
        "text.txt": "a .npy of",
    }.items():
        with pytest.raises(ValueError, match=said):
            gpt_pod.Pieces(tmp_path / name, 1)
    with pytest.raises(ValueError, match="at most 65,536; it has 128,256"):
        gpt_pod.Pieces(tmp_path / "few.bin", 6, vocab=128256)
    pieces = gpt_pod.Pieces(tmp_path / "few.bin", 6)
    assert [list(pieces[i]) for i in range(len(pieces))] == [
        [*range(7)], [*range(6, 13)], [*range(12, 19)]
    ]  # fmt: skip


def test_what_is_planned_has_the_length_that_is_asked_for():
    assert gpt_pod.plan("llama-tiny", batch=4, length=16)[1][0].shape == (4, 16)
    assert gpt_pod.plan("llama-tiny", batch=4)[1][0].shape == (4, 64)
    with pytest.raises(ValueError, match="llama-tiny has a context of 64 tokens, got length=65"):
        gpt_pod.plan("llama-tiny", batch=4, length=65)


@pytest.mark.parametrize("token", [-100, 256, 2**63])
def test_tokens_that_the_model_does_not_have_are_refused(token, tmp_path):
    tokens = np.zeros(2000, np.uint64 if token > 0 else np.int64)
    tokens[30::24] = token
    np.save(tmp_path / "tokens.npy", tokens)
    pieces = gpt_pod.Pieces(tmp_path / "tokens.npy", 8)
    assert not pieces[2].any()
    with pytest.raises(ValueError, match="has the token .*, and those of the model are 0 to 255"):
        pieces[3]
    with pytest.raises(ValueError, match="has the token"):
        gpt_pod.main(["--tokens", str(tmp_path / "tokens.npy"), "--steps", "9", *TINY, str(tmp_path / "out")])


@pytest.mark.parametrize("size", ["llama"], indirect=True)
def test_the_options_of_a_run_that_goes_on_are_those_that_it_is_given(size, tmp_path, monkeypatch):
    options = [*TINY, str(tmp_path), "--save-every", "2"]
    gpt_pod.main([*options, "--steps", "2", "--lr", "1e-3"])
    for changed in (["--batch", "8"], ["--length", "6"], ["--seed", "1"], ["--held-out", "0.2"]):
        with pytest.raises(ValueError, match="give it what it had, or take another --out"):
            gpt_pod.main([*options, "--steps", "4", *changed])
    jobs, restore = [], gpt_pod.Run.restore
    monkeypatch.setattr(gpt_pod.Run, "restore", lambda run: (jobs.append(run.job), restore(run))[1])
    gpt_pod.main([*options, "--steps", "6", "--lr", "5e-3", "--decay", "0.3"])
    rates = [line[3] for line in losses_of(tmp_path) if line[3] is not None]
    falls = [0.1 + 0.45 * (1 + np.cos(np.pi * done / 4)) for done in range(4)]
    np.testing.assert_allclose(rates, [5e-4, 1e-3, *(5e-3 * rate for rate in falls)], rtol=1e-12)
    assert [group["weight_decay"] for group in jobs[0].optimizer.param_groups] == [0.3, 0.0]


def test_a_profile_of_some_steps(tmp_path):
    """In a process of its own: that of the tests may have loaded libtpu."""
    options = ["--steps", "4", *TINY, str(tmp_path), "--profile", "2:3"]
    code = "import sys; sys.path.insert(0, 'examples'); import gpt_pod; gpt_pod.main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, *options],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [*(tmp_path / "profile").glob("*.pt.trace.json*")]
    assert [line[0] for line in losses_of(tmp_path) if line[1] is not None] == [1, 2, 3, 4]


@pytest.mark.parametrize("size", ["gpt2"], indirect=True)
def test_a_mesh_of_one_device(size, tmp_path):
    plain, on_mesh = (
        gpt_pod.main(["--steps", "3", *TINY, str(tmp_path / (mesh or "none")), "--mesh", mesh])
        for mesh in ("", "fsdp=1")
    )
    np.testing.assert_allclose([*on_mesh.values()], [*plain.values()], rtol=1e-6)


@pytest.mark.parametrize("size", ["gpt2"], indirect=True)
def test_parameters_that_an_infinite_gradient_has_spoilt_are_not_saved(size, tmp_path, monkeypatch):
    clip = ft.nn.utils.clip_grad_norm_
    monkeypatch.setattr(ft.nn.utils, "clip_grad_norm_", lambda *given: clip(*given) + float("inf"))
    options = ["--steps", "4", *TINY, str(tmp_path), "--log-every", "2", "--save-every", "2"]
    with pytest.raises(FloatingPointError, match="step 1 has the loss .* and a gradient of norm inf"):
        gpt_pod.main(options)
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("kind, gone", [
    ("gpt2", ("layer_norm_epsilon",)),
    ("llama", ("num_key_value_heads", "rms_norm_eps", "rope_theta", "tie_word_embeddings")),
    ("mixtral", ("num_key_value_heads", "rms_norm_eps", "rope_theta", "num_experts_per_tok", "num_local_experts")),
])  # fmt: skip
def test_what_a_file_does_not_say_is_as_in_transformers(kind, gone, tmp_path):
    want = {
        "gpt2": {"eps": 1e-5},
        "llama": {"kv_heads": 8, "eps": 1e-6, "theta": 1e4, "tied": False},
        "mixtral": {"kv_heads": 8, "eps": 1e-5, "theta": 1e6, "experts": 8, "chosen": 2},
    }[kind]
    size = dataclasses.replace(SIZES[kind], width=32, heads=8, kv_heads=8, hidden=128)
    language_models.save(language_models.model_of(size), size, tmp_path)
    file = tmp_path / "config.json"
    text = json.loads(file.read_text())
    file.write_text(json.dumps({name: value for name, value in text.items() if name not in gone}))
    assert language_models.read_config(tmp_path) == dataclasses.replace(size, **want)


def test_a_mixture_whose_output_layer_is_the_embedding(tmp_path):
    size = dataclasses.replace(SIZES["mixtral"], tied=True)
    models = [language_models.model_of(size) for _ in range(2)]
    language_models.initialise(models[0], size)
    language_models.save(models[0], size, tmp_path)
    language_models.load(models[1], tmp_path)
    tokens = ft.arange(12)[None]
    assert ft.equal(models[0](tokens), models[1](tokens))


def test_the_planner_is_given_two_tensors_of_tokens():
    _, (x, y) = gpt_pod.llama_tiny(batch=2)
    assert x.shape == y.shape == (2, 64)
    assert x._storage is not y._storage
