"""`Fabric`: its loop with a schedule, clipping, a saved and loaded state."""

import json
import logging

import torch
from lightning.fabric import Fabric, seed_everything
from torch.utils.data import DataLoader, TensorDataset
from training import classify, digits

logging.getLogger("lightning.fabric").setLevel(logging.ERROR)
seed_everything(0)
fabric = Fabric(accelerator="cpu", devices=1, precision="32-true")
fabric.launch()
with fabric.init_module():
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=1e-2))
loader = fabric.setup_dataloaders(DataLoader(TensorDataset(*digits()), batch_size=16, shuffle=True))
losses = []
for _ in range(2):
    for batch in loader:
        optimizer.zero_grad()
        loss = classify(model, batch)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        losses.append(fabric.all_reduce(loss.detach()).item())
state = {"model": model, "optimizer": optimizer, "steps": len(losses)}
fabric.save("state.ckpt", state)
sums = [p.sum().item() for p in model.parameters()]
with torch.no_grad():
    for p in model.parameters():
        p.zero_()
fabric.load("state.ckpt", state)
restored = [p.sum().item() for p in model.parameters()]
print(json.dumps({"losses": losses, "sums": sums, "restored": restored, "steps": state["steps"]}))
