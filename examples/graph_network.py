"""A graph network, messages summed by `index_add`, labels 1,697 digits from 100 that it is told.

The nodes are scikit-learn's 1,797 handwritten digits, the edges lead from each to those that look most alike. To run
this with PyTorch, change the line that imports torch.
"""

import argparse

from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

import functorch_port as torch

nn, F = torch.nn, torch.nn.functional


class GraphLayer(nn.Module):
    """A node's own features and the mean of its neighbours', each through a linear layer."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.own, self.others = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x, source, target):
        total = torch.zeros_like(x).index_add(0, target, x[source])
        count = torch.zeros(len(x), 1).index_add(0, target, torch.ones(len(target), 1))
        return self.own(x) + self.others(total / count.clamp(min=1))


class GraphNetwork(nn.Module):
    def __init__(self, inputs, width, classes):
        super().__init__()
        self.layer1, self.layer2 = GraphLayer(inputs, width), GraphLayer(width, classes)

    def forward(self, x, source, target):
        return self.layer2(F.relu(self.layer1(x, source, target)), source, target)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="training steps, each with the whole graph")
    parser.add_argument("--nodes", type=int, default=1797, help="images to take")
    parser.add_argument(
        "--neighbours", type=int, default=6, help="edges to a node, before both directions are taken"
    )
    parser.add_argument("--width", type=int, default=64, help="hidden features of a node")
    parser.add_argument("--eager", action="store_true", help="do not compile the training step")
    args = parser.parse_args(argv)

    torch.manual_seed(0)
    digits = load_digits()
    data = digits.data[: args.nodes] / 16
    graph = kneighbors_graph(data, args.neighbours)
    source, target = (torch.tensor(i, dtype=torch.int64) for i in (graph + graph.T).nonzero())
    x, labels = torch.tensor(data, dtype=torch.get_default_dtype()), torch.tensor(digits.target[: args.nodes])
    told = torch.randperm(args.nodes)[:100]
    asked = torch.ones(args.nodes, dtype=torch.bool)
    asked[told] = False

    model = GraphNetwork(64, args.width, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-3)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, source, target)[told], labels[told])
        loss.backward()
        optimizer.step()
        return loss

    run = step if args.eager else torch.compile(step)
    losses = [run().item() for _ in track(range(args.steps), "training")]

    with torch.no_grad():
        found = model(x, source, target).argmax(1)
    accuracy = (found == labels)[asked].float().mean().item()
    print(f"{len(source)} edges; loss {losses[0]:.4f} at first, {losses[-1]:.4f} at the end")
    print(f"accuracy on the nodes without a label {accuracy:.1%}")
    return losses


if __name__ == "__main__":
    main()
