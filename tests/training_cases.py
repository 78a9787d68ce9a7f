"""Training programs, each written once for any library with PyTorch's names.

A case is a function ``case(T, compile)`` that makes its model and data from ``T`` after ``manual_seed(0)``,
wraps its step with
``compile`` and returns the values to compare: a list of numpy arrays, one or more per step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS = 50


def _data(T: Any, *shape: int, seed: int = 0) -> Any:
    return T.tensor(np.random.default_rng(seed).standard_normal(shape))


def _labels(T: Any, n: int, classes: int, seed: int = 1) -> Any:
    return T.tensor(np.random.default_rng(seed).integers(0, classes, n))


def _values(model: Any) -> list[np.ndarray]:
    return [v.detach().numpy() for v in model.state_dict().values()]


def _mlp(T: Any) -> Any:
    return T.nn.Sequential(T.nn.Linear(6, 16), T.nn.Tanh(), T.nn.Linear(16, 3)).double()


def _step(T: Any, net: Any, opt: Any) -> Any:
    """The ordinary training step of a classifier."""

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


def batchnorm_dropout(T: Any, compile: Any) -> list[np.ndarray]:
    nn = T.nn
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(),
        nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3),
    ).double()  # fmt: skip
    opt = T.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    x, y = _data(T, 12, 2, 6, 6), _labels(T, 12, 3)

    run = compile(_step(T, net, opt))
    losses = [run(x, y).detach().numpy() for _ in range(STEPS)]
    return losses + _values(net)


def gradient_accumulation(T: Any, compile: Any) -> list[np.ndarray]:
    net = _mlp(T)
    opt = T.optim.SGD(net.parameters(), lr=0.1)
    x, y = _data(T, 32, 6), _labels(T, 32, 3)

    def accumulate(x: Any, y: Any) -> Any:
        loss = T.nn.functional.cross_entropy(net(x), y) / 4
        loss.backward()
        return loss

    run = compile(accumulate)
    losses = []
    for _ in range(STEPS):
        for i in range(4):
            losses.append(run(x[8 * i : 8 * i + 8], y[8 * i : 8 * i + 8]).detach().numpy())
        opt.step()
        opt.zero_grad()
    return losses + _values(net)


def frozen_and_unfrozen(T: Any, compile: Any) -> list[np.ndarray]:
    net = _mlp(T)
    opt = T.optim.SGD(net.parameters(), lr=0.1, momentum=0.5, weight_decay=0.01)
    x, y = _data(T, 16, 6), _labels(T, 16, 3)

    run = compile(_step(T, net, opt))
    losses = []
    for i in range(STEPS):
        net[0].requires_grad_(i % 20 >= 10)
        losses.append(run(x, y).detach().numpy())
    return losses + _values(net)


def lr_schedule_by_hand(T: Any, compile: Any) -> list[np.ndarray]:
    net = _mlp(T)
    opt = T.optim.SGD(
        [{"params": net[0].parameters(), "lr": 0.2}, {"params": net[2].parameters()}],
        lr=0.1,
        momentum=0.9,
        nesterov=True,
    )
    x, y = _data(T, 16, 6), _labels(T, 16, 3)

    run = compile(_step(T, net, opt))
    losses = []
    for i in range(STEPS):
        for group in opt.param_groups:
            group["lr"] *= 0.97
            group["momentum"] = 0.9 - 0.005 * i
        losses.append(run(x, y).detach().numpy())
    return losses + _values(net)


def tied_weights(T: Any, compile: Any) -> list[np.ndarray]:
    nn = T.nn

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.hidden = nn.Linear(8, 8)
            self.out = nn.Linear(8, 11, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, x: Any) -> Any:
            return self.out(T.tanh(self.hidden(self.embed(x))))

    net = Tied().double()
    opt = T.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x, y = _labels(T, 20, 11, seed=2), _labels(T, 20, 11, seed=3)

    run = compile(_step(T, net, opt))
    losses = [run(x, y).detach().numpy() for _ in range(STEPS)]
    return losses + _values(net)


def double_backward_penalty(T: Any, compile: Any) -> list[np.ndarray]:
    net = _mlp(T)
    opt = T.optim.SGD(net.parameters(), lr=0.05)
    x, y = _data(T, 16, 6), _labels(T, 16, 3)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        x = x.detach().requires_grad_()
        loss = T.nn.functional.cross_entropy(net(x), y)
        (gradient,) = T.autograd.grad(loss, x, create_graph=True)
        total = loss + 10.0 * (gradient**2).sum()
        total.backward()
        opt.step()
        return total

    run = compile(step)
    losses = [run(x, y).detach().numpy() for _ in range(STEPS)]
    return losses + _values(net)


def ema_in_a_list(T: Any, compile: Any) -> list[np.ndarray]:
    net = _mlp(T)
    opt = T.optim.SGD(net.parameters(), lr=0.1)
    ema = [p.detach().clone() for p in net.parameters()]
    replaced = [p.detach().clone() for p in net.parameters()]
    x, y = _data(T, 16, 6), _labels(T, 16, 3)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        with T.no_grad():
            for i, p in enumerate(net.parameters()):
                ema[i].mul_(0.9).add_(p, alpha=0.1)
                replaced[i] = 0.8 * replaced[i] + 0.2 * p
        return loss

    run = compile(step)
    losses = [run(x, y).detach().numpy() for _ in range(STEPS)]
    return losses + [t.detach().numpy() for t in (*ema, *replaced)] + _values(net)


def two_optimizers(T: Any, compile: Any) -> list[np.ndarray]:
    nn = T.nn
    generator = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6)).double()
    critic = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    opt_g = T.optim.SGD(generator.parameters(), lr=0.05, momentum=0.5)
    opt_c = T.optim.SGD(critic.parameters(), lr=0.1)
    real, noise = _data(T, 16, 6), _data(T, 16, 4, seed=5)
    bce = nn.functional.binary_cross_entropy_with_logits
    ones, zeros = T.ones(16, 1, dtype=T.float64), T.zeros(16, 1, dtype=T.float64)

    def step(real: Any, noise: Any) -> Any:
        fake = generator(noise)
        opt_c.zero_grad()
        loss_c = bce(critic(real), ones) + bce(critic(fake.detach()), zeros)
        loss_c.backward()
        opt_c.step()
        opt_g.zero_grad()
        loss_g = bce(critic(fake), ones)
        loss_g.backward()
        opt_g.step()
        return loss_c, loss_g

    run = compile(step)
    losses = [v.detach().numpy() for _ in range(STEPS) for v in run(real, noise)]
    return losses + _values(generator) + _values(critic)


def closure_step(T: Any, compile: Any) -> list[np.ndarray]:
    net = _mlp(T)
    opt = T.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, dampening=0.1)
    x, y = _data(T, 16, 6), _labels(T, 16, 3)

    def step(x: Any, y: Any) -> Any:
        def closure() -> Any:
            opt.zero_grad()
            loss = T.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            return loss

        return opt.step(closure)

    run = compile(step)
    losses = [run(x, y).detach().numpy() for _ in range(STEPS)]
    return losses + _values(net)


def retained_graph(T: Any, compile: Any) -> list[np.ndarray]:
    net = _mlp(T)
    opt = T.optim.SGD(net.parameters(), lr=0.05)
    x, y = _data(T, 16, 6), _labels(T, 16, 3)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad(set_to_none=False)
        out = net(x)
        first = T.nn.functional.cross_entropy(out, y)
        first.backward(retain_graph=True)
        second = (out**2).mean()
        second.backward()
        opt.step()
        return first, second

    run = compile(step)
    losses = [v.detach().numpy() for _ in range(STEPS) for v in run(x, y)]
    return losses + _values(net)


def hidden_state(T: Any, compile: Any) -> list[np.ndarray]:
    nn = T.nn

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.input, self.recur, self.out = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
            self.state = T.zeros(5, 8, dtype=T.float64)

        def forward(self, x: Any) -> Any:
            self.state = T.tanh(self.input(x) + self.recur(self.state.detach()))
            return self.out(self.state)

    net = Recurrent().double()
    opt = T.optim.SGD(net.parameters(), lr=0.05)
    x, y = _data(T, 5, 4), _data(T, 5, 1, seed=7)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        net.state = net.state.detach()
        return loss

    run = compile(step)
    losses = [run(x, y).detach().numpy() for _ in range(STEPS)]
    return losses + [net.state.detach().numpy()] + _values(net)


#: case -> how often its step may be traced (2 where state is first made, or a flag changes)
CASES = {
    batchnorm_dropout: 1,
    gradient_accumulation: 2,
    frozen_and_unfrozen: 2,
    lr_schedule_by_hand: 1,
    tied_weights: 1,
    double_backward_penalty: 1,
    ema_in_a_list: 2,
    two_optimizers: 1,
    closure_step: 2,
    retained_graph: 2,
    hidden_state: 2,
}
