"""A trainer and an evaluator with metrics, handlers, a schedule, a checkpoint and early stopping."""

import json
import os

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, DiskSaver, EarlyStopping, create_lr_scheduler_with_warmup
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, Precision, Recall, RunningAverage
from torch.utils.data import DataLoader, TensorDataset
from training import digits

torch.manual_seed(0)
data = TensorDataset(*digits())
train, check = DataLoader(data, batch_size=16, shuffle=True), DataLoader(data, batch_size=32)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = torch.nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, optimizer, criterion)
RunningAverage(output_transform=lambda x: x).attach(trainer, "running")
precision, recall = Precision(average=False), Recall(average=False)
metrics = {
    "accuracy": Accuracy(), "loss": Loss(criterion), "matrix": ConfusionMatrix(4), "precision": precision,
    "f1": (precision * recall * 2 / (precision + recall)).mean(),
}  # fmt: skip
evaluator = create_supervised_evaluator(model, metrics)
after = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
trainer.add_event_handler(
    Events.ITERATION_STARTED,
    create_lr_scheduler_with_warmup(after, warmup_start_value=0.01, warmup_duration=3),
)
losses, rates, results = [], [], []


@trainer.on(Events.ITERATION_COMPLETED)
def note(engine):
    losses.append(engine.state.output)
    rates.append(optimizer.param_groups[0]["lr"])


@trainer.on(Events.EPOCH_COMPLETED)
def judge(engine):
    state = evaluator.run(check)
    results.append({n: v.tolist() if hasattr(v, "tolist") else v for n, v in sorted(state.metrics.items())})


saver = Checkpoint({"model": model, "optimizer": optimizer}, DiskSaver("kept", create_dir=True), n_saved=1)
evaluator.add_event_handler(Events.COMPLETED, saver)
evaluator.add_event_handler(Events.COMPLETED, EarlyStopping(2, lambda e: -e.state.metrics["loss"], trainer))
trainer.run(train, max_epochs=3)
(kept,) = os.listdir("kept")
restored = {"model": torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))}
Checkpoint.load_objects(restored, {"model": torch.load(f"kept/{kept}")["model"]})
same = all(torch.equal(a, b) for a, b in zip(restored["model"].parameters(), model.parameters()))
found = {"losses": losses, "rates": rates, "results": results, "running": trainer.state.metrics["running"]}
print(json.dumps({**found, "same": same}))
