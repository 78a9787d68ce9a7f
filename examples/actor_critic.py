"""An actor and a critic with a common body learn to balance a pole; their losses go backward one by one.

Sixteen carts run at once. After every 32 moves three calls of `backward` through one graph sum the gradients of the
actor, the critic and the entropy. To run this with PyTorch, change the line that imports torch.
"""

import argparse

import numpy as np
from rich.progress import track

import functorch_port as torch

nn, F = torch.nn, torch.nn.functional


class Carts:
    """Carts that carry a pole each (Barto, Sutton and Anderson, 1983) and start again when it has fallen."""

    def __init__(self, count):
        self.rng = np.random.default_rng(0)
        self.state = self.rng.uniform(-0.05, 0.05, (count, 4))  # place, speed, angle, its speed
        self.age, self.ages = np.zeros(count, int), []

    def move(self, right):
        """Push every cart; returns which poles have fallen (or stood for 500 moves)."""
        x, speed, angle, spin = self.state.T
        force = (np.where(right, 10.0, -10.0) + 0.05 * spin**2 * np.sin(angle)) / 1.1
        turn = (9.8 * np.sin(angle) - np.cos(angle) * force) / (
            0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1)
        )
        push = force - 0.05 * turn * np.cos(angle) / 1.1
        self.state = np.stack(
            [x + 0.02 * speed, speed + 0.02 * push, angle + 0.02 * spin, spin + 0.02 * turn], 1
        )
        self.age += 1
        done = (np.abs(self.state[:, 0]) > 2.4) | (np.abs(self.state[:, 2]) > 0.2095) | (self.age >= 500)
        self.ages += self.age[done].tolist()
        self.age[done] = 0
        self.state[done] = self.rng.uniform(-0.05, 0.05, (done.sum(), 4))
        return done


class ActorCritic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.actor, self.critic = nn.Linear(width, 2), nn.Linear(width, 1)

    def forward(self, states):
        features = self.body(states)
        return self.actor(features), self.critic(features).squeeze(-1)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400, help="training steps")
    parser.add_argument("--carts", type=int, default=16, help="carts that run at once")
    parser.add_argument("--moves", type=int, default=32, help="moves of every cart before a training step")
    parser.add_argument("--width", type=int, default=64, help="units of the hidden layers")
    parser.add_argument("--eager", action="store_true", help="do not compile training and acting")
    args = parser.parse_args(argv)
    compiled = (lambda f: f) if args.eager else torch.compile

    torch.manual_seed(0)
    model, carts, discount = ActorCritic(args.width), Carts(args.carts), 0.99
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    @compiled
    def act(states):
        with torch.no_grad():
            logits, values = model(states)
            return torch.softmax(logits, dim=-1)[:, 1], values

    @compiled
    def step(states, actions, returns):
        optimizer.zero_grad()
        logits, values = model(states)
        policy = torch.distributions.Categorical(logits=logits)
        actor_loss = -(policy.log_prob(actions) * (returns - values).detach()).mean()
        critic_loss = F.smooth_l1_loss(values, returns)
        actor_loss.backward(retain_graph=True)
        critic_loss.backward(retain_graph=True)
        (-0.01 * policy.entropy().mean()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return actor_loss, critic_loss

    def tensor(array):
        return torch.tensor(np.asarray(array), dtype=torch.get_default_dtype())

    losses = []
    for _ in track(range(args.steps), "training"):
        states, actions, fallen = [], [], []
        for _ in range(args.moves):
            states.append(tensor(carts.state))
            right = torch.rand(args.carts) < act(states[-1])[0]
            actions.append(right.long())
            fallen.append(carts.move(right.numpy()))
        value, returns = act(tensor(carts.state))[1], []
        for down in reversed(fallen):  # one point per move; nothing comes after a fall
            value = 1 + discount * value * tensor(~down)
            returns.append(value)
        batch = torch.cat(states), torch.cat(actions), torch.cat(returns[::-1])
        losses += [loss.item() for loss in step(*batch)]

    first, last = np.mean(carts.ages[:50]), np.mean(carts.ages[-50:])
    print(f"losses of actor and critic {losses[0]:.4f}, {losses[1]:.4f} at first", end="; ")
    print(f"{losses[-2]:.4f}, {losses[-1]:.4f} at the end")
    print(f"moves until the pole falls {first:.1f} at first, {last:.1f} at the end")
    return losses


if __name__ == "__main__":
    main()
