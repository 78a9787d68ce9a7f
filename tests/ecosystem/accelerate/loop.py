"""`Accelerator`: its loop with accumulation, clipping, a schedule, gathered metrics, and a saved state."""

import json

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from training import classify, digits

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Sequential(
    torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 4)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
loader = DataLoader(TensorDataset(*digits()), batch_size=8, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
losses, norms, right = [], [], []
for _ in range(2):
    for batch in loader:
        with accelerator.accumulate(model):
            loss = classify(model, batch)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                norms.append(accelerator.clip_grad_norm_(model.parameters(), 1.0).item())
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).mean().item())
model.eval()
for rows, labels in loader:
    guessed, labels = accelerator.gather_for_metrics((model(rows).argmax(-1), labels))
    right.append((guessed == labels).float().mean().item())
accelerator.save_state("state")
before = [p.sum().item() for p in model.parameters()]
with torch.no_grad():
    for p in model.parameters():
        p.zero_()
accelerator.load_state("state")
print(
    json.dumps(
        {
            "losses": losses,
            "norms": norms,
            "right": right,
            "rates": schedule.get_last_lr(),
            "restored": [p.sum().item() for p in accelerator.unwrap_model(model).parameters()],
            "before": before,
            "device": str(accelerator.device),
        }
    )
)
