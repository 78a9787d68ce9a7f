"""`LightningModule` with `Trainer`: fit, validate, early stopping, a checkpoint, a logger; then on from the file."""

import json
import logging
import warnings

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from training import classify, digits

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Net(L.LightningModule):
    def __init__(self, width=32):
        super().__init__()
        self.save_hyperparameters()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, width), torch.nn.Tanh(), torch.nn.Linear(width, 4)
        )
        self.seen = []

    def forward(self, rows):
        return self.layers(rows)

    def training_step(self, batch, index):
        loss = classify(self, batch)
        self.log("loss", loss, on_epoch=True)
        self.seen.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", classify(self, batch), prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]


def trainer(epochs, **options):
    return L.Trainer(
        max_epochs=epochs, accelerator="cpu", devices=1, enable_progress_bar=False, enable_model_summary=True,
        logger=CSVLogger("logs"), gradient_clip_val=1.0, log_every_n_steps=1, **options,
    )  # fmt: skip


L.seed_everything(0)
rows, labels = digits()
train = DataLoader(TensorDataset(rows, labels), batch_size=16, shuffle=True)
check = DataLoader(TensorDataset(rows[:16], labels[:16]), batch_size=8)
kept = ModelCheckpoint("kept", monitor="val_loss", save_last=True)
model = Net()
fit = trainer(3, callbacks=[kept, EarlyStopping("val_loss", patience=2)])
fit.fit(model, train, check)
found = {"losses": model.seen, "best": kept.best_model_score.item()}
found["validated"] = fit.validate(model, check, verbose=False)
loaded = Net.load_from_checkpoint(kept.best_model_path)
found["loaded"] = loaded(rows[:2]).tolist()
more = Net()
trainer(4, callbacks=[]).fit(more, train, check, ckpt_path=kept.last_model_path)
found["resumed"] = more.seen
found["predicted"] = [p.tolist() for p in trainer(1).predict(more, DataLoader(rows[:4], batch_size=2))]
print(json.dumps(found))
