"""Ordinary programs in which something is new all the time: shapes that come once, first steps, small models.

Each takes the module, ``torch`` or ``functorch_port``, and returns numbers that both must agree on: losses, characters,
sums of parameters. They are what somebody writes who thinks of PyTorch only, so nothing in them is arranged for a
compiler: no padding, no buckets, no static caches.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pydoc_data.topics import topics
from typing import Any

import numpy as np

__all__ = ["PROGRAMS", "SHAPES", "shapes"]

Program = Callable[[Any], list[float]]
#: how many shapes the program for the memory has
SHAPES = 2000


def total(module: Any) -> float:
    """The sum of all parameters, so that the last update counts too; numpy's, which adds nothing to measure."""
    return sum(float(p.detach().numpy().sum(dtype=np.float64)) for p in module.parameters())


# ----------------------------------------------------- new shapes, one kind each


def widths(torch: Any) -> list[float]:
    """30 MLPs of different widths, ten steps of Adam each."""
    nn, F = torch.nn, torch.nn.functional
    losses = []
    for width in range(20, 50):
        model = nn.Sequential(
            nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 3)
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        x, y = torch.randn(128, 64), torch.randint(0, 3, (128,))
        for _ in range(10):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        losses += [loss.item(), total(model)]
    return losses


def lengths(torch: Any) -> list[float]:
    """Training steps of a transformer encoder, each at another length of the sequences."""
    nn, F = torch.nn, torch.nn.functional
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    encoder, head = nn.TransformerEncoder(layer, 2), nn.Linear(64, 3)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()])
    losses = []
    for length in range(20, 60):
        x, y = torch.randn(8, length, 64), torch.randint(0, 3, (8,))
        optimizer.zero_grad()
        loss = F.cross_entropy(head(encoder(x).mean(1)), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [*losses, total(encoder)]


def graphs(torch: Any) -> list[float]:
    """Training steps of a graph network, each on a graph of another size."""
    nn, F = torch.nn, torch.nn.functional
    first, second = nn.Linear(32, 64), nn.Linear(64, 3)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)
    losses = []
    for nodes in range(1000, 1500, 10):
        x, y = torch.randn(nodes, 32), torch.randint(0, 3, (nodes,))
        source, target = torch.randint(0, nodes, (2, 4 * nodes))
        optimizer.zero_grad()
        h = F.relu(first(x))
        h = torch.zeros(nodes, 64).index_add(0, target, h[source])
        loss = F.cross_entropy(second(h), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [*losses, total(first)]


def operations(torch: Any) -> list[float]:
    """Five operations at 200 shapes, as in a notebook or in tests."""
    found = []
    for size in range(100, 300):
        a = torch.randn(size, 50)
        weights = (a @ a.T).softmax(-1)
        found.append((weights @ a).relu().sum(0).std().item())
    return found


# --------------------------------------------------------------- text, growing


def gpt(torch: Any, tokens: int, width: int, heads: int, layers: int, context: int, dropout: float) -> Any:
    """A GPT whose attention is written out, with a mask that is cut to the length."""
    nn, F = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.drop_weights, self.drop_out = nn.Dropout(dropout), nn.Dropout(dropout)
            self.register_buffer(
                "seen", torch.tril(torch.ones(context, context)).view(1, 1, context, context)
            )

        def forward(self, x: Any) -> Any:
            n, t, c = x.size()
            q, k, v = (p.view(n, t, heads, c // heads).transpose(1, 2) for p in self.qkv(x).split(c, dim=2))
            scores = q @ k.transpose(-2, -1) / math.sqrt(c // heads)  # (N, heads, T, T)
            scores = scores.masked_fill(self.seen[:, :, :t, :t] == 0, float("-inf"))
            mixed = self.drop_weights(F.softmax(scores, dim=-1)) @ v  # (N, heads, T, C / heads)
            return self.drop_out(self.out(mixed.transpose(1, 2).contiguous().view(n, t, c)))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), Attention(), nn.LayerNorm(width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.drop = nn.Dropout(dropout)

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(context, width)
            self.drop = nn.Dropout(dropout)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
            self.apply(self.start)
            self.context = context

        def start(self, module: Any) -> None:
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

        def forward(self, x: Any, y: Any = None) -> tuple[Any, Any]:
            places = torch.arange(0, x.size(1), dtype=torch.long).unsqueeze(0)
            h = self.drop(self.tokens(x) + self.places(places))
            for block in self.blocks:
                h = block(h)
            logits = self.head(self.norm(h))
            if y is None:
                return logits, None
            return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1), ignore_index=-1)

        @torch.no_grad()
        def generate(self, x: Any, count: int, temperature: float = 1.0, top_k: int | None = None) -> Any:
            """``x`` (N, T) with ``count`` more tokens; all of it goes through the model for each of them."""
            for _ in range(count):
                logits, _ = self(x if x.size(1) <= context else x[:, -context:])
                logits = logits[:, -1, :] / temperature
                if top_k is not None:
                    best, _ = torch.topk(logits, top_k)
                    logits[logits < best[:, [-1]]] = -float("inf")
                chosen = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
                x = torch.cat((x, chosen), dim=1)
            return x

    return GPT()


def manual(length: int) -> tuple[str, dict[str, int]]:
    """The first characters of Python's manual, and a number for each kind of character."""
    text = "".join(topics.values())[:length]
    return text, {character: i for i, character in enumerate(sorted(set(text)))}


def generation(torch: Any) -> list[float]:
    """200 characters sampled from a small GPT without a cache: the context grows by one at each."""
    model = gpt(torch, tokens=80, width=96, heads=4, layers=3, context=256, dropout=0.0).eval()
    start = torch.randint(0, 80, (1, 8))
    return model.generate(start, 200, temperature=0.9, top_k=20)[0].tolist()


def characters(torch: Any) -> list[float]:
    """A trainer, a data loader with a smaller last batch, and after each epoch a sample of the text."""
    data = torch.utils.data
    text, codes = manual(4000)
    context = 64

    class Pieces(data.Dataset):
        """Pieces of the text, and the same one character on."""

        def __len__(self) -> int:
            return (len(text) - 1) // 8 - context // 8

        def __getitem__(self, i: int) -> tuple[Any, Any]:
            piece = torch.tensor([codes[c] for c in text[8 * i : 8 * i + context + 1]], dtype=torch.long)
            return piece[:-1], piece[1:]

    class Trainer:
        """Goes through the data; whoever asks is called after each epoch."""

        def __init__(self, model: Any, dataset: Any, epochs: int) -> None:
            self.model, self.epochs, self.listeners = model, epochs, []
            self.loader = data.DataLoader(dataset, batch_size=32, shuffle=True)
            decayed = [p for p in model.parameters() if p.dim() >= 2]
            others = [p for p in model.parameters() if p.dim() < 2]
            groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
            self.optimizer = torch.optim.AdamW(groups, lr=5e-4, betas=(0.9, 0.95))
            self.losses: list[float] = []

        def run(self) -> None:
            for _ in range(self.epochs):
                self.model.train()
                for x, y in self.loader:
                    _, loss = self.model(x, y)
                    self.model.zero_grad(set_to_none=True)
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.optimizer.step()
                    self.losses.append(loss.item())
                for listener in self.listeners:
                    listener(self)

    samples: list[float] = []

    def sample(trainer: Trainer) -> None:
        trainer.model.eval()
        prompt = torch.tensor([codes[c] for c in "The "], dtype=torch.long)[None, ...]
        samples.extend(trainer.model.generate(prompt, 100, temperature=1.0, top_k=10)[0].tolist())

    model = gpt(torch, len(codes), width=48, heads=3, layers=3, context=context, dropout=0.1)
    trainer = Trainer(model, Pieces(), epochs=4)
    trainer.listeners.append(sample)
    trainer.run()
    return [*trainer.losses, *samples]


# ------------------------------------------------------- small steps, many of them


def waves(torch: Any) -> list[float]:
    """Two LSTM cells in a Python loop over 1,000 places of sine waves, trained by L-BFGS, then left to go on alone."""
    nn = torch.nn

    class Waves(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.width = width
            self.first, self.second = nn.LSTMCell(1, width), nn.LSTMCell(width, width)
            self.head = nn.Linear(width, 1)

        def forward(self, x: Any, more: int = 0) -> Any:
            zeros = lambda: torch.zeros(x.size(0), self.width, dtype=torch.double)
            h1, c1, h2, c2 = zeros(), zeros(), zeros(), zeros()
            outputs = []
            for place in x.split(1, dim=1):  # (N, 1)
                h1, c1 = self.first(place, (h1, c1))
                h2, c2 = self.second(h1, (h2, c2))
                outputs.append(self.head(h2))
            for _ in range(more):
                h1, c1 = self.first(outputs[-1], (h1, c1))
                h2, c2 = self.second(h1, (h2, c2))
                outputs.append(self.head(h2))
            return torch.cat(outputs, dim=1)

    shifts = torch.randint(-80, 80, (12, 1), dtype=torch.double)
    data = torch.sin((torch.arange(1001, dtype=torch.double) + shifts) / 20)
    x, y, held_out, wanted = data[3:, :-1], data[3:, 1:], data[:3, :-1], data[:3, 1:]
    model = Waves(32).double()
    criterion = nn.MSELoss()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=4)
    found: list[float] = []

    def closure() -> Any:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        found.append(loss.item())
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
        with torch.no_grad():
            guess = model(held_out, more=200)
            found.append(criterion(guess[:, :-200], wanted).item())
    return [*found, *guess[0, -5:].tolist()]


class Pole:
    """A pole on a cart, one of them, in plain numbers."""

    def __init__(self) -> None:
        self.rng = random.Random(0)

    def reset(self) -> list[float]:
        self.state = [self.rng.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, action: int) -> tuple[list[float], float, bool]:
        """Push to the left (0) or the right (1): the state, a reward, and whether it is over."""
        x, speed, angle, spin = self.state
        force = ((10.0 if action else -10.0) + 0.05 * spin**2 * math.sin(angle)) / 1.1
        turn = 9.8 * math.sin(angle) - math.cos(angle) * force
        turn /= 0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1)
        push = force - 0.05 * turn * math.cos(angle) / 1.1
        self.state = [x + 0.02 * speed, speed + 0.02 * push, angle + 0.02 * spin, spin + 0.02 * turn]
        return self.state, 1.0, abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095


def rollouts(torch: Any) -> list[float]:
    """REINFORCE: a policy asked for one state at a time, and an update after episodes of any length."""
    nn = torch.nn
    Categorical = torch.distributions.Categorical
    policy = nn.Sequential(
        nn.Linear(4, 128), nn.Dropout(0.6), nn.ReLU(), nn.Linear(128, 2), nn.Softmax(dim=1)
    )
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    pole, found = Pole(), []
    for _ in range(40):
        state, over, log_probs, rewards = pole.reset(), False, [], []
        while not over and len(rewards) < 300:
            chances = Categorical(policy(torch.tensor(state).unsqueeze(0)))
            action = chances.sample()
            log_probs.append(chances.log_prob(action))
            state, reward, over = pole.step(action.item())
            rewards.append(reward)
        gain, gains = 0.0, deque()
        for reward in reversed(rewards):
            gain = reward + 0.99 * gain
            gains.appendleft(gain)
        returns = torch.tensor(gains)
        returns = (returns - returns.mean()) / (returns.std() + 1e-7)
        terms = [-log_prob * gain for log_prob, gain in zip(log_probs, returns)]
        optimizer.zero_grad()
        loss = torch.cat(terms).sum()
        loss.backward()
        optimizer.step()
        found += [len(rewards), loss.item()]
    return [*found, total(policy)]


def sequences(torch: Any) -> list[float]:
    """An LSTM that classifies sequences of any length, padded and packed, with a smaller last batch."""
    nn, F, data, rnn = torch.nn, torch.nn.functional, torch.utils.data, torch.nn.utils.rnn

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(51, 32, padding_idx=0)
            self.lstm = nn.LSTM(32, 48, batch_first=True, bidirectional=True)
            self.head = nn.Linear(96, 4)

        def forward(self, x: Any, lengths: Any) -> Any:
            packed = rnn.pack_padded_sequence(self.embed(x), lengths, batch_first=True, enforce_sorted=False)
            outputs, (h, _) = self.lstm(packed)  # h: (2, N, 48)
            padded, _ = rnn.pad_packed_sequence(outputs, batch_first=True)  # (N, T, 96)
            return self.head(torch.cat([h[0], h[1]], dim=1) + padded.sum(1) / lengths.unsqueeze(1))

    def collate(rows: Any) -> tuple[Any, Any, Any]:
        sequences, labels = zip(*rows)
        lengths = torch.tensor([len(s) for s in sequences])
        return rnn.pad_sequence(sequences, batch_first=True), lengths, torch.stack(labels)

    rng = random.Random(0)
    rows = []
    for _ in range(330):
        label = rng.randrange(4)
        codes = [rng.randint(1 + 10 * label, 20 + 10 * label) for _ in range(rng.randint(4, 60))]
        rows.append((torch.tensor(codes), torch.tensor(label)))
    training = data.DataLoader(rows[:250], batch_size=16, shuffle=True, collate_fn=collate)
    held_out = data.DataLoader(rows[250:], batch_size=32, collate_fn=collate)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    found = []
    for _ in range(2):
        model.train()
        for x, lengths, y in training:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x, lengths), y)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        model.eval()
        with torch.no_grad():
            found += [F.cross_entropy(model(x, lengths), y).item() for x, lengths, y in held_out]
    return [*found, total(model)]


def cnn(torch: Any, first: int, second: int, kernel: int) -> Any:
    """A CNN with so many channels."""
    nn = torch.nn
    conv = lambda n, m: nn.Conv2d(n, m, kernel, padding=kernel // 2, bias=False)
    return nn.Sequential(
        conv(1, first), nn.BatchNorm2d(first), nn.ReLU(), nn.MaxPool2d(2),
        conv(first, second), nn.BatchNorm2d(second), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(second, 5),
    )  # fmt: skip


def search(torch: Any) -> list[float]:
    """A search for a small CNN: twelve choices of channels, kernel and optimizer, a few steps and a score each."""
    F = torch.nn.functional
    x, y = torch.randn(96, 1, 16, 16), torch.randint(0, 5, (96,))
    x = x + y.view(-1, 1, 1, 1) * 0.3
    batches = list(zip(x[:72].split(32), y[:72].split(32), strict=True))
    choices = random.Random(0)
    found = []
    for trial in range(12):
        first, second, kernel = choices.randrange(4, 20), choices.randrange(8, 32), choices.choice((3, 5))
        model = cnn(torch, first, second, kernel)
        kind = (torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop)[trial % 3]
        optimizer = kind(model.parameters(), lr=10 ** choices.uniform(-3, -2))
        model.train()
        for _ in range(2):
            for images, labels in batches:
                optimizer.zero_grad()
                loss = F.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
        model.eval()
        with torch.no_grad():
            score = F.cross_entropy(model(x[72:]), y[72:])
        found += [loss.item(), score.item()]
    return found


PROGRAMS: dict[str, Program] = {
    "MLP widths": widths,
    "lengths": lengths,
    "graphs": graphs,
    "operations": operations,
    "generation": generation,
    "time sequence": waves,
    "characters": characters,
    "rollouts": rollouts,
    "packed sequences": sequences,
    "CNN search": search,
}


# ---------------------------------------------------------------------- memory


def shapes(torch: Any, count: int = SHAPES) -> Iterator[float]:
    """Training steps of a small layer, each with another number of rows; yields the loss of each."""
    nn = torch.nn
    layer = nn.Linear(48, 16)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    for rows in islice(range(100, 100 + 3 * count, 3), count):
        x = torch.randn(rows, 48)
        optimizer.zero_grad()
        loss = layer(x).relu().square().mean()
        loss.backward()
        optimizer.step()
        yield loss.item()
