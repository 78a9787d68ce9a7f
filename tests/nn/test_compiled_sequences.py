"""Sequence models trained compiled here and eagerly by torch: the same losses over 30 steps, in few compilations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import functorch_port as ft

STEPS = 30


def tokens(T, *shape, classes=11):
    return T.tensor(np.random.default_rng(0).integers(0, classes, shape))


def lstm_language_model(T, compile):
    """Truncated backpropagation: the state goes on from chunk to chunk, without its history."""
    nn = T.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.lstm = nn.LSTM(8, 12, 2)
            self.head = nn.Linear(12, 11)

        def forward(self, x, state):
            out, state = self.lstm(self.embed(x), state)
            return self.head(out), state

    model = Model().double()
    opt = T.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    text = tokens(T, 5 * STEPS + 1, 3)

    def step(x, y, state):
        opt.zero_grad()
        logits, state = model(x, state)
        loss = T.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        T.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss, tuple(s.detach() for s in state)

    run = compile(step)
    state, losses = (T.zeros(2, 3, 12).double(), T.zeros(2, 3, 12).double()), []
    for i in range(0, 5 * STEPS, 5):
        loss, state = run(text[i : i + 5], text[i + 1 : i + 6], state)
        losses.append(loss.item())
    return losses


def encoder_decoder(T, compile):
    """A translation-like task with padding and causal masks."""
    nn = T.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 8, padding_idx=0)
            self.transformer = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
            self.head = nn.Linear(8, 11)

        def forward(self, src, tgt):
            mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1], dtype=T.float64)
            padding = src == 0
            out = self.transformer(
                self.embed(src),
                self.embed(tgt),
                tgt_mask=mask,
                src_key_padding_mask=padding,
                memory_key_padding_mask=padding,
                tgt_is_causal=True,
            )
            return self.head(out)

    model = Model().double()
    opt = T.optim.Adam(model.parameters(), lr=1e-2)
    src, tgt = tokens(T, 4, 6), tokens(T, 4, 5)
    src[:, 0] = 1

    def step(src, tgt):
        opt.zero_grad()
        logits = model(src, tgt[:, :-1])
        loss = T.nn.functional.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=0)
        loss.backward()
        opt.step()
        return loss

    run = compile(step)
    return [run(src, tgt).item() for _ in range(STEPS)]


def gpt(T, compile):
    """Pre-norm blocks with causal attention; the output layer is the embedding."""
    nn, F = T.nn, T.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
            self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
            self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (
                a.view(b, t, 2, c // 2).transpose(1, 2) for a in self.qkv(self.norm1(x)).split(c, dim=2)
            )
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.place = nn.Embedding(11, 8), nn.Embedding(6, 8)
            self.blocks = nn.Sequential(Block(), Block())
            self.norm = nn.LayerNorm(8)
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.embed.weight
            nn.init.normal_(self.embed.weight, std=1 / math.sqrt(8))

        def forward(self, x):
            x = self.embed(x) + self.place(T.arange(x.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    model = GPT().double()
    opt = T.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    text = tokens(T, 4, 7)

    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(model(x).view(-1, 11), y.reshape(-1))
        loss.backward()
        opt.step()
        return loss

    run = compile(step)
    return [run(text[:, :-1], text[:, 1:]).item() for _ in range(STEPS)]


@pytest.mark.parametrize("case", [lstm_language_model, encoder_decoder, gpt], ids=lambda c: c.__name__)
def test_compiled_training(case):
    torch.manual_seed(0)
    want = case(torch, lambda fn: fn)
    traces = []

    def compiled(fn):
        def counted(*args):
            traces.append(1)
            return fn(*args)

        return ft.compile(counted)

    ft.manual_seed(0)
    got = case(ft, compiled)
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)
    assert len(traces) <= 2
    assert want[-1] < want[0]
