"""`UntypedStorage` and `TypedStorage`: their methods beside PyTorch's, and addresses that are real."""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import pickle
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import programs
import pytest
import torch

import functorch_port as ft

BYTES = """
s=torch.arange(3, dtype=torch.int32).untyped_storage(); [s.tolist(), len(s), s.size(), s.nbytes(), s.element_size()]
s=torch.ones(2).untyped_storage(); [s[3], s[-1], s[-8]]
torch.ones(2).untyped_storage()[8]
torch.ones(2).untyped_storage()[1.0]
torch.ones(2).untyped_storage()[True]
s=torch.arange(4, dtype=torch.uint8).untyped_storage(); [s[1:3].tolist(), s[2:].size(), s[3:1].tolist()]
torch.arange(4, dtype=torch.uint8).untyped_storage()[::2]
a=torch.zeros(4, dtype=torch.uint8); a.untyped_storage()[1:3].fill_(7); a
a=torch.zeros(2, dtype=torch.int16); a.untyped_storage()[1]=1; [a, a._version]
a=torch.zeros(2, dtype=torch.int16); a.untyped_storage()[2:4]=257; a
a=torch.zeros(2); a.untyped_storage()[8]=1
a=torch.zeros(2); a.untyped_storage().fill_(1.5)
a=torch.zeros(2,2)[1]; a.untyped_storage().fill_(0); [a, a.untyped_storage().nbytes()]
a=torch.zeros(2, dtype=torch.int64); a.untyped_storage().copy_(torch.arange(2).untyped_storage()); a
torch.zeros(2).untyped_storage().copy_(torch.zeros(3).untyped_storage())
a=torch.tensor([1, 256], dtype=torch.int16); a.untyped_storage().byteswap(torch.int16); a
a=torch.tensor([1+2j]); a.untyped_storage().byteswap(torch.complex64); a.untyped_storage().tolist()
torch.UntypedStorage([1, 2, 300]).tolist()
torch.UntypedStorage("a")
[torch.UntypedStorage(3).size(), torch.UntypedStorage().size(), torch.UntypedStorage(3, device="meta").device.type]
torch.UntypedStorage([1, 2]).resize_(1).tolist()
s=torch.UntypedStorage([1, 2]); t=s.clone(); t[0]=9; [s.tolist(), t.tolist()]
s=torch.ones(2).untyped_storage(); [s.cpu() is s, s.to(device="cpu") is s, s.untyped() is s, s.is_cuda, s.is_sparse]
s=torch.ones(2).untyped_storage(); [s.is_shared(), s.is_pinned(), s.resizable(), s.filename, s.device.type, s.type()]
[torch.is_storage(torch.ones(1).untyped_storage()), torch.is_storage(torch.ones(1).storage()), torch.is_storage(x)]
repr(torch.tensor([1, 2], dtype=torch.uint8).untyped_storage()).replace("torch.storage.", "")
torch.UntypedStorage.from_buffer(b"\\0\\1\\2\\3", "native", dtype=torch.int16).tolist()
torch.UntypedStorage.from_buffer(b"\\0\\1\\2\\3", "big", dtype=torch.int16).tolist()
torch.UntypedStorage([1, 2, 3]).float().tolist()
a=torch.arange(4.); [a.untyped_storage() is a[1:].untyped_storage() for a in [a] for keep in [a.untyped_storage()]][0]
"""

TYPED = """
s=torch.ones(3).storage(); [s.size(), len(s), s.nbytes(), s.element_size(), s.dtype, s.tolist(), list(s)]
s=torch.arange(3).storage(); [s[1], s[-1]]
torch.arange(3).storage()[3]
torch.arange(3).storage()[0:2]
a=torch.zeros(3); a.storage()[1]=2.5; [a, a._version]
a=torch.zeros(3); a.storage()[1:]=2.5; a
a=torch.zeros(2, dtype=torch.bool); a.storage().fill_(True); a
a=torch.zeros(2); a.storage().copy_(torch.ones(2).storage()); a
torch.ones(3).storage().copy_(torch.zeros(3, dtype=torch.int64).storage())
[torch.ones(2).storage().int().tolist(), torch.ones(2).storage().double().dtype]
[torch.ones(2).storage().type(), torch.ones(2).storage().pickle_storage_type()]
[type(torch.FloatStorage(2)).__name__, torch.FloatStorage([1, 2]).tolist(), torch.LongStorage([1, 2]).dtype]
[isinstance(torch.ones(2).storage(), torch.FloatStorage), isinstance(torch.ones(2).storage(), torch.LongStorage)]
[torch.TypedStorage([1, 2.5]).tolist(), torch.TypedStorage(2, dtype=torch.int32).size(), torch.TypedStorage().size()]
torch.FloatStorage.from_buffer(b"\\0\\0\\x80\\x3f", "little").tolist()
torch.TypedStorage(wrap_storage=torch.ones(2).untyped_storage(), dtype=torch.int32).tolist()
torch.FloatTensor(torch.FloatStorage([1, 2]))
torch.ones(1).new(torch.FloatStorage([1, 2]))
torch.tensor([], dtype=torch.int16).set_(torch.tensor([1, 2], dtype=torch.int32).untyped_storage())
torch.tensor([], dtype=torch.int64).set_(torch.tensor([1, 0, 7], dtype=torch.int32).untyped_storage())
repr(torch.ones(2, dtype=torch.int64).storage()).replace("torch.storage.", "")
torch.tensor(2.5).storage()[0]
torch._utils._rebuild_tensor_v2(torch.arange(6.).storage(), 1, (2, 2), (2, 1), True, None)
[torch._utils._rebuild_parameter(torch.ones(1), r, None).requires_grad for r in (True, False)]
[issubclass(torch.FloatStorage, torch.storage._LegacyStorage), torch.TypedStorage([3], _internal=True)[0]]
torch.tensor([1+2j]).storage()[0]
"""

ADDRESSES = """
a=torch.arange(6.).reshape(2,3); p=a.data_ptr(); [a[1].data_ptr()-p, a[:,1].data_ptr()-p, a.t().data_ptr()-p]
a=torch.arange(6.); p=a.data_ptr(); [a.detach().data_ptr()==p, a.data.data_ptr()==p, a.view(2,3).data_ptr()==p]
a=torch.zeros(5); b=a.clone(); [a.data_ptr()==b.data_ptr(), b.data_ptr()==a.data_ptr()]
a=torch.zeros(9000); b=a.clone(); [a.data_ptr()==b.data_ptr(), b.data_ptr()==a.data_ptr()]
a=[torch.zeros(3) for _ in range(9)]; len({t.data_ptr() for t in a})
a=torch.zeros(3); b=[torch.zeros(3).copy_(a) for _ in range(9)]; len({t.data_ptr() for t in [a, *b]})
[torch.zeros(0).data_ptr(), torch.zeros(3)[3:].data_ptr(), torch.zeros(2, device="meta").data_ptr()]
a=torch.ones(4); [a.untyped_storage().data_ptr()==a.data_ptr(), a.storage().data_ptr()==a.data_ptr()]
"""

SHARED = """
a=torch.zeros(4).numpy(); b=torch.from_numpy(a); b.data_ptr()==a.__array_interface__["data"][0]
"""


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("code", programs.cases(BYTES + TYPED))
def test_methods(code: str) -> None:
    programs.check(code)


@pytest.mark.parametrize("code", programs.cases(ADDRESSES))
def test_addresses(code: str) -> None:
    programs.check(code)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex128", "uint8"])
@pytest.mark.parametrize("size", [5, 20_000])
def test_the_bytes_are_at_the_address(dtype: str, size: int) -> None:
    like = torch.arange(size).remainder(2).to(getattr(torch, dtype))
    t = ft.arange(size).remainder(2).to(getattr(ft, dtype))
    for ours, theirs in ((t, like), (t[2:4], like[2:4])):
        found = ctypes.string_at(ours.data_ptr(), ours.numel() * ours.itemsize)
        assert found == ctypes.string_at(theirs.data_ptr(), len(found))


@pytest.mark.parametrize("size", [5, 20_000])
def test_an_address_stays_until_a_write(size: int) -> None:
    t = ft.randn(size)
    first = t.data_ptr()
    (t * 2).sum().item()  # what is computed of it does not move it
    gc.collect()
    assert t.data_ptr() == first
    t.add_(1)
    found = ctypes.string_at(t.data_ptr(), 4 * size)
    assert found == t.numpy().tobytes()


def test_addresses_of_one_result_that_a_program_gives_twice() -> None:
    arrays = jax.jit(lambda x: (x + 1,) * 2)(jnp.arange(20_000.0))
    a, b = map(ft.from_jax, arrays)
    addresses = [a.data_ptr(), b.data_ptr()]
    assert addresses[0] != addresses[1] and addresses == [a.data_ptr(), b.data_ptr()]
    assert (a == b).all() and ctypes.string_at(addresses[1] + 8, 4) == np.float32(3).tobytes()


@pytest.mark.cpu  # the plain backend shares no memory
@pytest.mark.parametrize("code", programs.cases(SHARED))
def test_addresses_of_memory_that_is_numpys(code: str) -> None:
    programs.check(code)


@pytest.mark.cpu
def test_the_address_of_memory_that_numpy_shares() -> None:
    t = ft.zeros(3)
    array = t.numpy()
    ctypes.memset(t.data_ptr(), 0x3F, 4)
    assert t[0].item() == array[0] != 0


def test_no_address_while_a_function_is_compiled() -> None:
    with pytest.raises(RuntimeError, match="data pointer of a tensor while"):
        ft.compile(lambda x: x.data_ptr())(ft.ones(2))


@pytest.mark.parametrize("new", [True, False])
def test_storages_in_files(new: bool) -> None:
    t = ft.arange(4.0)
    out = io.BytesIO()
    ft.save([t, t.storage(), ft.LongStorage([1, 2])], out, _use_new_zipfile_serialization=new)
    for library in (torch, ft):
        out.seek(0)
        tensor, storage, longs = library.load(out)
        assert isinstance(storage, library.TypedStorage) and storage.dtype is library.float32
        assert storage.data_ptr() == tensor.data_ptr() and longs.tolist() == [1, 2]
        storage.fill_(5)
        assert tensor.tolist() == [5.0] * 4


def test_map_location_is_given_a_storage() -> None:
    out = io.BytesIO()
    torch.save(torch.arange(3.0), out)
    seen = []

    def zeros(storage: ft.UntypedStorage, location: str) -> ft.UntypedStorage:
        seen.append((type(storage), storage.nbytes(), location))
        return ft.UntypedStorage(storage.nbytes())

    out.seek(0)
    assert ft.load(out, map_location=zeros).tolist() == [0.0] * 3
    assert seen == [(ft.UntypedStorage, 12, "cpu")]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies(duplicate: object) -> None:
    storage = ft.arange(3.0).untyped_storage()
    other = duplicate(storage)  # type: ignore[operator]
    other[0] = 9
    assert storage[0] == 0 and other[0] == 9 and other[1:].tolist() == storage[1:].tolist()


def test_a_tensor_and_its_storage_are_copied_together() -> None:
    t = ft.zeros(2)
    other, storage = copy.deepcopy([t, t.untyped_storage()])
    storage.fill_(1)
    assert storage.data_ptr() == other.data_ptr() and t.tolist() == [0.0, 0.0] != other.tolist()


@pytest.mark.cpu
def test_files(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.arange(3, dtype=np.float32).tofile(path)
    storage = ft.UntypedStorage.from_file(str(path), False, 8)
    assert storage.float().size() == 8 and storage.filename is None
    assert ft.tensor([]).set_(storage).tolist() == [0.0, 1.0]
    with pytest.raises(RuntimeError, match="fewer than 20"):
        ft.UntypedStorage.from_file(path, False, 20)
    shared = ft.FloatStorage.from_file(str(path), True, 3)
    assert shared.filename == str(path)
    shared[1] = 7
    assert np.fromfile(path, np.float32).tolist() == [0.0, 7.0, 2.0]
    with pytest.raises(NotImplementedError, match="only few can be shared"):
        ft.UntypedStorage.from_file(path, True, 1 << 20)


def test_a_storage_that_a_tensor_looks_at_keeps_its_size() -> None:
    t = ft.zeros(2)
    with pytest.raises(NotImplementedError, match="Tensor.resize_"):
        t.untyped_storage().resize_(0)
    assert t.untyped_storage().resize_(8).nbytes() == 8
