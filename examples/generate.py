"""Text from a GPT, written by two loops that draw the same random numbers.

The plain loop runs the model on all the text there is, adds one character, and starts again. The other one keeps the
keys and values of what it has read in a cache of a fixed size, so each character costs the same: all shapes are known
beforehand, and the whole loop is one compiled program (`torch.while_loop`). The script fails if their texts differ.

The model first learns to write like the Python manual, which the standard library carries. To run this with PyTorch,
change the line that imports torch.
"""

import argparse
import sys
import time
from pydoc_data.topics import topics

from rich.progress import track

import functorch_port as torch

nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):
    """Attention, then a layer of its own for every place, both with a norm before and a shortcut around."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, places, cache=None):
        n, t, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (p.view(n, t, self.heads, width // self.heads).transpose(1, 2) for p in parts)
        if cache is None:
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (N, heads, T, width / heads)
        else:
            k, v = cache = [old.index_copy(2, places, new) for old, new in zip(cache, (k, v))]
            seen = torch.arange(k.shape[2]) <= places[:, None]  # (T, context): the rest of the cache is empty
            attended = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.out(attended.transpose(1, 2).reshape(n, t, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)))), cache


class GPT(nn.Module):
    def __init__(self, characters, width, heads, layers, context):
        super().__init__()
        self.embed, self.place = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
        self.head.weight = self.embed.weight

    def empty_cache(self):
        """Keys and values of each block, for one text: (1, heads, context, width / heads) each."""
        context, width = self.place.weight.shape
        shape = (1, self.blocks[0].heads, context, width // self.blocks[0].heads)
        return [[torch.zeros(shape), torch.zeros(shape)] for _ in self.blocks]

    def forward(self, x, first=0, cache=None):
        """The logits of what follows each character of ``x``, whose place in the text is ``first``; the new cache."""
        places = first + torch.arange(x.shape[1])
        x = self.embed(x) + self.place(places)
        new = []
        for i, block in enumerate(self.blocks):
            x, kept = block(x, places, cache and cache[i])
            new.append(kept)
        return self.head(self.norm(x)), new


def chances_of(logits, temperature, top_k):
    """The probability of each character, given the logits (1, characters)."""
    logits = logits / temperature
    least = torch.topk(logits, top_k).values[:, -1:]
    return F.softmax(logits.masked_fill(logits < least, -torch.inf), dim=-1)


@torch.no_grad()
def growing(model, text, tokens, temperature, top_k):
    """Add ``tokens`` characters to ``text`` (1, T), and run the model on all of it for each."""
    for _ in track(range(tokens), "writing"):
        logits, _ = model(text)
        chances = chances_of(logits[:, -1], temperature, top_k)
        text = torch.cat([text, torch.multinomial(chances, 1)], dim=1)
    return text


@torch.no_grad()
def static(model, text, noise, temperature, top_k):
    """Add a character to ``text`` for each row of ``noise`` (tokens, characters), in a loop without new shapes."""
    start, end = text.shape[1] - 1, text.shape[1] + len(noise) - 1
    _, cache = model(text[:, :-1], 0, model.empty_cache())

    def unfinished(place, text, cache):
        return place < end

    def add_one(place, text, cache):
        logits, cache = model(text.index_select(1, place[None]), place, cache)
        chances = chances_of(logits[:, -1], temperature, top_k)
        # torch.multinomial(chances, 1) does this, with exponential noise that it draws itself
        chosen = (chances / noise.index_select(0, place[None] - start)).argmax(dim=-1, keepdim=True)
        return place + 1, text.index_copy(1, place[None] + 1, chosen), cache

    text = F.pad(text, (0, len(noise)))
    return torch.while_loop(unfinished, add_one, (torch.tensor(start), text, cache))[1]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=100, help="characters to write")
    parser.add_argument("--prompt", default="The Python ", help="the text begins so; two characters or more")
    parser.add_argument(
        "--temperature", type=float, default=0.8, help="under 1 the likely is written more often"
    )
    parser.add_argument(
        "--top-k", type=int, default=20, help="choose among so many characters; 1: the likeliest"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers that choose")
    parser.add_argument("--steps", type=int, default=600, help="training steps")
    parser.add_argument("--batch-size", type=int, default=16, help="pieces of text per step")
    parser.add_argument("--context", type=int, default=128, help="the longest text, prompt and all")
    parser.add_argument("--width", type=int, default=96, help="size of the model")
    parser.add_argument("--heads", type=int, default=4, help="attention heads, a divisor of the width")
    parser.add_argument("--layers", type=int, default=3, help="blocks")
    parser.add_argument(
        "--eager", action="store_true", help="do not compile training and the loop with the cache"
    )
    args = parser.parse_args(argv)
    compiled = (lambda f: f) if args.eager else torch.compile

    torch.manual_seed(0)
    manual = "".join(topics.values())[:300_000]
    alphabet = sorted(set(manual))
    code = {character: i for i, character in enumerate(alphabet)}
    args.top_k = min(args.top_k, len(alphabet))
    if unknown := set(args.prompt) - set(alphabet):
        parser.error(f"--prompt: the manual has no {', '.join(map(repr, sorted(unknown)))}")
    if len(args.prompt) < 2 or len(args.prompt) + args.tokens > args.context:
        parser.error(f"--prompt and --tokens: from 2 to --context={args.context} characters in all")
    codes = torch.tensor([code[c] for c in manual])
    model = GPT(len(alphabet), args.width, args.heads, args.layers, args.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps, eta_min=1e-4)

    @compiled
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    losses = []
    for _ in track(range(args.steps), "training"):
        starts = torch.randint(len(codes) - args.context, (args.batch_size, 1))
        pieces = codes[starts + torch.arange(args.context + 1)]
        losses.append(step(pieces[:, :-1], pieces[:, 1:]).item())
        schedule.step()

    model.eval()
    prompt = torch.tensor([[code[c] for c in args.prompt]])

    def grow():
        torch.manual_seed(args.seed)
        return growing(model, prompt, args.tokens, args.temperature, args.top_k)

    @compiled
    def write(prompt, noise):
        return static(model, prompt, noise, args.temperature, args.top_k)

    def fill():
        torch.manual_seed(args.seed)
        noise = torch.empty(
            args.tokens, len(alphabet)
        ).exponential_()  # the numbers that `grow` draws one by one
        return write(prompt, noise)

    def timed(loop):
        start = time.perf_counter()
        text = "".join(alphabet[c] for c in loop()[0].tolist())
        return text, args.tokens / (time.perf_counter() - start)

    grown, per_second = timed(grow)
    filled, at_first = timed(fill)
    again, later = timed(fill)
    print(grown)
    if not grown == filled == again:
        sys.exit(f"the loop with the cache wrote another text:\n{filled}")
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at the end (nats per character)")
    print(
        f"the same {args.tokens} characters: growing {per_second:,.1f} per second, static {later:,.0f}"
        f" ({at_first:,.0f} the first time)"
    )
    return losses


if __name__ == "__main__":
    main()
