"""Containers: every program runs on torch and on this package and must do the same."""

from __future__ import annotations

from collections import OrderedDict

from nn_programs import same, tries


def test_sequential():
    def program(T):
        nn = T.nn
        make = lambda: nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Tanh())  # noqa: E731
        m = make()
        out = [
            repr(m),
            len(m),
            type(m[1]).__name__,
            type(m[-1]).__name__,
            repr(m[1:]),
            [type(c).__name__ for c in m],
        ]
        m[1] = nn.Sigmoid()
        del m[0]
        out += [repr(m), list(m._modules)]
        m = make()
        del m[::2]
        out.append(repr(m))
        m = make()
        out += [
            repr(m.append(nn.GELU())),
            repr(m.insert(1, nn.ELU())),
            repr(m.insert(-1, nn.SELU())),
            repr(m.extend([nn.Mish()])),
        ]
        out += [repr(m.pop(0)), repr(m.pop(-1)), repr(m)]
        m = make()
        out += [repr(m + make()), repr(m * 2), repr(2 * m)]
        m += make()
        m *= 2
        out += [repr(m), list(m.state_dict())]
        named = nn.Sequential(OrderedDict([("a", nn.ReLU()), ("b", nn.Tanh())]))
        out += [
            repr(named),
            repr(named[:1]),
            named.a is named[0],
            repr(named(T.tensor([-1.0, 0.0]))),
            repr(nn.Sequential()),
        ]
        del named[0]
        out += [repr(named), "0" in dir(named), [n for n in dir(m) if n.isdigit()]]
        return out

    same(program)


def test_sequential_errors():
    def program(T):
        m = T.nn.Sequential(T.nn.ReLU())
        return tries(
            lambda: m[1],
            lambda: m[-2],
            lambda: m["a"],
            lambda: m + 1,
            lambda: m.__iadd__([1]),
            lambda: m * 0,
            lambda: m * 1.5,
            lambda: m.__imul__(0),
            lambda: m.insert(5, T.nn.ReLU()),
            lambda: str(m.append(3)),
            lambda: T.nn.Sequential(3),
            lambda: T.nn.Sequential([T.nn.ReLU()]),
            lambda: m.__delitem__(4),
        )

    same(program)


def test_module_list():
    def program(T):
        nn = T.nn
        make = lambda: nn.ModuleList([nn.Linear(2, 2), nn.ReLU(), nn.ReLU(), nn.ReLU(), nn.Tanh()])  # noqa: E731
        m = make()
        out = [
            repr(m),
            len(m),
            repr(m[1:3]),
            repr(m[-1]),
            [type(c).__name__ for c in m],
            list(m.state_dict()),
        ]
        m[0] = nn.Sigmoid()
        m.insert(1, nn.GELU())
        out.append(repr(m))
        del m[0]
        out += [repr(m), repr(m.pop(0)), repr(m.pop(slice(0, 2))), repr(m)]
        m += [nn.ELU()]
        m.extend(nn.ModuleList([nn.SELU()]))
        out += [repr(m), repr(m + [nn.Mish()]), repr(m.append(nn.Identity())), repr(nn.ModuleList())]
        nested = nn.ModuleList([nn.Sequential(nn.Linear(1, 1), nn.ReLU()) for _ in range(2)])
        out += [repr(nested), [n for n in dir(m) if n.isdigit()], m.training]
        return out

    same(program)


def test_module_list_errors():
    def program(T):
        m = T.nn.ModuleList([T.nn.ReLU()])
        return tries(
            lambda: m[1],
            lambda: m[-2],
            lambda: m.extend(3),
            lambda: m.append(3),
            lambda: T.nn.ModuleList([3]),
            lambda: m(1),
            lambda: m.__setitem__(3, T.nn.ReLU()),
        )

    same(program)


def test_module_dict():
    def program(T):
        nn = T.nn
        m = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Tanh()})
        m["c"] = nn.Linear(1, 1)
        out = [repr(m), list(m), len(m), "a" in m, "z" in m, list(m.keys()), [k for k, _ in m.items()]]
        out += [[type(v).__name__ for v in m.values()], type(m["a"]).__name__, type(m.pop("b")).__name__]
        m.update([("x", nn.ELU()), ["y", nn.SELU()]])
        m.update(nn.ModuleDict({"z": nn.Mish()}))
        m.update(OrderedDict(w=nn.GELU()))
        out.append(repr(m))
        del m["x"]
        out.append(list(m))
        m.clear()
        out += [repr(m), repr(nn.ModuleDict([("q", nn.ReLU())]))]
        return out

    same(program)


def test_module_dict_errors():
    def program(T):
        m = T.nn.ModuleDict()
        return tries(
            lambda: m["a"],
            lambda: m.update(3),
            lambda: m.update([3]),
            lambda: m.update([("a", T.nn.ReLU(), 1)]),
            lambda: m.__setitem__("a.b", T.nn.ReLU()),
            lambda: m.__setitem__("keys", T.nn.ReLU()),
            lambda: m.__setitem__("a", 3),
            lambda: m.pop("a"),
        )

    same(program)


def test_parameter_list():
    def program(T):
        nn = T.nn
        m = nn.ParameterList([nn.Parameter(T.ones(2)), T.zeros(2, 3), "text", 5])
        m.append(T.ones(1, requires_grad=True) if False else T.ones(1))
        m += [nn.Parameter(T.ones(1, dtype=T.float64), requires_grad=False)]
        out = [
            repr(m),
            len(m),
            type(m[1]).__name__,
            m[2],
            [type(v).__name__ for v in m],
            list(m.state_dict()),
        ]
        m[0] = T.zeros(4)
        m[-1] = T.zeros(5)
        out += [
            repr(m),
            repr(m[1:3]),
            [n for n, _ in m.named_parameters()],
            repr(nn.ParameterList()),
            [n for n in dir(m) if n.isdigit()],
        ]
        return out

    same(program)


def test_parameter_list_errors():
    def program(T):
        m = T.nn.ParameterList([T.ones(1)])
        return tries(
            lambda: m[1], lambda: m[-2], lambda: m.extend(3), lambda: m.extend(T.ones(2)), lambda: m(1)
        )

    same(program)


def test_parameter_dict():
    def program(T):
        nn = T.nn
        m = nn.ParameterDict({"b": T.ones(2), "a": nn.Parameter(T.zeros(1, 2)), "c": 3})
        out = [
            repr(m),
            list(m),
            len(m),
            "a" in m,
            list(m.keys()),
            [k for k, _ in m.items()],
            [type(v).__name__ for v in m.values()],
        ]
        m["d"] = T.ones(3)
        m.update(OrderedDict(z=T.ones(1), y=T.ones(1)))
        m.update([("q", T.ones(1)), ["r", T.ones(2)]])
        out += [list(m), list(reversed(m)), list(m.state_dict()), m.get("nope"), m.get("c"), m.get("nope", 4)]
        out += [list(m.setdefault("new", T.ones(1)).shape), list(m.setdefault("new", T.ones(9)).shape)]
        out += [type(m.pop("b")).__name__, m.popitem()[0], list(m), list(m.copy())]
        other = nn.ParameterDict({"k": T.ones(1)})
        out += [list(m | other), list(other | m)]
        m |= other
        out.append(list(m))
        del m["k"]
        out += [list(m), list(m.fromkeys(["u", "v"], T.ones(1)))]
        m.clear()
        return out, repr(m), len(m)

    same(program)


def test_parameter_dict_errors():
    def program(T):
        m = T.nn.ParameterDict()
        return tries(
            lambda: m["a"],
            lambda: m.__setitem__(3, T.ones(1)),
            lambda: m.update(3),
            lambda: m.update([3]),
            lambda: m.update([("a", 1, 2)]),
            lambda: m(1),
            lambda: m.pop("a"),
        )

    same(program)
