"""dtype and device objects against torch's."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
import torch

import functorch_port as ft
from functorch_port._base import device as devices
from functorch_port._base import dtypes


def outcome(fn):
    """The repr of what ``fn`` returns, or the type and text of what it raises."""
    try:
        return repr(fn())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", list(dtypes.NAMES))
def test_dtype_is_as_torchs(name):
    theirs, ours = getattr(torch, name), getattr(ft, name)
    assert repr(ours) == repr(theirs)
    for attribute in ("is_floating_point", "is_complex", "is_signed", "itemsize", "abbr"):
        assert getattr(ours, attribute) == getattr(theirs, attribute)
    assert outcome(ours.to_real) == outcome(theirs.to_real)
    if ours is not ft.half:  # JAX has no complex32
        assert outcome(ours.to_complex) == outcome(theirs.to_complex)
    assert outcome(lambda: ft.finfo(ours)) == outcome(lambda: torch.finfo(theirs))
    assert outcome(lambda: ft.iinfo(ours)) == outcome(lambda: torch.iinfo(theirs))
    if ours.is_floating_point:
        for attribute in ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny"):
            assert getattr(ft.finfo(ours), attribute) == getattr(torch.finfo(theirs), attribute)


def test_half_has_no_complex_twin():
    with pytest.raises(NotImplementedError, match="complex32"):
        ft.half.to_complex()


def test_dtypes_are_single_objects():
    for d in dtypes.ALL:
        assert copy.copy(d) is d and copy.deepcopy(d) is d and pickle.loads(pickle.dumps(d)) is d
        assert dtypes.from_np(d.np) is d and isinstance(d, ft.dtype)
    with pytest.raises(TypeError, match=r"cannot create 'torch.dtype' instances"):
        ft.dtype("float32")


def test_from_np():
    assert dtypes.from_np(np.dtype(">f4")) is ft.float32
    assert dtypes.from_np(np.dtype(ml_dtypes.bfloat16)) is ft.bfloat16
    with pytest.raises(TypeError, match=r"can't convert np.ndarray of type numpy.str_"):
        dtypes.from_np(np.dtype("U3"))


def test_finfo_and_iinfo_objects():
    assert ft.finfo() == ft.finfo(ft.float32) != ft.finfo(ft.float64)
    assert outcome(lambda: hash(ft.finfo())).startswith("TypeError: unhashable")
    for call in ("finfo('x')", "iinfo('x')", "iinfo(3)"):
        assert outcome(lambda: eval("ft." + call)) == outcome(lambda: eval("torch." + call))


def test_default_dtype():
    assert ft.get_default_dtype() is ft.float32
    try:
        for name in ("float64", "bfloat16", "float16"):
            ft.set_default_dtype(getattr(ft, name))
            assert repr(ft.get_default_dtype()) == f"torch.{name}"
    finally:
        ft.set_default_dtype(ft.float32)
    for wrong in ("torch.int32", "'x'", "torch.float8_e5m2", "torch.complex64"):
        theirs = outcome(lambda: torch.set_default_dtype(eval(wrong)))
        assert outcome(lambda: ft.set_default_dtype(eval(wrong, {"torch": ft}))) == theirs


DEVICES = [
    ("cpu",), ("cuda",), ("cuda:0",), ("meta",), ("cpu:0",), ("cuda:-1",), ("cuda:x",), ("",), ("cuda:01",),
    ("mps",), ("xla",), ("cuda:0:1",), ("cuda:",), (0,), (1.5,), (None,), (-1,), (True,), (), ("cuda", 0),
    ("cuda", -1), ("cuda:0", 0), ("cpu", None), ("cuda", True), ("cuda", 1.0), ("cuda", 1, 2),
]  # fmt: skip


@pytest.mark.parametrize("args", DEVICES, ids=str)
def test_device_is_as_torchs(args):
    if args == (0,) and torch.version.cuda:
        pytest.skip("a number alone is a device of the accelerator that PyTorch was built for, there or not")
    assert outcome(lambda: ft.device(*args)) == outcome(lambda: torch.device(*args))
    assert outcome(lambda: str(ft.device(*args))) == outcome(lambda: str(torch.device(*args)))


def test_unknown_device_type_names_what_is_known():
    theirs = outcome(lambda: torch.device("foo"))
    assert outcome(lambda: ft.device("foo")).startswith(theirs)


def test_device_equality_and_pickle():
    assert ft.device("cuda:1") == ft.device("cuda", 1) != ft.device("cuda")
    assert ft.device("cpu") != "cpu"
    assert ft.device("gpu:1") == ft.device("cuda:1")
    assert ft.device("tpu").type == "tpu"
    assert len({ft.device("cpu"), ft.device("cpu"), ft.device("cpu:0")}) == 2
    second = ft.device("cuda:1")
    assert pickle.loads(pickle.dumps(second)) == copy.deepcopy(second) == second
    assert ft.device(ft.device("cuda:1")) == ft.device("cuda:1")
    with pytest.raises(AttributeError):
        ft.device("cpu").index = 3


def test_device_and_jax():
    assert devices.from_jax(devices.to_jax(ft.device("cpu"))) == ft.device("cpu")
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        devices.to_jax(ft.device("cuda"))
    with pytest.raises(RuntimeError, match="holds shapes and no data"):
        devices.to_jax(ft.device("meta"))
    with pytest.raises(NotImplementedError, match="mps"):
        devices.to_jax(ft.device("mps"))
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        devices.to_jax(ft.device("cpu", 99))


def test_default_device():
    assert ft.get_default_device() == ft.device("cpu")
    with ft.device("meta"):
        assert ft.get_default_device() == ft.device("meta")
        assert ft.ones(2).is_meta
    assert not ft.ones(2).is_meta

    @ft.device("meta")
    def make():
        return ft.ones(2)

    assert make().is_meta
    ft.set_default_device("meta")
    try:
        assert ft.ones(2).is_meta
    finally:
        ft.set_default_device(None)
    assert not ft.ones(2).is_meta
