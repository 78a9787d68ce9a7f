"""A training run that may be stopped at any time: kill it, start it again, and it goes on to the same numbers.

It reads the handwritten digits that come with scikit-learn, shifted at random. Ctrl-C and SIGTERM save at the end of
the step; after a `kill -9` or a power cut the run goes back to the last checkpoint, which is in the folder --out. Run
it twice, in two folders, and stop one of them as often as you like: the last line is the same.
"""

import argparse
import hashlib
import signal
from pathlib import Path

import matplotlib
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits

import functorch_port as torch
from functorch_port.utils.data import DataLoader, Dataset
from functorch_port.utils.resume import Checkpoints

matplotlib.use("Agg")
import matplotlib.pyplot as plt

nn, F = torch.nn, torch.nn.functional


class Shifted(Dataset):
    """Pictures of digits, each moved by up to a pixel."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        across, down = torch.randint(-1, 2, (2,)).tolist()
        return self.images[i].roll((down, across), (1, 2)), self.labels[i]


def network(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(32 * width, 10),
    )  # fmt: skip


def plot(losses, accuracies, path):
    """Loss by step, and accuracy by epoch."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    left.plot(losses, linewidth=1)
    left.set(title="training loss", xlabel="step", ylabel="cross-entropy", yscale="log")
    right.plot(range(1, len(accuracies) + 1), [100 * a for a in accuracies], marker="o", markersize=3)
    right.set(title="held-out accuracy", xlabel="epoch", ylabel="%")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/resume"), help="folder for checkpoints and the picture"
    )
    parser.add_argument("--epochs", type=int, default=10, help="passes over the pictures")
    parser.add_argument("--batch-size", type=int, default=32, help="pictures in a step")
    parser.add_argument("--width", type=int, default=16, help="channels of the network")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--keep", type=int, default=3, help="how many of the last checkpoints stay")
    parser.add_argument("--eager", action="store_true", help="do not compile the step")
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(digits.target, dtype=torch.int64)
    loader = DataLoader(Shifted(images[:1500], labels[:1500]), args.batch_size, shuffle=True, drop_last=True)
    model = network(args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    steps = args.epochs * len(loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps + 1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step = step if args.eager else torch.compile(step)
    checkpoints = Checkpoints(
        args.out, every=args.every, keep=args.keep, best="max", signals=(signal.SIGTERM, signal.SIGINT),
        model=model, optimizer=optimizer, schedule=schedule, loader=loader,
    )  # fmt: skip
    if checkpoints.restore():
        print(f"going on after step {checkpoints.step}")
    notes = {"epoch": 0, "losses": [], "accuracies": [], **checkpoints.notes}
    losses, accuracies = notes["losses"], notes["accuracies"]

    columns = TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns) as bar, checkpoints:
        task = bar.add_task("training", total=steps, completed=checkpoints.step)
        for epoch in range(notes["epoch"], args.epochs):
            model.train()
            for x, y in loader:
                losses.append(step(x, y).item())
                schedule.step()
                checkpoints.after_step(epoch=epoch, losses=losses, accuracies=accuracies)
                bar.advance(task)
            model.eval()
            with torch.no_grad():
                accuracies.append((model(images[1500:]).argmax(1) == labels[1500:]).float().mean().item())
            checkpoints.save(metric=accuracies[-1], epoch=epoch + 1)

    plot(losses, accuracies, args.out / "resume.png")
    bits = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    print(
        f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at the end; best of held-out {max(accuracies):.1%}"
    )
    print(f"all numbers of the model: {hashlib.sha256(bits).hexdigest()}")
    return losses


if __name__ == "__main__":
    main()
