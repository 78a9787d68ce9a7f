"""``torch.multiprocessing.queue``: the standard library's queues, which send tensors as copies."""

from multiprocessing.queues import Queue as Queue
from multiprocessing.queues import SimpleQueue as SimpleQueue
