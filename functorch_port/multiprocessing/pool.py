"""``torch.multiprocessing.pool``: the standard library's pool of processes, which sends tensors as copies."""

from multiprocessing.pool import Pool as Pool
