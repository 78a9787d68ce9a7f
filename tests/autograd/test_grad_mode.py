"""Grad modes: as contexts, decorators and calls, nested, in generators and threads."""

from __future__ import annotations

import programs
import pytest

MODES = r"""
f=torch.no_grad()(lambda: torch.is_grad_enabled()); [f(), torch.is_grad_enabled()]
f=torch.no_grad(lambda: torch.is_grad_enabled()); [f(), f.__name__]
f=torch.enable_grad()(lambda: torch.is_grad_enabled()); torch.set_grad_enabled(False)
  r=[f(),torch.is_grad_enabled()]; torch.set_grad_enabled(True); r
f=torch.set_grad_enabled(False)(lambda: torch.is_grad_enabled()); [f(), torch.is_grad_enabled()]
f=torch.inference_mode()(lambda: (torch.is_grad_enabled(),torch.is_inference_mode_enabled()))
  [f(), torch.is_inference_mode_enabled()]
f=torch.inference_mode(lambda: torch.is_inference_mode_enabled()); f()
with torch.no_grad(): r=[torch.is_grad_enabled(), (x*2).requires_grad, (x*2).is_leaf,
      torch.ones(2,requires_grad=True).requires_grad]
r=[]
  exec("with torch.no_grad():\n  r.append(torch.is_grad_enabled())\n"
  "  with torch.enable_grad(): r.append(torch.is_grad_enabled())\n  r.append(torch.is_grad_enabled())\n"
  "  with torch.set_grad_enabled(True): r.append((x*2).requires_grad)\n  r.append(torch.is_grad_enabled())")
  r
r=[]
  exec("with torch.inference_mode():\n  y=x*2\n  r.append((torch.is_grad_enabled(),
      torch.is_inference_mode_enabled(),
      y.requires_grad))\n  with torch.enable_grad(): r.append((torch.is_grad_enabled(),
      (x*2).requires_grad))\n  with torch.inference_mode(False): r.append((torch.is_grad_enabled(),
      torch.is_inference_mode_enabled(),(x*2).requires_grad))")
  r
exec("try:\n  with torch.no_grad(): raise ValueError\nexcept ValueError: pass"); torch.is_grad_enabled()
g=torch.no_grad()((lambda: (yield torch.is_grad_enabled()))); it=g(); [next(it), torch.is_grad_enabled()]
exec("@torch.no_grad()\ndef gen():\n  a = yield torch.is_grad_enabled()\n  b = yield (a,
      torch.is_grad_enabled())\n  return 5")
  it=gen(); [next(it), torch.is_grad_enabled(), it.send(3)]
r=[]
  exec("@torch.no_grad()\ndef gen():\n  while True:\n    try: yield torch.is_grad_enabled()\n"
      "    except ValueError as e: r.append((e.args, torch.is_grad_enabled()))\n"
      "    except GeneratorExit: r.append(torch.is_grad_enabled()); raise")
  it=gen(); next(it); r.append(it.throw(ValueError("a"))); it.close(); [r, torch.is_grad_enabled()]
exec("@torch.no_grad()\ndef gen():\n  yield 1"); it=gen(); next(it); it.throw(KeyError("a"))
exec("@torch.no_grad()\ndef gen():\n  try: yield 1\n  except KeyError: return 7")
  it=gen(); next(it); it.throw(KeyError("a"))
exec("class A:\n  @torch.no_grad()\n  def f(self, k): return (k, torch.is_grad_enabled())"); A().f(3)
exec("@torch.no_grad()\nclass A:\n  def __init__(self): self.g=torch.is_grad_enabled()"); A().g
torch.set_grad_enabled(False); a=(x*2).requires_grad; torch.set_grad_enabled(True); [a,(x*2).requires_grad]
repr(torch.set_grad_enabled(True)).split(".")[-1]
torch.set_grad_enabled(mode=True).mode
import threading; r=[]; torch.set_grad_enabled(False)
  t=threading.Thread(target=lambda: r.append(torch.is_grad_enabled())); t.start(); t.join()
  torch.set_grad_enabled(True); r
exec("with torch.autograd.set_grad_enabled(False): a=torch.is_grad_enabled()"); [a, torch.is_grad_enabled()]
exec("with torch.autograd.no_grad() as q: a=torch.is_grad_enabled()"); [a,q]
y=torch.inference_mode().__class__.__name__; y
x.requires_grad_(False); (x*2).requires_grad
exec("with torch.no_grad(): x.mul_(2); y=x.view(3)"); [x, y.requires_grad, x._version]
exec("with torch.no_grad(): x[0]=5"); x
exec("with torch.no_grad(): w.copy_(torch.zeros(2,3)); w += 1; w.data.mul_(3)"); w
exec("with torch.no_grad():\n  for p in [x,w]: p -= 0.1 * torch.ones_like(p)"); [x,w]
torch.autograd.inference_mode(mode=False).mode
exec("@torch.inference_mode()\ndef f(t): return t*2"); f(x).requires_grad
with torch.no_grad(): v=w.view(6)
v=None; exec("with torch.no_grad(): v=w.view(6)"); [v, v.is_leaf, (v*2).requires_grad]
exec("with torch.no_grad(): v=[w[0],w[[0]],w.t(),w*1,w.unbind(0)[0],w.detach(),w.data]")
  [t.requires_grad for t in v]
exec("with torch.no_grad(): v=w.numpy(), w[0].numpy()"); v
w.numpy()
"""


@pytest.mark.parametrize("code", programs.cases(MODES))
def test_modes(code: str) -> None:
    programs.check(code)
