"""Tables of a network's layers: shapes, parameters and products, nested and with frozen or repeated parts."""

import json

import torch
from torchinfo import summary


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolutions = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
        )
        self.repeated = torch.nn.Linear(8, 8)
        self.recurrent = torch.nn.LSTM(8, 4, batch_first=True)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = torch.nn.Linear(4, 5)
        self.head.bias.requires_grad_(False)

    def forward(self, pictures, scale=1.0):
        rows = self.convolutions(pictures).flatten(2).mT * scale
        rows = self.repeated(self.repeated(rows))
        rows, _ = self.recurrent(rows)
        rows, _ = self.attention(rows, rows, rows)
        return {"classes": self.head(rows[:, -1])}


columns = (
    "input_size",
    "output_size",
    "num_params",
    "params_percent",
    "kernel_size",
    "mult_adds",
    "trainable",
)
table = summary(
    Net(), (2, 3, 8, 8), col_names=columns, row_settings=("var_names", "depth"), depth=3, verbose=0
)
found = {"table": str(table), "numbers": [table.total_params, table.trainable_params, table.total_mult_adds]}
found["bytes"] = [table.total_output_bytes, table.total_param_bytes]
model = torch.nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
found["transformer"] = str(summary(model, [(1, 3, 16), (1, 2, 16)], verbose=0))
found["data"] = str(
    summary(torch.nn.Embedding(9, 4), input_data=torch.zeros(2, 3, dtype=torch.long), verbose=0)
)
print(json.dumps(found))
