"""Indexing and assignment in all of PyTorch's forms, and the errors for wrong ones."""

from __future__ import annotations

import programs
import pytest

GETITEM = """
c[0]
c[-1]
c[3]
c[-4]
c[0,0]
c[0,-5]
c[0,0,0]
c[0][0][0]
c[0,0].shape
c[0,0][()]
c[()]
c[...]
c[..., 0]
c[0, ...]
c[None]
c[None, :, None, 0]
c[:, None].shape
c[1:]
c[::2, 1::2]
c[-2:]
c[:-1]
c[5:]
c[2:1]
c[::-1]
c[::0]
c[:,::-2]
c[1:100]
c[-100:2]
c[True]
c[False]
c[True, 0]
c[None, True]
c[[True,False,True]]
c[[0,2]]
c[[0,2],[1,3]]
c[[0,2],1]
c[1,[0,2]]
c[[0,2],:]
c[:,[0,2]]
c[[0,2],1:3]
c[[[0,1],[1,2]]]
c[[[0,1],[1,2]],0]
c[([0,1],[1,2])]
c[torch.tensor([0,2])]
c[torch.tensor([0,2]),torch.tensor([1,3])]
c[torch.tensor([[0,1],[1,2]])]
c[torch.tensor([0,1]).view(2,1), torch.tensor([0,3])]
c[torch.tensor(1)]
c[torch.tensor(1),torch.tensor(2)]
c[torch.tensor([1])]
c[torch.tensor(1,dtype=torch.int32)]
c[torch.tensor([0,1],dtype=torch.int32)]
c[torch.tensor([0,1],dtype=torch.int16)]
c[torch.tensor([0,1],dtype=torch.uint8)]
c[torch.tensor([0,1,1],dtype=torch.uint8)]
c[torch.tensor([0.,1.])]
c[torch.tensor(1.)]
c[torch.tensor([-1,-3])]
c[torch.tensor([3])]
c[torch.tensor([-4])]
c[[0,5]]
c[:, [0,7]]
c[c>5]
c[c>100]
c[torch.tensor([True,False,True])]
c[torch.tensor([True,False,True]),1]
c[torch.tensor([True,False,True]),1:]
c[:,torch.tensor([True,False,True,True])]
c[torch.tensor([True,False,True]),torch.tensor([0,1])]
c[torch.tensor([True,False,True]),torch.tensor([0,1,2])]
c[torch.tensor([True,False])]
c[torch.ones(3,5,dtype=torch.bool)]
c[torch.ones(3,4,1,dtype=torch.bool)]
c[torch.tensor(True)]
c[torch.tensor(False)]
c[np.array([0,2])]
c[np.array([True,False,True])]
c[np.int64(1)]
c[np.bool_(True)]
c[range(2)]
c["a"]
c[1.0]
c[0:1.5]
c[{}]
c[1,"a"]
c[object()]
c[0:torch.tensor(2)]
c[torch.tensor(0):torch.tensor(2)]
c[slice(None)]
c[(slice(None),0)]
c[[slice(None),0]]
c[[0,slice(None)]]
c[[None,0]]
c[[]]
c[[],0]
c[torch.tensor([],dtype=torch.int64)]
c[torch.tensor([])]
c[[1]]
c[[[1]]]
c[0,...,0]
c[[0,1],[0,1,2]]
torch.tensor(5)[0]
torch.tensor(5)[None]
torch.tensor(5)[...]
torch.tensor(5)[()]
torch.tensor(5)[True]
torch.tensor(5)[:]
torch.tensor(5)[torch.tensor(True)]
torch.zeros(2,3,4,5)[:,[0,1],:,[1,2]].shape
torch.zeros(2,3,4,5)[:,[0,1],[1,2]].shape
torch.zeros(2,3,4,5)[0,:,[1,2]].shape
torch.zeros(2,3,4,5)[[0,1],:,2].shape
torch.zeros(2,3,4,5)[0,[1,2],:,[1,2]].shape
torch.zeros(2,3,4,5)[None,[1],...,[1,2]].shape
torch.zeros(2,3,4,5)[:,torch.ones(3,4,dtype=torch.bool)].shape
torch.zeros(2,3,4,5)[torch.ones(2,3,dtype=torch.bool),1:3].shape
torch.zeros(2,3,4,5)[...,torch.ones(4,5,dtype=torch.bool)].shape
torch.zeros(2,3,4,5)[1,torch.ones(3,dtype=torch.bool),...,[0]].shape
torch.zeros(0,3)[0]
torch.zeros(0,3)[:,0]
torch.zeros(0,3)[[0]]
torch.zeros(3,0)[[0,1]].shape
c[[0,1]][:,[1]]
c[0].is_contiguous(), c[:,0].is_contiguous(), c[[0]].is_contiguous()
i[2].item()
i[i>2]
i[i]
i[[0,-1]]
(i>2)[1]
w[0]
w[0,1]
w[[0,1],[1,2]]
w[w>2]
w[:, None]
w[0].grad_fn.name()
w[0:1].grad_fn.name()
w[0,0:1].grad_fn.name()
w[0:1,0].grad_fn.name()
w[None].grad_fn.name()
w[...].grad_fn.name()
w[:].grad_fn.name()
w[0,:].grad_fn.name()
w[[0]].grad_fn.name()
w[True].grad_fn.name()
w[...,None].grad_fn.name()
y=w[[0,0,1]]; y.sum().backward(); w.grad
y=w[w>2]; y.sum().backward(); w.grad
y=w[1:,[0,2]]; (y*y).sum().backward(); w.grad
y=w[torch.tensor(1)]; y.sum().backward(); w.grad
for r in c: pass
[r for r in c][1]
list(torch.tensor([1,2]))
list(torch.tensor(3))
len(torch.tensor(3))
len(c)
a,b,d=c; b
a,b=c
2 in i
2.5 in i
torch.tensor(3) in i
"a" in i
None in i
[1] in i
"""

SETITEM = """
c[0]=1; c
c[0]=torch.arange(4); c
c[0]=torch.arange(4.).view(1,4); c
c[0]=torch.arange(4.).view(1,1,4); c
c[0]=torch.arange(5.)
c[0]=torch.arange(8.).view(2,4)
c[0]=[1,2,3,4]
c[0]=np.arange(4)
c[0]=np.float64(3)
c[0]=(1,2,3,4)
c[0]="a"
c[0]=None
c[0]=True; c
c[0]=1j
c[0]=torch.ones(4,dtype=torch.complex64)
c[0]=torch.ones(4,dtype=torch.bool); c
i[0]=2.7; i
i[0]=torch.tensor(2.7); i
i[0]=True; i
i[:]=torch.tensor([1.5]); i
(i>2)[0]=5
b=i>2; b[0]=5; b
b=i>2; b[:2]=torch.tensor([0.5,0]); b
c[:,1]=9; c
c[::2,1::2]=torch.ones(2,2); c
c[::2,1::2]=torch.arange(2.); c
c[::2,1::2]=torch.arange(3.)
c[1:1]=5; c
c[5:]=5; c
c[3]=1
c[-4]=1
c[0,0,0]=1
c[...]=2; c
c[...,0]=2; c
c[None]=2; c
c[None]=torch.arange(4.); c
c[()]=3; c
c[:]=torch.arange(4.); c
c[:]=c.flip(0); c
c[1:]=c[:-1]; c
c[:-1]=c[1:]; c
c[[0,1]]=5; c
c[[0,1]]=torch.arange(4.); c
c[[0,1],[1,2]]=torch.tensor([7.,8.]); c
c[[0,0],[1,1]]=torch.tensor([7.,7.]); c
c[[0,1],[1,2]]=torch.arange(3.)
c[[0,1]]=torch.arange(3.)
c[[0,3]]=1
c[torch.tensor([[0],[2]]),torch.tensor([1,3])]=torch.arange(4.).view(2,2); c
c[:,[0,2]]=torch.arange(2.); c
c[1:,[0,2]]=-1; c
c[1:,[0,2]]=torch.arange(4.).view(2,2); c
c[0,[0,2]]=torch.tensor([5.,6.]); c
c[[0,2],1:3]=torch.arange(4.).view(2,2); c
c[c>5]=0; c
c[c>5]=torch.arange(6.); c
c[c>5]=torch.arange(5.)
c[c>5]=torch.tensor([3.]); c
c[c>5]=torch.tensor(3.); c
c[c>100]=1; c
c[c>100]=torch.tensor([]); c
c[torch.tensor([True,False,True])]=torch.arange(4.); c
c[torch.tensor([True,False,True])]=torch.arange(8.).view(2,4); c
c[torch.tensor([True,False,True]),1]=5; c
c[torch.tensor([True,False,True]),1:3]=5; c
c[1:,torch.tensor([True,False,True,False])]=5; c
c[:,torch.tensor([True,False,True,False])]=torch.arange(6.).view(3,2); c
c[torch.tensor([True,False])]=1
c[True]=4; c
c[False]=4; c
c[torch.tensor(True)]=4; c
c[torch.tensor(1)]=4; c
c[torch.tensor(1),torch.tensor([0,1])]=torch.tensor([4.,5]); c
c[[0,1]]=torch.ones(2,4,dtype=torch.float64)
c[[0,1]]=torch.ones(2,4,dtype=torch.int64)
c[[0,1]]=1j
c[c>5]=1j
c[c>5]=torch.tensor(3); c
c[c>5]=torch.ones(6,dtype=torch.int64)
i[[0,1]]=2.5; i
i[i>2]=2.5; i
i[[0,1]]=torch.tensor([2.5,1])
c["a"]=1
c[1.0]=1
c[[0,1],[0,1,2]]=1
c[torch.tensor([0.])]=1
c[::-1]=1
t=torch.tensor(5.); t[...]=3; t
t=torch.tensor(5.); t[()]=3; t
t=torch.tensor(5.); t[None]=3; t
t=torch.tensor(5.); t[True]=3; t
t=torch.tensor(5.); t[False]=3; t
t=torch.tensor(5.); t[torch.tensor(True)]=3; t
t=torch.tensor(5.); t[0]=3
t=torch.tensor(5.); t[:]=3
x[0]=1
x[...]=1
x[:]=1
x[[0]]=1
x[x>0]=1
x[None]=1
x[()]=1
y=w*1; y[0]=5; y.sum().backward(); [y,w.grad]
y=w*1; y[0]=x; (y*y).sum().backward(); [y,w.grad,x.grad]
y=w*1; y[:,1]=s; (y*y).sum().backward(); [y,w.grad,s.grad]
y=w*1; y[[0,1],[0,1]]=x[:2]; (y*y).sum().backward(); [y,w.grad,x.grad]
y=w*1; y[y>2]=s; (y*y).sum().backward(); [y,w.grad,s.grad]
y=w*1; y[y>2]=x[:1]; (y*y).sum().backward(); [y,w.grad,x.grad]
y=w*1; y[y>2]=torch.cat([x,s[None]]); (y*y).sum().backward(); [y,w.grad,x.grad]
y=torch.zeros(2,3); y[0]=x; (y*y).sum().backward(); [y,x.grad]
y=torch.zeros(2,3); y[0]=x; y[1]=x*2; y.sum().backward(); [y,x.grad]
y=torch.zeros(2,3); y[:,0]=s; y[[1]]=x; (y*y).sum().backward(); [y,x.grad,s.grad]
y=w*1; y[1:,[0,2]]=x[:2]; (y*y).sum().backward(); [y,w.grad,x.grad]
y=w*1; v=y[0]; v.mul_(3); (y*y).sum().backward(); [y,v,w.grad]
y=w*1; v=y[0]; v[1]=s; (y*y).sum().backward(); [y,v,w.grad,s.grad]
y=w*1; v=y[0]; y.mul_(3); (v*v).sum().backward(); [y,v,w.grad]
y=w*1; v=y[0]; y[0]=x; (v*v).sum().backward(); [y,v,w.grad,x.grad]
y=w*1; v=y.view(6)[1:4]; v.mul_(x); (y*y).sum().backward(); [y,v,w.grad,x.grad]
y=w*1; v=y.t(); v[0].mul_(s); y.add_(1); v[2].mul_(2); (y*v.t()).sum().backward(); [y,v,w.grad,s.grad]
y=w*1; a,b=y.unbind(0); a.mul_(2)
y=w*1; a,b=y.chunk(2); a.mul_(2)
y=w*1; a,b=torch.split(y,1); a.mul_(2)
y=torch.zeros(2,3); a,b=y.unbind(0); a.add_(x); y.sum().backward(); x.grad
y=w*1; v=y.detach(); v.mul_(3); y.sum().backward(); w.grad
y=w.clone(); y.grad_fn.name()
y=w*1; y[0]=0; y.grad_fn.name()
y=w*1; y[0]=x; [n[0].name() if n[0] else None for n in y.grad_fn.next_functions]
y=w*1; y[[0]]=x; y.grad_fn.name()
y=w*1; y.view(6).mul_(2); y.grad_fn.name()
y=w*1; v=y.view(6); v.mul_(2); v.grad_fn.name()
y=w*1; v=y[0]; y.mul_(2); v.grad_fn.name()
y=w*1; y.mul_(2); y.grad_fn.name()
y=w*1; y.zero_(); [y.grad_fn.name(), y.requires_grad]
y=torch.zeros(3); y.copy_(x); y.grad_fn.name()
torch.zeros(3).index_put_((torch.tensor([0,1]),),torch.tensor(5.))
torch.zeros(3).index_put_((torch.tensor([0,0]),),torch.tensor([5.,6.]),accumulate=True)
torch.zeros(3).index_put((torch.tensor([0,0]),),torch.tensor([5.,6.]),True)
torch.zeros(3).index_put_([torch.tensor([True,False,True])],torch.tensor(5.))
torch.index_put(torch.zeros(3),(torch.tensor([5]),),torch.tensor(5.))
del c[0]
"""


@pytest.mark.parametrize("code", programs.cases(GETITEM))
def test_getitem(code: str) -> None:
    programs.check(code)


@pytest.mark.parametrize("code", programs.cases(SETITEM))
def test_setitem(code: str) -> None:
    programs.check(code)
