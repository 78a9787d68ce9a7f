"""A variational autoencoder draws handwritten digits: 64 pixels to a few numbers, and back.

The noise of the latent sample is drawn outside of the step and handed in, so that a compiled step sees the same numbers
as an eager one. The data come with scikit-learn. To run this with PyTorch, change the line that imports torch.
"""

import argparse

from rich.progress import track
from sklearn.datasets import load_digits

import functorch_port as torch

nn, F = torch.nn, torch.nn.functional


class VAE(nn.Module):
    def __init__(self, width, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.SiLU(), nn.Linear(width, 64))

    def forward(self, x, noise):
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        z = mean + torch.exp(log_variance / 2) * noise
        return self.decoder(z), mean, log_variance


def negative_elbo(model, x, noise):
    """Reconstruction error and divergence from the prior, in nats per image."""
    logits, mean, log_variance = model(x, noise)
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean**2 - log_variance.exp())
    return (reconstruction + divergence) / len(x)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3000, help="training steps")
    parser.add_argument("--batch-size", type=int, default=100, help="images per step")
    parser.add_argument("--width", type=int, default=200, help="units of the hidden layers")
    parser.add_argument("--latent", type=int, default=8, help="numbers per image")
    parser.add_argument("--eager", action="store_true", help="do not compile the training step")
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    pixels = torch.tensor(load_digits().data / 16, dtype=torch.get_default_dtype())
    pixels = pixels[torch.randperm(len(pixels))]
    train, test = pixels[:1500], pixels[1500:]
    model = VAE(args.width, args.latent)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def step(x, noise):
        optimizer.zero_grad()
        loss = negative_elbo(model, x, noise)
        loss.backward()
        optimizer.step()
        return loss

    run = step if args.eager else torch.compile(step)
    losses = []
    for _ in track(range(args.steps), "training"):
        batch = torch.randint(len(train), (args.batch_size,))
        losses.append(run(train[batch], torch.randn(args.batch_size, args.latent)).item())

    with torch.no_grad():
        bound = negative_elbo(model, test, torch.randn(len(test), args.latent)).item()
        drawn = torch.sigmoid(model.decoder(torch.randn(6, args.latent))).view(6, 8, 8)
    for row in range(8):
        print(
            "   ".join("".join(" .:-=+*#%@"[int(9.99 * v)] for v in image[row].tolist()) for image in drawn)
        )
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} at the end (nats per image)")
    print(f"bound on unseen images {bound:.2f}")
    return losses


if __name__ == "__main__":
    main()
