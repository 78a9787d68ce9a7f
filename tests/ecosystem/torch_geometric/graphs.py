"""GCN, GAT, SAGE and GIN on a graph of two parts; batches of graphs with pooling; edges by a loader."""

import json

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool
from torch_geometric.utils import add_self_loops, degree, softmax, to_dense_adj, to_undirected
from training import descend

torch.manual_seed(0)
count = 20
pairs = torch.randint(0, count, (2, 60))
edges = to_undirected(pairs)
x = torch.randn(count, 8)
y = (torch.arange(count) >= count // 2).long()
data = Data(x=x, edge_index=edges, y=y)


class Net(torch.nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, data):
        h = F.relu(self.first(data.x, data.edge_index))
        return self.second(F.dropout(h, 0.2, self.training), data.edge_index)


def mlp(a, b):
    return torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.ReLU(), torch.nn.Linear(b, b))


KINDS = {
    "gcn": lambda: Net(GCNConv(8, 16), GCNConv(16, 2)),
    "gat": lambda: Net(GATConv(8, 8, heads=2), GATConv(16, 2)),
    "sage": lambda: Net(SAGEConv(8, 16), SAGEConv(16, 2, aggr="max")),
    "gin": lambda: Net(GINConv(mlp(8, 16)), GINConv(mlp(16, 2), train_eps=True)),
}
found = {"graph": [data.num_nodes, data.num_edges, data.has_isolated_nodes(), data.is_undirected()]}
for name, make in KINDS.items():
    torch.manual_seed(1)
    found[name] = descend(make(), lambda net: F.cross_entropy(net(data), data.y))
found["degree"] = degree(edges[0], count).tolist()
found["dense"] = to_dense_adj(edges).sum().item()
found["loops"] = add_self_loops(edges)[0].shape[1]
found["softmax"] = softmax(torch.randn(edges.shape[1]), edges[1]).sum().item()
graphs = [
    Data(x=torch.randn(n, 8), edge_index=torch.randint(0, n, (2, 2 * n)), y=torch.tensor([n % 2]))
    for n in range(3, 11)
]
torch.manual_seed(2)
conv, head = GCNConv(8, 8), torch.nn.Linear(8, 2)
losses = []
for batch in DataLoader(graphs, batch_size=4, shuffle=True):
    pooled = global_mean_pool(conv(batch.x, batch.edge_index).relu(), batch.batch)
    losses.append([F.cross_entropy(head(pooled), batch.y).item(), batch.ptr.tolist()])
found["batches"] = losses
print(json.dumps(found))
