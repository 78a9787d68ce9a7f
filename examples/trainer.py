"""A training loop with what a real one has around it, to copy and change.

Progress bar, validation, checkpoints, early stopping, gradient accumulation, clipping, mixed precision, a log, and
going on after a stop; on one device, or with the batch split over all devices of the machine. It trains a small
convolutional network on the handwritten digits that come with scikit-learn.

Stop it with Ctrl-C, SIGTERM or kill -9, start it again with the same --out, and it goes on where it was.
"""

import argparse
import json
import signal
from dataclasses import dataclass, field
from pathlib import Path

import jax
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits

import functorch_port as torch
from functorch_port.utils.data import DataLoader, TensorDataset, random_split
from functorch_port.utils.resume import Checkpoints

nn, F = torch.nn, torch.nn.functional


@dataclass
class Trainer:
    """Trains a classifier.

    Attributes:
        model, optimizer, schedule: what is trained, and how; the schedule has a step for each update.
        out: folder for checkpoints and the log; a run that was stopped goes on from there.
        epochs: passes over the data at most.
        patience: passes without a better validation loss after which it stops; 0 never stops early.
        accumulate: parts of a batch whose gradients are added up before an update: less memory, the same update.
        clip: largest norm of the gradient; 0 does not clip.
        precision: of the forward pass: "float32" or "bfloat16".
        every: updates between checkpoints.
        compiled: whether a step is one XLA program.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    out: Path
    epochs: int = 10
    patience: int = 3
    accumulate: int = 1
    clip: float = 1.0
    precision: str = "float32"
    every: int = 50
    compiled: bool = True
    losses: list[float] = field(default_factory=list)

    def __post_init__(self):
        if self.compiled:
            self.update, self.evaluate = torch.compile(self.update), torch.compile(self.evaluate)

    def forward(self, x, y):
        """The loss of a batch, and how many rows are right."""
        low = self.precision == "bfloat16"
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=low):
            outputs = self.model(x)
        return F.cross_entropy(outputs.float(), y), (outputs.argmax(1) == y).sum()

    def update(self, x, y):
        """One update: gradients of all parts of the batch, clipped, and a step of the optimizer."""
        self.optimizer.zero_grad()
        total = torch.zeros(())
        for part, wanted in zip(x.chunk(self.accumulate), y.chunk(self.accumulate)):
            loss, _ = self.forward(part, wanted)
            loss = loss * (len(part) / len(x))
            loss.backward()
            total = total + loss.detach()
        if self.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return total

    @torch.no_grad()
    def evaluate(self, x, y):
        """The sum of a batch's losses, and how many rows are right."""
        loss, right = self.forward(x, y)
        return loss * len(x), right

    def validate(self, loader):
        """Mean loss and accuracy."""
        self.model.eval()
        sums = [self.evaluate(x, y) for x, y in loader]
        rows = len(loader.dataset)
        return sum(loss.item() for loss, _ in sums) / rows, sum(right.item() for _, right in sums) / rows

    def log(self, **entry):
        """Add a line to the log."""
        with open(self.out / "log.jsonl", "a") as file:
            file.write(json.dumps(entry) + "\n")

    def fit(self, train, valid):
        """Train until the end, or until validation has not been better for a while; returns the best loss."""
        checkpoints = Checkpoints(
            self.out, every=self.every, best="min", signals=(signal.SIGTERM, signal.SIGINT),
            model=self.model, optimizer=self.optimizer, schedule=self.schedule, loader=train,
        )  # fmt: skip
        planned = getattr(self.schedule, "total_steps", None)
        if checkpoints.restore():
            if getattr(self.schedule, "total_steps", None) != planned:
                raise SystemExit(
                    f"the run in {self.out} has other --epochs or --batch-size: give those, or another --out"
                )
            print(f"going on after update {checkpoints.step}")
        notes = {"epoch": 0, "worse": 0, **checkpoints.notes}
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns) as bar, checkpoints:
            task = bar.add_task("", total=self.epochs * len(train), completed=checkpoints.step)
            while notes["epoch"] < self.epochs and not 0 < self.patience <= notes["worse"]:
                self.model.train()
                for x, y in train:
                    loss = self.update(x, y)
                    self.schedule.step()
                    checkpoints.after_step(**notes)
                    self.losses.append(loss.item())
                    text = f"epoch {notes['epoch'] + 1}, loss {self.losses[-1]:.3f}"
                    bar.update(task, advance=1, description=text)
                loss, accuracy = self.validate(valid)
                best = checkpoints.best_metric
                worse = 0 if best is None or loss < best else notes["worse"] + 1
                notes = {"epoch": notes["epoch"] + 1, "worse": worse}
                checkpoints.save(metric=loss, **notes)
                rate = self.optimizer.param_groups[0]["lr"]
                self.log(step=checkpoints.step, **notes, valid=loss, accuracy=accuracy, lr=rate)
                bar.console.print(
                    f"epoch {notes['epoch']}: validation loss {loss:.4f}, accuracy {accuracy:.1%}"
                )
        self.model.load_state_dict(torch.load(checkpoints.best_file)["parts"]["model"])
        return checkpoints.best_metric


def network(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(32 * width, 10),
    )  # fmt: skip


def digits():
    data = load_digits()
    images = torch.tensor(data.images / 16, dtype=torch.float32).unsqueeze(1)
    data = TensorDataset(images, torch.tensor(data.target, dtype=torch.int64))
    return random_split(data, [1200, 300, len(data) - 1500])


def main(argv=None):
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    option = parser.add_argument
    option("--out", type=Path, default=Path("out/trainer"), help="folder for checkpoints and the log")
    option("--epochs", type=int, default=15, help="passes over the pictures at most")
    option("--batch-size", type=int, default=48, help="pictures in an update")
    option("--width", type=int, default=16, help="channels of the network")
    option("--lr", type=float, default=1e-2, help="the largest learning rate")
    option("--patience", type=int, default=4, help="passes without a better result before it stops; 0: all")
    option("--accumulate", type=int, default=1, help="parts of a batch, one after the other")
    option("--clip", type=float, default=1.0, help="largest norm of the gradient; 0: any")
    option("--precision", choices=("float32", "bfloat16"), default="float32", help="of the forward pass")
    option("--all-devices", action="store_true", help="split batches over all devices of the machine")
    option("--eager", action="store_true", help="do not compile the step")
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    train, valid, test = digits()
    if args.epochs < 1 or not 1 <= args.batch_size <= len(train):
        parser.error(f"--epochs must be at least 1, and --batch-size from 1 to {len(train)}")
    loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    model = network(args.width)
    if args.all_devices:
        print(f"batches of {args.batch_size} on {jax.device_count()} devices")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, args.lr, total_steps=args.epochs * len(loader) + 1
    )
    trainer = Trainer(
        model, optimizer, schedule, args.out, args.epochs, args.patience, args.accumulate, args.clip, args.precision,
        compiled=not args.eager,
    )  # fmt: skip
    args.out.mkdir(parents=True, exist_ok=True)
    best = trainer.fit(loader, DataLoader(valid, 100))
    loss, accuracy = trainer.validate(DataLoader(test, 99))
    print(f"best validation loss {best:.4f}; unseen pictures: loss {loss:.4f}, accuracy {accuracy:.1%}")
    return trainer.losses


if __name__ == "__main__":
    main()
