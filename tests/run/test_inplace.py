"""In-place operations: results, what PyTorch refuses, and the graph they leave behind."""

from __future__ import annotations

import programs
import pytest
import torch

import functorch_port as ft

INPLACE = """
x.add_(1)
x[0]=1
x.view(3).add_(1)
x.view(3)[0]=2
x.t().zero_()
y=x*1; y.view(3)[0]=5; y
with torch.no_grad(): v=x.view(3)
torch.zeros(3).add_(torch.zeros(2,3))
torch.zeros(3,dtype=torch.int64).add_(1.5)
torch.zeros(3,dtype=torch.int64).mul_(torch.ones(3))
torch.zeros(3,dtype=torch.int64).div_(2)
torch.zeros(3).add_(1j)
torch.zeros(3,dtype=torch.bool).add_(1)
a=torch.ones(3,dtype=torch.int64); a/=2
a=torch.ones(3,dtype=torch.int64); a+=1.0
a=torch.ones(3,dtype=torch.int32); a+=torch.ones(3,dtype=torch.int64); a
a=torch.ones(3); b=a; a+=1; b
a=torch.ones(3); a*=2; a-=1; a/=4; a**=2; a//=.01; a%=3; a
a=torch.ones(3,dtype=torch.int64)*5; a<<=2; a>>=1; a&=6; a|=1; a^=3; a
a=torch.ones(2,3); a@=torch.ones(3,3); a
torch.ones(3).expand(2,3).mul_(2)
torch.ones(3).fill_(torch.ones(2))
torch.ones(3).fill_(torch.tensor(2));
torch.ones(3).copy_(torch.arange(6).view(2,3))
torch.ones(2,3).copy_(torch.arange(3))
torch.ones(2,3,dtype=torch.int64).copy_(torch.tensor([1.7,-1.7,2.2]))
torch.ones(3,dtype=torch.bool).copy_(torch.tensor([0.,.5,2]))
torch.ones(3).zero_().add_(2).clamp_(0,1).sub_(3).abs_()
torch.add(torch.ones(3),1,out=torch.empty(3))
o=torch.empty(2); torch.add(torch.ones(3),1,out=o); o
o=torch.empty(0); torch.add(torch.ones(3),1,out=o); o
o=torch.empty(3,dtype=torch.int64); torch.add(torch.ones(3),1,out=o); o
o=torch.zeros(2,3); torch.add(torch.ones(3),1,out=o[1]); o
torch.add(x,1,out=torch.empty(3))
o=torch.empty(3,requires_grad=True); torch.add(c[0,:3],1,out=o)
i[0]=1j
i[:]=1j
c.double()[0]=1j
(c>1)[0]=1j
c.half()[0]=1j
c.to(torch.uint8)[0]=1j
c[[0,1]]=torch.tensor(3)
c[[0,1]]=torch.tensor([3])
c[[0,1]]=torch.tensor(3.,dtype=torch.float64); c
i[[0,1]]=torch.tensor(3.)
c[c>5]=torch.tensor([3])
c[c>5]=torch.tensor(3.,dtype=torch.float64); c
c[c>5,]=torch.tensor([3.],dtype=torch.float64); c
c[[0],c[0]>2]=torch.tensor(3.,dtype=torch.float64); c
c[0]=np.float32(3); c
c[0]=np.int64(3); c
c[0]=np.bool_(True); c
c[0]=np.array(3)
c[0]=torch.Size([1])
c[[0,1]]=[1,2]
c[[0,1]]="a"
c.fill_(1j)
i.fill_(2.5)
i.fill_(1j)
c.copy_(3)
c.copy_([1])
torch.ones(3).copy_(torch.ones(4))
torch.ones(3).copy_(torch.ones(2,3))
torch.ones(3).copy_(torch.ones(1,3))
torch.ones(3,4).copy_(torch.ones(3))
torch.ones(3).copy_(torch.ones(3,dtype=torch.complex64))
c.copy_(1.5)
c.expand(2,3,4)[0,0,0]=5; c
c.expand(2,3,4)[0]=5; c
c.expand(2,3,4)[:,0]=5; c
c[0].expand(3,4).copy_(c)
c[1:].add_(c[:-1])
c.add_(c); c
c.add_(c.t()[:3,:3])
torch.ones(3,3).add_(torch.ones(3,3).t())
a=torch.arange(9.).view(3,3); a.add_(a.t()); a
a=torch.arange(9.).view(3,3); a.copy_(a.t()); a
a=torch.arange(9.).view(3,3); a[0].add_(a[1]); a
a=torch.arange(9.); a[:5].add_(a[3:8])
a=torch.arange(9.); a[:5].mul_(a[:5]); a
y=w*1; a,b=y.unbind(0); b.mul_(2)
y=w*1; a=y.chunk(3,1); a[2].mul_(2)
y=w*1; a=y.split([1,2],1); a[1][0].mul_(2)
y=w*1; a,b=y.unbind(0); b[0]=3
y=torch.zeros(2,3); a,b=y.unbind(0); b.mul_(2); y
y=torch.zeros(2,3); a,b=y.unbind(0); b.mul_(s)
y=torch.zeros(2,3); a,b=y.split(1); b.mul_(s)
y=torch.zeros(2,3); b=y[0]; b.mul_(s); y
y=w*1; torch.set_grad_enabled(False); v=y.view(6); torch.set_grad_enabled(True); v.mul_(2)
y=w*1; torch.set_grad_enabled(False); v=y.view(6); v.mul_(2); torch.set_grad_enabled(True); y
y=torch.zeros(3); torch.set_grad_enabled(False); v=y.view(3); torch.set_grad_enabled(True); v.mul_(2)
y=torch.zeros(3); torch.set_grad_enabled(False); v=y.view(3); torch.set_grad_enabled(True); v.mul_(s)
y=w*1; torch.set_grad_enabled(False); v=y.view(6); torch.set_grad_enabled(True); y.mul_(2); [v.requires_grad]
y=w*1; y[0]=0; [n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
y=w*1; y.mul_(s); [n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
y=w*1; y.fill_(s); [n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
y=w*1; y[[0]]=x; [n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
y=w*1; y[y>2]=s; [y.grad_fn.name()]+[n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
y=w*1; y.copy_(w); [y.grad_fn.name()]+[n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
y=w[[0,1]]; [y.grad_fn.name()]+[n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
y=w[0]; [y.grad_fn.name()]+[n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
y=w[0,[1]]; [y.grad_fn.name()]+[n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
y=w[w>0]; [y.grad_fn.name()]+[n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
repr((w*1)[0]), repr(w.double())
y=w*1; y[0]=0; repr(y)
y=w.double(); [y.grad_fn.name()]+[n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
y=w.clone(); [y.grad_fn.name()]+[n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
c.data.add_(1); [c._version, c.sum()]
d=c.data; c.add_(1); v=d[0]; v.zero_(); [c._version, d._version, v._version, d.detach()._version, c]
d=c[1:].data; d.mul_(2); c.mul_(3); [c._version, d._version, c]
y=w*1; y.data.zero_(); [y._version, y.detach().add_(1)._version, y._version]
m=torch.empty(3,device="meta"); [str(m.fill_(2).device), m.zero_().is_meta, m.add_(1).is_meta, m.copy_(c[0,:3]).is_meta]
torch.ones(3).copy_(torch.empty(3,device="meta"))
a=torch.arange(6.); b=a.as_strided_((2,2),(2,1),1); [a, b is a]
torch.nn.functional.relu6(3.)
torch.nn.functional.hardtanh(3.)
torch.nn.functional.softplus(3)
torch.sigmoid(1.)
torch.softmax(1., 0)
c.hardshrink(2.), c.__div__(2), c.__idiv__(2)
torch.arange(3.).map2_(torch.ones(3), torch.tensor(2.), lambda a, b, d: a*b+d)
c.as_subclass(torch.nn.Parameter).requires_grad, type(c.as_subclass(torch.nn.Parameter)).__name__
c.as_subclass(int)
torch.get_device(c), torch.detach_(w*1).requires_grad
y=w*1; v=y[:]; v[...]=y; y.detach_(); torch.autograd.grad(v.sum(), w)[0]
y=w*1; v=y[:]; v[:]=y; y.detach_(); torch.autograd.grad(v.sum(), w)[0]
y=w*1; v=y[:]; v[0:2]=y; y.detach_(); torch.autograd.grad(v.sum(), w)[0]
y=w*1; v=y[:]; v[0]+=s; y.detach_(); [v.requires_grad]
z=torch.complex(c,c); z+=z.imag
z=torch.complex(c[0,1],c[0,1]); z[...]+=z.imag
z=torch.complex(c,c); z.real.copy_(z.imag); z.imag.add_(z.real); z
z=torch.view_as_complex(c.reshape(3,2,2)); v=torch.view_as_real(z.expand(3,2)); v.mul_(1.5); [z,v]
z=torch.view_as_complex(c.reshape(3,2,2)); v=torch.view_as_real(z.expand(3,2)).data; v[1]=5; [z,v]
z=torch.view_as_complex(c.reshape(3,2,2)); v=torch.view_as_real(z.unfold(0,2,1)); v.zero_(); [z,v]
z=torch.view_as_complex(c.reshape(3,2,2)); v=z.expand(3,2).imag[1:]; v.add_(1); [z,v]
z=torch.complex(c,c); z.expand(3,4).view(torch.float32).mul_(2); z
torch.return_types.linalg_inv_ex.__name__, torch.return_types.max.__name__
"""


@pytest.mark.parametrize("code", programs.cases(INPLACE))
def test_inplace(code: str) -> None:
    programs.check(code)


def _made(lib, recording, grad=True):
    """A tensor with a history, and a view of it that was made with recording on or off."""
    x = lib.ones(4, 4).requires_grad_(grad)
    with lib.set_grad_enabled(recording):
        return x, x[1:], x.split(2)[0]


REFUSED = {
    "a view of a leaf": lambda lib: _made(lib, True)[1].add_(1),
    "a view of a leaf, made without recording": lambda lib: _made(lib, False)[1].add_(1),
    "a part, made without recording": lambda lib: _made(lib, False)[2].zero_(),
    "a part of a leaf": lambda lib: _made(lib, True)[2].add_(1),
    "an operand that requires a gradient": lambda lib: _made(lib, False, False)[1].add_(_made(lib, True)[1]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_pytorchs_words(name):
    texts = []
    for lib in (torch, ft):
        with pytest.raises(RuntimeError) as error:
            REFUSED[name](lib)
        texts.append(str(error.value))
    assert texts[0] == texts[1]


def _parts(lib, of):
    """A view to write into, made in different ways."""
    leaf = lib.tensor([[1.0, 2], [3, 4]], requires_grad=True)
    base = leaf if of == "leaf" else leaf.detach().clone() if of == "plain" else leaf * 2
    with lib.set_grad_enabled(of == "recorded part"):
        return leaf, base.unbind(0)[0] if "part" in of else base[0]


def _accumulate(view):
    view[0] += 1


def _overwritten(view):
    view._base.mul_(2)
    return view.argsort()


INTO = {
    "number": lambda lib, leaf, view: view.__setitem__(0, 1),
    "tensor": lambda lib, leaf, view: view.__setitem__(0, leaf[0, 0]),
    "slice": lambda lib, leaf, view: view.__setitem__(slice(-1, None), leaf[0, :1]),
    "everything": lambda lib, leaf, view: view.__setitem__(slice(None), 1),
    "dots": lambda lib, leaf, view: view.__setitem__(..., 1),
    "index": lambda lib, leaf, view: view.__setitem__(lib.tensor([0]), 1),
    "mask": lambda lib, leaf, view: view.__setitem__(view > 0, 1),
    "+=": lambda lib, leaf, view: _accumulate(view),
    "sorted after a write to its base": lambda lib, leaf, view: _overwritten(view).tolist(),
}


@pytest.mark.parametrize("what", INTO)
@pytest.mark.parametrize("of", ["leaf", "tensor with a history", "plain", "part", "recorded part"])
def test_writing_into_views(of, what):
    ends = []
    for lib in (torch, ft):
        leaf, view = _parts(lib, of)
        try:
            done = INTO[what](lib, leaf, view)
            ends.append((done, view.tolist(), view.requires_grad))
        except RuntimeError as error:
            ends.append(str(error))
    assert ends[0] == ends[1]


def _after_a_write(lib, recording, look):
    y = lib.ones(4, 4).requires_grad_() * 1
    with lib.set_grad_enabled(recording):
        view = look(y)
    y.add_(1)
    return view.grad_fn


@pytest.mark.parametrize("recording", [False, True])
@pytest.mark.parametrize("look", [lambda y: y[1:], lambda y: y.split(2)[0], lambda y: y.view(-1)])
def test_a_look_at_the_history_of_a_view_whose_base_was_written_to(recording, look):
    texts = []
    for lib in (torch, ft):
        try:
            texts.append(_after_a_write(lib, recording, look).name().rstrip("0123456789"))
        except RuntimeError as error:
            texts.append(str(error))
    assert texts[0] == texts[1]


def test_views_made_in_no_grad_mode_may_be_written_to_there():
    for lib in (torch, ft):
        leaf = lib.tensor(2.0, requires_grad=True)
        with lib.no_grad():
            view = leaf.view(1, 1)
            view[0:, 0:, ...] += view
            view[...] *= 2
        assert leaf.item() == 8 and leaf.is_leaf
        view.detach().add_(2)
        assert repr(view) == "tensor([[10.]], grad_fn=<Invalid>)"
        assert view.requires_grad_() is view and view.requires_grad and leaf.item() == 10
