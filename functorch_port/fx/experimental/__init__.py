"""``torch.fx.experimental``: names of PyTorch's tracer of operations and of its symbolic sizes."""
