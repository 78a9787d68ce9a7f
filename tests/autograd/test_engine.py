"""The engine: gradients, hooks and their order, freeing, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import programs
import pytest
import torch

import functorch_port as ft

ENGINE = """
torch.autograd.backward(c)
c.backward()
torch.autograd.backward(x)
torch.autograd.backward([x*1,s*1],[None])
torch.autograd.backward(x*1,[c,c])
torch.autograd.backward(x*1,torch.ones(4))
torch.autograd.backward(c,torch.ones(4))
torch.autograd.backward(x*1,3)
torch.autograd.backward(x*1,[3])
(x*1).backward(torch.ones(3,dtype=torch.float64)); x.grad
(x*1).backward(torch.ones(3,dtype=torch.complex64))
torch.ones(2,dtype=torch.complex64,requires_grad=True).sum().backward()
(torch.ones(2,dtype=torch.complex64,requires_grad=True)*1).backward(torch.ones(2))
torch.autograd.backward(s*1,inputs=[])
torch.autograd.backward(s*1,inputs=[c])
torch.autograd.backward(s*1,inputs=c)
torch.autograd.backward(x.sum(),inputs=[s]); s.grad
torch.autograd.backward(x.sum(),inputs='a')
torch.autograd.backward(x.sum(),inputs=[3])
torch.autograd.grad(s*1,[c])
torch.autograd.grad(s*1,x)
torch.autograd.grad(s*1,x,allow_unused=True)
torch.autograd.grad(s*1,x,materialize_grads=True)
torch.autograd.grad(s*1,x,allow_unused=False,materialize_grads=True)
torch.autograd.grad(s*1,[])
torch.autograd.grad([],[s])
torch.autograd.backward([])
torch.autograd.backward(3)
torch.autograd.grad(3,s)
torch.autograd.grad(s,3)
torch.autograd.grad(s*1,s,grad_outputs=[])
torch.autograd.grad(s*1,s,grad_outputs=[None,None])
torch.autograd.grad(s,s)
s.backward(); s.grad
torch.autograd.grad(s*1,[s,s])
torch.autograd.grad(s*1,(s,))
torch.autograd.grad(x*1,x)
torch.autograd.grad((x*1,s*1),x)
torch.autograd.grad((x*1,s*1),x,(torch.ones(3),))
torch.autograd.grad((x*1,s*1),x,(torch.ones(3),None))
torch.autograd.grad((x*1,s*1),[x,s],(torch.ones(3),None))
x.backward(torch.ones(3,1))
torch.autograd.grad(x*1,x,torch.ones(3),is_grads_batched=True)
torch.autograd.grad(x*x,x,torch.ones(5,3),is_grads_batched=True)
torch.autograd.grad(x*x,x,torch.eye(3),is_grads_batched=True)
x.backward(3)
x.backward([torch.ones(3)]); x.grad
i.backward()
(x*1).backward(torch.ones(3,dtype=torch.int64)); x.grad
(x*1).backward(torch.ones(3,dtype=torch.float16)); x.grad
y=s*s; y.backward(); y.backward()
y=s+1; y.backward(); y.backward(); s.grad
y=x.exp().sum(); y.backward(); y.backward()
y=x.sum(); y.backward(); y.backward(); x.grad
y=(x*2).sum(); y.backward(); y.backward(); x.grad
y=(x.view(3,1).expand(3,4)[1:].t()).sum(); y.backward(); y.backward(); x.grad
torch.autograd.backward(s*1,grad_tensors=torch.ones(()),grad_variables=torch.ones(()))
torch.autograd.backward(s*1,grad_variables=torch.ones(())*3); s.grad
torch.autograd.backward(None)
y=x*2; y.backward(torch.ones(3)); y.grad
y=x*2; y.retain_grad(); y.sum().backward(); y.grad
y=x*2; y.retain_grad(); z=y.sum(); z.backward(retain_graph=True); z.backward(); [y.grad, x.grad]
y=x*2; z=(y*y).sum(); z.backward(inputs=[y],retain_graph=True); a=[y.grad.clone(),x.grad,y.retains_grad]
  z.backward(inputs=[y]); [a,y.grad,x.grad]
y=x*2; z=(y*y).sum(); torch.autograd.grad(z,[x,y])
y=x*2; z=(y*y).sum(); torch.autograd.grad(z,[y,x],create_graph=True)
g,=torch.autograd.grad((x**3).sum(),x,create_graph=True); h,=torch.autograd.grad(g.sum(),x,create_graph=True)
  k,=torch.autograd.grad(h.sum(),x); [g,h,k]
y=(x**2).sum(); y.backward(create_graph=True); [x.grad]
y=(x**2).sum(); y.backward(create_graph=True); x.grad.sum().backward(); [x.grad]
a,b=w.unbind(0); (a*2).sum().backward(); w.grad
a,b=torch.split(w,[1,2],dim=1); (a.sum()*3+(b*b).sum()).backward(); w.grad
v,k=w.max(dim=1); v.sum().backward(); w.grad
y=x*2; z=y+y; z.sum().backward(); x.grad
x.requires_grad_(False); (x*w).sum().backward(); [x.grad,w.grad]
x.grad=torch.ones(3); g=x.grad; (x*2).sum().backward(); [g, x.grad is g]
x.grad=torch.ones(3); g=x.grad; (x*2).sum().backward(create_graph=True); [g, x.grad is g]
(x*2).sum().backward(); g=x.grad; v=g._version; (x*3).sum().backward(); [x.grad is g, g._version-v]
gr=torch.ones(3); y=x*1; y.backward(gr); gr.mul_(5); x.grad
gr=torch.ones(3); x.backward(gr); gr.mul_(5); x.grad
y=(x+w).sum(); y.backward(); x.grad.mul_(2); [x.grad,w.grad]
y=x+s; y.backward(torch.ones(3)); [x.grad, s.grad]
t=torch.ones(3,requires_grad=True); y=x+t; y.backward(torch.ones(3)); x.grad.mul_(7); [x.grad,t.grad]
log=[]; y=x*2; y.register_hook(lambda g: log.append("t1")); y.retain_grad()
  y.register_hook(lambda g:(log.append("t2"),g*3)[1]); y.grad_fn.register_prehook(lambda gs: log.append("npre"))
  y.grad_fn.register_hook(lambda gi,go: log.append(("npost",gi[0].tolist(),len(gi),go[0].tolist())))
  x.register_hook(lambda g: log.append("leaf"))
  x.register_post_accumulate_grad_hook(lambda p: log.append(("post",p.grad.tolist())))
  acc=y.grad_fn.next_functions[0][0]; acc.register_hook(lambda gi,go: log.append(("accpost",gi,go[0].tolist())))
  acc.register_prehook(lambda gs: log.append(("accpre",gs[0].tolist()))); y.sum().backward()
  [log,y.grad,x.grad]
log=[]; x.register_hook(lambda g: log.append("leaf"))
  x.register_post_accumulate_grad_hook(lambda p: log.append("post")); torch.autograd.grad((x*2).sum(),x); log
log=[]; y=x*2; y.register_hook(lambda g: log.append("t"))
  y.grad_fn.register_prehook(lambda g:log.append("pre")); y.grad_fn.register_hook(lambda a,b:log.append("post"))
  torch.autograd.grad(y.sum(),y); log
log=[]; y=x*2; y.register_hook(lambda g: log.append("t"))
  y.grad_fn.register_prehook(lambda g:log.append("pre")); y.grad_fn.register_hook(lambda a,b:log.append("post"))
  y.sum().backward(inputs=[y]); log
y=x*2; y.grad_fn.register_hook(lambda gi,go:(gi[0]*10,None)); y.sum().backward(); x.grad
y=x*2; y.grad_fn.register_prehook(lambda go:(go[0]*10,)); y.sum().backward(); x.grad
y=x*2; y.register_hook(lambda g: 3); y.sum().backward()
y=x*2; y.register_hook(lambda g: torch.ones(5)); y.sum().backward()
y=x*2; h=y.register_hook(lambda g: g*0); h.remove(); y.sum().backward(); x.grad
c.register_hook(lambda g:g)
c.register_post_accumulate_grad_hook(lambda g:g)
(x*2).register_post_accumulate_grad_hook(lambda g:g)
c.retain_grad()
x.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(2)); (x*2).sum().backward(); x.grad
x.register_post_accumulate_grad_hook(lambda p: setattr(p,'grad',None)); (x*2).sum().backward(); x.grad
x.register_hook(lambda g: g+1); x.register_hook(lambda g: g*2); (x*2).sum().backward(); x.grad
x.register_hook(lambda g: g.add_(1)); (x*2).sum().backward(); x.grad
y=x*2; y.register_hook(lambda g: g.requires_grad); y.sum().backward(create_graph=True)
l=[]; y=x**2; y.register_hook(lambda g: l.append(g.requires_grad)); (y**2).sum().backward(create_graph=True); l
l=[]; y=x**2; y.register_hook(lambda g: l.append(torch.is_grad_enabled())); (y**2).sum().backward(); l
(s*1).grad_fn.name()
[(s*1).grad_fn.next_functions[0][0].name(), (s*1).grad_fn.next_functions[0][1], (s*1).grad_fn.next_functions[1]]
(s*1).grad_fn.next_functions[0][0].variable is s
(s*1).grad_fn.next_functions[0][0] is (s*2).grad_fn.next_functions[0][0]
y=x*2; y.grad_fn is y.grad_fn
y=x*2; y.grad_fn.metadata["a"]=1; y.grad_fn.metadata
isinstance((x*2).grad_fn, torch.autograd.graph.Node)
(x*2).grad_fn(torch.ones(3))
x.exp().grad_fn(torch.ones(3))
x.grad=torch.ones(4)
x.grad=torch.ones(3,dtype=torch.float64)
x.grad=3
x.grad=x
del x.grad
x.grad=torch.ones(3); del x.grad; x.grad
i.requires_grad_()
torch.ones(3,dtype=torch.int64,requires_grad=True)
(x*2).requires_grad_(False)
(x*2).requires_grad_(True)
y=x*2; y.requires_grad=True; y
x.detach().requires_grad
y=(x*2).detach_(); [y.requires_grad,y.is_leaf]
(w[0]).detach_()
y=w*1; z=y.view(6); z.detach_()
with torch.no_grad(): y=x*2
"""

HOOKS = """
y=x*2; y.register_hook(lambda g: g*10); z=(y*y).sum(); torch.autograd.grad(z,[x,y])
y=x*2; y.register_hook(lambda g: g*10); z=(y*y).sum(); torch.autograd.grad(z,[y])
y=x*2; y.grad_fn.register_prehook(lambda g: (g[0]*10,)); z=(y*y).sum(); torch.autograd.grad(z,[y,x])
x.register_hook(lambda g: g*10); torch.autograd.grad((x*2).sum(),[x])
y=x*2; y.register_hook(lambda g: torch.ones(3,dtype=torch.float64)); y.sum().backward()
y=x*2; y.register_hook(lambda g: 3); y.sum().backward()
y=x*2; y.register_hook(lambda g: torch.ones(5)); y.sum().backward()
x.register_hook(lambda g: torch.ones(5)); x.sum().backward()
y=x*2; y.grad_fn.register_hook(lambda gi,go: (gi[0],)); y.sum().backward(); x.grad
y=x*2; y.grad_fn.register_hook(lambda gi,go: gi[0]*3); y.sum().backward(); x.grad
y=x*2; y.grad_fn.register_prehook(lambda go: 3); y.sum().backward(); x.grad
y=x*2; y.grad_fn.register_prehook(lambda go: (None,)); y.sum().backward(); x.grad
y=x*2; y.grad_fn.register_hook(lambda gi,go: (None,None)); y.sum().backward(); x.grad
y=x*2; y.grad_fn.register_hook(lambda gi,go: (torch.ones(7),None)); y.sum().backward(); x.grad
y=x*2; a=y.view(3,1); y.register_hook(lambda g: g*3); a.sum().backward(); x.grad
y=x*2; y.register_hook(lambda g: g*3); y.add_(1); y.sum().backward(); x.grad
y=x*2; y.retain_grad(); y.mul_(4); y.sum().backward(); [x.grad,y.grad]
y=x*2; y.register_hook(lambda g: g*3); y.mul_(4); y.register_hook(lambda g: g+1); y.sum().backward(); [x.grad]
"""

FLAGS = """
x.grad=torch.ones(3,dtype=torch.float64)
x.grad=torch.ones(3,dtype=torch.int64)
x.grad=torch.ones(3,dtype=torch.bfloat16)
x.grad=torch.ones(3,dtype=torch.complex64)
i.requires_grad_()
torch.ones(3,dtype=torch.int64,requires_grad=True)
torch.zeros(3,dtype=torch.int64,requires_grad=True)
torch.tensor([1,2],requires_grad=True)
torch.full((2,),3,requires_grad=True)
torch.eye(2,dtype=torch.int32,requires_grad=True)
torch.arange(3,requires_grad=True)
torch.zeros_like(i,requires_grad=True)
torch.randint(3,(2,),requires_grad=True)
i.requires_grad=True
(x*2).requires_grad_(False)
y=x*2; y.requires_grad=True
(w[0]).detach_()
y=w*1; z=y.view(6); z.detach_()
"""
COMPLEX = """
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); (z*z.conj()).real.sum().backward(); z.grad
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); z.abs().sum().backward(); z.grad
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); (z**2).real.sum().backward(); z.grad
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); (z*(2-1j)).imag.sum().backward(); z.grad
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); torch.exp(z).real.sum().backward(); z.grad
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); z.angle().sum().backward(); z.grad
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); torch.view_as_real(z).pow(2).sum().backward(); z.grad
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); y=z*(1+1j); y.backward(torch.tensor([1+1j,2.])); z.grad
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); (x[:2]*z).real.sum().backward(); [x.grad,z.grad]
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); (x[:2]*z).abs().sum().backward(); [x.grad,z.grad]
y=torch.complex(x,x*2); y.abs().sum().backward(); x.grad
y=torch.view_as_complex(w[:, :2].contiguous()); (y*y).real.sum().backward(); w.grad
z=torch.tensor([[1+2j,3],[.5,1j]],requires_grad=True); (z@z.conj().t()).real.sum().backward(); z.grad
z=torch.tensor([[1+2j,3],[.5,1j]],requires_grad=True); z.sum().abs().backward(); z.grad
z=torch.tensor([1+2j,-3+.5j],requires_grad=True)
  g,=torch.autograd.grad((z*z.conj()).real.sum(),z,create_graph=True); h,=torch.autograd.grad(g.abs().sum(),z)
  [g,h]
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); y=z*1; y.real.mul_(3); (y.abs()**2).sum().backward()
  [y,z.grad]
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); y=z*1; y[0]=2j; y.imag[1]=x[0]
  (y.abs()**2).sum().backward(); [y,z.grad,x.grad]
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); (1/z).real.sum().backward(); z.grad
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); torch.sqrt(z).imag.sum().backward(); z.grad
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); z.to(torch.complex128).abs().sum().backward(); z.grad
z=torch.tensor([1+2j,-3+.5j],requires_grad=True); z.sgn().real.sum().backward(); z.grad
y=x.to(torch.complex64); y.abs().sum().backward(); x.grad
y=(x+0j); (y*1j).imag.sum().backward(); x.grad
y=x*1j; y.imag.sum().backward(); x.grad
"""


MORE = """
[g.requires_grad for g in torch.autograd.grad((x*3).sum(),[x,s],create_graph=True,materialize_grads=True)]
[g.requires_grad for g in torch.autograd.grad((x*3).sum(),[x,s],materialize_grads=True)]
(x**2).grad_fn(x, x)
(x**2).grad_fn()
r=[]; torch.autograd.graph.register_multi_grad_hook([x,s,w], lambda g: r.append([t is not None for t in g]))
  y=(x*s).sum(); y.backward(inputs=[x,s], retain_graph=True); y.backward(inputs=[w], retain_graph=True)
  y.backward(inputs=[w,s]); r
b=x.clone(); v=b[:2]; u=b[:2]; v.retain_grad(); u.retain_grad(); v.mul_(2); (v+u).sum().backward()
  [v.grad, u.grad, x.grad]
r=[]; b=x.clone(); v=b[:2]; u=b[:2]; v.register_hook(lambda g: r.append("v")); u.register_hook(lambda g: r.append("u"))
  v.mul_(2); u.grad_fn; u.register_hook(lambda g: r.append(g)); (v+u).sum().backward(); [r, x.grad]
r=[]; b=x*2; v=b[:2]; v.register_hook(lambda g: r.append(g)); v.mul_(3); b.sum().backward(); [r, x.grad]
a=c*1; u,v=a.unsafe_split(2); u.mul_(3); [u, a]
y=w*2; a,b=y.unsafe_chunk(2); a.mul_(b); a.sum().backward(); w.grad
y=w*2; a,b=y.unsafe_split_with_sizes([1,1]); a.mul_(3); (a+b).sum().backward(); w.grad
y=w*2; a,b=y.split(1); a.mul_(3)
c.data=torch.eye(2).to_sparse()
del x.data
del x.requires_grad
h=x.register_hook(print); [list(h.hooks_dict_ref().values()) == [print], h.id in h.hooks_dict_ref(), h.extra_dict_ref]
(g,)=torch.autograd.grad(x*s,x,torch.ones(3),create_graph=True); torch.autograd.grad(g.sum(),x,create_graph=True)
(g,)=torch.autograd.grad(x*s,x,torch.ones(3),create_graph=True)
  (h,)=torch.autograd.grad(g.sum(),x,create_graph=True,materialize_grads=True)
  [h, torch.autograd.grad(h.sum(),x,materialize_grads=True)]
a=torch.ones(1); a.resize_(1,2); r=[a._version]; a.resize_(2); r.append(a._version); a.resize_(2); a.resize_as_(c)
  r.append(a._version); r
a=torch.rand(2,3,4,5).to(memory_format=torch.channels_last).requires_grad_(); a.sum().backward(); r=[a.grad.stride()]
  a.sum().backward(); r.append(a.grad.stride()); a.grad=None; (a*torch.rand(2,3,4,5)).sum().backward()
  [*r, a.grad.stride()]
a=torch.empty_strided((2,2),(4,2)).fill_(1.).requires_grad_(); (a*a).sum().backward(); [a.grad.stride(), a.grad]
a=torch.arange(6.).view(3,2).t().detach().requires_grad_(); (a*a).sum().backward(); [a.grad.stride(), a.grad]
a=torch.arange(6.).view(3,2)[:,0].detach().requires_grad_(); (a*a).sum().backward(); [a.grad.stride(), a.grad]
"""


@pytest.mark.parametrize("code", programs.cases(MORE))
def test_more(code: str) -> None:
    programs.check(code)


#: of the two gradients of each, which inputs they depend on
SECOND = {
    "mul": lambda T, x, a: x * a,
    "div": lambda T, x, a: x / a,
    "pow": lambda T, x, a: x**a,
    "atan2": lambda T, x, a: T.atan2(x, a),
    "addcmul": lambda T, x, a: T.addcmul(x, x, a),
    "lerp": lambda T, x, a: T.lerp(x, a, a),
    "bmm": lambda T, x, a: T.bmm(x.reshape(1, 1, 2), a.reshape(1, 2, 1)),
    "linear": lambda T, x, a: T.nn.functional.linear(x.reshape(1, 2), a.reshape(1, 2)),
    "conv1d": lambda T, x, a: T.nn.functional.conv1d(x.reshape(1, 1, 2), a.reshape(1, 1, 2)),
    "layer_norm": lambda T, x, a: T.nn.functional.layer_norm(x, (2,), a),
    "sum": lambda T, x, a: x.exp() + 2 * a,
}


@pytest.mark.parametrize("name", SECOND)
def test_gradients_depend_on_what_they_are_computed_from(name: str) -> None:
    def program(T: Any) -> list[Any]:
        x, a = T.tensor([0.5, 1.5], requires_grad=True), T.tensor([0.7, 1.2], requires_grad=True)
        found: list[Any] = []
        for first in T.autograd.grad(SECOND[name](T, x, a).sum(), (x, a), create_graph=True):
            for again in (True, False) if first.requires_grad else ():
                second = T.autograd.grad(
                    first.sum(), (x, a), create_graph=again, retain_graph=True, allow_unused=True
                )
                found.append([None if g is None else g.detach().numpy() for g in second])
        return found

    expected = program(torch)
    for _ in range(3):  # the third walk is one program
        for theirs, ours in zip(expected, program(ft), strict=True):
            assert [g is None for g in theirs] == [g is None for g in ours]
            for a, b in zip(theirs, ours, strict=True):
                if a is not None:
                    np.testing.assert_allclose(a, b, 1e-4, 1e-6)


#: what PyTorch's C++ module has
PRIVATE = """
r=[]; y=x*1; y.register_hook(r.append); y.grad_fn.register_prehook(r.append)
  y.grad_fn.register_hook(lambda *g: r.append(g))
  torch._C._functions.UndefinedGrad()(y).sum().backward(); [r, x.grad]
r=[]; x.register_hook(r.append); x.register_post_accumulate_grad_hook(lambda t: r.append(t.grad))
  torch._C._functions.UndefinedGrad()(x).sum().backward(); r
y=torch._C._functions.UndefinedGrad()(x); [y, y.grad_fn.name(), type(y.grad_fn).__name__]
y,z=torch._C._functions.DelayedError("boom", 2)(x, c); [y, z, y.grad_fn.name(), y.requires_grad]
y=torch._C._functions.DelayedError("boom", 1)(x); y.sum().backward()
y=torch._C._functions.DelayedError("boom", 1)(x*2); [g.tolist() for g in torch.autograd.grad((y*3).sum(), y)]
isinstance((x*1).grad_fn.next_functions[0][0], torch._C._functions.AccumulateGrad)
repr((x*1).grad_fn.next_functions[0][0]).split(" at ")[0]
r=[]; y=x*1; q=torch.autograd.Variable._execution_engine.queue_callback
  y.register_hook(lambda g: q(lambda: r.append(x.grad*1))); y.sum().backward(); r
r=[]; q=torch.autograd.Variable._execution_engine.queue_callback; y=x*1
  y.register_hook(lambda g: q(lambda: (r.append(1), q(lambda: r.append(2))) and None)); y.sum().backward(); r
torch.autograd.Variable._execution_engine.queue_callback(print)
r=[]; y=x*1; y.register_hook(lambda g: r.append(torch._C._current_graph_task_id()))
  y.sum().backward(retain_graph=True); y.sum().backward(); [r[1]-r[0], torch._C._current_graph_task_id()]
torch._C._current_graph_task_execution_order()
y=x.exp(); y.register_hook(lambda g: torch._C._current_graph_task_execution_order()); y.sum().backward()
r=[]; y=x.exp().sin().sum()
  y.register_hook(lambda g: r.extend(n.name() for n in torch._C._current_graph_task_execution_order()))
  exec("with torch.autograd.set_multithreading_enabled(False): y.backward()"); r
torch._C._will_engine_execute_node(x)
torch._C._will_engine_execute_node((x*1).grad_fn)
r=[]; a=x*1; b=s*1; y=a*b
  y.register_hook(lambda g: r.extend(torch._C._will_engine_execute_node(t.grad_fn) for t in (a, b)))
  torch.autograd.grad(y.sum(), x); r
y=x*1; y.register_hook(lambda g: torch._C._will_engine_execute_node(y.grad_fn.next_functions[0][0]) and None)
  torch.autograd.grad(y.sum(), x)
def f(x): y=x.clone().view(-1); y.add_(1); return y.grad_fn.name()
  with torch.autograd._force_original_view_tracking(True): r=[f(x), f(x[None])]
  [*r, f(x)]
del x._grad_fn
del x._backward_hooks
n=(x*2).grad_fn; N=torch.autograd.graph.Node; [isinstance(n, N), issubclass(type(n), N), N in type(n).mro()]
issubclass(torch.autograd.function.BackwardCFunction, torch.autograd.graph.Node)
r=torch._C._WeakTensorRef(x); [r.expired(), torch._C._WeakTensorRef(x*1).expired()]
"""


@pytest.mark.parametrize("code", programs.cases(PRIVATE))
def test_private_names(code: str) -> None:
    programs.check(code)


@pytest.mark.parametrize("code", programs.cases(ENGINE))
def test_engine(code: str) -> None:
    programs.check(code)


@pytest.mark.parametrize("code", programs.cases(HOOKS))
def test_hooks(code: str) -> None:
    programs.check(code)


@pytest.mark.parametrize("code", programs.cases(FLAGS))
def test_flags(code: str) -> None:
    programs.check(code)


@pytest.mark.parametrize("code", programs.cases(COMPLEX))
def test_complex(code: str) -> None:
    programs.check(code, tol=1e-5)


def nested(T, depth):
    """A function whose backward calls backward, as deep."""

    class Deep(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with T.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, g):
            if ctx.x >= 0:
                with T.enable_grad():
                    Deep.apply(ctx.x).sum().backward()
            return g * 2

    x = T.tensor(float(depth), requires_grad=True)
    Deep.apply(x).sum().backward()
    return x.grad.item()


@pytest.mark.parametrize("T", [ft, torch], ids=["ours", "torch"])
def test_a_backward_pass_within_another_many_times(T) -> None:
    assert nested(T, 1000) == 2


def test_errors_and_modes_of_a_deep_backward_pass() -> None:
    class Deep(ft.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if not ctx.depth:
                modes.append(ft.is_inference_mode_enabled() or not ft.is_grad_enabled())
                raise KeyError("at the bottom")
            with ft.enable_grad():
                Deep.apply(ft.ones(1, requires_grad=True), ctx.depth - 1).sum().backward()
            return g, None

    modes: list[bool] = []
    with pytest.raises(KeyError, match="at the bottom"):
        Deep.apply(ft.ones(1, requires_grad=True), 60).sum().backward()
    assert modes == [True]


def test_a_hook_of_several_tensors_forgets_walks_that_failed() -> None:
    def failing(grad):
        raise KeyError

    x, y = ft.ones(2, requires_grad=True), ft.ones(2, requires_grad=True)
    z, seen = y * 1, []
    ft.autograd.graph.register_multi_grad_hook((x, y), lambda grads: seen.append([g is None for g in grads]))
    for _ in range(50):
        handle = z.register_hook(failing)
        with pytest.raises(KeyError):
            ((z * 2).sum() + x.sum()).backward()
        handle.remove()
        (z * 1).sum().backward(retain_graph=True)
    assert seen == [[True, False]] * 50


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("T", [ft, torch], ids=["ours", "torch"])
def test_a_recorded_gradient_is_a_copy(T) -> None:
    x, seen = T.ones(2, requires_grad=True), []
    y = x * 1
    y.register_hook(seen.append)
    y.square().sum().backward(create_graph=True)
    assert x.grad.grad_fn.name().endswith("CopyBackwards")
    with T.no_grad():
        x.grad.zero_()
    assert seen[0].tolist() == [2, 2]
    x.grad = None


@pytest.mark.parametrize("T", [ft, torch], ids=["ours", "torch"])
def test_what_cannot_be_differentiated_twice_says_so(T) -> None:
    class Times(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        @T.autograd.function.once_differentiable
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, None, g * x

    x, y = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
    first, second = T.autograd.grad(
        Times.apply(x, 2, y), (x, y), T.ones(2, requires_grad=True), create_graph=True
    )
    made = first.grad_fn
    assert len(made.next_functions) == 3 and made.next_functions[1] == (None, 0)
    with pytest.raises(RuntimeError, match="trying to differentiate twice"):
        (first + second).sum().backward()


@pytest.mark.parametrize("shape", [(3, 1), (2, 3)])
def test_gradients_of_two_shapes_are_refused(shape: tuple[int, ...]) -> None:
    """They are not added up as if one were to be stretched."""
    for lib in (torch, ft):
        x = lib.ones(shape, requires_grad=True)
        before = x.sigmoid()
        with lib.no_grad():
            x.transpose_(0, 1)
        outs = [before, x * 2]
        with pytest.raises(RuntimeError, match="returned an invalid gradient"):
            lib.autograd.grad(outs, [x], [lib.ones_like(out) for out in outs])
