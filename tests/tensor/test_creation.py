"""Making tensors: from data of every kind, filled, ranges, and the old constructors."""

from __future__ import annotations

from array import array
from collections import UserList, deque

import numpy as np
import programs
import pytest
import torch
from counting import xla_compilations

import functorch_port as ft

CREATION = """
torch.tensor(3)
torch.tensor(3.5)
torch.tensor(True)
torch.tensor(2j)
torch.tensor([1,2.5])
torch.tensor([True,2])
torch.tensor([1,2j])
torch.tensor([[1,2],[3,4]])
torch.tensor((1,2))
torch.tensor([(1,2),[3,4]])
torch.tensor([])
torch.tensor([[]])
torch.tensor([[],[]]).shape
torch.tensor([[1,2],[3]])
torch.tensor([1,[2]])
torch.tensor([[1],2])
torch.tensor("a")
torch.tensor(None)
torch.tensor([None])
torch.tensor({})
torch.tensor(object())
torch.tensor(range(3))
torch.tensor(np.array([1,2]))
torch.tensor(np.array([1,2],dtype=np.float32))
torch.tensor(np.float32(3))
torch.tensor(np.float64(3))
torch.tensor(np.int32(3))
torch.tensor(np.bool_(True))
torch.tensor([np.float32(3),np.float32(4)])
torch.tensor([np.int32(3),2])
torch.tensor([np.array([1,2]),np.array([3,4])])
torch.tensor([torch.tensor(1),torch.tensor(2)])
torch.tensor([torch.tensor(1.),2])
torch.tensor([torch.tensor([1]),torch.tensor([2])])
torch.tensor([torch.tensor([1,2]),torch.tensor([2,3])])
torch.tensor(torch.ones(2))
torch.tensor(x)
torch.tensor(1,dtype=torch.float64)
torch.tensor(1.7,dtype=torch.int64)
torch.tensor([1.7,-1.7],dtype=torch.int32)
torch.tensor(-1,dtype=torch.uint8)
torch.tensor(300,dtype=torch.uint8)
torch.tensor(2**63)
torch.tensor([2**63,1])
torch.tensor([2**63,1],dtype=torch.int64)
torch.tensor([2**63+1,1],dtype=torch.uint64)
torch.tensor([2**63,1],dtype=torch.float32)
torch.tensor([type("Metres",(float,),{})(1.5),1])
torch.tensor(__import__("enum").IntEnum("Level","LOW HIGH").HIGH)
torch.tensor(2**62)
torch.tensor(-2**63)
torch.tensor(1e400)
torch.tensor(1j,dtype=torch.float32)
torch.tensor([1,2],dtype=torch.bool)
torch.tensor(1,dtype=torch.bfloat16)
torch.tensor([1.1],dtype=torch.float16)
torch.tensor(1,dtype=float)
torch.tensor(1,dtype=int)
torch.tensor(1,dtype=bool)
torch.tensor(1,dtype=complex)
torch.tensor(1,dtype="float32")
torch.tensor(1,dtype=np.float32)
torch.tensor(1,device="cpu").device
torch.tensor(1,device=torch.device("cpu")).device
torch.tensor(1,requires_grad=True)
torch.tensor(1.,requires_grad=True)
torch.tensor(1.,foo=3)
torch.tensor()
torch.tensor(data=3)
torch.tensor(np.array(["a"]))
torch.tensor(np.array([1],dtype=np.uint16)).dtype
torch.tensor(np.array([1+1j]))
torch.tensor(np.array([[1,2],[3,4]])[:, ::-1])
torch.as_tensor(np.array([1,2]))
torch.as_tensor([1,2.])
torch.as_tensor(x) is x
torch.as_tensor(x,dtype=torch.float64).dtype
torch.as_tensor(3)
torch.asarray([1,2])
torch.asarray(x) is x
torch.from_numpy(np.array([1,2]))
torch.from_numpy([1])
torch.from_numpy(np.array(["a"]))
torch.from_numpy(np.array([1.,2.]).astype(np.float16))
torch.from_numpy(np.arange(3)[::-1])
torch.zeros(2,3)
torch.zeros((2,3))
torch.zeros([2,3])
torch.zeros(torch.Size([2]))
torch.zeros(())
torch.zeros(0)
torch.zeros(2,0).shape
torch.zeros(-1)
torch.zeros(2.5)
torch.zeros("a")
torch.zeros()
torch.zeros(2,dtype=torch.int64)
torch.zeros(2,dtype=torch.complex64)
torch.zeros(2,dtype="a")
torch.zeros(2,foo=1)
torch.zeros(size=(2,3))
torch.zeros(torch.tensor(2),3)
torch.zeros(np.int64(2))
torch.zeros(2,3,out=torch.empty(2,3))
torch.zeros(True)
torch.ones(2,3)
torch.ones(2,dtype=torch.bool)
torch.empty(2,3).shape
torch.empty((2,3),dtype=torch.int32).dtype
torch.full((2,),3)
[torch.full((1,),v) for v in (0.0,-0.0,float("nan"),float("-inf"),True,-7)]
a=torch.full((1,),-0.0); b=torch.zeros(1); [1/a,1/b]
torch.full((2,),3.)
torch.full((2,),True)
torch.full((2,),1j)
torch.full((2,),3,dtype=torch.float64)
torch.full((2,),torch.tensor(3.))
torch.full((),3)
torch.full(2,3)
torch.full([2],3)
torch.full((2,))
torch.zeros_like(i)
torch.zeros_like(x)
torch.zeros_like(x,dtype=torch.int64)
torch.ones_like(c)
torch.ones_like(3)
torch.full_like(i,2.7)
torch.full_like(c,2)
torch.empty_like(c).shape
torch.zeros_like(x,requires_grad=True)
torch.arange(5)
torch.arange(5.)
torch.arange(1,5)
torch.arange(1,5,2)
torch.arange(1,2,0.3)
torch.arange(5,1)
torch.arange(5,1,-1)
torch.arange(0,1,0)
torch.arange(0)
torch.arange(2.5)
torch.arange(-2.5)
torch.arange(1,4,dtype=torch.float64)
torch.arange(0,1,.1,dtype=torch.float32)
torch.arange(0,1,.1)
torch.arange(0,3,.5,dtype=torch.int64)
torch.arange(end=3)
torch.arange(start=1,end=3)
torch.arange(start=1,end=6,step=2)
torch.arange(torch.tensor(3))
torch.arange(torch.tensor(3.))
torch.arange(3,requires_grad=True)
torch.arange(3.,requires_grad=True)
torch.arange("a")
torch.arange(5,dtype=torch.uint8)
torch.arange(5,dtype=torch.bfloat16)
torch.arange(5,dtype=torch.bool)
torch.range(1,4)
torch.linspace(0,1,5)
torch.linspace(0,1,1)
torch.linspace(0,1,0)
torch.linspace(0,1,-1)
torch.linspace(0,10,7)
torch.linspace(-3,3,10)
torch.linspace(0,10,5,dtype=torch.int64)
torch.linspace(0,10,4,dtype=torch.int64)
torch.linspace(0,1,5,dtype=torch.float64)
torch.linspace(0,1,steps=3)
torch.linspace(torch.tensor(0.),torch.tensor(1.),3)
torch.linspace(0,1,5,dtype=torch.complex64)
torch.linspace(0,1j,5)
torch.logspace(0,2,3)
torch.logspace(0,2,5,base=2)
torch.eye(3)
torch.eye(2,3)
torch.eye(2,3,dtype=torch.int64)
torch.eye(-1)
torch.eye(0).shape
torch.eye(2,-1)
torch.scalar_tensor(3)
torch.Tensor([1,2])
torch.Tensor(2,3).shape
torch.Tensor()
torch.Tensor(3).shape
torch.Tensor([[1,2],[3,4]])
torch.Tensor(x)
torch.Tensor(i)
torch.Tensor(torch.Size([2])).shape
torch.Tensor(np.array([1,2]))
torch.Tensor("a")
torch.Tensor(3.5)
torch.Tensor([1,2]).dtype
torch.FloatTensor([1,2])
torch.FloatTensor(2,3).shape
torch.LongTensor([1,2])
torch.LongTensor([1.5])
torch.DoubleTensor([1,2])
torch.ByteTensor([1,2])
torch.BoolTensor([True,False])
torch.IntTensor([1,2])
torch.HalfTensor([1,2])
torch.BFloat16Tensor([1,2])
torch.CharTensor([1,2])
torch.ShortTensor([1,2])
torch.FloatTensor(np.array([1.,2.]))
isinstance(c,torch.FloatTensor),isinstance(i,torch.FloatTensor),isinstance(i,torch.LongTensor),isinstance(c,
      torch.Tensor)
c.type(), i.type(), (c>1).type(), c.double().type(), c.half().type(), c.bfloat16().type(),
      c.to(torch.complex64).type()
c.type(torch.LongTensor).dtype
c.type("torch.LongTensor").dtype
c.type(torch.float64).dtype
c.type("foo")
c.new_zeros(2), i.new_zeros(2), i.new_ones((2,)), c.new_full((2,),3), i.new_full((2,),3.7),
      i.new_tensor([1.5]), c.new_empty(2,3).shape, c.new_zeros(2,dtype=torch.int64)
c.new(2,3).shape
c.new([1,2])
i.new([1,2])
torch.tensor([300],dtype=torch.uint8)
torch.tensor([300,-1],dtype=torch.int8)
torch.tensor(1e10,dtype=torch.int32)
torch.tensor([1e10],dtype=torch.int32)
torch.tensor(2**40,dtype=torch.int32)
torch.tensor(1e300,dtype=torch.float32)
torch.tensor(float('nan'),dtype=torch.int64)
torch.tensor([2**63])
torch.tensor([2**63],dtype=torch.uint64)
torch.tensor(2**63,dtype=torch.float32)
torch.tensor([1j],dtype=torch.int64)
torch.tensor([1,2.5],dtype=torch.int64)
torch.tensor([[1,2],[3,"a"]])
torch.tensor([1,"a"])
torch.tensor([1.,"a"])
torch.tensor([1,None])
torch.tensor([[1,2],[3,4,5]])
torch.tensor([[1,2],3])
torch.tensor([1,2,[3]])
torch.tensor([1.,[3]])
torch.tensor([[[1]],[[1,2]]])
torch.tensor([[1],[[1]]])
torch.tensor([torch.tensor([1.,2])])
torch.tensor([torch.tensor([1.,2]),torch.tensor([1.,2])])
torch.tensor([x[0],x[1]])
torch.tensor([[s,s],[1,2]])
torch.tensor([True,1.5,2])
torch.tensor([1,True])
torch.tensor([np.float64(3),2])
torch.tensor([np.float32(3),2.5])
torch.tensor([np.float32(3),np.float64(3)])
torch.tensor([np.int64(3),2.5])
torch.tensor([torch.tensor(1,dtype=torch.int32),2])
torch.tensor([torch.tensor(1.,dtype=torch.float64),2])
torch.tensor([np.bool_(True),np.bool_(False)])
torch.tensor(set([1]))
torch.tensor({1:2})
torch.tensor((i for i in range(2)))
torch.tensor(iter([1,2]))
torch.tensor(b"ab")
torch.tensor(bytearray(b"ab"))
torch.tensor(memoryview(b"ab"))
torch.tensor(torch.Size([1,2]))
torch.tensor(slice(1))
torch.tensor(np.zeros((2,0)))
torch.tensor(np.array(3))
torch.tensor(np.array([1,2],dtype=object))
torch.tensor(np.array(['2020-01-01'],dtype='datetime64'))
torch.tensor([1,2],dtype=torch.float32,device="meta").shape
torch.tensor(3.,dtype=None)
torch.as_tensor([1,2],dtype=torch.float32)
torch.as_tensor("a")
torch.as_tensor(None)
torch.as_tensor(c,device="cpu") is c
torch.asarray(3.,dtype=torch.int32)
torch.asarray(c,copy=True) is c
torch.asarray(c,requires_grad=True)
torch.asarray(np.arange(3),dtype=torch.float32)
torch.zeros(2,dtype=float).dtype, torch.ones(2,dtype=int).dtype, torch.full((2,),1,dtype=float).dtype,
      torch.arange(3,dtype=float).dtype, torch.eye(2,dtype=int).dtype, c.to(float).dtype,
      c.sum(dtype=float).dtype, torch.zeros_like(c,dtype=int).dtype, c.new_zeros(2,dtype=int).dtype,
      torch.empty(2,dtype=bool).dtype,torch.linspace(0,1,2,dtype=float).dtype
torch.full((2,),"a")
torch.full((2,),[1])
torch.full(fill_value=3,size=(2,))
torch.full((2,),3,dtype=torch.bool)
torch.full((2,),1.5,dtype=torch.int64)
torch.full((2,),1j,dtype=torch.float32)
torch.full((-1,),1)
torch.ones((2,-3))
torch.empty(-2)
torch.ones(size=3)
torch.ones(2,size=3)
torch.ones([2],[3])
torch.ones((2,),3)
torch.ones(2.)
torch.ones([2.])
torch.ones(None)
torch.ones([None])
torch.zeros_like(x,dtype=3)
torch.zeros_like()
torch.full_like(c)
torch.empty_like([1])
torch.eye("a")
torch.eye(2.5)
torch.linspace(3,3,4)
torch.linspace(0,1,steps=4,dtype=torch.bfloat16)
torch.logspace(0,3,4,dtype=torch.int64)
torch.logspace(0,1,3,2)
torch.arange(None)
torch.arange(1j)
torch.arange(float('inf'))
torch.arange(float('nan'))
torch.arange(3,1.5,-.5)
torch.arange(1,5,step=2)
torch.arange(2**40,2**40+2)
torch.arange(0,5,2.5)
torch.arange(True)
torch.arange(3,out=torch.empty(0))
torch.arange(5,dtype=torch.float16)
torch.arange(5,dtype=torch.complex64)
torch.range(0,3,1.5)
torch.range(3)
torch.range(3,1)
torch.range(0,3,out=torch.empty(0,dtype=torch.int64)), torch.range(0,3,layout=torch.strided,requires_grad=True)
torch.range(0,3,0)
torch.range(torch.tensor(0),torch.tensor(3.),torch.tensor(1.5)), torch.range(3,0,-1)
torch.range(0,float('inf'))
torch.range(0,3,dtype=torch.bool)
torch.logspace(0,1j,3), torch.logspace(0j,1,3), torch.logspace(0,1,torch.tensor(3),pin_memory=False)
torch.logspace(torch.ones(2),1,3)
torch.linspace(torch.ones(2),torch.tensor(1.),3)
torch.empty_strided((2,3),(1,2)).stride(), torch.empty_strided((2,3,4),(1,2,6)).stride()
torch.empty_strided((2,3),(0,0)).stride(), torch.empty_strided((2,3),(4,1)).stride()
torch.empty_strided((2,0),(1,2)).stride()
torch.empty_strided((-2,3),(1,2))
a=torch.empty_strided((2,3),(1,2),requires_grad=True); a.is_leaf, a.requires_grad, a._base, a.is_contiguous()
a=torch.empty_strided((2,3),(1,2)).fill_(2); a[0,1]=3; a, a.t().is_contiguous()
torch.ones(2,3).new_empty_strided((2,3),(1,2)).stride(), torch.empty_strided((2,3),(1,2),device="meta").stride()
torch.zeros_like(torch.ones(2,2),layout=torch.sparse_coo).layout, torch.empty(2,2,layout=torch.sparse_coo).layout
torch.full((2,2),1.,layout=torch.sparse_coo)
torch.zeros_like(torch.eye(2).to_sparse()).layout, torch.zeros_like(torch.eye(2).to_sparse()).to_dense()
torch.rand_like(x,pin_memory=False).shape, torch.randint_like(x,3,pin_memory=False).shape
torch.tril_indices(2,2,pin_memory=False,requires_grad=False), torch.triu_indices(2,2,1,dtype=torch.int32)
torch.tril_indices(2,2,requires_grad=True)
torch.triu_indices(2,2,dtype=torch.float32)
torch.tril_indices(2,2,dtype=torch.int16)
torch.fft.fftfreq(3,pin_memory=False), torch.fft.rfftfreq(3,pin_memory=False)
torch.set_default_dtype(torch.float64)
  a=[torch.tensor(1.),torch.zeros(1),torch.arange(1.),torch.tensor([1j]),torch.Tensor([1]),torch.full((1,),1.),
      torch.linspace(0,1,2),torch.eye(1)]
  torch.set_default_dtype(torch.float32); a
c.new_ones(2,3), c.new_zeros((2,)), i.new_tensor(x), i.new_tensor([1,2.]),
      c.new_full((2,),1,dtype=torch.int64), c.new_empty((2,)).shape, c.new_ones(size=(2,))
i.new_tensor(3).dtype, c.new_tensor(3,requires_grad=True)
i.new_ones(2,requires_grad=True)
torch.empty_strided((2,3),(3,1)).shape
torch.zeros(2,3,layout=torch.strided).shape
torch.zeros(2,pin_memory=False).shape
torch.complex(torch.tensor([1.]),torch.tensor([2.])), torch.polar(torch.tensor([1.]),torch.tensor([0.]))
torch.tril_indices(3,3), torch.triu_indices(2,3)
torch.cartesian_prod(torch.arange(2),torch.arange(2))
torch.meshgrid(torch.arange(2),torch.arange(3),indexing="ij")
torch.vander(x.detach())
torch.heaviside(x.detach(),s.detach())
torch.Tensor(3.5)
torch.Tensor(2,3,device="cpu").shape
torch.Tensor([True])
torch.Tensor([1j])
torch.Tensor(2,"a")
torch.Tensor(-1)
torch.FloatTensor(c) is c
torch.LongTensor(2).dtype
torch.LongTensor(i)
torch.LongTensor([[1,2],[3,4]])
torch.FloatTensor().shape
torch.FloatTensor(3.5)
torch.FloatTensor(torch.Size([2,3])).shape
torch.FloatTensor((2,3))
torch.FloatTensor.dtype
torch.ByteTensor(np.array([1,2],dtype=np.uint8))
issubclass(torch.FloatTensor,torch.Tensor)
torch.set_default_tensor_type(torch.DoubleTensor); a=torch.zeros(1)
  torch.set_default_tensor_type(torch.FloatTensor); a
torch.set_default_tensor_type("torch.DoubleTensor"); a=torch.zeros(1)
  torch.set_default_tensor_type("torch.FloatTensor"); a
"""

# PyTorch appends the list of signatures
LONG_MESSAGES = """
torch.tensor(1,device="foo")
torch.arange(1,2,3,4)
torch.linspace(0,1)
torch.linspace(0,"a",2)
torch.linspace(0,1,2.5)
torch.arange()
torch.arange(1,None)
torch.arange(5,step=2)
"""


@pytest.mark.parametrize("code", programs.cases(CREATION))
def test_creation(code: str) -> None:
    programs.check(code)


@pytest.mark.parametrize("code", programs.cases(LONG_MESSAGES))
def test_long_messages(code: str) -> None:
    programs.check(code, text="start")


def test_new_shapes_compile_nothing() -> None:
    def make(n: int) -> None:
        ft.nn.Sequential(ft.nn.Conv2d(3, n, 3), ft.nn.BatchNorm2d(n), ft.nn.LayerNorm(n), ft.nn.Linear(n, n))
        ft.zeros(n, 90), ft.full((n, 90), 2.5), ft.arange(n), ft.linspace(0, 1, n)
        ft.tensor(np.ones((n, n))), ft.tensor(np.ones((n, n)), dtype=ft.bfloat16), ft.tensor([[1.0] * n])
        ft.empty(n, 3).zero_(), ft.empty(n, 3, dtype=ft.float64).fill_(1)

    make(5)  # the numbers themselves
    with xla_compilations() as compiled:
        make(53)
    assert compiled == [0]


def test_the_old_constructor_takes_any_sequence():
    """Of what is none it says so, as PyTorch does."""

    def run(library, make):
        try:
            made = make(library)
        except TypeError as error:
            return str(error)
        return str(made.dtype), made.tolist()

    for data in (
        deque([1, 2]), deque([[1, 2], [3, 4]]), UserList([1, 2]), array("d", [1, 2]), bytearray(b"ab"),
        memoryview(b"ab"), range(3), (1, 2), {1, 2}, {1: 2}, {1: 2}.keys(), b"ab", None,
    ):  # fmt: skip
        makers = (lambda t: t.Tensor(data), lambda t: t.LongTensor(data), lambda t: t.ones(1).new(data))  # noqa: B023
        for make in makers:
            assert run(ft, make) == run(torch, make), data


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_linspace_is_torchs_to_the_last_bit(dtype):
    rng = np.random.default_rng(0)
    for steps in (3, 10, 33, 100):
        start, end = rng.normal(size=2) * (1, 50)
        found, expected = (
            lib.linspace(start, end, steps, dtype=getattr(lib, dtype)).double().numpy() for lib in (ft, torch)
        )
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("size", [3, 5000])
@pytest.mark.parametrize("how", ["tensor", "as_tensor", "asarray", "from_numpy"])
def test_arrays_of_subclasses_are_plain_ones(how, size):
    """The numbers of a masked array are all taken, as in PyTorch."""
    values = np.arange(2.0 * size).reshape(2, size)
    masked = np.ma.array(values.copy(), mask=values % 2 == 0)
    for made in (masked, np.matrix(values.copy())):
        tensor = getattr(ft, how)(made)
        np.testing.assert_array_equal((tensor * 2).numpy(), values * 2)
        assert type(tensor.numpy()) is np.ndarray
        np.testing.assert_array_equal(ft.utils.data.default_collate([made, made]).numpy(), [values, values])
