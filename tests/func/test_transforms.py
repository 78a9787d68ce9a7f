"""The transforms of torch.func, against torch."""

from __future__ import annotations

import programs
import pytest
import torch

import functorch_port as ft

TRANSFORMS = (
    "vmap grad grad_and_value vjp jvp jacrev jacfwd hessian linearize functional_call stack_module_state"
)
PRELUDE = programs.PRELUDE + "".join(f"{n} = torch.func.{n}\n" for n in TRANSFORMS.split())


TRANSFORMS = """
grad(lambda x: (x**2).sum())(x.detach())
grad(lambda x: x**2)(x.detach())
grad(lambda x: 3)(x.detach())
grad(lambda x: (x.sum(),1))(x.detach())
grad(lambda x: [x.sum()])(x.detach())
grad(lambda x,y: (x*y).sum(), argnums=1)(x.detach(),w.detach())
grad(lambda x,y: (x*y).sum(), argnums=(0,1))(x.detach(),w.detach())
grad(lambda x,y: (x*y).sum(), argnums=-1)(x.detach(),w.detach())
grad(lambda x,y: (x*y).sum(), argnums=2)(x.detach(),w.detach())
grad(lambda x,y: (x*y).sum(), argnums="a")(x.detach(),w.detach())
grad(lambda x,y: (x*y).sum(), argnums=())(x.detach(),w.detach())
grad(lambda d: (d["a"]*d["b"]).sum())({"a":x.detach(),"b":s.detach()})
grad(lambda x: x.sum())(3.)
grad(lambda x: x.sum())(i)
grad(lambda x: (x.sum(),(x*2,3)),has_aux=True)(x.detach())
grad(lambda x: x.sum(),has_aux=True)(x.detach())
grad_and_value(lambda x: (x**2).sum())(x.detach())
grad_and_value(lambda x: ((x**2).sum(),x),has_aux=True)(x.detach())
grad(grad(lambda x: x**3))(s.detach())
grad(lambda x: (x*w).sum())(x.detach())
g=grad(lambda x: (x**2).sum())(x); g.sum().backward(); [g,x.grad]
g=grad(lambda y: (y**2*w).sum())(x.detach()); g.sum().backward(); [g,w.grad]
g=grad(lambda y: (y**2*x).sum())(x); g.sum().backward(); [g,x.grad]
o,t=jvp(lambda y: y**2*x, (x,), (x,)); (o+t).sum().backward(); [o,t,x.grad]
o,f=vjp(lambda y: y**2*x, x); f(x)[0].sum().backward(); x.grad
g=vmap(lambda y: y*x.sum())(x); g.sum().backward(); x.grad
g=jacrev(lambda y: y**2*x)(x); g.sum().backward(); x.grad
g=grad(lambda y,z: (y*z*x[:3]).sum(), (0,1))(x[:3],x); (g[0]+g[1]).sum().backward(); x.grad
g=grad(lambda y: (y*y.detach()).sum())(x.detach()); g
g=grad(lambda y: (y*y.data).sum())(x.detach()); g
torch.set_grad_enabled(False); g=grad(lambda y: (y*y).sum())(x); torch.set_grad_enabled(True); [g]
grad(lambda y: (y**2).sum().backward())(x.detach())
grad(lambda y: y.requires_grad_().sum())(x.detach())
grad(lambda y: y.requires_grad)(x.detach())
grad(lambda y: y.sum().item())(x.detach())
l=[]; grad(lambda y: (l.append(y.sum().item()),y.sum())[1])(x.detach()); l
grad(lambda z: (z*z.conj()).real.sum())(torch.tensor([1+2j]))
grad(lambda z: z.sum())(torch.tensor([1+2j]))
grad(lambda x,k: (x**k).sum())(x.detach(),2)
grad(lambda x,k=1: (x**k).sum())(x.detach(),k=3)
grad(3)(x)
o,f=vjp(lambda x: x**2, x.detach()); [o, f(torch.ones(3)), f(torch.ones(3)*2)]
o,f=vjp(lambda x: x**2, x.detach()); f(torch.ones(2))
o,f=vjp(lambda x: x**2, x.detach()); f(3)
o,f=vjp(lambda x: x**2, x.detach()); f((torch.ones(3),))
o,f=vjp(lambda x,y: (x*y,{"a":x+y}), x.detach(), s.detach()); [o,f((torch.ones(3),{"a":torch.ones(3)}))]
o,f,a=vjp(lambda x: (x**2,x+1), x.detach(), has_aux=True); [o,f(torch.ones(3)),a]
vjp(lambda x: 3, x.detach())
vjp(lambda x: (x,3), x.detach())
vjp(lambda x: x)
vjp(lambda x: x, 3)
o,f=vjp(lambda x: torch.ones(3), x.detach()); f(torch.ones(3))
jvp(lambda x: x**2, (x.detach(),),(torch.ones(3),))
jvp(lambda x,y: x*y, (x.detach(),s.detach()),(torch.ones(3),torch.ones(())))
jvp(lambda x: (x**2,x), (x.detach(),),(torch.ones(3),),has_aux=True)
jvp(lambda x: x**2, x.detach(),torch.ones(3))
jvp(lambda x: x**2, (x.detach(),),(torch.ones(2),))
jvp(lambda x: x**2, (x.detach(),),(3,))
jvp(lambda x: x**2, (),())
jvp(lambda x: 3, (x.detach(),),(torch.ones(3),))
jvp(lambda x: torch.ones(2), (x.detach(),),(torch.ones(3),))
jacrev(lambda x: x**2)(x.detach())
jacrev(lambda x,y: x*y,argnums=(0,1))(x.detach(),w.detach()[0])
jacrev(lambda x: (x**2,{"a":x.sum()}))(x.detach())
jacrev(lambda x: (x**2,x),has_aux=True)(x.detach())
jacrev(lambda d: d["a"]*d["b"])({"a":x.detach(),"b":s.detach()})
jacrev(lambda x: 3)(x.detach())
jacrev(lambda x: x**2,argnums=1)(x.detach())
jacrev(lambda x: x**2,chunk_size=2)(x.detach())
jacrev(jacrev(lambda x: x**3))(x.detach())
jacfwd(lambda x: x**2)(x.detach())
jacfwd(lambda x,y: x*y,argnums=(0,1))(x.detach(),w.detach()[0])
jacfwd(lambda x: (x**2,x.sum()))(x.detach())
jacfwd(lambda x: (x**2,x),has_aux=True)(x.detach())
jacfwd(lambda x: 3)(x.detach())
hessian(lambda x: (x**3).sum())(x.detach())
hessian(lambda x,y: (x**2*y).sum(),argnums=(0,1))(x.detach(),s.detach())
vmap(torch.dot)(w.detach(),w.detach())
vmap(lambda x: x.sum())(w.detach())
vmap(lambda x: x.sum(),in_dims=1)(w.detach())
vmap(lambda x,y: x*y,in_dims=(0,None))(w.detach(),x.detach())
vmap(lambda x,y: x*y,in_dims=(1,0),out_dims=1)(w.detach(),x.detach())
vmap(lambda x: (x,x.sum()),out_dims=(1,0))(w.detach())
vmap(lambda d: d["a"]*d["b"],in_dims=({"a":0,"b":None},))({"a":w.detach(),"b":x.detach()})
vmap(lambda x: x,in_dims=-1,out_dims=-1)(w.detach())
vmap(lambda x: 3)(w.detach())
vmap(lambda x: torch.ones(2))(w.detach())
vmap(lambda x: torch.ones(2),out_dims=None)(w.detach())
vmap(lambda x: x,out_dims=None)(w.detach())
vmap(lambda x: x)(3)
vmap(lambda x: x,in_dims=None)(w.detach())
vmap(lambda x: x,in_dims=2)(w.detach())
vmap(lambda x: x,in_dims="a")(w.detach())
vmap(lambda x: x)()
vmap(lambda x,y: x)(w.detach(),x.detach())
vmap(lambda x: x)(s.detach())
vmap(lambda x: x.item())(x.detach())
vmap(lambda x: x if x>0 else -x)(x.detach())
vmap(lambda x: x+torch.rand(1))(x.detach())
torch.manual_seed(0); vmap(lambda x: torch.rand(2),randomness="different")(x.detach())
torch.manual_seed(0); vmap(lambda x: x*0+torch.rand(1),randomness="same")(x.detach())
torch.manual_seed(0); vmap(lambda x: x*0+torch.randn(20),randomness="different")(x.detach()).sum()
vmap(lambda x: x,randomness="foo")(x.detach())
vmap(lambda x: x,chunk_size=2)(x.detach())
vmap(lambda x: x,chunk_size=0)(x.detach())
vmap(lambda x: x,out_dims=5)(w.detach())
vmap(vmap(lambda a,b: a*b,in_dims=(None,0)),in_dims=(0,None))(x.detach(),x.detach())
vmap(grad(lambda x: (x**3).sum()))(w.detach())
vmap(grad(lambda a,b: (a*b).sum()),in_dims=(0,None))(w.detach(),x.detach())
y=vmap(grad(lambda a,b: (a**2*b).sum()),in_dims=(0,None))(w,x); y.sum().backward(); [y,w.grad,x.grad]
y=vmap(lambda a: a*x)(w); y.sum().backward(); [y,w.grad,x.grad]
l=[]; vmap(lambda a: (l.append((a.shape,a.dim(),a.size(),a.numel())),a)[1])(w.detach()); l
o,f=linearize(lambda x: x**2,x.detach()); [o,f(torch.ones(3))]
torch.vmap(lambda x: x+1)(x.detach())
m=torch.nn.Linear(3,2); functional_call(m,{"weight":torch.ones(2,3),"bias":torch.zeros(2)},x)
m=torch.nn.Linear(3,2); functional_call(m,({"weight":torch.ones(2,3)},{"bias":torch.zeros(2)}),(x,))
m=torch.nn.Linear(3,2); functional_call(m,({"weight":torch.ones(2,3)},{"weight":torch.zeros(2)}),(x,))
m=torch.nn.Linear(3,2); functional_call(m,{"foo":torch.ones(2,3)},x)
m=torch.nn.Linear(3,2); functional_call(m,{"weight":torch.ones(2,3)},x,strict=True)
m=torch.nn.Linear(3,2); functional_call(m,3,x)
m=torch.nn.Linear(3,2); functional_call(m,{"weight":3},x)
m=torch.nn.Linear(3,2); functional_call(m,{"weight":torch.ones(2,3),"bias":torch.zeros(2)},None,{"input":x})
torch.manual_seed(0); p,b=stack_module_state([torch.nn.Linear(2,2) for _ in range(2)]); [p,b]
stack_module_state([])
vmap(lambda x: x, out_dims="a")(w.detach())
vmap(lambda x: (x, x), out_dims=(0, None))(w.detach())
vmap(lambda x: (x, torch.ones(2)), out_dims=(1, None))(w.detach())
vmap(lambda x: {"a": x}, out_dims={"a": 1})(w.detach())
vmap(lambda x: None)(w.detach())
vmap(lambda x: x.add_(1))(w.detach().clone())
a=w.detach().clone(); vmap(lambda x: x.mul_(2).sum(), in_dims=1)(a), a
a=w.detach().clone(); vmap(vmap(lambda x: x.mul_(2)))(a), a
a=w.detach().clone(); vmap(lambda x: x.add_(1), chunk_size=1)(a), a
y=w*1; z=vmap(lambda x: x.mul_(3).sum())(y); (y.sum()+z.sum()).backward(); [y,w.grad]
torch.manual_seed(0); vmap(lambda x: torch.randperm(4), randomness="different")(torch.ones(3))
torch.manual_seed(0); vmap(lambda x: torch.randperm(4), randomness="same")(torch.ones(3))
grad(lambda x: x.sum(), argnums=(0, "a"))(x.detach())
o,f=vjp(lambda x: x*2, x.detach()); f(torch.ones(3), retain_graph=True, create_graph=False)
vjp(lambda x: None, x.detach())
vjp(lambda x: [], x.detach())
jvp(lambda x: torch.ones(2), (x.detach(),), (torch.ones(3),), strict=True)
jvp(lambda x: x*2, (x.detach(),), (torch.ones(3),), strict=True)
jacrev(lambda x: ())(x.detach())
jacrev(lambda x: x.long())(x.detach())
jacfwd(lambda x: None)(x.detach())
jacfwd(lambda x: x*torch.rand(3))(x.detach())
torch.manual_seed(0); jacfwd(lambda x: x*torch.rand(3), randomness="same")(x.detach())
torch.manual_seed(0); jacfwd(lambda x: x*torch.rand(3), randomness="different")(x.detach())
f=lambda x, y: x*torch.rand(3)+y.sum()*torch.rand(2,1)
  torch.manual_seed(0); jacfwd(f, (0, 1), randomness="different")(x.detach(), w.detach())
f=lambda x: ((x*torch.rand(3), x.long()), (x*torch.rand(3), x))
  torch.manual_seed(0); jacfwd(f, has_aux=True, randomness="different")(x.detach())
jacfwd(lambda x: x, randomness="foo")(x.detach())
o,f=linearize(lambda x: x**2, x.detach()); f(torch.ones(2))
o,f=linearize(lambda x: x**2, x.detach()); f(torch.ones(3, dtype=torch.float64))
linearize(lambda x: x**2)
jacrev(lambda z: z.conj())(torch.ones(1, dtype=torch.complex64))
jacfwd(lambda k,z: z.conj())(2, torch.ones(1, dtype=torch.complex64))
jacrev(lambda x: (x, x*1j))(x.detach())
jacfwd(lambda x: (x, x*1j))(x.detach())
jacrev(lambda x: (x**2, x.sum()), chunk_size=1)(x.detach())
ms=[torch.nn.Linear(2,2) for _ in range(2)]; ms[1].weight.requires_grad_(False); stack_module_state(ms)
torch.func.functionalize(lambda x: x.clone().add_(1))(x.detach())
torch.func.functionalize(lambda x: x.clone().view(3,1).mul_(2), remove="mutations_and_views")(x.detach())
a=x.detach().clone(); torch.func.functionalize(lambda x: x.add_(1))(a); a
grad(torch.func.functionalize(lambda x: (x.clone().mul_(2)**2).sum()))(x.detach())
torch.func.debug_unwrap(x)
grad(lambda x: (x*1).retain_grad())(x.detach())
n=torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Sequential(torch.nn.BatchNorm2d(2)))
  r=torch.func.replace_all_batch_norm_modules_(n); [r is n, repr(r), r[0].running_mean, list(r.state_dict())]
"""

# what follows names ATen's operator, or prints a pytree
LONG_MESSAGES = """
a=torch.zeros(3); grad(lambda y: a.add_(y).sum())(x.detach())
a=torch.zeros(3); grad(lambda y: a.add_(1).sum()+y.sum())(x.detach()); a
jvp(lambda x: x**2, (x.detach(),),torch.ones(3))
vmap(lambda x,y: x,in_dims=(0,))(w.detach(),x.detach())
vmap(lambda x: (x,x),out_dims=(0,))(w.detach())
torch.func.functionalize(lambda x: x, remove="foo")(x)
"""


@pytest.mark.parametrize("code", programs.cases(TRANSFORMS))
def test_transforms(code: str) -> None:
    programs.check(code, PRELUDE)


@pytest.mark.parametrize("code", programs.cases(LONG_MESSAGES))
def test_long_messages(code: str) -> None:
    programs.check(code, PRELUDE, text="start")


#: what a function writes to its arguments
IN_PLACE = """
a=x.detach().clone(); r=jvp(lambda y: (y.mul_(2), y*y)[1], (a,), (torch.ones(3),)); [r, a]
a=x.detach().clone(); t=torch.ones(3); r=jvp(lambda y: (y[1:].mul_(y[:2]*1), y*y)[1], (a,), (t,)); [r, a, t]
a=x.detach().clone(); t=torch.ones(1).expand(3); r=jvp(lambda y: y.mul_(2), (a,), (t,)); [r, a, t]
a=x.detach().clone(); [jacfwd(lambda y: (y.mul_(2), y*y)[1])(a), a]
a=torch.zeros(3); r,f=linearize(lambda y,z: (y.copy_(z), y*z)[1], a, x.detach()); [r, a]
  f(torch.ones(3), torch.ones(3))
a=torch.zeros(3,2); b=torch.arange(6.).reshape(3,2)
  r=vmap(lambda y,z: jvp(lambda u,v: u.copy_(v), (y,z), (z,z*3)), 1)(a, b); [r, a]
a=torch.zeros(3); b=torch.arange(3.); r=jvp(vmap(lambda u,v: u.copy_(v)), (a,b), (b,b*3)); [r, a]
a=torch.zeros(3); b=torch.arange(3.); f=lambda u,v: u.copy_(v)
  r=jvp(lambda u,v: jvp(f, (u,v), (v,v))[0], (a,b), (b,b*3)); [r, a]
a=torch.zeros(3); [grad(lambda y,z: (z.add_(1), (y*z).sum())[1])(x.detach(), a), a]
a=torch.zeros(3); [grad(lambda y,z: (z.add_(1), (y*z).sum())[1])(x.detach(), z=a), a]
a=torch.zeros(3); [jacrev(lambda y,z: (z.add_(1), y*z)[1])(x.detach(), a), a]
a=torch.zeros(3); [jacfwd(lambda y,z: (z.add_(1), y*z)[1])(x.detach(), a), a]
a=torch.zeros(3); [vmap(grad(lambda y,z: (z.add_(1), y*z)[1]))(x.detach(), a), a]
a=torch.zeros(3); [grad(lambda y,z: grad(lambda u,v: (v.add_(1), (u*v).sum())[1])(y,z).sum())(x.detach(), a), a]
a=torch.arange(3.); [grad(lambda y,z: (z.mul_(w.sum()), (y*z).sum())[1])(x.detach(), a), a]
  a.sum().backward(); w.grad
n=torch.nn.BatchNorm1d(3); p=dict(n.named_parameters()); b=dict(n.named_buffers()); c=torch.arange(6.).reshape(2,3)
  g=grad(lambda p,b: functional_call(n,(p,b),(c,)).square().sum())(p,b); [n.running_mean, n.num_batches_tracked]
a=x.detach().clone(); grad(lambda y: y.mul_(2).sum())(a)
a=x.detach().clone(); vjp(lambda y: y.mul_(2), a)
a=x.detach().clone(); jacrev(lambda y: y.mul_(2))(a)
a=x.detach().clone(); vmap(grad(lambda y: y.mul_(2)))(a)
a=x.detach().clone(); grad(lambda y: vmap(lambda z: z.mul_(2))(y).sum())(a)
"""


@pytest.mark.parametrize("code", programs.cases(IN_PLACE))
def test_in_place(code: str) -> None:
    programs.check(code, prelude=PRELUDE, tol=1e-5)


@pytest.mark.parametrize("T", [ft, torch], ids=["ours", "torch"])
@pytest.mark.parametrize("name", ["grad", "jacrev", "hessian", "grad_and_value"])
def test_hooks_of_saved_tensors_are_refused(T, name) -> None:
    transform, hooks = getattr(T.func, name), T.autograd.graph.save_on_cpu

    def within(x):
        with hooks():
            return x.sum()

    with pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
        transform(within)(T.ones(3))
    with hooks(), pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
        transform(lambda x: x.sum())(T.ones(3))
    transform(lambda x: x.sum())(T.ones(3))
    with hooks():
        pass
