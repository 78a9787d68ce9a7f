"""A character language model: an LSTM trained by truncated backpropagation through time.

It reads the text in parallel columns, a chunk at a time. The state goes on from chunk to chunk, detached, so that
gradients reach back to the start of a chunk. The text is the Python manual that the standard library carries. To run
this with PyTorch, change the line that imports torch.
"""

import argparse
from pydoc_data.topics import topics

from rich.progress import track

import functorch_port as torch

nn, F = torch.nn, torch.nn.functional


class Model(nn.Module):
    def __init__(self, characters, width, layers):
        super().__init__()
        self.embed = nn.Embedding(characters, 32)
        self.lstm = nn.LSTM(32, width, layers)
        self.head = nn.Linear(width, characters)

    def forward(self, x, state=None):
        out, state = self.lstm(self.embed(x), state)  # (T, N, width)
        return self.head(out), state


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400, help="training steps, one chunk each")
    parser.add_argument("--batch-size", type=int, default=32, help="columns that are read in parallel")
    parser.add_argument("--length", type=int, default=40, help="characters in a chunk")
    parser.add_argument("--width", type=int, default=128, help="units of a layer")
    parser.add_argument("--layers", type=int, default=2, help="LSTM layers")
    parser.add_argument("--eager", action="store_true", help="do not compile the training step")
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    text = "".join(topics.values())
    alphabet = sorted(set(text))
    code = {character: i for i, character in enumerate(alphabet)}
    unseen, text = (torch.tensor([code[c] for c in part]) for part in (text[:4000], text[4000:]))
    needed = args.batch_size * (args.steps * args.length + 1)
    columns = text.repeat(needed // len(text) + 1)[:needed].view(args.batch_size, -1).T  # (time, column)

    model = Model(len(alphabet), args.width, args.layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def step(x, y, state):
        optimizer.zero_grad()
        logits, state = model(x, state)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss, tuple(s.detach() for s in state)

    run = step if args.eager else torch.compile(step)
    state = tuple(torch.zeros(args.layers, args.batch_size, args.width) for _ in "hc")
    losses = []
    for i in track(range(args.steps), "training"):
        chunk = columns[i * args.length : (i + 1) * args.length + 1]
        loss, state = run(chunk[:-1], chunk[1:], state)
        losses.append(loss.item())

    model.eval()
    written, x, state = [], torch.tensor([[alphabet.index("\n")]]), None
    with torch.no_grad():
        for _ in range(200):
            logits, state = model(x, state)
            x = torch.multinomial(torch.softmax(logits[0] / 0.7, dim=-1), 1)
            written.append(alphabet[x.item()])
    print("".join(written))
    with torch.no_grad():
        on_unseen = F.cross_entropy(model(unseen[:-1, None])[0].flatten(0, 1), unseen[1:]).item()
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at the end (nats per character)")
    print(f"loss on unseen text {on_unseen:.4f}")
    return losses


if __name__ == "__main__":
    main()
