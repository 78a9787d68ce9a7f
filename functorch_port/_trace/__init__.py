"""Whole-program compilation: the engine behind `torch.compile` and `functionalize`."""
