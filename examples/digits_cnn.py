"""Train a convolutional network on handwritten digits: PyTorch code, run by JAX, eagerly and compiled.

The data are the 1,797 scans that come with scikit-learn, upsampled to 28x28. `make demo` runs this.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits

import functorch_port as torch
import functorch_port.nn as nn
import functorch_port.nn.functional as F
import functorch_port.optim as optim
from functorch_port.utils.data import DataLoader, TensorDataset, random_split

matplotlib.use("Agg")
import matplotlib.pyplot as plt

console = Console()


class Net(nn.Module):
    """Two convolutions and two linear layers: 1,199,882 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout1 = nn.Dropout2d(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(x))  # (N, 32, 26, 26)
        x = F.relu(self.conv2(x))  # (N, 64, 24, 24)
        x = self.dropout1(F.max_pool2d(x, 2))
        x = torch.flatten(x, 1)  # (N, 9216)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def upsample(images: np.ndarray, size: int) -> np.ndarray:
    """Bilinear interpolation of square images, corner to corner: (N, s, s) to (N, size, size)."""
    small = images.shape[-1]
    position = np.linspace(0, small - 1, size)
    weights = np.maximum(0, 1 - np.abs(position[:, None] - np.arange(small)))  # (size, s), rows sum to one
    return weights @ images @ weights.T


def load_data(test_size: int) -> tuple[TensorDataset, TensorDataset]:
    """Digits as (N, 1, 28, 28) tensors with values about zero, split at random into two sets."""
    digits = load_digits()
    images = torch.tensor(upsample(digits.images / 16, 28), dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(digits.target, dtype=torch.int64)
    data = TensorDataset((images - images.mean()) / images.std(), labels)
    return random_split(data, [len(data) - test_size, test_size])


def timed(step: Callable, batch: list[torch.Tensor], model: Net) -> tuple[float, float]:
    """Run one step; return its loss and how many seconds it took until the new parameters were there."""
    start = time.perf_counter()
    loss = step(*batch).item()
    for parameter in model.parameters():  # JAX computes in the background: the loss is known before the end
        parameter.jax().block_until_ready()
    return loss, time.perf_counter() - start


def plot(losses: list[float], accuracies: list[float], path: Path) -> None:
    """Loss by step and held-out accuracy by epoch."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    left.plot(losses, linewidth=1)
    left.set(title="training loss", xlabel="step", ylabel="negative log likelihood", yscale="log")
    right.plot(range(1, len(accuracies) + 1), [100 * a for a in accuracies], marker="o", markersize=3)
    right.set(title="held-out accuracy", xlabel="epoch", ylabel="%")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="JAX_PLATFORMS=cpu keeps it on the CPU; with a GPU or TPU build of JAX it runs there.",
    )
    parser.add_argument("--epochs", type=int, default=16, help="compiled passes over the training set")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step")
    parser.add_argument(
        "--lr", type=float, default=0.05, help="learning rate of SGD at first; it falls to zero"
    )
    parser.add_argument("--momentum", type=float, default=0.9, help="momentum of SGD")
    parser.add_argument("--eager-steps", type=int, default=6, help="steps to time before compiling")
    parser.add_argument("--seed", type=int, default=0, help="for weights, split, shuffles and dropout")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for checkpoint and plot")
    return parser.parse_args()


@dataclass
class Record:
    """What happened: losses of all steps, seconds per step of either kind, accuracy per epoch."""

    losses: list[float] = field(default_factory=list)
    eager: list[float] = field(default_factory=list)
    compiled: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)


def train(model: Net, optimizer: optim.Optimizer, loader: DataLoader, held_out: Any, options: Any) -> Record:
    """A few eager steps, then compiled ones under a progress bar."""
    record = Record()
    test_images, test_labels = next(iter(DataLoader(held_out, batch_size=len(held_out))))

    def step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    def accuracy(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return (model(images).argmax(1) == labels).float().mean()

    for _, batch in zip(range(options.eager_steps), loader):
        loss, seconds = timed(step, batch, model)
        record.losses.append(loss)
        record.eager.append(seconds)

    compiled_step, compiled_accuracy = torch.compile(step), torch.compile(accuracy)
    with progress_bar() as bar:
        task = bar.add_task("compiling", total=options.epochs * len(loader), loss=loss, accuracy=0.0)
        for epoch in range(options.epochs):
            model.train()
            for group in optimizer.param_groups:
                group["lr"] = options.lr * (1 - epoch / options.epochs)  # an input of the compiled step
            for batch in loader:
                loss, seconds = timed(compiled_step, batch, model)
                record.losses.append(loss)
                record.compiled.append(seconds)
                bar.update(task, advance=1, loss=loss, description=f"epoch {epoch + 1}")
            model.eval()
            record.accuracies.append(compiled_accuracy(test_images, test_labels).item())
            bar.update(task, accuracy=record.accuracies[-1])
    return record


def progress_bar() -> Progress:
    """Epoch, bar, steps, time, loss and accuracy on one line."""
    figures = "loss {task.fields[loss]:.4f}  held-out {task.fields[accuracy]:.1%}"
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn(figures),
        console=console,
    )


def report(record: Record, held_out: int, device: torch.device) -> None:
    """Loss, accuracy and step times in words."""

    def times(seconds: list[float]) -> str:
        return (
            f"{1e3 * statistics.median(seconds):.1f} ms (median of {len(seconds)}; first {seconds[0]:.1f} s)"
        )

    rows = {
        "loss": f"{record.losses[0]:.4f} at first, {record.losses[-1]:.4f} at the end",
        "held-out accuracy": f"{record.accuracies[-1]:.1%} of {held_out} images",
        "device": str(device),
        "eager step": times(record.eager),
        "compiled step": times(record.compiled),
    }
    for name, value in rows.items():
        console.print(f"{name:<18} {value}", highlight=False)


def main() -> None:
    """Train, report, save."""
    options = arguments()
    begin = time.perf_counter()
    torch.manual_seed(options.seed)
    training, held_out = load_data(test_size=360)
    loader = DataLoader(training, batch_size=options.batch_size, shuffle=True, drop_last=True)

    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=options.lr, momentum=options.momentum)
    device = next(model.parameters()).device
    count = sum(p.numel() for p in model.parameters())
    console.print(f"{len(training)} images to train on, {len(held_out)} held out, {count:,} parameters")
    record = train(model, optimizer, loader, held_out, options)
    report(record, len(held_out), device)

    options.out.mkdir(parents=True, exist_ok=True)
    checkpoint, picture = options.out / "digits_cnn.pt", options.out / "digits_cnn.png"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
    plot(record.losses, record.accuracies, picture)
    console.print(
        f"saved              {checkpoint} (model and optimizer), {picture} (curves)", soft_wrap=True
    )
    console.print(f"in all             {time.perf_counter() - begin:.0f} s", highlight=False)


if __name__ == "__main__":
    main()
