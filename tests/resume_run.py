"""A training run that a test stops and starts again: two networks, one eager and one compiled, and one loader.

``python tests/resume_run.py FOLDER`` prints the number of each step, and at the end the bits of all parameters.
"""

import hashlib
import os
import random
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np

import functorch_port as torch
from functorch_port import nn
from functorch_port.utils.resume import Checkpoints

EPOCHS, BATCHES = 2, 9
rng = np.random.default_rng(5)
X = torch.tensor(rng.standard_normal((16 * BATCHES, 12)).astype(np.float32))
Y = torch.tensor(rng.integers(0, 4, 16 * BATCHES))


class Noisy(torch.utils.data.Dataset):
    """Draws from all the random streams that there are."""

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        noise = np.random.standard_normal() + random.random() + torch.randn(())
        return X[i] + 0.01 * noise, Y[i]


def main(folder):
    torch.manual_seed(0)
    np.random.seed(1)
    random.seed(2)
    parts = {"scaler": torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=4)}
    for name in ("eager", "compiled"):
        net = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 4))
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, amsgrad=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=EPOCHS * BATCHES + 1)
        parts |= {name: net, f"{name}_optimizer": optimizer, f"{name}_schedule": schedule}
    loader = torch.utils.data.DataLoader(Noisy(), batch_size=16, shuffle=True, num_workers=2)

    def step(name, x, y):
        net, optimizer, scaler = parts[name], parts[f"{name}_optimizer"], parts["scaler"]
        optimizer.zero_grad()
        for half in (slice(8), slice(8, 16)):  # gradients are added up
            loss = nn.functional.cross_entropy(net(x[half]), y[half])
            scaler.scale(loss).backward() if name == "compiled" else loss.backward()
        if name == "compiled":
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        return loss

    torch.use_deterministic_algorithms(True)
    compiled = torch.compile(step)
    checkpoints = Checkpoints(folder, every=4, loader=loader, **parts)
    checkpoints.restore()
    with checkpoints:
        for epoch in range(checkpoints.notes.get("epoch", 0), EPOCHS):
            for x, y in loader:
                step("eager", x, y)
                compiled("compiled", x, y)
                for name in ("eager", "compiled"):
                    parts[f"{name}_schedule"].step()
                print(checkpoints.step + 1, flush=True)
                checkpoints.after_step(epoch=epoch)
    values = [v for name in ("eager", "compiled") for v in parts[name].state_dict().values()]
    print(hashlib.sha256(b"".join(v.numpy().tobytes() for v in values)).hexdigest(), torch.rand(1).item())


if __name__ == "__main__":
    main(sys.argv[1])
