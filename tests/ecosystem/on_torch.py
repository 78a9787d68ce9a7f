"""Runs a program on PyTorch as ``python`` does, where torchvision can be imported beside PyTorch for a CPU alone."""

import os
import runpy
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import real_torchvision  # noqa: F401

if __name__ == "__main__":
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
