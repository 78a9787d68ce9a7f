"""Losses of pairs and triplets with miners, distances and reducers; with proxies, and with a memory."""

import json

import torch
from pytorch_metric_learning import distances, losses, miners, reducers
from training import digits

torch.manual_seed(0)
rows, labels = digits(24)
net = torch.nn.Linear(16, 8)
LOSSES = {
    "triplet": losses.TripletMarginLoss(0.2, distance=distances.CosineSimilarity()),
    "contrastive": losses.ContrastiveLoss(),
    "ntxent": losses.NTXentLoss(0.1),
    "multi": losses.MultiSimilarityLoss(reducer=reducers.MeanReducer()),
    "arc": losses.ArcFaceLoss(4, 8),
    "proxy": losses.ProxyNCALoss(4, 8),
    "circle": losses.CircleLoss(),
    "supcon": losses.SupConLoss(),
}
miner = miners.MultiSimilarityMiner()
hard = miners.BatchHardMiner()
found = {}
for name, loss in LOSSES.items():
    net.zero_grad()
    made = net(rows)
    value = loss(made, labels, hard(made, labels)) if name == "triplet" else loss(made, labels)
    value.backward()
    found[name] = [value.item(), net.weight.grad.norm().item()]
found["mined"] = [len(part) for part in miner(net(rows), labels)]
memory = losses.CrossBatchMemory(losses.NTXentLoss(), 8, memory_size=32)
found["memory"] = [memory(net(rows), labels).item() for _ in range(2)]
print(json.dumps(found))
