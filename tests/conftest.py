"""Tests run on the CPU, and PyTorch, which they compare with, takes two threads."""

import gc
import os
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import pytest
import torch

torch.set_num_threads(2)


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Forget compiled programs before there are too many: each takes maps of memory, of which Linux grants 65,530."""
    yield
    forget_programs()


def forget_programs():
    """Forget compiled programs if there are many."""
    try:
        maps = Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return
    if maps > 25_000:
        jax.clear_caches()
        gc.collect()
