"""``torch._functorch``: old names of `torch.func`, which libraries still import."""
