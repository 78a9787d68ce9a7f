"""Collectives with gradients in two processes, as a script for PyTorch and for the library."""

import json
import sys
import warnings

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.nn import functional as F

warnings.simplefilter("ignore")


@record
def main():
    dist.init_process_group("gloo")
    rank, found = dist.get_rank(), {}
    x = (torch.arange(6, dtype=torch.float64).view(2, 3) + 10 * rank).requires_grad_()
    weights = torch.arange(12, dtype=torch.float64).view(4, 3) * (rank + 1)

    def case(name, made):
        (grad,) = torch.autograd.grad((made * weights[: made.shape[0]]).sum(), x)
        found[name] = [made.tolist(), grad.tolist()]

    case("all_reduce", F.all_reduce(x))
    case("broadcast", F.broadcast(x, 1))
    case("all_gather", torch.cat(F.all_gather(x)))
    case("reduce_scatter", F.reduce_scatter(torch.empty(1, 3, dtype=torch.float64), [x[:1], x[1:]]))
    case("all_to_all_single", F.all_to_all_single(torch.empty(2, 3, dtype=torch.float64), x))
    sizes = [[2, 0], [1, 1]]
    received = [row[rank] for row in sizes]
    out = torch.empty(sum(received), 3, dtype=torch.float64)
    case("uneven", F.all_to_all_single(out, x, received, sizes[rank]))
    with open(sys.argv[1] + str(rank), "w") as file:
        json.dump(found, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
