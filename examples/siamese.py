"""A siamese network, one set of weights for two images, learns whether they show the same digit.

It is trained on pairs of the digits 0 to 6 and then tells apart 7, 8 and 9, of which it has seen none. The data come
with scikit-learn. To run this with PyTorch, change the line that imports torch.
"""

import argparse

from rich.progress import track
from sklearn.datasets import load_digits

import functorch_port as torch

nn, F = torch.nn, torch.nn.functional


class Siamese(nn.Module):
    """Both images go through the same layers; what comes out is the distance of the results."""

    def __init__(self, width):
        super().__init__()
        self.embed = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.GroupNorm(4, 2 * width), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * width, 16),
        )  # fmt: skip

    def forward(self, a, b):
        return F.pairwise_distance(self.embed(a), self.embed(b))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=800, help="training steps")
    parser.add_argument("--batch-size", type=int, default=64, help="pairs per step")
    parser.add_argument("--width", type=int, default=16, help="channels, a multiple of 4")
    parser.add_argument("--eager", action="store_true", help="do not compile training and evaluation")
    args = parser.parse_args(argv)
    compiled = (lambda f: f) if args.eager else torch.compile

    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.get_default_dtype()).unsqueeze(1)
    labels = torch.tensor(digits.target)
    members = torch.stack([torch.nonzero(labels == d)[:170, 0] for d in range(10)])  # (digit, image)

    model = Siamese(args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    @compiled
    def step(a, b, same):
        optimizer.zero_grad()
        distance = model(a, b)
        loss = torch.where(same, distance**2, F.relu(2 - distance) ** 2).mean()  # the contrastive loss
        loss.backward()
        optimizer.step()
        return loss

    @compiled
    def apart(a, b):
        with torch.no_grad():
            return model(a, b)

    losses, n = [], (args.batch_size,)
    for _ in track(range(args.steps), "training"):
        a = torch.randint(7, n)
        b = torch.where(torch.rand(n) < 0.5, a, torch.randint(7, n))
        first, second = members[a, torch.randint(170, n)], members[b, torch.randint(170, n)]
        losses.append(step(images[first], images[second], a == b).item())

    known, others = members[7:, :5], members[7:, 5:]  # five examples of every new digit, and images to tell
    distances = [apart(images[others.flatten()], images[k : k + 1]) for k in known.flatten().tolist()]
    nearest = torch.stack(distances).view(3, 5, -1).mean(1).argmin(0).view(others.shape)
    right = (nearest == torch.arange(3)[:, None]).float().mean().item()
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at the end")
    print(f"digits 7, 8, 9 told from five examples each {right:.1%} (by chance 33.3%)")
    return losses


if __name__ == "__main__":
    main()
