"""What users of exported programs do wrong, and are told."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle

import pytest

import functorch_port as ft
from functorch_port import nn
from functorch_port.export import export, load, save


def test_registering_again_is_told():
    def defined(name):
        fields = [("x", ft.Tensor), ("y", ft.Tensor)]
        return dataclasses.make_dataclass(name, fields, namespace={"__module__": __name__})

    class Net(nn.Module):
        def __init__(self, made):
            super().__init__()
            self.made = made

        def forward(self, x):
            return self.made(x + 1, x)

    register, (first, again, other) = ft.export.register_dataclass, map(defined, "AAB")
    register(first, serialized_type_name="test.again")
    register(again, serialized_type_name="test.again")  # the cell of a notebook, run again
    with pytest.warns(UserWarning, match="already registered as pytree node. Overwriting"):
        register(again, serialized_type_name="test.again")  # PyTorch's warning
    with pytest.warns(UserWarning, match=r"'test.again' was the name of <class '\S+A'>, and is now .*B'>"):
        register(other, serialized_type_name="test.again")
    file = io.BytesIO()
    save(export(Net(first), (ft.ones(2),)), file)
    assert type(load(file).module()(ft.ones(2))) is other
    for wrong in (int, 3):
        with pytest.raises(ValueError, match="as it is not a dataclass"):
            register(wrong)


def test_what_a_module_of_a_program_cannot_do_is_told():
    program = export(nn.Linear(3, 2), (ft.ones(1, 3),))
    module = copy.deepcopy(program.module())
    with pytest.raises(AssertionError, match="input has values; it is on the meta device"):
        module(ft.ones(1, 3, device="meta"))
    with pytest.raises(pickle.PicklingError, match="torch.export.save"):
        ft.save(module, io.BytesIO())
    module.weight = nn.Parameter(ft.ones(5, 3))
    with pytest.raises(RuntimeError, match=r"weight is float32\[5, 3\], and .* for float32\[2, 3\]"):
        module(ft.ones(1, 3))
    module.weight = None
    with pytest.raises(RuntimeError, match=r"weight is None, and .* for float32\[2, 3\]"):
        module(ft.ones(1, 3))
    module = program.module().double()
    with pytest.raises(RuntimeError, match=r"weight is float64\[2, 3\], and .* for float32\[2, 3\]"):
        module(ft.ones(1, 3))
