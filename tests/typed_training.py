"""A training script as its user writes it: `test_typing` has mypy read it, and runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import functorch_port as torch
import functorch_port.nn as nn
import functorch_port.nn.functional as F
from functorch_port import Tensor, optim
from functorch_port.utils.data import DataLoader, Dataset, TensorDataset


class Net(nn.Module):
    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Sequential(
            nn.Linear(4 * 4 * 4, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, 10)
        )
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        x = x.view(x.size(0), -1).view((x.shape[0], -1)).view(-1, 4 * 4 * 4)
        logits: Tensor = self.head(x)
        return logits * self.scale


class Squares(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = torch.tensor([float(index)])
        return x, x**2


@torch.no_grad()
def evaluate(net: nn.Module, loader: DataLoader[tuple[Tensor, ...]]) -> float:
    net.eval()
    correct, total = 0, 0
    for x, y in loader:
        correct += (net(x).argmax(dim=1) == y).sum().item()
        total += y.numel()
    return correct / total


def train(folder: Path, device: torch.device) -> None:
    torch.manual_seed(0)
    x, y = torch.rand(32, 1, 8, 8), torch.randint(0, 10, (32,))
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    net = Net().to(device)
    optimizer = optim.Adam(net.parameters(), lr=1e-3, weight_decay=0.01)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        net.train()
        running = 0.0
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device, non_blocking=True)
            optimizer.zero_grad()
            out = net(images)
            loss = criterion(out, labels) + 0.1 * F.cross_entropy(out, labels, label_smoothing=0.1)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
            optimizer.step()
            running += loss.item()
        scheduler.step()
        print(f"{epoch}: {running / len(loader):.3f}", scheduler.get_last_lr(), evaluate(net, loader))

    with torch.no_grad():
        probabilities = torch.softmax(net(x), dim=-1)
    values, indices = probabilities.topk(3, dim=1)
    array: np.ndarray = probabilities.detach().cpu().numpy()
    print(array.mean(), values.tolist()[0], indices[:, 0].float().mean().item())

    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, folder / "net.pt")
    state = torch.load(folder / "net.pt", map_location="cpu", weights_only=True)
    net.load_state_dict(state["net"])
    fast = torch.compile(net)
    print(fast(x).shape == net(x).shape, sum(p.numel() for p in net.parameters() if p.requires_grad))


@torch.compile
def step(x: Tensor) -> Tensor:
    return x.relu().sum()


def squares() -> float:
    model, optimizer = nn.Linear(1, 1), None
    optimizer = optim.SGD([{"params": [model.weight], "lr": 0.1}, {"params": [model.bias]}], lr=0.01)
    total = torch.zeros(())
    for x, y in DataLoader(Squares(), batch_size=5):
        loss = F.mse_loss(model(x), y, reduction="sum")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        total += loss.detach()
    if model.weight.grad is not None:
        model.weight.grad.zero_()
    return float(total)


def arithmetic(x: Tensor, w: Tensor) -> Tensor:
    """``x`` and ``w`` have the shape (3, 3)."""
    a = x + 1 - 2 * x / 3 + x**2 - x @ w + (1 - x) + 2.0**x + np.float32(1) + np.ones(3, np.float32)
    mask = (a > 0) & (x <= w) | ~(x != 1)
    a[mask] = 0
    a[0, :] = x[..., -1]
    a[1:3] += 1
    a[torch.arange(2), None] = torch.randn_like(a[:2])[:, None]
    a = torch.where(mask, a, torch.zeros_like(a)) + torch.where(mask, a, 0.0)
    a = a.clamp(min=0).clamp_(0, 1).add_(1, alpha=2).mul_(0.5) + torch.add(a, x, alpha=2) - -a
    a -= torch.einsum("ij,jk->ik", x, w) + torch.linalg.norm(x) + torch.special.expit(x)
    largest, where = x.max(dim=1)
    print(x.max(), x.max(1).values, torch.max(x, w), where, largest.argmin().item(), torch.sort(x).indices)
    return a + x.amax(dim=(0, 1)) + x.sum(axis=1, keepdims=True) + x.std(unbiased=False) + x.var(0)


def shapes(x: Tensor) -> Tensor:
    rows, columns = x.shape
    a = torch.cat([x, x], dim=0) + torch.stack((x, x)).sum(dim=(0, 1), keepdim=True).mean(0)
    a = a.reshape(2, rows, columns).permute(0, 2, 1).transpose(1, 2).contiguous().unsqueeze(0).squeeze()
    a = a.permute((0, 1, 2)).expand(2, -1, -1).expand((2, rows, columns)).repeat(2, 1, 1).flip(0).flip((1, 2))
    q, k, v = a.reshape((-1, 3)).chunk(3, dim=-1)
    sizes = [
        torch.zeros(2, 3),
        torch.zeros((2, 3), device="cpu"),
        torch.zeros(size=(2, 3)),
        torch.empty([2, 3]),
    ]
    sizes += [
        torch.ones(x.shape),
        torch.rand(*x.shape),
        torch.full((2, 3), 1.5),
        x.new_zeros(3),
        torch.eye(rows),
    ]
    steps = (
        torch.linspace(0, 1, 5) + torch.arange(5) + torch.arange(0, 10, 2) + torch.arange(0.0, 5.0, step=1)
    )
    moved = x.to("cpu", torch.float64).to(x.device).to(dtype=torch.float32).to(q).type(torch.float32).double()
    print(
        q.size(), k.size(0), v.stride(), steps, moved.dtype, x.T, x.ndim, len(x), x.split(2)[0], x.unbind(1)
    )
    for row in x:
        steps = steps + row.sum()
    if (x > 1).any() and torch.allclose(x, x) and bool((x == 1).all()):
        print(f"{x[0, 0]:.2f}", float(x[0, 0]), int(x[0, 0]), x.nonzero(as_tuple=True)[0])
    return torch.cat(tuple(s.flatten().view(-1) for s in sizes)) + steps[0]


def gradients() -> None:
    leaf = torch.randn(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(leaf.pow(2).sum(), [leaf])
    leaf.register_hook(lambda g: g * 2)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.enable_grad():
        product = leaf @ gradient
    product.float().backward()
    print(leaf.grad, leaf.is_leaf, leaf.grad_fn, torch.func.grad(lambda t: (t**2).sum())(leaf.detach()))
    print(torch.distributions.Normal(0.0, 1.0).sample((2,)), torch.fft.fft(gradient).real, torch.pi)


if __name__ == "__main__":
    train(Path(sys.argv[1]), torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    print(
        step(torch.ones(3)),
        squares(),
        arithmetic(torch.rand(3, 3), torch.rand(3, 3)),
        shapes(torch.ones(3, 3)),
    )
    gradients()
