"""Runs one of the programs: ``python run.py NAME`` prints the numbers of both sides as a line of JSON.

A program has ``theirs()``, which uses JAX and the library alone, and ``ours()``, which does the same with
functorch_port. Both return a dict of numbers, arrays or Tensors.
"""

import importlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np

import functorch_port as torch


def numbers(side):
    plain = {key: x.detach().numpy() if isinstance(x, torch.Tensor) else x for key, x in side().items()}
    return {key: np.asarray(x).tolist() for key, x in plain.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(Path(__file__).parent / "programs"))
    program = importlib.import_module(sys.argv[1])
    print(json.dumps([numbers(program.theirs), numbers(program.ours)]))
