"""Tensor: questions, conversion to and from the host, dunders, copies."""

from __future__ import annotations

import copy
import importlib
import io
import pickle

import programs
import pytest

import functorch_port as ft

QUERIES = """
torch.is_tensor(x), torch.is_tensor(3)
torch.is_floating_point(x), torch.is_floating_point(i), torch.is_complex(x), torch.is_nonzero(s)
torch.is_nonzero(x)
torch.numel(c), c.numel(), c.nelement(), c.ndim, c.dim(), c.ndimension(), c.size(), c.size(0), c.shape,
      c.shape[0], c.shape[:1], c.shape.numel()
torch.is_storage(c)
torch.is_same_size(c,c), torch.is_signed(c), c.is_signed(), (i>1).is_signed(), i.to(torch.uint8).is_signed()
torch.is_grad_enabled(), torch.is_inference_mode_enabled()
torch.get_default_dtype()
torch.typename(x)
torch.typename(3)
torch.is_inference(x)
x.is_sparse, x.is_quantized, x.layout, x.is_cuda, x.is_cpu, x.is_meta, x.is_mkldnn, x.names, x.is_leaf,
      x.output_nr, x.get_device(), x.element_size(), x.itemsize, x.nbytes, x.is_shared(), x.is_pinned(), x.device
"""

METHODS = """
x.item()
s.item(), type(s.item()).__name__, torch.tensor(3).item(), torch.tensor(True).item(), torch.tensor(1j).item(),
      torch.tensor([[3.]]).item()
torch.tensor(.1).item()
torch.tensor([]).item()
torch.tensor(1.5,dtype=torch.bfloat16).item(), torch.tensor(1.5,dtype=torch.float16).item()
c.tolist()
torch.tensor(3.).tolist(), torch.tensor([]).tolist(), torch.zeros(2,0).tolist()
x.tolist(), torch.tensor([.1]).tolist(), torch.tensor([.1],dtype=torch.bfloat16).tolist()
c.numpy()
x.numpy()
x.detach().numpy()
x.numpy(force=True)
torch.ones(2,dtype=torch.bfloat16).numpy()
torch.tensor(3.).numpy().shape
np.array(c)
np.asarray(c)
np.array(x)
np.sin(c)
np.add(c,1)
np.add(1,c)
c + np.ones((3,4),dtype=np.float32)
c*np.float32(2)
np.float32(2)*c
np.float64(2)*c
c+np.float64(2)
np.int64(2)*i
i*np.float64(2.5)
np.concatenate([c,c]).shape
bool(x)
bool(s), bool(torch.tensor(0)), bool(torch.tensor([[1]])), bool(torch.tensor(0.)),
      bool(torch.tensor(float('nan')))
bool(torch.tensor([]))
int(s), float(s), complex(s), int(torch.tensor(2.7)), int(torch.tensor([3])), float(torch.tensor(3)),
      float(torch.tensor(True))
int(x)
float(x)
int(torch.tensor(1j))
[1,2,3][torch.tensor(1)]
[1,2,3][torch.tensor(1.)]
[1,2,3][torch.tensor([1])]
[1,2,3][torch.tensor([1,2])]
range(torch.tensor(3))
"%d %f" % (torch.tensor(3), torch.tensor(2.5))
f"{s:.3f} {torch.tensor(3):d} {s} {torch.tensor([1.5]):}"
f"{x:.2f}"
f"{x}"
f"{torch.tensor([1.5]):.2f}"
round(torch.tensor(2.567),2)
round(torch.tensor(2.567))
~i, ~(i>2)
x<2, x>=1, x==1.5, x!=1.5
x==None, x!=None
x=="a"
(x==[1.5,-2,3])
x<"a"
x<None
x+"a"
x+None
x+[1,2,3]
[1,2,3]+x
"a"+x
x*"a"
x-None
x/{}
x@2
x@None
2@x
x and 3
i and 3
s and 3
not s
x in [w,s]
[w,s].index(s)
len(x), len(w)
max(x), min(x), sum(x)
sorted(torch.tensor([3,1,2]))
list(zip(x,x))[0]
reversed(torch.arange(3))
x.__contains__(3.)
c.to(torch.float64).dtype, c.to("cpu").dtype, c.to(i).dtype, c.to("cpu",torch.int32).dtype,
      c.to(torch.int32,copy=True).dtype, c.to(dtype=torch.half).dtype, c.to(device="cpu",dtype=torch.half).dtype
c.to(torch.float32) is c, c.to("cpu") is c, c.to(torch.float32,copy=True) is c, c.to(c) is c, c.float() is c,
      c.cpu() is c, c.contiguous() is c
c.to()
c.to(None) is c
c.to("meta").is_meta
c.to("meta").to("cpu")
c.to("meta").item()
c.to("meta").numpy()
c.to("meta").tolist()
bool(torch.zeros((),device="meta"))
(c.to("meta")@torch.zeros(4,5,device="meta")).shape
torch.zeros(2,3,device="meta").t().shape, torch.zeros(2,3,device="meta")[0].shape,
      torch.zeros(2,3,device="meta").add_(1).shape
[getattr(torch.tensor([1.7,-1.7,0]),n)() for n in ["bool","byte","char","short","int","long","half","bfloat16",
      "float","double","cfloat","cdouble"]]
[getattr(torch.tensor([200,-3,0]),n)() for n in ["bool","byte","char","short","int","long","half","float",
      "double"]]
torch.tensor([1e10,-1e10,float('nan'),float('inf')]).to(torch.float16)
torch.tensor([1+2j]).to(torch.float32)
torch.tensor([1+2j]).bool()
c.type_as(i).dtype
x.double().requires_grad, x.long().requires_grad, (x>1).requires_grad, x.to(torch.int64).is_leaf
y=x.double(); y.sum().backward(); x.grad
y=x.half(); y.sum().backward(); x.grad
y=x.clone(); y.sum().backward(); [x.grad, y.requires_grad]
x.data is x.data, x.data.requires_grad, x.detach().requires_grad
x.is_leaf, (x*2).is_leaf, c.is_leaf, (c*2).is_leaf, x.detach().is_leaf
x.requires_grad_() is x
x.grad is None, x.grad_fn is None
y=x*2; y.grad
x.names, x.T.shape, w.T.shape, w.mT.shape, w.H.shape, w.mH.shape
torch.zeros(2,3,4).T
torch.zeros(2).mT
c.dtype, c.device, c.layout, str(c.dtype), repr(c.device), str(c.shape)
c.shape==(3,4), c.shape==[3,4], tuple(c.shape), list(c.shape), c.shape+(5,), isinstance(c.shape,tuple),
      hash(c.shape)==hash((3,4)), c.shape*2
import copy; d=copy.deepcopy(x); [d, d is x]
import copy; d=copy.copy(x); [d, d is x, d.data_ptr()==x.data_ptr()]
import copy; d=copy.deepcopy(x*2)
import copy; a=torch.zeros(4); l=copy.deepcopy([a,a.view(2,2),a[1:]]); l[0][1]=5; l
import copy; a=torch.zeros(4); l=copy.deepcopy([a.detach(),a]); l[0][1]=5; l
import copy; x.grad=torch.ones(3); d=copy.deepcopy(x); [d.grad, d.grad is x.grad]
import copy; l=copy.deepcopy([x,x]); l[0] is l[1]
import copy; x.foo=3; d=copy.deepcopy(x); d.foo
import pickle; d=pickle.loads(pickle.dumps(x)); d
import pickle; pickle.loads(pickle.dumps(torch.ones(2,dtype=torch.bfloat16)))
import pickle; d=pickle.loads(pickle.dumps(x*2))
import pickle; a=torch.arange(12.).view(3,4).t()[1:]; d=pickle.loads(pickle.dumps(a))
  [d,d.stride(),d.storage_offset()]
import pickle; pickle.loads(pickle.dumps([torch.float32, torch.device("cpu"), torch.Size([1,2])]))
import pickle; x.foo=3; pickle.loads(pickle.dumps(x)).foo
x.foo
x.data=3
x.data=torch.zeros(2,dtype=torch.int64)
x.data=torch.zeros(5); x
c.apply_(lambda v: v+1)
c.map_(c, lambda a,b: a*b)
x.sum().backward(); x.grad.zero_(); x.grad
torch.equal(c,c), torch.allclose(c,c+1e-9)
torch.from_dlpack(np.arange(3))
np.from_dlpack(torch.arange(3))
x.dim_order()
c.to(torch.float32,False,True) is c, c.to(c,False,True) is c
c.to("cpu",torch.float32,False,True) is c, c.to(c,True) is c
torch.ones(1,2,3,4).cpu(memory_format=torch.channels_last).stride()
type(c) is torch.Tensor
x.view_as_real
torch.tensor([1,2]).view(2,1).expand(2,3).contiguous()
x.retains_grad, x._version, x.is_set_to(x)
c.unsqueeze(0).shape, c.size(-1), c.shape[-1]
torch.Size([2,3]), torch.Size((2,)).numel(), torch.Size()
torch.Size([2.5])
torch.Size(3)
"""

LONG_MESSAGES = """
c.to("foo")
"""


@pytest.mark.parametrize("code", programs.cases(QUERIES))
def test_queries(code: str) -> None:
    programs.check(code)


@pytest.mark.parametrize("code", programs.cases(METHODS))
def test_methods(code: str) -> None:
    programs.check(code)


@pytest.mark.parametrize("code", programs.cases(LONG_MESSAGES))
def test_long_messages(code: str) -> None:
    programs.check(code, text="start")


class Slotted(ft.Tensor):
    __slots__ = ("elements", "missing")


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "save"])
def test_slots_of_a_subclass_are_copied(way: str) -> None:
    tensor = ft.ones(2).as_subclass(Slotted)
    tensor.elements, tensor.note = ft.zeros(3), "note"
    if way == "save":
        file = io.BytesIO()
        ft.save(tensor, file)
        file.seek(0)
        made = ft.load(file, weights_only=False)
    else:
        made = copy.deepcopy(tensor) if way == "deepcopy" else pickle.loads(pickle.dumps(tensor))
    assert type(made) is Slotted and made.note == "note" and not hasattr(made, "missing")
    made.elements.fill_(5)
    assert tensor.elements.tolist() == [0.0] * 3 and made.elements.tolist() == [5.0] * 3


def test_a_subclass_is_rebuilt_with_its_attributes_and_slots() -> None:
    rebuild = importlib.import_module("functorch_port._tensor")._rebuild_from_type_v2
    made = rebuild(ft.ones, Slotted, ((2,),), ({"note": 1}, {"elements": 2}))
    assert type(made) is Slotted and (made.note, made.elements) == (1, 2)


def test_there_are_no_fake_tensors() -> None:
    fake = ft._subclasses.fake_tensor
    assert not fake.is_fake(ft.ones(1)) and not isinstance(ft.ones(1), fake.FakeTensor)
    for kind in (fake.FakeTensor, fake.FakeTensorMode):
        with pytest.raises(NotImplementedError, match="meta device"):
            kind()
