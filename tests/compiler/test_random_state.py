"""Random programs that read and change Python state, compiled, beside PyTorch.

A few are drawn by default; the search is ``PYTHONPATH=tests python tests/random_state.py FIRST LAST``, or
RANDOM_STATE=COUNT for the test. In half of them the caller changes something between the calls.
"""

import os

import pytest
import random_state
import torch

import functorch_port as ft


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(int(os.environ.get("RANDOM_STATE", "30"))))
def test_compiled_is_pytorch(seed):
    assert random_state.check(seed, ft, torch) == ""
