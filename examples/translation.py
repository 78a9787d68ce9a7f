"""Translation: a Transformer encoder-decoder turns dates as people write them into ISO dates.

"Tuesday, March 3, 1987" becomes "1987-03-03". Sources differ in length, so the encoder has padding masks; the decoder
has a causal mask. The pairs are made by the calendar. To run this with PyTorch, change the line that imports torch.
"""

import argparse
import datetime
import random

from rich.progress import track

import functorch_port as torch

nn, F = torch.nn, torch.nn.functional

FORMATS = ["%d %B %Y", "%B %d, %Y", "%A, %B %d, %Y", "%a %d %b %Y", "%d.%m.%Y", "%m/%d/%Y", "%d-%b-%Y"]
ALPHABET = "_<" + "".join(map(chr, range(32, 123))).replace("_", "").replace("<", "")  # padding, start, text
LENGTH = 29  # of the longest source


def encode(text, length):
    return [ALPHABET.index(c) for c in text.ljust(length, "_")]


def pairs(count, rng):
    """Sources (N, 29), padded, and targets (N, 11) that begin with the start sign."""
    first = datetime.date(1900, 1, 1)
    days = [first + datetime.timedelta(rng.randrange(73_000)) for _ in range(count)]
    sources = [encode(day.strftime(rng.choice(FORMATS)), LENGTH) for day in days]
    return torch.tensor(sources), torch.tensor([encode(f"<{day.isoformat()}", 11) for day in days])


class Translator(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET), width, padding_idx=0)
        self.place = nn.Parameter(0.1 * torch.randn(LENGTH, width))
        self.transformer = nn.Transformer(width, 4, layers, layers, 4 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, len(ALPHABET))

    def forward(self, source, target):
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        padding = source == 0
        out = self.transformer(
            self.embed(source) + self.place[: source.shape[1]],
            self.embed(target) + self.place[: target.shape[1]],
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return self.head(out)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500, help="training steps")
    parser.add_argument("--batch-size", type=int, default=64, help="dates per step")
    parser.add_argument("--width", type=int, default=48, help="size of the model, a multiple of 4")
    parser.add_argument("--layers", type=int, default=2, help="layers of encoder and decoder")
    parser.add_argument("--eager", action="store_true", help="do not compile training and translation")
    args = parser.parse_args(argv)
    compiled = (lambda f: f) if args.eager else torch.compile

    torch.manual_seed(0)
    rng = random.Random(0)
    source, target = pairs(4000, rng)
    model = Translator(args.width, args.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    @compiled
    def step(source, target):
        optimizer.zero_grad()
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    losses = []
    for _ in track(range(args.steps), "training"):
        batch = torch.randint(len(source), (args.batch_size,))
        losses.append(step(source[batch], target[batch]).item())

    @compiled
    def guess(source, target):
        with torch.no_grad():
            return model(source, target).argmax(-1)

    source, target = pairs(200, rng)
    written = torch.zeros_like(target)
    written[:, 0] = target[:, 0]
    for i in range(10):  # one character after the other; the causal mask hides what is not written yet
        written[:, i + 1] = guess(source, written)[:, i]
    right = (written == target).all(1).float().mean().item()
    for row in range(3):
        shown = ("".join(ALPHABET[c] for c in t[row].tolist()).strip("_<") for t in (source, written))
        print(" -> ".join(shown))
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at the end")
    print(f"new dates without a mistake {right:.1%}")
    return losses


if __name__ == "__main__":
    main()
