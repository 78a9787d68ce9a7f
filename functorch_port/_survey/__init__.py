"""``functorch-port check``: what a program uses of PyTorch, and what of it is not here."""
