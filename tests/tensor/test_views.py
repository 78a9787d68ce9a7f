"""Views: who shares with whom, writing through views in both directions, strides and offsets."""

from __future__ import annotations

import io
import pickle

import programs
import pytest
import torch

import functorch_port as ft

SHARING = """
a=torch.zeros(3,4); v=a.view(12); v[5]=7; a[2]=3; [a,v,v._base is a, a._is_view(), v._is_view()]
a=torch.zeros(3,4); t=a.t(); t[0]=1; a[1]=2; [a,t]
a=torch.zeros(3,4); e=a[:, :1].expand(3,4); a[0,0]=9; e
a=torch.zeros(3,4); e=a[:, :1].expand(3,4); e.add_(1)
a=torch.zeros(6); p=a.chunk(3); p[1].fill_(2); a.add_(1); [a,*p]
a=torch.zeros(6); p=a.split([1,2,3]); p[2][0]=2; a[1]=9; [a,*p]
a=torch.zeros(2,3,4); q=a.permute(2,0,1)[1:3,:,::2]; q.add_(torch.arange(8.).reshape(2,2,2))
  [a,q,q.stride(),q.storage_offset()]
a=torch.zeros(2,3,4); u=a.unbind(1); u[1].fill_(3); a
a=torch.zeros(2,3); a.transpose(0,1)[0].add_(1); a
a=torch.zeros(2,3); a.unsqueeze(0).squeeze(0).view(-1)[::2].fill_(5); a
a=torch.arange(12.).reshape(3,4); d=a.diagonal(); d.mul_(-1); a
a=torch.zeros(3,3); a.fill_diagonal_(2); a
a=torch.arange(12.).reshape(3,4); a.narrow(1,1,2).zero_(); a
a=torch.arange(12.).reshape(3,4); a.select(0,1).neg_(); a
a=torch.arange(12.); a.unfold(0,3,4)[1].zero_(); a
a=torch.arange(12.); u=a.unfold(0,4,2); a[3]=100; u
a=torch.arange(12.).reshape(3,4); r=a.reshape(4,3); r[0,0]=50; a
a=torch.arange(12.).reshape(3,4); r=a.t().reshape(12); r[0]=50; a
a=torch.arange(12.).reshape(3,4); f=a.flatten(); f[0]=9; [a,f]
a=torch.arange(12.).reshape(3,4).t(); f=a.flatten(); f[0]=9; [a,f]
a=torch.arange(12.).reshape(3,4); c2=a.contiguous(); c2[0,0]=9; a
a=torch.arange(12.).reshape(3,4).t(); c2=a.contiguous(); c2[0,0]=9; a
a=torch.zeros(3,dtype=torch.complex64); a.real.fill_(2); a.imag[1]=3; a
a=torch.zeros(3,dtype=torch.complex64); v=torch.view_as_real(a); v[0,1]=4; a
a=torch.zeros(2,2); v=torch.view_as_complex(a); v[0]=1+2j; a
a=torch.zeros(3); b=a.to(torch.float32); b[0]=1; [a, b is a]
a=torch.zeros(3); b=a.to(torch.float64); b[0]=1; a
a=torch.zeros(3); b=a.clone(); b[0]=1; a
a=torch.zeros(3); b=a[:]; b[0]=1; [a, b is a]
a=torch.zeros(3); b=a[...]; b[0]=1; [a, b is a]
a=torch.zeros(3); b=a[[0,1]]; b[0]=1; a
a=torch.zeros(2,3); b=a.view_as(torch.zeros(3,2)); b[0]=1; a
a=torch.zeros(2,3); b=a.expand(2,3); b[0]=1; a
a=torch.zeros(3,1); b=a.expand(3,4); [b.is_contiguous(), b.stride()]
a=torch.zeros(3); b=a.expand_as(torch.zeros(2,3)); b[0,0]=1
a=torch.zeros(4); b=torch.movedim(a.view(2,2),0,1); b[0,1]=1; a
a=torch.zeros(4); b=a.view(2,2).swapaxes(0,1); b[0,1]=1; a
a=torch.zeros(4); b=a.unflatten(0,(2,2)); b[0,1]=1; a
a=torch.zeros(4); a.data=torch.ones(2); [a, a.shape]
a=torch.zeros(4); b=a.view(2,2); a.data=torch.ones(2); [a,b]
a=torch.zeros(3); b=torch.ones(3); a.set_(b); b[0]=7; a
a=torch.arange(6.); b=torch.empty(0).set_(a.storage(), 1, (2, 2), (2, 1)); b.fill_(9)
  [a, b, b.storage_offset(), b.stride(), b.data_ptr()-a.data_ptr()]
a=torch.arange(6.).reshape(2,3); b=torch.empty(0).set_(a.storage()); b[4]=9; [a, b]
a=torch.arange(6.); b=torch.empty(0).set_(a.untyped_storage(), 2, (3,)); b[0]=9; [a, b]
a=torch.arange(6.); b=torch.empty(0, dtype=torch.int32).set_(a.untyped_storage()); [b, b.data_ptr()-a.data_ptr()]
a=torch.arange(6.).reshape(2,3)[1]; b=torch.empty(0).set_(a, 1, (2, 1)); b[0,0]=9; [a, b]
a=torch.ones(3); a.set_(); [a, a.shape]
d=torch.empty(0,dtype=torch.long); [torch.nonzero(torch.tensor([[1,0],[0,3]]), out=d) is d, d]
torch.nonzero(torch.ones(2), as_tuple=True, out=torch.empty(0,dtype=torch.long))
torch.nonzero(torch.ones(2), out=torch.empty(0))
torch.empty(0, dtype=torch.double).set_(torch.ones(2).storage(), 0, (2,), (1,))
torch.empty(0, dtype=torch.double).set_(torch.ones(2))
torch.ones(3, requires_grad=True).set_(torch.ones(2))
a=torch.arange(6.).view(2,3); a.t_(); [a,a.shape,a.stride()]
a=torch.arange(6.).view(2,3); a.unsqueeze_(0); a.squeeze_(); a.transpose_(0,1); a
a=torch.arange(6.); a.resize_(2,3); a
a=torch.arange(6.); a.resize_(2,2); a
torch.arange(6.).as_strided((2,2),(1,2),1)
a=torch.arange(6.); a.as_strided((2,2),(1,2),1).fill_(9); a
a=torch.zeros(2,3); a.view(7)
a=torch.zeros(2,3); a.view(-1,4)
a=torch.zeros(2,3); a.view(-1,-1)
a=torch.zeros(2,3).t(); a.view(6)
a=torch.zeros(2,3); a.reshape(7)
a=torch.zeros(2,3); a.view(torch.int32)
a=torch.ones(2,3); a.view(torch.int32)
a=torch.ones(2,4,dtype=torch.int16); a.view(torch.int32)
a=torch.ones(2,4,dtype=torch.int16); a.view(torch.int8).shape
a=torch.zeros(2,3)
  [a.data_ptr()==a.view(6).data_ptr(), a.data_ptr()==a[1].data_ptr(), a.storage_offset(), a[1].storage_offset(),
      a[1:,1].storage_offset()]
a=torch.zeros(2,3)
  [a.untyped_storage().data_ptr()==a[1].untyped_storage().data_ptr(), a.is_set_to(a), a.is_set_to(a.view(6))]
a=torch.zeros(3); b=a.view(3); b.add_(1); [a._version,b._version]
a=torch.zeros(3); b=a.clone(); b.add_(1); [a._version,b._version]
with torch.no_grad(): x.add_(1)
"""

STRIDES = """
[ (f(torch.zeros(2,3,4)).stride(), f(torch.zeros(2,3,4)).storage_offset()) for f in [lambda a:a[1],
      lambda a:a[:,1], lambda a:a[...,1], lambda a:a[:,::2], lambda a:a[1:,1:,1:], lambda a:a[None],
      lambda a:a[:,None], lambda a:a[...,None], lambda a: a[0,None], lambda a:a[:1], lambda a:a[:,:,None,1:2],
      lambda a: a[None,None], lambda a:a[-1,-2:], lambda a:a[5:]]]
[ (f(torch.zeros(2,3,4)).stride(),
      f(torch.zeros(2,3,4)).storage_offset()) for f in [lambda a:a.t() if a.dim()<3 else a.mT,
      lambda a:a.transpose(0,-1), lambda a:a.permute(2,0,1), lambda a:a.movedim(0,2),
      lambda a:a.movedim((0,1),(2,0)), lambda a:a.unsqueeze(0), lambda a:a.unsqueeze(-1),
      lambda a:a.unsqueeze(1), lambda a:a.select(1,-1), lambda a:a.narrow(2,1,2), lambda a: a.diagonal(),
      lambda a:a.diagonal(1,1,2), lambda a:a.diagonal(-1,0,2), lambda a:a.unfold(1,2,1),
      lambda a:a.unfold(-1,2,2), lambda a:a.chunk(2,2)[1], lambda a:a.split([1,2],1)[1], lambda a:a.unbind(1)[2]]]
[ (f(torch.zeros(2,1,4)).stride(), f(torch.zeros(2,1,4)).storage_offset()) for f in [lambda a:a.squeeze(),
      lambda a:a.squeeze(1), lambda a:a.squeeze(0), lambda a:a.expand(2,3,4), lambda a:a.expand(5,2,3,4),
      lambda a:a.expand(1,2,1,4), lambda a:a.expand(1,1,2,1,4), lambda a:a.expand(2,-1,4), lambda a:a.view(8),
      lambda a:a.view(2,2,2), lambda a:a.view(1,8,1), lambda a:a.transpose(0,1).view(8),
      lambda a:a.transpose(0,1).view(1,2,1,4), lambda a:a.reshape(4,2), lambda a:a.flatten(),
      lambda a:a.broadcast_to(3,2,1,4), lambda a:a.expand_as(torch.zeros(2,5,4)), lambda a: a.unflatten(2,(2,2)),
      lambda a:a.ravel(), lambda a:a.view_as(torch.zeros(4,2)), lambda a: a.transpose(0,2).view(4,1,2),
      lambda a: a.transpose(0,2)[::2].view(2,2), lambda a: a[:,:,::2].view(4)]]
[ (f(torch.zeros(4,4,dtype=torch.complex64)).stride(),
      f(torch.zeros(4,4,dtype=torch.complex64)).storage_offset()) for f in [lambda a:a.real, lambda a:a.imag,
      lambda a:a[1:].imag, lambda a:torch.view_as_real(a), lambda a: torch.view_as_real(a[:,1:]),
      lambda a:a.t().real, lambda a:torch.view_as_complex(torch.view_as_real(a))]]
[ (f(torch.zeros(4,4)).stride(), f(torch.zeros(4,4)).storage_offset(),
      f(torch.zeros(4,4)).shape) for f in [lambda a:a.view(torch.int32), lambda a:a.view(torch.int16),
      lambda a:a.view(torch.int64), lambda a:a[1:].view(torch.int16), lambda a:a[1:].view(torch.float64),
      lambda a:a.as_strided((2,2),(1,2),3), lambda a:a[1:].as_strided((2,2),(1,2)),
      lambda a:a[1:].as_strided((2,2),(1,2),1)]]
[t.is_contiguous() for t in [torch.zeros(2,3).t(), torch.zeros(2,3)[1:], torch.zeros(2,3)[:,1:],
      torch.zeros(1,3).t(), torch.zeros(2,3)[:,:1], torch.zeros(0,3).t(), torch.zeros(3).expand(1,3),
      torch.zeros(2,1).expand(2,2)]]
torch.zeros(2,3,4).permute(2,0,1).contiguous().stride()
torch.zeros(()).stride(), torch.zeros(()).storage_offset()
torch.zeros(2,3).stride(0), torch.zeros(2,3).stride(-1)
torch.zeros(2,3).stride(2)
torch.zeros(0,3).stride()
torch.zeros(2,0,3).stride()
torch.zeros(2,0,3)[:, :, 1].stride()
torch.zeros(2,0,3).view(0,6).stride()
torch.zeros(()).expand(2,3).stride()
torch.zeros(()).view(1,1).stride()
torch.zeros(1).squeeze().stride()
a=torch.arange(12.).view(3,4); v=a[1:,1:].t()[1:]; v.view(2,2)
a=torch.arange(12.).view(3,4); v=a[1:]; v.view(2,2,2).stride()
a=torch.arange(24.).view(2,3,4).transpose(0,1); a.reshape(3,2,2,2).stride()
a=torch.arange(24.).view(2,3,4).transpose(0,1); a.view(3,2,2,2).stride()
a=torch.arange(24.).view(2,3,4).transpose(0,1); a.view(3,8)
torch.zeros(()).stride(0)
torch.zeros(()).size(0)
torch.zeros(()).size(1)
torch.zeros(2).size(1)
torch.zeros(2).size(-2)
"""


FORMATS = """
x=torch.arange(120.).reshape(2,3,4,5); y=x.to(memory_format=torch.channels_last)
  [y, y.stride(), y.is_contiguous(), y.is_contiguous(memory_format=torch.channels_last)]
x=torch.arange(120.).reshape(2,3,4,5); [x.is_contiguous(memory_format=torch.channels_last), x.is_contiguous()]
x=torch.arange(60.).reshape(1,3,4,5); [x[:, :1].is_contiguous(memory_format=torch.channels_last)]
x=torch.arange(120.).reshape(2,3,4,5); [x.clone(memory_format=torch.channels_last).stride(), x.clone().stride()]
x=torch.arange(120.).reshape(2,3,4,5); y=x.contiguous(memory_format=torch.channels_last)
  [y.stride(), y.contiguous().stride(), y.contiguous(memory_format=torch.channels_last) is y]
x=torch.arange(240.).reshape(2,3,4,5,2); y=x.to(memory_format=torch.channels_last_3d)
  [y.stride(), y.is_contiguous(memory_format=torch.channels_last_3d)]
x=torch.arange(120.).reshape(2,3,4,5); y=x.to(torch.int64,memory_format=torch.channels_last); [y, y.stride()]
x=torch.arange(120.).reshape(2,3,4,5).permute(2,0,3,1); y=x.clone(); [y, y.stride(), torch.zeros_like(x).stride()]
x=torch.arange(120.).reshape(2,3,4,5).permute(2,0,3,1); [torch.full_like(x,3).stride(), torch.ones_like(x)]
x=torch.arange(120.).reshape(2,3,4,5).permute(2,0,3,1); [x.clone(memory_format=torch.contiguous_format).stride()]
x=torch.arange(120.).reshape(2,3,4,5).permute(2,0,3,1)[:, :, ::2]; [x.clone().stride(), torch.empty_like(x).stride()]
x=torch.arange(120.).reshape(2,3,4,5)[:, :1].expand(2,3,4,5); [x.clone().stride(), torch.empty_like(x).stride()]
torch.empty(2,3,4,5,memory_format=torch.channels_last).stride()
torch.empty(2,3,4,5,device="meta",memory_format=torch.channels_last).stride()
torch.empty_like(torch.zeros(2,3,4,5),memory_format=torch.channels_last).stride()
y=torch.arange(120.).reshape(2,3,4,5).to(memory_format=torch.channels_last); y[0,1]=5; y.mul_(2); y[:, :, 0]+=1
  y
y=torch.arange(120.).reshape(2,3,4,5).to(memory_format=torch.channels_last)
  [y.as_strided((2,3),(1,7),4), y.permute(0,2,3,1).view(-1), y[1].storage_offset(), y[:, :2].clone().stride()]
y=torch.arange(120.).reshape(2,3,4,5).to(memory_format=torch.channels_last); y.view(-1)
y=torch.arange(120.).reshape(2,3,4,5).to(memory_format=torch.channels_last); [y.reshape(-1), y.flatten(1).stride()]
x=torch.arange(120.).reshape(2,3,4,5).requires_grad_(); y=x.to(memory_format=torch.channels_last)
  (y*y).sum().backward()
  [x.grad, type(y.grad_fn).__name__]
x=torch.arange(120.).reshape(2,3,4,5).requires_grad_(); y=x.clone(memory_format=torch.channels_last); y.mul_(3)
  (y*y).sum().backward()
  [x.grad, y.stride()]
torch.ones(3).to(memory_format=torch.channels_last)
torch.ones(2,3,4,5).contiguous(memory_format=torch.channels_last_3d)
torch.empty(2,memory_format=torch.preserve_format)
"""


@pytest.mark.parametrize("code", programs.cases(FORMATS))
def test_memory_formats(code: str) -> None:
    programs.check(code)


CONJUGATES = """
z=torch.tensor([[1+2j,3-1j],[.5j,2]]); y=z.conj().imag; y.mul_(2); [z, y]
z=torch.tensor([[1+2j,3-1j],[.5j,2]]); y=z.conj(); y.mul_(2j); z[0]=1j; [z, y]
z=torch.tensor([[1+2j,3-1j],[.5j,2]]); y=z.conj()[0].real; y.add_(2); z.mul_(2); [z, y]
z=torch.tensor([[1+2j,3-1j],[.5j,2]]); y=z.mH[1:].conj().imag[0]; y[1]=7; [z, y, y.is_neg(), y.stride()]
z=torch.tensor([1+2j,3j]); e=z.conj().expand(3,2).imag; z.mul_(2); [e, e.is_neg(), z]
z=torch.arange(8.).reshape(2,4); y=torch.view_as_complex(z.view(2,2,2)).conj(); y[0]=1+1j; [z, y]
z=torch.tensor([1+2j,3j],requires_grad=True); y=z*1; y.conj().imag.mul_(3); (y*y).abs().sum().backward()
  [y, z.grad]
z=torch.tensor([1+2j,3j],requires_grad=True); y=z*1; c=y.conj(); y.mul_(2j); (c.imag**3).sum().backward()
  [c, z.grad]
z=torch.tensor([[1+2j,3-1j],[.5j,2]])
  [f(z) for f in (lambda z:z.conj().is_conj(), lambda z:z.conj()._is_view(), lambda z:z.conj()[0].is_conj(),
      lambda z:z.conj().clone().is_conj(), lambda z:z.conj().detach().is_conj(), lambda z:z.conj().imag.is_neg(),
      lambda z:z.conj().real.is_neg(), lambda z:z.conj().imag[0].is_neg(), lambda z:z.conj().contiguous().is_conj(),
      lambda z:z.conj().T.contiguous().is_conj(), lambda z:z.mH.is_conj(), lambda z:z.mH.stride(),
      lambda z:z.conj().conj().is_conj(), lambda z:(z.conj()*2).is_conj(), lambda z:z.real.conj().is_neg(),
      lambda z:z.conj().data_ptr()==z.data_ptr(), lambda z:z.conj().is_set_to(z), lambda z:z.adjoint().is_conj(),
      lambda z:z.conj().resolve_conj().is_conj(), lambda z:z.conj().imag.resolve_neg()._is_view(),
      lambda z:z.resolve_conj() is z, lambda z:z.conj().resolve_neg().is_conj(), lambda z:torch._neg_view(z).is_neg(),
      lambda z:torch.zeros_like(z.conj()).is_conj(), lambda z:z.conj().conj_physical().is_conj())]
z=torch.tensor([1+2j,3j]); torch.view_as_real(z.conj())
z=torch.tensor([1+2j,3j]); z.conj().view(torch.float32)
z=torch.tensor([1+2j,3j]); z.conj().imag.view(torch.int32)
z=torch.tensor([1+2j,3j]); z.conj().numpy()
z=torch.tensor([1+2j,3j]); z.conj().imag.numpy()
z=torch.tensor([1+2j,3j]); [z.conj().numpy(force=True), z.conj().tolist(), z.conj().imag.tolist()]
z=torch.tensor([1+2j,3j]); z.copy_(z.conj()); z
z=torch.tensor([[1+2j,3-1j],[.5j,2]])
  [v.as_strided((2,),(1,),1) for v in (z.conj(), z.imag, z.conj().imag, z.real)]
z=torch.tensor([[1+2j,3-1j],[.5j,2]]); z.conj().imag.as_strided((2,),(1,),1).fill_(9); z
z=torch.tensor([1+2j,3j],requires_grad=True); z.imag.as_strided((2,),(2,),1).sum().backward(); z.grad
z=torch.zeros(2,dtype=torch.complex64); z.real=torch.tensor([1.,2.]); z.imag=3; z
z=torch.zeros(2,dtype=torch.complex64); z.conj().imag=torch.tensor(2.); z
z=torch.zeros(2); z.real=torch.ones(2); z
z=torch.zeros(2); z.imag=torch.ones(2)
z=torch.zeros(2,dtype=torch.complex64); z.real=torch.ones(3)
z=torch.zeros(2,dtype=torch.complex64); z.real=1+2j
z=torch.zeros(2,dtype=torch.complex64); z.real="a"
z=torch.zeros(2,dtype=torch.complex64,requires_grad=True); z.real=torch.ones(2)
z=torch.zeros(2,dtype=torch.complex64,requires_grad=True); y=z*1; y.imag=torch.ones(2); y.abs().sum().backward()
  [y, z.grad]
"""


@pytest.mark.parametrize("code", programs.cases(CONJUGATES))
def test_conjugates_are_views(code: str) -> None:
    programs.check(code)


@pytest.mark.parametrize("way", ["pickle", "save", "to PyTorch"])
def test_conjugates_are_views_in_a_file(way: str) -> None:
    write, read = {
        "pickle": (pickle.dump, pickle.load), "save": (ft.save, ft.load), "to PyTorch": (ft.save, torch.load)
    }[way]  # fmt: skip
    z = ft.tensor([1 + 2j, 3j])
    for made, seen in (((z, z.conj()), [1 - 2j, -3j]), ((z.imag, z.conj().imag), [-2, -3])):
        out = io.BytesIO()
        write(made, out)
        out.seek(0)
        whole, turned = read(out)
        assert turned.tolist() == seen
        turned[0] = 7
        assert whole[0].item() == (-7 if turned.dtype.itemsize == 4 else 7)


@pytest.mark.parametrize("code", programs.cases(SHARING))
def test_sharing(code: str) -> None:
    programs.check(code)


@pytest.mark.parametrize("code", programs.cases(STRIDES))
def test_strides(code: str) -> None:
    programs.check(code)
