"""Arguments of the wrong type or number: torch's exception, and its text where torch has one plain sentence."""

from __future__ import annotations

import subprocess
import sys
import traceback
import warnings

import programs
import pytest
import torch

import functorch_port as ft

SAME_TEXT = [
    "lib.cat(x)",
    "lib.cat([x, 1])",
    "lib.cat([x], dim='a')",
    "lib.stack(x)",
    "lib.add(x, 'a')",
    "lib.maximum(x, 1)",
    "lib.atan2(x, 1.0)",
    "lib.matmul(x)",
    "lib.matmul(x, 1)",
    "lib.mm(x, 2)",
    "lib.sum(1.0)",
    "lib.gather(x, 0, 1)",
    "lib.scatter_add(x, 0, i, 2)",
    "x @ 1",
    "1 @ x",
    "x + 'a'",
    "x.permute()",
    "x.expand()",
    "x.repeat()",
    "x.flip()",
    "x.topk()",
    "x.reshape()",
    "x.argmax(dim=0.5)",
]

SAME_TYPE = [
    "lib.round(x, decimals=1.5)",
    "x.sum(foo=1)",
    "x.sum('a')",
    "x.sum(0, 1)",
    "x.view()",
    "x.view('a')",
    "x.clamp('a')",
    "x.pow('a')",
    "x.max('a')",
    "x.chunk()",
    "x.transpose(0)",
    "x.squeeze('a')",
    "x.masked_fill(x > 0, 'a')",
    "lib.where(True, x, x)",
    "x.t(1)",
]


def _outcome(lib, text):
    scope = {"lib": lib, "x": lib.ones(2, 3), "i": lib.tensor([[0]])}
    try:
        eval(text, scope)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("text", [*SAME_TEXT, *SAME_TYPE])
def test_refused_as_torch_does(text):
    theirs, ours = _outcome(torch, text), _outcome(ft, text)
    assert type(ours) is type(theirs), f"{ours!r}, torch: {theirs!r}"
    if text in SAME_TEXT:
        assert str(ours) == str(theirs)


PROGRAMS = """
b=torch.zeros(3,dtype=torch.bool); b.index_put_((torch.tensor([0,0]),),torch.tensor([True,False]),accumulate=True)
torch.zeros(3,dtype=torch.bool).put_(torch.tensor([0,0]),torch.tensor([True,True]),accumulate=True)
torch.zeros(3,dtype=torch.bool).index_add_(0,torch.tensor([0,0]),torch.tensor([True,True]))
torch.zeros(3,dtype=torch.bool).scatter_add_(0,torch.tensor([0,0]),torch.tensor([True,False]))
[torch.ones(3,dtype=torch.bool).scatter(0,torch.tensor([0,0]),torch.tensor([True,False]),reduce=r) for r in ("add",
      "multiply")]
[torch.ones(3,dtype=torch.bool).scatter_reduce(0,torch.tensor([0,0]),torch.tensor([True,False]),r) for r in ("sum",
      "prod","amax","amin")]
torch.zeros(3,dtype=torch.bool).scatter_reduce(0,torch.tensor([0,0]),torch.tensor([True,True]),"mean")
torch.zeros(3,dtype=torch.bool).index_reduce(0,torch.tensor([0,0]),torch.tensor([True,True]),"prod")
torch.zeros(3,dtype=torch.bool).index_reduce(0,torch.tensor([0,0]),torch.tensor([True,True]),"amax")
torch.ones(3).index_put([],torch.tensor(1.))
torch.nn.functional.nll_loss(torch.ones(3),torch.tensor([1,2]))
torch.nn.functional.cross_entropy(torch.ones(3),torch.tensor([1,2]))
torch.nn.functional.nll_loss(torch.ones(3),torch.tensor([1]))
i[torch.tensor(2,dtype=torch.uint8)]
i[torch.tensor(0,dtype=torch.uint8)]
i[torch.tensor(1,dtype=torch.uint8)]=7; i
u=torch.zeros(3,dtype=torch.uint8); u[torch.tensor([0])]=True; u
u=torch.zeros(3,dtype=torch.uint8); u[True]=7; u
torch.isin(torch.tensor([True,False]),torch.tensor([True]))
torch.isin(torch.tensor([1,0]),torch.tensor([True]))
torch.isin(torch.tensor([1j]),torch.tensor([1j]))
torch.isin(i,torch.tensor([2,3]))
torch.nn.functional.cosine_similarity(c,c,eps=-1.)
torch.logit(c/12,eps=.7)
torch.use_deterministic_algorithms(True); torch.zeros(3).put_(torch.tensor([0]),torch.tensor([1.]))
torch.use_deterministic_algorithms(True); torch.zeros(3).put(torch.tensor([0]),torch.tensor([1.]))
torch.use_deterministic_algorithms(True); torch.zeros(3).put_(torch.tensor([0]),torch.tensor([1.]),accumulate=True)
torch.use_deterministic_algorithms(True); torch.nn.functional.max_unpool1d(torch.ones(1,1,2),torch.tensor([[[1,2]]]),2)
torch.use_deterministic_algorithms(True)
  torch.nn.functional.max_unpool3d(torch.ones(1,1,1,1,1),torch.tensor([[[[[1]]]]]),2)
torch.use_deterministic_algorithms(True,warn_only=True); torch.zeros(3).put_(torch.tensor([0]),torch.tensor([1.]))
s=torch.ones(3).untyped_storage(); [s.size(), len(s), s.nbytes(), s.element_size(), s.tolist(), s[3]]
s=torch.ones(3)[1:].storage(); [s.size(), len(s), s.nbytes(), s.element_size(), s.tolist(), s[1], list(s), str(s.dtype)]
[torch.is_storage(torch.ones(3).storage()), torch.is_storage(torch.ones(3).untyped_storage()), torch.is_storage(1)]
torch.zeros(1<<62)
torch.zeros(1<<32,1<<32)
"""


@pytest.fixture
def nondeterministic_after():
    yield
    for library in (torch, ft):
        library.use_deterministic_algorithms(False)


@pytest.mark.parametrize("code", programs.cases(PROGRAMS))
def test_programs(code, nondeterministic_after):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        programs.check(code)


def test_a_warning_in_place_of_the_alert(nondeterministic_after):
    ft.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="put_ does not have a deterministic implementation"):
        ft.zeros(3).put_(ft.tensor([0]), ft.tensor([1.0]))


HUGE = """
torch.empty(n); torch.zeros(n); torch.ones(n); torch.full((n,),3.); torch.randn(n); torch.rand(n); torch.arange(n)
torch.linspace(0,1,n); torch.logspace(0,1,n); torch.eye(1<<25); torch.randperm(n); torch.randint(0,3,(n,))
torch.ones(1).new_zeros(n); torch.nn.Linear(1<<30,1<<30); torch.tril_indices(1<<26,1<<26); torch.hann_window(n)
torch.empty_like(torch.zeros(1).expand(n)); torch.empty(n//2,2,dtype=torch.int8)
"""


@pytest.mark.parametrize(
    "code", [part.strip() for part in HUGE.replace("\n", ";").split(";") if part.strip()]
)
def test_there_is_no_room(code):
    """PyTorch raises the same, but takes what the system promises."""
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        eval(code, {"torch": ft, "n": 1 << 50})


@pytest.mark.parametrize("size", [1 << 63, 10**30])
def test_sizes_of_more_than_64_bits(size):
    with pytest.raises(
        TypeError, match=r"zeros\(\): argument 'size' failed to unpack .*Overflow when unpacking long"
    ):
        ft.zeros(size)


def test_the_class_of_tensors():
    assert type(ft.Tensor) is ft._C._TensorMeta and type(torch.Tensor) is torch._C._TensorMeta


def test_sparse_methods_are_there_at_once():
    code = "import functorch_port as T, sys; assert 'functorch_port._run.sparse' not in sys.modules; "
    code += "assert T.eye(2).to_sparse().coalesce().values().tolist() == [1, 1] and T.ones(2).to_dense().sum() == 2"
    subprocess.run([sys.executable, "-c", code], check=True)


NOT_OURS = """
torch.fmod(x, x.to(torch.complex64))
torch.ceil(x.to(torch.complex64))
torch.nn.functional.multilabel_soft_margin_loss(torch.ones(5), torch.ones(7))
torch.bitwise_and(None, i)
torch.broadcast_tensors(None)
torch.atleast_1d([1.0, 2.0])
torch.triangular_solve(torch.ones(2, 2), torch.eye(2).double())
"""


@pytest.mark.parametrize("code", programs.cases(NOT_OURS))
def test_errors_of_jax_and_python_are_pytorchs(code):
    theirs, ours = (programs.run(library, code)[1] for library in (torch, ft))
    assert type(ours) is type(theirs) and "JAX" not in str(ours)


@pytest.mark.parametrize(
    "code", ["c @ torch.ones(3, 3)", "c + torch.ones(7)", "c.sum(5)", "torch.fmod(c, c + 1j)"]
)
def test_no_error_ends_with_a_notice_of_jax(code):
    error = programs.run(ft, code)[1]
    assert "JAX" not in traceback.format_exception(error)[-1]
    assert not any("JAX" in note for note in getattr(error, "__notes__", []))


COMPLEX = """
torch.clamp(z, 0, 1)
torch.clamp(c[0, :2], min=z)
torch.clamp_min(z, z)
torch.clamp_max(z, z)
torch.fmax(z, z)
torch.fmin(z, z)
torch.xlogy(z, z)
torch.special.xlog1py(z, z)
torch.atan2(z, z)
torch.deg2rad(z)
torch.rad2deg(z)
torch.amax(z)
torch.amin(z)
torch.aminmax(z)
torch.nansum(z)
torch.cummax(z, 0)
torch.cummin(z, 0)
torch.sort(z)
torch.argsort(z)
torch.msort(z)
torch.topk(z, 1)
torch.kthvalue(z, 1)
torch.mode(z)
torch.bucketize(z, c[0])
torch.unique(z)
torch.nn.functional.mse_loss(z, z)
torch.nn.functional.smooth_l1_loss(z, z)
"""


@pytest.mark.parametrize("code", programs.cases(COMPLEX))
def test_complex_numbers_have_no_order(code):
    programs.check(code, programs.PRELUDE + "z = torch.tensor([1 + 2j, 3 - 1j])\n")
