"""``__torch_function__`` of subclasses, other classes and modes: what they are told and what becomes of it."""

from __future__ import annotations

import copy
import operator
import pickle
import subprocess
import sys
import threading
import warnings

import pytest
import torch

import functorch_port as T

warnings.filterwarnings("ignore", message=".*torch.lu is deprecated.*")


def given(library):
    """The arguments of the expressions below, in one library, and the list of what was heard of."""
    heard = []

    def note(func, types, args, kwargs):
        name = library.overrides.resolve_name(func) or func.__name__
        if not name.endswith("grad_fn.__get__"):  # which PyTorch's own C++ asks for
            words = kwargs if kwargs is None else sorted(kwargs)
            heard.append((name, [t.__name__ for t in types], len(args), words))

    class Sub(library.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            note(func, types, args, kwargs)
            return super().__torch_function__(func, types, args, kwargs)

    class SubSub(Sub):
        pass

    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            note(func, types, args, kwargs)
            return 42

    class Mode(library.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            note(func, types, args, kwargs)
            return func(*args, **(kwargs or {}))

    return dict(
        torch=library, F=library.nn.functional, Tensor=library.Tensor, Sub=Sub, SubSub=SubSub, Mode=Mode, heard=heard,
        x=library.ones(2, 2).as_subclass(Sub), y=library.ones(2, 2).as_subclass(SubSub), p=library.ones(2, 2), d=Duck(),
        i=library.ones(2, 2, dtype=library.int64).as_subclass(Sub), n=library.ones(2, 2, dtype=library.int64),
        par=library.nn.Parameter(library.ones(2, 2)), copy=copy, operator=operator,
    )  # fmt: skip


def kind(value):
    if isinstance(value, tuple | list):
        return [kind(v) for v in value]
    return type(value).__name__


def seen(library, expression, mode=False):
    """Of what class the result is, or which error there is, and what was heard of."""
    names = given(library)
    names["heard"].clear()
    try:
        if mode:
            with names["Mode"]():
                result = eval(expression, names)
        else:
            result = eval(expression, names)
        found = kind(result)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    return found, names["heard"]


def check(expression, mode=False):
    ours, theirs = seen(T, expression, mode), seen(torch, expression, mode)
    assert ours == theirs, expression


OPERATORS = """
x+1 1+x x-1 1-x x*2 2*x x/2 2/x x//2 2//x x%2 2%x x**2 2**x x@p p@x p+x x+y y+x p-x p**x x==1 x!=p x<1 x>=p -x +x
abs(x) ~i i&1 1&i i|1 1|i i^i 1^i i<<1 1<<i i>>1 1>>i x[0] x[:,None] x[x>0] p[i] x[n] x@d d@x d+x x+d x-d d-x x*d x/d
x//d x**d x%d x<d x[d] p+d d+p p-d d-p p<d p[d] p**d p@d d/p operator.iadd(x,1) operator.isub(x,p) operator.imul(x,2)
operator.itruediv(x,2) operator.ifloordiv(x,2) operator.imod(x,2) operator.ipow(x,2) operator.iadd(p,x)
operator.iand(i,1) operator.ior(i,1) operator.ixor(i,1) operator.ilshift(i,1) operator.iadd(p,d) operator.isub(p,d)
operator.setitem(x,0,1) operator.setitem(x,0,p[0]) operator.setitem(p,0,d) len(x) bool(x[0,0]) float(x[0,0])
int(x[0,0]) (1.in(x)) list(x) reversed(x) repr(x) format(x) operator.index(i[0,0])
""".replace("(1.in(x))", "").split()

METHODS = """
x.neg() x.abs() x.sum() x.mean() x.t() x.contiguous() x.clone() x.detach() x.cpu() x.float() x.long() x.numpy()
x.tolist() x.dim() x.size() x.size(0) x.numel() x.stride() x.is_contiguous() x.nonzero() x.flatten() x.relu()
x.sort() x.max() x.max(0) x.std() x.norm() x.det() x.type() x.is_floating_point() x.requires_grad_() x.zero_() x.exp_()
x.unique() x.new_zeros(2) x.view(4) x.reshape(4) x.permute(1,0) x.expand(2,2,2) x.to(torch.float64) x.split(1)
x.chunk(2) x.unbind() x.unflatten(0,(1,2)) x.pow(2) x.softmax(0) x.index_put_((n[0],),p[0]) x.as_subclass(Tensor)
p.add(d) p.add_(d) p.expand_as(d) p.copy_(d) p.type_as(d) p.where(p>0,d) p.view_as(d) p.eq(d) p.matmul(d)
p.masked_fill(p>0,d) p.gather(0,d) p.clamp(d) p.mul_(d) p.equal(d) p.pow(d) x.equal(p) p.add(x) p.copy_(x)
""".split()

PROPERTIES = """
x.shape x.dtype x.device x.grad setattr(x,'grad',p) setattr(p,'grad',x) x.data setattr(x,'data',p) x.requires_grad
setattr(x,'requires_grad',True) x.is_leaf x.T x.mT x.real x.ndim x.is_cuda x.layout
""".split()

FUNCTIONS = """
torch.add(d,1) torch.add(p,d) torch.add(p,d,alpha=2) torch.sum(d) torch.sum(d,dim=0) torch.cat([p,d])
torch.stack((p,d),dim=0) torch.where(p>0,d,p) torch.matmul(d,p) torch.einsum('ij->i',d) torch.split(d,1)
torch.zeros_like(d) torch.rand_like(d) torch.numel(d) torch.is_floating_point(d) torch.unique(d)
torch.broadcast_tensors(p,d) torch.max(d) torch.max(d,0) torch.topk(d,1) torch.reshape(d,(1,)) torch.allclose(p,d)
torch.normal(d,1.) torch.result_type(d,1) torch.detach(d) torch.cdist(d,p) torch.tensor(d) torch.as_tensor(d)
torch.is_tensor(d) torch.linalg.det(d) torch.linalg.solve(p,d) torch.linalg.multi_dot([p,d]) torch.fft.fft(d)
torch.fft.fftshift(d) torch.special.expit(d) torch.special.xlogy(d,p) F.relu(d) F.relu(d,inplace=True) F.softmax(d,-1)
F.softmax(d,dim=-1) F.linear(d,p) F.linear(p,p,d) F.conv2d(d,p) F.gelu(d) F.dropout(d,0.5)
F.dropout(d,training=False) F.layer_norm(p,(2,),d) F.batch_norm(d,p,p) F.mse_loss(d,p) F.mse_loss(p,d)
F.cross_entropy(d,p) F.embedding(i,d) F.pad(d,(1,1)) F.interpolate(d,scale_factor=2) F.max_pool2d(d,2)
F.avg_pool2d(d,2) F.scaled_dot_product_attention(d,p,p) F.sigmoid(d) F.one_hot(d) F.hardswish(d) torch.relu(d)
torch.nn.Linear(2,2)(d) torch.nn.ReLU()(d) torch.nn.init.xavier_uniform_(par) torch.tensor(x) torch.ones_like(x)
torch.result_type(x,1) torch.numel(x) F.mse_loss(x,p) F.mse_loss(p,x) F.mse_loss(p,y) F.mse_loss(x,y) F.linear(p,x)
F.cross_entropy(x,n[0]) torch.add(x,y) torch.add(y,x) torch.add(p,x,out=p) torch.add(p,p,out=x) par+1 par*x
F.linear(x,par) torch.nn.Parameter(x) torch.nn.Parameter(x)+1 torch.nn.Buffer(x) Sub(x) Sub([1.,2.]) Sub(2,3) Sub()
Tensor(x) copy.copy(x) Tensor._make_subclass(Sub,p) torch.fft.fft(x) torch.linalg.norm(x) torch.linalg.eigh(x)
torch.special.expit(x) torch.sort(x) torch.atleast_1d(x,p)
""".split()


@pytest.mark.parametrize(
    "group", [OPERATORS, METHODS, PROPERTIES, FUNCTIONS], ids="operators methods properties functions".split()
)
def test_overrides_hear_what_they_hear_in_pytorch(group):
    for expression in group:
        check(expression)


@pytest.mark.parametrize(
    "group",
    [
        "torch.ones(2) torch.tensor([1.]) torch.zeros(2) torch.arange(3) torch.rand(2) torch.as_tensor([1.])",
        "torch.eye(2) torch.full((2,),1) torch.linspace(0,1,3) torch.is_tensor(p) torch.broadcast_shapes((1,),(2,)) ",
        "torch.randperm(3) p+1 1-p p.shape par.shape F.relu(p) F.linear(p,p) F.softmax(p,-1) p[0] torch.sin(p) p.neg()",
        "p.sum() p.dim() x+1 torch.cat([p,p]) repr(p) p.detach() torch.nn.Parameter(p) d+p F.relu(d)",
        "len(p) p.grad p.clone() par+1",
    ],
)  # fmt: skip
def test_modes_hear_what_they_hear_in_pytorch(group):
    for expression in group.split():
        check(expression, mode=True)


TABLE = """
add, method, shape, softmax = library.add, library.Tensor.add, library.Tensor.shape.__get__, F.softmax
table = {library.add: "add", library.Tensor.add: "method", library.Tensor.shape.__get__: "shape", F.softmax: "softmax",
         library.linalg.det: "det", F.conv2d: "conv2d", library.Tensor.copy_: "copy_", library.Tensor.matmul: "@"}
class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return table.get(func, NotImplemented)
p, d = library.ones(2, 2), Duck()
def said(call):
    try:
        return call()
    except TypeError as error:
        return str(error).split(";")[0]
"""
FIRST_CALLS = (
    "F.softmax(d, -1)", "library.sin(d)", "library.add(p, d)", "p + d", "d + p", "library.linalg.det(d)", "p[d]",
    "F.conv2d(d, p)", "p.add(d)", "p.sub_(d)", "p.copy_(d)", "p @ d", "p ** d", "F.gelu(d)", "p.expand_as(d)",
)  # fmt: skip
LATER = """
class Sub(library.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return table.get(func, NotImplemented)
print(p.as_subclass(Sub).shape, add is library.add, method is library.Tensor.add, softmax is F.softmax)
print(shape == library.Tensor.shape.__get__, F.conv2d is library.conv2d, library.add is library.Tensor.add)
"""
FRESH = """
import os
import functorch_port as library
from functorch_port._tensor import overriding
F = library.nn.functional
F.relu(library.nn.Linear(2, 2)(library.ones(1, 2))).sum().backward()
plain = library.Tensor.size.__code__
class Mine(library.nn.Parameter): pass
print(overriding._active, type(Mine(library.ones(1)) + 1).__name__, flush=True)
"""


def test_the_first_object_that_overrides_is_noticed(capfd):
    """Whichever call it comes in: functions are what they were before, so a table of them that was made then holds."""
    forked = f"for call in {FIRST_CALLS!r}:\n    pid = os.fork()\n    if not pid:\n"
    forked += "        print(overriding._active, said(lambda: eval(call)), flush=True)\n"
    forked += "        os._exit(0)\n    os.waitpid(pid, 0)\n"
    code = f"{FRESH}{TABLE}{forked}{LATER}print(overriding._active, library.Tensor.size.__code__ is plain)"
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    names = {"library": torch, "F": torch.nn.functional}
    exec(TABLE, names)
    theirs = [f"False {names['said'](lambda: eval(call, names))}" for call in FIRST_CALLS]  # noqa: B023
    capfd.readouterr()
    exec(LATER, names)
    theirs += capfd.readouterr().out.splitlines()
    assert run.stdout.splitlines() == ["False Tensor", *theirs, "True False"], run.stderr


def test_subclasses_stay_what_they_are():
    def run(library):
        class Sub(library.Tensor):
            pass

        x = Sub([[1.0, 2.0], [3.0, 4.0]])
        values, indices = x.max(0)
        layer = library.nn.Linear(2, 2)
        layer.weight = library.nn.Parameter(x / 10)
        out = layer(library.ones(1, 2))
        out.sum().backward()
        optimizer = library.optim.SGD(layer.parameters(), 0.1, momentum=0.9)
        optimizer.step()
        layer.load_state_dict(layer.state_dict())
        return [
            *map(kind, (x + 1, 1 - x, x[0], x.T, x.sum(), values, indices, list(x), x.split(1), x.data, x.detach())),
            *map(kind, (library.cat([x, library.ones(1, 2)]), library.zeros_like(x), x.double(), x.new_ones(2))),
            *map(kind, (copy.copy(x), layer.weight, out, layer.weight.grad, layer.state_dict()["weight"])),
            kind(layer.double().weight),
            kind(library.func.functional_call(layer, dict(layer.named_parameters()), x.double())),
            isinstance(layer.weight, library.nn.Parameter), [n for n, _ in layer.named_parameters()],
            repr(layer.weight[0, 0].detach() * 0), repr(x), x.add_(1) is x, (x * 2).tolist(),
            repr(library.nn.Parameter(x)), repr(library.nn.Parameter(Sub([1.0]), False)),
        ]  # fmt: skip

    assert run(T) == run(torch)


def test_parameters_are_of_their_own_class_or_marked():
    def run(library):
        P, Tensor = library.nn.Parameter, library.Tensor

        class Sub(Tensor):
            pass

        class Own(P):
            pass

        class Asked(P):
            __torch_function__ = classmethod(Tensor.__torch_function__.__func__)

        class Lost(Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return library._C._disabled_torch_function_impl(func, types, args, kwargs or {})

        own, asked, marked = Own(library.ones(2)), Asked(library.ones(2)), P(Sub([1.0]))
        errors = []
        for made in (
            lambda: P(library.ones(1).as_subclass(Lost)),
            lambda: P(library.ones(1, dtype=library.int32).as_subclass(Sub)),
        ):
            with pytest.raises(RuntimeError) as error:
                made()
            errors.append(str(error.value))
        return [
            *map(kind, (P(library.ones(2)) + 1, own, own + 1, asked + 1, asked.detach(), marked, marked + 1)),
            kind(marked.data), isinstance(marked, P), isinstance(marked, Own), isinstance(own, P),
            isinstance(library.ones(1), P), marked.is_leaf, repr(own), repr(marked), errors,
            kind(library.nn.Buffer(Sub([1.0]))), kind(library.ones(1).as_subclass(Lost) + 1),
        ]  # fmt: skip

    assert run(T) == run(torch)


def test_constructors_of_subclasses():
    def run(library):
        class ByNew(library.Tensor):
            def __new__(cls, data, label):
                made = super().__new__(cls, data)
                made.label = label
                return made

            def __init__(self, data, label):
                pass

        class ByMaking(library.Tensor):
            @staticmethod
            def __new__(cls, data, label=None):
                return library.Tensor._make_subclass(cls, data)

            def __init__(self, data, label=None):
                self.label = label

        x = library.ones(2)
        a, b = ByNew(x, "a"), ByMaking(x, "b")
        errors = []
        for make in (
            lambda: library.Tensor._make_subclass(ByNew, 3),
            lambda: library.Tensor._make_subclass(int, x),
            lambda: x.as_subclass(int),
        ):
            with pytest.raises(TypeError) as error:
                make()
            errors.append(str(error.value))
        a.add_(1)
        made = library.Tensor._make_subclass(ByMaking, x, True)
        return [
            a.label,
            b.label,
            kind(b + 1),
            hasattr(a + 1, "label"),
            x.tolist(),
            made.requires_grad,
            kind(made),
            errors,
        ]

    assert run(T) == run(torch)


def test_attributes_of_a_subclass_are_copied_and_pickled():
    x = Private([1.0, 2.0])
    x._unit, x.names_ = "m", ["a"]
    for again in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert (type(again), again._unit, again.names_, again.tolist()) == (Private, "m", ["a"], [1.0, 2.0])
    assert copy.deepcopy(x).names_ is not x.names_
    layer = T.nn.Module()
    layer.weight = T.nn.Parameter(x)
    again = copy.deepcopy(layer)
    assert type(again.weight) is Private and isinstance(again.weight, T.nn.Parameter)
    assert again.weight is not layer.weight and [*again.parameters()] == [again.weight]


class Private(T.Tensor):
    pass


def test_who_is_asked_first_and_what_nobody_takes():
    def run(library):
        said = []

        def of(name, base=object, answer=NotImplemented):
            def function(cls, func, types, args=(), kwargs=None):
                said.append((name, [t.__name__ for t in types]))
                return answer

            return type(name, (base,), {"__torch_function__": classmethod(function)})

        A, B = of("A"), of("B", answer="B")
        C = of("C", A)
        S = of("S", library.Tensor)
        plain = f"class '{library.Tensor.__module__}.Tensor'"
        p = library.ones(2)
        a, b, c, s = A(), B(), C(), p.as_subclass(S)
        for call in (
            lambda: library.add(a, b), lambda: library.add(b, a), lambda: library.add(a, c),
            lambda: library.cat([a, c, b]), lambda: library.add(p, s), lambda: library.add(p, a, alpha=b),
            lambda: p + a, lambda: a + p, lambda: s.shape,
            lambda: p.add_(a), lambda: library.nn.functional.relu(a), lambda: library.nn.functional.mse_loss(p, a),
            lambda: library.linalg.det(a), lambda: library.fft.fft(a), lambda: library.nn.functional.gelu(a),
            lambda: s[0], lambda: library.nn.functional.conv2d(a, p), lambda: p * a, lambda: p == s, lambda: s.sum(),
        ):  # fmt: skip
            try:
                said.append(call())
            except TypeError as error:
                said.append(str(error).replace(f"{__name__}.", "").replace(plain, "class 'Tensor'"))
        return said

    assert run(T) == run(torch)


def test_modes_are_a_stack_of_the_thread():
    def run(library):
        said = []

        class Named(library.overrides.TorchFunctionMode):
            def __init__(self, name, answer=None):
                super().__init__()
                self.name, self.answer = name, answer

            def __torch_function__(self, func, types, args=(), kwargs=None):
                said.append((self.name, func.__name__))
                return func(*args, **(kwargs or {})) if self.answer is None else self.answer

            def __repr__(self):
                return self.name

        class Sub(library.Tensor):
            pass

        p, s = library.ones(2), library.ones(2).as_subclass(Sub)
        with Named("outer") as outer, Named("inner"):
            said.append(kind(p + 1))
            said.append(kind(s.mul(2)))
            with library._C.DisableTorchFunctionSubclass():
                said.append(kind(s.mul(2)))
            with library._C.DisableTorchFunction():
                said.append(kind(s.mul(2)))
            thread = threading.Thread(target=lambda: said.append(kind(p.mul(2))))
            thread.start()
            thread.join()
        said.append(repr(outer))
        with Named("no", NotImplemented):
            for call in (lambda: p.mul(2), lambda: library.nn.functional.relu(p), lambda: s.mul(2)):
                try:
                    said.append(kind(call()))
                except TypeError as error:
                    said.append(str(error))
        with pytest.raises(ZeroDivisionError), Named("ends"):
            raise ZeroDivisionError
        said.append(kind(p + 1))
        with library._C.DisableTorchFunctionSubclass():
            said.append(kind(s + 1))
            said.append(library.overrides.has_torch_function((s,)))
        with library.overrides.BaseTorchFunctionMode():
            said.append(kind(library.ones(1) + s[0]))
            said.append(library.overrides.has_torch_function((p,)))
        with pytest.raises(NotImplementedError), library.overrides.TorchFunctionMode():
            library.ones(1)
        return said

    assert run(T) == run(torch)


def test_tools():
    def run(library):
        o, p = library.overrides, library.ones(2)

        class Sub(library.Tensor):
            pass

        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func.__name__, [t.__name__ for t in types], len(args), kwargs

        @o.wrap_torch_function(lambda x, k=1: (x,))
        def twice(x, k=1):
            return x * 2

        Tensor, F = library.Tensor, library.nn.functional
        functions = [
            library.add, Tensor.add, Tensor.shape.__get__, Tensor.grad.__set__, F.relu, F.gelu, F.conv2d,
            library.linalg.det, library.fft.fft, library.special.expit, library.split, library.ones,
            Tensor.__rsub__, Tensor.__getitem__,
        ]  # fmt: skip
        testing, ignored, grouped = (
            o.get_testing_overrides(),
            o.get_ignored_functions(),
            o.get_overridable_functions(),
        )
        with pytest.raises(TypeError) as error:
            o.handle_torch_function(len, (1,), 1)
        return [
            [o.resolve_name(f) for f in functions], o.resolve_name(print), [f.__name__ for f in functions],
            [o.is_tensor_method_or_property(f) for f in functions],
            [o.is_tensor_like(v) for v in (p, Sub(1), Duck(), 3, None, library.nn.Parameter(p))],
            [o.has_torch_function((v,)) for v in (p, Sub(1), Duck(), 3, library.nn.Parameter(p))],
            o.has_torch_function_unary(Duck()), o.has_torch_function_variadic(p, 1, Sub(1)),
            twice(p).tolist(), twice(Duck(), k=3), kind(twice(Sub([1.0]))), str(error.value),
            [f in testing for f in functions], testing[library.add](1, 2),
            [f in ignored for f in (library.ones, library.add)],
            library.fft.fft in grouped[library.fft], Tensor.add in grouped[Tensor], F.relu in grouped[F],
            F.relu in grouped[library],
        ]  # fmt: skip

    assert run(T) == run(torch)


def test_what_is_not_there_is_refused_by_name():
    class Dispatched(T.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    for make in (
        lambda: T.ones(2).as_subclass(Dispatched),
        lambda: T.Tensor._make_subclass(Dispatched, T.ones(2)),
        lambda: T.Tensor._make_wrapper_subclass(Dispatched, (2,)),
        lambda: Dispatched([1.0]),
    ):
        with pytest.raises(NotImplementedError, match="__torch_dispatch__"):
            make()
    undispatched = {"__torch_dispatch__": T._C._disabled_torch_dispatch_impl}
    assert (T.ones(1).as_subclass(type("Sub", (T.Tensor,), undispatched)) + 1).tolist() == [2.0]
    with pytest.raises(NotImplementedError, match="redispatch_function"):
        T.overrides.redispatch_function(T.add, (), (), {})


def test_compiled_functions_know_the_class_of_their_arguments():
    class Cosine(T.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is T.sin:
                return T.cos(*args)
            return super().__torch_function__(func, types, args, kwargs)

    class Sub(T.Tensor):
        pass

    run = T.compile(lambda x: T.sin(x) * 2)
    scaled = T.compile(lambda x: x.as_subclass(T.Tensor) * x.scale)
    for scale in (2, 3, T.ones(2), T.zeros(2)):
        x = Sub([1.0, 1.0])
        x.scale = scale
        assert T.equal(scaled(x), T.ones(2) * scale)
    plain = T.tensor([0.5, 1.0])
    for _ in range(2):
        for x in (plain, plain.as_subclass(Sub), plain.as_subclass(Cosine)):
            expected = T.sin(x) * 2
            assert type(run(x)) is type(x) and T.allclose(
                run(x).as_subclass(T.Tensor), expected.as_subclass(T.Tensor)
            )
    heard = []

    class Mode(T.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            heard.append(func.__name__)
            return func(*args, **(kwargs or {}))

    for _ in range(2):
        with Mode():
            run(plain)
    assert heard == ["sin", "mul"] * 2


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_transforms_give_plain_tensors():
    def run(library):
        class Sub(library.Tensor):
            pass

        inside = []

        def function(x):
            inside.append(kind(x))
            return (x * x).sum()

        x, f = Sub([1.0, 2.0]), library.func
        out = [
            f.grad(function)(x),
            f.vmap(lambda v: v * 2)(x),
            f.jacrev(function)(x),
            f.jvp(function, (x,), (x,)),
            f.vjp(function, x)[0],
        ]
        return [*map(kind, out), inside[0]]

    assert run(T) == run(torch)


def test_a_duck_wraps_tensors():
    class Metre:
        def __init__(self, value):
            self.value = value

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            bare = [
                [b.value if isinstance(b, Metre) else b for b in a]
                if isinstance(a, list)
                else getattr(a, "value", a)
                for a in args
            ]
            return Metre(func(*bare, **(kwargs or {})))

    x, weight = Metre(T.tensor([1.0, 2.0])), T.ones(2, 2, requires_grad=True)
    y = T.nn.functional.linear(x, weight)
    T.cat([y, x]).value.sum().backward()
    assert weight.grad.tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert (T.ones(2) + x).value.tolist() == [2.0, 3.0] and T.stack([x, x], 1).value.shape == (2, 2)


def test_gradients_go_through_subclasses():
    def run(library):
        class Sub(library.Tensor):
            pass

        leaf = library.tensor([1.0, 2.0], requires_grad=True)
        own = library.nn.Parameter(Sub([3.0, 4.0]))
        out = (leaf.as_subclass(Sub) * own).exp().sum()
        out.backward()
        second = library.autograd.grad((own * own * own).sum(), own, create_graph=True)[0]
        return [
            leaf.grad.tolist(),
            own.grad.tolist(),
            kind(out),
            kind(own.grad),
            kind(second),
            second.sum().item(),
            type(out.grad_fn).__name__,
        ]

    ours, theirs = run(T), run(torch)
    assert ours[2:5] == theirs[2:5] and ours[6] == theirs[6]
    assert T.allclose(T.tensor(ours[0] + ours[1]), T.tensor(theirs[0] + theirs[1])) and ours[5] == theirs[5]
