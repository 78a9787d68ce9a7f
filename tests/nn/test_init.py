"""torch.nn.init: the same numbers, random states, warnings and errors as torch for the same seed."""

import warnings

import numpy as np
import pytest
import torch

import functorch_port as ft

SHAPES = [
    (),
    (3,),
    (0, 2),
    (4, 7),
    (7, 4),
    (5, 5),
    (1, 1),
    (64, 48),
    (6, 4, 3),
    (8, 4, 3, 3),
    (4, 2, 2, 3, 2),
    (3, 1, 5),
]
CALLS = [
    ("uniform_", {"a": -0.3, "b": 0.9}),
    ("normal_", {"mean": 1.0, "std": 0.3}),
    ("trunc_normal_", {}),
    ("trunc_normal_", {"mean": 0.5, "std": 0.2, "a": 0, "b": 1.0}),
    ("trunc_normal_", {"std": 0.02}),
    ("trunc_normal_", {"a": 1.5, "b": 3.0}),
    ("trunc_normal_", {"mean": 5}),
    ("trunc_normal_", {"a": 2, "b": 1}),
    ("constant_", {"val": 0.3}),
    ("ones_", {}),
    ("zeros_", {}),
    ("eye_", {}),
    ("dirac_", {}),
    ("dirac_", {"groups": 2}),
    ("xavier_uniform_", {}),
    ("xavier_uniform_", {"gain": 2.0}),
    ("xavier_normal_", {}),
    ("kaiming_uniform_", {}),
    ("kaiming_uniform_", {"a": 5**0.5}),
    ("kaiming_uniform_", {"mode": "fan_out", "nonlinearity": "relu"}),
    ("kaiming_uniform_", {"mode": "foo"}),
    ("kaiming_uniform_", {"nonlinearity": "foo"}),
    ("kaiming_normal_", {}),
    ("kaiming_normal_", {"nonlinearity": "tanh"}),
    ("orthogonal_", {}),
    ("orthogonal_", {"gain": 0.5}),
    ("sparse_", {"sparsity": 0.3}),
    ("sparse_", {"sparsity": 1.5, "std": 2.0}),
    ("kaiming_normal", {}),
    ("uniform", {}),
]


def run(library, name, shape, dtype, kwargs):
    """(tensor or error text, warnings) of one initialisation from a fixed seed."""
    library.manual_seed(3)
    x = library.empty(shape, dtype=getattr(library, dtype))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = getattr(library.nn.init, name)(x, **kwargs)
            assert result is x
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
    return result, [(w.category.__name__, str(w.message)) for w in caught]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
@pytest.mark.parametrize("name, kwargs", CALLS, ids=str)
def test_same_numbers(name, kwargs, dtype):
    for shape in SHAPES:
        theirs, their_warnings = run(torch, name, shape, dtype, kwargs)
        ours, our_warnings = run(ft, name, shape, dtype, kwargs)
        assert our_warnings == their_warnings, shape
        if isinstance(theirs, str) or isinstance(ours, str):
            assert ours == theirs, shape
            continue
        # the QR factorisations of two LAPACK builds differ by rounding; float64 by a unit in the last place
        tolerance = {"float32": 1e-6, "float64": 1e-14}.get(dtype, 0) if name.startswith("orthogonal") else 0
        tolerance = 1e-14 if dtype == "float64" else tolerance
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=0, atol=tolerance, err_msg=str(shape))
        assert ft.get_rng_state().numpy().tobytes() == torch.get_rng_state().numpy().tobytes(), shape


@pytest.mark.parametrize(
    "name", ["linear", "conv2d", "conv_transpose3d", "sigmoid", "tanh", "relu", "selu", "leaky_relu"]
)
def test_gain(name):
    assert ft.nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert ft.nn.init.calculate_gain(name, 0.2) == torch.nn.init.calculate_gain(name, 0.2)


@pytest.mark.parametrize("args", [("gelu",), ("leaky_relu", "x"), ("leaky_relu", True)])
def test_gain_errors(args):
    with pytest.raises(ValueError) as theirs:
        torch.nn.init.calculate_gain(*args)
    with pytest.raises(ValueError) as ours:
        ft.nn.init.calculate_gain(*args)
    assert str(ours.value) == str(theirs.value)


def test_parameters_are_filled_unrecorded():
    for name, kwargs in CALLS[:1] + CALLS[2:3] + CALLS[9:12] + CALLS[24:25] + CALLS[26:27]:
        w = ft.nn.Parameter(ft.empty(4, 4))
        assert getattr(ft.nn.init, name)(w, **kwargs) is w
        assert w.requires_grad and w.is_leaf and w._version > 0


def test_generator_is_used():
    for name in ("uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "kaiming_normal_", "orthogonal_"):
        results = []
        for library in (torch, ft):
            library.manual_seed(0)
            before = library.get_rng_state().numpy().tobytes()
            g = library.Generator().manual_seed(9)
            results.append(getattr(library.nn.init, name)(library.empty(3, 5), generator=g).numpy())
            assert library.get_rng_state().numpy().tobytes() == before
        np.testing.assert_allclose(results[1], results[0], rtol=0, atol=1e-6)


def test_meta_tensors_stay_meta():
    for name, kwargs in CALLS[:3] + CALLS[9:11] + CALLS[14:15] + CALLS[24:25]:
        assert getattr(ft.nn.init, name)(ft.empty(4, 4, device="meta"), **kwargs).is_meta


def test_inside_compile():
    def make(x):
        w = ft.nn.init.trunc_normal_(ft.empty(200, 20), std=0.5, a=-1, b=1)
        q = ft.nn.init.orthogonal_(ft.empty(4, 4))
        s = ft.nn.init.sparse_(ft.empty(10, 4), 0.3)
        return w + x, q, s

    compiled = ft.compile(make)
    w, q, s = compiled(ft.zeros(()))
    assert abs(float(w.std()) - 0.5 * 0.8796) < 0.02 and float(w.abs().max()) <= 1
    np.testing.assert_allclose((q @ q.t()).numpy(), np.eye(4), atol=1e-6)
    assert ((s == 0).sum(0).numpy() == 3).all()
    assert repr(compiled(ft.zeros(()))[1]) != repr(q)
    compiled = ft.compile(make, rng="torch")
    torch.manual_seed(0)
    ft.manual_seed(0)
    expected = torch.nn.init.trunc_normal_(torch.empty(200, 20), std=0.5, a=-1, b=1)
    np.testing.assert_array_equal(compiled(ft.zeros(()))[0].numpy(), expected.numpy())
