"""Algorithms of distributed training: ``torch.distributed.algorithms``."""
