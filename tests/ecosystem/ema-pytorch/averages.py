"""An average of a model beside its training: with a warmup, after some steps, post-hoc, saved and loaded."""

import json

import torch
from ema_pytorch import EMA, PostHocEMA
from training import classify, digits

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(16, 8, bias=False), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 4)
)
average = EMA(model, beta=0.9, update_after_step=2, update_every=2)
several = PostHocEMA(
    model,
    sigma_rels=(0.05, 0.3),
    update_every=1,
    checkpoint_every_num_steps=3,
    checkpoint_folder="averages",
    checkpoint_dtype=torch.float32,
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
batch, losses = digits(), []
for _ in range(9):
    optimizer.zero_grad()
    loss = classify(model, batch)
    loss.backward()
    optimizer.step()
    average.update()
    several.update()
    losses.append([loss.item(), classify(average, batch).item()])
state = average.state_dict()
again = EMA(model, beta=0.9)
again.load_state_dict(state)
made = several.synthesize_ema_model(sigma_rel=0.15)
found = {
    "losses": losses,
    "names": sorted(state),
    "step": average.step.item(),
    "decay": average.get_current_decay(),
}
found["again"] = torch.equal(again(batch[0]), average(batch[0]))
found["made"] = [p.sum().item() for p in made.parameters()]
average.update_model_with_ema()
found["taken"] = [p.norm().item() for p in model.parameters()]
print(json.dumps(found))
