"""A generative adversarial network, two networks and two optimizers in one step, learns eight islands in the plane.

The critic's slope at the data is penalized, for which the step differentiates a gradient. The data are made, points
about eight centres on a circle, so that success can be counted. To run this with PyTorch, change the line that imports
torch.
"""

import argparse
import math

from rich.progress import track

import functorch_port as torch

nn, F = torch.nn, torch.nn.functional

SPREAD = 0.1


def islands():
    angles = torch.arange(8) * (math.pi / 4)
    return 2 * torch.stack([angles.cos(), angles.sin()], dim=1)


def network(inputs, width, outputs, activation):
    return nn.Sequential(
        nn.Linear(inputs, width), activation, nn.Linear(width, width), activation, nn.Linear(width, outputs)
    )


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3000, help="training steps of either network")
    parser.add_argument("--batch-size", type=int, default=256, help="points per step")
    parser.add_argument("--width", type=int, default=128, help="units of the hidden layers")
    parser.add_argument("--noise", type=int, default=16, help="numbers that the generator starts from")
    parser.add_argument("--eager", action="store_true", help="do not compile the training step")
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    generator = network(args.noise, args.width, 2, nn.ReLU())
    critic = network(2, args.width, 1, nn.LeakyReLU(0.2))
    of_generator = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.5, 0.99))
    of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.99))
    centres = islands()

    def step(real, noise):
        fake, real = generator(noise), real.detach().requires_grad_()
        of_critic.zero_grad()
        on_real = critic(real)
        critic_loss = F.softplus(-on_real).mean() + F.softplus(critic(fake.detach())).mean()
        (slope,) = torch.autograd.grad(on_real.sum(), real, create_graph=True)
        (critic_loss + 0.1 * slope.square().sum(1).mean()).backward()  # R1: a critic that is flat at the data
        of_critic.step()
        of_generator.zero_grad()
        generator_loss = F.softplus(-critic(fake)).mean()
        generator_loss.backward()
        of_generator.step()
        return critic_loss, generator_loss

    run = step if args.eager else torch.compile(step)
    losses = []
    for _ in track(range(args.steps), "training"):
        real = centres[torch.randint(8, (args.batch_size,))] + SPREAD * torch.randn(args.batch_size, 2)
        losses += [loss.item() for loss in run(real, torch.randn(args.batch_size, args.noise))]

    with torch.no_grad():
        points = generator(torch.randn(2000, args.noise))
        distance, nearest = torch.cdist(points, centres).min(dim=1)
    on = distance < 4 * SPREAD
    counts = torch.bincount(nearest[on], minlength=8)
    print(f"losses of critic and generator {losses[0]:.4f}, {losses[1]:.4f} at first", end="; ")
    print(f"{losses[-2]:.4f}, {losses[-1]:.4f} at the end")
    print(
        f"islands reached {(counts > 50).sum().item()} of 8, points on an island {on.float().mean().item():.1%}"
    )
    return losses


if __name__ == "__main__":
    main()
