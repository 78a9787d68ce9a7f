"""Tests run on the CPU, and PyTorch, which they compare with, takes two threads."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import torch

torch.set_num_threads(2)
