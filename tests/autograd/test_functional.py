"""autograd.functional, gradcheck, autograd.graph, anomaly mode and the old Variable."""

from __future__ import annotations

import programs
import pytest

FUNCTIONAL = """
torch.autograd.functional.jacobian(lambda x: x**2, x.detach())
torch.autograd.functional.jacobian(lambda x,y: x*y, (x.detach(),s.detach()))
torch.autograd.functional.jacobian(lambda x: (x**2,x.sum()), x.detach())
torch.autograd.functional.jacobian(lambda x: x**2, x.detach(), create_graph=True)
torch.autograd.functional.jacobian(lambda x: (x**2).sum(), x)
torch.autograd.functional.jacobian(lambda x: x**2, x.detach(), vectorize=True)
torch.autograd.functional.jacobian(lambda x: x**2, x.detach(), vectorize=True, strategy="forward-mode")
torch.autograd.functional.jacobian(lambda x: torch.ones(2), x.detach())
torch.autograd.functional.jacobian(lambda x: torch.ones(2), x.detach(), strict=True)
torch.autograd.functional.jacobian(lambda x: 3, x.detach())
torch.autograd.functional.jacobian(lambda x: x, 3)
torch.autograd.functional.jacobian(lambda x,y: x*2, (x.detach(),s.detach()))
torch.autograd.functional.jacobian(lambda x,y: x*2, (x.detach(),s.detach()), strict=True)
j=torch.autograd.functional.jacobian(lambda x: x**3, x, create_graph=True); j.sum().backward(); x.grad
torch.autograd.functional.hessian(lambda x: (x**3).sum(), x.detach())
torch.autograd.functional.hessian(lambda x,y: (x**2*y).sum(), (x.detach(),s.detach()))
torch.autograd.functional.hessian(lambda x: x**3, x.detach())
torch.autograd.functional.hessian(lambda x: x.sum(), x.detach())
torch.autograd.functional.hessian(lambda x: (x**3).sum(), x.detach(), vectorize=True)
torch.autograd.functional.vjp(lambda x: x**2, x.detach(), torch.ones(3))
torch.autograd.functional.vjp(lambda x: (x**2).sum(), x.detach())
torch.autograd.functional.vjp(lambda x: x**2, x.detach())
torch.autograd.functional.vjp(lambda x: x**2, x.detach(), torch.ones(2))
torch.autograd.functional.vjp(lambda x,y: (x*y,x), (x.detach(),s.detach()), (torch.ones(3),torch.ones(3)))
torch.autograd.functional.vjp(lambda x: torch.ones(3), x.detach(), torch.ones(3))
torch.autograd.functional.vjp(lambda x: torch.ones(3), x.detach(), torch.ones(3), strict=True)
torch.autograd.functional.jvp(lambda x: x**2, x.detach(), torch.ones(3))
torch.autograd.functional.jvp(lambda x: x**2, x.detach())
torch.autograd.functional.jvp(lambda x: x**2, s.detach())
torch.autograd.functional.jvp(lambda x,y: (x*y,x), (x.detach(),s.detach()), (torch.ones(3),torch.ones(())))
torch.autograd.functional.jvp(lambda x: x**2, x.detach(), torch.ones(2))
torch.autograd.functional.vhp(lambda x: (x**3).sum(), x.detach(), torch.ones(3))
torch.autograd.functional.hvp(lambda x: (x**3).sum(), x.detach(), torch.ones(3))
torch.autograd.functional.vhp(lambda x,y: (x**3*y).sum(), (x.detach(),s.detach()),
      (torch.ones(3),torch.ones(())))
torch.autograd.functional.hvp(lambda x,y: (x**3*y).sum(), (x.detach(),s.detach()),
      (torch.ones(3),torch.ones(())))
torch.autograd.functional.hvp(lambda x: x**3, x.detach(), torch.ones(3))
torch.autograd.functional.hvp(lambda x: x.sum(), x.detach(), torch.ones(3))
v=torch.tensor([1.,2.,-1.],requires_grad=True)
  r=torch.autograd.functional.jvp(lambda x: x**2, x, v, create_graph=True)[1]; r.sum().backward(); [r, v.grad, x.grad]
v=torch.tensor([1.,2.,-1.],requires_grad=True)
  r=torch.autograd.functional.vjp(lambda x: x**2, x, v, create_graph=True)[1]; r.sum().backward(); [r, v.grad, x.grad]
v=torch.tensor([1.,2.,-1.],requires_grad=True)
  r=torch.autograd.functional.vhp(lambda x: (x**3).sum(), x, v, create_graph=True)[1]
  r.sum().backward(); [r, v.grad, x.grad]
v=torch.tensor([1.,2.,-1.],requires_grad=True)
  r=torch.autograd.functional.hvp(lambda x: (x**3).sum(), x, v, create_graph=True)[1]
  r.sum().backward(); [r, v.grad, x.grad]
v=torch.ones(3,requires_grad=True); torch.autograd.functional.jvp(lambda x: x*2, x, v, create_graph=True)
v=torch.ones(3,requires_grad=True); torch.autograd.functional.jvp(lambda x: x*2, x, v)
v=torch.ones(2,requires_grad=True)
  exec("with torch.no_grad(): r=torch.autograd.functional.jvp(lambda x: x[:2]*2, w, v, create_graph=True)"); r
torch.autograd.functional.jacobian(lambda x: x, x.detach(), strategy="foo")
torch.autograd.functional.jacobian(lambda x: x, x.detach(), strategy="forward-mode")
torch.autograd.functional.jacobian(lambda x: x, x.detach(), vectorize=True, strict=True)
torch.autograd.functional.jacobian(lambda x: x**2, x.detach(), create_graph=True, strict=True)
torch.autograd.functional.jacobian(lambda x: x*2, x.detach(), create_graph=True, strict=True)
torch.autograd.functional.hessian(lambda x: x.sum(), x.detach(), strict=True)
torch.autograd.functional.hessian(lambda x: (x**3).sum(), x.detach(), strict=True)
torch.autograd.functional.hessian(lambda x,y: (x**2).sum(), (x.detach(),x.detach()), strict=True)
torch.autograd.functional.hessian(lambda x: (x**3).sum(), x.detach(), vectorize=True, strict=True)
torch.autograd.functional.hessian(lambda x: (x**3).sum(), x.detach(), outer_jacobian_strategy="forward-mode")
torch.autograd.functional.hessian(lambda x: (x**3).sum(), x.detach(), outer_jacobian_strategy="foo")
torch.autograd.functional.hessian(lambda x: (x.sum(),x.sum()), x.detach())
y=x.detach().requires_grad_(); h=torch.autograd.functional.hessian(lambda x: (x**4).sum(), y, create_graph=True)
  h.sum().backward(); [h,y.grad]
torch.autograd.functional.vjp(lambda x: x*2, x.detach(), torch.ones(3), create_graph=True, strict=True)
torch.autograd.functional.jvp(lambda x: x*2, x.detach(), torch.ones(3), create_graph=True, strict=True)
torch.autograd.functional.jvp(lambda x: x**2, x.detach(), (torch.ones(3),torch.ones(3)))
torch.autograd.functional.jvp(lambda x,y: x*y, (x.detach(),x.detach()), (torch.ones(3),torch.ones(2)))
torch.autograd.functional.vhp(lambda x: x.sum(), x.detach(), torch.ones(3), strict=True)
torch.autograd.functional.vhp(lambda x: (x**3).sum(), x.detach(), torch.ones(3), strict=True)
torch.autograd.functional.hvp(lambda x: x.sum(), x.detach(), torch.ones(3), strict=True)
torch.autograd.functional.hvp(lambda x: (x**2).sum(), x.detach(), (torch.ones(3),torch.ones(3)))
torch.autograd.functional.hvp(lambda x: x, (x.detach(),), torch.ones(3))
torch.autograd.gradcheck(lambda x: x**2, (x.double(),))
torch.autograd.gradcheck(lambda x: x**2, (x.detach().double().requires_grad_(),))
torch.autograd.gradcheck(lambda x,y: (x*y, x.sin()),
      (x.detach().double().requires_grad_(),w.detach().double().requires_grad_()))
torch.autograd.gradcheck(lambda x: x*x.detach(), (x.detach().double().requires_grad_(),))
torch.autograd.gradcheck(lambda x: x*x.detach(), (x.detach().double().requires_grad_(),), raise_exception=False)
torch.autograd.gradcheck(lambda x: x**2, (x.detach(),))
torch.autograd.gradcheck(lambda x: x**2, x.detach().double().requires_grad_())
torch.autograd.gradcheck(lambda x: (x*(2+1j)),
      (torch.tensor([1+2j,3-1j],dtype=torch.complex128,requires_grad=True),))
torch.autograd.gradcheck(lambda x: x.abs(),
      (torch.tensor([1+2j,3-1j],dtype=torch.complex128,requires_grad=True),))
torch.autograd.gradgradcheck(lambda x: x**3, (x.detach().double().requires_grad_(),))
torch.autograd.gradcheck(lambda x: x.exp().sum(), (x.detach().double().requires_grad_(),),
      check_forward_ad=False, fast_mode=True)
isinstance((x*2).grad_fn, torch.autograd.graph.Node), isinstance(x, torch.autograd.graph.Node)
e=torch.autograd.graph.get_gradient_edge(x*2); [e.node.name(), e.output_nr]
e=torch.autograd.graph.get_gradient_edge(x); e.node.name()
torch.autograd.graph.get_gradient_edge(c)
y=x*2; e=torch.autograd.graph.get_gradient_edge(y); torch.autograd.grad((y**2).sum(), e)
y=x*2; z=(y**2).sum(); e=torch.autograd.graph.get_gradient_edge(z); torch.autograd.grad(e, x, torch.ones(()))
v=c._version; torch.autograd.graph.increment_version(c); c._version-v
l=[]; y=x*2; z=x*3
  h=torch.autograd.graph.register_multi_grad_hook((y,z),
      lambda gs:l.append([None if g is None else g.tolist() for g in gs]))
  (y+z).sum().backward(); l
l=[]; y=x*2; z=x*3
  h=torch.autograd.graph.register_multi_grad_hook((y,z),
      lambda gs:l.append([None if g is None else g.tolist() for g in gs]))
  y.sum().backward(); l
l=[]; y=x*2; z=x*3
  h=torch.autograd.graph.register_multi_grad_hook((y,z),lambda g:l.append(g.tolist()),mode="any")
  (y+z).sum().backward(); l
torch.is_anomaly_enabled()
torch.autograd.set_detect_anomaly(True); r=torch.is_anomaly_enabled()
  torch.autograd.set_detect_anomaly(False); [r,torch.is_anomaly_enabled(),torch.is_anomaly_check_nan_enabled()]
with torch.autograd.set_detect_anomaly(True): y=torch.sqrt(x-x); z=(y*0).sum(); z.backward()
with torch.autograd.set_detect_anomaly(True): y=(x/0*0).sum(); y.backward()
torch.autograd.Variable(torch.ones(2)), torch.autograd.Variable(torch.ones(2),requires_grad=True)
v=torch.autograd.Variable(torch.ones(2),requires_grad=True); (v*2).sum().backward(); v.data-=v.grad.data
  v.grad.data.zero_(); [v,v.grad]
isinstance(x,torch.autograd.Variable), isinstance(3,torch.autograd.Variable)
torch.autograd.Variable(torch.ones(2),volatile=True)
torch.autograd.Variable([1])
torch.autograd.Variable(x) is x
torch.autograd.Variable()
v=torch.autograd.Variable(c); v[0]=5; c
torch.autograd.grad_mode.no_grad is torch.no_grad, torch.autograd.enable_grad is torch.enable_grad,
      torch.autograd.inference_mode is torch.inference_mode
callable(torch.autograd.grad), callable(torch.autograd.backward), torch.autograd.gradcheck.__name__
torch.no_grad().__enter__(); a=torch.is_grad_enabled(); torch.set_grad_enabled(True); a
"""


@pytest.mark.parametrize("code", programs.cases(FUNCTIONAL))
def test_functional(code: str) -> None:
    programs.check(code)
