"""Image classification: a residual network with batch normalization reads handwritten digits.

The data are scikit-learn's 1,797 scans of 8x8 pixels. To run this with PyTorch, change the line that imports torch.
"""

import argparse

from rich.progress import track
from sklearn.datasets import load_digits

import functorch_port as torch

nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class ResNet(nn.Module):
    """A first convolution, three stages of blocks, and the mean over what is left of the image."""

    def __init__(self, width, blocks, classes=10):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        stages, before = [], width
        for stage, stride in enumerate([1, 2, 2]):
            after = width * 2**stage
            stages += [Block(before, after, stride), *(Block(after, after, 1) for _ in range(blocks - 1))]
            before = after
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(before, classes)

    def forward(self, x):
        x = self.stages(self.stem(x))  # (N, 4 * width, 2, 2)
        return self.head(x.mean((2, 3)))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300, help="training steps")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step")
    parser.add_argument("--width", type=int, default=16, help="channels of the first stage")
    parser.add_argument("--blocks", type=int, default=2, help="blocks of a stage")
    parser.add_argument("--lr", type=float, default=0.1, help="highest learning rate")
    parser.add_argument("--eager", action="store_true", help="do not compile training and evaluation")
    args = parser.parse_args(argv)
    compiled = (lambda f: f) if args.eager else torch.compile

    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.get_default_dtype()).unsqueeze(1)
    data = torch.utils.data.TensorDataset(images, torch.tensor(digits.target, dtype=torch.int64))
    train, test = torch.utils.data.random_split(data, [1437, 360])
    sampler = torch.utils.data.RandomSampler(
        train, replacement=True, num_samples=args.steps * args.batch_size
    )
    loader = torch.utils.data.DataLoader(train, args.batch_size, sampler=sampler)

    model = ResNet(args.width, args.blocks)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.steps)

    @compiled
    def step(images, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        return loss

    @compiled
    def classify(images):
        with torch.no_grad():
            return model(images).argmax(1)

    losses = []
    for images, labels in track(loader, "training"):
        losses.append(step(images, labels).item())
        schedule.step()

    model.eval()
    images, labels = next(iter(torch.utils.data.DataLoader(test, len(test))))
    accuracy = (classify(images) == labels).float().mean().item()
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at the end")
    print(f"held-out accuracy {accuracy:.1%}")
    return losses


if __name__ == "__main__":
    main()
