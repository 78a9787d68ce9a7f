"""Training steps of models and optimizers from libraries that import torch, for `test_libraries.py`.

``functorch-port run library_programs.py GROUP compiled`` and ``python library_programs.py GROUP eager`` train the same;
either prints, as JSON, the losses of every case and how often its step was traced.
"""

import json
import os
import sys
from collections import Counter

import numpy as np
import torch

STEPS = 6

#: These branch in Python on the values of tensors, which no compiled step can.
EAGER_ONLY = {
    "Prodigy",
    "torch_optimizer.Lamb",
    "torch_optimizer.SWATS",
    "torch_optimizer.NovoGrad",
    "MADGRAD",
}

#: What is tried in any case; with WHOLE_LIBRARIES=1 all the others are too.
QUICK = {
    "gpt2", "vit", "Lion", "Prodigy", "AdamWScheduleFree", "RAdamScheduleFree", "torch_optimizer.Lamb",
    "torch_optimizer.QHM", "Lookahead", "CAME", "MADGRAD", "AdEMAMix",
}  # fmt: skip


def torchvision_imports():
    """Let torchvision be imported: built for another PyTorch, it describes operators that it could not load."""
    try:
        import torchvision  # noqa: F401
    except ModuleNotFoundError:
        pass
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(
                f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )


def train(name, make, optimizer, batch, loss):
    """The losses of a few steps in float64, and the number of traces."""
    torch.manual_seed(0)
    model = make().double()
    with torch.no_grad():
        for p in model.parameters():  # some initial values differ in the last bit of float32
            p.copy_((p * 2**12).round() / 2**12)
    opt = optimizer(model.parameters())
    if callable(getattr(opt, "train", None)):  # schedule-free optimizers have modes
        opt.train()
    traces = Counter()

    def step(*batch):
        traces["step"] += 1
        opt.zero_grad()
        value = loss(model, *batch)
        value.backward()
        opt.step()
        return value

    compiled = sys.argv[2] == "compiled" and name not in EAGER_ONLY
    run = torch.compile(step) if compiled else step
    losses = [run(*batch).item() for _ in range(STEPS)]
    return losses, traces["step"] if compiled else None


def transformers():
    """Tiny GPT-2, BERT and Llama with random weights."""
    torchvision_imports()
    import transformers as hf

    still = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    ends = dict.fromkeys(("bos_token_id", "eos_token_id"))
    calm = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "vocab_size": 50,
        "max_position_embeddings": 16,
    }
    gpt2 = hf.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=16, vocab_size=50, **still, **ends)
    models = {
        "gpt2": lambda: hf.GPT2LMHeadModel(gpt2),
        "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**sizes, **calm)),
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, num_key_value_heads=1, **ends)),
    }
    tokens = torch.tensor(np.random.default_rng(0).integers(0, 50, (2, 8)))
    return {
        name: (
            make,
            lambda p: torch.optim.AdamW(p, lr=1e-3),
            [tokens],
            lambda model, tokens: model(input_ids=tokens, labels=tokens).loss,
        )
        for name, make in models.items()
    }


def timm():
    """Small members of four families."""
    torchvision_imports()
    import timm
    from timm.models.efficientnet import _gen_efficientnet
    from timm.models.resnet import BasicBlock, ResNet

    small = {"num_classes": 4}
    models = {
        "resnet": lambda: ResNet(BasicBlock, (1, 1, 1, 1), channels=(8, 8, 16, 16), stem_width=8, **small),
        "vit": lambda: timm.create_model(
            "vit_tiny_patch16_224", img_size=32, depth=2, embed_dim=24, num_heads=2, **small
        ),
        "convnext": lambda: timm.create_model(
            "convnext_atto", depths=(1, 1, 1, 1), dims=(8, 8, 16, 16), **small
        ),
        "efficientnet": lambda: _gen_efficientnet(
            "efficientnet_b0", channel_multiplier=0.25, depth_multiplier=0.3, **small
        ),
    }
    # more pictures than classes, and a small rate: otherwise norms over four values amplify rounding, in PyTorch too
    images = torch.tensor(np.random.default_rng(0).standard_normal((12, 3, 32, 32)))
    return {
        name: (
            make,
            lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9),
            [images, torch.arange(12) % 4],
            lambda model, x, y: torch.nn.functional.cross_entropy(model(x), y),
        )
        for name, make in models.items()
    }


def _optimizers(makers):
    x = torch.tensor(np.random.default_rng(0).standard_normal((16, 4)))
    return {
        name: (
            lambda: torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)),
            make,
            [x],
            lambda model, x: (model(x) - x[:, :1] * x[:, 1:2]).square().mean(),
        )
        for name, make in makers.items()
    }


def lion_pytorch():
    import lion_pytorch

    return _optimizers({"Lion": lambda p: lion_pytorch.Lion(p, lr=1e-2, weight_decay=0.1)})


def prodigyopt():
    import prodigyopt

    return _optimizers({"Prodigy": prodigyopt.Prodigy})


def schedulefree():
    import schedulefree

    names = ("AdamWScheduleFree", "SGDScheduleFree", "RAdamScheduleFree")
    return _optimizers({n: lambda p, n=n: getattr(schedulefree, n)(p, lr=1e-2) for n in names})


def torch_optimizer():
    import torch_optimizer as library

    names = (
        "AdaBound", "AdaMod", "AggMo", "Apollo", "DiffGrad", "Lamb", "NovoGrad", "QHM", "SWATS", "Shampoo", "Yogi",
    )  # fmt: skip
    return _optimizers(
        {f"torch_optimizer.{n}": getattr(library, n) for n in names}
        | {"Lookahead": lambda p: library.Lookahead(library.Yogi(p))}
    )


def pytorch_optimizer():
    """Not SOAP: which basis of a null space it takes depends on the last bit, in PyTorch too."""
    import pytorch_optimizer as library

    names = (
        "AdEMAMix", "AdaBelief", "Adan", "CAME", "Grams", "Lamb", "Lion", "MADGRAD", "ScheduleFreeAdamW",
        "StableAdamW", "Tiger",
    )  # fmt: skip
    return _optimizers({n: lambda p, n=n: getattr(library, n)(p, lr=1e-2) for n in names})


if __name__ == "__main__":
    chosen = globals()[sys.argv[1]]()
    if os.environ.get("WHOLE_LIBRARIES") != "1":
        chosen = {name: case for name, case in chosen.items() if name in QUICK}
    print(json.dumps({name: train(name, *case) for name, case in chosen.items()}))
