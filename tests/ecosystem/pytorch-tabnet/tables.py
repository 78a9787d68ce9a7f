"""TabNet: a classifier of a table with categories and early stopping, a regressor, pretraining, masks that explain."""

import json
import warnings

import numpy as np
from pytorch_tabnet.pretraining import TabNetPretrainer
from pytorch_tabnet.tab_model import TabNetClassifier, TabNetRegressor

warnings.simplefilter("ignore")
random = np.random.default_rng(0)
rows = random.normal(size=(128, 6)).astype(np.float32)
rows[:, 5] = random.integers(0, 4, 128)
labels = (rows[:, 0] + (rows[:, 5] > 1) > 0.5).astype(int)
common = {"n_d": 4, "n_a": 4, "n_steps": 2, "seed": 1, "verbose": 0, "device_name": "cpu"}
fits = {"max_epochs": 4, "batch_size": 32, "virtual_batch_size": 16, "drop_last": False}
found = {}
classifier = TabNetClassifier(cat_idxs=[5], cat_dims=[4], cat_emb_dim=2, **common)
classifier.fit(
    rows[:96], labels[:96], eval_set=[(rows[96:], labels[96:])], eval_metric=["auc"], patience=2, **fits
)
found["losses"] = classifier.history["loss"]
found["auc"] = classifier.history["val_0_auc"]
found["probabilities"] = classifier.predict_proba(rows[:4]).tolist()
explained, masks = classifier.explain(rows[:4])
found["explained"] = [explained.tolist(), masks[0].tolist()]
path = classifier.save_model("table")
again = TabNetClassifier()
again.load_model(path)
found["again"] = bool(np.allclose(again.predict_proba(rows), classifier.predict_proba(rows)))
before = TabNetPretrainer(mask_type="entmax", **common)
before.fit(rows, pretraining_ratio=0.5, **fits)
found["pretraining"] = before.history["loss"]
regressor = TabNetRegressor(mask_type="entmax", **common)
regressor.fit(rows, rows[:, :1] * 2, from_unsupervised=before, **fits)
found["regression"] = regressor.history["loss"]
print(json.dumps(found))
