"""Language models in plain PyTorch: GPT-2, Llama and Mixtral, with the names of Hugging Face's files.

`gpt_pod.py` trains them. The parameters have the names and layouts that Hugging Face's libraries write, so a folder
with ``config.json`` and ``*.safetensors`` loads as it is (`load`), and what `save` writes loads there. To run the
models with PyTorch, change the line that imports torch.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import functorch_port as torch

nn, F = torch.nn, torch.nn.functional


@dataclass(frozen=True)
class Config:
    """A model's sizes.

    Attributes:
        kind: "gpt2" (learned positions, LayerNorm, GELU, one matrix for queries, keys and values, output layer tied
            to the embedding), "llama" (rotary positions, RMSNorm, SwiGLU, fewer heads of keys and values) or "mixtral"
            (Llama with a mixture of experts in each layer).
        vocab, context: how many tokens there are, and how many a sequence has at most.
        width, layers, heads: of the stack.
        kv_heads: heads of keys and values, a divisor of ``heads``; GPT-2 has as many as ``heads``.
        hidden: width of the layer between; GPT-2 has four times ``width``.
        theta: base of the rotary positions.
        eps: of the norms.
        tied: whether the output layer is the embedding; GPT-2's is.
        rope: how Llama 3.1 and later stretch the rotary positions: factor, low and high frequency factor, and the
            context without that. None: they do not.
        experts, chosen: of a layer, and how many of them a token uses.
    """

    kind: str = "gpt2"
    vocab: int = 256
    context: int = 64
    width: int = 96
    layers: int = 3
    heads: int = 4
    kv_heads: int = 4
    hidden: int = 384
    theta: float = 10000.0
    eps: float = 1e-5
    tied: bool = True
    rope: tuple[float, float, float, int] | None = None
    experts: int = 1
    chosen: int = 1

    def __post_init__(self):
        if self.kind not in ("gpt2", "llama", "mixtral"):
            raise ValueError(f"kind must be 'gpt2', 'llama' or 'mixtral', got {self.kind!r}")
        if not 1 <= self.chosen <= self.experts or (self.experts > 1) != (self.kind == "mixtral"):
            raise ValueError(
                f"{self.kind} cannot have {self.experts} experts, of which {self.chosen} are chosen"
            )
        if self.width % self.heads or self.heads % self.kv_heads:
            sizes = f"width {self.width}, heads {self.heads}, kv_heads {self.kv_heads}"
            raise ValueError(f"heads must divide width, and kv_heads must divide heads; got {sizes}")
        if self.kind == "gpt2" and (self.kv_heads, self.hidden, self.tied) != (
            self.heads,
            4 * self.width,
            True,
        ):
            raise ValueError("gpt2 has kv_heads == heads, hidden == 4 * width and a tied output layer")

    @property
    def parameters(self):
        """How many numbers the model has, the tied ones once."""
        return self._parameters(self.experts)

    def _parameters(self, experts):
        """With so many experts in each layer."""
        per_head = self.width // self.heads
        if self.kind == "gpt2":
            layer = 12 * self.width**2 + 13 * self.width
            return self.layers * layer + (self.vocab + self.context) * self.width + 2 * self.width
        attention = 2 * self.width**2 + 2 * self.width * self.kv_heads * per_head
        router = self.experts * self.width if self.kind == "mixtral" else 0
        layer = attention + 3 * experts * self.width * self.hidden + router + 2 * self.width
        return self.layers * layer + (1 if self.tied else 2) * self.vocab * self.width + self.width

    def flops_per_token(self, length):
        """Floating point operations of a token's forward and backward pass, half of the attention masked away: products
        with weights 6 for each that it uses, and 6 * layers * width * length for scores and sums."""
        used = self._parameters(self.chosen) - (self.context * self.width if self.kind == "gpt2" else 0)
        used -= 0 if self.tied else self.vocab * self.width  # the embedding is a look-up
        return 6 * used + 6 * self.layers * self.width * length


def _gpt2(width, layers, heads, **other):
    return Config("gpt2", 50304, 1024, width, layers, heads, heads, 4 * width, **other)


def _llama(vocab, context, width, layers, heads, kv_heads, hidden, **other):
    return Config("llama", vocab, context, width, layers, heads, kv_heads, hidden, tied=False, **other)


#: sizes by name; the vocabulary of gpt2-* is padded to a multiple of 128 (a file of 50,257 has its own `Config`)
SIZES = {
    "gpt2-tiny": Config(),
    "llama-tiny": Config("llama", kv_heads=2, hidden=256, tied=False),
    "gpt2-124m": _gpt2(768, 12, 12),
    "gpt2-1.3b": _gpt2(2048, 24, 16),
    "llama-1b": Config("llama", 128256, 8192, 2048, 16, 32, 8, 8192, 500000.0),
    "llama-7b": _llama(32000, 4096, 4096, 32, 32, 32, 11008),
    "llama-8b": _llama(128256, 8192, 4096, 32, 32, 8, 14336, theta=500000.0),
    "llama-3.1-8b": _llama(
        128256, 131072, 4096, 32, 32, 8, 14336, theta=500000.0, rope=(8.0, 1.0, 4.0, 8192)
    ),
    "llama-70b": _llama(128256, 8192, 8192, 80, 64, 8, 28672, theta=500000.0),
    "mixtral-tiny": Config("mixtral", kv_heads=2, hidden=128, tied=False, experts=4, chosen=2),
    "mixtral-8x7b": Config(
        "mixtral", 32000, 32768, 4096, 32, 32, 8, 14336, 1e6, tied=False, experts=8, chosen=2
    ),
}


class Stack(nn.ModuleList):
    """Layers that are called one after the other. `nn.ScanStack` can take its place."""

    def forward(self, x, *args):
        for layer in self:
            x = layer(x, *args)
        return x


class Product(nn.Module):
    """A linear layer whose weight is (inputs, outputs), as GPT-2's files have it."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return F.linear(x, self.weight.t(), self.bias)


def attend(q, k, v, heads, kv_heads):
    """Causal attention of (N, T, heads * D) queries and (N, T, kv_heads * D) keys and values: (N, T, heads * D)."""
    n, t, width = q.shape
    q, k, v = (
        a.view(n, t, h, width // heads).transpose(1, 2) for a, h in ((q, heads), (k, kv_heads), (v, kv_heads))
    )
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=kv_heads != heads)
    return out.transpose(1, 2).reshape(n, t, width)


class GPT2Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.c_attn, self.c_proj = (
            Product(config.width, 3 * config.width),
            Product(config.width, config.width),
        )

    def forward(self, x):
        q, k, v = self.c_attn(x).chunk(3, dim=2)
        return self.c_proj(attend(q, k, v, self.heads, self.heads))


class GPT2MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc, self.c_proj = Product(config.width, config.hidden), Product(config.hidden, config.width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class GPT2Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.ln_2 = (nn.LayerNorm(config.width, config.eps) for _ in range(2))
        self.attn, self.mlp = GPT2Attention(config), GPT2MLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """(N, T) tokens to (N, T, vocab) logits."""

    def __init__(self, config):
        super().__init__()
        self.wte, self.wpe = (nn.Embedding(n, config.width) for n in (config.vocab, config.context))
        self.h = Stack(GPT2Block(config) for _ in range(config.layers))
        self.ln_f = nn.LayerNorm(config.width, config.eps)

    layers = "h"  # the attribute that has the stack

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        return F.linear(self.ln_f(self.h(x)), self.wte.weight)


class LlamaAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.kv_heads = config.heads, config.kv_heads
        per_kv = config.width // config.heads * config.kv_heads
        self.q_proj = nn.Linear(config.width, config.width, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(config.width, per_kv, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x, cos, sin):
        q, k = (rotated(p(x), cos, sin) for p in (self.q_proj, self.k_proj))
        return self.o_proj(attend(q, k, self.v_proj(x), self.heads, self.kv_heads))


def rotated(x, cos, sin):
    """(N, T, heads * D) with the positions turned in: halves of each head are the parts of complex numbers."""
    n, t, width = x.shape
    x = x.view(n, t, -1, cos.shape[-1])
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)
    return (x * cos + torch.cat([-second, first], dim=-1) * sin).view(n, t, width)


class LlamaMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(config.width, config.hidden, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    """SwiGLU layers, of which each token uses some; none is left out where many choose the same.

    Where there are several devices, `each` has a function called on the tokens of each, and is set by who places the
    model (see `gpt_pod.placed`).
    """

    each = staticmethod(lambda compute: compute)

    def __init__(self, config):
        super().__init__()
        self.w1, self.w3 = (
            nn.Parameter(torch.empty(config.experts, config.hidden, config.width)) for _ in range(2)
        )
        self.w2 = nn.Parameter(torch.empty(config.experts, config.width, config.hidden))

    def forward(self, x, share, chosen):
        """(N, T, width), and (N, T, K) of the experts' numbers and their share in the sum: (N, T, width)."""
        return self.each(mixed)(x, share, chosen, self.w1, self.w2, self.w3)


def mixed(x, share, chosen, w1, w2, w3):
    """The rows are ordered by expert, so that each has a group of them."""
    rows, per_row = x.flatten(0, -2), chosen.shape[-1]
    order = chosen.flatten().argsort(stable=True)
    place = order // per_row
    ends = F.one_hot(chosen.flatten(), w1.shape[0]).sum(0).cumsum(0).int()
    given = rows[place]
    gate, up, down = (w.to(x.dtype).transpose(1, 2) for w in (w1, w3, w2))
    hidden = F.silu(F.grouped_mm(given, gate, offs=ends)) * F.grouped_mm(given, up, offs=ends)
    out = F.grouped_mm(hidden, down, offs=ends) * share.flatten()[order, None].to(x.dtype)
    return torch.zeros_like(rows).index_add(0, place, out).view(x.shape)


class MixtralMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.chosen = config.chosen
        self.gate = nn.Linear(config.width, config.experts, bias=False)
        self.experts = Experts(config)

    def forward(self, x):
        share, chosen = F.softmax(self.gate(x).float(), dim=-1).topk(self.chosen, dim=-1)
        return self.experts(x, share / share.sum(-1, keepdim=True), chosen)


class LlamaBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = LlamaAttention(config)
        if config.kind == "mixtral":
            self.block_sparse_moe = MixtralMLP(config)
        else:
            self.mlp = LlamaMLP(config)
        self.input_layernorm = nn.RMSNorm(config.width, config.eps)
        self.post_attention_layernorm = nn.RMSNorm(config.width, config.eps)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        rest = self.block_sparse_moe if hasattr(self, "block_sparse_moe") else self.mlp
        return x + rest(self.post_attention_layernorm(x))


def stretched(frequencies, rope):
    """Rotary frequencies for a context that is longer than the one of the first training, as Llama 3.1 has them: the
    waves that are longer than that context by a factor, the short ones as they are, and those between in between."""
    if rope is None:
        return frequencies
    factor, low, high, context = rope
    turns = context * frequencies / (2 * math.pi)  # of a wave in that context
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / factor)


class LlamaModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.size, self.theta, self.rope = config.width // config.heads, config.theta, config.rope
        self.embed_tokens = nn.Embedding(config.vocab, config.width)
        self.layers = Stack(LlamaBlock(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, config.eps)

    def forward(self, tokens):
        """(N, T) tokens to (N, T, width)."""
        device = tokens.device
        powers = torch.arange(0, self.size, 2, device=device, dtype=torch.float32) / self.size
        places = torch.arange(tokens.shape[1], device=device, dtype=torch.float32)
        angles = torch.outer(places, stretched(self.theta**-powers, self.rope)).repeat(1, 2)  # (T, D)
        return self.norm(self.layers(self.embed_tokens(tokens), angles.cos(), angles.sin()))


class Llama(nn.Module):
    """(N, T) tokens to (N, T, vocab) logits."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = LlamaModel(config)
        self.lm_head = nn.Linear(config.width, config.vocab, bias=False)
        if config.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    layers = "model.layers"

    def forward(self, tokens):
        return self.lm_head(self.model(tokens))


def model_of(config):
    """A model whose parameters are not set yet: see `initialise`."""
    return (GPT2 if config.kind == "gpt2" else Llama)(config)


@torch.no_grad()
def initialise(model, config):
    """First values: normal with deviation 0.02, divided by the root of twice the layers where a branch joins the sum.

    It draws in the order of the state dict, so stacked layers get what separate ones get.
    """
    for name, tensor in model.state_dict().items():
        kind, what = name.split(".")[-2:]
        if name == "lm_head.weight" and config.tied:
            continue
        if what == "bias":
            tensor.zero_()
        elif kind.startswith("ln_") or kind.endswith("norm"):
            tensor.fill_(1.0)
        else:
            joins = kind in ("c_proj", "o_proj", "down_proj") or what == "w2"
            tensor.normal_(0.0, 0.02 / math.sqrt(2 * config.layers) if joins else 0.02)


#: names of the sizes in Hugging Face's config.json
_NAMES = {
    "gpt2": {
        "vocab_size": "vocab", "n_positions": "context", "n_embd": "width", "n_layer": "layers", "n_head": "heads",
        "layer_norm_epsilon": "eps",
    },
    "llama": {
        "vocab_size": "vocab", "max_position_embeddings": "context", "hidden_size": "width",
        "num_hidden_layers": "layers", "num_attention_heads": "heads", "num_key_value_heads": "kv_heads",
        "intermediate_size": "hidden", "rope_theta": "theta", "rms_norm_eps": "eps", "tie_word_embeddings": "tied",
    },
}  # fmt: skip
_NAMES["mixtral"] = {**_NAMES["llama"], "num_local_experts": "experts", "num_experts_per_tok": "chosen"}
#: what these libraries take where a file does not say it
_DEFAULTS = {
    "gpt2": {"vocab": 50257, "context": 1024, "width": 768, "layers": 12, "heads": 12, "eps": 1e-5},
    "llama": {
        "vocab": 32000, "context": 2048, "width": 4096, "layers": 32, "heads": 32, "kv_heads": None, "hidden": 11008,
        "theta": 1e4, "eps": 1e-6, "tied": False,
    },
}  # fmt: skip
_DEFAULTS["mixtral"] = {
    **_DEFAULTS["llama"], "context": 131072, "kv_heads": 8, "hidden": 14336, "theta": 1e6, "eps": 1e-5, "experts": 8,
    "chosen": 2,
}  # fmt: skip
#: what else must be so, as these models compute
_FIXED = {
    "gpt2": {
        "activation_function": "gelu_new",
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    "llama": {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False},
    "mixtral": {
        "hidden_act": "silu",
        "sliding_window": None,
        "router_jitter_noise": 0.0,
        "output_router_logits": False,
    },
}
#: names of `Config.rope` in Hugging Face's config.json
_ROPE = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


def read_config(folder):
    """The sizes in a folder's ``config.json``.

    Raises:
        ValueError: the model is none of GPT-2, Llama and Mixtral, or computes something that these do not.
    """
    found = json.loads((Path(folder) / "config.json").read_text())
    kind = found.get("model_type")
    if kind not in _NAMES:
        raise ValueError(f"{folder} has a model of type {kind!r}; gpt2, llama and mixtral can be loaded")
    rope = found.get("rope_parameters") or {}  # where newer files have theta
    if "rope_theta" in rope:
        found.setdefault("rope_theta", rope["rope_theta"])
    for name, value in _FIXED[kind].items():
        if found.get(name, value) != value:
            raise ValueError(f"{folder} has {name}={found[name]!r}; only {value!r} can be loaded")
    sizes = _DEFAULTS[kind] | {
        ours: found[theirs] for theirs, ours in _NAMES[kind].items() if theirs in found
    }
    size = found.get("head_dim")
    if size is not None and size != sizes["width"] // sizes["heads"]:
        raise ValueError(
            f"{folder} has head_dim={size}; only hidden_size / num_attention_heads can be loaded"
        )
    if found.get("n_inner") not in (None, 4 * sizes["width"]):
        raise ValueError(f"{folder} has n_inner={found['n_inner']}; only 4 * n_embd can be loaded")
    if kind == "gpt2":
        sizes |= {"kv_heads": sizes["heads"], "hidden": 4 * sizes["width"]}
    else:
        sizes |= {
            "kv_heads": sizes["kv_heads"] or sizes["heads"],
            "rope": _rope(found.get("rope_scaling") or rope, folder),
        }
    return Config(kind, **sizes)


def _rope(found, folder):
    """`Config.rope` of what a ``config.json`` says."""
    kind = found.get("rope_type", found.get("type", "default"))
    if kind not in ("default", "llama3"):
        raise ValueError(f"{folder} has rope_scaling={found!r}; only rope_type 'llama3' can be loaded")
    return tuple(found[name] for name in _ROPE) if kind == "llama3" else None


def load(model, folder):
    """Copy the weights of a folder into a model of the sizes that `read_config` gives.

    The tensors of the model stay where they are placed.
    """
    from functorch_port.safetensors import load_checkpoint, load_folder

    if isinstance(model, Llama) and model.config.kind == "mixtral":
        state = _joined(load_folder(folder))
        if model.config.tied:
            state["lm_head.weight"] = state["model.embed_tokens.weight"]
        return model.load_state_dict(state)

    def name_here(name):
        if name == "lm_head.weight" and isinstance(model, GPT2):
            return None  # the embedding once more
        name = name.removeprefix("transformer.")
        return None if name.endswith((".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq")) else name

    return load_checkpoint(model, folder, key_mapping=name_here)


def save(model, config, folder):
    """Write ``config.json`` and ``model.safetensors``, which Hugging Face's libraries and `load` read."""
    from functorch_port.safetensors import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = _NAMES[config.kind]
    text = {theirs: getattr(config, ours) for theirs, ours in names.items()} | _FIXED[config.kind]
    text |= {"model_type": config.kind, "architectures": [_CLASSES[config.kind]], "torch_dtype": "float32"}
    if config.rope:
        text["rope_scaling"] = {"rope_type": "llama3", **dict(zip(_ROPE, config.rope))}
    prefix = "transformer." if config.kind == "gpt2" else ""
    state = {prefix + name: tensor.contiguous() for name, tensor in _apart(model.state_dict())}
    if config.tied:
        state.pop("lm_head.weight", None)
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(text, indent=2) + "\n")


def _apart(state):
    """The entries of a state dict, each expert's apart, as files have them."""
    for name, tensor in state.items():
        owner, joined, weight = name.partition(".experts.")
        if joined:
            for number, part in enumerate(tensor.unbind(0)):
                yield f"{owner}.experts.{number}.{weight}.weight", part
        else:
            yield name, tensor


def _joined(found):
    """The state dict of the entries of a file, the experts' together."""
    state, experts = {}, {}
    for name, tensor in found.items():
        owner, apart, rest = name.partition(".experts.")
        if apart:
            number, weight, _ = rest.split(".")
            experts.setdefault(f"{owner}.experts.{weight}", {})[int(number)] = tensor
        else:
            state[name] = tensor
    return state | {name: torch.stack([some[i] for i in sorted(some)]) for name, some in experts.items()}


_CLASSES = {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM", "mixtral": "MixtralForCausalLM"}
