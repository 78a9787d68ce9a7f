"""The demo's network against PyTorch: same seed, same weights, same losses with shuffling and dropout on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import functorch_port as ft


def make_net(T):
    nn, F = T.nn, T.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 32, 3, 1)
            self.conv2 = nn.Conv2d(32, 64, 3, 1)
            self.dropout1 = nn.Dropout2d(0.25)
            self.dropout2 = nn.Dropout(0.5)
            self.fc1 = nn.Linear(9216, 128)
            self.fc2 = nn.Linear(128, 10)

        def forward(self, x):
            x = F.relu(self.conv1(x))
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            x = T.flatten(self.dropout1(x), 1)
            x = self.dropout2(F.relu(self.fc1(x)))
            return F.log_softmax(self.fc2(x), dim=1)

    return Net()


def digits(T):
    bunch = load_digits()
    small = (bunch.images / 16.0).astype(np.float32)
    big = np.kron(small, np.ones((1, 4, 4), np.float32))[:, 2:30, 2:30]  # 8x8 -> 32x32 -> the middle 28x28
    return T.utils.data.TensorDataset(T.tensor(big[:, None]), T.tensor(bunch.target))


def losses(T, compile=lambda fn: fn, steps=20):
    T.manual_seed(1)
    net = make_net(T)
    weights = {k: v.detach().numpy().copy() for k, v in net.state_dict().items()}
    opt = T.optim.SGD(net.parameters(), lr=0.02, momentum=0.5)
    loader = T.utils.data.DataLoader(digits(T), batch_size=32, shuffle=True)

    def step(x, y):
        opt.zero_grad()
        loss = T.nn.functional.nll_loss(net(x), y)
        loss.backward()
        opt.step()
        return loss

    run = compile(step)
    out = []
    for x, y in loader:
        out.append(run(x, y).item())
        if len(out) == steps:
            break
    return weights, out


@pytest.fixture(scope="module")
def reference():
    return losses(torch)


def test_size_and_initial_weights(reference):
    weights, _ = losses(ft, steps=1)
    assert sum(w.size for w in weights.values()) == 1_199_882 and len(weights) == 8
    assert list(weights) == list(reference[0])
    for name, value in weights.items():
        np.testing.assert_allclose(value, reference[0][name], atol=1e-6, rtol=0, err_msg=name)


@pytest.mark.parametrize(
    "compile", [lambda fn: fn, lambda fn: ft.compile(fn, rng="torch")], ids=["eager", "compiled"]
)
def test_first_20_losses(reference, compile):
    # float32: convolutions add in another order, which 20 steps amplify to some 1e-5
    np.testing.assert_allclose(losses(ft, compile)[1], reference[1], rtol=1e-4)
