"""PyTorch's streams of random numbers, and JAX's keys in their place."""
