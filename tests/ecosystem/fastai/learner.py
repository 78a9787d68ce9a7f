"""A `Learner`: one cycle with mixup, a table of its losses, an exported learner; a model of tables."""

import json
import warnings

import numpy as np
import pandas as pd
import torch
from fastai.basics import DataLoaders, Learner, accuracy, set_seed
from fastai.callback.all import GradientClip, MixUp, SaveModelCallback  # noqa: F401
from fastai.callback.schedule import Learner as _  # noqa: F401  # adds fit_one_cycle
from fastai.tabular.all import (
    Categorify,
    CategoryBlock,
    FillMissing,
    Normalize,
    TabularDataLoaders,
    tabular_learner,
)
from torch.utils.data import TensorDataset
from training import digits

warnings.simplefilter("ignore")
set_seed(0, reproducible=True)
rows, labels = digits()
train, valid = TensorDataset(rows, labels), TensorDataset(rows[:16], labels[:16])
loaders = DataLoaders.from_dsets(train, valid, bs=16, num_workers=0)
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
learner = Learner(
    loaders, net, loss_func=torch.nn.CrossEntropyLoss(), metrics=accuracy, cbs=[GradientClip(1.0)], path=".",
)  # fmt: skip
with learner.no_bar(), learner.no_logging():
    learner.fit_one_cycle(2, 1e-2)
    found = {"losses": [loss.item() for loss in learner.recorder.losses]}
    found["values"] = [list(row) for row in learner.recorder.values]
    found["rates"] = [float(rate) for rate in learner.recorder.lrs]
    guesses, targets = learner.get_preds(dl=loaders.valid)
    found["guesses"] = guesses[:3].tolist()
    learner.save("kept")
    learner.load("kept")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=64), "b": rng.choice(["x", "y", "z"], 64)})
    frame["target"] = np.where(frame.a + (frame.b == "x") > 0, "yes", "no")
    set_seed(1, reproducible=True)
    tables = TabularDataLoaders.from_df(
        frame, procs=[Categorify, FillMissing, Normalize], cat_names=["b"], cont_names=["a"], y_names="target",
        y_block=CategoryBlock(), valid_idx=list(range(16)), bs=16, num_workers=0,
    )  # fmt: skip
    tabular = tabular_learner(tables, layers=[16], metrics=accuracy)
    with tabular.no_bar(), tabular.no_logging():
        tabular.fit(2, 1e-2)
    found["table"] = [list(row) for row in tabular.recorder.values]
print(json.dumps(found))
