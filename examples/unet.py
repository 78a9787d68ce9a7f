"""Segmentation: a U-Net with transposed convolutions finds and names the digits in a noisy picture, pixel by pixel.

A picture is 32x32 pixels with four of scikit-learn's handwritten digits at random places under noise; the classes are
the ten digits and the background. To run this with PyTorch, change the line that imports torch.
"""

import argparse

import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits

import functorch_port as torch

nn, F = torch.nn, torch.nn.functional


def pictures(count, rng, images, labels):
    """Pictures (N, 1, 32, 32) and the class of every pixel (N, 32, 32): 0 is background, 1 + d is digit d."""
    canvas, target = np.zeros((count, 32, 32)), np.zeros((count, 32, 32), np.int64)
    for i in range(count):
        for corner in [(0, 0), (0, 16), (16, 0), (16, 16)]:
            chosen = rng.integers(len(images))
            top, left = rng.integers(0, 9, 2) + corner
            place = (i, slice(top, top + 8), slice(left, left + 8))
            canvas[place] = images[chosen] / 16
            target[place] = np.where(images[chosen] >= 4, labels[chosen] + 1, 0)
    canvas += 0.2 * rng.standard_normal(canvas.shape)
    return torch.tensor(canvas, dtype=torch.get_default_dtype()).unsqueeze(1), torch.tensor(target)


def double_conv(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
    )  # fmt: skip


class UNet(nn.Module):
    """Down by pooling, up by transposed convolutions; each level on the way up sees the one on the way down."""

    def __init__(self, width, classes=11):
        super().__init__()
        self.down1 = double_conv(1, width)
        self.down2 = double_conv(width, 2 * width)
        self.bottom = double_conv(2 * width, 4 * width)
        self.grow2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.up2 = double_conv(4 * width, 2 * width)
        self.grow1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.up1 = double_conv(2 * width, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        first = self.down1(x)  # (N, width, 32, 32)
        second = self.down2(F.max_pool2d(first, 2))  # (N, 2 * width, 16, 16)
        x = self.bottom(F.max_pool2d(second, 2))  # (N, 4 * width, 8, 8)
        x = self.up2(torch.cat([self.grow2(x), second], dim=1))
        x = self.up1(torch.cat([self.grow1(x), first], dim=1))
        return self.head(x)  # (N, classes, 32, 32)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600, help="training steps")
    parser.add_argument("--batch-size", type=int, default=16, help="pictures per step")
    parser.add_argument("--pictures", type=int, default=2000, help="pictures to train on")
    parser.add_argument("--width", type=int, default=12, help="channels of the first level")
    parser.add_argument("--eager", action="store_true", help="do not compile training and evaluation")
    args = parser.parse_args(argv)
    compiled = (lambda f: f) if args.eager else torch.compile

    torch.manual_seed(0)
    rng, digits = np.random.default_rng(0), load_digits()
    train, test = slice(0, 1400), slice(1400, None)  # no digit of a test picture was seen in training
    x, y = pictures(args.pictures, rng, digits.images[train], digits.target[train])
    test_x, test_y = pictures(100, rng, digits.images[test], digits.target[test])

    model = UNet(args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    @compiled
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    @compiled
    def classify(x):
        with torch.no_grad():
            return model(x).argmax(1)

    losses = []
    for _ in track(range(args.steps), "training"):
        batch = torch.randint(len(x), (args.batch_size,))
        losses.append(step(x[batch], y[batch]).item())

    model.eval()
    found = classify(test_x)
    ink = test_y > 0
    overlap = (ink & (found > 0)).sum().item() / (ink | (found > 0)).sum().item()
    named = (found[ink] == test_y[ink]).float().mean().item()
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at the end")
    print(f"unseen pictures: overlap with the ink {overlap:.1%}, ink with the right digit {named:.1%}")
    return losses


if __name__ == "__main__":
    main()
