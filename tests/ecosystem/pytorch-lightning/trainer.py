"""The library under its own name: a `LightningModule` with manual optimization, a callback of its own, a prediction."""

import json
import logging
import warnings

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset
from training import classify, digits

warnings.simplefilter("ignore")
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.body, self.head = torch.nn.Linear(16, 24), torch.nn.Linear(24, 4)

    def forward(self, rows):
        return self.head(self.body(rows).relu())

    def training_step(self, batch, index):
        for optimizer in self.optimizers():
            loss = classify(self, batch)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        self.log("loss", loss)

    def predict_step(self, batch, index):
        return self(batch[0]).argmax(1)

    def configure_optimizers(self):
        return (
            torch.optim.SGD(self.body.parameters(), lr=0.1, momentum=0.9),
            torch.optim.Adam(self.head.parameters(), lr=1e-2),
        )


class Keeps(pl.Callback):
    def __init__(self):
        self.losses, self.ends = [], []

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        self.losses.append(trainer.callback_metrics["loss"].item())

    def on_train_epoch_end(self, trainer, module):
        self.ends.append([trainer.current_epoch, trainer.global_step])


pl.seed_everything(3)
rows, labels = digits()
data = TensorDataset(rows, labels)
keeps, model = Keeps(), Net()
trainer = pl.Trainer(
    max_epochs=2, accelerator="cpu", devices=1, logger=False, callbacks=[keeps], enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(model, DataLoader(data, 16, shuffle=True))
guessed = torch.cat(trainer.predict(model, DataLoader(data, 32)))
print(json.dumps({"losses": keeps.losses, "ends": keeps.ends, "guessed": guessed.tolist()}))
