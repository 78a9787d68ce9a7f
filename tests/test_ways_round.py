"""Errors for names of PyTorch that are not here say what to use in their place."""

import importlib

import pytest

import functorch_port
from functorch_port import _ways_round, launcher
from functorch_port._ways_round import way_round


def test_the_longest_beginning_counts():
    assert way_round("torch.distributed.checkpoint.SavePlanner") == _ways_round._PLANS
    assert ".safetensors" in way_round("torch.distributed.checkpoint.HuggingFaceStorageWriter")
    assert way_round("torch.nn.Linear") is None


@pytest.mark.parametrize("name", ["torch.distributed.autograd", "torch.distributed.split_group"])
def test_a_missing_name_has_its_way_round(name):
    owner, _, last = name.rpartition(".")
    module = importlib.import_module(functorch_port.__name__ + owner.removeprefix("torch"))
    assert not hasattr(module, last)
    assert f"In its place: {way_round(name)}" in launcher._missing(module, last)
