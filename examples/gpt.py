"""A GPT that writes like the Python manual: causal attention, output layer tied to the embedding.

The text is the manual that the standard library carries, as characters. To run this with PyTorch, change the line
that imports torch.
"""

import argparse
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

    def forward(self, x):
        n, t, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (p.view(n, t, self.heads, width // self.heads).transpose(1, 2) for p in parts)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (N, heads, T, width / heads)
        x = x + self.out(attended.transpose(1, 2).reshape(n, t, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, characters, width, heads, layers, context):
        super().__init__()
        self.embed, self.place = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
        self.head.weight = self.embed.weight

    def forward(self, x):
        x = self.embed(x) + self.place(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1200, help="training steps")
    parser.add_argument("--batch-size", type=int, default=16, help="pieces of text per step")
    parser.add_argument("--context", type=int, default=64, help="characters in a piece")
    parser.add_argument("--width", type=int, default=96, help="size of the model")
    parser.add_argument("--heads", type=int, default=4, help="attention heads, a divisor of the width")
    parser.add_argument("--layers", type=int, default=3, help="blocks")
    parser.add_argument("--eager", action="store_true", help="do not compile training and writing")
    args = parser.parse_args(argv)
    compiled = (lambda f: f) if args.eager else torch.compile

    torch.manual_seed(0)
    text = "".join(topics.values())[:300_000]
    alphabet = sorted(set(text))
    code = {character: i for i, character in enumerate(alphabet)}
    codes, unseen = torch.tensor([code[c] for c in text]).split([290_000, 10_000])
    model = GPT(len(alphabet), args.width, args.heads, args.layers, args.context)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=4e-3,
        betas=(0.9, 0.99),
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps, eta_min=1e-4)

    @compiled
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
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

    @compiled
    def guess(x):
        with torch.no_grad():
            return model(x)

    model.eval()
    written, window = [], codes[: args.context].clone()
    for _ in range(200):
        chances = torch.softmax(guess(window[None])[0, -1] / 0.7, dim=-1)
        chosen = torch.multinomial(chances, 1)
        window = torch.cat([window[1:], chosen])
        written.append(alphabet[chosen.item()])
    print("".join(written))
    pieces = unseen[: len(unseen) // (args.context + 1) * (args.context + 1)].view(-1, args.context + 1)
    on_unseen = F.cross_entropy(guess(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten()).item()
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at the end (nats per character)")
    print(f"loss on unseen text {on_unseen:.4f}")
    return losses


if __name__ == "__main__":
    main()
