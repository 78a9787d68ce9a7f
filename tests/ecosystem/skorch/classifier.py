"""A classifier and a regressor in scikit-learn's pipelines: fits, a search over rates, callbacks, saved weights."""

import json

import numpy as np
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EarlyStopping, EpochScoring, LRScheduler
from training import digits


class Net(torch.nn.Module):
    def __init__(self, width=16, out=4):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(16, width), torch.nn.ReLU(), torch.nn.Linear(width, out)
        )

    def forward(self, X):
        return self.layers(X)


rows, labels = digits()
X, y = rows.numpy(), labels.numpy()
torch.manual_seed(0)
net = NeuralNetClassifier(
    Net, criterion=torch.nn.CrossEntropyLoss, max_epochs=4, lr=0.1, batch_size=16, iterator_train__shuffle=True,
    verbose=0, callbacks=[EarlyStopping(patience=3), LRScheduler("StepLR", step_size=2),
                          ("f1", EpochScoring("f1_macro", lower_is_better=False))],
)  # fmt: skip
pipe = make_pipeline(StandardScaler(), net).fit(X, y)
found = {"history": [[row["train_loss"], row["valid_loss"], row["f1_macro"]] for row in net.history]}
found["chances"] = pipe.predict_proba(X[:3]).tolist()
found["score"] = float(pipe.score(X, y))
net.save_params(f_params="weights.pt", f_history="history.json")
again = NeuralNetClassifier(Net, criterion=torch.nn.CrossEntropyLoss).initialize()
again.load_params(f_params="weights.pt")
found["loaded"] = again.forward(torch.as_tensor(X[:2])).tolist()
torch.manual_seed(1)
search = GridSearchCV(
    NeuralNetClassifier(Net, criterion=torch.nn.CrossEntropyLoss, max_epochs=2, verbose=0, train_split=None),
    {"lr": [0.01, 0.2], "module__width": [8]}, cv=2, scoring="accuracy",
).fit(X, y)  # fmt: skip
found["search"] = [search.best_params_["lr"], float(search.best_score_)]
torch.manual_seed(2)
line = NeuralNetRegressor(Net, module__out=1, max_epochs=3, lr=0.01, verbose=0).fit(
    X, X[:, :1].astype(np.float32)
)
found["line"] = [row["train_loss"] for row in line.history]
print(json.dumps(found))
