"""The classic script: a convolutional network on digits, with Adadelta, a schedule, a test pass and saved weights."""

import argparse
import json

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from sklearn.datasets import load_digits
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(64, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(self.dropout1(x), 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def train(model, loader, optimizer):
    model.train()
    losses = []
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test(model, loader):
    model.eval()
    loss, right = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            loss += F.nll_loss(output, target, reduction="sum").item()
            right += (
                output.argmax(dim=1, keepdim=True).eq(target.view_as(output.argmax(1))[:, None]).sum().item()
            )
    return [loss / len(loader.dataset), right]


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--gamma", type=float, default=0.7)
args = parser.parse_args([])
torch.manual_seed(1)
found = load_digits()
images = torch.tensor(found.images[:320], dtype=torch.float32).unsqueeze(1) / 16
labels = torch.tensor(found.target[:320])
data = TensorDataset(images, labels)
model = Net()
optimizer = optim.Adadelta(model.parameters(), lr=1.0)
scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
losses, checks = [], []
for _ in range(args.epochs + 1):
    losses += train(model, DataLoader(data, batch_size=64, shuffle=True), optimizer)
    checks.append(test(model, DataLoader(data, batch_size=128)))
    scheduler.step()
torch.save(model.state_dict(), "net.pt")
again = Net()
again.load_state_dict(torch.load("net.pt"))
print(
    json.dumps({"losses": losses, "checks": checks, "again": test(again, DataLoader(data, batch_size=128))})
)
